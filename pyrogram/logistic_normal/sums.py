# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Compiled sums over the rows of logistic normal experts: mixtures, log weights, divergences, moments.

What they compute is said in :mod:`.experts`. Nothing here depends on the number of threads: a group belongs to one
turn, and moments are summed in a fixed number of parts.
"""

import numpy as np
from numba import njit

from pyrogram.logistic_normal.arrays import LayoutArrays, PriorArrays
from pyrogram.runtime.arrays import Array
from pyrogram.runtime.compiling import kernel
from pyrogram.runtime.lanes import exp, load, store
from pyrogram.runtime.threads import take

WIDTH = 8
GROUPS = 64  # in one turn
PARTS = 8


@kernel
def average(x: LayoutArrays, m: Array, v: Array, u: Array, w: Array) -> None:
    """Add the segments of all expert rows to u and w."""
    for e in range(len(x.expert_start) - 1):
        for a in range(x.att_ptr[e], x.att_ptr[e + 1]):
            row, start = x.row_start[x.att_row[a]], x.expert_start[e] + x.att_coord[a]
            s = x.att_scale[a]
            for i in range(x.row_start[x.att_row[a] + 1] - row):
                u[row + i] += s * m[start + i]
                w[row + i] += s * s * v[start + i]


@kernel
def log_weights(x: LayoutArrays, u: Array, w: Array, groups: Array, turns: Array, mem: Array, psi: Array) -> None:
    """psi of the groups that come this thread's way; ``mem`` holds the coordinates of any one of them."""
    for _ in range((len(groups) + GROUPS - 1) // GROUPS):
        begin = take(turns) * GROUPS
        if begin >= len(groups):
            break
        for g in groups[begin : begin + GROUPS]:
            _log_weights(x.row_start[x.row_ptr[g] : x.row_ptr[g + 1] + 1], u, w, mem, psi)


@njit(nogil=True)
def _log_weights(starts: Array, u: Array, w: Array, mem: Array, psi: Array) -> None:
    first, last = starts[0], starts[-1]
    for r in range(len(starts) - 1):
        top = -np.inf
        for i in range(starts[r], starts[r + 1]):
            z = u[i] + 0.5 * w[i]
            mem[i - first] = z
            top = max(top, z)
        for i in range(starts[r], starts[r + 1]):
            mem[i - first] -= top
            psi[i] = u[i] - top
    cells = (last - first + WIDTH - 1) // WIDTH
    for i in range(last - first, cells * WIDTH):
        mem[i] = 0
    for i in range(cells):
        store(mem, i, exp(load(mem, i)))
    for r in range(len(starts) - 1):
        total = 0.0
        for i in range(starts[r] - first, starts[r + 1] - first):
            total += mem[i]
        total = np.log(total)
        for i in range(starts[r], starts[r + 1]):
            psi[i] -= total


@kernel
def negative_kl(
    x: LayoutArrays,
    prior: PriorArrays,
    m: Array,
    v: Array,
    groups: Array,
    turns: Array,
    d: Array,
    y: Array,
    out: Array,
) -> None:
    """Divergences of the groups that come this thread's way; ``d`` and ``y`` hold any one expert."""
    for _ in range((len(groups) + GROUPS - 1) // GROUPS):
        begin = take(turns) * GROUPS
        if begin >= len(groups):
            break
        for g in groups[begin : begin + GROUPS]:
            for e in range(x.group_ptr[g], x.group_ptr[g + 1]):
                n, start = x.expert[e], x.expert_start[e]
                length = x.expert_start[e + 1] - start
                first, at = prior.start[n], prior.matrix_start[n]
                value = length - prior.log_det[n] + _sum_of_logs(v[start : start + length])
                if prior.diagonal[n]:
                    for i in range(length):
                        value -= prior.precision[at + i] * ((m[start + i] - prior.mu[first + i]) ** 2 + v[start + i])
                else:
                    for i in range(length):
                        d[i] = m[start + i] - prior.mu[first + i]
                        y[i] = 0
                    for i in range(length):
                        for j in range(length):
                            y[j] += d[i] * prior.precision[at + i * length + j]
                    for i in range(length):
                        value -= d[i] * y[i] + prior.precision[at + i * length + i] * v[start + i]
                out[g] += 0.5 * value


@njit(nogil=True)
def _sum_of_logs(v: Array) -> float:
    """One logarithm for eight numbers, if their product is in the range of floats."""
    total = 0.0
    for begin in range(0, len(v), 8):
        product = 1.0
        for i in range(begin, min(begin + 8, len(v))):
            product *= v[i]
        if 1e-290 < product < 1e290:
            total += np.log(product)
        else:
            for i in range(begin, min(begin + 8, len(v))):
                total += np.log(v[i])
    return total


@kernel
def moments(
    x: LayoutArrays,
    prior: PriorArrays,
    m: Array,
    v: Array,
    turns: Array,
    d: Array,
    first: Array,
    second: Array,
) -> None:
    """Moments of the parts that come this thread's way: ``first`` and ``second`` are [part, flat]."""
    for _ in range(PARTS):
        part = take(turns)
        if part >= PARTS:
            break
        for e in range(len(x.expert) * part // PARTS, len(x.expert) * (part + 1) // PARTS):
            n, start = x.expert[e], x.expert_start[e]
            length = x.expert_start[e + 1] - start
            at, matrix = prior.start[n], prior.matrix_start[n]
            for i in range(length):
                d[i] = m[start + i] - prior.mu[at + i]
                first[part, at + i] += d[i]
            if prior.diagonal[n]:
                for i in range(length):
                    second[part, matrix + i] += d[i] * d[i] + v[start + i]
            else:
                for i in range(length):
                    for j in range(length):
                        second[part, matrix + i * length + j] += d[i] * d[j]
                    second[part, matrix + i * length + i] += v[start + i]
