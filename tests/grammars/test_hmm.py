# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The hidden Markov model on paper, against Pyro's, and as a Bayesian tagger."""

import itertools
import math

import pyro.distributions as dist
import pytest
import torch
from torch.distributions import kl_divergence

from pyrogram import HMM
from pyrogram.distributions import Sentence, StateSequence
from pyrogram.infer import VariationalEM
from pyrogram.models.dirichlet import dirichlet

END = -1
SENTENCES = [[0, 2, 1], [1], [2, 2], [0, 1, 2, 0]]
WORDS = torch.tensor([[0, 2, 1, -1], [1, -1, -1, -1], [2, 2, -1, -1], [0, 1, 2, 0]])


def random_weights(grammar, *batch):
    return {name: block.normalize(0.2 + torch.rand(*batch, *block.shape)) for name, block in grammar.blocks.items()}


def test_a_distribution_over_sentences_of_all_lengths():
    """The probabilities of all sentences sum to one: by length they are initial, then transitions, then the end."""
    grammar = HMM(3, 2)
    w = random_weights(grammar)
    total, alive = 0.0, w["initial"]
    for length in range(1, 200):
        of_length = alive @ w["transition"][:, -1]
        if length <= 4:
            every = torch.tensor(list(itertools.product(range(2), repeat=length)))
            torch.testing.assert_close(Sentence(grammar, w).log_prob(every).exp().sum(), of_length)
        total += of_length
        alive = alive @ w["transition"][:, :-1]
    torch.testing.assert_close(total, torch.tensor(1.0))


def test_against_pyro():
    """Pyro's model has no end, and moves before its first word; with the same end in all states that is a factor."""
    K, V, n, end = 3, 4, 6, 0.1
    before, moves = torch.rand(K).softmax(0), torch.rand(K, K).softmax(-1)
    emission = torch.rand(K, V).softmax(-1)
    words = torch.randint(V, (5, n))
    theirs = dist.DiscreteHMM(before.log(), moves.log(), dist.Categorical(emission), duration=n)
    transition = torch.cat([(1 - end) * moves, torch.full((K, 1), end)], -1)
    ours = Sentence(HMM(K, V), {"initial": before @ moves, "transition": transition, "emission": emission})
    expected = theirs.log_prob(words) + (n - 1) * math.log(1 - end) + math.log(end)
    torch.testing.assert_close(ours.log_prob(words), expected)


def test_a_tagger_finds_the_classes_of_words():
    """Words of two classes in turn: Bayes with few pseudo-counts gives each class a state of its own."""
    grammar = HMM(2, 6)
    generator = torch.Generator().manual_seed(0)
    first, second = (torch.randint(3, (200, 4), generator=generator) + c for c in (0, 3))
    words = torch.stack([first, second], -1).flatten(1)
    vb = VariationalEM(dirichlet, initial_weights=grammar.initial_weights(words, seed=0))
    vb.run(words, grammar, concentration=0.1, num_steps=50, progress=False)
    states = grammar.derivation(vb.weights(), words).mbr()
    assert (states == states[0, :2].repeat(4)).all() and states[0, 0] != states[0, 1]


def test_errors():
    with pytest.raises(ValueError, match="num_states must be at least 1, not 0"):
        HMM(0, 3)
    grammar = HMM(2, 3)
    w = random_weights(grammar)
    with pytest.raises(ValueError, match="a multinomial of 'emission' sums to 2"):
        grammar.sample({**w, "emission": 2 * w["emission"]}, (), 10)
    endless = {**w, "transition": torch.tensor([[0.5, 0.5, 0.0]] * 2)}
    with pytest.raises(ValueError, match="10,000 sampled sentences in a row had more than 3 words"):
        grammar.sample(endless, (), 3)
    with pytest.raises(ValueError, match=r"must have shapes \(..., K\), \(..., K, K\+1\) and \(..., K, V\)"):
        StateSequence(torch.zeros(2), torch.zeros(2, 2), torch.zeros(2, 3), torch.tensor([0]))
    with pytest.raises(ValueError, match="the log weights 'transition' must be real numbers or -inf"):
        StateSequence(torch.zeros(2), torch.full((2, 3), torch.nan), torch.zeros(2, 3), torch.tensor([0]), True)
    with pytest.raises(NotImplementedError, match=r"too many structures to enumerate, about 1.05e\+06"):
        grammar.derivation(w, torch.zeros(20, dtype=torch.long)).enumerate_support()
    with pytest.raises(ValueError, match="k must be at least 1, not 0"):
        grammar.derivation(w, WORDS).top_k(0)


def test_kl_between_words():
    """The same states, other words: the divergence of two lists of probabilities."""
    grammar = HMM(2, 3)
    p = grammar.derivation(random_weights(grammar), torch.tensor([0, 1, 2]))
    q = grammar.derivation(random_weights(grammar), torch.tensor([2, 2, 0]))
    every = p.enumerate_support()
    own, other = p.log_prob(every), q.log_prob(every)
    torch.testing.assert_close(kl_divergence(p, q), (own.exp() * (own - other)).sum())
    with pytest.raises(NotImplementedError, match="other numbers of words"):
        kl_divergence(p, grammar.derivation(random_weights(grammar), torch.tensor([0, 1])))


def test_counts_of_a_single_sentence_by_hand():
    """States 0 1 1 emit the words 2 0 0: the first state, the moves 0-1, 1-1 and 1-end, and what is emitted."""
    grammar = HMM(2, 3)
    words, states = torch.tensor([2, 0, 0, -1]), torch.tensor([0, 1, 1, -1])
    counts = grammar.counts(words, states)
    assert counts["initial"].tolist() == [1, 0]
    assert counts["transition"].tolist() == [[0, 1, 0], [0, 1, 1]]
    assert counts["emission"].tolist() == [[0, 0, 1], [2, 0, 0]]
    batch = grammar.counts(words[None].expand(5, 4), states)
    assert all(torch.equal(batch[name], c.expand(5, *c.shape)) for name, c in counts.items())
    several = grammar.counts(words, torch.stack([states, torch.tensor([1, 1, 0, -1])]))
    assert several["transition"].tolist() == [[[0, 1, 0], [0, 1, 1]], [[0, 0, 1], [1, 1, 0]]]
    with pytest.raises(
        ValueError, match=r"states must be 0..1 for every word .* those of sentence 0 are \[0, 2, 1, -1\]"
    ):
        grammar.counts(words, torch.tensor([0, 2, 1, -1]))
    with pytest.raises(ValueError, match=r"states must have shape \(..., 4\), like words, not \(3,\)"):
        grammar.counts(words, states[:3])
