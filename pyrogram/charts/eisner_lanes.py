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
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from pyrogram.charts.runtime.bounds import guarded, room
from pyrogram.charts.runtime.lanes import fill, fma, load, store
from pyrogram.charts.runtime.lanes_memory import LINE, aligned

from .eisner_scaling import SCALED_FROM, choose_factor, close, scale


class Chart(NamedTuple):
    """Where the tables of one block of W sentences lie in memory, as cell numbers; see :func:`make_chart`.

    Weights: ``a0``, ``a1`` [head, dependent] for the first and for later children, ``s`` [head, direction,
    valence]; :func:`.eisner_outside.outside` puts the posteriors of the arcs in place of ``a0`` and ``a1``, and those
    of the stops in ``ms``. The recursions run along rows in ``RO``, ``RCr``, ``LCr``, ``IR`` and down columns in
    ``LO``, ``LCc``, ``RCc``, ``IL``, which are therefore stored by columns. ``SR``, ``SL`` are the sums over later
    children in the trapezoids. dX is the adjoint of log Z with respect to X; ``ends`` + n is one in the lanes of
    sentences of n words; ``shift`` + ``shift_rest`` were taken off the scores; ``exponents`` sums the binary logarithms
    of all ``factors``, ``grown`` those above zero; ``bound`` sums all values met (NaN sticks to a sum), from which
    :mod:`.eisner_scaling` judges whether digits were lost.
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
    shift: int
    shift_rest: int
    exponents: int
    grown: int
    z: int
    bound: int


# A table by columns is the lower triangle under one by rows, moved down by a row: half the memory, and so half of
# what falls out of the cache.
_UNDER = {
    "LO": "RO",
    "LCc": "RCr",
    "RCc": "LCr",
    "IL": "IR",
    "dLO": "dRO",
    "dLCc": "dRCr",
    "dRCc": "dLCr",
    "dIL": "dIR",
}
_ALIASES = {"a1": "a0", "RCr": "RO", "LCc": "LO", "SL": "SR", "dRCr": "dRO", "dLCc": "dLO"}


def make_chart(n: int, dtype: Any, plain: bool, multiroot: bool) -> tuple[Any, Chart]:
    """Memory for sentences of at most n words, and its layout (one array: many would cost reference counts)."""
    chart, cells = _layout(n, plain, multiroot)
    ends = [*(getattr(chart, name) for name in Chart._fields[3:] if name not in _UNDER), cells]
    return guarded(aligned(cells * LINE // np.dtype(dtype).itemsize, dtype), ends), chart


@lru_cache(maxsize=256)
def _layout(n: int, plain: bool, multiroot: bool) -> tuple[Chart, int]:
    """Where the tables lie, and how many cells they have in all."""
    pitch = (n + 1) | 1  # odd, so that the rows do not fall into the same cache sets
    rows = {"s": 4, "ms": 4, "factors": 1, "ends": 1}
    tables = [name for name in Chart._fields[3:] if not (plain and name in _ALIASES)]
    places: dict[str, int] = {}
    end = 0
    for name in tables:
        if name not in _UNDER:
            places[name] = end
            single = name in ("shift", "shift_rest", "exponents", "grown", "z", "bound")
            size = rows.get(name, pitch) * (n + 1) + (pitch if name in _UNDER.values() else 0)
            end += room(1 if single else size)
    for name in tables:
        if name in _UNDER:
            places[name] = places[_UNDER[name]] + pitch
    places.update({name: places[other] for name, other in _ALIASES.items() if plain})
    return Chart(pitch, plain, multiroot, **places), end


@njit(nogil=True, forceinline=True)
def _dot(mem, a, b, count):
    """sum_t [a + t] * [b + t]."""
    total = fill(mem, mem.dtype.type(0))
    for t in range(count):
        total = fma(load(mem, a + t), load(mem, b + t), total)
    return total


@njit(nogil=True)
def inside(mem, c, n):
    """Fill RO .. IL and z from the weights, left to right. Lanes of shorter sentences have weight 0 beyond."""
    p = c.pitch
    one = fill(mem, mem.dtype.type(1))
    top = fill(mem, mem.dtype.type(0))
    store(mem, c.exponents, top)
    store(mem, c.grown, top)
    if c.multiroot:
        store(mem, c.RO, one)
    columns = columns_at_once(c, n)
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
            j = max(start, i + 1)
            if (end - j) % 2 == 1:
                top = _inside_cell(mem, c, i, j, top)
                j += 1
            for left in range(j, end, 2):
                top = _inside_pair(mem, c, i, left, top)
        if c.multiroot:
            for j in range(start, end):
                top = _inside_wall(mem, c, j, top)
        if n > SCALED_FROM:
            _scale_column(mem, c, end - 1)
    store(mem, c.bound, top)
    close(mem, c, n, c.RO, c.a0)


@njit(nogil=True)
def columns_at_once(c, n):
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
    zero = fill(mem, mem.dtype.type(0))
    right, left, later, latest = zero, zero, zero, zero
    if c.plain:
        for k in range(i + 1, j):
            right, left, later = _step_plain(mem, c, i, j, k, right, left, later)
        return _close_plain(mem, c, i, j, right, left, later, top)
    for k in range(i + 1, j):
        right, left, later, latest = _step(mem, c, i, j, k, right, left, later, latest)
    return _close_cell(mem, c, i, j, right, left, later, latest, top)


@njit(nogil=True, forceinline=True)
def _inside_pair(mem, c, i, j, top):
    """Cells (i, j) and (i, j + 1) in one loop: what it loads of row i serves both, and it is left only once."""
    zero = fill(mem, mem.dtype.type(0))
    right0, left0, later0, latest0 = zero, zero, zero, zero
    right1, left1, later1, latest1 = zero, zero, zero, zero
    if c.plain:
        for k in range(i + 1, j):
            right0, left0, later0 = _step_plain(mem, c, i, j, k, right0, left0, later0)
            right1, left1, later1 = _step_plain(mem, c, i, j + 1, k, right1, left1, later1)
        top = _close_plain(mem, c, i, j, right0, left0, later0, top)
        right1, left1, later1 = _step_plain(mem, c, i, j + 1, j, right1, left1, later1)
        return _close_plain(mem, c, i, j + 1, right1, left1, later1, top)
    for k in range(i + 1, j):
        right0, left0, later0, latest0 = _step(mem, c, i, j, k, right0, left0, later0, latest0)
        right1, left1, later1, latest1 = _step(mem, c, i, j + 1, k, right1, left1, later1, latest1)
    top = _close_cell(mem, c, i, j, right0, left0, later0, latest0, top)
    right1, left1, later1, latest1 = _step(mem, c, i, j + 1, j, right1, left1, later1, latest1)
    return _close_cell(mem, c, i, j + 1, right1, left1, later1, latest1, top)


@njit(nogil=True, forceinline=True)
def _step_plain(mem, c, i, j, k, right, left, both):
    """The terms of k in the sums of cell (i, j), except where k is one of the ends."""
    ik, jk = i * c.pitch + k, j * c.pitch + k
    right = fma(load(mem, c.IR + ik), load(mem, c.RCc + jk), right)
    left = fma(load(mem, c.LCr + ik), load(mem, c.IL + jk), left)
    both = fma(load(mem, c.RCr + ik), load(mem, c.LCc + jk + 1), both)
    return right, left, both


@njit(nogil=True, forceinline=True)
def _step(mem, c, i, j, k, right, left, later_right, later_left):
    ik, jk = i * c.pitch + k, j * c.pitch + k
    right = fma(load(mem, c.IR + ik), load(mem, c.RCc + jk), right)
    left = fma(load(mem, c.LCr + ik), load(mem, c.IL + jk), left)
    later_right = fma(load(mem, c.RO + ik), load(mem, c.LCc + jk + 1), later_right)
    later_left = fma(load(mem, c.RCr + ik - 1), load(mem, c.LO + jk), later_left)
    return right, left, later_right, later_left


@njit(nogil=True, forceinline=True)
def _close_plain(mem, c, i, j, right, left, both, top):
    p = c.pitch
    ij, ji, ii, jj = i * p + j, j * p + i, i * p + i, j * p + j
    both = fma(load(mem, c.RCr + ii), load(mem, c.LCc + ji + 1), both)
    store(mem, c.SR + ij, both)
    arc_right = both * load(mem, c.a0 + ij)
    arc_left = both * load(mem, c.a0 + ji)
    store(mem, c.IR + ij, arc_right)
    store(mem, c.IL + ji, arc_left)
    right = fma(arc_right, load(mem, c.RCc + jj), right)
    left = fma(load(mem, c.LCr + ii), arc_left, left)
    store(mem, c.RO + ij, right)
    store(mem, c.LO + ji, left)
    _store_complete(mem, c, ij, ji, right, left)
    return top + (right + left) + (arc_right + arc_left)


@njit(nogil=True, forceinline=True)
def _close_cell(mem, c, i, j, right, left, later_right, later_left, top):
    p = c.pitch
    ij, ji, ii, jj = i * p + j, j * p + i, i * p + i, j * p + j
    store(mem, c.SR + ij, later_right)
    store(mem, c.SL + ij, later_left)
    first = load(mem, c.LCc + ji + 1) * load(mem, c.a0 + ij)
    arc_right = fma(later_right, load(mem, c.a1 + ij), first)
    # LO(j, j) carries the column's factor, which is one while the column is being filled.
    first = load(mem, c.RCr + ij - 1) * load(mem, c.a0 + ji)
    arc_left = fma(later_left, load(mem, c.a1 + ji), first)
    store(mem, c.IR + ij, arc_right)
    store(mem, c.IL + ji, arc_left)
    right = fma(arc_right, load(mem, c.RCc + jj), right)
    left = fma(load(mem, c.LCr + ii), arc_left, left)
    store(mem, c.RO + ij, right)
    store(mem, c.LO + ji, left)
    top = top + (right + left) + (arc_right + arc_left)
    right = right * load(mem, c.s + 4 * i + 3)
    left = left * load(mem, c.s + 4 * j + 1)
    _store_complete(mem, c, ij, ji, right, left)
    return top + (right + left)


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
    """Multiply column j by its factor."""
    p = c.pitch
    factor = choose_factor(mem, c, j, c.RO + j, c.LO + j * p, (p, 1))
    jj = j * p + j
    scale(mem, c.LO + jj, factor)
    scale(mem, c.LCr + jj, factor)
    if not c.plain:
        scale(mem, c.LCc + jj, factor)
    for i in range(0 if c.multiroot else 1, j):
        ij, ji = i * p + j, j * p + i
        for cell in (c.RO + ij, c.RCc + ji, c.LO + ji, c.LCr + ij, c.IR + ij, c.IL + ji, c.SR + ij):
            scale(mem, cell, factor)
        if not c.plain:
            for cell in (c.RCr + ij, c.LCc + ji, c.SL + ij):
                scale(mem, cell, factor)
