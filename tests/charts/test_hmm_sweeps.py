# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Compiled sweeps of hidden Markov models: against plain torch, and against lists of all tuples of state sequences."""

import itertools
import math

import pytest
import torch

from pyrogram import HMM
from pyrogram.collapsed import CollapsedUpdates, CorpusCounts
from pyrogram.grammars.recursive_collapsed import RecursiveUpdates
from pyrogram.infer import CollapsedVB
from pyrogram.models.dirichlet import dirichlet
from pyrogram.testing import chi_square

GRAMMAR = HMM(3, 5)
WORDS = torch.tensor([[0, 4, 1, 0, 2], [3, -1, -1, -1, -1], [1, 1, -1, -1, -1], [2, 3, 3, -1, -1]])


def concentrations(grammar, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return {n: 0.05 + torch.rand(b.shape, generator=generator) for n, b in grammar.blocks.items()}


@pytest.mark.parametrize("fixed", [[], ["emission"], ["initial", "transition"]])
@pytest.mark.parametrize("batch_size", [1, 3])
def test_collapsed_vb_is_that_of_plain_torch(batch_size, fixed):
    compiled, plain = GRAMMAR.collapsed_updates(WORDS), CollapsedUpdates(GRAMMAR, WORDS)
    assert isinstance(compiled, RecursiveUpdates)
    start = GRAMMAR.initial_weights(WORDS, seed=1)
    (*found, own), (*expected, plain_own) = compiled.expected_counts(start), plain.expected_counts(start)
    torch.testing.assert_close(found, expected)
    alpha = {n: a for n, a in concentrations(GRAMMAR).items() if n not in fixed}
    weights = {n: 0.7 * w for n, w in start.items() if n in fixed}
    fields = [
        CorpusCounts({n: c.clone() for n, c in s.total(o).items()}, alpha, weights)
        for s, o in ((compiled, own), (plain, plain_own))
    ]
    torch.testing.assert_close(fields[0].counts, fields[1].counts)
    for _ in range(3):
        order = torch.randperm(len(WORDS))
        entropies, own = compiled.collapsed_vb(fields[0], own, order, batch_size)
        plain_entropies, plain_own = plain.collapsed_vb(fields[1], plain_own, order, batch_size)
        torch.testing.assert_close(entropies, plain_entropies)
        torch.testing.assert_close(fields[0].counts, fields[1].counts)
        torch.testing.assert_close(compiled.total(own), fields[0].counts)
        some = torch.tensor([2, 0])
        torch.testing.assert_close(compiled.dense_counts(own, some), plain.dense_counts(plain_own, some))


def random_words(num_words, count, longest):
    lengths = torch.randint(1, longest + 1, (count,))
    return torch.where(torch.arange(longest) < lengths[:, None], torch.randint(num_words, (count, longest)), -1)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("num_states", [1, 4, 8, 9, 17, 33])
@pytest.mark.parametrize("fixed", [[], ["transition"]])
def test_any_number_of_states_in_any_batches_is_that_of_plain_torch(num_states, fixed):
    """States that fill the lanes and that do not, odd and even numbers of cells, sentences of different lengths."""
    torch.set_default_dtype(torch.float64)
    grammar = HMM(num_states, 6)
    words = random_words(6, 21, 12)
    start = grammar.initial_weights(words, seed=2)
    alpha = {n: a for n, a in concentrations(grammar, seed=1).items() if n not in fixed}
    weights = {n: 0.9 * start[n] for n in fixed}
    states = []
    for sweeps in (grammar.collapsed_updates(words), CollapsedUpdates(grammar, words)):
        generator = torch.Generator().manual_seed(0)
        first = sweeps.expected_counts(start)
        own = first[2]
        field = CorpusCounts(sweeps.total(own), alpha, weights)
        entropies = [first[1]]
        for batch_size in (1, 3, 8, 12, 21):
            order = torch.randperm(21, generator=generator)
            found, own = sweeps.collapsed_vb(field, own, order, batch_size)
            entropies.append(found)
        states.append((first[0], entropies, field.counts, sweeps.dense_counts(own, torch.arange(21))))
    for found, expected in zip(*states, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-10)


@pytest.mark.slow
def test_what_real_space_cannot_hold_is_done_in_logarithms():
    """Weights so small that products of them are beyond any double, in some sentences of a block."""
    torch.set_default_dtype(torch.float64)
    grammar = HMM(2, 3)
    words = random_words(2, 10, 6)
    words[3] = torch.tensor([0, 2, 1, 2, 2, 0])
    fixed = {n: w.clone() for n, w in grammar.initial_weights(words, seed=0).items()}
    fixed["transition"][:, :2] = torch.tensor([[1e-280, 1e-20], [1e-20, 1e-280]])
    fixed["emission"][:, 2] = torch.tensor([1e-250, 1e-200])
    alpha = {"initial": torch.full((2,), 0.4)}
    weights = {n: fixed[n] for n in ("transition", "emission")}
    results = []
    for sweeps in (grammar.collapsed_updates(words), CollapsedUpdates(grammar, words)):
        log_z, _, own = sweeps.expected_counts(fixed)
        assert float(log_z.min()) < -750
        field = CorpusCounts(sweeps.total(own), alpha, weights)
        for _ in range(2):
            entropies, own = sweeps.collapsed_vb(field, own, torch.arange(10), 1)
        results.append((log_z, entropies, field.counts, sweeps.total(own)))
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
    sweeps = grammar.collapsed_updates(words)
    states = sweeps.draw({n: w.log() for n, w in fixed.items()}, torch.Generator().manual_seed(0))
    field = CorpusCounts(sweeps.counts(states), alpha, weights)
    accepted = sweeps.hastings(field, states, torch.arange(10), 8, generator=torch.Generator().manual_seed(0))
    assert float(accepted.double().mean()) > 0.5
    torch.testing.assert_close(field.counts, sweeps.counts(states))


def test_what_vanishes_on_the_way_and_matters_in_the_end_is_noticed():
    """The only possible states of three sentences are beyond any double until their last words make up for the first.

    Others of the same block are fine.
    """
    grammar = HMM(2, 2)
    words = torch.tensor([[0, 0, 1, 1, 1], [1, 0, -1, -1, -1], [0, 0, 1, 1, 1], [0, -1, -1, -1, -1]])
    fixed = {
        "transition": torch.tensor([[0.5, 0.0, 0.5], [0.0, 0.5, 0.5]]),
        "emission": torch.tensor([[1.0, 1e-200], [1e-200, 1.0]]),
    }
    start, alpha = {"initial": torch.full((2,), 0.5), **fixed}, {"initial": torch.full((2,), 0.4)}
    results = []
    for sweeps in (grammar.collapsed_updates(words), CollapsedUpdates(grammar, words)):
        _, _, own = sweeps.expected_counts(start)
        field = CorpusCounts(sweeps.total(own), alpha, fixed)
        found = []
        for batch_size in (1, 3, 4):
            entropies, own = sweeps.collapsed_vb(field, own, torch.arange(4), batch_size)
            found += [entropies, {n: c.clone() for n, c in field.counts.items()}, sweeps.total(own)]
        results.append(found)
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected)
    sweeps = grammar.collapsed_updates(words)
    states = torch.where(words >= 0, 0, -1)
    field = CorpusCounts(sweeps.counts(states), alpha, fixed)
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):  # the others' first states may be against the first proposals
        sweeps.hastings(field, states, torch.arange(4), 8, generator=generator)
    assert states[[0, 2]].tolist() == [[1] * 5] * 2
    torch.testing.assert_close(field.counts, sweeps.counts(states))


def test_what_vanishes_beside_what_survives_is_noticed():
    """After two words state 2 is beyond any double and state 1 is not; eight words later, all of Z is state 2's."""
    torch.set_default_dtype(torch.float64)
    grammar = HMM(3, 2)
    words = torch.tensor([[0] * 2 + [1] * 8] * 3)
    fixed = {
        "transition": torch.tensor([[1.0, 0.0, 0.0, 0.0], [0.0, 0.5, 0.0, 0.5], [0.0, 0.0, 0.5, 0.5]]),
        "emission": torch.tensor([[1.0, 0.0], [1e-150, 1e-7], [1e-165, 1.0]]),
    }
    start, alpha = {"initial": torch.full((3,), 1 / 3), **fixed}, {"initial": torch.full((3,), 1e9)}
    for sweeps in (grammar.collapsed_updates(words), CollapsedUpdates(grammar, words)):
        log_z, _, own = sweeps.expected_counts(start)
        assert log_z.tolist() == pytest.approx([2 * math.log(1e-165) + 10 * math.log(0.5) - math.log(3)] * 3)
        field = CorpusCounts(sweeps.total(own), alpha, fixed)
        sweeps.collapsed_vb(field, own, torch.arange(3), 2)
        torch.testing.assert_close(field.counts["initial"], torch.tensor([0.0, 0.0, 3.0]))
        states = torch.full_like(words, 1)
        field = CorpusCounts(sweeps.counts(states), alpha, fixed)
        sweeps.hastings(field, states, torch.arange(3), 3, generator=torch.Generator().manual_seed(0))
        assert (states == 2).all()


def test_a_chain_that_is_interrupted_goes_on(tmp_path):
    start, chains = GRAMMAR.initial_weights(WORDS, seed=0), []
    for stops in ([6], [2, 6]):
        path = tmp_path / f"{len(stops)}.safetensors"
        for stop in stops:
            loop = CollapsedVB(dirichlet, initial_weights=start)
            loop.run(WORDS, GRAMMAR, concentration=0.3, num_steps=stop, tolerance=0, progress=False, checkpoint=path)
        chains.append(loop)
    assert chains[0].history == chains[1].history


def test_counts_and_parts_of_states():
    sweeps, plain = GRAMMAR.collapsed_updates(WORDS), CollapsedUpdates(GRAMMAR, WORDS)
    states = sweeps.draw({n: b.uniform(torch.ones(())).log() for n, b in GRAMMAR.blocks.items()})
    torch.testing.assert_close(sweeps.counts(states), plain.counts(states))
    torch.testing.assert_close(sweeps.parts(states), plain.parts(states).float())
    torch.testing.assert_close(sweeps.add_parts(sweeps.parts(states), states), 2 * sweeps.parts(states))


def test_a_sentence_that_nothing_emits():
    grammar = HMM(2, 3)
    weights = grammar.initial_weights(WORDS, seed=0)
    weights["emission"][:, 2] = 0
    words = torch.tensor([[0, 1], [2, 0]])
    log_z, entropies, own = grammar.collapsed_updates(words).expected_counts(weights)
    assert log_z.isinf().tolist() == entropies.isinf().tolist() == [False, True]
    posterior = grammar.derivation(weights, words[:1]).expected_counts()
    torch.testing.assert_close(grammar.collapsed_updates(words).total(own), {n: c[0] for n, c in posterior.items()})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("batch_size", "temperature"), [pytest.param(1, 1.0, marks=pytest.mark.slow), (3, 1.0), (2, 2.0)]
)
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
    sweeps, now = grammar.collapsed_updates(words), tuples[0].clone()
    field = CorpusCounts(sweeps.counts(now), alpha)
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
