# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Enumeration of dependency trees by the definitions, in plain loops, sharing nothing with the package.

A tree scores the sum of its parts, each an element of a table of scores: the name of the table and an index.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache

import networkx as nx
import numpy as np

Heads = tuple[int, ...]
Parts = list[tuple[str, tuple[int, ...]]]


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


def is_spanning_tree(heads: Sequence[int], multiroot: bool) -> bool:
    """Whether each word comes to ROOT, 0, by following heads, and ROOT has one child only; arcs may cross."""
    for d in range(1, len(heads) + 1):
        for _ in heads:
            d = heads[d - 1] if d > 0 else 0
        if d != 0:
            return False
    return multiroot or list(heads).count(0) == 1


@cache
def all_trees(n: int, multiroot: bool) -> list[Heads]:
    """The projective trees among all (n+1)^n vectors of heads, in lexicographic order."""
    vectors = itertools.product(range(n + 1), repeat=n)
    return [heads for heads in vectors if is_projective_tree(heads, multiroot)]


@cache
def all_spanning_trees(n: int, multiroot: bool) -> list[Heads]:
    """The trees among all (n+1)^n vectors of heads, in lexicographic order."""
    return [heads for heads in itertools.product(range(n + 1), repeat=n) if is_spanning_tree(heads, multiroot)]


def children(heads: Sequence[int]) -> list[tuple[int, int, list[int]]]:
    """Of each head and direction, 0 or 1, the children, nearest first."""
    n = len(heads)
    sides = [(h, d, side) for h in range(n + 1) for d, side in enumerate((range(h - 1, 0, -1), range(h + 1, n + 1)))]
    return [(h, d, [c for c in side if heads[c - 1] == h]) for h, d, side in sides]


def events(heads: Sequence[int], valences: int = 2) -> tuple[list[tuple[int, int, int]], list[tuple[int, int, int]]]:
    """Arcs (head, dependent, valence) and stops (head, direction, valence), heads' children nearest first."""
    arcs, stops = [], []
    for h, direction, own in children(heads):
        arcs += [(h, c, min(v, valences - 1)) for v, c in enumerate(own)]
        stops += [(h, direction, min(len(own), valences - 1))] if h else []
    return arcs, stops


def parts_by_valence(heads: Sequence[int], arcs: int, stops: int) -> Parts:
    """Arcs [head, dependent, valence] of so many valences, and stops [head, direction, valence], if there are any."""
    own_arcs, own_stops = events(heads, max(arcs, stops))
    found: Parts = [("arc", (h, c, min(v, arcs - 1))) for h, c, v in own_arcs]
    return found + [("stop", stop) for stop in own_stops if stops]


def parts_by_sibling(heads: Sequence[int], stops: bool) -> Parts:
    """Arcs, siblings [head, dependent, the child before or the head], stops [head, direction, last child or head]."""
    found: Parts = []
    for h, direction, own in children(heads):
        for before, c in itertools.pairwise([h, *own]):
            found += [("arc", (h, c)), ("sibling", (h, c, before))]
        found += [("stop", (h, direction, [h, *own][-1]))] if h and stops else []
    return found


def parts_by_arc(heads: Sequence[int]) -> Parts:
    return [("arc", (h, c)) for c, h in enumerate(heads, start=1)]


class TreeSums:
    """Everything about one sentence without padding, tree by tree.

    :param tables: scores, by name.
    :param parts: of a tree.
    """

    def __init__(self, trees: list[Heads], tables: Mapping[str, np.ndarray], parts: Callable[[Heads], Parts]) -> None:
        self.trees, each = trees, [parts(heads) for heads in trees]
        self.scores = []
        for own in each:
            terms = [float(tables[name][index]) for name, index in own]
            self.scores.append(-math.inf if -math.inf in terms else math.fsum(terms))
        best = max(self.scores)
        weights = [math.exp(s - best) if best > -math.inf else 0.0 for s in self.scores]
        total = math.fsum(weights)
        self.log_z = best + math.log(total) if total > 0 else -math.inf
        self.probs = [w / total if total > 0 else 0.0 for w in weights]
        self.marginals = {name: np.zeros(table.shape) for name, table in tables.items()}
        for own, p in zip(each, self.probs, strict=True):
            for name, index in own:
                self.marginals[name][index] += p

    def entropy(self) -> float:
        return -math.fsum(p * math.log(p) for p in self.probs if p > 0)

    def ranked(self) -> list[float]:
        """Scores of the possible trees, best first."""
        return sorted((s for s in self.scores if s > -math.inf), reverse=True)


class Enumeration(TreeSums):
    """Of projective trees; arcs (n+1, n+1, V) and stops (n+1, 2, 2) of one sentence."""

    def __init__(self, arcs: np.ndarray, stops: np.ndarray | None, multiroot: bool) -> None:
        tables = {"arc": arcs} | ({} if stops is None else {"stop": stops})
        super().__init__(
            all_trees(len(arcs) - 1, multiroot),
            tables,
            lambda heads: parts_by_valence(heads, arcs.shape[-1], 0 if stops is None else 2),
        )
        self.arc_marginals, self.stop_marginals = (self.marginals.get(name) for name in ("arc", "stop"))
