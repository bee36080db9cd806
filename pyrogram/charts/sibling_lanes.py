# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Inside of projective dependency trees with sibling scores, W sentences at a time, in scaled real space.

The recursion of McDonald and Pereira (2006, section 2.1). Every word is cut into a left and a right half; i, j, k
are positions, i <= k <= j, and a cell (i, j) is one of

    IR, IL   a trapezoid: an arc between i and j (from i in IR, from j in IL) and all between them
    JR, JL   the same, after which the head stops
    B        i and j are neighbouring children of a head outside; right half of i, left half of j, and all between
    RC, LC   a complete half tree: head i and its descendants to the right as far as j (RC), head j and its
             descendants to the left as far as i (LC)

With the weights w(h, m, r) of the arc from h to m after the sibling r, and s(h, m) of stopping after the child m,

    IR(i, j) = w(i, j, i) LC(i+1, j) + sum_{i < r < j} IR(i, r) B(r, j) w(i, j, r)
    JR(i, j) = IR(i, j) s(i, j)
    RC(i, j) = sum_{i < m <= j} JR(i, m) RC(m, j),   RC(i, i) = s(i, right, none)
    B(i, j)  = sum_{i <= k < j} RC(i, k) LC(k+1, j)

and their mirror images. The wall is a head 0 with right children only, and does not stop. Columns are filled from
left to right, bottom up. They are scaled as in :mod:`.eisner_lanes`: every cell that covers the left half of word j
carries the factor f_j exactly once.

Cost: 7/6 n^3 multiplications inside and n^3 / 3 exponentials, which take most of the time and are therefore not kept,
but computed again outside; about 16 n^2 cells of memory.
"""

# mypy: disable-error-code="no-untyped-def"
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from pyrogram.charts.runtime.lanes import fill, fma, load, store
from pyrogram.charts.runtime.lanes_memory import LINE, aligned

from .eisner_scaling import SCALED_FROM, choose_factor, close, scale
from .sibling_rows import weigh_row


class Chart(NamedTuple):
    """Where the tables of one block of W sentences lie in memory, as cell numbers; see :func:`make_chart`.

    ``a`` [head, dependent] are arc scores, in logarithms; ``root`` weights of single roots; ``s`` [head, last child]
    and ``none`` [head, direction] weights of stops. :func:`.sibling_outside.outside` puts posteriors in place of all
    four. The recursions run along rows in RCr, LCr, Br, IR, JR and down columns in RCc, LCc, Bc, IL, JL, which
    are stored by columns. dX is the adjoint of log Z with respect to X; ``ends`` + n is one in the lanes of sentences
    of n words, ``real`` + x in those of at least x; ``shifts`` were taken off the scores of arcs to each word,
    ``shift`` + ``shift_rest`` off all; ``exponents`` sums the binary logarithms of all ``factors``, ``grown`` those
    above zero; ``bound`` sums all values met; ``right`` and ``left`` are rows of weights, of the arc from i to j and
    of the one back, by siblings.
    """

    pitch: int  # cell (i, j) is i * pitch + j by rows, j * pitch + i by columns
    plain: bool  # no stops: JR is IR, and JL is IL
    multiroot: bool
    a: int
    s: int
    RCr: int
    LCr: int
    Br: int
    IR: int
    JR: int
    RCc: int
    LCc: int
    Bc: int
    IL: int
    JL: int
    dRCr: int
    dLCr: int
    dBr: int
    dIR: int
    dJR: int
    dRCc: int
    dLCc: int
    dBc: int
    dIL: int
    dJL: int
    none: int
    factors: int
    ends: int
    real: int
    shifts: int
    root: int
    right: int
    left: int
    exponents: int
    grown: int
    z: int
    bound: int
    shift: int
    shift_rest: int


# A table by columns is the lower triangle under one by rows, moved down by a row.
_UNDER = {"RCc": "RCr", "LCc": "LCr", "Bc": "Br", "IL": "IR", "JL": "JR"}
_UNDER |= {f"d{low}": f"d{high}" for low, high in _UNDER.items()}
_ALIASES = {"s": "a", "JR": "IR", "JL": "IL", "dJR": "dIR", "dJL": "dIL"}
_ROWS = {"none": 2, "factors": 1, "ends": 1, "real": 1, "shifts": 1, "root": 1, "right": 1, "left": 1}
_SINGLE = ("exponents", "grown", "z", "bound", "shift", "shift_rest")


def make_chart(n: int, dtype: Any, plain: bool, multiroot: bool) -> tuple[Any, Chart]:
    """Memory for sentences of at most n words, and its layout."""
    chart, cells = _layout(n, plain, multiroot)
    return aligned(cells * LINE // np.dtype(dtype).itemsize, dtype), chart


@lru_cache(maxsize=256)
def _layout(n: int, plain: bool, multiroot: bool) -> tuple[Chart, int]:
    """Where the tables lie, and how many cells they have in all."""
    pitch = (n + 1) | 1  # odd, so that the rows do not fall into the same cache sets
    places: dict[str, int] = {}
    end = 0
    for name in Chart._fields[3:]:
        if plain and name in _ALIASES:
            places[name] = places[_ALIASES[name]]
        elif name in _UNDER:
            places[name] = places[_UNDER[name]] + pitch
        else:
            places[name] = end
            end += 1 if name in _SINGLE else _ROWS.get(name, pitch) * (n + 1) + (pitch if name not in _ROWS else 0)
    return Chart(pitch, plain, multiroot, **places), end


@njit(nogil=True)
def inside(mem, c, n, siblings, offsets):
    """Fill RCr .. JL and z from the scores, left to right. Lanes of shorter sentences have weight 0 beyond.

    :param offsets: where the sibling scores of each lane's sentence begin.
    """
    p = c.pitch
    one = fill(mem, mem.dtype.type(1))
    top = fill(mem, mem.dtype.type(0))
    store(mem, c.exponents, top)
    store(mem, c.grown, top)
    for j in range(1, n + 1):
        jj = j * p + j
        store(mem, c.factors + j, one)
        left = one if c.plain else load(mem, c.none + 2 * j)
        right = one if c.plain else load(mem, c.none + 2 * j + 1)
        _store_both(mem, c.RCr + jj, c.RCc + jj, right)
        _store_both(mem, c.LCr + jj, c.LCc + jj, left)
        for i in range(j - 1, 0, -1):
            weigh_row(mem, c, n, siblings, offsets, i, j, c.right)
            weigh_row(mem, c, n, siblings, offsets, j, i, c.left)
            top = _inside_cell(mem, c, i, j, top)
        if c.multiroot:
            weigh_row(mem, c, n, siblings, offsets, 0, j, c.right)
            top = _inside_wall(mem, c, j, top)
        if n > SCALED_FROM:
            _scale_column(mem, c, j)
    store(mem, c.bound, top)
    close(mem, c, n, c.RCr, c.root)


@njit(nogil=True, forceinline=True)
def _store_both(mem, row, column, value):
    store(mem, row, value)
    store(mem, column, value)


@njit(nogil=True, forceinline=True)
def _inside_cell(mem, c, i, j, top):
    p = c.pitch
    ij, ji, ii, jj = i * p + j, j * p + i, i * p + i, j * p + j
    # A product of three goes from the left: what is flushed in its middle met no more than a weight, at most one.
    arc_right = load(mem, c.LCc + ji + 1) * load(mem, c.right + i)
    arc_left = load(mem, c.RCr + ij - 1) * load(mem, c.left + j)
    between = load(mem, c.RCr + ii) * load(mem, c.LCc + ji + 1)
    zero = fill(mem, mem.dtype.type(0))
    right, left = zero, zero
    for k in range(i + 1, j):
        ik, jk = i * p + k, j * p + k
        arc_right = fma(load(mem, c.IR + ik) * load(mem, c.Bc + jk), load(mem, c.right + k), arc_right)
        arc_left = fma(load(mem, c.Br + ik) * load(mem, c.IL + jk), load(mem, c.left + k), arc_left)
        between = fma(load(mem, c.RCr + ik), load(mem, c.LCc + jk + 1), between)
        right = fma(load(mem, c.JR + ik), load(mem, c.RCc + jk), right)
        left = fma(load(mem, c.LCr + ik), load(mem, c.JL + jk), left)
    store(mem, c.IR + ij, arc_right)
    store(mem, c.IL + ji, arc_left)
    _store_both(mem, c.Br + ij, c.Bc + ji, between)
    top = top + (arc_right + arc_left) + between
    if not c.plain:
        arc_right = arc_right * load(mem, c.s + ij)
        arc_left = arc_left * load(mem, c.s + ji)
        store(mem, c.JR + ij, arc_right)
        store(mem, c.JL + ji, arc_left)
    right = fma(arc_right, load(mem, c.RCc + jj), right)
    left = fma(load(mem, c.LCr + ii), arc_left, left)
    _store_both(mem, c.RCr + ij, c.RCc + ji, right)
    _store_both(mem, c.LCr + ij, c.LCc + ji, left)
    return top + (right + left)


@njit(nogil=True, forceinline=True)
def _inside_wall(mem, c, j, top):
    jp = j * c.pitch
    arc = load(mem, c.LCc + jp + 1) * load(mem, c.right)
    tree = fill(mem, mem.dtype.type(0))
    for k in range(1, j):
        arc = fma(load(mem, c.IR + k) * load(mem, c.Bc + jp + k), load(mem, c.right + k), arc)
        tree = fma(load(mem, c.JR + k), load(mem, c.RCc + jp + k), tree)
    store(mem, c.IR + j, arc)
    if not c.plain:
        store(mem, c.JR + j, arc)
    tree = fma(arc, load(mem, c.RCc + jp + j), tree)
    store(mem, c.RCr + j, tree)
    return top + arc + tree


@njit(nogil=True, forceinline=True)
def _scale_column(mem, c, j):
    """Multiply column j by its factor."""
    p = c.pitch
    factor = choose_factor(mem, c, j, c.RCr + j, c.LCr + j, (p, p))
    jj = j * p + j
    scale(mem, c.LCr + jj, factor)
    scale(mem, c.LCc + jj, factor)
    for i in range(0 if c.multiroot else 1, j):
        ij, ji = i * p + j, j * p + i
        for cell in (c.RCr + ij, c.LCr + ij, c.Br + ij, c.IR + ij, c.RCc + ji, c.LCc + ji, c.Bc + ji, c.IL + ji):
            scale(mem, cell, factor)
        if not c.plain:
            scale(mem, c.JR + ij, factor)
            scale(mem, c.JL + ji, factor)
