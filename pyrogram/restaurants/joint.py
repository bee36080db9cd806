# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The joint probability of observations and internal draws, from histograms of counts.

How the C customers of a context came to T tables with n_1 .. n_T customers has the probability (Pitman 2006, Eq. 3.6)

    prod_{t=1}^{T-1} (α + ε t)  /  prod_{i=1}^{C-1} (α + i)  x  prod_k prod_{i=1}^{n_k - 1} (i - ε),

which is fine for α = 0, for -ε < α < 0 and for ε = 0. The tables' values are customers one level up; those of level
0 are drawn from the base measure. So the logarithm is a sum over products that start somewhere and go up by a step,
and only how many of them have which length matters: it costs as many terms as there are different lengths.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor

from pyrogram.restaurants.seats import EXACT, MINIMAL
from pyrogram.restaurants.tables import CONTEXTS, DISHES, Arrays
from pyrogram.runtime.arrays import Array
from pyrogram.runtime.compiling import kernel

HEAD = 32  # factors that are multiplied one by one; the rest is Euler and Maclaurin's
TABLES, CUSTOMERS, SIZES = range(3)
_TINY = 1e-300


@dataclass(frozen=True)
class Histogram:
    """How many products of each kind, numbered 3 * level + kind, have which factors."""

    row: Tensor  # (P,) kind, and with it
    factor: Tensor  # (P,) t = 0 .. HEAD - 1, float64
    number: Tensor  # (P,) of products with more than t factors, float64
    long_row: Tensor  # (Q,) kind of longer products, and with it
    length: Tensor  # (Q,) of factors, float64
    long_number: Tensor  # (Q,) how many, float64
    log_base: float  # of the draws from the base measure


def histogram(a: Arrays, num_levels: int, paths: int) -> Histogram:
    """:param paths: the path assumption, which says what tables there are."""
    head = np.zeros((3 * num_levels, HEAD + 1), np.int64)
    number = _count(a, paths, head, np.zeros((0, 3), np.int64))
    long = np.zeros((number, 3), np.int64)
    head[:] = 0
    _count(a, paths, head, long)
    longer = head[:, ::-1].cumsum(1)[:, ::-1][:, 1:]  # lengths above t
    row, factor = longer.nonzero()
    kinds, which = np.unique(long[:, :2], axis=0, return_inverse=True)
    totals = np.bincount(which.reshape(-1), weights=long[:, 2], minlength=len(kinds))
    E = int(a.used[DISHES])
    top = (a.levels[a.contexts[:E]] == 0) & (a.t[:E] > 0)
    with np.errstate(divide="ignore"):
        log_base = float((a.t[:E][top] * np.log(a.base[a.values[:E][top]])).sum())

    def real(x: Any) -> Tensor:
        return torch.from_numpy(x.astype(np.float64))

    long_row = torch.from_numpy(kinds[:, 0].copy())
    number_of = real(longer[row, factor])
    return Histogram(
        torch.from_numpy(row), real(factor), number_of, long_row, real(kinds[:, 1]), real(totals), log_base
    )


def log_joint(counts: Histogram, concentration: Tensor, discount: Tensor) -> Tensor:
    """In nats, differentiable in both arguments, which have shape (L,); float64."""
    alpha, epsilon = concentration.to(torch.float64), discount.to(torch.float64)
    one = torch.ones_like(epsilon)
    start = torch.stack([alpha + epsilon, alpha + 1, 1 - epsilon], 1).reshape(-1)
    step = torch.stack([epsilon, one, one], 1).reshape(-1)
    sign = torch.tensor([1.0, -1.0, 1.0], dtype=torch.float64).repeat(len(alpha))
    terms = counts.number * (start[counts.row] + step[counts.row] * counts.factor).log()
    total = torch.dot(sign[counts.row], terms) + counts.log_base
    if len(counts.length):
        rest = _rest(start[counts.long_row], step[counts.long_row], counts.length)
        total = total + torch.dot(sign[counts.long_row] * counts.long_number, rest)
    return total


def _rest(start: Tensor, step: Tensor, length: Tensor) -> Tensor:
    """Sum of log(start + step t) over t = HEAD .. length - 1, by Euler and Maclaurin's formula.

    With start > 0 and 0 <= step its error is below 1e-13 per product: the first term left out is at most
    6! / (1209600 HEAD^7), since start + step HEAD >= step HEAD. It is stable as step goes to zero. If both are zero,
    so are the factors before HEAD, which make the product zero; all that is asked of the rest is that it be finite.
    """
    count = length - HEAD
    low = (start + step * HEAD).clamp_min(_TINY)
    high = (start + step * length).clamp_min(_TINY)
    r = step * count / low
    small = r < 0.02
    series = torch.zeros_like(r)
    for k in range(8, 0, -1):  # of (1 + r) log(1 + r) / r - 1
        series = r * (1 / (k * (k + 1)) - series)
    safe = torch.where(small, torch.ones_like(r), r)
    integral = count * (low.log() + torch.where(small, series, (1 + safe) * safe.log1p() / safe - 1))
    a, b = step / low, step / high
    ends = -r.log1p() / 2 + (b - a) / 12 - (b**3 - a**3) / 360 + (b**5 - a**5) / 1260
    return integral + ends


@njit(nogil=True)
def _put(row: Array, length: int, number: int, head: Array, long: Array, listed: int) -> int:
    head[row, min(length, HEAD)] += number
    if length > HEAD:
        if listed < len(long):
            long[listed, 0], long[listed, 1], long[listed, 2] = row, length, number
        listed += 1
    return listed


@kernel
def _count(a: Arrays, paths: int, head: Array, long: Array) -> int:
    """Count products by their length up to HEAD, and list the longer ones as rows of ``long``; returns their number."""
    listed = 0
    for h in range(a.used[CONTEXTS]):
        if a.customers[h] > 0:
            row = 3 * a.levels[h]
            listed = _put(row + TABLES, a.tables[h] - 1, 1, head, long, listed)
            listed = _put(row + CUSTOMERS, a.customers[h] - 1, 1, head, long, listed)
    for d in range(a.used[DISHES]):
        row = 3 * a.levels[a.contexts[d]] + SIZES
        if paths == EXACT:
            b = a.buckets[d]
            while b >= 0:
                listed = _put(row, a.sizes[b] - 1, a.numbers[b], head, long, listed)
                b = a.after[b]
        elif paths == MINIMAL and a.c[d] > 0:
            listed = _put(row, a.c[d] - 1, 1, head, long, listed)
    return listed
