# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Hastings sweeps for hidden Markov models: proposals from the counts of all others, one sentence after the other."""

# mypy: disable-error-code="no-untyped-def"
from typing import Any

import numpy as np
from numba import njit

from .compiling import kernel
from .eisner_sample import seed_stream, uniform
from .hmm_log import choose
from .hmm_sweeps import Layout, Tables, forward, make_memory


def hastings(
    layout: Layout, tables: Tables, states: Any, order: Any, batch_size: int, seed: int, temperature: float
) -> Any:
    """One sweep; changes the tables' counts and ``states`` (N, n). Returns who accepted, and which failed."""
    N, n = layout.words.shape
    accepted, failed = np.zeros(N, np.bool_), np.zeros(N, np.bool_)
    members = min(batch_size, max(N, 1))
    scratch = np.full((members, n), -1, np.int64), np.zeros((members, 2)), np.zeros((members, 1), np.uint64)
    memory = make_memory(layout)
    _hastings_sweep(
        layout, memory, tables, states, order, batch_size, seed, 1 / temperature, *scratch, accepted, failed
    )
    return accepted, failed


@njit(nogil=True)
def _weigh(layout, x, tables, b, power):
    """Weights from the counts as they are."""
    K = layout.K
    total = max(tables.initial_sum[0], 0.0) + tables.initial_sum[1]
    for i in range(K):
        x.initial[i] = ((max(tables.initial[0, i], 0.0) + tables.initial[1, i]) / total) ** power
        row = max(tables.transition_sum[0, i], 0.0) + tables.transition_sum[1, i]
        for j in range(K + 1):
            value = max(tables.transition[0, i, j], 0.0) + tables.transition[1, i, j]
            x.transition[i, j] = (value / row) ** power
        row = max(tables.emission_sum[0, i], 0.0) + tables.emission_sum[1, i]
        for u in range(layout.word_starts[b + 1] - layout.word_starts[b]):
            word = layout.distinct[layout.word_starts[b] + u]
            x.emission[u, i] = ((max(tables.emission[0, word, i], 0.0) + tables.emission[1, word, i]) / row) ** power


@njit(nogil=True)
def _draw(layout, x, b, state, out):
    K, following = layout.K, layout.K
    for t in range(layout.lengths[b] - 1, -1, -1):
        for i in range(K):
            x.terms[i] = x.forward[t, i] * x.transition[i, following]
        following = choose(x.terms, K, state)
        out[t] = following


@njit(nogil=True)
def _log_weight(layout, x, b, y):
    """log of the product of a sequence's weights."""
    m = layout.lengths[b]
    total = np.log(x.initial[y[0]])
    for t in range(m):
        total += np.log(x.emission[layout.local[b, t], y[t]])
        total += np.log(x.transition[y[t], y[t + 1] if t + 1 < m else layout.K])
    return total


@njit(nogil=True)
def _predict(layout, tables, b, y, sign):
    """log P(y | y^-i), and y's events added to the counts or, if ``sign`` is -1, taken out of them."""
    m = layout.lengths[b]
    total = _event(tables.initial[:, y[0]], tables.initial_sum, sign)
    for t in range(m):
        i, j = y[t], y[t + 1] if t + 1 < m else layout.K
        total += _event(tables.emission[:, layout.words[b, t], i], tables.emission_sum[:, i], sign)
        total += _event(tables.transition[:, i, j], tables.transition_sum[:, i], sign)
    return total


@njit(nogil=True, forceinline=True)
def _event(value, sums, sign):
    if sign < 0:
        value[0] -= 1
        sums[0] -= 1
    found = np.log((max(value[0], 0.0) + value[1]) / (max(sums[0], 0.0) + sums[1]))
    if sign > 0:
        value[0] += 1
        sums[0] += 1
    return found


@kernel
def _hastings_sweep(
    layout, x, tables, states, order, batch_size, seed, power, proposed, log_q, streams, accepted, failed
):
    for batch in range(0, len(order), batch_size):
        members = order[batch : batch + batch_size]
        for b in members:
            _predict(layout, tables, b, states[b], -1)
        for k in range(len(members)):
            b = members[k]
            _weigh(layout, x, tables, b, power)
            failed[b] = not np.isfinite(forward(layout, x, b))
            seed_stream(streams[k], seed, b)
            if not failed[b]:
                _draw(layout, x, b, streams[k], proposed[k])
                log_q[k, 0] = _log_weight(layout, x, b, states[b])
                log_q[k, 1] = _log_weight(layout, x, b, proposed[k])
        for b in members:
            _predict(layout, tables, b, states[b], 1)
        for k in range(len(members)):
            b = members[k]
            if failed[b]:
                continue
            m = layout.lengths[b]
            old = _predict(layout, tables, b, states[b], -1)
            new = _predict(layout, tables, b, proposed[k], 1)
            if np.log(uniform(streams[k])) < power * (new - old) - (log_q[k, 1] - log_q[k, 0]):
                accepted[b] = True
                states[b, :m] = proposed[k, :m]
            else:
                _predict(layout, tables, b, proposed[k], -1)
                _predict(layout, tables, b, states[b], 1)
