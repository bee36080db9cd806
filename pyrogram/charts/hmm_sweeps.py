# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sweeps of collapsed variational Bayes for hidden Markov models, sentence by sentence (see :mod:`.hmm_sweeps_chain`).

States are padded to a pitch of P, a multiple of eight. What all sentences share is one vector [initial (P,), end (P,),
transition (K, P), emission (V, P) by *word* and state], the counts f, and one for concentrations. A sentence's *own*
counts are the same with a row of emissions for each of its distinct words; nothing of size V is touched for a sentence.
A state makes a transition and emits a word each time, so that both have the same totals.
"""

# mypy: disable-error-code="no-untyped-def"
from typing import Any, NamedTuple

import numpy as np

from pyrogram.charts.runtime.compiling import borrowing, kernel
from pyrogram.charts.runtime.lanes import fill, load, store
from pyrogram.charts.runtime.lanes_memory import aligned

from .hmm_lanes import WIDTH, pitch_of
from .hmm_sweeps_chain import count, forward_backward, make_chain, weigh, weigh_states


class Layout(NamedTuple):
    """Where the own counts of each sentence lie."""

    K: int
    P: int
    words: Any  # (N, n)
    lengths: Any  # (N,)
    local: Any  # (N, n), the number of each word among the distinct ones of its sentence
    distinct: Any  # the distinct words of all sentences, one after the other
    word_starts: Any  # (N + 1,), those of a sentence
    starts: Any  # (N + 1,), its own counts

    @property
    def size(self) -> int:
        """Numbers in the own counts of all sentences."""
        return int(self.starts[-1])


class Tables(NamedTuple):
    """What all sentences share; sums over multinomials are [initial (P,), transition (P,), emission (P,)]."""

    f: Any
    alpha: Any
    f_sums: Any
    alpha_sums: Any


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
    K, P = num_states, pitch_of(num_states)
    starts = (np.arange(N + 1) * (2 + K) + word_starts) * P
    return Layout(K, P, np.ascontiguousarray(words), real.sum(1), local, keys % V, word_starts, starts)


def pack(initial: Any, transition: Any, emission: Any) -> Any:
    """Tables (K,), (K, K+1) and (K, V) as one vector, with zeros in the padding."""
    K, P = len(initial), pitch_of(len(initial))
    out = aligned((2 + K + emission.shape[1]) * P).reshape(-1, P)
    out[0, :K], out[1, :K], out[2 : 2 + K, :K], out[2 + K :, :K] = (
        initial,
        transition[:, K],
        transition[:, :K],
        emission.T,
    )
    return out.reshape(-1)


def unpack(vector: Any, K: int) -> tuple[Any, Any, Any]:
    """The reverse."""
    rows = vector.reshape(-1, pitch_of(K))[:, :K]
    transition = np.concatenate([rows[2 : 2 + K], rows[1][:, None]], 1)
    return rows[0].copy(), transition, np.ascontiguousarray(rows[2 + K :].T)


def collapsed_vb(layout: Layout, tables: Tables, own: Any, out: Any, order: Any, batch_size: int) -> Any:
    """One sweep; changes the tables' counts. Returns log Z and entropy of each sentence, and which failed.

    A sentence fails that is impossible or beyond the range of real space: its counts stay as they are.
    """
    N, n = len(layout.lengths), max(1, layout.words.shape[1])
    log_z, entropies, failed = np.full(N, -np.inf), np.full(N, -np.inf), np.zeros(N, np.bool_)
    chain = make_chain(n, layout.K)
    _vb_sweep(layout, chain, tables, own, out, order, max(batch_size, 1), log_z, entropies, failed)
    return log_z, entropies, failed


def total(layout: Layout, own: Any, num_words: int) -> tuple[Any, Any, Any]:
    """Own counts of all sentences: initial (K,), transition (K, K+1), emission (K, V)."""
    sums = np.zeros((2 + layout.K + num_words) * layout.P)
    _add_up(layout, own, sums)
    return unpack(sums, layout.K)


@kernel
def _add_up(layout, own, sums):
    head = (2 + layout.K) * layout.P
    for b in range(len(layout.lengths)):
        start = layout.starts[b]
        for i in range(head):
            sums[i] += own[start + i]
        for u in range(layout.word_starts[b + 1] - layout.word_starts[b]):
            row = head + layout.distinct[layout.word_starts[b] + u] * layout.P
            for i in range(layout.P):
                sums[row + i] += own[start + head + u * layout.P + i]


@borrowing
def _replace(layout, tables, own, out, b):
    """Take a sentence's own counts out of the shared ones and put the new ones in.

    What rounding leaves of nothing may be below it; whoever reads it sees to that.
    """
    P = layout.P // WIDTH
    head, start = (2 + layout.K) * P, layout.starts[b] // WIDTH
    for i in range(head):
        store(tables.f, i, load(tables.f, i) + (load(out, start + i) - load(own, start + i)))
    for i in range(P):
        change = fill(tables.f, 0.0)
        for u in range(layout.word_starts[b + 1] - layout.word_starts[b]):
            row = head + layout.distinct[layout.word_starts[b] + u] * P + i
            y = start + head + u * P + i
            x = load(out, y) - load(own, y)
            store(tables.f, row, load(tables.f, row) + x)
            change = change + x
        store(tables.f_sums, P + i, load(tables.f_sums, P + i) + change)
        store(tables.f_sums, 2 * P + i, load(tables.f_sums, 2 * P + i) + change)


@kernel
def _vb_sweep(layout, c, tables, own, out, order, batch_size, log_z, entropies, failed):
    for batch in range(0, len(order), batch_size):
        members = order[batch : batch + batch_size]
        for k in range(len(members)):
            b, later = members[k], order[min(batch + k + 1, len(order) - 1)]
            weigh(layout, c, tables, own, b)
            forward_backward(layout, c, b)
            found = weigh_states(layout, c, b)
            failed[b] = not np.isfinite(found)
            if failed[b]:
                out[layout.starts[b] : layout.starts[b + 1]] = own[layout.starts[b] : layout.starts[b + 1]]
                continue
            entropies[b] = found - count(layout, c, own, out, b, later)
            for t in range(layout.lengths[b]):
                found += np.log(c.totals[layout.local[b, t]])
            log_z[b] = found
        for b in members:
            _replace(layout, tables, own, out, b)
