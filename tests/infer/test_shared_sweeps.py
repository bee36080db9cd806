# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sweeps in shares, one process after the other in this one, against transition matrices by enumeration."""

from dataclasses import replace

import numpy as np
import pyro
import pytest
import torch
from infer.process_checks import LEARNT, WORDS, ran
from infer.small_corpora import padded, tensors
from infer.tree_chains import TinyCorpus, p_value
from infer.tree_sums import shapes

from pyrogram import DMV, models
from pyrogram.infer import AllReduce, CollapsedVB, TreeGibbs, TreeHastings
from pyrogram.infer.model.shares import own_rows

SENTENCES = [[0, 0, 0], [0, 0], [0, 1], [1, 0]]
SIZE = 2


def in_shares(sampler):
    """A sampler whose sweeps are those of several processes."""

    class Shared(sampler):
        def _sweep(self, problem, state, generator):
            drawn = self._drawn(problem, state, generator)
            shares = [problem.share(rank, SIZE) for rank in range(SIZE)]
            return self._swept(
                problem, state, [self._own_sweep(problem, share, state, drawn, generator) for share in shares]
            )

    return Shared


@pytest.fixture(scope="module")
def corpus():
    torch.set_default_dtype(torch.float64)
    generator = np.random.default_rng(0)
    alpha = {n: generator.uniform(0.1, 1.5, shape) for n, shape in shapes(2, False).items()}
    return TinyCorpus(DMV(2), padded(SENTENCES), alpha)


def approximate(corpus, batch_size):
    """Each process's own matrix, from the state before the sweep; together they are independent."""
    matrix = np.ones((len(corpus.states),) * 2)
    for rank in range(SIZE):
        rows = own_rows(corpus.words, rank, SIZE).tolist()
        if batch_size > 1:  # batches are of one length
            rows.sort(key=lambda i: len(SENTENCES[i]))
        own = corpus.sweep(rows, batch_size)
        for s, before in enumerate(corpus.states):
            for t, after in enumerate(corpus.states):
                mixed = tuple(after[i] if i in rows else before[i] for i in range(len(before)))
                matrix[s, t] *= own[s, corpus.number[mixed]]
    return matrix


def ready(sampler, corpus, batch_size=1):
    kernel = in_shares(sampler)(models.dirichlet.dirichlet, seed=1, initial_weights="random", batch_size=batch_size)
    kernel.setup(0, corpus.words, corpus.grammar, concentration=tensors(corpus.alpha))
    return kernel


def moved(kernel, corpus, state, draws):
    """The state after a sweep; counts are those of its derivations."""
    problem = kernel._problem
    before = replace(kernel._state, derivations={"words": corpus.as_trees(state)})
    derivations, counts, accepted = kernel._sweep(problem, kernel._recounted(problem, before), draws)
    expected = problem.counted(derivations)
    assert all(torch.equal(counts[name], f) for name, f in expected.items())
    assert accepted["words"].shape == (len(SENTENCES),)
    return corpus.number[corpus.as_state(derivations["words"])]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("batch_size", [1, 2])
def test_a_sweep_of_hastings_in_shares_has_the_transition_probabilities(corpus, batch_size):
    kernel, draws, matrix = (
        ready(TreeHastings, corpus, batch_size),
        torch.Generator().manual_seed(3),
        approximate(corpus, batch_size),
    )
    np.testing.assert_allclose(matrix.sum(1), 1)
    for s in (0, len(corpus.states) // 2):
        observed = np.zeros(len(corpus.states))
        for _ in range(250):
            observed[moved(kernel, corpus, corpus.states[s], draws)] += 1
        assert p_value(observed, matrix[s]) > 1e-4


def stationary(matrix):
    values, vectors = np.linalg.eig(matrix.T)
    found = np.real(vectors[:, np.argmax(np.real(values))])
    return found / found.sum()


def test_how_far_hastings_in_shares_is_off(corpus):
    """By enumeration: the figures of docs/processes.md. Four sentences in two processes are the worst case."""
    np.testing.assert_allclose(stationary(corpus.sweep(range(4), 1)), corpus.posterior, atol=1e-12)
    found = stationary(approximate(corpus, 1))
    assert 0.5 * np.abs(found - corpus.posterior).sum() == pytest.approx(0.157, abs=1e-3)  # total variation


def test_a_sweep_of_gibbs_in_shares_leaves_the_posterior_invariant(corpus):
    kernel, draws = ready(TreeGibbs, corpus), torch.Generator().manual_seed(4)
    observed = np.zeros(len(corpus.states))
    for s in np.random.default_rng(2).choice(len(corpus.states), size=400, p=corpus.posterior):
        observed[moved(kernel, corpus, corpus.states[s], draws)] += 1
    assert p_value(observed, corpus.posterior) > 1e-4


@pytest.mark.parametrize("options", [{}, {"order": "shuffled", "seed": 1}])
def test_collapsed_vb_of_one_process_is_exact(options):
    words = WORDS[:4]
    expected = ran(CollapsedVB(LEARNT, **options), words, num_steps=3)
    pyro.clear_param_store()
    found = ran(CollapsedVB(LEARNT, reduce=AllReduce(), approximate=True, **options), words, num_steps=3)
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-12, atol=1e-12, equal_nan=True)


@pytest.mark.parametrize("kind", [CollapsedVB, TreeHastings])
def test_users_say_that_sweeps_are_approximate(kind):
    with pytest.raises(ValueError, match=f"^{kind.__name__} takes each sentence given all others.*approximate=True"):
        kind(LEARNT, reduce=AllReduce())
    with pytest.raises(ValueError, match=f"^{kind.__name__} is exact in one process; leave out approximate=True"):
        kind(LEARNT, approximate=True)
    with pytest.raises(TypeError, match="^approximate must be True or False"):
        kind(LEARNT, reduce=AllReduce(), approximate="yes")
