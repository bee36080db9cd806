# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Eight sentences of a hidden Markov model, each with weights of its own, into the lanes of :mod:`.hmm_lanes` and out.

Every sentence's weights come from the counts of all others. Transitions are pseudo-counts, (f - own) + α; what they,
and emissions, must be divided by hangs on the state alone and is multiplied into the emissions, which meet all of a
state's transitions. So there is one division for each state and sentence, and no logarithm of a total.
"""

# mypy: disable-error-code="no-untyped-def"
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from .hmm_lanes import WIDTH, pitch_of
from .lanes import fill, fma, gather_cells, load, maximum, scatter_cells, store
from .lanes_log import log

GREATEST = 2.0**900  # see :mod:`.hmm_kernels`
_LOG2 = float(np.log(2.0))


class Memory(NamedTuple):
    """Scratch beside the lanes."""

    moves: Any  # (P * P, 8): pseudo-counts of transitions
    weight: Any  # (n, P) cells: emissions as forward meets them
    greatest: Any  # (n,) cells: what they have been divided by
    inverse: Any  # (P,) cells: of the totals of each state
    number: Any  # (8 n + 1, P) numbers: pseudo-counts of the words of each lane, and a row of zeros
    sums: Any  # (8, P) numbers
    places: Any  # (8,)
    log_z: Any  # (8,), like the next two; nats
    score: Any  # the sum of counts times log weights
    failed: Any


def make_memory(n: int, num_states: int) -> Memory:
    P = pitch_of(num_states)
    sizes = ((P * P, WIDTH), n * P * WIDTH, n * WIDTH, P * WIDTH, (8 * n + 1) * P, 8 * P, 8, 8, 8, 8)
    memory = Memory._make(np.zeros(size) for size in sizes)
    return memory._replace(places=np.zeros(WIDTH, np.int64))


@njit(nogil=True)
def weigh(layout, c, x, tables, own, block):
    """Weights of up to eight sentences into lanes; returns the greatest length. A lane without a sentence has zeros."""
    K, P, size = layout.K, layout.P, len(block)
    f, alpha = tables.f, tables.alpha
    zero, one = fill(f, 0.0), fill(f, 1.0)
    for lane in range(WIDTH):
        x.places[lane] = layout.starts[block[min(lane, size - 1)]]
    for j in range(0, P, 8):
        gather_cells(c.initial, j, own, x.places, j)
        gather_cells(c.end, j, own, x.places, P + j)
    total = zero
    for i in range(K):
        mine = load(c.initial, i)
        total = total + mine
        store(c.initial, i, maximum(fill(f, f[i]) - mine, zero) + fill(f, alpha[i]))
        store(c.end, i, maximum(fill(f, f[P + i]) - load(c.end, i), zero) + fill(f, alpha[P + i]))
    total = maximum(fill(f, tables.f_sums[0]) - total, zero) + fill(f, tables.alpha_sums[0])
    for i in range(K):
        store(c.initial, i, load(c.initial, i) / total)
        for j in range(0, P, 8):
            gather_cells(x.moves, i * P + j, own, x.places, (2 + i) * P + j)
        for cell in range(i * P, i * P + K):
            mine = load(x.moves, cell)
            store(x.moves, cell, maximum(fill(f, f[2 * P + cell]) - mine, zero) + fill(f, alpha[2 * P + cell]))
    n = _weigh_words(layout, x, tables, own, block)
    for lane in range(WIDTH):
        x.places[lane] = lane * P
    for i in range(0, P, 8):
        gather_cells(x.inverse, i, x.sums, x.places, i)
    for i in range(K):
        mine = load(x.inverse, i)
        moved = maximum(fill(f, tables.f_sums[P + i]) - mine, zero) + fill(f, tables.alpha_sums[P + i])
        emitted = maximum(fill(f, tables.f_sums[2 * P + i]) - mine, zero) + fill(f, tables.alpha_sums[2 * P + i])
        store(x.inverse, i, one / (moved * emitted))
    for t in range(n):
        store(c.stops, t, zero)
    for lane in range(size):
        c.stops[(layout.lengths[block[lane]] - 1) * WIDTH + lane] = 1
    feed_words(layout, c, x, block, n)
    return n


@njit(nogil=True)
def _weigh_words(layout, x, tables, own, block):
    """Pseudo-counts of the distinct words of each sentence, and sums of its own counts; returns the greatest length."""
    P = layout.P // WIDTH
    head, n = (2 + layout.K) * P, 0
    zero = fill(own, 0.0)
    longest = len(x.greatest) // WIDTH
    for lane in range(len(block)):
        b = block[lane]
        n = max(n, layout.lengths[b])
        first, start = layout.word_starts[b], layout.starts[b] // WIDTH + head
        for i in range(P):
            total = zero
            for u in range(layout.word_starts[b + 1] - first):
                mine, row = load(own, start + u * P + i), head + layout.distinct[first + u] * P + i
                rest = maximum(load(tables.f, row) - mine, zero) + load(tables.alpha, row)
                store(x.number, (lane * longest + u) * P + i, rest)
                total = total + mine
            store(x.sums, lane * P + i, total)
    return n


@njit(nogil=True)
def feed_words(layout, c, x, block, n):
    """Emissions, times what each state's weights are divided by; every word's divided by the greatest."""
    K, P = layout.K, layout.P
    longest = len(x.greatest) // WIDTH
    zero, one = fill(c.emission, 0.0), fill(c.emission, 1.0)
    alive = zero
    for t in range(n - 1, -1, -1):
        alive = alive + load(c.stops, t)
        for lane in range(WIDTH):
            x.places[lane] = 8 * longest * P
            if lane < len(block) and t < layout.lengths[block[lane]]:
                x.places[lane] = (lane * longest + layout.local[block[lane], t]) * P
        greatest = zero
        for j in range(0, P, 8):
            gather_cells(c.emission, t * P + j, x.number, x.places, j)
        for i in range(K):
            weight = load(c.emission, t * P + i) * load(x.inverse, i)
            greatest = maximum(greatest, weight)
            store(c.emission, t * P + i, weight)
        greatest = fma(greatest, alive, one - alive)
        store(x.greatest, t, greatest)
        greatest = one / greatest
        for i in range(K):
            weight = load(c.emission, t * P + i) * greatest
            store(c.emission, t * P + i, weight)
            store(x.weight, t * P + i, weight)


@njit(nogil=True)
def log_z_of(c, x, n):
    """log Z of each lane, and which are not to be trusted: written so that NaN fails."""
    total = log(load(c.result, 0)) + load(c.result, 1) * fill(c.result, _LOG2)
    for t in range(n):
        total = total + log(load(x.greatest, t))
    store(x.log_z, 0, total)
    for lane in range(WIDTH):
        trusted = c.result[lane] > 0 and np.isfinite(c.result[lane]) and np.isfinite(x.log_z[lane])
        trusted = trusted and c.result[2 * WIDTH + lane] <= GREATEST and c.result[3 * WIDTH + lane] <= GREATEST
        x.failed[lane] = 0.0 if trusted else 1.0


@njit(nogil=True)
def drain(layout, c, x, out, block, n):
    """Posteriors to the sentences' own counts, and the sums of counts times log weights."""
    K, P, size = layout.K, layout.P, len(block)
    score = fill(out, 0.0)
    for t in range(n):
        score = score + log(load(x.greatest, t))
        for cell in range(t * P, t * P + K):
            score = fma(load(c.forward, cell), log(load(x.weight, cell)), score)
    for i in range(K):
        score = fma(load(c.forward, i), log(load(c.initial, i)), score)
        ended = load(c.ended, i) * load(c.end, i)
        score = fma(ended, log(load(c.end, i)), score)
        store(c.ended, i, ended)
        for cell in range(i * P, i * P + K):
            weight = load(x.moves, cell)
            moved = load(c.moved, cell) * weight
            score = fma(moved, log(weight), score)
            store(c.moved, cell, moved)
    store(x.score, 0, score)
    for lane in range(WIDTH):
        x.places[lane] = layout.starts[block[lane]] if lane < size else layout.starts[-1]
    for i in range(0, P, 8):
        scatter_cells(c.forward, i, out, x.places, i)
        scatter_cells(c.ended, i, out, x.places, P + i)
    for cell in range(0, K * P, 8):
        scatter_cells(c.moved, cell, out, x.places, 2 * P + cell)
    _drain_words(layout, c, x, out, block, n)


@njit(nogil=True)
def _drain_words(layout, c, x, out, block, n):
    P = layout.P // WIDTH
    head = (2 + layout.K) * P
    zero = fill(out, 0.0)
    for b in block:
        for y in range(layout.starts[b] // WIDTH + head, layout.starts[b + 1] // WIDTH):
            store(out, y, zero)
    for lane in range(WIDTH):
        x.places[lane] = lane * layout.P
    for t in range(n):
        for i in range(0, layout.P, 8):
            scatter_cells(c.forward, t * layout.P + i, c.scattered, x.places, i)
        for lane in range(len(block)):
            b = block[lane]
            if t < layout.lengths[b]:
                y = layout.starts[b] // WIDTH + head + layout.local[b, t] * P
                for i in range(P):
                    store(out, y + i, load(out, y + i) + load(c.scattered, lane * P + i))
