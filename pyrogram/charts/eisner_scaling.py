# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Factors of the columns of :mod:`.eisner_lanes`, shifts of scores, and log Z where sentences end.

The chart has a column for each word j, in which every cell carries the factor f_j once; see there.
"""

# mypy: disable-error-code="no-untyped-def"
import math

import numpy as np
from numba import njit

from pyrogram.charts.runtime.lanes import (
    above,
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

_LOG2 = math.log(2.0)
LEAST = -1e30  # lower shifts would turn -inf into NaN
# What all cells and adjoints of a sentence may come to, by element size (compiled code reads no dictionaries).
GREATEST = (0.0, 0.0, 0.0, 0.0, 2.0**60, 0.0, 0.0, 0.0, 2.0**900)
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


@njit(nogil=True, forceinline=True)
def add_shift(mem, c, top):
    """Count what was taken off the scores, and what rounding loses of the sum; ``LEAST`` stands for no score at all."""
    term, total = above(top, fill(mem, mem.dtype.type(LEAST))), load(mem, c.shift)
    new = total + term
    part = new - total
    store(mem, c.shift, new)
    store(mem, c.shift_rest, load(mem, c.shift_rest) + ((total - (new - part)) + (term - part)))


@njit(nogil=True)
def log_z_of(mem, c, lane, m):
    """log Z of the sentence of m words in a lane, and whether the bound on log Z holds."""
    width = 64 // mem.itemsize
    log_z = np.log(np.float64(mem[c.z * width + lane]))
    # log2 of tiny * n**3 / rounding error, plus log2(27 / 4) per word: the adjoint of no cell is greater.
    least = -126.0 + 24.0 + 24.0 if mem.itemsize == 4 else -1022.0 + 53.0 + 24.0
    trusted = log_z >= _LOG2 * (least + 2.7549 * m + mem[c.grown * width + lane])
    shift = np.float64(mem[c.shift * width + lane]) + mem[c.shift_rest * width + lane]
    return log_z - _LOG2 * mem[c.exponents * width + lane] + shift, trusted
