# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sweeps of collapsed inference for hidden Markov models, one sentence at a time in real space, scaled at every word.

Tables are [initial (K,), transition (K, K+1), emission (V, K) by *word* and state], counts beside concentrations. A
sentence's *own* counts are K of its first state, K (K + 1) of its transitions, and K for each of its distinct words;
nothing of size V is touched for a sentence.
"""

# mypy: disable-error-code="no-untyped-def"
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from .compiling import kernel

GREATEST = 2.0**400  # of an adjoint
# Sums may be formed in any order, so that the compiler can use vectors; NaN and infinities stay what they are.
ANY_ORDER = {"reassoc", "contract"}


class Layout(NamedTuple):
    """Where the own counts of each sentence lie."""

    K: int
    words: Any  # (N, n)
    lengths: Any  # (N,)
    local: Any  # (N, n), the number of each word among the distinct ones of its sentence
    distinct: Any  # the distinct words of all sentences, one after the other
    word_starts: Any  # (N + 1,), those of a sentence
    starts: Any  # (N + 1,), its own counts


class Tables(NamedTuple):
    """What all sentences share, [counts, concentrations] in the first dimension; sums are over each multinomial."""

    initial: Any  # (2, K)
    transition: Any  # (2, K, K+1)
    emission: Any  # (2, V, K)
    initial_sum: Any  # (2,)
    transition_sum: Any  # (2, K)
    emission_sum: Any  # (2, K)


class Memory(NamedTuple):
    """Scratch for one sentence."""

    initial: Any  # (K,) weights, like the next two
    transition: Any  # (K, K+1)
    emission: Any  # (n, K) by distinct word
    forward: Any  # (n, K)
    backward: Any  # (n, K)
    scale: Any  # (n,)
    terms: Any  # (K,)


def make_layout(words: Any, num_states: int) -> Layout:
    """:param words: shape (N, n), int64, padded with -1."""
    N, n = words.shape
    real = words >= 0
    own = np.broadcast_to(np.arange(N)[:, None], words.shape)
    V = int(words.max(initial=0)) + 1
    keys, inverse = np.unique((own * V + words)[real], return_inverse=True)
    word_starts = np.searchsorted(keys // V, np.arange(N + 1))
    local = np.zeros((N, n), np.int64)
    local[real] = inverse - word_starts[own[real]]
    K = num_states
    starts = np.arange(N + 1) * (K + K * (K + 1)) + word_starts * K
    return Layout(K, np.ascontiguousarray(words), real.sum(1), local, keys % V, word_starts, starts)


def make_memory(layout: Layout) -> Memory:
    n, K = max(1, layout.words.shape[1]), layout.K
    shapes = (K, (K, K + 1), (n, K), (n, K), (n, K), n, K)
    return Memory._make(np.zeros(shape) for shape in shapes)


def collapsed_vb(layout: Layout, tables: Tables, own: Any, out: Any, order: Any, batch_size: int) -> Any:
    """One sweep; changes the tables' counts. Returns log Z and entropy of each sentence, and which failed.

    A sentence fails that is impossible or beyond the range of real space: its counts stay as they are.
    """
    N = len(layout.lengths)
    log_z, entropies, failed = np.full(N, -np.inf), np.full(N, -np.inf), np.zeros(N, np.bool_)
    _vb_sweep(layout, make_memory(layout), tables, own, out, order, batch_size, log_z, entropies, failed)
    return log_z, entropies, failed


def total(layout: Layout, own: Any, num_words: int) -> tuple[Any, Any, Any]:
    """Own counts of all sentences: initial (K,), transition (K, K+1), emission (V, K)."""
    K = layout.K
    sums = np.zeros(K), np.zeros((K, K + 1)), np.zeros((num_words, K))
    _add_up(layout, own, *sums)
    return sums


@kernel
def _add_up(layout, own, initial, transition, emission):
    K = layout.K
    for b in range(len(layout.lengths)):
        start = layout.starts[b]
        initial += own[start : start + K]
        transition += own[start + K : start + K + K * (K + 1)].reshape(K, K + 1)
        rest = own[start + K + K * (K + 1) : layout.starts[b + 1]].reshape(-1, K)
        for u in range(len(rest)):
            emission[layout.distinct[layout.word_starts[b] + u]] += rest[u]


@njit(nogil=True)
def _split(layout, own, b):
    """The own counts of a sentence: initial, transition, emission by distinct word."""
    K, start = layout.K, layout.starts[b]
    middle = start + K + K * (K + 1)
    return (
        own[start : start + K],
        own[start + K : middle].reshape(K, K + 1),
        own[middle : layout.starts[b + 1]].reshape(-1, K),
    )


@njit(nogil=True)
def _weigh_without(layout, x, tables, own, b):
    """Weights from the counts of all other sentences."""
    K = layout.K
    initial, transition, emission = _split(layout, own, b)
    total = max(tables.initial_sum[0] - initial.sum(), 0.0) + tables.initial_sum[1]
    for i in range(K):
        x.initial[i] = (max(tables.initial[0, i] - initial[i], 0.0) + tables.initial[1, i]) / total
        row = 1 / (max(tables.transition_sum[0, i] - transition[i].sum(), 0.0) + tables.transition_sum[1, i])
        for j in range(K + 1):
            x.transition[i, j] = max(tables.transition[0, i, j] - transition[i, j], 0.0) + tables.transition[1, i, j]
            x.transition[i, j] *= row
        row = 1 / (max(tables.emission_sum[0, i] - emission[:, i].sum(), 0.0) + tables.emission_sum[1, i])
        for u in range(len(emission)):
            word = layout.distinct[layout.word_starts[b] + u]
            x.emission[u, i] = max(tables.emission[0, word, i] - emission[u, i], 0.0) + tables.emission[1, word, i]
            x.emission[u, i] *= row


@njit(nogil=True, fastmath=ANY_ORDER)
def forward(layout, x, b):
    """Fill the forward cells, which sum to one at every word; returns log Z, -inf or NaN if that is not possible."""
    K, m, log_z = layout.K, layout.lengths[b], 0.0
    for t in range(m):
        total, u = 0.0, layout.local[b, t]
        x.forward[t] = x.initial
        if t > 0:
            x.forward[t] = 0
            here = x.forward[t]
            for i in range(K):
                before, row = x.forward[t - 1, i], x.transition[i]
                for j in range(K):
                    here[j] += before * row[j]
        for j in range(K):
            x.forward[t, j] *= x.emission[u, j]
            total += x.forward[t, j]
        if not total > 0:
            return -np.inf
        x.scale[t] = 1 / total
        x.forward[t] *= x.scale[t]
        log_z += np.log(total)
    end = 0.0
    for i in range(K):
        end += x.forward[m - 1, i] * x.transition[i, K]
    return log_z + np.log(end)


@njit(nogil=True, fastmath=ANY_ORDER)
def _count(layout, x, out, b):
    """Expected counts of the sentence; returns the sum of counts times log weights, NaN if it is not to be trusted."""
    K, m = layout.K, layout.lengths[b]
    initial, transition, emission = _split(layout, out, b)
    initial[:] = 0
    transition[:] = 0
    emission[:] = 0
    terms = x.terms
    end, greatest = 0.0, 0.0
    for i in range(K):
        end += x.forward[m - 1, i] * x.transition[i, K]
    for t in range(m - 1, -1, -1):
        for i in range(K):
            value = x.transition[i, K] / end
            if t == m - 1:
                transition[i, K] += x.forward[t, i] / end
            else:
                value, row = 0.0, x.transition[i]
                for j in range(K):
                    value += row[j] * terms[j]
                # Transitions' weights are multiplied in at the end.
                counted, before = transition[i], x.forward[t, i]
                for j in range(K):
                    counted[j] += before * terms[j]
            x.backward[t, i] = value
            greatest = max(greatest, value)
            emission[layout.local[b, t], i] += x.forward[t, i] * value
        for j in range(K):
            terms[j] = x.emission[layout.local[b, t], j] * x.backward[t, j] * x.scale[t]
    for i in range(K):
        initial[i] = x.forward[0, i] * x.backward[0, i]
    if not greatest < GREATEST:
        return np.nan
    transition *= x.transition
    score = 0.0
    for i in range(K):
        score += _term(initial[i], x.initial[i])
        for j in range(K + 1):
            score += _term(transition[i, j], x.transition[i, j])
        for u in range(len(emission)):
            score += _term(emission[u, i], x.emission[u, i])
    return score


@njit(nogil=True, forceinline=True)
def _term(count, weight):
    return count * np.log(weight) if count > 0 else 0.0


@njit(nogil=True)
def _replace(layout, tables, own, out, b):
    K = layout.K
    old_initial, old_transition, old_emission = _split(layout, own, b)
    initial, transition, emission = _split(layout, out, b)
    for i in range(K):
        tables.initial[0, i] += initial[i] - old_initial[i]
        tables.initial_sum[0] += initial[i] - old_initial[i]
        for j in range(K + 1):
            tables.transition[0, i, j] += transition[i, j] - old_transition[i, j]
            tables.transition_sum[0, i] += transition[i, j] - old_transition[i, j]
        for u in range(len(emission)):
            gain = emission[u, i] - old_emission[u, i]
            tables.emission[0, layout.distinct[layout.word_starts[b] + u], i] += gain
            tables.emission_sum[0, i] += gain


@kernel
def _vb_sweep(layout, x, tables, own, out, order, batch_size, log_z, entropies, failed):
    for batch in range(0, len(order), batch_size):
        members = order[batch : batch + batch_size]
        for b in members:
            _weigh_without(layout, x, tables, own, b)
            log_z[b] = forward(layout, x, b)
            score = _count(layout, x, out, b) if np.isfinite(log_z[b]) else np.nan
            if np.isnan(score):
                failed[b] = True
                out[layout.starts[b] : layout.starts[b + 1]] = own[layout.starts[b] : layout.starts[b + 1]]
            else:
                entropies[b] = log_z[b] - score
        for b in members:
            _replace(layout, tables, own, out, b)
