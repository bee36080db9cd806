# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""One sentence of a hidden Markov model with weights of its own; lanes hold neighbouring states.

Every sentence's weights come from the counts of all others. Its table of transitions, S * S numbers, takes part in two
products with a vector for every word. Eight sentences in the lanes of :mod:`.hmm_lanes` have eight such tables, which
no first-level cache holds from some 25 states on; here there is one, and each of its cells that is loaded serves a
step forward and a step backward at once: forward from the first word, backward from the last.

Transitions are pseudo-counts, (f - own) + α. What they, and emissions, must be divided by hangs on the state alone and
is multiplied into the emissions, which meet all of a state's transitions. Emissions are then divided by their sum over
states, and so is every vector by its predecessor's sum.
"""

# mypy: disable-error-code="no-untyped-def"
from typing import Any, NamedTuple

import numpy as np

from pyrogram.charts.runtime.compiling import borrowing
from pyrogram.charts.runtime.lanes import fill, fma, load, maximum, store
from pyrogram.charts.runtime.lanes_memory import aligned, prefetch

from .hmm_lanes import WIDTH, pitch_of
from .lanes_log import log
from .lanes_sums import add_up, sums_of_eight

# Real space flushes what is below 2**-1022. With all sums of vectors and of their products within these bounds, what
# is lost is less than 2**-100 of Z.
LEAST, GREATEST = 2.0**-300, 2.0**300


class Chain(NamedTuple):
    """Scratch for a sentence; vectors over states have a pitch of P."""

    moves: Any  # (P, P): pseudo-counts of transitions, zeros in the padding
    ends: Any  # (2, P): weights of initial states and pseudo-counts of ends
    inverse: Any  # (P,): of the totals of each state
    emission: Any  # (n, P): of the distinct words
    totals: Any  # (n,): what they have been divided by
    forward: Any  # (n, P)
    backward: Any  # (n, P); then probabilities of states
    met: Any  # (n, P): what a transition into the word meets, emission times backward
    products: Any  # (2, P): of the table and a vector
    moved: Any  # (P, P): posteriors of transitions, less their weights
    sums: Any  # (3, n): of forward, backward and their product


def make_chain(n: int, num_states: int) -> Chain:
    P, rows = pitch_of(num_states), pitch_of(n)
    sizes = P * P, 2 * P, P, rows * P, rows, rows * P, rows * P, rows * P, 2 * P, P * P, 3 * rows
    return Chain._make(aligned(size) for size in sizes)


@borrowing
def weigh(layout, c, tables, own, b):
    """A sentence's weights from the counts of all others."""
    K, Q = layout.K, layout.P // WIDTH
    start = layout.starts[b] // WIDTH
    zero, one = fill(own, 0.0), fill(own, 1.0)
    total = zero
    for j in range(2 * Q):
        mine = load(own, start + j)
        store(c.ends, j, maximum(load(tables.f, j) - mine, zero) + load(tables.alpha, j))
        if j < Q:
            total = total + mine
    whole = one / fill(own, max(tables.f_sums[0] - add_up(total), 0.0) + tables.alpha_sums[0])
    for j in range(Q):
        store(c.ends, j, load(c.ends, j) * whole)
    for j in range(K * Q):
        y = 2 * Q + j
        store(c.moves, j, maximum(load(tables.f, y) - load(own, start + y), zero) + load(tables.alpha, y))
    _weigh_words(layout, c, tables, own, b)


@borrowing
def _weigh_words(layout, c, tables, own, b):
    Q = layout.P // WIDTH
    head = (2 + layout.K) * Q
    first, start = layout.word_starts[b], layout.starts[b] // WIDTH + head
    count = layout.word_starts[b + 1] - first
    zero, one = fill(own, 0.0), fill(own, 1.0)
    for j in range(Q):
        total = zero
        for u in range(count):
            mine, row = load(own, start + u * Q + j), head + layout.distinct[first + u] * Q + j
            store(c.emission, u * Q + j, maximum(load(tables.f, row) - mine, zero) + load(tables.alpha, row))
            total = total + mine
        moved = maximum(load(tables.f_sums, Q + j) - total, zero) + load(tables.alpha_sums, Q + j)
        emitted = maximum(load(tables.f_sums, 2 * Q + j) - total, zero) + load(tables.alpha_sums, 2 * Q + j)
        store(c.inverse, j, one / (moved * emitted))
    for u in range(count):
        total = zero
        for j in range(u * Q, u * Q + Q):
            weight = load(c.emission, j) * load(c.inverse, j - u * Q)
            store(c.emission, j, weight)
            total = total + weight
        c.totals[u] = add_up(total)
        whole = one / fill(own, c.totals[u])
        for j in range(u * Q, u * Q + Q):
            store(c.emission, j, load(c.emission, j) * whole)


@borrowing
def _step(c, Q, a, g):
    """Products of the table with the forward vector in cell ``a``, from the left, and with what is met in ``g``."""
    zero = fill(c.moves, 0.0)
    for j in range(Q):
        store(c.products, j, zero)
    for i in range(Q):
        at = (a + i) * WIDTH
        a0, a1 = fill(c.moves, c.forward[at]), fill(c.moves, c.forward[at + 1])
        a2, a3 = fill(c.moves, c.forward[at + 2]), fill(c.moves, c.forward[at + 3])
        a4, a5 = fill(c.moves, c.forward[at + 4]), fill(c.moves, c.forward[at + 5])
        a6, a7 = fill(c.moves, c.forward[at + 6]), fill(c.moves, c.forward[at + 7])
        y0, y1, y2, y3, y4, y5, y6, y7 = zero, zero, zero, zero, zero, zero, zero, zero
        for j in range(Q):
            met, w, x = load(c.met, g + j), WIDTH * i * Q + j, load(c.products, j)
            w0, w1, w2, w3 = load(c.moves, w), load(c.moves, w + Q), load(c.moves, w + 2 * Q), load(c.moves, w + 3 * Q)
            w += 4 * Q
            w4, w5, w6, w7 = load(c.moves, w), load(c.moves, w + Q), load(c.moves, w + 2 * Q), load(c.moves, w + 3 * Q)
            x = fma(a0, w0, fma(a1, w1, fma(a2, w2, fma(a3, w3, x))))
            x = x + fma(a4, w4, fma(a5, w5, fma(a6, w6, a7 * w7)))
            store(c.products, j, x)
            y0, y1, y2, y3 = fma(w0, met, y0), fma(w1, met, y1), fma(w2, met, y2), fma(w3, met, y3)
            y4, y5, y6, y7 = fma(w4, met, y4), fma(w5, met, y5), fma(w6, met, y6), fma(w7, met, y7)
        store(c.products, Q + i, sums_of_eight(y0, y1, y2, y3, y4, y5, y6, y7))


@borrowing
def forward_backward(layout, c, b):
    """Fill the forward and backward vectors, what they meet, and the sums of both."""
    Q, n = layout.P // WIDTH, layout.lengths[b]
    N = len(c.totals)
    one = fill(c.moves, 1.0)
    before, after = fill(c.moves, 0.0), fill(c.moves, 0.0)
    first, last = layout.local[b, 0] * Q, layout.local[b, n - 1] * Q
    for j in range(Q):
        a, y = load(c.ends, j) * load(c.emission, first + j), load(c.ends, Q + j)
        before, after = before + a, after + y
        store(c.forward, j, a)
        store(c.backward, (n - 1) * Q + j, y)
        store(c.met, (n - 1) * Q + j, y * load(c.emission, last + j))
    c.sums[0], c.sums[N + n - 1] = add_up(before), add_up(after)
    for t in range(1, n):
        s = n - 1 - t
        _step(c, Q, (t - 1) * Q, (s + 1) * Q)
        scale, back = one / fill(c.moves, c.sums[t - 1]), one / fill(c.moves, c.sums[N + s + 1])
        before, after = fill(c.moves, 0.0), fill(c.moves, 0.0)
        first, last = layout.local[b, t] * Q, layout.local[b, s] * Q
        for j in range(Q):
            a = load(c.products, j) * scale * load(c.emission, first + j)
            y = load(c.products, Q + j) * back
            before, after = before + a, after + y
            store(c.forward, t * Q + j, a)
            store(c.backward, s * Q + j, y)
            store(c.met, s * Q + j, y * load(c.emission, last + j))
        c.sums[t], c.sums[N + s] = add_up(before), add_up(after)


@borrowing
def weigh_states(layout, c, b):
    """Backward vectors become probabilities of states, forward ones are divided so that times what is met and a weight
    they are probabilities of transitions.

    Returns log Z less the logarithms of the words' totals, or NaN where numbers leave the range of real space.
    """
    Q, n = layout.P // WIDTH, layout.lengths[b]
    N = len(c.totals)
    one = fill(c.moves, 1.0)
    trusted = True
    for t in range(n):
        total = fill(c.moves, 0.0)
        for j in range(t * Q, t * Q + Q):
            total = fma(load(c.forward, j), load(c.backward, j), total)
        product = add_up(total)
        c.sums[2 * N + t] = product
        for x in (product, c.sums[t], c.sums[N + t]):
            trusted = trusted and x >= LEAST and x <= GREATEST
        whole = one / fill(c.moves, product)
        met = whole / fill(c.moves, c.sums[N + t + 1] if t + 1 < n else 1.0)
        for j in range(t * Q, t * Q + Q):
            a = load(c.forward, j)
            store(c.backward, j, a * load(c.backward, j) * whole)
            store(c.forward, j, a * met)
    c.sums[n - 1] = c.sums[2 * N + n - 1]
    cells = (n + WIDTH - 1) // WIDTH
    for t in range(n, cells * WIDTH):
        c.sums[t] = 1.0
    total = fill(c.moves, 0.0)
    for t in range(cells):
        total = total + log(load(c.sums, t))
    return add_up(total) if trusted else np.nan


@borrowing
def count(layout, c, own, out, b, later):
    """The sentence's own counts; returns the sum of counts times log weights.

    While logarithms are taken, the counts of the sentence that comes next are fetched: in the order of a sweep they
    may lie anywhere.
    """
    K, Q, n = layout.K, layout.P // WIDTH, layout.lengths[b]
    start, after = layout.starts[b] // WIDTH, layout.starts[later] // WIDTH
    score = fill(c.moves, 0.0)
    for j in range(Q):
        prefetch(own, WIDTH * (after + j))
        prefetch(own, WIDTH * (after + Q + j))
        prefetch(out, WIDTH * (after + j))
        prefetch(out, WIDTH * (after + Q + j))
        first, last = load(c.backward, j), load(c.backward, (n - 1) * Q + j)
        store(out, start + j, first)
        store(out, start + Q + j, last)
        score = fma(first, log(load(c.ends, j)), score)
        score = fma(last, log(load(c.ends, Q + j)), score)
    score = score + _count_moves(c, K, Q, n, own, out, start + 2 * Q, after + 2 * Q)
    start, after = start + (2 + K) * Q, after + (2 + K) * Q
    zero = fill(c.moves, 0.0)
    distinct = layout.word_starts[b + 1] - layout.word_starts[b]
    for j in range(start, start + distinct * Q):
        store(out, j, zero)
    for t in range(n):
        y = start + layout.local[b, t] * Q
        for j in range(Q):
            store(out, y + j, load(out, y + j) + load(c.backward, t * Q + j))
    for j in range(distinct * Q):  # as many as there are here: it is an advice, and may be wrong
        prefetch(own, WIDTH * (after + j))
        prefetch(out, WIDTH * (after + j))
        score = fma(load(out, start + j), log(load(c.emission, j)), score)
    return add_up(score)


@borrowing
def _count_moves(c, K, Q, n, own, out, start, later):
    zero = fill(c.moves, 0.0)
    score = zero
    for i in range(0, K, 4):
        for j in range(0, Q, 2):
            k = min(j + 1, Q - 1)
            x0, x1, x2, x3, y0, y1, y2, y3 = zero, zero, zero, zero, zero, zero, zero, zero
            for t in range(n - 1):
                at = t * Q * WIDTH + i
                a0, a1 = fill(c.moves, c.forward[at]), fill(c.moves, c.forward[at + 1])
                a2, a3 = fill(c.moves, c.forward[at + 2]), fill(c.moves, c.forward[at + 3])
                g, h = load(c.met, (t + 1) * Q + j), load(c.met, (t + 1) * Q + k)
                x0, x1, x2, x3 = fma(a0, g, x0), fma(a1, g, x1), fma(a2, g, x2), fma(a3, g, x3)
                y0, y1, y2, y3 = fma(a0, h, y0), fma(a1, h, y1), fma(a2, h, y2), fma(a3, h, y3)
            w = i * Q + j
            store(c.moved, w, x0)
            store(c.moved, w + Q, x1)
            store(c.moved, w + 2 * Q, x2)
            store(c.moved, w + 3 * Q, x3)
            w = i * Q + k
            store(c.moved, w, y0)
            store(c.moved, w + Q, y1)
            store(c.moved, w + 2 * Q, y2)
            store(c.moved, w + 3 * Q, y3)
        for w in range(i * Q, min(i + 4, K) * Q):
            weight = load(c.moves, w)
            moved = load(c.moved, w) * weight
            store(out, start + w, moved)
            prefetch(own, WIDTH * (later + w))
            prefetch(out, WIDTH * (later + w))
            score = fma(moved, log(weight), score)
    return score
