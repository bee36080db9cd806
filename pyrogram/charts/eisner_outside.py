# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The outside pass of :mod:`.eisner_lanes`: adjoints of log Z, and from them the posteriors of arcs and stops.

Columns and rows are visited in the reverse of the order in which the inside pass filled them, two columns at a time.
The adjoint of log Z with respect to a cell X is in the table dX, at the same place as X.
"""

# mypy: disable-error-code="no-untyped-def"
from numba import njit

from pyrogram.charts.runtime.lanes import any_lane, fill, fma, load, store

from .eisner_lanes import columns_at_once


@njit(nogil=True)
def outside(mem, c, n):
    """Posteriors of arcs (into ``a0``, ``a1``) and stops (``ms``); call :func:`.eisner_lanes.inside` first."""
    p = c.pitch
    zero = fill(mem, mem.dtype.type(0))
    for j in range(n + 1):
        for t in range(j + 1):
            for table in (c.dLO, c.dRCc, c.dIL):
                store(mem, table + j * p + t, zero)
            if not c.plain:
                store(mem, c.dLCc + j * p + t, zero)
        for t in range(j, n + 1):
            for table in (c.dRO, c.dLCr, c.dIR):
                store(mem, table + j * p + t, zero)
            if not c.plain:
                store(mem, c.dRCr + j * p + t, zero)
        if not c.plain:
            store(mem, c.ms + 4 * j + 1, zero)
            store(mem, c.ms + 4 * j + 3, zero)
    _open(mem, c, n)
    top = load(mem, c.bound)
    columns = columns_at_once(c, n)
    for start in range((n - 1) // columns * columns + 1, 0, -columns):
        end = min(start + columns, n + 1)
        if c.multiroot:
            for j in range(end - 1, start - 1, -1):
                top = _outside_wall(mem, c, j, top)
        for i in range(1, end):
            first = max(start, i + 1)
            for j in range(end - 1, first, -2):
                top = _outside_pair(mem, c, i, j, top)
            if (end - first) % 2 == 1:
                top = _outside_cell(mem, c, i, first, top)
            if i >= start and not c.plain:
                top = _outside_stops(mem, c, i, top)
    store(mem, c.bound, top)


@njit(nogil=True, forceinline=True)
def _outside_stops(mem, c, j, top):
    """Posteriors of stopping without a child."""
    jj = j * c.pitch + j
    left = (load(mem, c.dLCr + jj) + load(mem, c.dLCc + jj)) * load(mem, c.factors + j)
    right = load(mem, c.dRCr + jj) + load(mem, c.dRCc + jj)
    store(mem, c.ms + 4 * j, left * load(mem, c.s + 4 * j))
    store(mem, c.ms + 4 * j + 2, right * load(mem, c.s + 4 * j + 2))
    return top + left + right


@njit(nogil=True, forceinline=True)
def _open(mem, c, n):
    """Adjoints of :func:`.eisner_scaling.close`, of log Z."""
    p = c.pitch
    width = 64 // mem.itemsize
    for lane in range(width):
        z = mem[c.z * width + lane]
        mem[c.z * width + lane] = 1 / z if z > 0 else 0
    inverse = load(mem, c.z)
    if c.multiroot:
        for m in range(1, n + 1):
            store(mem, c.dRO + m, load(mem, c.ends + m) * inverse)
        return
    # The wall's arcs have no cell of their own, so their adjoints, and what each product meets, are summed here.
    top = load(mem, c.bound) + inverse
    for r in range(1, n + 1):
        weight = load(mem, c.a0 + r)
        left = load(mem, c.LCr + p + r)
        share = inverse * left
        right = fill(mem, mem.dtype.type(0))
        for m in range(r, n + 1):
            if any_lane(load(mem, c.ends + m)):
                rm = load(mem, c.RCc + m * p + r) * load(mem, c.ends + m)
                right = right + rm
                _add(mem, c.dRCc + m * p + r, weight * share * load(mem, c.ends + m))
        _add(mem, c.dLCr + p + r, weight * (inverse * right))
        store(mem, c.a0 + r, weight * (share * right))
        top = top + share + inverse * right + share * right + weight * left + weight * right
    store(mem, c.bound, top)


@njit(nogil=True, forceinline=True)
def _outside_cell(mem, c, i, j, top):
    """From the adjoints of RC(i, j) and LC(i, j) to those of all that they are made of."""
    if c.plain:
        ij = i * c.pitch + j
        above = load(mem, c.dIR + ij), load(mem, c.dLCr + ij), load(mem, c.dRCr + ij)
        right, left, both, top = _open_plain(mem, c, i, j, above, top)
        for k in range(i + 1, j):
            ik, jk = i * c.pitch + k, j * c.pitch + k
            _push(mem, right, c.IR + ik, c.dIR + ik, c.RCc + jk, c.dRCc + jk)
            _push(mem, left, c.LCr + ik, c.dLCr + ik, c.IL + jk, c.dIL + jk)
            _push(mem, both, c.RCr + ik, c.dRCr + ik, c.LCc + jk + 1, c.dLCc + jk + 1)
        return top
    right, left, later_right, later_left, top = _open_cell(mem, c, i, j, top)
    for k in range(i + 1, j):
        _spread(mem, c, i, j, k, right, left, later_right, later_left)
    return top


@njit(nogil=True, forceinline=True)
def _outside_pair(mem, c, i, j, top):
    """Cells (i, j) and (i, j - 1), see :func:`.eisner_lanes._inside_pair`.

    k = j - 1 comes first, for the second cell needs it.
    """
    if c.plain:
        ij, last = i * c.pitch + j, j * c.pitch + j - 1
        above = load(mem, c.dIR + ij), load(mem, c.dLCr + ij), load(mem, c.dRCr + ij)
        right0, left0, both0, top = _open_plain(mem, c, i, j, above, top)
        above = (
            fma(right0, load(mem, c.RCc + last), load(mem, c.dIR + ij - 1)),
            fma(left0, load(mem, c.IL + last), load(mem, c.dLCr + ij - 1)),
            fma(both0, load(mem, c.LCc + last + 1), load(mem, c.dRCr + ij - 1)),
        )
        _add(mem, c.dRCc + last, right0 * load(mem, c.IR + ij - 1))
        _add(mem, c.dIL + last, left0 * load(mem, c.LCr + ij - 1))
        right1, left1, both1, top = _open_plain(mem, c, i, j - 1, above, top)
        for k in range(i + 1, j - 1):
            ik, jk = i * c.pitch + k, j * c.pitch + k
            _push_both(mem, c, right0, right1, c.IR + ik, c.dIR + ik, c.RCc + jk, c.dRCc + jk)
            _push_both(mem, c, left0, left1, c.LCr + ik, c.dLCr + ik, c.IL + jk, c.dIL + jk)
            _push_both(mem, c, both0, both1, c.RCr + ik, c.dRCr + ik, c.LCc + jk + 1, c.dLCc + jk + 1)
        return top
    right0, left0, later_right0, later_left0, top = _open_cell(mem, c, i, j, top)
    _spread(mem, c, i, j, j - 1, right0, left0, later_right0, later_left0)
    right1, left1, later_right1, later_left1, top = _open_cell(mem, c, i, j - 1, top)
    for k in range(i + 1, j - 1):
        ik, jk = i * c.pitch + k, j * c.pitch + k
        _push_both(mem, c, right0, right1, c.IR + ik, c.dIR + ik, c.RCc + jk, c.dRCc + jk)
        _push_both(mem, c, left0, left1, c.LCr + ik, c.dLCr + ik, c.IL + jk, c.dIL + jk)
        _push_both(mem, c, later_right0, later_right1, c.RO + ik, c.dRO + ik, c.LCc + jk + 1, c.dLCc + jk + 1)
        _push_both(mem, c, later_left0, later_left1, c.RCr + ik - 1, c.dRCr + ik - 1, c.LO + jk, c.dLO + jk)
    return top


@njit(nogil=True, forceinline=True)
def _spread(mem, c, i, j, k, right, left, later_right, later_left):
    ik, jk = i * c.pitch + k, j * c.pitch + k
    _push(mem, right, c.IR + ik, c.dIR + ik, c.RCc + jk, c.dRCc + jk)
    _push(mem, left, c.LCr + ik, c.dLCr + ik, c.IL + jk, c.dIL + jk)
    _push(mem, later_right, c.RO + ik, c.dRO + ik, c.LCc + jk + 1, c.dLCc + jk + 1)
    _push(mem, later_left, c.RCr + ik - 1, c.dRCr + ik - 1, c.LO + jk, c.dLO + jk)


@njit(nogil=True, forceinline=True)
def _push(mem, g, a, da, b, db):
    """Adjoint of adding the product of cells a and b to a sum whose adjoint is g."""
    x, y = load(mem, a), load(mem, b)
    store(mem, da, fma(g, y, load(mem, da)))
    store(mem, db, fma(g, x, load(mem, db)))


@njit(nogil=True, forceinline=True)
def _push_both(mem, c, g0, g1, a, da, b, db):
    """:func:`_push` for the sums of columns j and j - 1, which lie a pitch apart."""
    x, y0, y1 = load(mem, a), load(mem, b), load(mem, b - c.pitch)
    store(mem, da, fma(g1, y1, fma(g0, y0, load(mem, da))))
    store(mem, db, fma(g0, x, load(mem, db)))
    store(mem, db - c.pitch, fma(g1, x, load(mem, db - c.pitch)))


@njit(nogil=True, forceinline=True)
def _open_plain(mem, c, i, j, above, top):
    """Adjoints of the sums of cell (i, j); puts the posteriors of its arcs in place of their weights."""
    p = c.pitch
    ij, ji, ii, jj = i * p + j, j * p + i, i * p + i, j * p + j
    right = above[2] + load(mem, c.dRCc + ji)
    left = above[1] + load(mem, c.dLCc + ji)
    right_arc = fma(right, load(mem, c.RCc + jj), above[0])
    left_arc = fma(left, load(mem, c.LCr + ii), load(mem, c.dIL + ji))
    both = load(mem, c.SR + ij)
    raw_right, raw_left = right_arc * both, left_arc * both
    top = top + (right + left) + (right_arc + left_arc) + (raw_right + raw_left)
    weight_right, weight_left = load(mem, c.a0 + ij), load(mem, c.a0 + ji)
    store(mem, c.a0 + ij, raw_right * weight_right)
    store(mem, c.a0 + ji, raw_left * weight_left)
    both = fma(right_arc, weight_right, left_arc * weight_left)
    # What half trees of one word get is not needed, for they have no weight.
    _add(mem, c.dLCc + ji + 1, both * load(mem, c.RCr + ii))
    return right, left, both, top


@njit(nogil=True, forceinline=True)
def _open_cell(mem, c, i, j, top):
    p = c.pitch
    ij, ji, ii, jj = i * p + j, j * p + i, i * p + i, j * p + j
    right = load(mem, c.dRCr + ij) + load(mem, c.dRCc + ji)
    left = load(mem, c.dLCr + ij) + load(mem, c.dLCc + ji)
    raw_right, raw_left = right * load(mem, c.RO + ij), left * load(mem, c.LO + ji)
    top = top + (right + left) + (raw_right + raw_left)
    stop_right, stop_left = load(mem, c.s + 4 * i + 3), load(mem, c.s + 4 * j + 1)
    _add(mem, c.ms + 4 * i + 3, raw_right * stop_right)
    _add(mem, c.ms + 4 * j + 1, raw_left * stop_left)
    right = fma(right, stop_right, load(mem, c.dRO + ij))
    left = fma(left, stop_left, load(mem, c.dLO + ji))
    right_arc = fma(right, load(mem, c.RCc + jj), load(mem, c.dIR + ij))
    left_arc = fma(left, load(mem, c.LCr + ii), load(mem, c.dIL + ji))
    _add(mem, c.dRCc + jj, right * load(mem, c.IR + ij))
    _add(mem, c.dLCr + ii, left * load(mem, c.IL + ji))
    top = top + (right + left) + (right_arc + left_arc)
    raw0, raw1 = right_arc * load(mem, c.LCc + ji + 1), right_arc * load(mem, c.SR + ij)
    top = top + (raw0 + raw1)
    a0, a1 = load(mem, c.a0 + ij), load(mem, c.a1 + ij)
    store(mem, c.a0 + ij, raw0 * a0)
    store(mem, c.a1 + ij, raw1 * a1)
    _add(mem, c.dLCc + ji + 1, right_arc * a0)
    later_right = right_arc * a1
    diagonal = left_arc * load(mem, c.factors + j)
    raw0, raw1 = diagonal * load(mem, c.RCr + ij - 1), left_arc * load(mem, c.SL + ij)
    top = top + (raw0 + raw1)
    a0, a1 = load(mem, c.a0 + ji), load(mem, c.a1 + ji)
    store(mem, c.a0 + ji, raw0 * a0)
    store(mem, c.a1 + ji, raw1 * a1)
    _add(mem, c.dRCr + ij - 1, diagonal * a0)
    return right, left, later_right, left_arc * a1, top


@njit(nogil=True, forceinline=True)
def _outside_wall(mem, c, j, top):
    p = c.pitch
    right = load(mem, c.dRO + j)
    for k in range(1, j + 1):
        _push(mem, right, c.IR + k, c.dIR + k, c.RCc + j * p + k, c.dRCc + j * p + k)
    g = load(mem, c.dIR + j)
    raw0, raw1 = g * load(mem, c.LCc + j * p + 1), g * load(mem, c.SR + j)
    top = top + right + g + raw0 + raw1
    a0, a1 = load(mem, c.a0 + j), load(mem, c.a1 + j)
    if c.plain:
        store(mem, c.a0 + j, raw0 * a0 + raw1 * a1)
    else:
        store(mem, c.a0 + j, raw0 * a0)
        store(mem, c.a1 + j, raw1 * a1)
    _add(mem, c.dLCc + j * p + 1, g * a0)
    g = g * a1
    for k in range(1, j):
        _push(mem, g, c.RO + k, c.dRO + k, c.LCc + j * p + k + 1, c.dLCc + j * p + k + 1)
    return top


@njit(nogil=True, forceinline=True)
def _add(mem, cell, lanes):
    store(mem, cell, load(mem, cell) + lanes)
