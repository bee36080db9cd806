# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Emissions of eight sentences of a hidden Markov model into the lanes of :mod:`.hmm_lanes`, and log Z out of them."""

# mypy: disable-error-code="no-untyped-def"
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from pyrogram.charts.runtime.lanes import fill, fma, gather_cells, load, maximum, store

from .hmm_lanes import WIDTH, pitch_of
from .lanes_log import log

GREATEST = 2.0**900  # of cells and adjoints: what is flushed to zero beside them is below rounding
_LOG2 = float(np.log(2.0))


class Memory(NamedTuple):
    """Scratch beside the lanes."""

    greatest: Any  # (n,) cells: what emissions have been divided by
    number: Any  # (8 n + 1, P) numbers: weights of the distinct words of each lane, and a row of zeros
    places: Any  # (8,)
    log_z: Any  # (8,), nats
    failed: Any  # (8,)


def make_memory(n: int, num_states: int) -> Memory:
    P = pitch_of(num_states)
    sizes = n * WIDTH, (8 * n + 1) * P, WIDTH, WIDTH, WIDTH
    memory = Memory._make(np.zeros(size) for size in sizes)
    return memory._replace(places=np.zeros(WIDTH, np.int64))


@njit(nogil=True)
def feed_words(layout, c, x, block, n):
    """Emissions, every word's divided by the greatest."""
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
            greatest = maximum(greatest, load(c.emission, t * P + i))
        greatest = fma(greatest, alive, one - alive)
        store(x.greatest, t, greatest)
        greatest = one / greatest
        for i in range(K):
            store(c.emission, t * P + i, load(c.emission, t * P + i) * greatest)


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
