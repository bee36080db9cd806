# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Getting it right (Geweke 2004): hyperparameters, sentences, trees and seats are drawn from the model; steps of the
sampler leave their distribution as it is.

Draws are made with dictionaries. Those with a sentence that is too long or too short are rejected as a whole: what is
left has the same conditional distribution of trees, seats and hyperparameters given words and tags, which stay.
"""

import math
import random
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyro.distributions as dist
import pytest
import torch
from torch import Tensor

from pyrogram.grammars.lexical_dependencies import SITES, LexicalDependencies
from pyrogram.grammars.lexical_parser import PitmanYorPredictor
from pyrogram.infer.lexical.hastings import SiblingHastings
from pyrogram.infer.samplers.latents import slice_sweep
from pyrogram.restaurants.restaurants import Restaurants
from pyrogram.restaurants.trials import TrialSeating

S, W, C = 2, 2, 1
CONTEXTS = {
    "tags": (("direction",), ("parent_tag", "parent_word", "sibling_tag", "direction")),
    "words": (("tag",), ("tag", "parent_tag", "parent_word")),
    "cases": (("tag",),),
}
GRAMMAR = LexicalDependencies(S, W, CONTEXTS, num_cases=C)
#: STOP is likely, so that sentences end.
BASE = {"tags": [0.2, 0.2, 0.6], "words": [0.5, 0.5], "cases": [1.0]}
SENTENCES, SHORTEST, LONGEST = 2, 3, 6
DISCOUNT, STRENGTH = (1.0, 1.0), (1.5, 1.0)  # of a beta, and of a gamma distribution
Features = dict[str, int]


class Rejected(Exception):
    """A sentence of the wrong length."""


@dataclass
class Franchises:
    """Table sizes by site, level and context, as pairs [value, size]; and which seat each observation took."""

    alpha: dict[str, list[float]]
    epsilon: dict[str, list[float]]
    tables: dict[Any, list[list[int]]] = field(default_factory=lambda: defaultdict(list))
    seen: dict[str, list[tuple[Features, int, list[int]]]] = field(default_factory=lambda: {s: [] for s in SITES})

    def draw(self, site: str, features: Features) -> int:
        """A value, seated; its seats are noted as the size of its table then, or 0 where it did not come."""
        notes = [0] * len(CONTEXTS[site])
        value = self._sit(site, features, len(notes) - 1, notes)
        self.seen[site].append((features, value, notes))
        return value

    def _sit(self, site: str, features: Features, level: int, notes: list[int]) -> int:
        if level < 0:
            return random.choices(range(len(BASE[site])), BASE[site])[0]
        alpha, epsilon = self.alpha[site][level], self.epsilon[site][level]
        tables = self.tables[site, level, tuple(features[name] for name in CONTEXTS[site][level])]
        weights = [size - epsilon for _, size in tables] + [alpha + epsilon * len(tables)]
        chosen = random.choices(range(len(weights)), weights)[0] if tables else 0
        if chosen == len(tables):
            tables.append([self._sit(site, features, level - 1, notes), 0])
        tables[chosen][1] += 1
        notes[level] = tables[chosen][1]
        return tables[chosen][0]

    def sentence(self) -> list[list[int]]:
        """Tags, words, cases and heads of a sentence that is generated from ROOT down."""
        self.nodes: list[dict[str, Any]] = []
        root = self._child({"parent_tag": S, "parent_word": W, "parent_case": C, "direction": 1, "sibling_tag": S})
        if root is None or len(self.nodes) < SHORTEST:
            raise Rejected
        order: list[dict[str, Any]] = []
        self._in_order(root, order)
        for m, node in enumerate(order, 1):
            node["position"] = m
        heads = {child["position"]: h["position"] for h in order for side in h["children"] for child in side}
        columns = [[node[name] for node in order] for name in ("tag", "word", "case")]
        return [*columns, [heads.get(m, 0) for m in range(1, len(order) + 1)]]

    def _in_order(self, node: dict[str, Any], order: list[dict[str, Any]]) -> None:
        left, right = node["children"]
        for child in reversed(left):
            self._in_order(child, order)
        order.append(node)
        for child in right:
            self._in_order(child, order)

    def _child(self, context: Features) -> dict[str, Any] | None:
        """A child with its descendants, or None for STOP."""
        tag = self.draw("tags", context)
        if tag == S:
            return None
        word = self.draw("words", {**context, "tag": tag})
        node = {"tag": tag, "word": word, "case": self.draw("cases", {"tag": tag, "word": word}), "children": ([], [])}
        self.nodes.append(node)
        if len(self.nodes) > LONGEST:
            raise Rejected
        for direction, side in enumerate(node["children"]):
            own = {"parent_tag": tag, "parent_word": word, "parent_case": node["case"], "direction": direction}
            while (found := self._child({**own, "sibling_tag": side[-1]["tag"] if side else S})) is not None:
                side.append(found)
        return node


@dataclass
class State:
    """All that is random: discounts, then strengths of all levels; seats; tags, words, cases and heads, padded."""

    parameters: dict[str, Tensor]
    restaurants: dict[str, Restaurants]
    columns: list[Tensor]

    def alpha_epsilon(self, site: str, point: Tensor | None = None) -> tuple[Tensor, Tensor]:
        discount, strength = (self.parameters[site] if point is None else point).chunk(2)
        return strength - discount, discount

    def statistics(self) -> list[float]:
        """Of each thing alone, and of what trees, seats and hyperparameters have to do with one another."""
        heads, n = self.columns[3], LONGEST
        position, real = torch.arange(1, n + 1), heads > 0
        left, length = (heads > position) & real, (heads - position).abs() * real
        depth, above = torch.zeros(len(heads)), heads.clamp_min(0)
        ancestors = torch.nn.functional.pad(above, (1, 0))
        for _ in range(n):
            depth += (above > 0).sum(-1)
            above = ancestors.gather(1, above)
        root = ((heads == 0) * position).sum(-1)
        leaves = sum(int((heads == h).any(-1).sum()) for h in range(1, n + 1))
        trees = [float(x.double().sum()) for x in (left, length, depth, root, (length == 1).double())]
        draws, joint = [], 0.0
        for site, made in self.restaurants.items():
            joint += float(made.log_joint(*self.alpha_epsilon(site)))
            levels = range(made.num_levels)
            draws += [
                float(x) for level in levels for x in (made.table(level).t.sum(), (made.table(level).c > 1).sum())
            ]
        numbers = torch.cat(list(self.parameters.values()))
        mixed = [float(self.parameters["tags"][i] * x) for i in range(4) for x in (trees[0], draws[0], draws[2])]
        return [*trees, float(leaves), *draws, joint, *numbers.tolist(), *numbers.log().tolist(), *mixed]


def draw() -> State:
    """From the model, given that sentences have the right lengths."""
    while True:
        parameters, made = {}, Franchises({}, {})
        for site in SITES:
            levels = len(CONTEXTS[site])
            discount = [random.betavariate(*DISCOUNT) for _ in range(levels)]
            strength = [random.gammavariate(*STRENGTH) for _ in range(levels)]
            parameters[site] = torch.tensor(discount + strength)
            made.epsilon[site] = discount
            made.alpha[site] = [s - d for s, d in zip(strength, discount, strict=True)]
        try:
            sentences = [made.sentence() for _ in range(SENTENCES)]
        except Rejected:
            continue
        columns = [torch.tensor([s[i] + [-1] * (LONGEST - len(s[i])) for s in sentences]) for i in range(4)]
        state = State(parameters, {}, columns)
        for site in SITES:
            state.restaurants[site] = seated(site, made.seen[site], *state.alpha_epsilon(site))
        return state


def seated(site: str, seen: list[tuple[Features, int, list[int]]], alpha: Tensor, epsilon: Tensor) -> Restaurants:
    found = Restaurants(len(CONTEXTS[site]), GRAMMAR.num_values[site], "exact", base=torch.tensor(BASE[site]))
    names = CONTEXTS[site][-1]
    keys = GRAMMAR.keys(site, {name: torch.tensor([features[name] for features, *_ in seen]) for name in names})
    notes = np.array([notes for *_, notes in seen], np.int32)
    TrialSeating(found, alpha, epsilon).undo_unseat(keys, torch.tensor([value for _, value, _ in seen]), notes)
    return found


def move(state: State, generator: torch.Generator) -> None:
    """Trees by Metropolis-Hastings, seats by Gibbs sampling, hyperparameters of a site by slice sampling."""
    predictors = {s: PitmanYorPredictor(state.restaurants[s], *state.alpha_epsilon(s)) for s in SITES}
    seed = int(torch.randint(2**31, (), generator=generator))
    sampler = SiblingHastings(GRAMMAR, predictors, together=True, seated=True, seed=seed)
    *sentences, heads = state.columns
    state.columns[3] = sampler.run(*sentences, heads=heads, num_steps=2, progress=False).heads
    for site in ("tags", "words"):
        state.restaurants[site].reseat(*state.alpha_epsilon(site), generator)
    site = SITES[int(torch.randint(2, (), generator=generator))]

    def density(point: Tensor) -> float:
        discount, strength = point.chunk(2)
        if not bool(((discount > 0) & (discount < 1) & (strength > 0)).all()):
            return -math.inf
        prior = dist.Beta(*DISCOUNT).log_prob(discount).sum() + dist.Gamma(*STRENGTH).log_prob(strength).sum()
        return float(prior + state.restaurants[site].log_joint(*state.alpha_epsilon(site, point)))

    state.parameters[site] = slice_sweep(density, state.parameters[site], generator)


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_trees_seats_and_hyperparameters_stay_distributed_as_in_the_model() -> None:
    random.seed(0)
    generator = torch.Generator().manual_seed(0)
    differences, moved = [], 0
    for _ in range(1500):
        state = draw()
        before, heads = state.statistics(), state.columns[3]
        move(state, generator)
        differences.append(np.subtract(state.statistics(), before))
        moved += bool((state.columns[3] != heads).any())
    assert moved > 500
    table = np.array(differences)
    spread = table.std(0)
    z = table.mean(0)[spread > 0] / spread[spread > 0] * math.sqrt(len(table))
    assert len(z) > 30
    assert np.abs(z).max() < 4.2, z  # a chance of one in a thousand for 40 independent ones
