# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Samplers over trees from exact draws of weights, sentences and trees (Geweke 2004; Talts et al. 2018).

The breaks of the last tests say what the first can see. From 1000 draws on, means are off by eight and more standard
errors, mostly those of log P(x, t | alpha).
"""

import pytest
import torch
from infer.tree_calibration import Draws, exact_draws, geweke, mean_p_value, posterior_samples, rank_p_value

from pyrogram.grammars import DMV
from pyrogram.infer import TreeGibbs, TreeHastings
from pyrogram.infer.model.collapsed import CollapsedProblem
from pyrogram.sweeps.plain import CollapsedUpdates

pytestmark = pytest.mark.slow
LEAST = 1e-4  # p-value


@pytest.mark.parametrize(("sampler", "number"), [(TreeHastings, 3000), (TreeGibbs, 2000)])
def test_geweke(sampler, number):
    """Sweeps leave the joint distribution of weights, sentences and trees as it is."""
    draws = exact_draws(number, seed=1)
    after = geweke(sampler, draws)
    assert (after.heads != draws.heads).flatten(1).any(1).double().mean() > 0.5
    assert mean_p_value(draws, after) > LEAST


@pytest.mark.parametrize("sampler", [TreeHastings, TreeGibbs])
def test_simulation_based_calibration(sampler):
    """Weights and trees that sentences come from rank uniformly among samples given the sentences."""
    truth = exact_draws(240, seed=2)
    samples = posterior_samples(sampler, truth.words, 5, burn_in=80, thin=15)
    assert rank_p_value(truth, samples) > LEAST
    assert all(mean_p_value(truth, sample) > LEAST for sample in (samples[0], samples[-1]))


@pytest.fixture(scope="module")
def few() -> Draws:
    return exact_draws(600, seed=3)


def test_flattened_weights_are_seen(few, monkeypatch):
    right = CollapsedProblem.draw_dirichlets
    monkeypatch.setattr(
        CollapsedProblem, "draw_dirichlets", lambda *args: {n: 0.5 * w for n, w in right(*args).items()}
    )
    assert mean_p_value(few, geweke(TreeGibbs, few)) < LEAST


@pytest.mark.parametrize("sampler", [TreeHastings, TreeGibbs])
def test_doubled_concentrations_are_seen(few, monkeypatch, sampler):
    right = CollapsedProblem.alpha
    monkeypatch.setattr(CollapsedProblem, "alpha", lambda problem, s: {n: 2 * a for n, a in right(problem, s).items()})
    assert mean_p_value(few, geweke(sampler, few)) < LEAST


def test_counts_of_the_sweep_before_are_seen(few):
    class Late(TreeGibbs):
        def _sweep(self, problem, state, generator):
            derivations, _, accepted = super()._sweep(problem, state, generator)
            return derivations, state.counts, accepted

    assert mean_p_value(few, geweke(Late, few)) < LEAST


def test_proposals_that_are_always_accepted_are_seen(few):
    class AcceptsAll(CollapsedUpdates):
        def _log_predictive(self, field, tree):
            return 0.0

        def _scores(self, counts, log_weights):
            return torch.zeros(len(counts["root"]), dtype=torch.float64)

    class Grammar(DMV):
        def collapsed_updates(self, words):
            return AcceptsAll(self, words)

    assert mean_p_value(few, geweke(TreeHastings, few, grammar=Grammar(2))) < LEAST
