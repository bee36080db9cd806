# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Factors of the columns of :mod:`.eisner_lanes` and :mod:`.sibling_lanes`, and Z where their sentences end.

Both charts have a column for each word j, in which every cell carries the factor f_j once; see there.
"""

# mypy: disable-error-code="no-untyped-def"
from numba import njit

from pyrogram.charts.runtime.lanes import (
    any_lane,
    exponent_of,
    fill,
    fma,
    load,
    maximum,
    power_of_two,
    rounded,
    store,
)

SCALED_FROM = 12  # columns that may grow or shrink out of range; shorter charts need no scaling


@njit(nogil=True, forceinline=True)
def choose_factor(mem, c, j, right, left, pitch):
    """f_j, a power of two: minus the mean exponent of the column's half trees, zeros counting as one.

    :param right: the half trees of column j to the right are cells right + i * pitch[0], i < j;
    :param left: those to the left left + i * pitch[1].
    """
    total = fill(mem, mem.dtype.type(0))
    for i in range(1, j):
        total = total + exponent_of(load(mem, right + i * pitch[0]) + load(mem, left + i * pitch[1]))
    exponent = rounded(total * fill(mem, mem.dtype.type(-1.0 / j)))
    store(mem, c.exponents, load(mem, c.exponents) + exponent)
    store(mem, c.grown, load(mem, c.grown) + maximum(exponent, fill(mem, mem.dtype.type(0))))
    factor = power_of_two(exponent)
    store(mem, c.factors + j, factor)
    return factor


@njit(nogil=True, forceinline=True)
def scale(mem, cell, factor):
    """Multiply a cell."""
    store(mem, cell, load(mem, cell) * factor)


@njit(nogil=True, forceinline=True)
def close(mem, c, n, trees, roots):
    """Z of every lane, read where its sentence ends.

    :param trees: where the half trees of the wall lie, which are Z if it may have several children.
    :param roots: where the weights of single roots lie.
    """
    p = c.pitch
    z = fill(mem, mem.dtype.type(0))
    for m in range(1, n + 1):
        if not any_lane(load(mem, c.ends + m)):
            continue
        if c.multiroot:
            z = fma(load(mem, c.ends + m), load(mem, trees + m), z)
        else:
            total = fill(mem, mem.dtype.type(0))
            for r in range(1, m + 1):
                tree = load(mem, c.LCr + p + r) * load(mem, roots + r)
                total = fma(tree, load(mem, c.RCc + m * p + r), total)
            z = fma(load(mem, c.ends + m), total, z)
    store(mem, c.z, z)
