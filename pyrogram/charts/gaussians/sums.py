# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Compiled sums over the rows of logistic normal experts: mixtures, log weights, divergences, moments.

What they compute is said in :mod:`.experts`. Nothing here depends on the number of threads: a group belongs to one
turn, and moments are summed in a fixed number of parts.
"""

# mypy: disable-error-code="no-untyped-def"
import numpy as np
from numba import njit

from pyrogram.charts.runtime.compiling import kernel
from pyrogram.charts.runtime.lanes import exp, load, store
from pyrogram.charts.runtime.threads import take

WIDTH = 8
GROUPS = 64  # in one turn
PARTS = 8


@kernel
def mix(row_start, expert_start, att_ptr, att_row, att_coord, att_scale, m, v, u, w):
    """Add the segments of all expert rows to u and w."""
    for e in range(len(expert_start) - 1):
        for a in range(att_ptr[e], att_ptr[e + 1]):
            row, own = row_start[att_row[a]], expert_start[e] + att_coord[a]
            s = att_scale[a]
            for i in range(row_start[att_row[a] + 1] - row):
                u[row + i] += s * m[own + i]
                w[row + i] += s * s * v[own + i]


@kernel
def log_weights(row_ptr, row_start, u, w, groups, turns, mem, psi):
    """psi of the groups that come this thread's way; ``mem`` holds the coordinates of any one of them."""
    for _ in range((len(groups) + GROUPS - 1) // GROUPS):
        begin = take(turns) * GROUPS
        if begin >= len(groups):
            break
        for g in groups[begin : begin + GROUPS]:
            _log_weights(row_start[row_ptr[g] : row_ptr[g + 1] + 1], u, w, mem, psi)


@njit(nogil=True)
def _log_weights(starts, u, w, mem, psi):
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
def negkl(
    groups,
    group_ptr,
    expert,
    expert_start,
    start,
    mu,
    diagonal,
    precision,
    matrix_start,
    log_det,
    m,
    v,
    turns,
    d,
    y,
    out,
):
    """Divergences of the groups that come this thread's way; ``d`` and ``y`` hold any one expert."""
    for _ in range((len(groups) + GROUPS - 1) // GROUPS):
        begin = take(turns) * GROUPS
        if begin >= len(groups):
            break
        for g in groups[begin : begin + GROUPS]:
            for e in range(group_ptr[g], group_ptr[g + 1]):
                n, own = expert[e], expert_start[e]
                length = expert_start[e + 1] - own
                first, at = start[n], matrix_start[n]
                value = length - log_det[n] + _sum_of_logs(v[own : own + length])
                if diagonal[n]:
                    for i in range(length):
                        value -= precision[at + i] * ((m[own + i] - mu[first + i]) ** 2 + v[own + i])
                else:
                    for i in range(length):
                        d[i] = m[own + i] - mu[first + i]
                        y[i] = 0
                    for i in range(length):
                        for j in range(length):
                            y[j] += d[i] * precision[at + i * length + j]
                    for i in range(length):
                        value -= d[i] * y[i] + precision[at + i * length + i] * v[own + i]
                out[g] += 0.5 * value


@njit(nogil=True)
def _sum_of_logs(v):
    """One logarithm for eight numbers, if their product can be trusted."""
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
def moments(expert, expert_start, start, mu, diagonal, matrix_start, m, v, turns, d, first, second):
    """Moments of the parts that come this thread's way: ``first`` and ``second`` are [part, flat]."""
    for _ in range(PARTS):
        part = take(turns)
        if part >= PARTS:
            break
        for e in range(len(expert) * part // PARTS, len(expert) * (part + 1) // PARTS):
            n, own = expert[e], expert_start[e]
            length = expert_start[e + 1] - own
            at, matrix = start[n], matrix_start[n]
            for i in range(length):
                d[i] = m[own + i] - mu[at + i]
                first[part, at + i] += d[i]
            if diagonal[n]:
                for i in range(length):
                    second[part, matrix + i] += d[i] * d[i] + v[own + i]
            else:
                for i in range(length):
                    for j in range(length):
                        second[part, matrix + i * length + j] += d[i] * d[j]
                    second[part, matrix + i * length + i] += v[own + i]
