# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The outside pass of :mod:`.sibling_lanes`: adjoints of log Z, and from them the posteriors of all events.

Cells are visited in the reverse of the order in which the inside pass filled them. The adjoint of log Z with respect to
a cell X is in the table dX, at the same place as X. Posteriors of siblings leave at once, a row for each arc.
"""

# mypy: disable-error-code="no-untyped-def"
from numba import njit

from pyrogram.charts.runtime.lanes import any_lane, fill, fma, load, store

from .eisner_outside import _add, _push
from .sibling_rows import scatter_row, sibling_range, weigh_row


@njit(nogil=True)
def outside(mem, c, n, siblings, offsets, out):
    """Posteriors of siblings into ``out``, if it is not empty, of arcs into ``a`` and ``root``, of stops into ``s`` and
    ``none``; call :func:`.sibling_lanes.inside` first.
    """
    p = c.pitch
    zero = fill(mem, mem.dtype.type(0))
    for j in range(n + 1):
        for t in range(j + 1):
            for table in (c.dRCc, c.dLCc, c.dBc, c.dIL, c.dJL):
                store(mem, table + j * p + t, zero)
        for t in range(j, n + 1):
            for table in (c.dRCr, c.dLCr, c.dBr, c.dIR, c.dJR):
                store(mem, table + j * p + t, zero)
    _open(mem, c, n, out, offsets)
    top = load(mem, c.bound)
    for j in range(n, 0, -1):
        if c.multiroot:
            weigh_row(mem, c, n, siblings, offsets, 0, j, c.right)
            top = _outside_wall(mem, c, j, top)
            _drain_row(mem, c, n, 0, j, c.right, out, offsets)
        for i in range(1, j):
            weigh_row(mem, c, n, siblings, offsets, i, j, c.right)
            weigh_row(mem, c, n, siblings, offsets, j, i, c.left)
            top = _outside_cell(mem, c, i, j, top)
            _drain_row(mem, c, n, i, j, c.right, out, offsets)
            _drain_row(mem, c, n, j, i, c.left, out, offsets)
        if not c.plain:
            top = _outside_stops(mem, c, j, top)
    store(mem, c.bound, top)


@njit(nogil=True, forceinline=True)
def _drain_row(mem, c, n, h, m, place, out, offsets):
    if len(out) > 0:
        N = out.shape[1]
        lo, hi = sibling_range(h, m, True)
        scatter_row(mem, place, n, out, offsets, (h * N + m) * N, lo, hi)


@njit(nogil=True, forceinline=True)
def _open(mem, c, n, out, offsets):
    """Adjoints of :func:`.eisner_scaling.close`, of log Z."""
    p = c.pitch
    width = 64 // mem.itemsize
    for lane in range(width):
        z = mem[c.z * width + lane]
        mem[c.z * width + lane] = 1 / z if z > 0 else 0
    inverse = load(mem, c.z)
    if c.multiroot:
        for m in range(1, n + 1):
            store(mem, c.dRCr + m, load(mem, c.ends + m) * inverse)
        return
    # The wall's arcs have no cell of their own, so their adjoints, and what each product meets, are summed here.
    top = load(mem, c.bound) + inverse
    for r in range(1, n + 1):
        weight = load(mem, c.root + r)
        left = load(mem, c.LCr + p + r)
        share = inverse * left
        right = fill(mem, mem.dtype.type(0))
        for m in range(r, n + 1):
            if any_lane(load(mem, c.ends + m)):
                right = fma(load(mem, c.RCc + m * p + r), load(mem, c.ends + m), right)
                _add(mem, c.dRCc + m * p + r, weight * share * load(mem, c.ends + m))
        _add(mem, c.dLCr + p + r, weight * (inverse * right))
        posterior = weight * (share * right)
        store(mem, c.root + r, posterior)
        store(mem, c.right, posterior)
        if len(out) > 0:
            N = out.shape[1]
            scatter_row(mem, c.right, n, out, offsets, r * N, 0, 1)
        top = top + share + inverse * right + share * right + weight * left + weight * right
    store(mem, c.bound, top)


@njit(nogil=True, forceinline=True)
def _outside_cell(mem, c, i, j, top):
    """From the adjoints of cell (i, j) to those of all that it is made of; posteriors in place of the row's weights."""
    p = c.pitch
    ij, ji, ii, jj = i * p + j, j * p + i, i * p + i, j * p + j
    right = load(mem, c.dRCr + ij) + load(mem, c.dRCc + ji)
    left = load(mem, c.dLCr + ij) + load(mem, c.dLCc + ji)
    between = load(mem, c.dBr + ij) + load(mem, c.dBc + ji)
    _push(mem, right, c.JR + ij, c.dJR + ij, c.RCc + jj, c.dRCc + jj)
    _push(mem, left, c.LCr + ii, c.dLCr + ii, c.JL + ji, c.dJL + ji)
    arc_right, arc_left = load(mem, c.dIR + ij), load(mem, c.dIL + ji)
    if not c.plain:
        arc_right, top = _stop(mem, c.s + ij, load(mem, c.dJR + ij), load(mem, c.IR + ij), arc_right, top)
        arc_left, top = _stop(mem, c.s + ji, load(mem, c.dJL + ji), load(mem, c.IL + ji), arc_left, top)
    top = top + (right + left) + (arc_right + arc_left) + between
    # Arcs to first children: IR(i, j) and IL(i, j), where LC(j, j) stands for the factor of column j.
    weight, cell = load(mem, c.right + i), load(mem, c.LCc + ji + 1)
    raw = arc_right * cell
    sum_right, top = raw * weight, top + raw
    store(mem, c.right + i, sum_right)
    _add(mem, c.dLCc + ji + 1, fma(arc_right, weight, between * load(mem, c.RCr + ii)))
    _add(mem, c.dRCr + ii, between * cell)
    diagonal = arc_left * load(mem, c.factors + j)
    weight, cell = load(mem, c.left + j), load(mem, c.RCr + ij - 1)
    raw = diagonal * cell
    sum_left, top = raw * weight, top + raw
    store(mem, c.left + j, sum_left)
    _add(mem, c.dRCr + ij - 1, diagonal * weight)
    for k in range(i + 1, j):
        ik, jk = i * p + k, j * p + k
        posterior, top = _push_three(mem, arc_right, c.right + k, c.IR + ik, c.dIR + ik, c.Bc + jk, c.dBc + jk, top)
        sum_right = sum_right + posterior
        posterior, top = _push_three(mem, arc_left, c.left + k, c.Br + ik, c.dBr + ik, c.IL + jk, c.dIL + jk, top)
        sum_left = sum_left + posterior
        _push(mem, between, c.RCr + ik, c.dRCr + ik, c.LCc + jk + 1, c.dLCc + jk + 1)
        _push(mem, right, c.JR + ik, c.dJR + ik, c.RCc + jk, c.dRCc + jk)
        _push(mem, left, c.LCr + ik, c.dLCr + ik, c.JL + jk, c.dJL + jk)
    store(mem, c.a + ij, sum_right)
    store(mem, c.a + ji, sum_left)
    return top


@njit(nogil=True, forceinline=True)
def _push_three(mem, g, weight, a, da, b, db, top):
    """Adjoint of adding a product of cells a and b and a weight, which becomes its posterior, to a sum."""
    x, y, w = load(mem, a), load(mem, b), load(mem, weight)
    raw = g * (x * y)
    posterior = raw * w
    store(mem, weight, posterior)
    g = g * w
    store(mem, da, fma(g, y, load(mem, da)))
    store(mem, db, fma(g, x, load(mem, db)))
    return posterior, top + raw


@njit(nogil=True, forceinline=True)
def _stop(mem, stop, g, arc, adjoint, top):
    """Posterior of a stop from the adjoint of the trapezoid after it, and what that adds to the trapezoid's."""
    weight, raw = load(mem, stop), g * arc
    store(mem, stop, raw * weight)
    return fma(g, weight, adjoint), top + g + raw


@njit(nogil=True, forceinline=True)
def _outside_stops(mem, c, j, top):
    """Posteriors of stopping without a child."""
    jj = j * c.pitch + j
    left = (load(mem, c.dLCr + jj) + load(mem, c.dLCc + jj)) * load(mem, c.factors + j)
    right = load(mem, c.dRCr + jj) + load(mem, c.dRCc + jj)
    store(mem, c.none + 2 * j, left * load(mem, c.none + 2 * j))
    store(mem, c.none + 2 * j + 1, right * load(mem, c.none + 2 * j + 1))
    return top + left + right


@njit(nogil=True, forceinline=True)
def _outside_wall(mem, c, j, top):
    jp = j * c.pitch
    tree = load(mem, c.dRCr + j)
    _push(mem, tree, c.JR + j, c.dJR + j, c.RCc + jp + j, c.dRCc + jp + j)
    arc = load(mem, c.dIR + j)
    if not c.plain:
        arc = arc + load(mem, c.dJR + j)
    weight = load(mem, c.right)
    raw = arc * load(mem, c.LCc + jp + 1)
    total, top = raw * weight, top + tree + arc + raw
    store(mem, c.right, total)
    _add(mem, c.dLCc + jp + 1, arc * weight)
    for k in range(1, j):
        posterior, top = _push_three(mem, arc, c.right + k, c.IR + k, c.dIR + k, c.Bc + jp + k, c.dBc + jp + k, top)
        total = total + posterior
        _push(mem, tree, c.JR + k, c.dJR + k, c.RCc + jp + k, c.dRCc + jp + k)
    store(mem, c.a + j, total)
    return top
