# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Hastings' sampler over the trees of the DMV, eight sentences at a time in lanes; see :mod:`.dmv_sweeps`.

A batch's trees are taken out of the counts; all its proposals are drawn from the weights of what is left; the trees
are put back and then replaced one by one. A proposal depends on no tree of the batch, so each replacement is a step of
an independence sampler for P(t_i | t^-i), whose ratio sees the batch's other trees as they are by then: exact.

P(t | t^-i) is a product over the events of t, each counted before the next is looked at, (f + α) / sum (f + α): the
order does not matter. Taking a tree out gives its probability in the same way, backwards.
"""

# mypy: disable-error-code="no-untyped-def"
from typing import Any

import numpy as np
from numba import njit

from pyrogram.charts.runtime.compiling import kernel
from pyrogram.charts.runtime.random_numbers import seed_stream, uniform

from .dmv_sweeps import GREATEST, Layout, clear_lanes
from .eisner_lanes import inside, make_chart
from .eisner_sample import draw_tree
from .eisner_scaling import log_z_of


def hastings(
    layout: Layout,
    counts: Any,
    alpha: Any,
    trees: Any,
    order: Any,
    batch_size: int,
    seed: int,
    temperature: float,
) -> tuple[Any, Any]:
    """One sweep; see :meth:`pyrogram.collapsed.CollapsedUpdates.hastings`.

    :param counts: table of the events of all trees, changed. Where it is far below zero, ``alpha`` alone is the weight.
    :param alpha: table.
    :param trees: heads (N, n), int64, changed.
    :returns: which proposals were accepted, and which sentences could not be trusted in real space: not moved.
    """
    N, n = len(layout.words), max(1, int(layout.lengths.max(initial=1)))
    mem, chart = make_chart(n, np.float64, False, False)
    size = max(1, min(batch_size, N))
    # Of the old and the new tree of every sentence of a batch: events and their multinomials.
    lists = np.zeros((size, 2, 2, 4 * n), np.int64)
    proposed = np.full((size, trees.shape[1]), -1, np.int64)
    log_q, states = np.zeros((size, 2)), np.zeros((size, 1), np.uint64)
    accepted, failed = np.zeros(N, np.bool_), np.zeros(N, np.bool_)
    place = layout.num_tags, layout.valences, layout.words, layout.lengths, counts, alpha
    scratch = lists, proposed, log_q, states
    _hastings_sweep(mem, chart, *place, trees, order, size, seed, 1 / temperature, *scratch, accepted, failed)
    return accepted, failed


def count(layout: Layout, trees: Any) -> Any:
    """The events of given trees, summed: a table."""
    table = np.zeros(layout.num_events + layout.num_sums + 1)
    place = layout.num_tags, layout.valences, layout.words, layout.lengths
    _count_trees(*place, np.ascontiguousarray(trees), table)
    return table


@kernel
def _count_trees(V, A, words, lengths, trees, table):
    lists = np.zeros((2, 4 * words.shape[1]), np.int64)
    seen = np.zeros((words.shape[1] + 1, 2), np.int64)
    for b in range(len(words)):
        _list_events(V, A, words, b, trees, b, lengths[b], seen, lists)
        _add(table, lists, 4 * lengths[b] - 1, 1.0)


@kernel
def _hastings_sweep(
    mem,
    c,
    V,
    A,
    words,
    lengths,
    counts,
    alpha,
    trees,
    order,
    batch_size,
    seed,
    power,
    lists,
    proposed,
    log_q,
    states,
    accepted,
    failed,
):
    n = words.shape[1]
    terms, agenda = np.zeros(n + 1), np.zeros((2 * n + 2, 3), np.int64)
    seen = np.zeros((n + 1, 2), np.int64)
    for batch in range(0, len(order), batch_size):
        members = min(batch_size, len(order) - batch)
        for k in range(members):
            b = order[batch + k]
            _list_events(V, A, words, b, trees, b, lengths[b], seen, lists[k, 0])
            _add(counts, lists[k, 0], 4 * lengths[b] - 1, -1.0)
        for start in range(0, members, 8):
            size = min(8, members - start)
            longest = clear_lanes(mem, c, lengths, order, batch + start, size)
            for lane in range(size):
                b = order[batch + start + lane]
                _fill_lane(mem, c, V, A, words, b, lengths[b], lane, counts, alpha)
                if power != 1.0:
                    _raise_lane(mem, c, lengths[b], lane, power)
            inside(mem, c, longest)
            for lane in range(size):
                b, k = order[batch + start + lane], start + lane
                log_z, trusted = log_z_of(mem, c, lane, lengths[b])
                failed[b] = not (trusted and mem[c.bound * 8 + lane] <= GREATEST and np.isfinite(log_z))
                if failed[b]:
                    continue
                seed_stream(states[k], seed, b)
                draw_tree((mem, c, lane), lengths[b], False, states[k], terms, agenda, proposed[k])
                log_q[k, 0] = _log_weight(mem, c, lane, trees, b, lengths[b], seen)
                log_q[k, 1] = _log_weight(mem, c, lane, proposed, k, lengths[b], seen)
        for k in range(members):
            _add(counts, lists[k, 0], 4 * lengths[order[batch + k]] - 1, 1.0)
        for k in range(members):
            b = order[batch + k]
            if not failed[b]:
                _list_events(V, A, words, b, proposed, k, lengths[b], seen, lists[k, 1])
                ratio = power, log_q[k, 1] - log_q[k, 0]
                accepted[b] = _accept(counts, alpha, lists[k], 4 * lengths[b] - 1, ratio, states[k])
                if accepted[b]:
                    trees[b, : lengths[b]] = proposed[k, : lengths[b]]


@njit(nogil=True)
def _accept(counts, alpha, lists, size, ratio, state):
    """Replace the old tree's counts by the new one's, or leave them."""
    same = True
    for k in range(size):
        same = same and lists[0, 0, k] == lists[1, 0, k]
    if same:  # then so are all probabilities
        return True
    power, log_q = ratio
    old = _predict(counts, alpha, lists[0], size, -1.0)
    new = _predict(counts, alpha, lists[1], size, 1.0)
    if np.log(uniform(state)) < power * (new - old) - log_q:
        return True
    _add(counts, lists[1], size, -1.0)
    _add(counts, lists[0], size, 1.0)
    return False


@njit(nogil=True)
def _predict(counts, alpha, lists, size, sign):
    """log P(t | t^-i), and t's events added to the counts or, if ``sign`` is -1, taken out of them."""
    total, product = 0.0, 1.0
    for k in range(size):
        event, row = lists[0, k], lists[1, k]
        if sign < 0:
            counts[event] -= 1.0
            counts[row] -= 1.0
        product *= (max(counts[event], 0.0) + alpha[event]) / (max(counts[row], 0.0) + alpha[row])
        if sign > 0:
            counts[event] += 1.0
            counts[row] += 1.0
        if product < 1e-200:
            total += np.log(product)
            product = 1.0
    return total + np.log(product)


@njit(nogil=True, forceinline=True)
def _add(counts, lists, size, sign):
    for k in range(size):
        counts[lists[0, k]] += sign
        counts[lists[1, k]] += sign


@njit(nogil=True)
def _list_events(V, A, words, b, trees, t, m, seen, lists):
    """The 4 m - 1 events of a tree, and their multinomials; ``seen``: whether a head has a child on a side."""
    stops, sums = V + 2 * A * V * V, V * (9 + 2 * A * V)
    seen[: m + 1] = 0
    size = 0
    for turn in range(2 * m):
        # Children to the left from the last to the first, then those to the right from the first: nearest first.
        x = m - turn if turn < m else turn - m + 1
        h, d = trees[t, x - 1], 0 if turn < m else 1
        if h == 0:
            if d == 0:
                lists[0, size], lists[1, size] = words[b, x - 1], sums
                size += 1
        elif (x < h) == (d == 0):
            k, v = words[b, h - 1] * 2 + d, seen[h, d]
            seen[h, d] = 1
            row = k * A + v * (A - 1)
            lists[0, size], lists[1, size] = V + row * V + words[b, x - 1], sums + 1 + row
            lists[0, size + 1], lists[1, size + 1] = stops + (2 * k + v) * 2, sums + 1 + 2 * A * V + 2 * k + v
            size += 2
    for h in range(1, m + 1):
        for d in range(2):
            k = (words[b, h - 1] * 2 + d) * 2 + seen[h, d]
            lists[0, size], lists[1, size] = stops + k * 2 + 1, sums + 1 + 2 * A * V + k
            size += 1


@njit(nogil=True)
def _log_weight(mem, c, lane, trees, t, m, seen):
    """log of the product of a tree's weights in a lane."""
    p = c.pitch
    seen[: m + 1] = 0
    total, product = 0.0, 1.0
    for turn in range(2 * m):
        x = m - turn if turn < m else turn - m + 1
        h, d = trees[t, x - 1], 0 if turn < m else 1
        if h == 0:
            if d == 0:
                product *= mem[(c.a0 + x) * 8 + lane]
        elif (x < h) == (d == 0):
            table = c.a1 if seen[h, d] == 1 else c.a0
            product *= mem[(table + h * p + x) * 8 + lane]
            seen[h, d] = 1
        if product < 1e-200:
            total += np.log(product)
            product = 1.0
    for h in range(1, m + 1):
        for d in range(2):
            product *= mem[(c.s + 4 * h + 2 * d + seen[h, d]) * 8 + lane]
        if product < 1e-200:
            total += np.log(product)
            product = 1.0
    return total + np.log(product)


@njit(nogil=True)
def _fill_lane(mem, c, V, A, words, b, m, lane, f, a):
    """Weights (f + α) / sum (f + α) of a sentence's arcs and stops into its lane."""
    p = c.pitch
    stops, sums = V + 2 * A * V * V, V * (9 + 2 * A * V)
    stop_sums = sums + 1 + 2 * A * V
    root = 1.0 / (max(f[sums], 0.0) + a[sums])
    for h in range(1, m + 1):
        tag = words[b, h - 1]
        mem[(c.a0 + h) * 8 + lane] = (max(f[tag], 0.0) + a[tag]) * root
        for d in range(2):
            k = tag * 2 + d
            e, s = stops + 4 * k, stop_sums + 2 * k
            first, later = 1.0 / (max(f[s], 0.0) + a[s]), 1.0 / (max(f[s + 1], 0.0) + a[s + 1])
            mem[(c.s + 4 * h + 2 * d) * 8 + lane] = (max(f[e + 1], 0.0) + a[e + 1]) * first
            mem[(c.s + 4 * h + 2 * d + 1) * 8 + lane] = (max(f[e + 3], 0.0) + a[e + 3]) * later
            row0, row1 = k * A, k * A + A - 1
            s0, s1 = sums + 1 + row0, sums + 1 + row1
            first *= (max(f[e], 0.0) + a[e]) / (max(f[s0], 0.0) + a[s0])
            later *= (max(f[e + 2], 0.0) + a[e + 2]) / (max(f[s1], 0.0) + a[s1])
            for x in range(1 if d == 0 else h + 1, h if d == 0 else m + 1):
                e0, e1 = V + row0 * V + words[b, x - 1], V + row1 * V + words[b, x - 1]
                mem[(c.a0 + h * p + x) * 8 + lane] = (max(f[e0], 0.0) + a[e0]) * first
                mem[(c.a1 + h * p + x) * 8 + lane] = (max(f[e1], 0.0) + a[e1]) * later


@njit(nogil=True)
def _raise_lane(mem, c, m, lane, power):
    """All weights to a power."""
    for h in range(m + 1):
        for x in range(1, m + 1):
            if x != h:
                mem[(c.a0 + h * c.pitch + x) * 8 + lane] **= power
                if h > 0:
                    mem[(c.a1 + h * c.pitch + x) * 8 + lane] **= power
        for k in range(4 if h > 0 else 0):
            mem[(c.s + 4 * h + k) * 8 + lane] **= power
