# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Exact draws of weights, sentences and trees of a DMV, and numbers of such draws whose distributions can be compared.

Whole draws, weights included, are thrown away until all sentences have an allowed length. That is an event of the
words alone, so given the words the posterior is that of the model: a tree's length, redrawn on its own, would not do.
"""

import random
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy import stats
from torch import Tensor

from pyrogram import models
from pyrogram.grammars import DMV
from pyrogram.infer.samplers.trees import TreeSampler

SENTENCES, SHORTEST, LONGEST = 3, 4, 8
GRAMMAR = DMV(2)
# Far from symmetric in tags, directions and valences: a broken sampler cannot get wrong what a symmetry fixes. One tag
# heads and the other depends, mostly, so that not too many draws are thrown away.
ALPHA = {
    "root": torch.tensor([1.5, 0.4], dtype=torch.float64),
    "attach": torch.tensor([[[0.4, 1.4], [0.5, 1.0]], [[0.7, 0.6], [0.3, 0.8]]], dtype=torch.float64),
    "stop": torch.tensor(
        [
            [[[1.6, 0.6], [0.5, 1.5]], [[1.2, 0.5], [0.9, 1.6]]],
            [[[0.3, 2.0], [0.5, 1.0]], [[0.5, 1.6], [0.4, 0.9]]],
        ],
        dtype=torch.float64,
    ),
}


class WrongLength(Exception):
    """A sentence has more or fewer words than is allowed."""


@dataclass
class Draws:
    """R draws: weights by block (R, ...), words (R, SENTENCES, LONGEST) and heads, padded with -1."""

    weights: dict[str, Tensor]
    words: Tensor
    heads: Tensor


class Generation:
    """A tree, grown from the root, each side from the nearest child outwards."""

    def __init__(self, root: list[Any], attach: list[Any], stop: list[Any], source: random.Random) -> None:
        self.root, self.attach, self.stop, self.source = root, attach, stop, source

    def sentence(self) -> tuple[list[int], list[int]]:
        self.size = 0
        words, heads, own = self.branch(self.event(self.root))
        if self.size < SHORTEST:
            raise WrongLength
        heads[own] = -1
        padding = [-1] * (LONGEST - self.size)
        return words + padding, [h + 1 for h in heads] + padding

    def event(self, probabilities: list[float]) -> int:
        return int(self.source.random() >= probabilities[0])

    def branch(self, tag: int) -> tuple[list[int], list[int], int]:
        """Tags and heads of a word and its descendants, in order and counted from zero, and the word's own place."""
        self.size += 1
        if self.size > LONGEST:
            raise WrongLength
        sides: list[list[tuple[list[int], list[int], int]]] = [[], []]
        for direction, children in enumerate(sides):
            while self.event(self.stop[tag][direction][int(len(children) > 0)]) == 0:
                children.append(self.branch(self.event(self.attach[tag][direction])))
        own = sum(len(words) for words, _, _ in sides[0])
        words: list[int] = []
        heads: list[int] = []
        for child in [*sides[0][::-1], None, *sides[1]]:
            start = len(words)
            if child is None:
                words.append(tag)
                heads.append(own)
                continue
            words += child[0]
            heads += [start + h for h in child[1]]
            heads[start + child[2]] = own
        return words, heads, own


def exact_draws(number: int, seed: int) -> Draws:
    """From the prior, given that all sentences have an allowed length."""
    source, found = random.Random(seed), []
    torch.manual_seed(seed)
    while len(found) < number:
        many = {n: torch.distributions.Dirichlet(a).sample((512,)).tolist() for n, a in ALPHA.items()}
        for weights in zip(*many.values(), strict=True):
            generation = Generation(*weights, source)
            try:
                found.append((*weights, [generation.sentence() for _ in range(SENTENCES)]))
            except WrongLength:
                continue
    *weights, sentences = (list(column) for column in zip(*found[:number], strict=True))
    words, heads = torch.tensor(sentences).unbind(-2)
    return Draws({n: torch.tensor(w) for n, w in zip(ALPHA, weights, strict=True)}, words, heads)


def statistics(draws: Draws) -> dict[str, np.ndarray]:
    """Numbers (R,) of trees, of weights and of both."""
    w, heads = draws.weights, draws.heads
    f = {n: c.double().sum(1) for n, c in GRAMMAR.counts(draws.words, heads).items()}
    position = torch.arange(1, LONGEST + 1)
    arcs, length = heads > 0, (heads - position).abs()
    found = {
        "right arcs": (arcs & (heads < position)).sum((1, 2)),
        "length of arcs": (arcs * length).sum((1, 2)),
        "place of roots": ((heads == 0) * position).sum((1, 2)),
        "depth": depth(heads),
        "tag of roots": f["root"][:, 0],
        "heads with a left child": f["stop"][:, :, 0, 1, 1].sum(1),
        "heads with a right child": f["stop"][:, :, 1, 1, 1].sum(1),
        "arcs between like tags": f["attach"][:, 0, :, 0].sum(1) + f["attach"][:, 1, :, 1].sum(1),
        "log P(x, t | alpha)": sum(collapsed(f[n], a) for n, a in ALPHA.items()),
        "log p(x, t | w)": sum(torch.xlogy(c, w[n]).flatten(1).sum(1) for n, c in f.items()),
        "root": w["root"][:, 0],
        "attach": w["attach"][:, 0, 1, 0],
        "stop": w["stop"][:, 1, 0, 0, 0],
        "squares of root": w["root"].square().sum(1),
        "squares of attach": w["attach"].square().flatten(1).sum(1),
        "squares of stop": w["stop"].square().flatten(1).sum(1),
        "log w": sum(w[n].clamp_min(1e-12).log().flatten(1).sum(1) for n in w),
    }
    return {name: x.double().numpy() for name, x in found.items()}


def collapsed(f: Tensor, alpha: Tensor) -> Tensor:
    """log of the product over multinomials of B(f + α) / B(α), shape (R,)."""
    each = (torch.lgamma(f + alpha) - torch.lgamma(alpha)).sum(-1)
    each = each - torch.lgamma((f + alpha).sum(-1)) + torch.lgamma(alpha.sum(-1))
    return each.reshape(len(f), -1).sum(1)


def depth(heads: Tensor) -> Tensor:
    """Sum over all words of the number of arcs from ROOT, shape (R,)."""
    above = torch.cat([torch.zeros_like(heads[..., :1]), heads.clamp_min(0)], -1)
    place, total = heads.clamp_min(0), (heads >= 0).sum((1, 2))
    for _ in range(LONGEST):
        total = total + (place > 0).sum((1, 2))
        place = above.gather(-1, place)
    return total


def mean_p_value(before: Draws, after: Draws) -> float:
    """That no statistic's mean changes, from paired differences; two-sided, and Bonferroni's for all statistics."""
    old, new = statistics(before), statistics(after)
    return min(float(stats.ttest_rel(old[n], new[n]).pvalue) for n in old) * len(old)


def rank_p_value(truth: Draws, samples: list[Draws]) -> float:
    """That the rank of the truth among samples is uniform for all statistics, ties broken at random; Bonferroni's."""
    source = np.random.default_rng(0)
    true, drawn = statistics(truth), [statistics(s) for s in samples]
    p_values = []
    for name, x in true.items():
        others = np.stack([d[name] for d in drawn])
        ties = np.isclose(others, x, rtol=1e-9, atol=1e-9)
        ranks = (~ties & (others < x)).sum(0) + source.integers(0, ties.sum(0) + 1)
        p_values.append(float(stats.chisquare(np.bincount(ranks, minlength=len(samples) + 1)).pvalue))
    return min(p_values) * len(p_values)


def start(sampler: type[TreeSampler], words: Tensor, seed: int, grammar: DMV = GRAMMAR) -> TreeSampler:
    kernel = sampler(models.dirichlet.dirichlet, seed=seed, initial_weights="random", batch_size=2, keep_parts=False)
    kernel.setup(0, words, grammar, concentration=ALPHA)
    return kernel


def geweke(sampler: type[TreeSampler], draws: Draws, *, grammar: DMV = GRAMMAR, sweeps: int = 2) -> Draws:
    """Every draw's trees after a few sweeps that start from them, and weights given these."""
    found = []
    for seed, (words, heads) in enumerate(zip(draws.words, draws.heads, strict=True)):
        kernel = start(sampler, words, seed, grammar)
        problem, state = kernel._present()
        kernel._state = kernel._recounted(problem, replace(state, derivations={"words": heads.clone()}))
        for _ in range(sweeps):
            weights = kernel.sample({})
        found.append((weights, kernel.trees()))
    return gathered(found, draws.words)


def posterior_samples(sampler: type[TreeSampler], words: Tensor, number: int, burn_in: int, thin: int) -> list[Draws]:
    """Samples of chains that start from random trees, one chain for the words of each draw."""
    found: list[list[tuple[dict[str, Tensor], Tensor]]] = [[] for _ in range(number)]
    for seed, corpus in enumerate(words):
        kernel = start(sampler, corpus, seed)
        for _ in range(burn_in):
            kernel.sample({})
        for sample in found:
            for _ in range(thin):
                weights = kernel.sample({})
            sample.append((weights, kernel.trees()))
    return [gathered(sample, words) for sample in found]


def gathered(found: list[tuple[dict[str, Tensor], Tensor]], words: Tensor) -> Draws:
    return Draws({n: torch.stack([w[n] for w, _ in found]) for n in ALPHA}, words, torch.stack([h for _, h in found]))
