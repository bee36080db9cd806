# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Kernels of syntactic topics against their formulas."""

import math

import numpy as np
import pytest

from pyrogram.topics import gibbs as topic_gibbs

V = 5


def tables(rng, K):
    """Counts that no corpus needs to have, padded, and a Dirichlet."""
    P = topic_gibbs.padded(K)
    by_parent, by_word = np.zeros((V + 1, P), np.int32), np.zeros((V, P), np.int32)
    by_parent[:, :K], by_word[:, :K] = rng.integers(0, 4, (V + 1, K)), rng.integers(0, 30, (V, K))
    base = np.zeros(P, np.float32)
    base[:K] = rng.gamma(0.5, size=K) + 0.01
    return by_parent, by_word, by_word.sum(0).astype(np.int64), base


@pytest.mark.parametrize("K", [1, 3, 16, 20, 40])
def test_a_word_is_drawn_from_its_conditional(K):
    """Uniforms at even distances say what the probability of every state is."""
    rng = np.random.default_rng(K)
    by_parent, by_word, totals, base = tables(rng, K)
    p, w, old, b = 5, 2, K // 2, 0.3
    by_parent[p, old] += 1
    by_word[w, old] += 1
    totals[old] += 1
    before = by_parent.copy(), by_word.copy(), totals.copy()
    without = np.arange(topic_gibbs.padded(K)) == old
    expected = (by_parent[p] - without + base) * (by_word[w] - without + b) / (totals - without + V * b)
    expected = expected[:K] / expected[:K].sum()
    G = 20000
    found = np.zeros(topic_gibbs.padded(K))
    state = np.array([old], np.int32)
    for i in range(G):
        args = np.array([p], np.int32), np.array([w], np.int32), state, np.array([(i + 0.5) / G])
        topic_gibbs.sweep(*args, by_parent, by_word, totals, base, b)
        found[state[0]] += 1
    assert found[K:].sum() == 0
    assert np.abs(found[:K] / G - expected).max() < 2.5 / G + 1e-6
    by_parent[p, state[0]] -= 1
    by_word[w, state[0]] -= 1
    totals[state[0]] -= 1
    for now, was, at in zip((by_parent, by_word), before, (p, w), strict=False):
        was[at, old] -= 1
        assert (now == was).all()  # counts are those of the new state, and nothing else has changed
    before[2][old] -= 1
    assert (totals == before[2]).all()


@pytest.mark.parametrize("u", [0.0, 1.0])
def test_padding_is_never_drawn(u):
    rng = np.random.default_rng(0)
    K = 17
    by_parent, by_word, totals, base = tables(rng, K)
    base[0] = base[16] = 0
    by_parent[:, [0, 16]] = 0
    states = np.full(3, -1, np.int32)
    parents, words = np.array([5, 0, 1], np.int32), np.array([0, 1, 4], np.int32)
    topic_gibbs.sweep(parents, words, states, np.full(3, u), by_parent, by_word, totals, base, 0.1)
    assert (states == (1 if u == 0 else 15)).all()


def test_rising():
    rng = np.random.default_rng(1)
    counts = rng.integers(0, 40, (6, 7)).astype(np.int32)
    counts[rng.random((6, 7)) < 0.4] = 0
    base = rng.gamma(1.0, size=7)
    expected = sum(math.log(a + i) for row in counts for n, a in zip(row, base, strict=True) for i in range(n))
    assert topic_gibbs.rising(counts, base) == pytest.approx(expected, rel=1e-12)
    assert topic_gibbs.rising(np.zeros_like(counts), base) == 0


@pytest.mark.parametrize("K", [3, 40])
def test_without_a_state_of_positive_weight_a_sweep_stops(K):
    by_parent, by_word, totals, base = tables(np.random.default_rng(0), K)
    states = np.array([1, -1], np.int32)
    for counts, at in ((by_parent, 5), (by_word, 2), (totals, None)):
        counts[(1 if at is None else (at, 1))] += 1
    before = by_parent.copy(), by_word.copy(), totals.copy()
    parents, words = np.array([5, 0], np.int32), np.array([2, 0], np.int32)
    found = topic_gibbs.sweep(parents, words, states, np.full(2, 0.5), by_parent, by_word, totals, base * np.nan, 0.1)
    assert found == -1 and states.tolist() == [-1, -1]
    before[0][5, 1] -= 1
    before[1][2, 1] -= 1
    before[2][1] -= 1
    for now, was in zip((by_parent, by_word, totals), before, strict=True):
        assert (now == was).all()
