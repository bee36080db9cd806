# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Trees and states of new sentences, sampled under syntactic topics, against all of them; kernels, against formulas."""

import itertools
import math

import numpy as np
import pytest
import torch
from infer.topic_sums import HEADS, WORDS, V, chi_square_is_fine, log_predictive, log_urns, pairs

from pyrogram.infer import TopicGibbs
from pyrogram.trees import projective_trees
from reproductions.topics import states as kernels
from reproductions.topics.trees import Proposals, sample_trees

BASE, B = [0.4, 0.15], 0.1
STATES = torch.tensor([[0, 1, 1], [0, -1, -1], [1, 0, -1]])
GIVEN = [(p, w, k) for (p, w), k in zip(pairs(WORDS, HEADS), STATES[WORDS >= 0].tolist(), strict=True)]
SENTENCE = [1, 0, 1]  # the ends are the same word
SENTENCES = torch.tensor([[1, 0, 1, 2], [2, 1, 0, -1], [0, -1, -1, -1]])

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def topics():
    sampler = TopicGibbs(2, V, concentration=torch.tensor(BASE), word_concentration=B)
    sampler.set_states(WORDS, HEADS, STATES)
    return sampler.topics()


def everything(sentence, states=None):
    """Every tree and all its states, with log P(s, t, w | D) and the log of the predictive product."""
    words = torch.tensor([sentence])
    found = []
    for tree in projective_trees(len(sentence)).tolist():
        tokens = pairs(words, torch.tensor([tree]))
        for s in itertools.product(range(2), repeat=len(sentence)) if states is None else [tuple(states)]:
            exact = log_urns(tokens, s, BASE, B, GIVEN)
            found.append((tuple(tree), s, exact, log_predictive(tokens, s, BASE, B, GIVEN)))
    return found


def test_the_transition_matrix_leaves_the_posterior_as_it_is(topics):
    """From all 56 trees and states to all, with the sampler's own log ratios."""
    support = everything(SENTENCE)
    exact, proposal = (torch.tensor([x[j] for x in support]) for j in (2, 3))
    heads, states = (torch.tensor([x[j] for x in support]) for j in (0, 1))
    words = torch.tensor([SENTENCE]).expand(len(support), -1)
    ids = torch.cat([torch.full((len(support), 1), V), words], 1)
    given = torch.full((len(support),), 3), ids.gather(1, heads).flatten().int(), words.flatten().int()
    repeats = Proposals(topics, words, None, 0).log_repeats(*given, states.flatten().int())
    torch.testing.assert_close(repeats, exact - proposal)
    assert repeats.abs().max() > 0.5  # or this test would be of nothing
    p, q = exact.softmax(0), proposal.softmax(0)
    move = q[None, :] * (repeats[None, :] - repeats[:, None]).clamp_max(0).exp()
    matrix = move - move.diag().diag() + (1 - (move.sum(1) - move.diag())).diag()
    torch.testing.assert_close(p @ matrix, p)
    assert (p - q).abs().sum() > 0.05


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seen", [None, (0, 1, 0)])
def test_chains_reach_the_posterior(topics, seen):
    """Of many copies of a sentence, each a chain."""
    copies = 20000
    words = torch.tensor([SENTENCE]).expand(copies, 3).contiguous()
    states = None if seen is None else torch.tensor([seen]).expand(copies, 3).contiguous()
    heads, acceptance = sample_trees(topics, words, states, num_samples=1, burn_in=25, thin=1, seed=1)
    trees = projective_trees(3).tolist()
    counts = torch.bincount(torch.tensor([trees.index(tree) for tree in heads[0].tolist()]), minlength=len(trees))
    exact, proposal = torch.zeros(2, len(trees))
    for tree, _, log_exact, log_proposal in everything(SENTENCE, seen):
        exact[trees.index(list(tree))] += math.exp(log_exact)
        proposal[trees.index(list(tree))] += math.exp(log_proposal)
    assert chi_square_is_fine(counts, copies * exact / exact.sum())
    assert not chi_square_is_fine(counts, copies * proposal / proposal.sum())
    assert 0.3 < acceptance < 0.98


def test_samples_are_trees_and_repeatable(topics):
    chain = {"num_samples": 4, "burn_in": 2, "thin": 3}
    heads, acceptance = sample_trees(topics, SENTENCES, None, **chain, seed=3)
    assert heads.shape == (4, 3, 4) and topics.trees(SENTENCES).support.check(heads).all()
    again = sample_trees(topics, SENTENCES, None, **chain, seed=3)
    assert torch.equal(again[0], heads) and again[1] == acceptance
    every, _ = sample_trees(topics, SENTENCES, None, num_samples=14, burn_in=0, thin=1, seed=3)
    assert torch.equal(every[4::3], heads)
    assert len(sample_trees(topics, SENTENCES, None, num_samples=30, burn_in=2, thin=1, seed=4)[0].unique(dim=0)) > 1


def test_columns_of_padding_change_nothing(topics):
    for words in ([[0]], [[0], [0]], [[0], [1]], [[0, 1], [1, 0]]):
        narrow = torch.tensor(words)
        wide = torch.nn.functional.pad(narrow, (0, 2), value=-1)
        for states in (False, True):
            found = [
                sample_trees(topics, w, w if states else None, num_samples=5, burn_in=0, thin=1, seed=1)
                for w in (narrow, wide)
            ]
            assert found[0][1] == found[1][1]
            assert torch.equal(torch.nn.functional.pad(found[0][0], (0, 2), value=-1), found[1][0])


def test_few_proposals_at_a_time(topics, monkeypatch):
    words = torch.tensor([[1, 0, 1], [2, 1, 0]])
    monkeypatch.setattr("reproductions.topics.trees._PROPOSED", 12)
    numbers = []
    draw = Proposals.draw
    monkeypatch.setattr(Proposals, "draw", lambda self, number: numbers.append(number) or draw(self, number))
    heads, _ = sample_trees(topics, words, None, num_samples=5, burn_in=5, thin=2, seed=3)
    assert heads.shape == (5, 2, 3) and numbers == [1, *[2] * 7, 1]


WIDE = 5


def counts(rng, K):
    """Of a corpus that need not be, and a Dirichlet."""
    by_parent = rng.integers(0, 4, (WIDE + 1, K)).astype(np.int32)
    by_word = rng.integers(0, 30, (WIDE, K)).astype(np.int32)
    base = rng.gamma(0.5, size=K) + 0.01
    return kernels.Counts(by_parent, by_parent.sum(1), by_word, by_word.sum(0).astype(np.int64), base, 0.2)


def test_states_of_a_new_word():
    """Uniforms at even distances say what the probability of every state is."""
    K, G = 6, 30000
    found = counts(np.random.default_rng(2), K)
    expected = (found.by_parent[3] + found.base) * (found.by_word[1] + found.b) / (found.totals + WIDE * found.b)
    states = np.empty(G, np.int32)
    parents, words = np.full(G, 3, np.int32), np.full(G, 1, np.int32)
    kernels.draw_states(found, parents, words, (np.arange(G) + 0.5) / G, states)
    assert np.abs(np.bincount(states, minlength=K) / G - expected / expected.sum()).max() < 2 / G


def test_repeats_make_the_predictive_product_exact():
    """Against the words taken one after the other, counts kept in tables; a sentence of one word has none."""
    rng = np.random.default_rng(3)
    K, lengths = 3, [1, 6, 9]
    by_parent, _, by_word, totals, base, b = found = counts(rng, K)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    parents, words, states = (rng.integers(0, m, starts[-1]).astype(np.int32) for m in (WIDE + 1, WIDE, K))
    out = np.empty(3)
    kernels.log_repeats(found, starts, parents, words, states, out)
    for i in range(3):
        P, W = by_parent.astype(float), by_word.astype(float)
        expected = 0.0
        for p, w, k in zip(*(x[starts[i] : starts[i + 1]] for x in (parents, words, states)), strict=True):
            exact = (P[p, k] + base[k]) / (P[p].sum() + base.sum()) * (W[w, k] + b) / (W[:, k].sum() + WIDE * b)
            simple = (by_parent[p, k] + base[k]) / (by_parent[p].sum() + base.sum())
            simple *= (by_word[w, k] + b) / (totals[k] + WIDE * b)
            expected += math.log(exact / simple)
            P[p, k] += 1
            W[w, k] += 1
        assert out[i] == pytest.approx(expected, abs=1e-10)
    assert out[0] == 0 != out[1]
