# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sweeps of collapsed variational Bayes for context-free grammars, eight sentences at a time in lanes.

Each sentence has its own weights, those of the corpus without itself. Its own counts are a row or a list or both (see
:mod:`.cfg_sweeps_layout`). Eight rows are transposed into lanes; listed events, which differ from sentence to sentence,
are done one by one, and rules that are not in the list of a sentence weigh nothing in it.
"""

# mypy: disable-error-code="no-untyped-def"
from typing import Any, NamedTuple

import numpy as np

from pyrogram.charts.runtime.compiling import borrowing, kernel
from pyrogram.charts.runtime.lanes import fill, fma, load, maximum, store
from pyrogram.charts.runtime.lanes_memory import aligned

from .cfg_sweeps_layout import Layout
from .cfg_sweeps_rows import LANES, read_rows, sum_by_multinomial, write_rows
from .cfg_tiles import TileChart, fill_chart, log_z_of, make_memory
from .cfg_tiles_outside import outside
from .cfg_tiles_plan import TilePlan
from .lanes_log import log

_GREATEST_WEIGHT = 2.0**300  # of weights that are given; others are at most one


class _Scratch(NamedTuple):
    """Memory for eight sentences: cells of lanes; and for listed events and matches, lane by lane."""

    own: Any  # counts of the events in the row
    fresh: Any  # the new ones
    own_sums: Any  # by multinomial
    fresh_sums: Any
    inverse: Any  # one over the sum of a multinomial's pseudo-counts
    score: Any  # sums of counts times log weights; and a cell to spare
    weights: Any  # of the plan
    rows: Any  # where the own counts of each begin
    local: Any  # weights of listed events
    local_fresh: Any  # their new counts
    match: Any  # weights of matches
    gains: Any  # of the multinomials in a batch


def collapsed_vb(
    layout: Layout,
    plan: TilePlan,
    chart: TileChart,
    counts: Any,
    alpha: Any,
    own: Any,
    out: Any,
    order: Any,
    batch_size: int,
) -> tuple[Any, Any, Any]:
    """One sweep; see :meth:`pyrogram.collapsed.CollapsedUpdates.collapsed_vb`.

    A sentence that cannot be trusted fails: its counts stay as they are, in ``counts`` and in ``out``.

    :param counts: shape (R,), changed.
    :param alpha: shape (R,).
    :param own: own counts of all sentences.
    :param out: the new ones.
    :returns: log Z and entropy of each sentence, and which failed.
    """
    table, sums = table_of(layout, counts, alpha)
    found = _run(layout, plan, chart, table, sums, own, out, order, batch_size)
    counts[:] = table[:, 0]
    return found


def expect(layout: Layout, plan: TilePlan, chart: TileChart, weights: Any, out: Any) -> tuple[Any, Any, Any]:
    """log Z and entropy of each sentence under given weights (R,), normalised or not, and which failed.

    Expected counts go to ``out``.
    """
    if not (weights < _GREATEST_WEIGHT).all():  # bounds on cells say nothing about what they are multiplied by
        N = len(layout.lengths)
        return np.full(N, -np.inf), np.full(N, -np.inf), np.ones(N, np.bool_)
    # Nothing is counted yet, and sums of one leave the weights as they are. In one batch, nothing ever is.
    table, sums = np.stack([np.zeros_like(weights), weights], 1), np.tile([0.0, 1.0], (layout.multinomials, 1))
    order = np.argsort(layout.lengths, kind="stable")
    return _run(layout, plan, chart, table, sums, np.zeros_like(out), out, order, max(len(order), 1))


def table_of(layout: Layout, counts: Any, alpha: Any) -> tuple[Any, Any]:
    """Counts and α side by side, and their sums by multinomial."""
    sums = [np.bincount(layout.owner, weights=x, minlength=layout.multinomials) for x in (counts, alpha)]
    return np.stack([counts, alpha], 1), np.stack(sums, 1)


def _run(
    layout: Layout,
    plan: TilePlan,
    chart: TileChart,
    table: Any,
    sums: Any,
    own: Any,
    out: Any,
    order: Any,
    batch_size: int,
) -> tuple[Any, Any, Any]:
    N, R = len(layout.lengths), len(layout.owner)
    log_z, entropies, failed = np.full(N, -np.inf), np.full(N, -np.inf), np.zeros(N, np.bool_)
    shared = np.ascontiguousarray(table[layout.row].T)  # counts and α of the row, side by side in memory
    scratch = _make_scratch(layout, plan, R)
    arrays = table, shared, sums, own, out, order, batch_size
    _vb_sweep(make_memory(chart), chart, plan, layout, scratch, *arrays, log_z, entropies, failed)
    table[layout.row, 0] = shared[0]
    return log_z, entropies, failed


def _make_scratch(layout: Layout, plan: TilePlan, R: int) -> _Scratch:
    D, A = len(layout.row), layout.multinomials
    weights = aligned(plan.num_weights * LANES).reshape(-1, LANES)
    weights[plan.source == R] = 1.0
    events, matches = (-(-size // LANES) * LANES for size in (layout.most_events, layout.most_matches))
    return _Scratch(
        own=aligned(D * LANES),
        fresh=aligned(D * LANES),
        own_sums=aligned(A * LANES),
        fresh_sums=aligned(A * LANES),
        inverse=aligned(A * LANES),
        score=aligned(2 * LANES),
        weights=weights,
        rows=np.zeros(LANES, np.int64),
        local=aligned(events * LANES),
        local_fresh=aligned(events * LANES),
        match=aligned(matches * LANES),
        gains=np.zeros(A),
    )


@kernel
def _vb_sweep(mem, c, p, layout, x, table, shared, sums, own, out, order, batch_size, log_z, entropies, failed):
    shift = 0.0
    for batch in range(0, len(order), batch_size):
        members = order[batch : batch + batch_size]
        x.gains[:] = 0
        for start in range(0, len(members), LANES):
            some = members[start : start + LANES]
            _weigh(layout, x, some, table, shared, sums, own)
            good, shift = fill_chart(mem, c, p, layout, x.weights, x.match, some, shift)
            good = outside(mem, c, p, x.weights, layout.lengths, some, good)
            _drain_row(mem, c, layout, x)
            write_rows(x.fresh, out, x.rows, len(layout.row), len(some))
            for lane in range(len(some)):
                b = some[lane]
                failed[b] = not good & (1 << lane)
                _drain_lane(mem, c, layout, x, b, lane, failed[b], own, out)
                if not failed[b]:
                    log_z[b] = log_z_of(mem, c, p, lane, layout.lengths[b])
                    entropies[b] = log_z[b] - x.score[lane]
        _count(layout, x, members, table, shared, sums, own, out)


@borrowing
def _weigh(layout, x, sentences, table, shared, sums, own):
    """Weights from the counts of all other sentences: of the plan in lanes, and of listed events and matches."""
    D = len(layout.row)
    for lane in range(LANES):
        b = sentences[lane if lane < len(sentences) else 0]
        x.rows[lane] = b * D + layout.starts[b]
    read_rows(x.own, own, x.rows, D)
    zero, one = fill(x.own, 0.0), fill(x.own, 1.0)
    sum_by_multinomial(layout.runs, x.own, x.own_sums)
    for lane in range(len(sentences)):
        b = sentences[lane]
        first = x.rows[lane] + D - layout.starts[b]
        for i in range(layout.starts[b], layout.starts[b + 1]):
            x.own_sums[layout.owner[layout.events[i]] * 8 + lane] += own[first + i]
    for A in range(len(sums)):
        rest = maximum(fill(x.own, sums[A, 0]) - load(x.own_sums, A), zero)
        store(x.inverse, A, one / (rest + fill(x.own, sums[A, 1])))
    for t in range(len(layout.weight)):
        e = layout.place[t]
        rest = maximum(fill(x.own, shared[0, e]) - load(x.own, e), zero) + fill(x.own, shared[1, e])
        store(x.weights, layout.weight[t], rest * load(x.inverse, layout.row_owner[e]))
    for q in layout.spread:
        store(x.weights, q, zero)
    for lane in range(len(sentences)):
        _weigh_list(layout, x, sentences[lane], lane, table, own)


@borrowing
def _weigh_list(layout, x, b, lane, table, own):
    """Weights of the listed events of a sentence, and of its matches."""
    first, counts = lane * (len(x.local) // 8), x.rows[lane] + len(layout.row)
    for i in range(layout.starts[b + 1] - layout.starts[b]):
        event = layout.events[layout.starts[b] + i]
        rest = max(table[event, 0] - own[counts + i], 0.0) + table[event, 1]
        x.local[first + i] = rest * x.inverse[layout.owner[event] * 8 + lane]
        for t in range(layout.spots[event], layout.spots[event + 1]):
            x.weights[layout.spread[t], lane] = x.local[first + i]
    place = lane * (len(x.match) // 8) - layout.offsets[b]
    for m in range(layout.offsets[b], layout.offsets[b + 1]):
        e = layout.local[m]
        x.match[place + m] = x.local[first + e] if e >= 0 else 1.0


@borrowing
def _drain_row(mem, c, layout, x):
    """Posteriors of the events in the row, their sums, and the sum of them times log weights."""
    score = zero = fill(x.own, 0.0)
    for e in range(len(layout.row)):
        store(x.fresh, e, zero)
    for t in range(len(layout.weight)):
        q, e = layout.weight[t], layout.place[t]
        w = load(x.weights, q)
        count = load(mem, c.counts + q) * w
        store(x.fresh, e, load(x.fresh, e) + count)
        score = fma(count, log(w), score)
    store(x.score, 0, score)
    sum_by_multinomial(layout.runs, x.fresh, x.fresh_sums)


@borrowing
def _drain_lane(mem, c, layout, x, b, lane, has_failed, own, out):
    """The new list of a sentence, and its sums."""
    D, first = len(layout.row), lane * (len(x.local) // 8)
    row, size = x.rows[lane], layout.starts[b + 1] - layout.starts[b]
    if has_failed:
        for i in range(row, row + D + size):
            out[i] = own[i]
        return
    whole = (size + 7) // 8
    zero = fill(x.local, 0.0)
    for i in range(first // 8, first // 8 + whole):
        store(x.local_fresh, i, zero)
    place = lane * (len(x.match) // 8) - layout.offsets[b]
    i, k, factor = -1, -1, 1.0
    for m in range(layout.offsets[b], layout.offsets[b + 1]):
        if layout.table[m, 0] != i:
            i = k = layout.table[m, 0]
            factor = 1.0
        while k < layout.table[m, 1]:
            k += 1
            factor *= mem[(c.factors + k) * 8 + lane]
        if layout.local[m] >= 0:
            value = mem[(c.outer + layout.cell[m]) * 8 + lane] * factor
            x.local_fresh[first + layout.local[m]] += value * x.match[place + m]
    for i in range(size):
        event, value = layout.events[layout.starts[b] + i], x.local_fresh[first + i]
        for t in range(layout.spots[event], layout.spots[event + 1]):
            q = layout.spread[t]
            value += mem[(c.counts + q) * 8 + lane] * x.weights[q, lane]
        x.local_fresh[first + i] = out[row + D + i] = value
        x.fresh_sums[layout.owner[event] * 8 + lane] += value
    score = zero
    for i in range(first // 8, first // 8 + whole):
        score = fma(load(x.local_fresh, i), log(load(x.local, i)), score)
    store(x.score, 1, score)
    for i in range(8, 16):
        x.score[lane] += x.score[i]
    for A in range(len(x.gains)):
        x.gains[A] += x.fresh_sums[A * 8 + lane] - x.own_sums[A * 8 + lane]


@borrowing
def _count(layout, x, members, table, shared, sums, own, out):
    """Replace the own counts of a batch in those of the corpus."""
    D = len(layout.row)
    counts = shared[0]
    for b in members:
        row = b * D + layout.starts[b]
        for e in range(D):
            counts[e] += out[row + e] - own[row + e]
    for b in members:
        row = (b + 1) * D
        for i in range(layout.starts[b], layout.starts[b + 1]):
            event, gain = layout.events[i], out[row + i] - own[row + i]
            table[event, 0] = max(table[event, 0] + gain, 0.0)
    for e in range(D):
        counts[e] = max(counts[e], 0.0)  # what rounding leaves of nothing may be below it
    for A in range(len(sums)):
        sums[A, 0] += x.gains[A]
