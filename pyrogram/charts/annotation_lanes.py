# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Latent annotations of one tree, eight events at a time, under weights that are pseudo-counts over their totals.

The tables of :mod:`.annotation_cells` are multiplied with the outer product of the children's vectors, which is made
once a node: inside vectors are rows times it, outside vectors come from columns, posteriors are all three factors.
Totals divide vectors over a, not tables. Everything is O(K**3) a node and reads its tables in order.

Each inside vector is divided by its sum; outside vectors are adjoints. What underflows matters only if it meets what
is huge: the sum of all adjoints that a tree has met is its *bound*.
"""

# mypy: disable-error-code="no-untyped-def"
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from pyrogram.charts.runtime.lanes import fill, fma, load, maximum, store

from .annotation_cells import Layout
from .lanes_log import log
from .lanes_sums import add_up, load_eight, store_eight


class Scratch(NamedTuple):
    """For one tree; in cells."""

    pseudo: Any  # its tables, as its own counts lie
    factor: Any  # by symbol: 1 over totals, 0 in the padding
    log_total: Any
    stamp: Any  # by symbol, the last tree whose totals were made
    inside: Any  # by node
    outside: Any
    above: Any  # by node: outside, divided by totals and the scale
    products: Any  # by node: of the children's inside vectors
    adjoints: Any  # of one node's products
    scale: Any  # by node, numbers


def make_scratch(layout: Layout) -> Scratch:
    n = int(layout.trees.lengths.max(initial=1))
    groups, S = layout.groups, len(layout.rules.subtypes)
    table = int(np.diff(groups.own[groups.start]).max(initial=1))
    product = int(layout.cells.each.max(initial=1))
    W = layout.cells.width
    sizes = (table, S * W, S * W, 0, n * W, n * W, n * W, n * product, product, 0)
    scratch = Scratch._make(np.zeros(8 * size) for size in sizes)
    return scratch._replace(stamp=np.full(S, -1), scale=np.zeros(n))


@njit(nogil=True)
def weigh(b, tables, cells, groups, counts, alpha, totals, own, s):
    """Pseudo-counts of a tree's rules from the counts of all others, max(f - own, 0) + alpha, and their totals.

    :param alpha: in cells, or one cell for all.
    :param totals: sums of counts and of alpha, shape ``(2, S * W * 8)``; infinite in the padding.
    """
    zero, one = fill(counts, 0.0), fill(counts, 1.0)
    step = 1 if len(alpha) > 8 else 0
    W, begin = cells.width, groups.own[groups.start[b]]
    of_counts, of_alpha = totals[0], totals[1]
    for g in range(groups.start[b], groups.start[b + 1]):
        r = groups.rule[g]
        A = tables.parent[r]
        if s.stamp[A] != b:
            s.stamp[A] = b
            for i in range(W):
                store(s.factor, A * W + i, zero)
        lexical = tables.left[r] < 0
        y, at = groups.own[g], cells.start[r]
        for a in range(cells.rows[r]):
            taken = zero
            for i in range(cells.each[r]):
                mine = load_eight(own, y)
                store(s.pseudo, y - begin, maximum(load(counts, at) - mine, zero) + load(alpha, at * step))
                taken = taken + mine
                if lexical:
                    store(s.factor, A * W + i, load(s.factor, A * W + i) + mine)
                y += 1
                at += 1
            if not lexical:
                s.factor[8 * A * W + a] += add_up(taken)
    for g in range(groups.start[b], groups.start[b + 1]):
        A = tables.parent[groups.rule[g]]
        if s.stamp[A] == b:
            s.stamp[A] = -1
            for i in range(A * W, (A + 1) * W):
                rest = maximum(load(of_counts, i) - load(s.factor, i), zero) + load(of_alpha, i)
                store(s.factor, i, one / rest)
                store(s.log_total, i, log(rest))


@njit(nogil=True, error_model="numpy")
def inside_tree(lo, hi, begin, trees, tables, cells, groups, s):
    """Inside vectors, each divided by its sum, the scale; returns log Z, -inf where it is not a number in range."""
    W, P = cells.width, len(s.adjoints) // 8
    zero = fill(s.inside, 0.0)
    log_z, product = 0.0, 1.0
    for v in range(hi - 1, lo - 1, -1):
        r, k = trees.rule[v], v - lo
        A = tables.parent[r]
        table, n = groups.own[groups.of_node[v]] - begin, cells.each[r]
        total = zero
        if tables.left[r] < 0:
            for i in range(W):
                x = load(s.pseudo, table + i) * load(s.factor, A * W + i) if i < n else zero
                store(s.inside, k * W + i, x)
                total = total + x
        else:
            _multiply(lo, v, trees, tables, cells, s)
            for i in range(W):
                store(s.inside, k * W + i, zero)
            for a in range(cells.rows[r]):
                x = zero
                for i in range(n):
                    x = fma(load(s.pseudo, table + i), load(s.products, k * P + i), x)
                table += n
                s.inside[8 * k * W + a] = add_up(x) * s.factor[8 * A * W + a]
            for i in range(W):
                total = total + load(s.inside, k * W + i)
        s.scale[k] = add_up(total)
        if not 1e-100 < s.scale[k] < 1e100:
            return -np.inf
        x = fill(s.inside, 1.0 / s.scale[k])
        for i in range(k * W, k * W + W):
            store(s.inside, i, load(s.inside, i) * x)
        product *= s.scale[k]
        if not 1e-150 < product < 1e150:
            log_z += np.log(product)
            product = 1.0
    return log_z + np.log(product)


@njit(nogil=True)
def _multiply(lo, v, trees, tables, cells, s):
    """The outer product of the children's inside vectors."""
    W, r = cells.width, trees.rule[v]
    l, q, at = 8 * W * (trees.left[v] - lo), 8 * W * (trees.right[v] - lo), len(s.adjoints) * (v - lo)
    KB = tables.subtypes[tables.left[r]]
    if trees.right[v] < 0:
        for i in range(cells.each[r]):
            store(s.products, at // 8 + i, load(s.inside, l // 8 + i))
        return
    KC = tables.subtypes[tables.right[r]]
    if KC % 8 == 0:
        at //= 8
        for b in range(KB):
            x = fill(s.inside, s.inside[l + b])
            for i in range(q // 8, (q + KC) // 8):
                store(s.products, at, x * load(s.inside, i))
                at += 1
        return
    for i in range(at + KB * KC, at + 8 * cells.each[r]):
        s.products[i] = 0.0
    for b in range(KB):
        for c in range(KC):
            s.products[at] = s.inside[l + b] * s.inside[q + c]
            at += 1


@njit(nogil=True, error_model="numpy")
def outside_tree(lo, hi, begin, trees, tables, cells, groups, s):
    """Adjoints of log Z, filling ``above``; returns their bound, and expected logs of totals."""
    W = cells.width
    zero = fill(s.inside, 0.0)
    bound, expected = zero, zero
    for i in range(W):
        store(s.outside, i, zero)
    s.outside[0] = 1.0
    for v in range(lo, hi):
        r, k = trees.rule[v], v - lo
        A = tables.parent[r]
        factor = fill(s.inside, 1.0 / s.scale[k])
        for i in range(W):
            x = load(s.outside, k * W + i)
            expected = fma(x * load(s.inside, k * W + i), load(s.log_total, A * W + i), expected)
            x = x * load(s.factor, A * W + i) * factor
            bound = bound + x
            store(s.above, k * W + i, x)
        if tables.left[r] < 0:
            continue
        table, n = groups.own[groups.of_node[v]] - begin, cells.each[r]
        for i in range(n):
            x = zero
            for a in range(cells.rows[r]):
                x = fma(fill(s.above, s.above[8 * k * W + a]), load(s.pseudo, table + a * n + i), x)
            store(s.adjoints, i, x)
            bound = bound + x
        _hand_down(lo, v, trees, tables, cells, s)
    return add_up(bound), add_up(expected)


@njit(nogil=True)
def _hand_down(lo, v, trees, tables, cells, s):
    """From the adjoints of a product to those of the children."""
    W, r = cells.width, trees.rule[v]
    l, q = 8 * W * (trees.left[v] - lo), 8 * W * (trees.right[v] - lo)
    zero = fill(s.inside, 0.0)
    for i in range(W):
        store(s.outside, l // 8 + i, zero)
    KB = tables.subtypes[tables.left[r]]
    if trees.right[v] < 0:
        for b in range(KB):
            s.outside[l + b] = s.adjoints[b]
        return
    for i in range(W):
        store(s.outside, q // 8 + i, zero)
    KC = tables.subtypes[tables.right[r]]
    if KC % 8 == 0:
        n = KC // 8
        for b in range(KB):
            x, y = zero, fill(s.inside, s.inside[l + b])
            for i in range(n):
                g = load(s.adjoints, b * n + i)
                x = fma(g, load(s.inside, q // 8 + i), x)
                store(s.outside, q // 8 + i, fma(g, y, load(s.outside, q // 8 + i)))
            s.outside[l + b] = add_up(x)
        return
    for b in range(KB):
        total = 0.0
        for c in range(KC):
            g = s.adjoints[b * KC + c]
            total += g * s.inside[q + c]
            s.outside[q + c] += g * s.inside[l + b]
        s.outside[l + b] = total


@njit(nogil=True)
def count_tree(b, lo, tables, cells, groups, s, out):
    """Write the own counts of a tree; returns the sum of counts times logs of pseudo-counts."""
    W, P, begin = cells.width, len(s.adjoints) // 8, groups.own[groups.start[b]]
    score = fill(s.pseudo, 0.0)
    for g in range(groups.start[b], groups.start[b + 1]):
        r, y = groups.rule[g], groups.own[g]
        n, first, end = cells.each[r], groups.first[g], groups.first[g + 1]
        k = groups.members[first] - lo
        for a in range(cells.rows[r]):
            above = fill(s.above, s.above[8 * k * W + a])
            for i in range(n):
                if tables.left[r] < 0:
                    x = load(s.above, k * W + i)
                    for m in range(first + 1, end):
                        x = x + load(s.above, (groups.members[m] - lo) * W + i)
                else:
                    x = above * load(s.products, k * P + i)
                    for m in range(first + 1, end):
                        h = groups.members[m] - lo
                        x = fma(fill(s.above, s.above[8 * h * W + a]), load(s.products, h * P + i), x)
                pseudo = load(s.pseudo, y - begin)
                x = x * pseudo
                store_eight(out, y, x)
                score = fma(x, log(pseudo), score)
                y += 1
    return add_up(score)


@njit(nogil=True)
def replace_tree(b, tables, cells, groups, counts, totals, own, out):
    """Take own counts out of the shared ones and put the new ones in.

    What rounding leaves of nothing may be below it; whoever reads it sees to that.
    """
    W = cells.width
    zero = fill(counts, 0.0)
    for g in range(groups.start[b], groups.start[b + 1]):
        r, y = groups.rule[g], groups.own[g]
        A, at = tables.parent[r] * W, cells.start[r]
        lexical = tables.left[r] < 0
        for a in range(cells.rows[r]):
            change = zero
            for i in range(cells.each[r]):
                x = load_eight(out, y) - load_eight(own, y)
                store(counts, at, load(counts, at) + x)
                change = change + x
                if lexical:
                    store(totals, A + i, load(totals, A + i) + x)
                y += 1
                at += 1
            if not lexical:
                totals[8 * A + a] += add_up(change)
