# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""models.maximum_likelihood and models.dirichlet.dirichlet, as Pyro sees them: traces, NUTS, Predictive."""

import math
from typing import Any

import numpy as np
import pyro
import pytest
import torch
from infer.tree_sums import collapsed, likelihood_and_counts, shapes
from pyro import poutine
from pyro.infer import MCMC, NUTS, Predictive
from pyro.infer.autoguide import AutoNormal
from pyro.ops.stats import effective_sample_size
from torch import Tensor
from torch.distributions import constraints

from pyrogram import DMV
from pyrogram.distributions import Sentence
from pyrogram.guides import MeanFieldDirichlet
from pyrogram.infer import EM, VariationalEM
from pyrogram.models import maximum_likelihood
from pyrogram.models.dirichlet import dirichlet

GRAMMAR = DMV(2)
SENTENCES = [[0], [1, 0], [0, 1, 1], [1, 0]]
WORDS = torch.tensor([[0, -1, -1], [1, 0, -1], [0, 1, 1], [1, 0, -1]])


def traced(model: Any, *args: Any, **kwargs: Any) -> Any:
    trace = poutine.trace(model).get_trace(*args, **kwargs)
    trace.compute_log_prob()
    return trace


@pytest.mark.parametrize("valence_attach", [False, True])
def test_maximum_likelihood_in_a_trace(valence_attach: bool) -> None:
    grammar = DMV(2, valence_attach=valence_attach)
    start = grammar.initial_weights(WORDS, "random", seed=0)
    trace = traced(maximum_likelihood, WORDS, grammar, initial_weights=start)
    expected, _ = likelihood_and_counts(SENTENCES, {name: w.numpy() for name, w in start.items()})
    assert float(trace.log_prob_sum().detach()) == pytest.approx(expected, rel=1e-12)
    assert set(trace.param_nodes) == {"root", "attach", "stop"}
    assert trace.nodes["words"]["fn"].batch_shape == (4,)
    for name, w in start.items():
        torch.testing.assert_close(pyro.param(name).detach(), w)


def test_maximum_likelihood_starts_harmonic_once() -> None:
    maximum_likelihood(WORDS, GRAMMAR)
    for name, w in GRAMMAR.initial_weights(WORDS).items():
        torch.testing.assert_close(pyro.param(name).detach(), w)
    maximum_likelihood(WORDS, GRAMMAR, initial_weights=GRAMMAR.initial_weights(WORDS, "uniform"))
    torch.testing.assert_close(pyro.param("root").detach(), GRAMMAR.initial_weights(WORDS)["root"])


@pytest.mark.parametrize("valence_attach", [False, True])
def test_dirichlet_in_a_trace(valence_attach: bool) -> None:
    grammar = DMV(2, valence_attach=valence_attach)
    trace = traced(dirichlet, WORDS, grammar, concentration=0.5)
    weights = {name: trace.nodes[name]["value"] for name in grammar.blocks}
    expected, _ = likelihood_and_counts(SENTENCES, {name: w.numpy() for name, w in weights.items()})
    for name, w in weights.items():
        prior = torch.distributions.Dirichlet(torch.full(grammar.blocks[name].shape, 0.5))
        assert trace.nodes[name]["fn"].batch_shape == ()
        expected += float(prior.log_prob(w).sum())
    assert float(trace.log_prob_sum()) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("batch_size", [1, 2, 3])
def test_minibatches_are_scaled(batch_size: int) -> None:
    trace = traced(dirichlet, WORDS, GRAMMAR, batch_size=batch_size)
    site = trace.nodes["words"]
    assert site["value"].shape == (batch_size, 3)
    assert site["scale"] == 4 / batch_size


def test_concentrations_by_block_and_learnt() -> None:
    alpha = {name: torch.rand(block.shape) + 0.5 for name, block in GRAMMAR.blocks.items()}
    kept = {name: a.clone() for name, a in alpha.items()}
    trace = traced(dirichlet, WORDS, GRAMMAR, concentration=alpha)
    for name in alpha:
        function = trace.nodes[name]["fn"]
        while isinstance(function, torch.distributions.Independent):
            function = function.base_dist
        assert torch.equal(function.concentration, alpha[name])
    trace = traced(dirichlet, WORDS, GRAMMAR, concentration=alpha, learn=True)
    assert set(trace.param_nodes) == {f"concentration.{name}" for name in GRAMMAR.blocks}
    with torch.no_grad():
        for name in alpha:
            pyro.param(f"concentration.{name}").unconstrained().add_(1.0)  # type: ignore[attr-defined]
    assert all(torch.equal(a, kept[name]) for name, a in alpha.items())


def test_wrong_arguments() -> None:
    for wrong in ([[0, 2]], [[0, -1, 1]], [[0], [-1]]):
        with pytest.raises(ValueError, match="site 'words'"):
            traced(dirichlet, torch.tensor(wrong), GRAMMAR)
    with pytest.raises(KeyError, match="attach"):
        dirichlet(WORDS, GRAMMAR, concentration={"root": torch.ones(2)})
    with pytest.raises(ValueError, match="concentration"):
        dirichlet(WORDS, GRAMMAR, concentration=-1.0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_default_dtype(dtype: torch.dtype) -> None:
    torch.set_default_dtype(dtype)
    trace = traced(dirichlet, WORDS, GRAMMAR, learn=True)
    assert {trace.nodes[name]["value"].dtype for name in GRAMMAR.blocks} == {dtype}
    assert trace.log_prob_sum().dtype == dtype
    assert traced(maximum_likelihood, WORDS, GRAMMAR).log_prob_sum().dtype == dtype


@pytest.mark.slow
def test_nuts_agrees_with_the_exact_posterior() -> None:
    """Means of the weights, against the sum over all tuples of trees; five standard errors, of the draws' own."""
    words, sentences = torch.tensor([[0, -1], [0, 0], [0, 0]]), [[0], [0, 0], [0, 0]]
    grammar = DMV(1)
    _, means = collapsed(sentences, {name: np.ones(shape) for name, shape in shapes(1, False).items()})
    pyro.set_rng_seed(1)
    kernel = NUTS(dirichlet, max_tree_depth=4)
    mcmc = MCMC(kernel, num_samples=200, warmup_steps=60, disable_progbar=True)
    mcmc.run(words, grammar, concentration=1.0)
    draws = mcmc.get_samples()["stop"]
    effective = effective_sample_size(draws[None], 0, 1)
    assert float(effective.min()) > 20
    error = draws.std(0) / effective.sqrt()
    deviation = (draws.mean(0) - torch.tensor(means["stop"])).abs() / error
    assert float(deviation.max()) < 5
    # And the prior's mean, 1/2, is told apart.
    assert float(((draws.mean(0) - 0.5).abs() / error).max()) > 5


def generate(num_sentences: int, grammar: DMV) -> None:
    """models.dirichlet without observations, short enough to be quick."""
    weights = {
        name: pyro.sample(name, pyro.distributions.Dirichlet(torch.ones(b.shape)).to_event(b.batch_dim))
        for name, b in grammar.blocks.items()
    }
    with pyro.plate("sentences", num_sentences):
        pyro.sample("words", Sentence(grammar, weights, max_length=4))


def test_predictive_one_by_one() -> None:
    """New sentences from the posterior, by Predictive with the guide that VB's posterior makes."""
    vb = VariationalEM(dirichlet).run(WORDS, GRAMMAR, num_steps=5, progress=False)
    posterior = vb.posterior()

    def guide(*args: Any) -> None:
        for name, q in posterior.items():
            pyro.sample(name, q)

    drawn = Predictive(generate, guide=guide, num_samples=6)(5, GRAMMAR)
    assert drawn["words"].shape == (6, 5, 4)
    assert drawn["words"].min() >= -1 and drawn["words"].max() <= 1
    assert (drawn["words"][..., 0] >= 0).all()


def test_predictive_in_parallel() -> None:
    """Vectorised over draws of the weights, which need a singleton for the plate of sentences."""
    vb = VariationalEM(dirichlet).run(WORDS, GRAMMAR, num_steps=5, progress=False)
    samples = {name: q.sample((6,)) for name, q in vb.posterior().items()}
    singletons = {name: s.unsqueeze(1) for name, s in samples.items()}
    drawn = Predictive(generate, singletons, num_samples=6, parallel=True)(5, GRAMMAR)
    assert drawn["words"].shape == (6, 5, 4)
    prior = Predictive(generate, num_samples=6, parallel=True)(5, GRAMMAR)
    assert prior["words"].shape == (6, 5, 4)
    assert prior["stop"].shape == (6, 1, 2, 2, 2, 2)


def test_predictive_log_likelihood() -> None:
    """The observed sentences' log-likelihood under draws of the weights, one by one and in parallel."""
    vb = VariationalEM(dirichlet).run(WORDS, GRAMMAR, num_steps=5, progress=False)
    samples = {name: q.sample((3,)) for name, q in vb.posterior().items()}
    expected = [
        likelihood_and_counts(SENTENCES, {name: s[i].numpy() for name, s in samples.items()})[0] for i in range(3)
    ]
    for i in range(3):
        trace = traced(poutine.condition(dirichlet, {name: s[i] for name, s in samples.items()}), WORDS, GRAMMAR)
        assert float(trace.nodes["words"]["log_prob_sum"]) == pytest.approx(expected[i], rel=1e-12)
    vectorised = pyro.plate("draws", 3, dim=-2)(dirichlet)
    singletons = {name: s.unsqueeze(1) for name, s in samples.items()}
    trace = traced(poutine.condition(vectorised, singletons), WORDS, GRAMMAR)
    assert trace.nodes["words"]["log_prob"].shape == (3, 4)
    assert trace.nodes["words"]["log_prob"].sum(1).tolist() == pytest.approx(expected, rel=1e-12)


def test_a_page_of_pyro_is_what_the_loops_read() -> None:
    """The same model as in the documentation's first page, written out."""

    def by_hand(words: Tensor) -> None:
        weights = {
            name: pyro.param(f"my {name}", GRAMMAR.initial_weights(words)[name], constraint=constraints.simplex)
            for name in GRAMMAR.blocks
        }
        with pyro.plate("sentences", len(words)) as i:
            pyro.sample("words", Sentence(GRAMMAR, weights), obs=words[i])

    ours = EM(maximum_likelihood).run(WORDS, GRAMMAR, num_steps=4, progress=False)
    theirs = EM(by_hand).run(WORDS, num_steps=4, progress=False)
    assert ours.history == theirs.history


def test_other_guides_run_too() -> None:
    """AutoNormal works on the model, with Pyro's bounds."""
    guide = AutoNormal(dirichlet)
    svi = pyro.infer.SVI(dirichlet, guide, pyro.optim.Adam({"lr": 0.01}), pyro.infer.Trace_ELBO())  # type: ignore
    assert math.isfinite(svi.step(WORDS, GRAMMAR, concentration=1.0))


def test_the_mean_field_guide_finds_a_sample_for_nuts_to_start() -> None:
    guide = MeanFieldDirichlet(dirichlet)
    draw = guide(WORDS, GRAMMAR)
    assert set(draw) >= set(GRAMMAR.blocks)
    assert all(torch.allclose(draw[name].sum(-1), torch.ones(())) for name in GRAMMAR.blocks)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_cuda() -> None:
    words = WORDS.cuda()
    for loop, model, options in (
        (EM, maximum_likelihood, {}),
        (EM, dirichlet, {"concentration": 1.5}),
        (VariationalEM, dirichlet, {}),
        (VariationalEM, dirichlet, {"learn": True}),
    ):
        histories = []
        for device_words in (WORDS, words):
            pyro.clear_param_store()
            learner = loop(model).run(device_words, GRAMMAR, num_steps=4, progress=False, **options)  # type: ignore[arg-type]
            histories.append(learner.history)
        assert {w.device.type for w in learner.weights().values()} == {"cuda"}
        assert histories[0] == pytest.approx(histories[1], rel=1e-9)
