# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Enumeration by the definitions, in plain loops, sharing nothing with the package."""

import itertools
import math
from collections.abc import Sequence
from functools import cache

import networkx as nx
import numpy as np

Heads = tuple[int, ...]


def is_projective_tree(heads: Sequence[int], multiroot: bool) -> bool:
    """Whether heads[c - 1] is the head of word c in a projective tree under ROOT, 0."""
    n = len(heads)
    graph = nx.DiGraph()
    graph.add_nodes_from(range(n + 1))
    graph.add_edges_from((h, c) for c, h in enumerate(heads, start=1))
    if not nx.is_arborescence(graph):
        return False
    if not multiroot and graph.out_degree(0) != 1:
        return False
    for h, c in graph.edges:
        below = nx.descendants(graph, h)
        if any(between not in below for between in range(min(h, c) + 1, max(h, c))):
            return False
    return True


@cache
def all_trees(n: int, multiroot: bool) -> list[Heads]:
    """The projective trees among all (n+1)^n vectors of heads, in lexicographic order."""
    vectors = itertools.product(range(n + 1), repeat=n)
    return [heads for heads in vectors if is_projective_tree(heads, multiroot)]


def events(heads: Heads, valences: int = 2) -> tuple[list[tuple[int, int, int]], list[tuple[int, int, int]]]:
    """Arcs (head, dependent, valence) and stops (head, direction, valence), heads' children nearest first."""
    n = len(heads)
    arcs, stops = [], []
    for h in range(n + 1):
        for direction, outwards in ((0, range(h - 1, 0, -1)), (1, range(h + 1, n + 1))):
            valence = 0
            for c in outwards:
                if heads[c - 1] == h:
                    arcs.append((h, c, valence))
                    valence = min(valence + 1, valences - 1)
            if h > 0:
                stops.append((h, direction, valence))
    return arcs, stops


def score(heads: Heads, arcs: np.ndarray, stops: np.ndarray | None) -> float:
    """Of one tree; arcs (n+1, n+1, V) and stops (n+1, 2, 2) of one sentence."""
    own_arcs, own_stops = events(heads)
    terms = [float(arcs[h, c, v if arcs.shape[-1] == 2 else 0]) for h, c, v in own_arcs]
    if stops is not None:
        terms += [float(stops[event]) for event in own_stops]
    return -math.inf if -math.inf in terms else math.fsum(terms)


class Enumeration:
    """Everything about one sentence without padding, tree by tree."""

    def __init__(self, arcs: np.ndarray, stops: np.ndarray | None, multiroot: bool) -> None:
        self.trees = all_trees(len(arcs) - 1, multiroot)
        self.scores = [score(heads, arcs, stops) for heads in self.trees]
        best = max(self.scores)
        weights = [math.exp(s - best) if best > -math.inf else 0.0 for s in self.scores]
        total = math.fsum(weights)
        self.log_z = best + math.log(total) if total > 0 else -math.inf
        self.probs = [w / total if total > 0 else 0.0 for w in weights]
        self.arc_marginals = np.zeros(arcs.shape)
        self.stop_marginals = np.zeros((len(arcs), 2, 2))
        for heads, p in zip(self.trees, self.probs, strict=True):
            own_arcs, own_stops = events(heads)
            for h, c, v in own_arcs:
                self.arc_marginals[h, c, v if arcs.shape[-1] == 2 else 0] += p
            for event in own_stops:
                self.stop_marginals[event] += p

    def entropy(self) -> float:
        return -math.fsum(p * math.log(p) for p in self.probs if p > 0)

    def ranked(self) -> list[float]:
        """Scores of the possible trees, best first."""
        return sorted((s for s in self.scores if s > -math.inf), reverse=True)
