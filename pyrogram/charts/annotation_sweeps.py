# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sweeps of collapsed variational Bayes over trees with latent annotations, tree by tree.

A tree's *own* counts are a table (K_A, K_B, K_C) for each of its nodes, all nodes one after the other: the events that
they count follow from the rule. For a tree, only the events of its own rules are looked at: O(K**3) a node.
"""

# mypy: disable-error-code="no-untyped-def"
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from .annotation_log import node_tables
from .annotation_numba import GREATEST, inside_tree, outside_tree
from .annotation_rules import AnnotationRules, LinkedTrees
from .compiling import kernel


class Layout(NamedTuple):
    """Where own counts lie, and the multinomial of (A, 0) for each symbol A."""

    rules: AnnotationRules
    trees: LinkedTrees
    begin: Any
    """(M + 1,): the table of node v is ``own[begin[v] : begin[v + 1]]``."""
    multinomial: Any

    @property
    def arrays(self) -> tuple[Any, ...]:
        """What compiled code is given."""
        return self.trees, self.rules.tables, self.begin, self.multinomial


def make_layout(rules: AnnotationRules, trees: LinkedTrees) -> Layout:
    sizes = (rules.subtypes[rules.parent] * rules.left_subtypes * rules.right_subtypes)[trees.rule]
    begin = np.concatenate([[0], np.cumsum(sizes)])
    present = np.where(rules.stride > 0, rules.subtypes, 0)
    return Layout(rules, trees, begin, np.cumsum(present) - present)


def own_counts(layout: Layout, weights: Any, inside: Any, outside: Any, scale: Any, out: Any) -> Any:
    """Write own counts under given weights of the posteriors in ``inside`` and the rest; returns E[log w] of each tree.

    :param weights: shape ``(R,)``, divided by the greatest of each rule or not, as the scale is.
    """
    expected = np.zeros(len(layout.trees.start) - 1)
    _own_counts(*layout.arrays, weights, inside, outside, scale, out, expected)
    return expected


def own_counts_by_logs(layout: Layout, log_weights: Any, b: int, out: Any) -> float:
    """The same for one tree in log space."""
    begin, end = int(layout.trees.start[b]), int(layout.trees.start[b + 1])
    expected = _by_logs(*layout.arrays, begin, end, log_weights, layout.rules.width, out)
    return float(expected)


def total(layout: Layout, own: Any) -> Any:
    """Own counts of all trees, shape ``(R,)``."""
    out = np.zeros(layout.rules.num_events)
    _add_trees(*layout.arrays, np.arange(len(layout.trees.start) - 1), own, out[None])
    return out


def of_trees(layout: Layout, own: Any, trees: Any) -> Any:
    """Own counts of some trees, shape ``(len(trees), R)``."""
    out = np.zeros((len(trees), layout.rules.num_events))
    _add_trees(*layout.arrays, trees, own, out)
    return out


def collapsed_vb(
    layout: Layout, counts: Any, alpha: Any, totals: Any, own: Any, out: Any, order: Any, batch_size: int
) -> tuple[Any, Any]:
    """One sweep; see :meth:`pyrogram.sweeps.Sweeps.collapsed_vb`.

    :param counts: shape ``(R,)``, changed.
    :param totals: of counts plus alpha in each multinomial, changed.
    :returns: log Z and entropy of each tree, -inf if it has no derivation.
    """
    B, M, K = len(order), len(layout.trees.rule), layout.rules.width
    log_z, entropies = np.full(B, -np.inf), np.full(B, -np.inf)
    work = np.zeros((M, K)), np.zeros((M, K)), np.zeros(M)
    _sweep(*layout.arrays, counts, alpha, totals, own, out, order, batch_size, *work, log_z, entropies)
    return log_z, entropies


@kernel
def _sweep(
    trees,
    tables,
    begin,
    multinomial,
    counts,
    alpha,
    totals,
    own,
    out,
    order,
    batch_size,
    inside,
    outside,
    scale,
    log_z,
    entropies,
):
    start, rule, _, _, _ = trees
    parent, _, _, offset, stride, subtypes = tables
    real = np.zeros(len(counts))  # weights of the rules of a tree
    taken = np.zeros(len(totals))
    stamp = np.full(len(parent), -1, np.int64)
    for first in range(0, len(order), batch_size):
        batch = order[first : first + batch_size]
        for b in batch:
            lo, hi = start[b], start[b + 1]
            if lo == hi:
                continue
            _weights(lo, hi, b, rule, tables, begin, multinomial, counts, alpha, totals, own, real, taken, stamp)
            good = inside_tree(lo, hi, trees, tables, real, inside, scale)
            if good:
                good = outside_tree(lo, hi, trees, tables, real, inside, scale, outside) <= GREATEST
            if good:
                z = 0.0
                for v in range(lo, hi):
                    z += np.log(scale[v])
                log_z[b] = z
                expected = _tables(lo, hi, trees, tables, begin, real, inside, outside, scale, out)
            else:
                log_z[b], expected = node_tables(lo, hi, trees, tables, begin, np.log(real), inside.shape[1], out)
            entropies[b] = log_z[b] - expected
        for b in batch:
            for v in range(start[b], start[b + 1]):
                r = rule[v]
                A = parent[r]
                cells = (begin[v + 1] - begin[v]) // subtypes[A]
                for a in range(subtypes[A]):
                    change = 0.0
                    for x in range(cells):
                        y = begin[v] + a * cells + x
                        e = offset[r] + a * stride[A] + x
                        difference = float(out[y]) - float(own[y])
                        counts[e] = max(counts[e] + difference, 0.0)
                        change += difference
                    totals[multinomial[A] + a] += change


@njit(nogil=True)
def _weights(lo, hi, b, rule, tables, begin, multinomial, counts, alpha, totals, own, real, taken, stamp):
    """Weights of the rules of a tree from the counts of all others: (f + alpha) / sum (f + alpha)."""
    parent, rule_left, rule_right, offset, stride, subtypes = tables
    for v in range(lo, hi):
        A = parent[rule[v]]
        for a in range(subtypes[A]):
            taken[multinomial[A] + a] = 0.0
    for v in range(lo, hi):
        r = rule[v]
        A = parent[r]
        cells = (begin[v + 1] - begin[v]) // subtypes[A]
        for a in range(subtypes[A]):
            total = 0.0
            e, y = offset[r] + a * stride[A], begin[v] + a * cells
            if stamp[r] != b:
                for x in range(cells):
                    real[e + x] = counts[e + x]
            for x in range(cells):
                real[e + x] -= own[y + x]
                total += own[y + x]
            taken[multinomial[A] + a] += total
        stamp[r] = b
    for v in range(lo, hi):
        r = rule[v]
        if stamp[r] != b:
            continue
        stamp[r] = -1
        A = parent[r]
        cells = (begin[v + 1] - begin[v]) // subtypes[A]
        for a in range(subtypes[A]):
            e = offset[r] + a * stride[A]
            rest = totals[multinomial[A] + a] - taken[multinomial[A] + a]
            factor = 1.0 / max(rest, 1e-300)
            for x in range(cells):
                real[e + x] = (max(real[e + x], 0.0) + alpha[e + x]) * factor


@njit(nogil=True)
def _tables(lo, hi, trees, tables, begin, real, inside, outside, scale, out):
    """Write the expected counts of each node of a tree; returns the expected log weight."""
    _, rule, left, right, _ = trees
    parent, rule_left, rule_right, offset, stride, subtypes = tables
    expected = 0.0
    for v in range(lo, hi):
        r = rule[v]
        A = parent[r]
        l, q = left[v], right[v]
        KB = subtypes[rule_left[r]] if l >= 0 else 1
        KC = subtypes[rule_right[r]] if q >= 0 else 1
        y = begin[v]
        for a in range(subtypes[A]):
            e = offset[r] + a * stride[A]
            above = outside[v, a] / scale[v]
            for b in range(KB):
                x = above * inside[l, b] if l >= 0 else above
                for c in range(KC):
                    w = real[e + b * KC + c]
                    value = x * w * inside[q, c] if q >= 0 else x * w
                    out[y] = value
                    y += 1
                    if value > 1e-20:
                        expected += value * np.log(w)
    return expected


@kernel
def _own_counts(
    trees,
    tables,
    begin,
    multinomial,
    real,
    inside,
    outside,
    scale,
    out,
    expected,
):
    start = trees.start
    for b in range(len(expected)):
        expected[b] = _tables(start[b], start[b + 1], trees, tables, begin, real, inside, outside, scale, out)


@kernel
def _by_logs(
    trees,
    tables,
    begin,
    multinomial,
    lo,
    hi,
    log_weights,
    width,
    out,
):
    return node_tables(lo, hi, trees, tables, begin, log_weights, width, out)[1]


@kernel
def _add_trees(
    trees,
    tables,
    begin,
    multinomial,
    chosen,
    own,
    out,
):
    start, rule, _, _, _ = trees
    parent, _, _, offset, stride, subtypes = tables
    for k in range(len(chosen)):
        b = chosen[k]
        row = out[min(k, len(out) - 1)]
        for v in range(start[b], start[b + 1]):
            r = rule[v]
            A = parent[r]
            cells = (begin[v + 1] - begin[v]) // subtypes[A]
            for a in range(subtypes[A]):
                for x in range(cells):
                    row[offset[r] + a * stride[A] + x] += own[begin[v] + a * cells + x]
