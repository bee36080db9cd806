# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Latent annotations of one tree, eight events at a time: log Z, its adjoints, and what weights are multiplied by.

The tables of :mod:`.annotation_cells` are multiplied with the outer product of the children's vectors. Where weights
are pseudo-counts, totals divide vectors over a, not tables. All is O(K**3) a node and reads its tables in order.

Each inside vector is divided by its sum; outside vectors are adjoints. What underflows matters only if it meets what
is huge: a tree is to be done in logarithms if the sum of all adjoints that it has met, its *bound*, is above
:data:`GREATEST`, or if log Z is no number.
"""

# mypy: disable-error-code="no-untyped-def"
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from pyrogram.charts.runtime.lanes import fill, fma, load, store

from .annotation_cells import Cells
from .lanes_sums import add_up

# A flushed quantity changes a posterior by at most tiny * GREATEST, far below the rounding error.
GREATEST = 2.0**900


class Vectors(NamedTuple):
    """By node, in the order of nodes."""

    inside: Any  # in cells
    above: Any  # in cells: outside, divided by totals and the scale
    scale: Any  # numbers


class Totals(NamedTuple):
    """By symbol, in cells."""

    factor: Any  # 1 over totals, 0 in the padding
    log: Any


class Scratch(NamedTuple):
    """Of the node at hand, in cells."""

    product: Any  # of the children's inside vectors, with room for the padding of the last one
    adjoint: Any  # of the product
    table: Any  # of its rule


def make_vectors(cells: Cells, num_nodes: int) -> Vectors:
    """Room for nodes."""
    n = 8 * cells.width * num_nodes
    return Vectors(np.zeros(n), np.zeros(n), np.zeros(num_nodes))


def make_scratch(cells: Cells) -> Scratch:
    """Room for one node."""
    product, table = 8 * int(cells.each.max(initial=1) + cells.width), 8 * int((cells.rows * cells.each).max(initial=1))
    return Scratch(np.zeros(product), np.zeros(product), np.zeros(table))


@njit(nogil=True)
def vectors_of(lo, hi, cells, vectors):
    """Those of the nodes lo .. hi - 1."""
    n = 8 * cells.width
    return Vectors(vectors.inside[n * lo : n * hi], vectors.above[n * lo : n * hi], vectors.scale[lo:hi])


@njit(nogil=True)
def sum_tree(lo, hi, trees, cells, place, weights, totals, s, scratch):
    """Fill the vectors of a tree; returns log Z, and the expected logs of totals. Log Z is -inf if it has to be done in
    logarithms: then its vectors are zero.

    :param place: by node, the first cell of its rule's weights.
    :param totals: what weights are divided by.
    :param s: the tree's vectors.
    """
    log_z, bound, expected = _inside(lo, hi, trees, cells, place, weights, totals, s, scratch), np.inf, 0.0
    if log_z > -np.inf:
        bound, expected = _outside(lo, hi, trees, cells, place, weights, totals, s, scratch)
    if not bound <= GREATEST:  # written so that NaN fails
        s.inside[:], s.above[:] = 0.0, 0.0
        log_z = -np.inf
    return log_z, expected


@njit(nogil=True, error_model="numpy")
def _inside(lo, hi, trees, cells, place, weights, totals, s, scratch):
    """Inside vectors, each divided by its sum, the scale; returns log Z, -inf where a scale is no positive number."""
    W, zero = cells.width, fill(weights, 0.0)
    log_z, product = 0.0, 1.0
    for v in range(hi - 1, lo - 1, -1):
        r, k = trees.rule[v], v - lo
        A, table, n = cells.parent[r], place[v], cells.each[r]
        total = zero
        if cells.left[r] < 0:
            for i in range(W):
                x = load(weights, table + i) * load(totals.factor, A * W + i) if i < n else zero
                store(s.inside, k * W + i, x)
                total = total + x
        else:
            _multiply(lo, v, trees, cells, s, scratch)
            for i in range(W):
                store(s.inside, k * W + i, zero)
            for a in range(cells.rows[r]):
                x = zero
                for i in range(n):
                    x = fma(load(weights, table + i), load(scratch.product, i), x)
                table += n
                s.inside[8 * k * W + a] = add_up(x) * totals.factor[8 * A * W + a]
            for i in range(W):
                total = total + load(s.inside, k * W + i)
        scale = add_up(total)
        if not 0.0 < scale < np.inf:
            return -np.inf
        x = fill(s.inside, 1.0 / scale)
        for i in range(k * W, k * W + W):
            store(s.inside, i, load(s.inside, i) * x)
        s.scale[k] = scale
        if 1e-100 < scale < 1e100:
            product *= scale
        else:
            log_z += np.log(scale)
        if not 1e-150 < product < 1e150:
            log_z += np.log(product)
            product = 1.0
    return log_z + np.log(product)


@njit(nogil=True)
def _multiply(lo, v, trees, cells, s, scratch):
    """The outer product of the children's inside vectors, whose padding is zero."""
    W, r = cells.width, trees.rule[v]
    l, q = W * (trees.left[v] - lo), W * (trees.right[v] - lo)
    if trees.right[v] < 0:
        for i in range(cells.each[r]):
            store(scratch.product, i, load(s.inside, l + i))
        return
    store(scratch.product, cells.each[r] - 1, fill(s.inside, 0.0))
    KC = cells.subtypes[cells.right[r]]
    for b in range(cells.subtypes[cells.left[r]]):
        x, row = fill(s.inside, s.inside[8 * l + b]), scratch.product[b * KC :]
        for i in range((KC + 7) // 8):  # the next row begins in the padding of this one
            store(row, i, x * load(s.inside, q + i))


@njit(nogil=True, error_model="numpy")
def _outside(lo, hi, trees, cells, place, weights, totals, s, scratch):
    """Adjoints of log Z, then ``above``, in its place; returns their bound, and expected logs of totals."""
    W, zero = cells.width, fill(weights, 0.0)
    bound, expected = zero, zero
    for i in range(W):
        store(s.above, i, zero)
    s.above[0] = 1.0
    for v in range(lo, hi):
        r, k = trees.rule[v], v - lo
        A, table, n = cells.parent[r], place[v], cells.each[r]
        factor = fill(s.inside, 1.0 / s.scale[k])
        for i in range(W):
            x = load(s.above, k * W + i)
            expected = fma(x * load(s.inside, k * W + i), load(totals.log, A * W + i), expected)
            x = x * load(totals.factor, A * W + i) * factor
            bound = bound + x
            store(s.above, k * W + i, x)
        if cells.left[r] < 0:
            continue
        for i in range(n):
            x = zero
            for a in range(cells.rows[r]):
                x = fma(fill(s.above, s.above[8 * k * W + a]), load(weights, table + a * n + i), x)
            store(scratch.adjoint, i, x)
            bound = bound + x
        _hand_down(lo, v, trees, cells, s, scratch)
    return add_up(bound), add_up(expected)


@njit(nogil=True)
def _hand_down(lo, v, trees, cells, s, scratch):
    """From the adjoints of a product to those of the children."""
    W, r = cells.width, trees.rule[v]
    l, q = W * (trees.left[v] - lo), W * (trees.right[v] - lo)
    zero = fill(s.inside, 0.0)
    if trees.right[v] < 0:
        for i in range(W):
            store(s.above, l + i, load(scratch.adjoint, i) if i < cells.each[r] else zero)
        return
    for i in range(W):
        store(s.above, l + i, zero)
        store(s.above, q + i, zero)
        store(scratch.adjoint, cells.each[r] + i, zero)
    KC = cells.subtypes[cells.right[r]]
    for b in range(cells.subtypes[cells.left[r]]):
        x, y, row = zero, fill(s.inside, s.inside[8 * l + b]), scratch.adjoint[b * KC :]
        for i in range((KC + 7) // 8):  # what is added to the padding meets a factor of zero
            g = load(row, i)
            x = fma(g, load(s.inside, q + i), x)
            store(s.above, q + i, fma(g, y, load(s.above, q + i)))
        s.above[8 * l + b] = add_up(x)


@njit(nogil=True)
def add_nodes(members, lo, trees, cells, s, scratch):
    """Sum over nodes of one rule what its weights are multiplied by to be expected counts, into ``scratch.table``."""
    W, r = cells.width, trees.rule[members[0]]
    n, zero = cells.each[r], fill(s.above, 0.0)
    for m in range(len(members)):
        v, k = members[m], members[m] - lo
        if cells.left[r] < 0:
            for i in range(n):
                x = load(scratch.table, i) if m > 0 else zero
                store(scratch.table, i, x + load(s.above, k * W + i))
            continue
        _multiply(lo, v, trees, cells, s, scratch)
        for a in range(cells.rows[r]):
            above = fill(s.above, s.above[8 * k * W + a])
            for i in range(n):
                x = load(scratch.table, a * n + i) if m > 0 else zero
                store(scratch.table, a * n + i, fma(above, load(scratch.product, i), x))
