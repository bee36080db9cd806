# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Inside and outside of projective dependency trees, W sentences at a time, in scaled real space.

The split-head recursion of Eisner and Satta (1999). Every word is cut into a left and a right half; i, j, k
are positions, i <= k <= j, and a cell (i, j) is one of

    IR, IL   a trapezoid: an arc between i and j (from i in IR, from j in IL) and all between them
    RO, LO   a half tree without its stop: head i and its descendants to the right as far as j (RO), head j
             and its descendants to the left as far as i (LO)
    RC, LC   the same, completed by the head's stop

    IR(i, j) = a0(i, j) LC(i+1, j) + a1(i, j) sum_{i < k < j} RO(i, k) LC(k+1, j)
    RO(i, j) = sum_{i < k <= j} IR(i, k) RC(k, j)
    RC(i, j) = s(i, right, [j > i]) RO(i, j)

and their mirror images. The child k = i + 1 .. j of an open head is its *first* exactly if the open part is
the head alone, so valence costs nothing. The wall is a head 0 with right children only.

Order. Column j (cells that end at j) needs the columns before it. A few columns are filled together, row by row,
so that a row that was fetched from memory serves all of them.

Scaling. Column j is linear in the factor f_j = LO(j, j), for every cell that covers the left half of word j carries
it exactly once. So f_j may be chosen after the column has been filled: a power of two that brings its cells to the
magnitude of one, for the last of the columns that are filled together; one for the others. The outside pass sees
f_j as the diagonal's value, and posteriors do not depend on it.

Cost: 4/6 n^3 fused multiply-adds inside (3/6 if plain), twice that outside; about 18 n^2 cells of memory.
"""

# mypy: disable-error-code="no-untyped-def"
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from .lanes import exponent_of, fill, fma, load, power_of_two, rounded, store

SCALED_FROM = 12  # columns that may grow or shrink out of range; shorter charts need no scaling


class Chart(NamedTuple):
    """Where the tables of one block of W sentences lie in memory, as cell numbers; see :func:`make_chart`.

    Weights: ``a0``, ``a1`` [head, dependent] for the first and for later children, ``s`` [head, direction,
    valence]; :func:`outside` puts the posteriors of the arcs in place of ``a0`` and ``a1``, and those of the
    stops in ``ms``. The recursions run along rows in ``RO``, ``RCr``, ``LCr``, ``IR`` and down columns in ``LO``,
    ``LCc``, ``RCc``, ``IL``, which are therefore stored by columns. ``SR``, ``SL`` are the sums over later
    children in the trapezoids. dX is the adjoint of log Z with respect to X; ``ends`` + n is one in the lanes of
    sentences of n words; ``shifts`` were taken off the scores; ``bound`` sums all values met (NaN sticks to a sum),
    from which :mod:`.projective_numba` judges whether digits were lost.
    """

    pitch: int  # cell (i, j) is i * pitch + j by rows, j * pitch + i by columns
    plain: bool  # no valence and no stops: open and complete are one table, and so are a0 and a1
    multiroot: bool
    a0: int
    a1: int
    RO: int
    RCr: int
    RCc: int
    LO: int
    LCc: int
    LCr: int
    IR: int
    IL: int
    SR: int
    SL: int
    dRO: int
    dRCr: int
    dRCc: int
    dLO: int
    dLCc: int
    dLCr: int
    dIR: int
    dIL: int
    s: int
    ms: int
    factors: int
    ends: int
    shifts: int
    z: int
    bound: int


_ALIASES = {"a1": "a0", "RCr": "RO", "LCc": "LO", "SL": "SR", "dRCr": "dRO", "dLCc": "dLO"}


def make_chart(n: int, dtype: Any, plain: bool, multiroot: bool) -> tuple[Any, Chart]:
    """Memory for sentences of at most n words, and its layout (one array: many would cost reference counts)."""
    pitch = (n + 1) | 1  # odd, so that the rows do not fall into the same cache sets
    rows = {"s": 4, "ms": 4, "factors": 1, "ends": 1, "shifts": 3}
    places: dict[str, int] = {}
    end = 0
    for name in Chart._fields[3:]:
        if plain and name in _ALIASES:
            places[name] = places[_ALIASES[name]]
            continue
        places[name] = end
        end += 1 if name in ("z", "bound") else rows.get(name, pitch) * (n + 1)
    width = 64 // np.dtype(dtype).itemsize
    return np.zeros(end * width, dtype), Chart(pitch, plain, multiroot, **places)


@njit(nogil=True, forceinline=True)
def _dot(mem, a, b, count):
    """sum_t [a + t] * [b + t]."""
    total = fill(mem, mem.dtype.type(0))
    for t in range(count):
        total = fma(load(mem, a + t), load(mem, b + t), total)
    return total


@njit(nogil=True, forceinline=True)
def _push(mem, g, A, dA, a, B, dB, b, count):
    """Adjoint of :func:`_dot`: dA += g * B and dB += g * A, for the tables at A, dA, B, dB."""
    for t in range(count):
        store(mem, dA + a + t, fma(g, load(mem, B + b + t), load(mem, dA + a + t)))
        store(mem, dB + b + t, fma(g, load(mem, A + a + t), load(mem, dB + b + t)))


@njit(nogil=True, forceinline=True)
def _add(mem, cell, lanes):
    store(mem, cell, load(mem, cell) + lanes)


@njit(nogil=True)
def inside(mem, c, n):
    """Fill RO .. IL and z from the weights, left to right. Lanes of shorter sentences have weight 0 beyond."""
    p = c.pitch
    one = fill(mem, mem.dtype.type(1))
    top = fill(mem, mem.dtype.type(0))
    if c.multiroot:
        store(mem, c.RO, one)
    columns = _columns_at_once(c, n)
    for start in range(1, n + 1, columns):
        end = min(start + columns, n + 1)
        for j in range(start, end):
            jj = j * p + j
            store(mem, c.RO + jj, one)
            store(mem, c.LO + jj, one)
            store(mem, c.factors + j, one)
            left = one if c.plain else load(mem, c.s + 4 * j)
            right = one if c.plain else load(mem, c.s + 4 * j + 2)
            _store_complete(mem, c, jj, jj, right, left)
        for i in range(end - 2, 0, -1):
            for j in range(max(start, i + 1), end):
                top = _inside_cell(mem, c, i, j, top)
        if c.multiroot:
            for j in range(start, end):
                top = _inside_wall(mem, c, j, top)
        if n > SCALED_FROM:
            _scale_column(mem, c, end - 1)
    store(mem, c.bound, top)
    _close(mem, c, n)


@njit(nogil=True)
def _columns_at_once(c, n):
    """How many columns are filled row by row, so that they and a row of each table fit into a cache of 32 KB."""
    return max(1, (85 if c.plain else 64) // n)


@njit(nogil=True, forceinline=True)
def _store_complete(mem, c, row, column, right, left):
    if not c.plain:
        store(mem, c.RCr + row, right)
        store(mem, c.LCc + column, left)
    store(mem, c.RCc + column, right)
    store(mem, c.LCr + row, left)


@njit(nogil=True, forceinline=True)
def _inside_cell(mem, c, i, j, top):
    p = c.pitch
    ij, ji = i * p + j, j * p + i
    i_, j_ = i * p, j * p
    if c.plain:
        both = _dot(mem, c.RCr + i_ + i, c.LCc + j_ + i + 1, j - i)
        store(mem, c.SR + ij, both)
        arc_right = both * load(mem, c.a0 + ij)
        arc_left = both * load(mem, c.a0 + ji)
    else:
        first = load(mem, c.LCc + ji + 1) * load(mem, c.a0 + ij)
        later = _dot(mem, c.RO + i_ + i + 1, c.LCc + j_ + i + 2, j - i - 1)
        store(mem, c.SR + ij, later)
        arc_right = fma(later, load(mem, c.a1 + ij), first)
        # LO(j, j) carries the column's factor, which is one while the column is being filled.
        first = load(mem, c.RCr + ij - 1) * load(mem, c.a0 + ji)
        later = _dot(mem, c.RCr + i_ + i, c.LO + j_ + i + 1, j - i - 1)
        store(mem, c.SL + ij, later)
        arc_left = fma(later, load(mem, c.a1 + ji), first)
    store(mem, c.IR + ij, arc_right)
    store(mem, c.IL + ji, arc_left)
    right = _dot(mem, c.IR + i_ + i + 1, c.RCc + j_ + i + 1, j - i)
    left = _dot(mem, c.LCr + i_ + i, c.IL + j_ + i, j - i)
    store(mem, c.RO + ij, right)
    store(mem, c.LO + ji, left)
    top = top + right + left + arc_right + arc_left
    if not c.plain:
        right = right * load(mem, c.s + 4 * i + 3)
        left = left * load(mem, c.s + 4 * j + 1)
        top = top + right + left
    _store_complete(mem, c, ij, ji, right, left)
    return top


@njit(nogil=True, forceinline=True)
def _inside_wall(mem, c, j, top):
    p = c.pitch
    first = load(mem, c.LCc + j * p + 1) * load(mem, c.a0 + j)
    later = _dot(mem, c.RO + 1, c.LCc + j * p + 2, j - 1)
    arc = fma(later, load(mem, c.a1 + j), first)
    store(mem, c.SR + j, later)
    store(mem, c.IR + j, arc)
    right = _dot(mem, c.IR + 1, c.RCc + j * p + 1, j)
    store(mem, c.RO + j, right)
    return top + right + arc


@njit(nogil=True, forceinline=True)
def _scale_column(mem, c, j):
    """Multiply column j by a power of two: minus the mean exponent of its half trees, zeros counting as one."""
    p = c.pitch
    total = fill(mem, mem.dtype.type(0))
    for i in range(1, j):
        total = total + exponent_of(load(mem, c.RO + i * p + j) + load(mem, c.LO + j * p + i))
    factor = power_of_two(rounded(total * fill(mem, mem.dtype.type(-1.0 / j))))
    store(mem, c.factors + j, factor)
    jj = j * p + j
    _scale(mem, c.LO + jj, factor)
    _scale(mem, c.LCr + jj, factor)
    if not c.plain:
        _scale(mem, c.LCc + jj, factor)
    for i in range(0 if c.multiroot else 1, j):
        ij, ji = i * p + j, j * p + i
        for cell in (c.RO + ij, c.RCc + ji, c.LO + ji, c.LCr + ij, c.IR + ij, c.IL + ji, c.SR + ij):
            _scale(mem, cell, factor)
        if not c.plain:
            for cell in (c.RCr + ij, c.LCc + ji, c.SL + ij):
                _scale(mem, cell, factor)


@njit(nogil=True, forceinline=True)
def _scale(mem, cell, factor):
    store(mem, cell, load(mem, cell) * factor)


@njit(nogil=True, forceinline=True)
def _close(mem, c, n):
    """Z of every lane, read where its sentence ends."""
    p = c.pitch
    z = fill(mem, mem.dtype.type(0))
    for m in range(1, n + 1):
        if not _any(mem, c.ends + m):
            continue
        if c.multiroot:
            z = fma(load(mem, c.ends + m), load(mem, c.RO + m), z)
        else:
            total = fill(mem, mem.dtype.type(0))
            for r in range(1, m + 1):
                tree = load(mem, c.LCr + p + r) * load(mem, c.a0 + r)
                total = fma(tree, load(mem, c.RCc + m * p + r), total)
            z = fma(load(mem, c.ends + m), total, z)
    store(mem, c.z, z)


@njit(nogil=True, forceinline=True)
def _any(mem, cell):
    width = 64 // mem.itemsize
    for lane in range(width):
        if mem[cell * width + lane] != 0:
            return True
    return False


@njit(nogil=True)
def outside(mem, c, n):
    """Posteriors of arcs (into ``a0``, ``a1``) and stops (``ms``); call :func:`inside` first."""
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
    columns = _columns_at_once(c, n)
    for start in range((n - 1) // columns * columns + 1, 0, -columns):
        end = min(start + columns, n + 1)
        if c.multiroot:
            for j in range(end - 1, start - 1, -1):
                top = _outside_wall(mem, c, j, top)
        for i in range(1, end):
            for j in range(end - 1, max(start - 1, i), -1):
                top = _outside_cell(mem, c, i, j, top)
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
    """Adjoints of :func:`_close`, of log Z."""
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
            if _any(mem, c.ends + m):
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
    p = c.pitch
    ij, ji = i * p + j, j * p + i
    i_, j_ = i * p, j * p
    # In a plain chart dRO is dRCr, and dLO is dLCc.
    right = load(mem, c.dRCr + ij) + load(mem, c.dRCc + ji)
    left = load(mem, c.dLCr + ij) + load(mem, c.dLCc + ji)
    if not c.plain:
        raw_right, raw_left = right * load(mem, c.RO + ij), left * load(mem, c.LO + ji)
        top = top + right + left + raw_right + raw_left
        stop_right, stop_left = load(mem, c.s + 4 * i + 3), load(mem, c.s + 4 * j + 1)
        _add(mem, c.ms + 4 * i + 3, raw_right * stop_right)
        _add(mem, c.ms + 4 * j + 1, raw_left * stop_left)
        right = fma(right, stop_right, load(mem, c.dRO + ij))
        left = fma(left, stop_left, load(mem, c.dLO + ji))
    top = top + right + left
    _push(mem, right, c.IR, c.dIR, i_ + i + 1, c.RCc, c.dRCc, j_ + i + 1, j - i)
    _push(mem, left, c.LCr, c.dLCr, i_ + i, c.IL, c.dIL, j_ + i, j - i)
    right, left = load(mem, c.dIR + ij), load(mem, c.dIL + ji)
    top = top + right + left
    if not c.plain:
        return _outside_trapezoids(mem, c, i, j, right, left, top)
    both = load(mem, c.SR + ij)
    raw_right, raw_left = right * both, left * both
    top = top + raw_right + raw_left
    weight_right, weight_left = load(mem, c.a0 + ij), load(mem, c.a0 + ji)
    store(mem, c.a0 + ij, raw_right * weight_right)
    store(mem, c.a0 + ji, raw_left * weight_left)
    both = fma(right, weight_right, left * weight_left)
    _push(mem, both, c.RCr, c.dRCr, i_ + i, c.LCc, c.dLCc, j_ + i + 1, j - i)
    return top


@njit(nogil=True, forceinline=True)
def _outside_trapezoids(mem, c, i, j, right, left, top):
    """From the adjoints of IR(i, j) and IL(i, j) to the posteriors of their arcs and to what they span."""
    p = c.pitch
    ij, ji = i * p + j, j * p + i
    i_, j_ = i * p, j * p
    raw0, raw1 = right * load(mem, c.LCc + ji + 1), right * load(mem, c.SR + ij)
    top = top + raw0 + raw1
    a0, a1 = load(mem, c.a0 + ij), load(mem, c.a1 + ij)
    store(mem, c.a0 + ij, raw0 * a0)
    store(mem, c.a1 + ij, raw1 * a1)
    _add(mem, c.dLCc + ji + 1, right * a0)
    _push(mem, right * a1, c.RO, c.dRO, i_ + i + 1, c.LCc, c.dLCc, j_ + i + 2, j - i - 1)
    diagonal = left * load(mem, c.factors + j)
    raw0, raw1 = diagonal * load(mem, c.RCr + ij - 1), left * load(mem, c.SL + ij)
    top = top + raw0 + raw1
    a0, a1 = load(mem, c.a0 + ji), load(mem, c.a1 + ji)
    store(mem, c.a0 + ji, raw0 * a0)
    store(mem, c.a1 + ji, raw1 * a1)
    _add(mem, c.dRCr + ij - 1, diagonal * a0)
    _push(mem, left * a1, c.RCr, c.dRCr, i_ + i, c.LO, c.dLO, j_ + i + 1, j - i - 1)
    return top


@njit(nogil=True, forceinline=True)
def _outside_wall(mem, c, j, top):
    p = c.pitch
    right = load(mem, c.dRO + j)
    _push(mem, right, c.IR, c.dIR, 1, c.RCc, c.dRCc, j * p + 1, j)
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
    _push(mem, g * a1, c.RO, c.dRO, 1, c.LCc, c.dLCc, j * p + 2, j - 1)
    return top
