# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sweeps of collapsed variational Bayes over trees with latent annotations, tree by tree, in lanes.

For a tree, only the events of its own rules are looked at: O(K**3) a node.
"""

# mypy: disable-error-code="no-untyped-def"
from typing import Any

import numpy as np
from numba import njit

from pyrogram.charts.runtime.compiling import kernel

from .annotation_cells import (
    Layout,
    event_at,
    events_of,
    from_cells,
    make_layout,
    of_trees,
    sums_in_cells,
    to_cells,
    total,
)
from .annotation_lanes import count_tree, inside_tree, make_scratch, outside_tree, replace_tree, weigh
from .annotation_log import node_tables
from .annotation_numba import GREATEST

__all__ = ["Layout", "collapsed_vb", "expect", "make_layout", "of_trees", "total"]

_UNCOUNTED = -np.inf  # the count of what has a given weight: it stays so, whatever is added


def expect(layout: Layout, weights: Any, out: Any) -> tuple[Any, Any]:
    """Write own counts under given weights, shape ``(R,)``, over zeros; returns log Z and entropy of each tree."""
    cells = np.full(8 * layout.cells.size, _UNCOUNTED)
    inside = sums_in_cells(layout, np.zeros_like(cells), np.inf)
    totals = np.stack([np.where(np.isinf(inside), 0.0, _UNCOUNTED), np.maximum(inside, 1.0)])
    order = np.arange(len(layout.trees.lengths))
    return _run(layout, cells, to_cells(layout, weights, 1.0), totals, out, out, order, len(order))


def collapsed_vb(
    layout: Layout, counts: Any, alpha: Any, own: Any, out: Any, order: Any, batch_size: int
) -> tuple[Any, Any]:
    """One sweep; see :meth:`pyrogram.collapsed.CollapsedUpdates.collapsed_vb`.

    :param counts: shape ``(R,)``, changed.
    :param alpha: shape ``(R,)``.
    :returns: log Z and entropy of each tree, -inf if it has no derivation.
    """
    f, a = to_cells(layout, counts, 0.0), to_cells(layout, alpha, 1.0)
    totals = np.stack([sums_in_cells(layout, f, 0.0), sums_in_cells(layout, a, np.inf)])
    if len(alpha) and (alpha == alpha[0]).all():  # less to read
        a = np.full(8, alpha[0])
    found = _run(layout, f, a, totals, own, out, order, batch_size)
    np.maximum(from_cells(layout, f), 0.0, out=counts)
    return found


def _run(
    layout: Layout, counts: Any, alpha: Any, totals: Any, own: Any, out: Any, order: Any, batch_size: int
) -> tuple[Any, Any]:
    B = len(layout.trees.lengths)
    log_z, entropies = np.full(B, -np.inf), np.full(B, -np.inf)
    scratch = make_scratch(layout)
    _sweep(*layout.arrays, scratch, counts, alpha, totals, own, out, order, max(batch_size, 1), log_z, entropies)
    return log_z, entropies


@kernel
def _sweep(trees, tables, cells, groups, s, counts, alpha, totals, own, out, order, batch_size, log_z, entropies):
    for first in range(0, len(order), batch_size):
        batch = order[first : first + batch_size]
        for b in batch:
            lo, hi = trees.start[b], trees.start[b + 1]
            if lo == hi:
                continue
            begin = groups.own[groups.start[b]]
            weigh(b, tables, cells, groups, counts, alpha, totals, own, s)
            z = inside_tree(lo, hi, begin, trees, tables, cells, groups, s)
            bound, expected = np.inf, 0.0
            if z > -np.inf:
                bound, expected = outside_tree(lo, hi, begin, trees, tables, cells, groups, s)
            if bound <= GREATEST:  # written so that NaN fails
                expected = count_tree(b, lo, tables, cells, groups, s, out) - expected
            else:
                z, expected = _in_logs(b, lo, hi, trees, tables, cells, groups, s, out)
            log_z[b], entropies[b] = z, z - expected
        for b in batch:
            replace_tree(b, tables, cells, groups, counts, totals[0], own, out)


@njit(nogil=True)
def _in_logs(b, lo, hi, trees, tables, cells, groups, s, out):
    """A tree's own counts in log space; returns log Z and the expected log weight."""
    begin = groups.own[groups.start[b]]
    for i in range(8 * begin, 8 * groups.own[groups.start[b + 1]]):
        out[i] = 0.0
    weights = np.empty(_num_events(tables))
    places = np.zeros(hi + 1, np.int64)
    for g in range(groups.start[b], groups.start[b + 1]):
        r = groups.rule[g]
        A = tables.parent[r]
        for a in range(tables.subtypes[A]):
            e, y = event_at(r, a, 0, tables, cells)
            y += 8 * (groups.own[g] - begin - cells.start[r])
            for x in range(events_of(r, tables)):
                weights[e + x] = np.log(s.pseudo[y + x]) - s.log_total[8 * cells.width * A + a]
    for v in range(lo, hi):
        r = trees.rule[v]
        places[v + 1] = places[v] + tables.subtypes[tables.parent[r]] * events_of(r, tables)
    found = np.empty(places[hi])
    z, expected = node_tables(lo, hi, trees, tables, places, weights, 8 * cells.width, found)
    for v in range(lo, hi):
        r, at = trees.rule[v], places[v]
        for a in range(tables.subtypes[tables.parent[r]]):
            _, y = event_at(r, a, 0, tables, cells)
            y += 8 * (groups.own[groups.of_node[v]] - cells.start[r])
            for x in range(events_of(r, tables)):
                out[y + x] += found[at]
                at += 1
    return z, expected


@njit(nogil=True)
def _num_events(tables):
    """Beyond the last event of any rule."""
    most = 0
    for r in range(len(tables.parent)):
        A = tables.parent[r]
        most = max(most, tables.offset[r] + tables.subtypes[A] * tables.stride[A])
    return most
