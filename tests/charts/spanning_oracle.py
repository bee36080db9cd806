# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Enumeration of all dependency trees, crossing arcs or not, in plain loops, sharing nothing with the package."""

import itertools
import math
from collections.abc import Sequence
from functools import cache

import numpy as np

Heads = tuple[int, ...]


def is_spanning_tree(heads: Sequence[int], multiroot: bool) -> bool:
    """Whether each word comes to ROOT, 0, by following heads, and ROOT has one child only."""
    for d in range(1, len(heads) + 1):
        for _ in heads:
            d = heads[d - 1] if d > 0 else 0
        if d != 0:
            return False
    return multiroot or list(heads).count(0) == 1


@cache
def all_spanning_trees(n: int, multiroot: bool) -> list[Heads]:
    """Those among all (n+1)^n vectors of heads, in lexicographic order."""
    return [heads for heads in itertools.product(range(n + 1), repeat=n) if is_spanning_tree(heads, multiroot)]


class Spanning:
    """Everything about one sentence without padding, tree by tree; logarithms, so for scores of any size.

    :param arcs: shape ``(n+1, n+1)`` [head, dependent].
    """

    def __init__(self, arcs: np.ndarray, multiroot: bool) -> None:
        n = len(arcs) - 1
        self.trees = all_spanning_trees(n, multiroot)
        rows = np.array(self.trees)
        # From the smallest up, so that great terms do not swallow what is small.
        self.scores = [math.fsum(sorted(arcs[rows[t], range(1, n + 1)])) for t in range(len(rows))]
        best = max(self.scores)
        weights = [math.exp(s - best) if best > -math.inf else 0.0 for s in self.scores]
        total = math.fsum(weights)
        self.log_z = best + math.log(total) if total > 0 else -math.inf
        self.probs = np.array([w / total if total > 0 else 0.0 for w in weights])
        self.indicators = np.zeros((len(rows), n + 1, n + 1))
        for d in range(1, n + 1):
            self.indicators[range(len(rows)), rows[:, d - 1], d] = 1
        self.marginals = np.tensordot(self.probs, self.indicators, 1)

    def entropy(self) -> float:
        return -math.fsum(p * math.log(p) for p in self.probs if p > 0)

    def covariance(self) -> np.ndarray:
        """Of the indicators of arcs [head, dependent, head, dependent]."""
        flat = self.indicators.reshape(len(self.probs), -1)
        second = (flat * self.probs[:, None]).T @ flat
        mean = self.marginals.flatten()
        return (second - np.outer(mean, mean)).reshape(self.marginals.shape * 2)

    def ranked(self) -> list[float]:
        """Scores of the possible trees, best first."""
        return sorted((s for s in self.scores if s > -math.inf), reverse=True)
