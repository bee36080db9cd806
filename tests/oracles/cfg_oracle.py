# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Derivations under context-free grammars, one by one and by the definitions, sharing nothing with the package.

A tree is ``(event, symbol, i, k, children)``: a rule or a match (without children) at words i .. k - 1.
"""

import functools
import itertools
import math
from dataclasses import dataclass, field

import numpy as np

Tree = tuple


@dataclass
class Case:
    """A grammar and sentences as plain lists; matches (b, i, k, symbol, event)."""

    num_symbols: int
    num_events: int
    binary: list
    unary: list
    lengths: list
    matches: list
    _kept: dict = field(default_factory=dict, init=False, repr=False, compare=False)

    def trees(self, b: int) -> list[Tree]:
        return [tree for tree, _ in self.derivations(b)]

    def derivations(self, b: int) -> list[tuple[Tree, tuple[int, ...]]]:
        """Trees and their events; listed once."""
        key = b, tuple(self.matches)
        if key not in self._kept:
            self._kept[key] = [(tree, events(tree)) for tree in self._below(b, 0, 0, self.lengths[b])]
        return self._kept[key]

    def _below(self, b: int, A: int, i: int, k: int) -> list[Tree]:
        found = [(e, A, i, k, ()) for c, x, y, s, e in self.matches if (c, x, y, s) == (b, i, k, A)]
        for parent, left, right, event in self.binary:
            if parent == A:
                for j in range(i + 1, k):
                    both = itertools.product(self._below(b, left, i, j), self._below(b, right, j, k))
                    found += [(event, A, i, k, pair) for pair in both]
        for parent, child, event in self.unary:
            if parent == A:
                found += [(event, A, i, k, (t,)) for t in self._below(b, child, i, k)]
        return found


def nodes(tree: Tree) -> list[Tree]:
    """Top down, left to right."""
    return [tree, *itertools.chain.from_iterable(nodes(child) for child in tree[4])]


def events(tree: Tree) -> tuple[int, ...]:
    return tuple(node[0] for node in nodes(tree) if node[0] >= 0)


def anchored(tree: Tree) -> list:
    """The rules of a tree with events, with their spans and the spans of their children."""
    return [(e, A, i, k, *(child[2:4] for child in below)) for e, A, i, k, below in nodes(tree) if e >= 0]


def score(ids: tuple[int, ...], log_weights: list[float]) -> float:
    terms = [log_weights[e] for e in ids]
    return -math.inf if -math.inf in terms else math.fsum(terms)


class Enumeration:
    """Everything about one sentence, tree by tree; ``trees`` are those of positive weight."""

    def __init__(self, case: Case, b: int, log_weights: np.ndarray) -> None:
        logs = [float(w) for w in log_weights]
        scored = [(tree, ids, score(ids, logs)) for tree, ids in case.derivations(b)]
        scored = [(tree, ids, s) for tree, ids, s in scored if s > -math.inf]
        self.trees, self.scores = [t for t, _, _ in scored], [s for *_, s in scored]
        self._numbers = {ids: number for number, (_, ids, _) in enumerate(scored)}
        best = max(self.scores, default=0.0)
        weights = [math.exp(s - best) for s in self.scores]
        total = math.fsum(weights)
        self.log_z = best + math.log(total) if total > 0 else -math.inf
        self.probs = [w / total for w in weights]
        counts = [0.0] * len(log_weights)
        for (_, ids, _), p in zip(scored, self.probs, strict=True):
            for e in ids:
                counts[e] += p
        self.counts = np.array(counts)
        self._shape = case.lengths[b] + 1, case.lengths[b] + 1, case.num_symbols

    @functools.cached_property
    def spans(self) -> np.ndarray:
        found = np.zeros(self._shape)
        for tree, p in zip(self.trees, self.probs, strict=True):
            for _, A, i, k, _ in nodes(tree):
                found[i, k, A] += p
        return found

    @functools.cached_property
    def anchored(self) -> dict:
        found: dict = {}
        for tree, p in zip(self.trees, self.probs, strict=True):
            for rule in anchored(tree):
                found[rule] = found.get(rule, 0.0) + p
        return found

    def right_spans(self, tree: Tree) -> float:
        """Expected number of right labelled spans."""
        return sum(self.spans[i, k, A] for e, A, i, k, _ in nodes(tree) if e >= 0)

    def right_rules(self, tree: Tree) -> float:
        return sum(self.anchored[rule] for rule in anchored(tree))

    def number_of(self, ids: list[int]) -> int:
        """Which of the trees has a derivation; trees must differ in their events."""
        assert len(self._numbers) == len(self.trees)
        return self._numbers[tuple(e for e in ids if e >= 0)]
