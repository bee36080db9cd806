# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Compiled sweeps of hidden Markov models: against plain torch, and against lists of all tuples of state sequences."""

import itertools

import pytest
import torch
from pyrogram.models import dirichlet

from pyrogram import HMM
from pyrogram.grammars.hmm_sweeps import HMMSweeps
from pyrogram.infer import CollapsedVB
from pyrogram.sweeps import Field, Sweeps
from pyrogram.testing import chi_square

GRAMMAR = HMM(3, 5)
WORDS = torch.tensor([[0, 4, 1, 0, 2], [3, -1, -1, -1, -1], [1, 1, -1, -1, -1], [2, 3, 3, -1, -1]])


def concentrations(grammar, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return {n: 0.05 + torch.rand(b.shape, generator=generator) for n, b in grammar.blocks.items()}


@pytest.mark.parametrize("fixed", [[], ["emission"], ["initial", "transition"]])
@pytest.mark.parametrize("batch_size", [1, 3])
def test_collapsed_vb_is_that_of_plain_torch(batch_size, fixed):
    compiled, plain = GRAMMAR.sweeps(WORDS), Sweeps(GRAMMAR, WORDS)
    assert isinstance(compiled, HMMSweeps)
    start = GRAMMAR.initial_weights(WORDS, seed=1)
    (*found, own), (*expected, plain_own) = compiled.expect(start), plain.expect(start)
    torch.testing.assert_close(found, expected)
    alpha = {n: a for n, a in concentrations(GRAMMAR).items() if n not in fixed}
    weights = {n: 0.7 * w for n, w in start.items() if n in fixed}
    fields = [
        Field({n: c.clone() for n, c in s.total(o).items()}, alpha, weights)
        for s, o in ((compiled, own), (plain, plain_own))
    ]
    torch.testing.assert_close(fields[0].counts, fields[1].counts)
    spare = None
    for _ in range(3):
        order = torch.randperm(len(WORDS))
        entropies, new = compiled.collapsed_vb(fields[0], own, order, batch_size, spare=spare)
        spare, own = own, new
        plain_entropies, plain_own = plain.collapsed_vb(fields[1], plain_own, order, batch_size)
        torch.testing.assert_close(entropies, plain_entropies)
        torch.testing.assert_close(fields[0].counts, fields[1].counts)
        torch.testing.assert_close(compiled.total(own), fields[0].counts)
        some = torch.tensor([2, 0])
        torch.testing.assert_close(compiled.of_sentences(own, some), plain.of_sentences(plain_own, some))


def test_a_sentence_that_nothing_emits():
    grammar = HMM(2, 3)
    weights = grammar.initial_weights(WORDS, seed=0)
    weights["emission"][:, 2] = 0
    words = torch.tensor([[0, 1], [2, 0]])
    log_z, entropies, own = grammar.sweeps(words).expect(weights)
    assert log_z.isinf().tolist() == entropies.isinf().tolist() == [False, True]
    posterior = grammar.derivation(weights, words[:1]).expected_counts()
    torch.testing.assert_close(grammar.sweeps(words).total(own), {n: c[0] for n, c in posterior.items()})


@pytest.mark.parametrize(("batch_size", "temperature"), [(1, 1.0), (3, 1.0), (2, 2.0)])
def test_hastings_samples_the_collapsed_posterior(batch_size, temperature):
    """All tuples of state sequences of three sentences, as often as P(y | x, α)^(1/T) says."""
    grammar = HMM(2, 2)
    words = torch.tensor([[0, 1, 0], [1, 1, -1], [0, -1, -1]])
    alpha = concentrations(grammar, seed=1)
    lists = [list(itertools.product(range(2), repeat=int((row >= 0).sum()))) for row in words]
    tuples = [torch.tensor([[*y, *[-1] * (3 - len(y))] for y in chosen]) for chosen in itertools.product(*lists)]
    scores = []
    for states in tuples:
        score = torch.zeros(())
        for name, counts in grammar.counts(words, states).items():
            pseudo = counts.sum(0) + alpha[name]
            score += torch.lgamma(pseudo).sum() - torch.lgamma(pseudo.sum(-1)).sum()
        scores.append(score / temperature)
    probs = torch.stack(scores).softmax(0)
    index = {tuple(states.flatten().tolist()): i for i, states in enumerate(tuples)}
    sweeps, now = grammar.sweeps(words), tuples[0].clone()
    field = Field(sweeps.counts(now), alpha)
    generator = torch.Generator().manual_seed(0)
    observed, accepted, thinning = torch.zeros(len(tuples)), [], 8
    for step in range(2000 * thinning):
        order = torch.randperm(3, generator=generator)
        accepted.append(sweeps.hastings(field, now, order, batch_size, generator=generator, temperature=temperature))
        if step % thinning == 0:
            observed[index[tuple(now.flatten().tolist())]] += 1
    torch.testing.assert_close(field.counts, sweeps.counts(now))
    assert 0.3 < torch.stack(accepted).double().mean() < 0.99
    assert chi_square(observed, probs) > 1e-3


def test_the_loop_runs():
    loop = CollapsedVB(dirichlet, initial_weights=GRAMMAR.initial_weights(WORDS, seed=0))
    loop.run(WORDS, GRAMMAR, concentration=0.3, num_steps=200, tolerance=0, progress=False)
    for name, block in GRAMMAR.blocks.items():
        torch.testing.assert_close(block.sums(loop.weights()[name]), torch.ones(block.shape[:-1]))
    assert loop.history[-1] == pytest.approx(loop.history[-2], rel=1e-9)
