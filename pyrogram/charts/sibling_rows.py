# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Rows of scores into lanes and rows of posteriors out of them, for :mod:`.sibling_lanes`.

The scores of siblings are too many to be kept in lanes. A chart reads those of one arc at a time, a row of a sentence's
scores [head, dependent, sibling], when it fills the arc's cell, and writes their posteriors back likewise.
"""

# mypy: disable-error-code="no-untyped-def"
import numpy as np
from llvmlite import ir
from numba import njit
from numba.extending import intrinsic

from pyrogram.charts.runtime.lanes import exp, fill, gather_cells, load, maximum, scatter_cells, store

from .projective_lanes import LEAST, add_shift


@intrinsic
def where(typingctx, condition, a, b):
    """Per lane, a where the condition is not zero, else b."""

    def codegen(context, builder, signature, args):
        vector = context.get_value_type(signature.args[0])
        zero = ir.Constant(vector, [0.0] * vector.count)
        return builder.select(builder.fcmp_ordered("!=", args[0], zero), args[1], args[2])

    return a(condition, a, b), codegen


@njit(nogil=True)
def gather_row(mem, place, n, source, offsets, start, lo, hi):
    """Cells place + r become ``source[offsets + start + r]``, lo <= r < hi, 0 <= r <= n; others may change, too."""
    if n >= 7:
        for t in range(lo, hi, 8):
            r = min(t, n - 7)
            gather_cells(mem, place + r, source, offsets, start + r)
    else:
        width = 64 // mem.itemsize
        flat = source.reshape(-1)
        for lane in range(width):
            for r in range(lo, hi):
                mem[(place + r) * width + lane] = flat[offsets[lane] + start + r]


@njit(nogil=True)
def scatter_row(mem, place, n, target, offsets, start, lo, hi):
    """The reverse of :func:`gather_row`. All else is zero in the target; some cells beside the row become zero, too."""
    if n >= 7:
        zero = fill(mem, mem.dtype.type(0))
        for r in range(max(0, lo - 7), lo):
            store(mem, place + r, zero)
        for r in range(hi, min(n + 1, hi + 7)):
            store(mem, place + r, zero)
        for t in range(lo, hi, 8):
            r = min(t, n - 7)
            scatter_cells(mem, place + r, target, offsets, start + r)
    else:
        width = 64 // mem.itemsize
        flat = target.reshape(-1)
        for lane in range(width):
            for r in range(lo, hi):
                flat[offsets[lane] + start + r] = mem[(place + r) * width + lane]


@njit(nogil=True)
def feed_scores(mem, c, arcs, stops, siblings, lengths, sentences):
    """Arc scores into lanes, weights of roots and of stops, and the shifts that make the best ones one.

    ``sentences`` has one for every lane; where there are fewer, the last one more than once. Scores beyond the end of a
    sentence are not looked at.
    """
    width = 64 // mem.itemsize
    n = lengths[sentences[0]]
    N = arcs.shape[1]
    zero, one = fill(mem, mem.dtype.type(0)), fill(mem, mem.dtype.type(1))
    least, nothing = fill(mem, mem.dtype.type(LEAST)), fill(mem, mem.dtype.type(-np.inf))
    store(mem, c.shift, zero)
    store(mem, c.shift_rest, zero)
    for x in range(n + 1):
        store(mem, c.ends + x, zero)
        store(mem, c.real + x, zero)
        store(mem, c.shifts + x, least)
    for lane in range(width):
        m = lengths[sentences[lane]]
        mem[(c.ends + m) * width + lane] = 1
        for x in range(m + 1):
            mem[(c.real + x) * width + lane] = 1
    by_arc, by_sibling = sentences * (N * N), sentences * (N * N * N)
    for h in range(n + 1):
        row = c.a + h * c.pitch
        gather_row(mem, row, n, arcs, by_arc, h * N, 1, n + 1)
        for m in range(1, n + 1):
            if m == h:
                continue
            lo, hi = sibling_range(h, m, c.multiroot)
            gather_row(mem, c.right, n, siblings, by_sibling, (h * N + m) * N, lo, hi)
            best = nothing
            for r in range(lo, hi):
                best = maximum(load(mem, c.right + r), best)
            best = where(load(mem, c.real + max(h, m)), best + load(mem, row + m), least)
            store(mem, c.shifts + m, maximum(best, load(mem, c.shifts + m)))
            if h == 0 and not c.multiroot:
                store(mem, c.root + m, load(mem, c.right) + load(mem, row + m))
    for m in range(1, n + 1):
        add_shift(mem, c, load(mem, c.shifts + m))
        if not c.multiroot:
            score = load(mem, c.root + m) - load(mem, c.shifts + m)
            store(mem, c.root + m, exp(where(load(mem, c.real + m), score, nothing)))
    if c.plain:
        return
    by_stop = sentences * (2 * N * N)
    for h in range(1, n + 1):
        row = c.s + h * c.pitch
        for d in range(2):
            lo, hi = (h, n + 1) if d == 1 else (1, h + 1)
            gather_row(mem, c.right, n, stops, by_stop, (h * 2 + d) * N, lo, hi)
            best = least
            for r in range(lo, hi):
                best = maximum(where(load(mem, c.real + max(h, r)), load(mem, c.right + r), nothing), best)
            add_shift(mem, c, best)
            for r in range(lo, hi):
                score = where(load(mem, c.real + max(h, r)), load(mem, c.right + r) - best, nothing)
                store(mem, c.none + 2 * h + d if r == h else row + r, exp(score))
    for r in range(1, n + 1):
        store(mem, c.s + r, one)  # the wall does not stop


@njit(nogil=True, forceinline=True)
def sibling_range(h, m, multiroot):
    """The first sibling that an arc may have, and the end of them."""
    if m < h:
        return m + 1, h + 1
    return h, (m if h > 0 or multiroot else 1)


@njit(nogil=True, forceinline=True)
def weigh_row(mem, c, n, siblings, offsets, h, m, place):
    """Cells place + r become the weights of the arc from h to m after each sibling r."""
    N = siblings.shape[1]
    lo, hi = sibling_range(h, m, True)
    gather_row(mem, place, n, siblings, offsets, (h * N + m) * N, lo, hi)
    nothing = fill(mem, mem.dtype.type(-np.inf))
    arc, shift = load(mem, c.a + h * c.pitch + m), load(mem, c.shifts + m)
    real = load(mem, c.real + max(h, m))
    for r in range(lo, hi):
        store(mem, place + r, exp(where(real, load(mem, place + r) + arc - shift, nothing)))


@njit(nogil=True)
def drain_arcs(mem, c, n, arc_out, stop_out, sentences):
    """Posteriors of arcs and stops out of ``a``, ``root``, ``s`` and ``none``."""
    N = arc_out.shape[1]
    zero = fill(mem, mem.dtype.type(0))
    by_arc = sentences * (N * N)
    for h in range(n + 1):
        row = c.a + h * c.pitch
        if h == 0 and not c.multiroot:
            row = c.root
        store(mem, row, zero)
        store(mem, row + h, zero)
        scatter_row(mem, row, n, arc_out, by_arc, h * N, 0, n + 1)
    if c.plain:
        return
    by_stop = sentences * (2 * N * N)
    for h in range(1, n + 1):
        row = c.s + h * c.pitch
        for d in range(2):
            lo, hi = (h, n + 1) if d == 1 else (1, h + 1)
            for r in range(lo, hi):
                store(mem, c.right + r, load(mem, c.none + 2 * h + d if r == h else row + r))
            scatter_row(mem, c.right, n, stop_out, by_stop, (h * 2 + d) * N, lo, hi)
