# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Deal the experts of all groups to lanes and threads for :mod:`.newton`.

Groups come in blocks, a turn of a thread each, and the expert rows of a block in an order in which neighbours are
alike: same phase (those of one group share no multinomial), same pattern (length, sizes and places of the
attachments). Eight of them are climbed at a time. An expert that has its multinomials to itself climbs until it is
done; experts that share one take turns, a Newton step each, until nothing is left to gain in their group.

A lane does not feel the others, so that results depend neither on threads nor on what is done side by side.
"""

# mypy: disable-error-code="no-untyped-def"
from typing import Any, NamedTuple

import numpy as np
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from pyrogram.charts.runtime.compiling import kernel
from pyrogram.charts.runtime.lanes import fill, gather_cells, load, scatter_cells, store
from pyrogram.charts.runtime.threads import take

from .direction import COORD, FIRST, OFFSET, SIZE, SLOT, TIMES
from .linear_algebra import WIDTH
from .newton import climb


class Rows(NamedTuple):
    """The arrays of :class:`.experts.ExpertRows` that the kernel reads, and its plan."""

    row_start: Any
    expert: Any
    expert_group: Any
    expert_start: Any
    att_ptr: Any
    att_row: Any
    att_coord: Any
    att_scale: Any
    att_slot: Any
    att_offset: Any
    att_first: Any
    att_times: Any
    kind: Any  # equal for rows of the same phase and pattern
    phase: Any


class Prior(NamedTuple):
    """The arrays of :class:`.experts.Priors` that the kernel reads."""

    mu: Any
    start: Any
    diagonal: Any
    precision: Any
    matrix_start: Any
    precision_diag: Any


def _without_owner(context, builder, kind, value):
    if isinstance(kind, types.Array):
        view = context.make_array(kind)(context, builder, value)
        view.meminfo = cgutils.get_null_value(view.meminfo.type)
        return view._getvalue()
    parts = cgutils.unpack_tuple(builder, value)
    views = [_without_owner(context, builder, *part) for part in zip(kind.types, parts, strict=True)]
    return context.make_tuple(builder, kind, views)


@intrinsic
def uncounted(typingctx, arrays):
    """The same arrays, in tuples of any depth, without reference counts, which cost more than to read small rows.

    Their owners, arguments of the compiled function, outlive its call.
    """

    def codegen(context, builder, signature, args):
        return _without_owner(context, builder, signature.args[0], args[0])

    return arrays(arrays), codegen


@kernel
def update_blocks(mem, c, table, x, prior, f, m, v, u, w, order, block_ptr, turns, steps, tolerance, gain, places):
    """Update the expert rows of the blocks that come this thread's way; ``order`` lists those of each block."""
    mem, table, x, prior, order, gain, places = uncounted((mem, table, x, prior, order, gain, places))
    f, m, v, u, w = uncounted((f, m, v, u, w))
    for _ in range(len(block_ptr) - 1):
        block = take(turns)
        if block >= len(block_ptr) - 1:
            break
        own = order[block_ptr[block] : block_ptr[block + 1]]
        alone = 0
        while alone < len(own) and x.phase[own[alone]] < 0:
            alone += 1
        _sweep(mem, c, table, x, prior, f, m, v, u, w, own[:alone], places, steps, tolerance, gain)
        own = own[alone:]
        for e in own:
            gain[x.expert_group[e]] = np.inf
        one = min(steps, 1)  # no literal, which would be compiled for itself
        for _ in range(steps):
            live = 0  # rows of groups with something left to gain move to the front, in order
            for i in range(len(own)):
                if gain[x.expert_group[own[i]]] > tolerance:
                    own[live] = own[i]
                    live += 1
            own = own[:live]
            for e in own:
                gain[x.expert_group[e]] = 0.0
            _sweep(mem, c, table, x, prior, f, m, v, u, w, own, places, one, tolerance, gain)


@njit(nogil=True)
def _sweep(mem, c, table, x, prior, f, m, v, u, w, own, places, steps, tolerance, gain):
    """Newton steps for the expert rows ``own``, eight at a time."""
    begin = 0
    while begin < len(own):
        e = own[begin]
        diagonal = prior.diagonal[x.expert[e]]
        count = 1
        while begin + count < len(own) and count < WIDTH:
            other = own[begin + count]
            if x.kind[other] != x.kind[e] or prior.diagonal[x.expert[other]] != diagonal:
                break
            count += 1
        length = x.expert_start[e + 1] - x.expert_start[e]
        if begin == 0 or x.kind[own[begin - 1]] != x.kind[e]:
            _describe(x, e, table)
        k = table[: x.att_ptr[e + 1] - x.att_ptr[e]]
        batch = own[begin : begin + count]
        _read(mem, c, k, x, prior, f, m, v, u, w, batch, places, length, diagonal)
        left = climb(mem, c, k, length, diagonal, steps, tolerance)
        _write(mem, c, k, x, m, v, u, w, batch, places, length)
        store(mem, c.alpha, left)
        for lane in range(count):
            group = x.expert_group[batch[lane]]
            gain[group] = max(gain[group], mem[c.alpha * WIDTH + lane])
        begin += count


@njit(nogil=True, forceinline=True)
def _describe(x, e, table):
    """The attachments of expert row e, and of all others of its pattern."""
    first, last = x.att_ptr[e], x.att_ptr[e + 1]
    for a in range(first, last):
        row = table[a - first]
        row[COORD] = x.att_coord[a]
        row[SIZE] = x.row_start[x.att_row[a] + 1] - x.row_start[x.att_row[a]]
        row[SLOT] = x.att_slot[a]
        row[OFFSET] = x.att_offset[a]
        row[FIRST] = x.att_first[a]
        row[TIMES] = x.att_times[a]


@njit(nogil=True, forceinline=True)
def _read(mem, c, k, x, prior, f, m, v, u, w, batch, places, length, diagonal):
    """Priors, present state and counts to the lanes; lanes without a row of their own repeat the first."""
    own, first, other = places[0], places[1], places[2]
    same = True
    for lane in range(WIDTH):
        e = batch[lane] if lane < len(batch) else batch[0]
        own[lane] = x.expert_start[e]
        first[lane] = prior.start[x.expert[e]]
        same = same and first[lane] == first[0]
        for a in range(len(k)):
            mem[(c.scale + a) * WIDTH + lane] = x.att_scale[x.att_ptr[e] + a]
    _gather(mem, c.m, m, own, length)
    _gather(mem, c.v, v, own, length)
    _gather(mem, c.mu, prior.mu, first, length)
    _gather(mem, c.low, prior.precision_diag, first, length)
    for a in range(len(k)):
        if k[a, FIRST]:
            _find_rows(x, batch, a, other)
            _gather(mem, c.f + k[a, OFFSET], f, other, k[a, SIZE])
            _gather(mem, c.u + k[a, OFFSET], u, other, k[a, SIZE])
            _gather(mem, c.w + k[a, OFFSET], w, other, k[a, SIZE])
    if not diagonal:
        for lane in range(WIDTH):
            e = batch[lane] if lane < len(batch) else batch[0]
            other[lane] = prior.matrix_start[x.expert[e]]
        if same:
            for i in range(length):
                for j in range(i + 1):
                    entry = prior.precision[other[0] + i * length + j]
                    store(mem, c.precision + i * (i + 1) // 2 + j, fill(mem, entry))
        else:
            for i in range(length):
                _gather(mem, c.precision + i * (i + 1) // 2, prior.precision, other, i + 1)
                for lane in range(WIDTH):
                    other[lane] += length


@njit(nogil=True, forceinline=True)
def _find_rows(x, batch, a, places):
    """Where the multinomial rows of attachment a begin."""
    for lane in range(WIDTH):
        e = batch[lane] if lane < len(batch) else batch[0]
        places[lane] = x.row_start[x.att_row[x.att_ptr[e] + a]]


@njit(nogil=True)
def _gather(mem, cell, source, places, length):
    """Cells from so many neighbours of each lane."""
    if length < 8:
        for lane in range(WIDTH):
            for i in range(length):
                mem[(cell + i) * WIDTH + lane] = source[places[lane] + i]
        return
    for i in range(0, length - 7, 8):
        gather_cells(mem, cell + i, source, places, i)
    if length % 8:
        gather_cells(mem, cell + length - 8, source, places, length - 8)


@njit(nogil=True)
def _scatter(mem, cell, target, places, length):
    """The reverse of :func:`_gather`."""
    if length < 8:
        for lane in range(WIDTH):
            for i in range(length):
                target[places[lane] + i] = mem[(cell + i) * WIDTH + lane]
        return
    for i in range(0, length - 7, 8):
        scatter_cells(mem, cell + i, target, places, i)
    if length % 8:
        scatter_cells(mem, cell + length - 8, target, places, length - 8)


@njit(nogil=True, forceinline=True)
def _write(mem, c, k, x, m, v, u, w, batch, places, length):
    """Lanes to the arrays; lanes that repeat the first write what it writes."""
    own, other = places[0], places[2]
    for i in range(length):
        store(mem, c.mu + i, load(mem, c.mu + i) + load(mem, c.d + i))
    for a in range(len(k)):
        s = load(mem, c.scale + a)
        for j in range(k[a, SIZE]):
            i, o = k[a, COORD] + j, k[a, OFFSET] + j
            # The other segments first: exactly 0 where there are none, so that rounding does not pile up.
            rest = load(mem, c.u + o) - s * load(mem, c.m + i)
            store(mem, c.u + o, rest + s * load(mem, c.mu + i))
            rest = load(mem, c.w + o) - s * s * load(mem, c.v + i)
            store(mem, c.w + o, rest + s * s * load(mem, c.v_now + i))
    for a in range(len(k)):
        if k[a, FIRST]:
            _find_rows(x, batch, a, other)
            _scatter(mem, c.u + k[a, OFFSET], u, other, k[a, SIZE])
            _scatter(mem, c.w + k[a, OFFSET], w, other, k[a, SIZE])
    _scatter(mem, c.mu, m, own, length)
    _scatter(mem, c.v_now, v, own, length)


@kernel
def find_phases(att_ptr, att_row, shares, next_phase, phase):
    """The phase of each expert row that shares a multinomial row: after all rows before that it shares one with."""
    for e in range(len(shares)):
        if not shares[e]:
            continue
        own = 0
        for a in range(att_ptr[e], att_ptr[e + 1]):
            own = max(own, next_phase[att_row[a]])
        phase[e] = own
        for a in range(att_ptr[e], att_ptr[e + 1]):
            next_phase[att_row[a]] = own + 1
