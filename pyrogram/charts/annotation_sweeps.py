# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sweeps of collapsed variational Bayes over trees with latent annotations, tree by tree.

Weights are pseudo-counts over their totals, and differ by tree. Only the events of its own rules are looked at:
O(K**3) a node.
"""

# mypy: disable-error-code="no-untyped-def"
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from pyrogram.charts.runtime.compiling import kernel
from pyrogram.charts.runtime.lanes import fill, fma, load, maximum, store

from .annotation_cells import Layout, from_cells, make_layout, of_trees, sums_in_cells, to_cells, total
from .annotation_lanes import Totals, add_nodes, make_scratch, make_vectors, sum_tree, vectors_of
from .annotation_log import log_posteriors
from .lanes_log import log
from .lanes_sums import add_up, load_eight, store_eight

__all__ = ["Layout", "collapsed_vb", "expect", "make_layout", "of_trees", "total"]

_UNCOUNTED = -np.inf  # the count of what has a given weight: it stays so, whatever is added


class Corpus(NamedTuple):
    """Numbers of all trees, in cells."""

    counts: Any
    alpha: Any  # one cell, if they are all the same
    count_totals: Any  # by symbol, as totals of alpha, which are infinite in the padding
    alpha_totals: Any


class Tree(NamedTuple):
    """Numbers of the tree at hand, in cells."""

    weights: Any  # pseudo-counts, as its own counts lie
    totals: Totals
    stamp: Any  # by symbol, the last tree whose totals were made


def expect(layout: Layout, weights: Any, out: Any) -> tuple[Any, Any]:
    """Write own counts under given weights, shape ``(R,)``, over zeros; returns log Z and entropy of each tree."""
    cells = np.full(8 * layout.cells.size, _UNCOUNTED)
    inside = sums_in_cells(layout, np.zeros_like(cells), np.inf)
    totals = np.where(np.isinf(inside), 0.0, _UNCOUNTED), np.maximum(inside, 1.0)
    order = np.arange(len(layout.trees.lengths))
    return _run(layout, Corpus(cells, to_cells(layout, weights, 1.0), *totals), out, out, order, len(order))


def collapsed_vb(
    layout: Layout, counts: Any, alpha: Any, tree_counts: Any, out: Any, order: Any, batch_size: int
) -> tuple[Any, Any]:
    """One sweep; see :meth:`pyrogram.collapsed.CollapsedUpdates.collapsed_vb`.

    :param counts: shape ``(R,)``, changed.
    :param alpha: shape ``(R,)``.
    :returns: log Z and entropy of each tree, -inf if it has no derivation.
    """
    f, a = to_cells(layout, counts, 0.0), to_cells(layout, alpha, 1.0)
    totals = sums_in_cells(layout, f, 0.0), sums_in_cells(layout, a, np.inf)
    if len(alpha) and (alpha == alpha[0]).all():  # less to read
        a = np.full(8, alpha[0])
    results = _run(layout, Corpus(f, a, *totals), tree_counts, out, order, batch_size)
    np.maximum(from_cells(layout, f), 0.0, out=counts)
    return results


def _run(layout: Layout, corpus: Corpus, tree_counts: Any, out: Any, order: Any, batch_size: int) -> tuple[Any, Any]:
    rules, trees, cells, groups = layout
    log_z, entropies = (np.full(len(trees.lengths), -np.inf) for _ in range(2))
    by_symbol, most = len(corpus.count_totals), int(np.diff(groups.begin).max(initial=8))
    totals = Totals(np.zeros(by_symbol), np.zeros(by_symbol))
    tree = Tree(np.zeros(most), totals, np.full(len(rules.subtypes), -1))
    work = make_vectors(cells, int(trees.lengths.max(initial=1))), make_scratch(cells), tree
    grammar = trees, rules.tables, cells, groups, layout.places
    _sweep(grammar, work, corpus, tree_counts, out, order, max(batch_size, 1), (log_z, entropies))
    return log_z, entropies


@kernel
def _sweep(grammar, work, corpus, tree_counts, out, order, batch_size, results):
    trees, _, cells, groups, _ = grammar
    log_z, entropies = results
    for first in range(0, len(order), batch_size):
        batch = order[first : first + batch_size]
        for b in batch:
            if trees.start[b] < trees.start[b + 1]:
                at, end = groups.begin[b], groups.begin[b + 1]
                log_z[b], entropies[b] = _do_tree(b, grammar, work, corpus, tree_counts[at:end], out[at:end])
        for b in batch:
            at, end = groups.begin[b], groups.begin[b + 1]
            _replace(b, cells, groups, corpus, tree_counts[at:end], out[at:end])


@njit(nogil=True)
def _do_tree(b, grammar, work, corpus, tree_counts, out):
    """Write the counts of a tree; returns log Z and entropy."""
    trees, _, cells, groups, _ = grammar
    vectors, scratch, tree = work
    lo, hi = trees.start[b], trees.start[b + 1]
    _weigh(b, cells, groups, corpus, tree_counts, tree)
    s = vectors_of(0, hi - lo, cells, vectors)
    log_z, expected = sum_tree(lo, hi, trees, cells, groups.of_node, tree.weights, tree.totals, s, scratch)
    if log_z == -np.inf:
        return _in_logs(b, grammar, tree, out)
    score = fill(tree.weights, 0.0)
    for g in range(groups.start[b], groups.start[b + 1]):
        r = groups.rule[g]
        add_nodes(groups.members[groups.first[g] : groups.first[g + 1]], lo, trees, cells, s, scratch)
        for i in range(cells.rows[r] * cells.each[r]):
            weight = load(tree.weights, groups.place[g] + i)
            x = load(scratch.table, i) * weight
            store_eight(out, groups.place[g] + i, x)
            score = fma(x, log(weight), score)
    return log_z, log_z - (add_up(score) - expected)


@njit(nogil=True)
def _weigh(b, cells, groups, corpus, tree_counts, s):
    """Pseudo-counts of a tree's rules from the counts of all others, max(f - counts, 0) + alpha, and their totals."""
    zero, one = fill(s.weights, 0.0), fill(s.weights, 1.0)
    step, W = 1 if len(corpus.alpha) > 8 else 0, cells.width
    factor = s.totals.factor
    for g in range(groups.start[b], groups.start[b + 1]):
        r = groups.rule[g]
        A = cells.parent[r]
        if s.stamp[A] != b:
            s.stamp[A] = b
            for i in range(W):
                store(factor, A * W + i, zero)
        lexical = cells.left[r] < 0
        y, at = groups.place[g], cells.start[r]
        for a in range(cells.rows[r]):
            taken = zero
            for i in range(cells.each[r]):
                mine = load_eight(tree_counts, y)
                pseudo = maximum(load(corpus.counts, at) - mine, zero) + load(corpus.alpha, at * step)
                store(s.weights, y, pseudo)
                taken = taken + mine
                if lexical:
                    store(factor, A * W + i, load(factor, A * W + i) + mine)
                y += 1
                at += 1
            if not lexical:
                factor[8 * A * W + a] += add_up(taken)
    for g in range(groups.start[b], groups.start[b + 1]):
        A = cells.parent[groups.rule[g]]
        if s.stamp[A] == b:
            s.stamp[A] = -1
            for i in range(A * W, (A + 1) * W):
                rest = maximum(load(corpus.count_totals, i) - load(factor, i), zero) + load(corpus.alpha_totals, i)
                store(factor, i, one / rest)
                store(s.totals.log, i, log(rest))


@njit(nogil=True)
def _in_logs(b, grammar, s, out):
    """A tree's own counts in log space; returns log Z and entropy."""
    trees, tables, cells, groups, places = grammar
    weights = np.empty(len(out))
    for g in range(groups.start[b], groups.start[b + 1]):
        r, at = groups.rule[g], 8 * groups.place[g]
        for x in range(8 * cells.rows[r] * cells.each[r]):
            a = x if cells.left[r] < 0 else x // cells.step[r]
            weights[at + x] = np.log(s.weights[at + x]) - s.totals.log[8 * cells.width * cells.parent[r] + a]
    out[:] = 0.0
    lo, hi = trees.start[b], trees.start[b + 1]
    marginals = np.empty((hi - lo, 8 * cells.width))
    log_z, expected = log_posteriors(lo, hi, trees, tables, places, weights, 1.0, marginals, out)
    return log_z, log_z - expected


@njit(nogil=True)
def _replace(b, cells, groups, corpus, tree_counts, out):
    """Take the counts of a tree out of the shared ones and put the new ones in.

    What rounding leaves of nothing may be below it; whoever reads it sees to that.
    """
    zero, totals = fill(corpus.counts, 0.0), corpus.count_totals
    for g in range(groups.start[b], groups.start[b + 1]):
        r, y = groups.rule[g], groups.place[g]
        A, at = cells.parent[r] * cells.width, cells.start[r]
        lexical = cells.left[r] < 0
        for a in range(cells.rows[r]):
            change = zero
            for i in range(cells.each[r]):
                x = load_eight(out, y) - load_eight(tree_counts, y)
                store(corpus.counts, at, load(corpus.counts, at) + x)
                change = change + x
                if lexical:
                    store(totals, A + i, load(totals, A + i) + x)
                y += 1
                at += 1
            if not lexical:
                totals[8 * A + a] += add_up(change)
