# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sweeps of collapsed variational Bayes for the DMV, eight sentences at a time in the lanes of :mod:`.eisner_lanes`.

Events and multinomials are numbered in one vector, a *table*: E = V + 2 A V^2 + 8 V events, root [child], attach [head,
direction, valence, child], A = 1 if valence plays no part, else 2, and stop [head, direction, valence, decision]; then
the 1 + 2 A V + 4 V multinomials, whose numbers are the sums over their events; at last one place for padding.

A sentence's *own* counts are a table over its u distinct tags, the part of the events and that of the multinomials
each padded to a multiple of eight; :attr:`Layout.places` says which number of the corpus' table each belongs to.
Nothing of size V is touched for a sentence, and no arc takes an exponential or a logarithm: weights are ratios of
counts, made once for every pair of distinct tags.
"""

# mypy: disable-error-code="no-untyped-def"
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from pyrogram.charts.runtime.compiling import kernel
from pyrogram.charts.runtime.lanes import fill, fma, load, maximum, store
from pyrogram.charts.runtime.lanes_memory import increase, peek, poke, prefetch_between

from .eisner_lanes import inside, make_chart
from .eisner_outside import outside
from .lanes_log import gather, log

GREATEST = 2.0**900  # see :mod:`.eisner_scaling`
LANES = 8
_LOG2 = float(np.log(2.0))


class Layout(NamedTuple):
    """Where the own counts of each sentence lie."""

    num_tags: int  # V
    valences: int  # A
    words: Any  # (N, n)
    lengths: Any  # (N,)
    local: Any  # (N, n), the number of each word's tag among the distinct ones of its sentence
    distinct: Any  # (N,), u
    starts: Any  # (N,), multiples of 8: sentences of equal length lie side by side
    sizes: Any  # (N,)
    places: Any  # of all own counts

    @property
    def num_events(self) -> int:
        return self.num_tags * (1 + 2 * self.valences * self.num_tags + 8)

    @property
    def num_sums(self) -> int:
        return 1 + 2 * self.valences * self.num_tags + 4 * self.num_tags


def make_layout(words: Any, num_tags: int, valences: int) -> Layout:
    """:param words: shape (N, n), int64, padded with -1."""
    N, n = words.shape
    V, A = num_tags, valences
    real = words >= 0
    own = np.broadcast_to(np.arange(N)[:, None], words.shape)
    keys, inverse = np.unique((own * V + words)[real], return_inverse=True)
    tag_starts = np.searchsorted(keys // V, np.arange(N + 1))
    local = np.zeros((N, n), np.int64)
    local[real] = inverse - tag_starts[own[real]]
    u = np.diff(tag_starts)
    sizes = (u * (9 + 2 * A * u) + 7) // 8 * 8 + (1 + 2 * A * u + 4 * u + 7) // 8 * 8
    lengths = real.sum(1)
    order = np.argsort(lengths, kind="stable")
    starts = np.zeros(N, np.int64)
    starts[order] = np.cumsum(sizes[order]) - sizes[order]
    end = V * (9 + 2 * A * V) + 1 + 2 * A * V + 4 * V
    places = np.full(sizes.sum(), end, np.int32 if end < 2**31 else np.int64)
    _find_places(V, A, keys % V, tag_starts, starts, places)
    return Layout(V, A, np.ascontiguousarray(words), lengths, local, u, starts, sizes, places)


def collapsed_vb(
    layout: Layout, counts: Any, alpha: Any, own: Any, out: Any, order: Any, batch_size: int
) -> tuple[Any, Any, Any]:
    """One sweep; see :meth:`pyrogram.collapsed.CollapsedUpdates.collapsed_vb`.

    A sentence that cannot be trusted in real space fails: its counts stay as they are.

    :param counts: table of the corpus, changed. Where it is far below zero, ``alpha`` alone is the weight.
    :param alpha: table.
    :param own: own counts of all sentences.
    :param out: the new ones.
    :returns: log Z and entropy of each sentence, and which failed.
    """
    N, n = len(layout.words), max(1, int(layout.lengths.max(initial=1)))
    mem, chart = make_chart(n, np.float64, False, False)
    log_z, entropies, failed = np.zeros(N), np.zeros(N), np.zeros(N, np.bool_)
    number = np.zeros(LANES * int(layout.sizes.max(initial=8)) + 8)
    seen = counts.copy() if batch_size > LANES else counts
    _vb_sweep(
        mem,
        chart,
        *layout[1:2],
        *layout[3:],
        seen,
        counts,
        alpha,
        own,
        out,
        order,
        batch_size,
        number,
        log_z,
        entropies,
        failed,
    )
    return log_z, entropies, failed


def total(layout: Layout, own: Any) -> Any:
    """Own counts of all sentences: a table."""
    table = np.zeros(layout.num_events + layout.num_sums + 1)
    _add_up(layout.places, own, table)
    return table


@kernel
def _add_up(places, own, table):
    for i in range(len(own)):
        table[places[i]] += own[i]


@kernel
def _find_places(V, A, tags, tag_starts, starts, places):
    for b in range(len(starts)):
        first, o = tag_starts[b], starts[b]
        u = tag_starts[b + 1] - first
        sums, e = V * (9 + 2 * A * V), o + (u * (9 + 2 * A * u) + 7) // 8 * 8
        places[e] = sums
        for l in range(u):
            tag = tags[first + l]
            places[o + l] = tag
            for k in range(2 * A):
                for x in range(u):
                    places[o + u + (l * 2 * A + k) * u + x] = V + (tag * 2 * A + k) * V + tags[first + x]
                places[e + 1 + l * 2 * A + k] = sums + 1 + tag * 2 * A + k
            for k in range(8):
                places[o + u + 2 * A * u * u + l * 8 + k] = V + 2 * A * V * V + tag * 8 + k
            for k in range(4):
                places[e + 1 + 2 * A * u + l * 4 + k] = sums + 1 + 2 * A * V + tag * 4 + k


@kernel
def _vb_sweep(
    mem,
    c,
    A,
    lengths,
    local,
    distinct,
    starts,
    sizes,
    places,
    seen,
    counts,
    alpha,
    own,
    out,
    order,
    batch_size,
    number,
    log_z,
    entropies,
    failed,
):
    room = (len(number) - 8) // 8
    for batch in range(0, len(order), batch_size):
        end = min(batch + batch_size, len(order))
        for start in range(batch, end, 8):
            size = min(8, end - start)
            n = clear_lanes(mem, c, lengths, order, start, size)
            for lane in range(size):
                b = order[start + lane]
                _weigh(A, distinct[b], starts[b], sizes[b], places, seen, alpha, own, number, lane * room)
                _fill_lane(mem, c, A, local, b, distinct[b], lengths[b], lane, number, lane * room)
            _announce(start + 8, starts, sizes, places, own, out, order)
            inside(mem, c, n)
            for lane in range(size):
                b = order[start + lane]
                log_z[b] = np.log(mem[c.z * 8 + lane]) - _LOG2 * mem[c.exponents * 8 + lane]
            outside(mem, c, n)
            for lane in range(size):
                b = order[start + lane]
                # Written so that NaN fails.
                if mem[c.bound * 8 + lane] <= GREATEST and np.isfinite(log_z[b]):
                    _drain_lane(
                        mem, c, A, local, b, distinct[b], lengths[b], lane, out, starts[b], starts[b] + sizes[b]
                    )
                    for i in range(starts[b], starts[b] + sizes[b]):
                        # What rounding leaves of nothing may be below it; whoever reads it sees to that.
                        increase(counts, peek(places, i), peek(out, i) - peek(own, i))
                    score = _score(starts[b] // 8, sizes[b] // 8, out, number, lane * room // 8, room)
                    entropies[b] = log_z[b] - score
                else:
                    failed[b] = True
                    for i in range(starts[b], starts[b] + sizes[b]):
                        out[i] = own[i]
        if batch_size > 8:
            seen[:] = counts


@njit(nogil=True, forceinline=True)
def clear_lanes(mem, c, lengths, order, start, size):
    """Zero weights, where lanes are empty or shorter than others; returns the greatest length."""
    p = c.pitch
    zero = fill(mem, mem.dtype.type(0))
    n, shortest = 0, lengths[order[start]]
    for lane in range(size):
        n, shortest = max(n, lengths[order[start + lane]]), min(shortest, lengths[order[start + lane]])
    for m in range(n + 1):
        store(mem, c.ends + m, zero)
    if size < 8 or shortest < n:
        for h in range(n + 1):
            for x in range(1, n + 1):
                store(mem, c.a0 + h * p + x, zero)
                store(mem, c.a1 + h * p + x, zero)
            for x in range(4):
                store(mem, c.s + 4 * h + x, zero)
    for lane in range(size):
        mem[(c.ends + lengths[order[start + lane]]) * 8 + lane] = 1
    return n


@njit(nogil=True, forceinline=True)
def _announce(first, starts, sizes, places, own, out, order):
    """Have the counts of the next eight sentences fetched during the charts of these, which need no other memory."""
    for turn in range(first, min(first + 8, len(order))):
        b = order[turn]
        start, end = starts[b], starts[b] + sizes[b]
        prefetch_between(own, start, end)
        prefetch_between(out, start, end)
        prefetch_between(places, start, end)


@njit(nogil=True, forceinline=True)
def _weigh(A, u, start, size, places, counts, alpha, own, number, at):
    """Pseudo-counts f^-i + α of a sentence's events, and one over their sums; one in the padding, where α is."""
    zero, one = fill(own, 0.0), fill(own, 1.0)
    events = (u * (9 + 2 * A * u) + 7) // 8
    for i in range(size // 8):
        cell = start // 8 + i
        rest = maximum(gather(counts, places, cell) - load(own, cell), zero)
        pseudo = rest + gather(alpha, places, cell)
        store(number, at // 8 + i, pseudo if i < events else one / pseudo)


@njit(nogil=True, forceinline=True)
def _fill_lane(mem, c, A, local, b, u, m, lane, number, at):
    """Weights of the arcs and stops of a sentence into its lane, from what :func:`_weigh` has left."""
    p, before = c.pitch, b * local.shape[1] - 1
    attach = at + u
    stops = attach + 2 * A * u * u
    sums = at + (u * (9 + 2 * A * u) + 7) // 8 * 8
    root = peek(number, sums)
    for h in range(1, m + 1):
        l = peek(local, before + h)
        poke(mem, (c.a0 + h) * 8 + lane, peek(number, at + l) * root)
        for d in range(2):
            k = l * 2 + d
            first = peek(number, sums + 1 + 2 * A * u + 2 * k)
            later = peek(number, sums + 1 + 2 * A * u + 2 * k + 1)
            poke(mem, (c.s + 4 * h + 2 * d) * 8 + lane, peek(number, stops + 4 * k + 1) * first)
            poke(mem, (c.s + 4 * h + 2 * d + 1) * 8 + lane, peek(number, stops + 4 * k + 3) * later)
            first *= peek(number, stops + 4 * k)
            later *= peek(number, stops + 4 * k + 2)
            at0 = attach + k * A * u
            each = peek(number, sums + 1 + k * A)
            first *= each
            if A == 1:
                later *= each
                for x in range(1 if d == 0 else h + 1, h if d == 0 else m + 1):
                    share = peek(number, at0 + peek(local, before + x))
                    poke(mem, (c.a0 + h * p + x) * 8 + lane, share * first)
                    poke(mem, (c.a1 + h * p + x) * 8 + lane, share * later)
            else:
                later *= peek(number, sums + 1 + k * A + 1)
                for x in range(1 if d == 0 else h + 1, h if d == 0 else m + 1):
                    child = at0 + peek(local, before + x)
                    poke(mem, (c.a0 + h * p + x) * 8 + lane, peek(number, child) * first)
                    poke(mem, (c.a1 + h * p + x) * 8 + lane, peek(number, child + u) * later)


@njit(nogil=True, forceinline=True)
def _drain_lane(mem, c, A, local, b, u, m, lane, out, start, end):
    """Posteriors of a lane to a sentence's new own counts, and their sums."""
    p, before = c.pitch, b * local.shape[1] - 1
    zero = fill(out, 0.0)
    for i in range(start // 8, end // 8):
        store(out, i, zero)
    attach = start + u
    stops = attach + 2 * A * u * u
    sums = start + (u * (9 + 2 * A * u) + 7) // 8 * 8
    for h in range(1, m + 1):
        l = peek(local, before + h)
        root = peek(mem, (c.a0 + h) * 8 + lane)
        increase(out, start + l, root)
        increase(out, sums, root)
        for d in range(2):
            k = l * 2 + d
            at0 = attach + k * A * u
            all_first, all_later = 0.0, 0.0
            for x in range(1 if d == 0 else h + 1, h if d == 0 else m + 1):
                first, later = peek(mem, (c.a0 + h * p + x) * 8 + lane), peek(mem, (c.a1 + h * p + x) * 8 + lane)
                child = at0 + peek(local, before + x)
                if A == 1:
                    increase(out, child, first + later)
                else:
                    increase(out, child, first)
                    increase(out, child + u, later)
                all_first += first
                all_later += later
            increase(out, sums + 1 + k * A, all_first)
            increase(out, sums + 1 + k * A + A - 1, all_later)
            stop = (c.ms + 4 * h + 2 * d) * 8 + lane
            stop_first, stop_later = peek(mem, stop), peek(mem, stop + 8)
            increase(out, stops + 4 * k, all_first)
            increase(out, stops + 4 * k + 1, stop_first)
            increase(out, stops + 4 * k + 2, all_later)
            increase(out, stops + 4 * k + 3, stop_later)
            increase(out, sums + 1 + 2 * A * u + 2 * k, all_first + stop_first)
            increase(out, sums + 1 + 2 * A * u + 2 * k + 1, all_later + stop_later)


@njit(nogil=True, forceinline=True)
def _score(first, count, out, number, at, room):
    """sum of new own counts times log weights, eight at a time."""
    score = fill(number, 0.0)
    for i in range(count):
        score = fma(load(out, first + i), log(load(number, at + i)), score)
    store(number, room, score)
    whole = 0.0
    for lane in range(8):
        whole += number[room * 8 + lane]
    return whole
