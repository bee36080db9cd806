# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""SVI with the exact bound: what VariationalEM climbs, for Pyro's optimisers; and Pyro's own bounds beside it."""

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from infer.tree_sums import bound, collapsed, likelihood_and_counts, shapes
from pyro import poutine
from pyro.infer import SVI, Trace_ELBO, TraceMeanField_ELBO
from pyro.infer.autoguide import AutoDelta, AutoNormal
from torch import Tensor
from torch.distributions import kl_divergence

from pyrogram import DMV
from pyrogram.distributions import Sentence
from pyrogram.guides import MeanFieldDirichlet
from pyrogram.infer import EM, ModelError, TraceGrammar_ELBO, VariationalEM
from pyrogram.models import maximum_likelihood
from pyrogram.models.dirichlet import dirichlet

GRAMMAR = DMV(2)
SENTENCES = [[0], [1, 0], [0, 1, 1], [1, 0, 0]]
WORDS = torch.tensor([[0, -1, -1], [1, 0, -1], [0, 1, 1], [1, 0, 0]])
PRIOR = {name: np.full(shape, 0.5) for name, shape in shapes(2, False).items()}


def model(words: Tensor, **plate: Any) -> None:
    """models.dirichlet.dirichlet, but with a choice of minibatch."""
    weights = {
        name: pyro.sample(name, dist.Dirichlet(torch.tensor(PRIOR[name])).to_event(block.batch_dim))
        for name, block in GRAMMAR.blocks.items()
    }
    with pyro.plate("sentences", len(words), **plate) as i:
        pyro.sample("words", Sentence(GRAMMAR, weights), obs=words[i])


def some_counts(seed: int = 0) -> dict[str, Tensor]:
    generator = np.random.default_rng(seed)
    return {name: torch.tensor(generator.gamma(1.0, size=p.shape)) for name, p in PRIOR.items()}


@functools.cache
def converged() -> VariationalEM:
    vb = VariationalEM(model, initial_weights="harmonic")
    vb.run(WORDS, num_steps=3000, tolerance=1e-15, progress=False)
    return vb


def fitted_counts(vb: VariationalEM) -> dict[str, Tensor]:
    return {name: vb._state.posterior[name] - torch.tensor(PRIOR[name]) for name in PRIOR}


def gradients(loss: Any, guide: Any, **options: Any) -> dict[str, Tensor]:
    """Gradients in all unconstrained parameters of the guide."""
    loss.loss(model, guide, WORDS, **options)  # makes them
    guide.zero_grad()
    loss.loss_and_grads(model, guide, WORDS, **options)
    return {name: p.grad.clone() for name, p in guide.named_parameters()}


@pytest.mark.parametrize("seed", range(3))
def test_the_loss_is_minus_the_bound(seed: int) -> None:
    counts = some_counts(seed)
    guide = MeanFieldDirichlet(model, initial_counts=counts)
    posterior = {name: PRIOR[name] + c.numpy() for name, c in counts.items()}
    expected = -bound(SENTENCES, posterior, PRIOR)
    loss = TraceGrammar_ELBO()
    assert loss.loss(model, guide, WORDS) == pytest.approx(expected, rel=1e-12)
    assert loss.loss_and_grads(model, guide, WORDS) == pytest.approx(expected, rel=1e-12)
    assert float(loss.differentiable_loss(model, guide, WORDS).detach()) == pytest.approx(expected, rel=1e-12)
    assert float(loss(model, guide)(WORDS).detach()) == pytest.approx(expected, rel=1e-12)  # as an ELBOModule


def test_the_gradient_is_that_of_finite_differences() -> None:
    guide = MeanFieldDirichlet(model, initial_counts=some_counts())
    loss = TraceGrammar_ELBO()
    found = gradients(loss, guide)
    assert len(found) == 3
    for name, parameter in guide.named_parameters():
        for index in itertools.islice(np.ndindex(tuple(parameter.shape)), 0, None, 3):
            values = []
            for step in (1e-5, -1e-5):
                with torch.no_grad():
                    parameter[index] += step
                values.append(loss.loss(model, guide, WORDS))
                with torch.no_grad():
                    parameter[index] -= step
            assert float(found[name][index]) == pytest.approx((values[0] - values[1]) / 2e-5, rel=1e-5, abs=1e-7)


def test_the_gradient_vanishes_where_vb_stands_still() -> None:
    vb = converged()
    guide = MeanFieldDirichlet(model, initial_counts=fitted_counts(vb))
    loss = TraceGrammar_ELBO()
    assert loss.loss(model, guide, WORDS) == pytest.approx(-vb.history[-1], rel=1e-12)
    assert max(float(g.abs().max()) for g in gradients(loss, guide).values()) < 1e-6
    elsewhere = {name: c + 0.1 for name, c in fitted_counts(vb).items()}
    pyro.clear_param_store()
    other = MeanFieldDirichlet(model, initial_counts=elsewhere)
    assert max(float(g.abs().max()) for g in gradients(loss, other).values()) > 1e-3


@pytest.mark.parametrize("local", [pytest.param(False, marks=pytest.mark.slow), True])
def test_svi_reaches_what_vb_reaches(local: bool) -> None:
    with pyro.settings.context(module_local_params=local):
        vb = converged()
        guide = MeanFieldDirichlet(model, initial_counts=fitted_counts(vb))
        loss = TraceGrammar_ELBO()
        loss.loss(model, guide, WORDS)
        with torch.no_grad():
            for parameter in guide.parameters():
                parameter += 0.2 * torch.randn_like(parameter)
        start = loss.loss(model, guide, WORDS)
        optimiser = pyro.optim.ExponentialLR(  # type: ignore[attr-defined]
            {"optimizer": torch.optim.Adam, "optim_args": {"lr": 0.1}, "gamma": 0.975}
        )
        svi = SVI(model, guide, optimiser, loss)
        for _ in range(220):
            last = svi.step(WORDS)
            optimiser.step()
        assert start > last + 0.01
        assert last == pytest.approx(-vb.history[-1], abs=1e-5)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_minibatches_are_unbiased(size: int) -> None:
    """The mean over all minibatches is the whole: exactly, for the bound and its gradient."""
    guide = MeanFieldDirichlet(model, initial_counts=some_counts())
    loss = TraceGrammar_ELBO()
    whole, whole_gradients = loss.loss(model, guide, WORDS), gradients(loss, guide)
    subsets = list(itertools.combinations(range(len(WORDS)), size))
    values, parts = [], []
    for subset in subsets:
        chosen = torch.tensor(subset)
        values.append(loss.loss(model, guide, WORDS, subsample=chosen))
        parts.append(gradients(loss, guide, subsample=chosen))
    assert len(set(values)) > 1
    assert np.mean(values) == pytest.approx(whole, rel=1e-12)
    for name, gradient in whole_gradients.items():
        torch.testing.assert_close(sum(part[name] for part in parts) / len(parts), gradient)


@pytest.mark.parametrize("elbo", [Trace_ELBO, TraceMeanField_ELBO])
def test_minibatches_of_pyro_s_bounds_are_unbiased(elbo: type[Any]) -> None:
    """Given the draw of the weights."""
    guide = MeanFieldDirichlet(model, initial_counts=some_counts())
    loss = elbo()

    def value(**plate: Any) -> float:
        pyro.set_rng_seed(3)
        return float(loss.loss(model, guide, WORDS, **plate))

    whole = value()
    values = [value(subsample=torch.tensor(pair)) for pair in itertools.combinations(range(len(WORDS)), 2)]
    assert np.mean(values) == pytest.approx(whole, rel=1e-12)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("elbo", [Trace_ELBO, TraceMeanField_ELBO, TraceGrammar_ELBO])
@pytest.mark.parametrize("batch_size", [None, 2])
def test_svi_runs_with_any_bound(elbo: type[Any], batch_size: int | None) -> None:
    guide = MeanFieldDirichlet(dirichlet)
    svi = SVI(dirichlet, guide, pyro.optim.Adam({"lr": 0.02}), elbo())  # type: ignore[attr-defined]
    losses = [svi.step(WORDS, GRAMMAR, batch_size=batch_size) for _ in range(60)]
    assert np.isfinite(losses).all()
    assert np.mean(losses[-15:]) < np.mean(losses[:15])


def test_which_bound_is_higher() -> None:
    """Summing derivations out under every draw of the weights is better than a q(derivations), and below the truth."""
    vb = converged()
    guide = MeanFieldDirichlet(model, initial_counts=fitted_counts(vb))
    loss = Trace_ELBO()
    draws = np.array([-loss.loss(model, guide, WORDS) for _ in range(200)])
    error = draws.std() / len(draws) ** 0.5
    log_evidence, _ = collapsed(SENTENCES, PRIOR)
    assert vb.history[-1] < draws.mean() - 2 * error
    assert draws.mean() + 2 * error < log_evidence


def test_the_divergence_is_known() -> None:
    """TraceMeanField_ELBO would silently fall back on sampling."""
    guide = MeanFieldDirichlet(model, initial_counts=some_counts())
    there = poutine.trace(guide).get_trace(WORDS)
    here = poutine.trace(model).get_trace(WORDS)
    for name in GRAMMAR.blocks:
        divergence = kl_divergence(there.nodes[name]["fn"], here.nodes[name]["fn"])
        assert divergence.shape == () and float(divergence.detach()) > 0


def test_parameters_beside_the_guide() -> None:
    """Maximum likelihood, without any latent site: the loss is minus the log-likelihood, its gradient the counts'."""
    guide: Callable[..., None] = lambda *args, **kwargs: None  # noqa: E731
    loss = TraceGrammar_ELBO()
    start = {name: torch.distributions.Dirichlet(torch.ones(b.shape)).sample() for name, b in GRAMMAR.blocks.items()}
    found = loss.loss_and_grads(maximum_likelihood, guide, WORDS, GRAMMAR, initial_weights=start)
    expected, counts = likelihood_and_counts(SENTENCES, {name: w.numpy() for name, w in start.items()})
    assert found == pytest.approx(-expected, rel=1e-12)
    for name, w in start.items():
        total = counts[name].sum(-1, keepdims=True)
        # in the logits: f - (sum f) w
        gradient = pyro.param(name).unconstrained().grad  # type: ignore[attr-defined]
        np.testing.assert_allclose(-gradient.numpy(), counts[name] - total * w.numpy(), rtol=1e-9, atol=1e-12)


def test_a_learnt_prior_gets_a_gradient() -> None:
    guide = MeanFieldDirichlet(dirichlet)
    svi = SVI(dirichlet, guide, pyro.optim.Adam({"lr": 0.05}), TraceGrammar_ELBO())  # type: ignore[attr-defined]
    losses = [svi.step(WORDS, GRAMMAR, learn=True) for _ in range(40)]
    assert losses[-1] < losses[0]
    assert float(pyro.param("concentration.attach").detach()) != 0.25


@pytest.mark.parametrize("elbo", [Trace_ELBO, pytest.param(TraceGrammar_ELBO, marks=pytest.mark.slow)])
def test_maximum_likelihood_by_svi_is_em(elbo: type[Any]) -> None:
    em = EM(maximum_likelihood, initial_weights="harmonic")
    em.run(WORDS, GRAMMAR, num_steps=400, tolerance=1e-12, progress=False)
    pyro.clear_param_store()
    optimiser = pyro.optim.Adam({"lr": 0.1})  # type: ignore[attr-defined]
    svi = SVI(maximum_likelihood, lambda *args, **kwargs: None, optimiser, elbo())
    losses = [svi.step(WORDS, GRAMMAR) for _ in range(300)]
    assert losses[0] == pytest.approx(-em.history[0], rel=1e-12)
    assert losses[-1] == pytest.approx(-em.history[-1], abs=0.02)  # weights of zero are far away for logits


# ---------------------------------------------------------------------- refused


def observe(weights: Any) -> None:
    with pyro.plate("sentences", len(WORDS)):
        pyro.sample("words", Sentence(GRAMMAR, weights), obs=WORDS)


def own_priors(**replaced: Tensor) -> dict[str, Tensor]:
    return {
        name: pyro.sample(name, dist.Dirichlet(replaced.get(name, torch.ones(block.shape))).to_event(block.batch_dim))
        for name, block in GRAMMAR.blocks.items()
    }


def transformed() -> None:
    weights = own_priors()
    observe({**weights, "stop": 0.9 * weights["stop"] + 0.05})


def gamma() -> None:
    pyro.sample("alpha", dist.Gamma(1.0, 1.0))
    observe(own_priors())


def also_a_number() -> None:
    observe(own_priors())
    pyro.sample("height", dist.Normal(0.0, 1.0), obs=torch.tensor(0.3))


def logarithms() -> None:
    weights = {name: w.log() for name, w in own_priors().items()}
    with pyro.plate("sentences", len(WORDS)):
        pyro.sample("words", Sentence(GRAMMAR, log_weights=weights), obs=WORDS)


def masked_sentences() -> None:
    weights = own_priors()
    with pyro.plate("sentences", len(WORDS)), poutine.mask(mask=torch.tensor([True, False, True, True])):
        pyro.sample("words", Sentence(GRAMMAR, weights), obs=WORDS)


def masked_prior() -> None:
    with poutine.mask(mask=False):
        weights = own_priors()
    observe(weights)


def hierarchical() -> None:
    weights = {"root": pyro.sample("root", dist.Dirichlet(torch.ones(2)))}
    weights["attach"] = pyro.sample("attach", dist.Dirichlet(3 * weights["root"].expand(2, 2, 2)).to_event(2))
    weights["stop"] = pyro.sample("stop", dist.Dirichlet(torch.ones(2, 2, 2, 2)).to_event(3))
    observe(weights)


def mean_field(model: Callable[[], None]) -> Callable[[], None]:
    """A guide for the three blocks, by hand."""

    def guide() -> None:
        own_priors()

    return guide


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (transformed, "block 'stop' of site 'words'"),
        (gamma, "latent site 'alpha', not Gamma without a guide"),
        (also_a_number, "not 'height'"),
        (logarithms, "Sentence sites with weights=, not 'words'"),
        (masked_sentences, "unmasked Sentence sites.*not 'words'"),
        (masked_prior, "mask on latent site 'root'"),
        (hierarchical, "site 'attach' depends on 'root'"),
    ],
)
def test_models_refused_by_name(model: Callable[[], None], message: str) -> None:
    for method in ("loss", "loss_and_grads"):
        with pytest.raises(ModelError, match=message) as caught:
            getattr(TraceGrammar_ELBO(), method)(model, mean_field(model))
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("guide", [AutoNormal, AutoDelta])
def test_guides_refused_by_name(guide: type[Any]) -> None:
    with pytest.raises(ModelError, match="'root'"):
        TraceGrammar_ELBO().loss(model, guide(model), WORDS)


def test_guides_that_are_no_mean_field() -> None:
    def plain() -> None:
        observe(own_priors())

    def structured() -> None:
        root = pyro.sample("root", dist.Dirichlet(torch.ones(2)))
        pyro.sample("attach", dist.Dirichlet(2 * root.expand(2, 2, 2)).to_event(2))
        pyro.sample("stop", dist.Dirichlet(torch.ones(2, 2, 2, 2)).to_event(3))

    def auxiliary() -> None:
        pyro.sample("extra", dist.Dirichlet(torch.ones(2)), infer={"is_auxiliary": True})
        own_priors()

    with pytest.raises(ModelError, match="site 'attach' depends on 'root'"):
        TraceGrammar_ELBO().loss(plain, structured)
    with pytest.raises(ModelError, match="no site 'extra' in the model"):
        TraceGrammar_ELBO().loss(plain, auxiliary)
    assert TraceGrammar_ELBO().loss(plain, mean_field(plain)) > 0
