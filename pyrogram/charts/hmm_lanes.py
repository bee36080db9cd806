# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Forward and backward through a hidden Markov chain for eight sentences at once, in scaled real space.

The forward cell of a word and a state is the weight of all sequences that end there, the backward cell the adjoint of
log Z, so that their product is the state's probability. Every word's forward cells are scaled by the power of two
that brings the sum of its predecessor's to between one and two; emissions come divided by the greatest of their word.

Tables have a pitch of P, the number of states rounded up to a multiple of eight, and zeros in what is added. Weights of
transitions are one table (P * P,) for all sentences.
"""

# mypy: disable-error-code="no-untyped-def"
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from pyrogram.charts.runtime.lanes import exponent_of, fill, fma, load, maximum, power_of_two, store

WIDTH = 8


class Lanes(NamedTuple):
    """Cells of eight sentences; arrays are indexed in cells."""

    pitch: int
    forward: Any  # (n, P)
    backward: Any  # (n, P)
    emission: Any  # (n, P); going backward, what a transition into the word meets
    scale: Any  # (n,) the factor of the next word's forward cells
    stops: Any  # (n,) 1 where the sentence ends, else 0
    initial: Any  # (P,)
    end: Any  # (P,)
    ended: Any  # (P,)
    result: Any  # (4,) Z, its exponent, the greatest forward cell, the greatest adjoint


def make_lanes(n: int, num_states: int) -> Lanes:
    P = pitch_of(num_states)
    cells = [np.zeros(size * WIDTH) for size in (n * P, n * P, n * P, n, n, P, P, P, 4)]
    return Lanes(P, *cells)


def pitch_of(num_states: int) -> int:
    return -(-num_states // 8) * 8


@njit(nogil=True)
def forward(c, moves, n, K):
    """Fill the forward cells; result: Z, its exponent, the greatest sum of a word's cells, a bound of the adjoints."""
    P = c.pitch
    zero, one = fill(c.forward, 0.0), fill(c.forward, 1.0)
    most, most_end = zero, zero
    for i in range(K):
        row = zero
        for j in range(K):
            row = row + fill(moves, moves[i * P + j])
        most = maximum(most, row)
        most_end = maximum(most_end, load(c.end, i))
    scale, exponent, z, z_exponent, greatest, bound, z_bound = one, zero, zero, zero, zero, one, zero
    for t in range(n):
        total, final = zero, zero
        for j in range(0, K, 4):
            a0, a1, a2, a3 = load(c.initial, j), load(c.initial, j + 1), load(c.initial, j + 2), load(c.initial, j + 3)
            if t > 0:
                a0, a1, a2, a3 = zero, zero, zero, zero
                for i in range(K):
                    x = load(c.forward, (t - 1) * P + i)
                    w = i * P + j
                    a0 = fma(x, fill(moves, moves[w]), a0)
                    a1 = fma(x, fill(moves, moves[w + 1]), a1)
                    a2 = fma(x, fill(moves, moves[w + 2]), a2)
                    a3 = fma(x, fill(moves, moves[w + 3]), a3)
            cell = t * P + j
            a0 = a0 * load(c.emission, cell) * scale
            a1 = a1 * load(c.emission, cell + 1) * scale
            a2 = a2 * load(c.emission, cell + 2) * scale
            a3 = a3 * load(c.emission, cell + 3) * scale
            store(c.forward, cell, a0)
            store(c.forward, cell + 1, a1)
            store(c.forward, cell + 2, a2)
            store(c.forward, cell + 3, a3)
            total = total + (a0 + a1) + (a2 + a3)
            final = fma(a0, load(c.end, j), fma(a1, load(c.end, j + 1), final))
            final = fma(a2, load(c.end, j + 2), fma(a3, load(c.end, j + 3), final))
        stops = load(c.stops, t)
        z = fma(stops, final, z)
        z_exponent = fma(stops, exponent, z_exponent)
        z_bound = fma(stops, bound, z_bound)
        greatest = maximum(greatest, total)
        step = exponent_of(total)
        scale = power_of_two(zero - step)
        exponent = exponent + step
        bound = maximum(one, bound * most * scale)
        store(c.scale, t, scale)
    store(c.result, 0, z)
    store(c.result, 1, z_exponent)
    store(c.result, 2, greatest)
    store(c.result, 3, z_bound * most_end / z)


@njit(nogil=True)
def backward(c, moves, n, K):
    """Fill the backward cells; the last result becomes the greatest of them."""
    P = c.pitch
    zero = fill(c.forward, 0.0)
    for lane in range(WIDTH):  # a lane without a sequence, or without a sentence, gets zeros rather than NaN
        z = c.result[lane]
        c.ended[lane] = 1 / z if z > 0 else 0.0
    inverse, greatest = load(c.ended, 0), zero
    for t in range(n - 1, -1, -1):
        stops = load(c.stops, t) * inverse
        for i in range(0, K, 4):
            b0, b1 = stops * load(c.end, i), stops * load(c.end, i + 1)
            b2, b3 = stops * load(c.end, i + 2), stops * load(c.end, i + 3)
            if t < n - 1:
                for j in range(K):
                    x = load(c.emission, (t + 1) * P + j)
                    w = i * P + j
                    b0 = fma(x, fill(moves, moves[w]), b0)
                    b1 = fma(x, fill(moves, moves[w + P]), b1)
                    b2 = fma(x, fill(moves, moves[w + 2 * P]), b2)
                    b3 = fma(x, fill(moves, moves[w + 3 * P]), b3)
            cell = t * P + i
            store(c.backward, cell, b0)
            store(c.backward, cell + 1, b1)
            store(c.backward, cell + 2, b2)
            store(c.backward, cell + 3, b3)
            greatest = maximum(maximum(greatest, maximum(b0, b1)), maximum(b2, b3))
        if t > 0:
            scale = load(c.scale, t - 1)
            for j in range(K):
                cell = t * P + j
                store(c.emission, cell, load(c.emission, cell) * scale * load(c.backward, cell))
    store(c.result, 3, greatest)
