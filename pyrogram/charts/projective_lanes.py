# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Scores of trees into lanes, and log Z and posteriors out of them.

Scores are shifted per dependent (and per stop decision), so that the best is one, and exponentiated in lanes.
"""

# mypy: disable-error-code="no-untyped-def"
import math

import numpy as np
from numba import njit

from pyrogram.charts.runtime.lanes import above, exp, fill, gather_cells, load, maximum, scatter_cells, store

_LOG2 = math.log(2.0)
LEAST = -1e30  # lower shifts would turn -inf into NaN


@njit(nogil=True)
def feed_scores(mem, c, arcs, stops, lengths, sentences):
    """Scores to shifted weights in lanes."""
    width = 64 // mem.itemsize
    n = lengths[sentences[0]]
    p = c.pitch
    nothing = fill(mem, mem.dtype.type(-np.inf))
    zero = fill(mem, mem.dtype.type(0))
    for m in range(n + 1):
        store(mem, c.ends + m, zero)
    store(mem, c.shift, zero)
    store(mem, c.shift_rest, zero)
    if len(sentences) < width or lengths[sentences[-1]] < n:
        for h in range(n + 1):
            for x in range(1, n + 1):
                store(mem, c.a0 + h * p + x, nothing)
                store(mem, c.a1 + h * p + x, nothing)
            for x in range(4):
                store(mem, c.s + 4 * h + x, nothing)
    last = arcs.shape[3] - 1
    for lane in range(len(sentences)):
        mem[(c.ends + lengths[sentences[lane]]) * width + lane] = 1
    uniform = _fills_lanes(mem, lengths, sentences) and last == 0
    offsets = sentences * (arcs.shape[1] * arcs.shape[2])
    flat = uniform and p == arcs.shape[2]
    if flat:  # rows follow one another here as they do there: one long row
        for t in range(0, (n + 1) * p, 8):
            x = min(t, (n + 1) * p - 8)
            gather_cells(mem, c.a0 + x, arcs, offsets, x)
            if not c.plain:
                gather_cells(mem, c.a1 + x, arcs, offsets, x)
    for h in range(n + 1):  # row by row, so that the lanes of a row are written while it is in the cache
        if uniform and not flat:
            for t in range(0, n, 8):
                x = min(1 + t, n - 7)  # the last eight may overlap those before
                gather_cells(mem, c.a0 + h * p + x, arcs, offsets, h * arcs.shape[2] + x)
                if not c.plain:
                    gather_cells(mem, c.a1 + h * p + x, arcs, offsets, h * arcs.shape[2] + x)
        for lane in range(0 if uniform and c.plain else len(sentences)):
            b = sentences[lane]
            m = lengths[b]
            if h > m:
                continue
            cell = h * p
            if not uniform:
                for x in range(1, m + 1):
                    mem[(c.a0 + cell + x) * width + lane] = arcs[b, h, x, 0]
            if not uniform and not c.plain:
                for x in range(1, m + 1):
                    mem[(c.a1 + cell + x) * width + lane] = arcs[b, h, x, last]
            if not c.plain:
                for d in range(2):
                    for v in range(2):
                        score = stops[b, h, d, v] if len(stops) else 0
                        mem[(c.s + 4 * h + 2 * d + v) * width + lane] = score
    for x in range(1, n + 1):
        store(mem, c.a0 + x * p + x, nothing)
        store(mem, c.a1 + x * p + x, nothing)
        if not c.multiroot and not c.plain:
            store(mem, c.a1 + x, nothing)
        _exponentiate(mem, c, n, x)


@njit(nogil=True, forceinline=True)
def _fills_lanes(mem, lengths, sentences):
    """Whether there is a sentence for every lane, all of one length, of at least eight words."""
    n = lengths[sentences[0]]
    return n >= 8 and len(sentences) == 64 // mem.itemsize and lengths[sentences[-1]] == n


@njit(nogil=True, forceinline=True)
def _exponentiate(mem, c, n, x):
    """Weights of the arcs to x and of its stops, each at most one."""
    p = c.pitch
    top = fill(mem, mem.dtype.type(LEAST))
    for h in range(n + 1):
        top = maximum(top, load(mem, c.a0 + h * p + x))
        if not c.plain:
            top = maximum(top, load(mem, c.a1 + h * p + x))
    add_shift(mem, c, top)
    for h in range(n + 1):
        store(mem, c.a0 + h * p + x, exp(load(mem, c.a0 + h * p + x) - top))
        if not c.plain:
            store(mem, c.a1 + h * p + x, exp(load(mem, c.a1 + h * p + x) - top))
    if not c.plain:
        for d in range(2):
            first, later = load(mem, c.s + 4 * x + 2 * d), load(mem, c.s + 4 * x + 2 * d + 1)
            top = maximum(maximum(first, later), fill(mem, mem.dtype.type(LEAST)))
            add_shift(mem, c, top)
            store(mem, c.s + 4 * x + 2 * d, exp(first - top))
            store(mem, c.s + 4 * x + 2 * d + 1, exp(later - top))


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


@njit(nogil=True)
def drain_posteriors(mem, c, lengths, sentences, arc_out, stop_out):
    """Posteriors of all lanes into the arrays of their sentences; zero is what has no posterior."""
    if _fills_lanes(mem, lengths, sentences) and c.plain:
        n = lengths[sentences[0]]
        offsets = sentences * (arc_out.shape[1] * arc_out.shape[2])
        if n + 1 == arc_out.shape[1] == c.pitch:
            for h in range(n + 1):
                store(mem, c.a0 + h * c.pitch, fill(mem, mem.dtype.type(0)))
            for t in range(0, (n + 1) * c.pitch, 8):
                x = min(t, (n + 1) * c.pitch - 8)
                scatter_cells(mem, c.a0 + x, arc_out, offsets, x)
            return
        for b in sentences:
            if n + 1 < arc_out.shape[1]:
                arc_out[b] = 0
            else:
                arc_out[b, :, 0] = 0
        for h in range(n + 1):
            for t in range(0, n, 8):
                x = min(1 + t, n - 7)
                scatter_cells(mem, c.a0 + h * c.pitch + x, arc_out, offsets, h * arc_out.shape[2] + x)
    else:
        for lane in range(len(sentences)):
            _drain_lane(mem, c, lane, lengths[sentences[lane]], sentences[lane], arc_out, stop_out)


@njit(nogil=True, forceinline=True)
def _drain_lane(mem, c, lane, m, b, arc_out, stop_out):
    width = 64 // mem.itemsize
    p = c.pitch
    arc_out[b] = 0
    for h in range(m + 1):
        cell = h * p
        for x in range(1, m + 1):
            arc_out[b, h, x, 0] = mem[(c.a0 + cell + x) * width + lane]
        if arc_out.shape[3] == 2:
            for x in range(1, m + 1):
                arc_out[b, h, x, 1] = mem[(c.a1 + cell + x) * width + lane]
        elif not c.plain:
            for x in range(1, m + 1):
                arc_out[b, h, x, 0] += mem[(c.a1 + cell + x) * width + lane]
    for h in range(1, m + 1):
        arc_out[b, h, h] = 0
    if len(stop_out) > 0:
        stop_out[b] = 0
        for h in range(1, m + 1):
            for d in range(2):
                for v in range(2):
                    stop_out[b, h, d, v] = mem[(c.ms + 4 * h + 2 * d + v) * width + lane]
