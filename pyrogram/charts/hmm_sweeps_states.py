# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Hastings' sampler over the states of hidden Markov models, eight sentences at a time; see :mod:`.hmm_sweeps`.

A batch's state sequences are taken out of the counts, and all its proposals are drawn from one and the same weights, of
what is left: proposals depend on no sequence of the batch. Then the sequences are put back and replaced one by one.
"""

# mypy: disable-error-code="no-untyped-def"
from typing import Any

import numpy as np
from numba import njit

from pyrogram.charts.runtime.compiling import kernel
from pyrogram.charts.runtime.lanes import fill, load, maximum, store
from pyrogram.charts.runtime.random_numbers import choose, seed_stream, uniform

from .hmm_lanes import WIDTH, backward, forward, make_lanes
from .hmm_sweeps import Layout, Tables
from .hmm_sweeps_lanes import GREATEST, feed_words, log_z_of, make_memory


def hastings(
    layout: Layout, tables: Tables, states: Any, order: Any, batch_size: int, seed: int, temperature: float
) -> Any:
    """One sweep; changes the tables' counts and ``states`` (N, n). Returns who accepted, and which failed."""
    N, n = layout.words.shape
    accepted, failed = np.zeros(N, np.bool_), np.zeros(N, np.bool_)
    members = max(1, min(batch_size, N))
    scratch = np.full((members, n), -1, np.int64), np.zeros((members, 2)), np.zeros((members, 1), np.uint64)
    weights = np.zeros((2 + layout.P) * layout.P)  # the backward pass reads whole tiles of four rows
    lanes = make_lanes(max(1, n), layout.K), make_memory(max(1, n), layout.K), weights
    _hastings_sweep(layout, *lanes, tables, states, order, members, seed, 1 / temperature, *scratch, accepted, failed)
    return accepted, failed


@kernel
def _hastings_sweep(
    layout, c, x, shared, tables, states, order, batch_size, seed, power, proposed, log_q, streams, accepted, failed
):
    terms = np.zeros(layout.P)
    for batch in range(0, len(order), batch_size):
        members = order[batch : batch + batch_size]
        for b in members:
            _add(layout, tables, b, states[b], -1.0)
        _weigh(layout, tables, shared, power)
        for first in range(0, len(members), WIDTH):
            block = members[first : first + WIDTH]
            _fill(layout, c, x, shared, tables, block, power)
            for lane in range(len(block)):
                b, k = block[lane], first + lane
                failed[b] = x.failed[lane] != 0
                seed_stream(streams[k], seed, b)
                if not failed[b]:
                    _draw(layout, c, shared, b, lane, terms, streams[k], proposed[k])
                    log_q[k, 0] = _log_weight(layout, x, shared, b, lane, states[b])
                    log_q[k, 1] = _log_weight(layout, x, shared, b, lane, proposed[k])
        for b in members:
            _add(layout, tables, b, states[b], 1.0)
        for k in range(len(members)):
            b = members[k]
            if not failed[b]:
                ratio = power, log_q[k, 1] - log_q[k, 0]
                accepted[b] = _accept(layout, tables, b, states[b], proposed[k], ratio, streams[k])


@njit(nogil=True)
def _weigh(layout, tables, shared, power):
    """Weights of initial states, ends and transitions from the counts as they are."""
    P = layout.P
    zero = fill(shared, 0.0)
    for row in range(2 + layout.K):
        for j in range(P // WIDTH):
            total = fill(shared, max(tables.f_sums[0], 0.0) + tables.alpha_sums[0])
            if row == 1:
                at = P // WIDTH + j
                total = maximum(load(tables.f_sums, at), zero) + load(tables.alpha_sums, at)
            elif row > 1:
                i = P + row - 2
                total = fill(shared, max(tables.f_sums[i], 0.0) + tables.alpha_sums[i])
            cell = row * P // WIDTH + j
            store(shared, cell, (maximum(load(tables.f, cell), zero) + load(tables.alpha, cell)) / total)
    if power != 1.0:
        for cell in range(len(shared)):
            shared[cell] **= power


@njit(nogil=True)
def _fill(layout, c, x, shared, tables, block, power):
    """Forward cells of up to eight sentences."""
    K, P = layout.K, layout.P
    n, longest = 0, len(x.greatest) // WIDTH
    zero = fill(shared, 0.0)
    for i in range(K):
        store(c.initial, i, fill(shared, shared[i]))
        store(c.end, i, fill(shared, shared[P + i]))
    for lane in range(len(block)):
        b = block[lane]
        n = max(n, layout.lengths[b])
        for u in range(layout.word_starts[b + 1] - layout.word_starts[b]):
            word = layout.distinct[layout.word_starts[b] + u]
            at = (lane * longest + u) * P
            for i in range(P // WIDTH):
                row, sums = ((2 + K + word) * P) // WIDTH + i, 2 * P // WIDTH + i
                total = maximum(load(tables.f_sums, sums), zero) + load(tables.alpha_sums, sums)
                weight = (maximum(load(tables.f, row), zero) + load(tables.alpha, row)) / total
                store(x.number, at // WIDTH + i, weight)
            if power != 1.0:
                for i in range(at, at + K):
                    x.number[i] **= power
    for t in range(n):
        store(c.stops, t, zero)
    for lane in range(len(block)):
        c.stops[(layout.lengths[block[lane]] - 1) * WIDTH + lane] = 1
    feed_words(layout, c, x, block, n)
    moves = shared[2 * P :]
    forward(c, moves, n, K)
    bounded = True
    for lane in range(len(block)):
        bounded = bounded and c.result[3 * WIDTH + lane] <= GREATEST
    if not bounded:  # then what adjoints are
        backward(c, moves, n, K)
    log_z_of(c, x, n)


@njit(nogil=True)
def _draw(layout, c, shared, b, lane, terms, state, out):
    K, P = layout.K, layout.P
    following = -1
    for t in range(layout.lengths[b] - 1, -1, -1):
        for i in range(K):
            step = shared[P + i] if following < 0 else shared[(2 + i) * P + following]
            terms[i] = c.forward[(t * P + i) * WIDTH + lane] * step
        following = choose(terms, K, state)
        out[t] = following


@njit(nogil=True)
def _log_weight(layout, x, shared, b, lane, y):
    """log of the product of a sequence's weights."""
    P, m = layout.P, layout.lengths[b]
    row = lane * (len(x.greatest) // WIDTH)
    total, product = 0.0, shared[y[0]]
    for t in range(m):
        product *= x.number[(row + layout.local[b, t]) * P + y[t]]
        product *= shared[(2 + y[t]) * P + y[t + 1]] if t + 1 < m else shared[P + y[t]]
        if product < 1e-150:
            total += np.log(product)
            product = 1.0
    return total + np.log(product)


@njit(nogil=True)
def _accept(layout, tables, b, old, new, ratio, state):
    """Replace the old sequence by the new one, or leave it."""
    m = layout.lengths[b]
    same = True
    for t in range(m):
        same = same and old[t] == new[t]
    if same:  # then so are all probabilities
        return True
    power, log_q = ratio
    gain = -_predict(layout, tables, b, old, -1.0)
    gain += _predict(layout, tables, b, new, 1.0)
    if np.log(uniform(state)) < power * gain - log_q:
        old[:m] = new[:m]
        return True
    _add(layout, tables, b, new, -1.0)
    _add(layout, tables, b, old, 1.0)
    return False


@njit(nogil=True)
def _predict(layout, tables, b, y, sign):
    """log P(y | y^-i), and y's events added to the counts or, if ``sign`` is -1, taken out of them."""
    K, P, m = layout.K, layout.P, layout.lengths[b]
    total, product = 0.0, _event(tables, y[0], 0, sign)
    for t in range(m):
        i = y[t]
        product *= _event(tables, (2 + i) * P + y[t + 1] if t + 1 < m else P + i, P + i, sign)
        product *= _event(tables, (2 + K + layout.words[b, t]) * P + i, 2 * P + i, sign)
        if product < 1e-150:
            total += np.log(product)
            product = 1.0
    return total + np.log(product)


# Without a check for zero, a division costs a thirtieth.
@njit(nogil=True, error_model="numpy")
def _event(tables, e, s, sign):
    f, total = tables.f[e], tables.f_sums[s]
    if sign < 0:
        f -= 1.0
        total -= 1.0
    found = (max(f, 0.0) + tables.alpha[e]) / (max(total, 0.0) + tables.alpha_sums[s])
    if sign > 0:
        f += 1.0
        total += 1.0
    tables.f[e], tables.f_sums[s] = f, total
    return found


@njit(nogil=True)
def _add(layout, tables, b, y, sign):
    K, P, m = layout.K, layout.P, layout.lengths[b]
    tables.f[y[0]] += sign
    tables.f_sums[0] += sign
    for t in range(m):
        i = y[t]
        tables.f[(2 + i) * P + y[t + 1] if t + 1 < m else P + i] += sign
        tables.f[(2 + K + layout.words[b, t]) * P + i] += sign
        tables.f_sums[P + i] += sign
        tables.f_sums[2 * P + i] += sign
