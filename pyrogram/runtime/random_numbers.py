# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Random numbers inside compiled code: independent streams (SplitMix64; Steele, Lea and Flood 2014), and choices."""

import numpy as np
from numba import njit

from pyrogram.runtime.arrays import Array


@njit(nogil=True)
def uniform(state: Array) -> float:
    """A number in [0, 1) from SplitMix64, whose one word of state is advanced."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return np.float64(z >> np.uint64(11)) * 2.0**-53


@njit(nogil=True)
def seed_stream(state: Array, seed: int, stream: int) -> None:
    """Start an independent stream: the state is the seed's and the stream's hash."""
    state[0] = np.uint64(seed)
    uniform(state)
    state[0] ^= np.uint64(stream) * np.uint64(0xD1342543DE82EF95)
    uniform(state)


@njit(nogil=True)
def draw_event(cumulative: Array, state: Array) -> int:
    """An event of a multinomial, from its cumulative probabilities."""
    drawn = np.searchsorted(cumulative, uniform(state) * cumulative[-1], side="right")
    return min(drawn, len(cumulative) - 1)


@njit(nogil=True)
def choose(terms: Array, count: int, state: Array) -> int:
    """A draw in proportion to the first ``count`` terms; -1 if all are zero."""
    total = 0.0
    for t in range(count):
        total += terms[t]
    remaining = uniform(state) * total
    chosen = -1
    for t in range(count):
        if terms[t] > 0:
            chosen = t
            remaining -= terms[t]
            if remaining < 0:
                break
    return chosen
