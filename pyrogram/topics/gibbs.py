# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Syntactic topics: one pass of collapsed Gibbs sampling over the states of all words, their trees being given.

A word w whose head is p has state k, given all others, with probability proportional to (Wallach, Sutton and McCallum
2008, section 4.2, with the Dirichlets of Eq. 13 and 14 integrated out)

    (N_pk + a_k) (N_wk + b) / (N_k + V b),     a = α m, b = β / V,

N_pk counting state k among the children of p, N_wk among the tokens of w, without this word. A row of K numbers is
contiguous in both tables, and K is padded to whole vectors by states with a_k = 0 and no counts, which nobody draws.
So a word costs two rows of 4 K bytes. Frequent words and heads stay in the caches, which is why words are taken in the
order of the text: sorted by word a sweep is a tenth faster at most, and neighbours then are the most dependent ones.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from pyrogram.runtime.arrays import Array
from pyrogram.runtime.compiling import kernel

LANES = 16  #: states are padded to a multiple of this


def padded(num_states: int) -> int:
    """The number of columns of the tables."""
    return -(-num_states // LANES) * LANES


@njit(nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _weigh(
    by_parent: Array, by_word: Array, base: Array, inverse: Array, b: float, weights: Array, sums: Array
) -> float:  # pragma: no cover
    """Weights of all states and, summed in any order, of each vector of states; returns the total."""
    total = np.float32(0.0)
    for k in range(weights.shape[0]):
        weights[k] = (np.float32(by_parent[k]) + base[k]) * ((np.float32(by_word[k]) + b) * inverse[k])
    for g in range(sums.shape[0]):
        part = np.float32(0.0)
        for k in range(g * LANES, g * LANES + LANES):
            part += weights[k]
        sums[g] = part
        total += part
    return total


@njit(nogil=True)
def _chosen(weights: Array, sums: Array, target: float) -> int:  # pragma: no cover
    """Where a number from 0 to the total of the weights falls; rounding never leads to a weight of zero.

    :returns: -1 if no weight is positive.
    """
    g = 0
    while g < sums.shape[0] - 1 and target >= sums[g]:
        target -= sums[g]
        g += 1
    topic = -1
    for k in range(g * LANES, g * LANES + LANES):
        if weights[k] > 0:
            topic = k
            if target < weights[k]:
                return topic
            target -= weights[k]
    while topic < 0 and g > 0:  # a whole vector of zeros, behind all others: the last one that is not
        g -= 1
        for k in range(g * LANES, g * LANES + LANES):
            if weights[k] > 0:
                topic = k
    return topic


@kernel
def sweep(
    parents: Array,
    words: Array,
    states: Array,
    uniforms: Array,
    by_parent: Array,
    by_word: Array,
    totals: Array,
    base: Array,
    b: float,
) -> int:  # pragma: no cover
    """Draw every word's state given all others, in place; a state of -1 is one that has not been drawn yet.

    :param parents: (T,) int32, the word that heads each token, V for ROOT; and ``words`` (T,), the tokens.
    :param states: (T,) int32, and ``uniforms`` (T,) from 0 to 1.
    :param by_parent: (V + 1, K) int32, counts N_pk; ``by_word`` (V, K), N_wk; ``totals`` (K,) int64, N_k.
    :param base: (K,) float32, a_k; zero for states that pad, and ``b`` = β / V.
    :returns: how many states have changed; -1 if a word had no state of positive weight, after which nothing was done.
    """
    K = base.shape[0]
    V = by_word.shape[0]
    weights = np.empty(K, np.float32)
    sums = np.empty(K // LANES, np.float32)
    inverse = np.empty(K, np.float32)
    for k in range(K):
        inverse[k] = 1.0 / (totals[k] + V * b)
    small = np.float32(b)
    changed = 0
    for n in range(states.shape[0]):
        at_parent, at_word, old = by_parent[parents[n]], by_word[words[n]], states[n]
        if old >= 0:
            at_parent[old] -= 1
            at_word[old] -= 1
            totals[old] -= 1
            inverse[old] = 1.0 / (totals[old] + V * b)
        total = _weigh(at_parent, at_word, base, inverse, small, weights, sums)
        new = _chosen(weights, sums, np.float32(uniforms[n]) * total)
        if new < 0:  # weights are not numbers; the word is in no count
            states[n] = -1
            return -1
        at_parent[new] += 1
        at_word[new] += 1
        totals[new] += 1
        inverse[new] = 1.0 / (totals[new] + V * b)
        states[n] = new
        changed += new != old
    return changed


@kernel
def rising(counts: Array, base: Array) -> float:  # pragma: no cover
    """Sum over all rows and columns of log Γ(count + a_k) - log Γ(a_k), in nats; ``counts`` (R, K) integers.

    Most counts are 0, and most others small: the logarithms of short products stand in a table.
    """
    K = base.shape[0]
    table = np.zeros((K, 16))
    for k in range(K):
        if base[k] > 0:
            for n in range(1, 16):
                table[k, n] = table[k, n - 1] + math.log(base[k] + n - 1)
        else:
            table[k, 1:] = -np.inf
    total = 0.0
    for r in range(counts.shape[0]):
        row = 0.0
        for k in range(K):
            n = counts[r, k]
            if n > 0:
                row += table[k, n] if n < 16 else math.lgamma(n + base[k]) - math.lgamma(base[k])
        total += row
    return total
