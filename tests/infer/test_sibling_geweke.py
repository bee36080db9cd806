# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Geweke's test: hyperparameters, sentences, trees and exact seats are drawn from the prior; steps change nothing.

Draws whose sentences are too long, or of one word, are rejected as a whole. The steps, which move hyperparameters, seats and trees and
leave the words alone, keep lengths, so the distribution of what is left is also theirs.
"""

from dataclasses import dataclass

import pyro.distributions as dist
import pytest
import torch
from scipy.stats import ks_2samp
from torch import Tensor

from pyrogram.charts.pitman_yor import Restaurants
from pyrogram.grammars.lexical_dependencies import SITES, LexicalDependencies
from pyrogram.grammars.lexical_parser import Franchise
from pyrogram.infer.sibling_hastings import SiblingHastings
from pyrogram.infer.slice_sampling import slice_sweep

S, W, C = 2, 2, 2
CONTEXTS = {
    "tags": (("parent_tag", "direction"), ("parent_tag", "parent_word", "sibling_tag", "direction")),
    "words": (("tag",), ("tag", "parent_tag")),
    "cases": (("tag",), ("tag", "word")),
}
GRAMMAR = LexicalDependencies(S, W, CONTEXTS, num_cases=C)
SENTENCES, SHORTEST, LONGEST = 2, 2, 5
DISCOUNT, STRENGTH = dist.Beta(2.0, 2.0), dist.Gamma(2.0, 1.0)


class TooLong(Exception):
    """A sentence of more than LONGEST words."""


@dataclass
class Draw:
    """All that is random; parameters and seats by site."""

    parameters: dict[str, Tensor]  # discounts, then strengths of two levels
    restaurants: dict[str, Restaurants]
    sentences: list[tuple[list[int], ...]]  # tags, words, cases, heads


def alpha_epsilon(parameters: Tensor) -> tuple[Tensor, Tensor]:
    return parameters[2:] - parameters[:2], parameters[:2]


class Generation:
    """Sentences from the wall down, one value after the other, each seated before the next."""

    def __init__(self) -> None:
        self.parameters = {site: torch.cat([DISCOUNT.sample((2,)), STRENGTH.sample((2,))]) for site in SITES}
        self.made = {site: Restaurants(2, GRAMMAR.num_values[site], "exact") for site in SITES}

    def value(self, site: str, features: dict[str, int]) -> int:
        keys = GRAMMAR.keys(site, {name: torch.tensor([f]) for name, f in features.items()})
        return int(self.made[site].draw(keys, *alpha_epsilon(self.parameters[site]))[0])

    def sentence(self) -> tuple[list[int], ...]:
        """Words are numbered in the order of the sentence when all are there: a tree of nested lists first."""
        self.size = 0
        root = self.child({"parent_tag": S, "parent_word": W, "parent_case": C, "direction": 1, "sibling_tag": S})
        assert root is not None
        columns: tuple[list[int], ...] = ([], [], [], [])
        positions: dict[int, int] = {}
        order: list[tuple[dict, int]] = []

        def walk(node: dict, parent: int) -> None:
            for left in reversed(node["left"]):
                walk(left, id(node))
            positions[id(node)] = len(order) + 1
            order.append((node, parent))
            for right in node["right"]:
                walk(right, id(node))

        walk(root, 0)
        for node, parent in order:
            for column, name in zip(columns, ("tag", "word", "case"), strict=False):
                column.append(node[name])
            columns[3].append(positions.get(parent, 0))
        return columns

    def child(self, context: dict[str, int]) -> dict | None:
        """A child with its descendants, or None for STOP."""
        tag = self.value("tags", context)
        if tag == S:
            if context["parent_tag"] == S:
                raise TooLong  # not a sentence at all: rejected like those that are too long
            return None
        self.size += 1
        if self.size > LONGEST:
            raise TooLong
        word = self.value("words", {**{k: v for k, v in context.items() if k != "sibling_tag"}, "tag": tag})
        case = self.value("cases", {"tag": tag, "word": word})
        node: dict = {"tag": tag, "word": word, "case": case}
        for direction, side in enumerate(("left", "right")):
            node[side], sibling = [], S
            while True:
                own = {"parent_tag": tag, "parent_word": word, "parent_case": case}
                found = self.child({**own, "direction": direction, "sibling_tag": sibling})
                if found is None:
                    break
                node[side].append(found)
                sibling = found["tag"]
        return node


def draw() -> Draw:
    """From the prior, given that every sentence is short enough."""
    while True:
        generation = Generation()
        try:
            sentences = [generation.sentence() for _ in range(SENTENCES)]
        except TooLong:
            continue
        if min(len(tags) for tags, *_ in sentences) < SHORTEST:
            continue
        return Draw(generation.parameters, generation.made, sentences)


def padded(sentences: list[tuple[list[int], ...]]) -> list[Tensor]:
    return [torch.tensor([s[i] + [-1] * (LONGEST - len(s[i])) for s in sentences]) for i in range(4)]


def move(given: Draw, steps: int, generator: torch.Generator) -> tuple[dict[str, Tensor], Tensor]:
    """Hyperparameters by slice sampling, seats by Gibbs sampling, trees by Metropolis-Hastings, in turn."""
    tags, words, cases, heads = padded(given.sentences)
    parameters = {site: p.clone() for site, p in given.parameters.items()}
    for _ in range(steps):
        for site in SITES:

            def density(point: Tensor, site: str = site) -> float:
                if not bool(((point[:2] > 0) & (point[:2] < 1) & (point[2:] > 0)).all()):
                    return -torch.inf
                prior = DISCOUNT.log_prob(point[:2]).sum() + STRENGTH.log_prob(point[2:]).sum()
                return float(prior + given.restaurants[site].log_joint(*alpha_epsilon(point)))

            parameters[site] = slice_sweep(density, parameters[site], generator)
            given.restaurants[site].reseat(*alpha_epsilon(parameters[site]), generator)
        franchises = {s: Franchise(given.restaurants[s], *alpha_epsilon(parameters[s])) for s in SITES}
        sampler = SiblingHastings(GRAMMAR, franchises, together=True, seated=True)
        sampler._generator = generator
        sampler.run(tags, words, cases, heads=heads, num_steps=1, progress=False)
        heads = sampler.heads
    return parameters, heads


def statistics(parameters: dict[str, Tensor], heads: Tensor, joint: float) -> dict[str, float]:
    """Numbers with hardly any ties: trees' are broken at random."""
    position = torch.arange(1, LONGEST + 1)
    real = heads >= 0
    found = {f"{site} {i}": float(x) for site, p in parameters.items() for i, x in enumerate(p)}
    found["left arcs"] = float(((heads > position) & real).sum() + torch.rand(()))
    found["length of arcs"] = float(((heads - position).abs() * (real & (heads > 0))).sum() + torch.rand(()))
    found["root"] = float(((heads == 0) * position).sum() + torch.rand(()))
    found["joint"] = joint
    return found


def joint_of(given: Draw, parameters: dict[str, Tensor]) -> float:
    return float(sum(given.restaurants[s].log_joint(*alpha_epsilon(parameters[s])) for s in SITES))


@pytest.mark.slow
def test_trees_and_hyperparameters_stay_distributed_as_the_prior() -> None:
    generator = torch.Generator().manual_seed(0)
    replicates, steps = 400, 5
    before: dict[str, list[float]] = {}
    after: dict[str, list[float]] = {}
    changed = 0
    for number in range(2 * replicates):
        given = draw()
        heads = padded(given.sentences)[3]
        if number % 2:  # other draws than those that are moved: the two samples are independent
            for name, x in statistics(given.parameters, heads, joint_of(given, given.parameters)).items():
                before.setdefault(name, []).append(x)
            continue
        parameters, moved = move(given, steps, generator)
        changed += int((moved != heads).any())
        for name, x in statistics(parameters, moved, joint_of(given, parameters)).items():
            after.setdefault(name, []).append(x)
    assert changed > replicates / 5
    p_values = {name: ks_2samp(before[name], after[name]).pvalue for name in before}
    assert min(p_values.values()) > 1e-3 / len(p_values), p_values
