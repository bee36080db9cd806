# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Second-order events and enumeration by the definitions, in plain loops, sharing nothing with the package."""

import math
from collections.abc import Sequence

import numpy as np
from oracle import all_trees


def events(heads: Sequence[int]) -> tuple[list[tuple[int, int, int]], list[tuple[int, int, int]]]:
    """Arcs (head, dependent, sibling or head) and stops (head, direction, last child or head)."""
    n = len(heads)
    arcs, stops = [], []
    for h in range(n + 1):
        for direction, outwards in ((0, range(h - 1, 0, -1)), (1, range(h + 1, n + 1))):
            last = h
            for c in outwards:
                if heads[c - 1] == h:
                    arcs.append((h, c, last))
                    last = c
            if h > 0:
                stops.append((h, direction, last))
    return arcs, stops


class Enumeration:
    """Everything about one sentence without padding, tree by tree."""

    def __init__(self, arcs: np.ndarray, siblings: np.ndarray, stops: np.ndarray | None, multiroot: bool) -> None:
        self.trees = all_trees(len(arcs) - 1, multiroot)
        self.scores = [self.score(heads, arcs, siblings, stops) for heads in self.trees]
        best = max(self.scores)
        weights = [math.exp(s - best) if best > -math.inf else 0.0 for s in self.scores]
        total = math.fsum(weights)
        self.log_z = best + math.log(total) if total > 0 else -math.inf
        self.probs = [w / total if total > 0 else 0.0 for w in weights]
        N = len(arcs)
        self.marginals = np.zeros((N, N)), np.zeros((N, N, N)), np.zeros((N, 2, N))
        for heads, p in zip(self.trees, self.probs, strict=True):
            own_arcs, own_stops = events(heads)
            for event in own_arcs:
                self.marginals[0][event[:2]] += p
                self.marginals[1][event] += p
            for event in own_stops:
                self.marginals[2][event] += p

    @staticmethod
    def score(heads: Sequence[int], arcs: np.ndarray, siblings: np.ndarray, stops: np.ndarray | None) -> float:
        own_arcs, own_stops = events(heads)
        terms = [float(arcs[event[:2]]) for event in own_arcs] + [float(siblings[event]) for event in own_arcs]
        if stops is not None:
            terms += [float(stops[event]) for event in own_stops]
        return -math.inf if -math.inf in terms else math.fsum(terms)

    def entropy(self) -> float:
        return -math.fsum(p * math.log(p) for p in self.probs if p > 0)

    def ranked(self) -> list[float]:
        """Scores of the possible trees, best first."""
        return sorted((s for s in self.scores if s > -math.inf), reverse=True)
