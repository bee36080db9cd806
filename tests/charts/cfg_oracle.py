# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Derivations under context-free grammars, one by one and by the definitions, sharing nothing with the package.

A tree is ``(event, symbol, i, k, children)``: a rule or a match (without children) at words i .. k - 1.
"""

import itertools
import math
from dataclasses import dataclass

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

    def trees(self, b: int) -> list[Tree]:
        return self._below(b, 0, 0, self.lengths[b])

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


def score(tree: Tree, log_weights: np.ndarray) -> float:
    terms = [float(log_weights[e]) for e in events(tree)]
    return -math.inf if -math.inf in terms else math.fsum(terms)


class Enumeration:
    """Everything about one sentence, tree by tree; ``trees`` are those of positive weight."""

    def __init__(self, case: Case, b: int, log_weights: np.ndarray) -> None:
        scored = [(tree, score(tree, log_weights)) for tree in case.trees(b)]
        scored = [(tree, s) for tree, s in scored if s > -math.inf]
        self.trees, self.scores = [t for t, _ in scored], [s for _, s in scored]
        self._numbers = {events(tree): number for number, tree in enumerate(self.trees)}
        best = max(self.scores, default=0.0)
        weights = [math.exp(s - best) for s in self.scores]
        total = math.fsum(weights)
        self.log_z = best + math.log(total) if total > 0 else -math.inf
        self.probs = [w / total for w in weights]
        self.counts = np.zeros(len(log_weights))
        n = case.lengths[b]
        self.spans = np.zeros((n + 1, n + 1, case.num_symbols))
        self.anchored: dict = {}
        for tree, p in zip(self.trees, self.probs, strict=True):
            for e in events(tree):
                self.counts[e] += p
            for _, A, i, k, _ in nodes(tree):
                self.spans[i, k, A] += p
            for rule in anchored(tree):
                self.anchored[rule] = self.anchored.get(rule, 0.0) + p

    def right_spans(self, tree: Tree) -> float:
        """Expected number of right labelled spans."""
        return sum(self.spans[i, k, A] for e, A, i, k, _ in nodes(tree) if e >= 0)

    def right_rules(self, tree: Tree) -> float:
        return sum(self.anchored[rule] for rule in anchored(tree))

    def number_of(self, ids: list[int]) -> int:
        """Which of the trees has a derivation; trees must differ in their events."""
        assert len(self._numbers) == len(self.trees)
        return self._numbers[tuple(e for e in ids if e >= 0)]
