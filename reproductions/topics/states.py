# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Syntactic topics in new sentences: states given trees, and what repeats within a sentence do to its probability.

Counts are those of the training sentences and stay as they are. Kernels take sentences one after the other: the tokens
of sentence i are those from ``starts[i]`` to ``starts[i + 1]``.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from pyrogram.runtime.arrays import Array
from pyrogram.runtime.compiling import kernel


class Counts(NamedTuple):
    """Counts of the training sentences, and the prior.

    :param by_parent: (V + 1, K) int32, N_pk; ``parent_totals`` (V + 1,) int64 their row sums.
    :param by_word: (V, K) int32, N_wk; ``totals`` (K,) int64, N_k.
    :param base: (K,) float64, a_k; and ``b`` = β / V.
    """

    by_parent: Array
    parent_totals: Array
    by_word: Array
    totals: Array
    base: Array
    b: float


@kernel
def draw_states(
    counts: Counts, parents: Array, words: Array, uniforms: Array, states: Array
) -> None:  # pragma: no cover
    """Draw the state of every token, given its head, from the predictive probabilities θ̂ φ̂, into ``states``.

    :param parents: (T,) int32, the word that heads each token, V for ROOT; and ``words`` (T,), the tokens.
    :param uniforms: (T,) from 0 to 1.
    :param states: (T,) int32, written.
    """
    by_parent, by_word, base, b = counts.by_parent, counts.by_word, counts.base, counts.b
    K, V = base.shape[0], by_word.shape[0]
    sums = np.empty(K)
    inverse = 1.0 / (counts.totals + V * b)
    for n in range(states.shape[0]):
        at_parent, at_word = by_parent[parents[n]], by_word[words[n]]
        total = 0.0
        for k in range(K):
            total += (at_parent[k] + base[k]) * (at_word[k] + b) * inverse[k]
            sums[k] = total
        states[n] = min(np.searchsorted(sums, uniforms[n] * total, side="right"), K - 1)


@kernel
def log_repeats(
    counts: Counts, starts: Array, parents: Array, words: Array, states: Array, out: Array
) -> None:  # pragma: no cover
    """What the exact joint of each sentence has beyond the product of the predictive probabilities, in nats, into
    ``out``: log P(s, w, t | D) - sum_n log θ̂ φ̂.

    P takes the words one after the other, each with the counts of those before it in the sentence added to the
    training counts (Dirichlet-multinomials, so that their order plays no part).
    """
    by_parent, by_word, base, b = counts.by_parent, counts.by_word, counts.base, counts.b
    alpha, V = base.sum(), by_word.shape[0]
    for i in range(out.shape[0]):
        total = 0.0
        for n in range(starts[i], starts[i + 1]):
            p, w, k = parents[n], words[n], states[n]
            same_parent, same_choice, same_state, same_word = 0, 0, 0, 0
            for m in range(starts[i], n):
                if parents[m] == p:
                    same_parent += 1
                    same_choice += states[m] == k
                if states[m] == k:
                    same_state += 1
                    same_word += words[m] == w
            # log1p of what is added to each of the four counts; most often nothing is.
            if same_parent > 0:
                total += math.log1p(same_choice / (by_parent[p, k] + base[k]))
                total -= math.log1p(same_parent / (counts.parent_totals[p] + alpha))
            if same_state > 0:
                total += math.log1p(same_word / (by_word[w, k] + b))
                total -= math.log1p(same_state / (counts.totals[k] + V * b))
        out[i] = total
