# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Every loop on a grammar that is its recursion: the DMV's own numbers, and the exact posterior of a sampler."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyro
import pytest
import torch
from own_grammars import dmv
from pyro.infer import MCMC, NUTS, SVI, Trace_ELBO
from torch import Tensor

from pyrogram import DMV
from pyrogram.distributions import Sentence
from pyrogram.guides import MeanFieldDirichlet
from pyrogram.infer import EM, CollapsedVB, GrammarLoop, TreeHastings, VariationalEM
from pyrogram.models import maximum_likelihood
from pyrogram.models.dirichlet import dirichlet
from pyrogram.models.logistic_normal import logistic_normal

WORDS = torch.tensor([[0, 1, 0, 1], [1, 0, -1, -1], [1, -1, -1, -1], [0, 0, 1, -1], [1, 1, 0, -1]])


@pytest.fixture(autouse=True)
def double() -> Any:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    pyro.clear_param_store()
    yield
    torch.set_default_dtype(before)


def start() -> dict[str, Tensor]:
    return DMV(2).initial_weights(WORDS, "random", seed=0)


LOOPS: dict[str, Callable[[], GrammarLoop[Any, Any]]] = {
    "EM": lambda: EM(maximum_likelihood, initial_weights=start()),
    "variational Bayes": lambda: VariationalEM(dirichlet, initial_weights=start()),
    "collapsed VB": lambda: CollapsedVB(dirichlet, initial_weights=start(), batch_size=1),
}


@pytest.mark.parametrize("name", LOOPS)
def test_loops_are_those_of_the_dmv(name: str) -> None:
    """Objectives and weights of each iteration, from the same start."""
    found: list[GrammarLoop[Any, Any]] = []
    for grammar in (dmv(2, 2), DMV(2)):
        pyro.clear_param_store()
        found.append(LOOPS[name]().run(WORDS, grammar, num_steps=6, tolerance=0.0, progress=False))
    own, other = found
    assert len(own.history) == 6
    np.testing.assert_allclose(own.history, other.history, rtol=1e-10)
    torch.testing.assert_close(own.weights(), other.weights(), rtol=1e-8, atol=1e-10)


def test_em_never_falls() -> None:
    """With three valences, which no grammar of the package has."""
    loop = EM(maximum_likelihood, initial_weights="random").run(WORDS, dmv(3, 2), num_steps=40, progress=False)
    assert (np.diff(loop.history) >= -1e-12).all() and loop.history[-1] > loop.history[0] + 0.1


def test_logistic_normal_bound_never_falls() -> None:
    loop = VariationalEM(logistic_normal).run(WORDS, dmv(3, 2), num_steps=4, progress=False)
    assert (np.diff(loop.history) >= -1e-6).all() and loop.history[-1] > loop.history[0]


@pytest.mark.slow  # quick: sweeps of three valences in test_sweeps.py
def test_hastings_draws_from_the_collapsed_posterior() -> None:
    """Derivations of one sentence, as often as prod B(f + alpha) / B(alpha) says."""
    grammar, words = dmv(3, 2), torch.tensor([[0, 1, 0]])
    d = grammar.derivation(grammar.initial_weights(words, "uniform"), words[0])
    rows = d.enumerate_support()
    assert len(rows) == 7
    log_joint = torch.zeros(7)
    for t, row in enumerate(rows.tolist()):
        pseudo = {name: torch.full(block.shape, 0.3) for name, block in grammar.blocks.items()}
        for x in row:
            if x >= 0:
                block, index = grammar.event(x)
                pseudo[block][index] += 1
        log_joint[t] = sum((c.lgamma().sum(-1) - c.sum(-1).lgamma()).sum() for c in pseudo.values())
    exact = log_joint.softmax(0)
    pyro.set_rng_seed(0)
    chain = TreeHastings(dirichlet, seed=0)
    chain.run(words, grammar, concentration=0.3, num_steps=20, progress=False)
    seen = torch.zeros(7)
    for _ in range(800):
        chain.step(words, grammar, concentration=0.3)
        seen[(rows == chain.trees()[0]).all(-1)] += 1
    assert seen.sum() == 800
    assert ((seen / 800 - exact).abs() < 5 * (exact * (1 - exact) / 200).sqrt()).all()  # worth 200 independent draws
    assert (exact - 1 / 7).abs().max() > 5 * float((exact * (1 - exact) / 200).sqrt().max())  # not the uniform one


def test_svi_raises_the_bound() -> None:
    pyro.set_rng_seed(0)
    grammar, guide = dmv(3, 2), MeanFieldDirichlet(dirichlet)
    svi = SVI(dirichlet, guide, pyro.optim.Adam({"lr": 0.1}), Trace_ELBO())  # type: ignore[attr-defined]
    losses = [svi.step(WORDS, grammar, concentration=1.0) for _ in range(75)]
    assert np.mean(losses[-20:]) < np.mean(losses[:20]) - 1


@pytest.mark.slow
def test_nuts_agrees_with_importance_sampling() -> None:
    """Means of the weights under the posterior, of draws of the prior weighted by the sentences' likelihood."""
    pyro.set_rng_seed(0)
    grammar, words = dmv(3, 1), torch.tensor([[0, -1, -1], [0, -1, -1], [0, 0, 0]])
    mcmc = MCMC(NUTS(dirichlet, max_tree_depth=4), num_samples=120, warmup_steps=40, disable_progbar=True)
    mcmc.run(words, grammar, concentration=1.0)
    drawn = {n: pyro.distributions.Dirichlet(torch.ones(b.shape)).sample((4000,)) for n, b in grammar.blocks.items()}
    rows = {name: w[:, None] for name, w in drawn.items()}
    importance = Sentence(grammar, rows).log_prob(words).sum(-1).softmax(0)
    assert 1 / (importance**2).sum() > 400
    samples = mcmc.get_samples()["stop"]
    mean = torch.tensordot(importance, drawn["stop"], 1)
    error = samples.std(0) * (1 / 30 + 1 / 400) ** 0.5
    assert ((samples.mean(0) - mean).abs() < 4 * error).all()
    assert ((mean - 0.5).abs() > 4 * samples.std(0) / 120**0.5).any()  # not the prior's mean
