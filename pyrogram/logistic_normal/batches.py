# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Deal the experts of all groups to lanes and threads for :mod:`.newton`.

Groups come in blocks, a turn of a thread each, and the expert rows of a block in an order in which neighbours are
alike: same phase (those of one group share no multinomial), same pattern (length, sizes and places of the
attachments). Eight of them are climbed at a time. An expert that has its multinomials to itself climbs until it is
done; experts that share one take turns, a Newton step each, until nothing is left to gain in their group.

A lane does not feel the others, so that results depend neither on threads nor on what is done side by side.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from pyrogram.logistic_normal.arrays import LayoutArrays, PriorArrays, State
from pyrogram.logistic_normal.direction import COORD, FIRST, OFFSET, SIZE, SLOT, TIMES, Cells
from pyrogram.logistic_normal.linear_algebra import WIDTH
from pyrogram.logistic_normal.newton import maximise
from pyrogram.runtime.arrays import Array
from pyrogram.runtime.compiling import kernel
from pyrogram.runtime.lanes import fill, gather_cells, load, scatter_cells, store
from pyrogram.runtime.threads import take


class Scratch(NamedTuple):
    """Memory of one thread for eight experts at a time.

    :param mem: cells, a number of each lane side by side.
    :param cells: where each quantity lies in ``mem``.
    :param table: the attachments of the experts at work, (attachments, 6).
    :param places: where a lane's numbers begin in the flat arrays, (3, 8).
    """

    mem: Array
    cells: Cells
    table: Array
    places: Array


def _without_owner(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    if isinstance(kind, types.Array):
        view = context.make_array(kind)(context, builder, value)
        view.meminfo = cgutils.get_null_value(view.meminfo.type)
        return view._getvalue()
    if not isinstance(kind, types.BaseTuple):
        return value
    members = cgutils.unpack_tuple(builder, value)
    views = [_without_owner(context, builder, *part) for part in zip(kind.types, members, strict=True)]
    return context.make_tuple(builder, kind, views)


@intrinsic
def uncounted(typingctx: Any, arrays: Any) -> Any:
    """The same arrays, in tuples of any depth, without reference counts, which cost more than to read small rows.

    Their owners, arguments of the compiled function, outlive its call.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _without_owner(context, builder, signature.args[0], args[0])

    return arrays(arrays), codegen


@kernel
def update_blocks(
    scratch: Scratch,
    x: LayoutArrays,
    prior: PriorArrays,
    state: State,
    order: Array,
    block_ptr: Array,
    turns: Array,
    limits: tuple[int, float],
    gain: Array,
) -> None:
    """Update the expert rows of the blocks that come this thread's way.

    :param order: the expert rows of each block, one block after the other; changed.
    :param limits: most Newton steps of an expert, and what may be left to gain, in nats.
    :param gain: by group, what the last step promised to gain; changed.
    """
    scratch, x, prior, state = uncounted((scratch, x, prior, state))
    order, gain = uncounted((order, gain))
    steps, tolerance = limits
    for _ in range(len(block_ptr) - 1):
        block = take(turns)
        if block >= len(block_ptr) - 1:
            break
        rows = order[block_ptr[block] : block_ptr[block + 1]]
        alone = 0
        while alone < len(rows) and x.phase[rows[alone]] < 0:
            alone += 1
        _newton_steps(scratch, x, prior, state, rows[:alone], steps, tolerance, gain)
        rows = rows[alone:]
        for e in rows:
            gain[x.expert_group[e]] = np.inf
        one = min(steps, 1)  # no literal, which would be compiled for itself
        for _ in range(steps):
            live = 0  # rows of groups with something left to gain move to the front, in order
            for i in range(len(rows)):
                if gain[x.expert_group[rows[i]]] > tolerance:
                    rows[live] = rows[i]
                    live += 1
            rows = rows[:live]
            for e in rows:
                gain[x.expert_group[e]] = 0.0
            _newton_steps(scratch, x, prior, state, rows, one, tolerance, gain)


@njit(nogil=True)
def _newton_steps(
    scratch: Scratch,
    x: LayoutArrays,
    prior: PriorArrays,
    state: State,
    rows: Array,
    steps: int,
    tolerance: float,
    gain: Array,
) -> None:
    """Newton steps for the expert ``rows``, eight at a time."""
    mem, c, table = scratch.mem, scratch.cells, scratch.table
    begin = 0
    while begin < len(rows):
        e = rows[begin]
        diagonal = prior.diagonal[x.expert[e]]
        count = 1
        while begin + count < len(rows) and count < WIDTH:
            other = rows[begin + count]
            if x.kind[other] != x.kind[e] or prior.diagonal[x.expert[other]] != diagonal:
                break
            count += 1
        length = x.expert_start[e + 1] - x.expert_start[e]
        if begin == 0 or x.kind[rows[begin - 1]] != x.kind[e]:
            _describe(x, e, table)
        k = table[: x.att_ptr[e + 1] - x.att_ptr[e]]
        batch = rows[begin : begin + count]
        _read(scratch, k, x, prior, state, batch, length, diagonal)
        left = maximise(mem, c, k, length, diagonal, steps, tolerance)
        _write(scratch, k, x, state, batch, length)
        store(mem, c.alpha, left)
        for lane in range(count):
            group = x.expert_group[batch[lane]]
            gain[group] = max(gain[group], mem[c.alpha * WIDTH + lane])
        begin += count


@njit(nogil=True, forceinline=True)
def _describe(x: LayoutArrays, e: int, table: Array) -> None:
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
def _read(
    scratch: Scratch,
    k: Array,
    x: LayoutArrays,
    prior: PriorArrays,
    state: State,
    batch: Array,
    length: int,
    diagonal: bool,
) -> None:
    """Priors, present state and counts to the lanes; lanes without a row of their own repeat the first."""
    mem, c, places = scratch.mem, scratch.cells, scratch.places
    expert, first, other = places[0], places[1], places[2]
    same = True
    for lane in range(WIDTH):
        e = batch[lane] if lane < len(batch) else batch[0]
        expert[lane] = x.expert_start[e]
        first[lane] = prior.start[x.expert[e]]
        same = same and first[lane] == first[0]
        for a in range(len(k)):
            mem[(c.scale + a) * WIDTH + lane] = x.att_scale[x.att_ptr[e] + a]
    _gather(mem, c.m, state.m, expert, length)
    _gather(mem, c.v, state.v, expert, length)
    _gather(mem, c.mu, prior.mu, first, length)
    _gather(mem, c.low, prior.precision_diag, first, length)
    for a in range(len(k)):
        if k[a, FIRST]:
            _find_rows(x, batch, a, other)
            _gather(mem, c.f + k[a, OFFSET], state.f, other, k[a, SIZE])
            _gather(mem, c.u + k[a, OFFSET], state.u, other, k[a, SIZE])
            _gather(mem, c.w + k[a, OFFSET], state.w, other, k[a, SIZE])
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
def _find_rows(x: LayoutArrays, batch: Array, a: int, places: Array) -> None:
    """Where the multinomial rows of attachment a begin."""
    for lane in range(WIDTH):
        e = batch[lane] if lane < len(batch) else batch[0]
        places[lane] = x.row_start[x.att_row[x.att_ptr[e] + a]]


@njit(nogil=True)
def _gather(mem: Array, cell: int, source: Array, places: Array, length: int) -> None:
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
def _scatter(mem: Array, cell: int, target: Array, places: Array, length: int) -> None:
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
def _write(scratch: Scratch, k: Array, x: LayoutArrays, state: State, batch: Array, length: int) -> None:
    """Lanes to the arrays; lanes that repeat the first write what it writes."""
    mem, c = scratch.mem, scratch.cells
    expert, other = scratch.places[0], scratch.places[2]
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
            _scatter(mem, c.u + k[a, OFFSET], state.u, other, k[a, SIZE])
            _scatter(mem, c.w + k[a, OFFSET], state.w, other, k[a, SIZE])
    _scatter(mem, c.mu, state.m, expert, length)
    _scatter(mem, c.v_now, state.v, expert, length)
