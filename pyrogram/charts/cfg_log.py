# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Inside and outside of one sentence under a context-free grammar in log space: slow, but nothing underflows.

Cell (i, k, A) is ``(i * (n + 1) + k) * S + A``. Rules come as a :class:`Grammar` of arrays, weights as logarithms.
"""

# mypy: disable-error-code="no-untyped-def"
from typing import Any, NamedTuple

import numpy as np

from pyrogram.charts.runtime.compiling import borrowing

from .cfg_rules import RuleTable


class Grammar(NamedTuple):
    """What compiled code reads of a :class:`RuleTable`; binary rules are sorted by their parents.

    ``parent``, ``left``, ``right``, ``event``, ``pair`` belong to binary rules; ``pairs`` (P, 2) are the distinct right
    sides; ``unary`` (Nu, 3) [parent, child, event]; ``binary_of``, ``unary_of`` (S + 1,) say where the rules of a
    parent begin, the latter in ``unary_order``.
    """

    S: int
    start: int
    parent: Any
    left: Any
    right: Any
    event: Any
    pair: Any
    pairs: Any
    unary: Any
    binary_of: Any
    unary_of: Any
    unary_order: Any


def grammar_of(rules: RuleTable) -> Grammar:
    """The arrays of a grammar, made once."""
    found = rules.__dict__.get("compiled")
    if found is None:
        order, binary_of, unary_order, unary_of = rules.by_parent
        parent, left, right, event = (np.ascontiguousarray(x) for x in rules.binary[order].T)
        pairs, pair = rules.pairs
        found = Grammar(
            rules.num_symbols, rules.start, parent, left, right, event, pair[order], pairs, rules.unary,
            binary_of, unary_of, unary_order,
        )  # fmt: skip
        rules.__dict__["compiled"] = found
    return found


@borrowing
def weight_of(weights, event):
    """The log weight of an event; 0 if there is none."""
    return weights[event] if event >= 0 else 0.0


@borrowing
def add_log(a, b):
    """log(exp(a) + exp(b))."""
    if b > a:
        a, b = b, a
    if b == -np.inf:
        return a
    return a + np.log1p(np.exp(b - a))


@borrowing
def log_inside(g, weights, n, table, chart, products):
    """Fill the chart; ``table`` (M, 4) are the matches of the sentence. Returns log Z.

    ``products`` is memory for as many numbers as there are pairs.
    """
    N, S = n + 1, g.S
    chart[: N * N * S] = -np.inf
    for m in range(len(table)):
        cell = (table[m, 0] * N + table[m, 1]) * S + table[m, 2]
        chart[cell] = add_log(chart[cell], weight_of(weights, table[m, 3]))
    for width in range(1, n + 1):
        for i in range(n - width + 1):
            k = i + width
            here = (i * N + k) * S
            if width > 1:
                _log_products(g, n, i, k, chart, products)
                for r in range(len(g.parent)):
                    x = products[g.pair[r]]
                    if x > -np.inf:
                        cell = here + g.parent[r]
                        chart[cell] = add_log(chart[cell], x + weight_of(weights, g.event[r]))
            for u in range(len(g.unary)):
                x = chart[here + g.unary[u, 1]]
                if x > -np.inf:
                    cell = here + g.unary[u, 0]
                    chart[cell] = add_log(chart[cell], x + weight_of(weights, g.unary[u, 2]))
    return chart[n * S + g.start]


@borrowing
def _log_products(g, n, i, k, chart, products):
    """The sums over splits of a span, for every pair."""
    N, S = n + 1, g.S
    for p in range(len(g.pairs)):
        B, C = g.pairs[p, 0], g.pairs[p, 1]
        peak = -np.inf
        for j in range(i + 1, k):
            peak = max(peak, chart[(i * N + j) * S + B] + chart[(j * N + k) * S + C])
        if peak > -np.inf:
            total = 0.0
            for j in range(i + 1, k):
                total += np.exp(chart[(i * N + j) * S + B] + chart[(j * N + k) * S + C] - peak)
            peak += np.log(total)
        products[p] = peak


@borrowing
def log_outside(g, weights, n, chart, outer, products, adjoints):
    """Log outside weights of all cells, given the inside chart; -inf where nothing is possible."""
    N, S = n + 1, g.S
    outer[: N * N * S] = -np.inf
    outer[n * S + g.start] = 0.0
    for width in range(n, 0, -1):
        for i in range(n - width + 1):
            k = i + width
            here = (i * N + k) * S
            for u in range(len(g.unary) - 1, -1, -1):
                x = outer[here + g.unary[u, 0]]
                if x > -np.inf:
                    cell = here + g.unary[u, 1]
                    outer[cell] = add_log(outer[cell], x + weight_of(weights, g.unary[u, 2]))
            if width == 1:
                continue
            adjoints[: len(g.pairs)] = -np.inf
            for r in range(len(g.parent)):
                x = outer[here + g.parent[r]]
                if x > -np.inf:
                    p = g.pair[r]
                    adjoints[p] = add_log(adjoints[p], x + weight_of(weights, g.event[r]))
            for p in range(len(g.pairs)):
                if adjoints[p] == -np.inf:
                    continue
                for j in range(i + 1, k):
                    left, right = (i * N + j) * S + g.pairs[p, 0], (j * N + k) * S + g.pairs[p, 1]
                    if chart[left] > -np.inf and chart[right] > -np.inf:
                        outer[left] = add_log(outer[left], adjoints[p] + chart[right])
                        outer[right] = add_log(outer[right], adjoints[p] + chart[left])


@borrowing
def log_counts(g, weights, n, table, chart, outer, products, log_z, scale, counts):
    """Add the expected counts of the events, times ``scale``, from the inside and the outside chart."""
    N, S = n + 1, g.S
    for m in range(len(table)):
        cell = (table[m, 0] * N + table[m, 1]) * S + table[m, 2]
        if table[m, 3] >= 0 and outer[cell] > -np.inf:
            counts[table[m, 3]] += scale * np.exp(outer[cell] + weights[table[m, 3]] - log_z)
    for i in range(n):
        for k in range(i + 1, n + 1):
            here = (i * N + k) * S
            for u in range(len(g.unary)):
                event = g.unary[u, 2]
                x = outer[here + g.unary[u, 0]] + chart[here + g.unary[u, 1]]
                if event >= 0 and x > -np.inf:
                    counts[event] += scale * np.exp(x + weights[event] - log_z)
            if k == i + 1:
                continue
            _log_products(g, n, i, k, chart, products)
            for r in range(len(g.parent)):
                x = outer[here + g.parent[r]] + products[g.pair[r]]
                if g.event[r] >= 0 and x > -np.inf:
                    counts[g.event[r]] += scale * np.exp(x + weights[g.event[r]] - log_z)
