# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The outside pass of :mod:`.cfg_lanes`: adjoints of log Z, and the posteriors of all rules.

Spans are visited in the reverse of the order in which the inside pass filled them. At each, adjoints go from parents
to pairs, from pairs to the cells of their symbols (and the products are formed again on the way), and products times
the parents' adjoints are the counts of the rules, up to their weights.
"""

# mypy: disable-error-code="no-untyped-def"

from pyrogram.charts.runtime.compiling import borrowing, inlined
from pyrogram.charts.runtime.lanes import any_lane, fill, fma, load, store

from .cfg_lanes import weight


@borrowing
def outside(mem, c, p, weights, n):
    """Adjoints of all cells and, in ``counts``, of the weights (that is, posteriors without them).

    Call :func:`.cfg_lanes.inside` first. ``outer`` must be zero but for the adjoint of the cell of the whole sentence.
    """
    zero = fill(mem, 0.0)
    for q in range(p.num_weights):
        store(mem, c.counts + q, zero)
    bound = zero
    for k in range(n, 0, -1):
        ends = any_lane(load(mem, c.ends + k))
        for i in range(k):
            whole = i == 0 and ends
            bound = bound + _open_unary(mem, c, p, weights, i, k, whole)
            if k > i + 1:
                bound = bound + _open_rules(mem, c, p, weights, i, k, whole)
                _push_pairs(mem, c, p, i, k, whole)
                _count_rules(mem, c, p, i, k, whole)
    store(mem, c.outer_bound, bound)


@inlined
def _open_unary(mem, c, p, weights, i, k, whole):
    bound = fill(mem, 0.0)
    here = (i * c.pitch + k) * c.S
    first = len(p.source) - len(p.unary)
    for u in range(len(p.unary) - 1, -1, -1):
        if (p.unary[u, 4] and not whole) or k - i < p.unary[u, 2] or k - i > p.unary[u, 3]:
            continue
        adjoint = load(mem, c.outer + here + p.unary[u, 0])
        child = here + p.unary[u, 1]
        q = c.counts + first + u
        store(mem, q, fma(adjoint, load(mem, c.inner + child), load(mem, q)))
        adjoint = fma(adjoint, weight(mem, weights, first + u), load(mem, c.outer + child))
        store(mem, c.outer + child, adjoint)
        bound = bound + adjoint
    return bound


@borrowing
def _open_rules(mem, c, p, weights, i, k, whole):
    """Adjoints of the products of a span; returns the sum of all adjoints met."""
    zero = fill(mem, 0.0)
    bound = zero
    width = k - i
    for b in range(len(p.blocks)):
        if not (p.blocks[b, 11] and not whole):
            for t in range(p.blocks[b, 2]):
                store(mem, c.dX + p.blocks[b, 1] + t, zero)
    here = c.outer + (i * c.pitch + k) * c.S
    for g in range(len(p.groups)):
        if (p.groups[g, 10] and not whole) or width < p.groups[g, 8] or width > p.groups[g, 9]:
            continue
        q = p.groups[g, 7]
        d0 = load(mem, here + p.groups[g, 1])
        if p.groups[g, 0] == 1:
            for e in range(p.groups[g, 5], p.groups[g, 6]):
                x = c.dX + p.entries[e]
                total = fma(d0, weight(mem, weights, q), load(mem, x))
                store(mem, x, total)
                bound = bound + total
                q += 1
            bound = bound + d0
        else:
            d1, d2 = load(mem, here + p.groups[g, 2]), load(mem, here + p.groups[g, 3])
            d3 = load(mem, here + p.groups[g, 4])
            for e in range(p.groups[g, 5], p.groups[g, 6]):
                x = c.dX + p.entries[e]
                total = fma(d0, weight(mem, weights, q), load(mem, x))
                total = fma(d1, weight(mem, weights, q + 1), total)
                other = d2 * weight(mem, weights, q + 2)
                other = fma(d3, weight(mem, weights, q + 3), other)
                total = total + other
                store(mem, x, total)
                bound = bound + total
                q += 4
            bound = bound + ((d0 + d1) + (d2 + d3))
    return bound


@borrowing
def _push_pairs(mem, c, p, i, k, whole):
    """Adjoints of the cells of both symbols of all pairs, and the products of the pairs."""
    width = k - i
    step = c.pitch * c.S
    for b in range(len(p.blocks)):
        if p.blocks[b, 11] and not whole:
            continue
        low = max(p.blocks[b, 7], width - p.blocks[b, 10])
        high = min(p.blocks[b, 8], width - p.blocks[b, 9])
        if low > high:
            continue
        left = (i * c.pitch + i + low) * c.S + p.blocks[b, 0]
        right = ((i + low) * c.pitch + k) * c.S
        x, dx, size = c.X + p.blocks[b, 1], c.dX + p.blocks[b, 1], p.blocks[b, 2]
        count = high - low + 1
        if size == 4:
            _push4(mem, c.inner, c.outer, c.S, step, left, right, count, x, dx, p.blocks[b])
        elif size == 2:
            _push2(mem, c.inner, c.outer, c.S, step, left, right, count, x, dx, p.blocks[b])
        else:
            right += p.blocks[b, 3]
            total, g = fill(mem, 0.0), load(mem, dx)
            for _ in range(count):
                a, b0 = load(mem, c.inner + left), load(mem, c.inner + right)
                total = fma(a, b0, total)
                store(mem, c.outer + left, fma(g, b0, load(mem, c.outer + left)))
                store(mem, c.outer + right, fma(g, a, load(mem, c.outer + right)))
                left += c.S
                right += step
            store(mem, x, total)


@inlined
def _push4(mem, inner, outer, S, step, left, right, count, x, dx, block):
    x0 = x1 = x2 = x3 = fill(mem, 0.0)
    g0, g1, g2, g3 = load(mem, dx), load(mem, dx + 1), load(mem, dx + 2), load(mem, dx + 3)
    r0, r1, r2, r3 = right + block[3], right + block[4], right + block[5], right + block[6]
    at = inner
    back = outer
    for _ in range(count):
        a = load(mem, inner + left)
        b0, b1, b2, b3 = load(mem, r0 + at), load(mem, r1 + at), load(mem, r2 + at), load(mem, r3 + at)
        x0 = fma(a, b0, x0)
        x1 = fma(a, b1, x1)
        x2 = fma(a, b2, x2)
        x3 = fma(a, b3, x3)
        d = fma(g1, b1, fma(g0, b0, load(mem, outer + left)))
        store(mem, outer + left, d + fma(g3, b3, g2 * b2))
        store(mem, r0 + back, fma(g0, a, load(mem, r0 + back)))
        store(mem, r1 + back, fma(g1, a, load(mem, r1 + back)))
        store(mem, r2 + back, fma(g2, a, load(mem, r2 + back)))
        store(mem, r3 + back, fma(g3, a, load(mem, r3 + back)))
        left += S
        at += step
        back += step
    store(mem, x, x0)
    store(mem, x + 1, x1)
    store(mem, x + 2, x2)
    store(mem, x + 3, x3)


@inlined
def _push2(mem, inner, outer, S, step, left, right, count, x, dx, block):
    x0 = x1 = fill(mem, 0.0)
    g0, g1 = load(mem, dx), load(mem, dx + 1)
    r0, r1 = right + block[3], right + block[4]
    at = inner
    back = outer
    for _ in range(count):
        a = load(mem, inner + left)
        b0, b1 = load(mem, r0 + at), load(mem, r1 + at)
        x0 = fma(a, b0, x0)
        x1 = fma(a, b1, x1)
        store(mem, outer + left, fma(g1, b1, fma(g0, b0, load(mem, outer + left))))
        store(mem, r0 + back, fma(g0, a, load(mem, r0 + back)))
        store(mem, r1 + back, fma(g1, a, load(mem, r1 + back)))
        left += S
        at += step
        back += step
    store(mem, x, x0)
    store(mem, x + 1, x1)


@borrowing
def _count_rules(mem, c, p, i, k, whole):
    """Add products times the adjoints of parents to the counts of the weights."""
    here = c.outer + (i * c.pitch + k) * c.S
    for g in range(len(p.groups)):
        if (p.groups[g, 10] and not whole) or k - i < p.groups[g, 8] or k - i > p.groups[g, 9]:
            continue
        q = c.counts + p.groups[g, 7]
        d0 = load(mem, here + p.groups[g, 1])
        if p.groups[g, 0] == 1:
            for e in range(p.groups[g, 5], p.groups[g, 6]):
                store(mem, q, fma(d0, load(mem, c.X + p.entries[e]), load(mem, q)))
                q += 1
        else:
            d1, d2 = load(mem, here + p.groups[g, 2]), load(mem, here + p.groups[g, 3])
            d3 = load(mem, here + p.groups[g, 4])
            for e in range(p.groups[g, 5], p.groups[g, 6]):
                x = load(mem, c.X + p.entries[e])
                store(mem, q, fma(d0, x, load(mem, q)))
                store(mem, q + 1, fma(d1, x, load(mem, q + 1)))
                store(mem, q + 2, fma(d2, x, load(mem, q + 2)))
                store(mem, q + 3, fma(d3, x, load(mem, q + 3)))
                q += 4
