# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Recursions of the literature, as pages: what the tests of the language and of all back-ends run through."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pyrogram.distributions.grandparent_tree import third_order
from pyrogram.recursion import Recursion, recursion


@recursion
def projective(p: Any) -> None:
    """Plain projective trees (Eisner 1996), ROOT's arcs in row 0 of the table."""
    i, j, k, r = p.positions("i j k r")
    RC, LC, IR, IL, Z = p.items("RC LC IR IL Z")
    arc = p.weights("arc")
    _halves(i, j, k, RC, LC, IR, IL, arc)
    Z[()] += arc[0, r] * LC[1, r] * RC[r, p.n]


def _halves(i: Any, j: Any, k: Any, RC: Any, LC: Any, IR: Any, IL: Any, arc: Any) -> None:
    """Complete and incomplete half-trees to the right and to the left, a macro."""
    RC[i, i] += 1
    LC[i, i] += 1
    IR[i, j] += arc[i, j] * RC[i, k] * LC[k + 1, j]
    IL[i, j] += arc[j, i] * RC[i, k] * LC[k + 1, j]
    RC[i, j] += IR[i, k] * RC[k, j]
    LC[i, j] += LC[i, k] * IL[k, j]


@recursion
def several_roots(p: Any) -> None:
    """Projective trees whose ROOT has any number of children: a chain W of trees T."""
    i, j, k, r = p.positions("i j k r")
    RC, LC, IR, IL, T, W, Z = p.items("RC LC IR IL T W Z")
    arc, root = p.weights("arc root")
    _halves(i, j, k, RC, LC, IR, IL, arc)
    T[i, j] += root[r] * LC[i, r] * RC[r, j]
    W[j] += T[1, j] + W[k] * T[k + 1, j]
    Z[()] += W[p.n]


@recursion
def siblings(p: Any) -> None:
    """Second-order trees (McDonald and Pereira 2006): an arc knows the child before it, or the head."""
    i, j, k, r = p.positions("i j k r")
    RC, LC, IR, IL, B, Z = p.items("RC LC IR IL B Z")
    sibling = p.weights("sibling")
    root = p.weights("root")
    RC[i, i] += 1
    LC[i, i] += 1
    IR[i, j] += sibling[i, j, i] * RC[i, i] * LC[i + 1, j] + sibling[i, j, k] * IR[i, k] * B[k, j]
    IL[i, j] += sibling[j, i, j] * RC[i, j - 1] * LC[j, j] + sibling[j, i, k] * B[i, k] * IL[k, j]
    B[i, j] += RC[i, k] * LC[k + 1, j]
    RC[i, j] += IR[i, k] * RC[k, j]
    LC[i, j] += LC[i, k] * IL[k, j]
    Z[()] += root[r] * LC[1, r] * RC[r, p.n]


@recursion
def splits(p: Any) -> None:
    """Binary trees whose splits have the weight of all that ends there: spans that read points of earlier columns."""
    i, j, k = p.positions("i j k")
    X, F, Z = p.items("X F Z")
    node, end = p.weights("node end")
    X[i, i] += 1
    X[i, j] += node[i, j] * X[i, k] * X[k + 1, j] * F[k]
    F[j] += end[j] * X[1, j]
    Z[()] += F[p.n]


@recursion
def dmv(p: Any) -> None:
    """The DMV (Klein and Manning 2004) by split heads; weights by positions, valences as brackets."""
    i, j, k, r = p.positions("i j k r")
    RO, LO, RC, LC, IR, IL, Z = p.items("RO LO RC LC IR IL Z")
    arc = p.weights("arc", 2)
    stop_right, stop_left = p.weights("stop_right stop_left", 2)
    root = p.weights("root")
    RO[i, i] += 1
    LO[i, i] += 1
    IR[i, j] += arc[i, j, i < k] * RO[i, k] * LC[k + 1, j]
    IL[i, j] += arc[j, i, k < j] * RC[i, k - 1] * LO[k, j]
    RO[i, j] += IR[i, k] * RC[k, j]
    LO[i, j] += LC[i, k] * IL[k, j]
    RC[i, j] += stop_right[i, i < j] * RO[i, j]
    LC[i, j] += stop_left[j, i < j] * LO[i, j]
    Z[()] += root[r] * LC[1, r] * RC[r, p.n]


@recursion
def dmv_words(p: Any, V: int = 2) -> None:
    """The DMV with V valences; weights by words: a head has 0, 1, ..., V - 1 or more children on a side."""
    i, j, k, r = p.positions("i j k r")
    RC, LC, Z = p.items("RC LC Z")
    RO, LO, IR, IL = p.items("RO LO IR IL", V)
    attach = p.weights("attach", "T", 2, "T")
    stop = p.weights("stop", "T", 2, V, 2)
    root = p.weights("root", "T")
    w = p.words("w")
    LEFT, RIGHT = 0, 1
    RO[i, i, 0] += 1
    LO[i, i, 0] += 1
    for v in range(V):
        more = min(v + 1, V - 1)
        IR[i, j, more] += attach[w[i], RIGHT, w[j]] * stop[w[i], RIGHT, v, 0] * RO[i, k, v] * LC[k + 1, j]
        IL[i, j, more] += attach[w[j], LEFT, w[i]] * stop[w[j], LEFT, v, 0] * RC[i, k - 1] * LO[k, j, v]
        RC[i, j] += stop[w[i], RIGHT, v, 1] * RO[i, j, v]
        LC[i, j] += stop[w[j], LEFT, v, 1] * LO[i, j, v]
    for v in range(min(1, V - 1), V):
        RO[i, j, v] += IR[i, k, v] * RC[k, j]
        LO[i, j, v] += LC[i, k] * IL[k, j, v]
    Z[()] += root[w[r]] * LC[1, r] * RC[r, p.n]


@recursion
def hmm(p: Any) -> None:
    """The forward pass of a hidden Markov model with K states."""
    t = p.positions("t")
    x, y = p.symbols("x y", "K")
    w = p.words("w")
    F = p.items("F", "K")
    Z = p.items("Z")
    initial, final = p.weights("initial final", "K")
    transition = p.weights("transition", "K", "K")
    emission = p.weights("emission", "K", "W")
    F[1, x] += initial[x] * emission[x, w[1]]
    F[t, x] += F[t - 1, y] * transition[y, x] * emission[x, w[t]]
    Z[()] += F[p.n, x] * final[x]


@recursion(first=0)
def semi_markov(p: Any) -> None:
    """A semi-Markov chain (Sarawagi and Cohen 2004): a segment from fence post i to j has one label."""
    i, j = p.positions("i j")
    x, y = p.symbols("x y", "K")
    ends, begins = p.items("ends begins", "K")
    Z = p.items("Z")
    initial, final = p.weights("initial final", "K")
    segment = p.weights("segment", "K")
    transition = p.weights("transition", "K", "K")
    begins[0, x] += initial[x]
    begins[j, x] += ends[j, y] * transition[y, x]
    ends[j, x] += begins[i, x] * segment[i, j, x] * (i < j)
    Z[()] += ends[p.n, x] * final[x]


@recursion(first=0)
def pcfg(p: Any) -> None:
    """A dense PCFG in Chomsky's normal form, between fence posts."""
    i, j, k = p.positions("i j k")
    A, B, C = p.symbols("A B C", "S")
    X = p.items("X", "S")
    Z = p.items("Z")
    w = p.words("w")
    binary = p.weights("binary", "S", "S", "S")
    lexical = p.weights("lexical", "S", "W")
    root = p.weights("root", "S")
    X[j - 1, j, A] += lexical[A, w[j]]
    X[i, j, A] += binary[A, B, C] * X[i, k, B] * X[k, j, C]
    Z[()] += root[A] * X[0, p.n, A]


@recursion(first=0)
def pcfg_rules(p: Any) -> None:
    """A PCFG as a list of rules: rules share pairs of symbols; unary rules are in topological order, children first."""
    i, j, k = p.positions("i j k")
    a = p.symbols("a", "S")
    r, q, u = p.symbols("r", "R"), p.symbols("q", "Q"), p.symbols("u", "U")
    parent, pair = p.columns("parent pair", "R")
    left, right = p.columns("left right", "Q")
    above, below = p.columns("above below", "U")
    X, Y = p.items("X", "S"), p.items("Y", "Q")
    Z = p.items("Z")
    w = p.words("w")
    rule, unary = p.weights("rule", "R"), p.weights("unary", "U")
    lexical = p.weights("lexical", "S", "W")
    root = p.weights("root", "S")
    X[j - 1, j, a] += lexical[a, w[j]]
    Y[i, j, q] += X[i, k, left[q]] * X[k, j, right[q]]
    X[i, j, parent[r]] += rule[r] * Y[i, j, pair[r]]
    X[i, j, above[u]] += unary[u] * X[i, j, below[u]]
    Z[()] += root[a] * X[0, p.n, a]


@dataclass(frozen=True)
class Page:
    """A recursion, and what stands in the place of the names of its sizes and lists; of ``G``, positions at least."""

    name: str
    make: Callable[[], Recursion]
    sizes: dict[str, int] = field(default_factory=dict)
    lists: dict[str, list[int]] = field(default_factory=dict)
    vocabulary: int = 3

    def __str__(self) -> str:
        return self.name


RULES = dict(parent=[0, 1, 2], pair=[0, 1, 2], left=[0, 1, 2], right=[0, 0, 1], above=[1, 2, 2], below=[0, 0, 1])

PAGES = [
    Page("projective", projective),
    Page("several_roots", several_roots),
    Page("siblings", siblings),
    Page("splits", splits),
    Page("dmv", dmv),
    Page("dmv_words", dmv_words, dict(T=3)),
    Page("dmv_words_3", lambda: dmv_words(V=3), dict(T=3)),
    Page("hmm", hmm, dict(K=3, W=3)),
    Page("semi_markov", semi_markov, dict(K=2)),
    Page("pcfg", pcfg, dict(S=2, W=3)),
    Page("pcfg_rules", pcfg_rules, dict(S=3, R=3, Q=3, U=3, W=3), RULES),
    Page("grandparents", third_order, dict(G=6)),
]
