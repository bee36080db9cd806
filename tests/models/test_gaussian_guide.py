# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""guides.MeanFieldGaussian: where it starts, minibatches, the optimum where it is known, states, refusals."""

import io
import math
import pickle
from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine
from pyro.infer import SVI, Trace_ELBO, TraceMeanField_ELBO
from torch import Tensor

from pyrogram import CFG, DMV
from pyrogram.distributions import PackedDirichlet, Sentence
from pyrogram.distributions import logistic_normal as draw
from pyrogram.guides import MeanFieldDirichlet, MeanFieldGaussian
from pyrogram.infer import TraceGrammar_ELBO
from pyrogram.models import initial_experts
from pyrogram.models.dirichlet import dirichlet
from pyrogram.models.logistic_normal import logistic_normal

GRAMMAR = DMV(2, valence_attach=True)
WORDS = torch.tensor([[0, -1, -1], [1, 0, -1], [0, 1, 1], [1, 0, -1], [1, 1, -1]])
MATRIX = torch.tensor([[2.0, 0.9], [0.9, 1.0]], dtype=torch.float64)


@pytest.fixture(autouse=True, params=[False, True], ids=["global", "local"])
def module_local_params(request: pytest.FixtureRequest) -> Any:
    with pyro.settings.context(module_local_params=request.param):
        yield


def model(batch_size: int | None = None) -> None:
    start = GRAMMAR.initial_weights(WORDS, "random", seed=0)
    prior = initial_experts(WORDS, GRAMMAR, start, dict.fromkeys(GRAMMAR.blocks, MATRIX))
    logistic_normal(WORDS, GRAMMAR, prior=prior, batch_size=batch_size)


@pytest.mark.parametrize("batch_size", [None, 2])
def test_where_it_starts(batch_size: int | None) -> None:
    """At the prior's mean; variances are those of a coordinate given the others, 1 / (inverse of MATRIX)_ii."""
    guide = MeanFieldGaussian(model)
    guide(batch_size)
    expected = [(1.19 / 1.0) ** 0.5, (1.19 / 2.0) ** 0.5]  # the inverse is ((1, -0.9), (-0.9, 2)) / 1.19
    start = GRAMMAR.initial_weights(WORDS, "random", seed=0)
    for name, block in GRAMMAR.blocks.items():
        loc, scale = getattr(guide.locs, name).eta, getattr(guide.scales, name).eta
        torch.testing.assert_close(loc.detach(), start[name].clamp_min(1e-4).log().expand(5, *block.shape))
        torch.testing.assert_close(scale.detach(), torch.tensor(expected).expand(5, *block.shape))


def test_parameters_have_names() -> None:
    guide = MeanFieldGaussian(model)
    guide()
    assert {name for name, _ in guide.named_parameters()} == {
        f"{kind}.{name}.eta_unconstrained" for name in GRAMMAR.blocks for kind in ("locs", "scales")
    }


def test_minibatches_use_their_rows() -> None:
    """Parameters for all sentences; the guide draws around those of the minibatch, and no others have a gradient."""
    guide = MeanFieldGaussian(model)
    guide(2)
    with torch.no_grad():
        guide.locs.attach.eta.copy_(torch.arange(5.0).reshape(5, 1, 1, 1, 1).expand_as(guide.locs.attach.eta))
        guide.scales.attach.eta_unconstrained.fill_(-9.0)
    seen: set[int] = set()
    for seed in range(5):
        pyro.set_rng_seed(seed)
        guide_trace = poutine.trace(guide).get_trace(2)
        rows = guide_trace.nodes["sentences"]["value"]
        drawn = guide_trace.nodes["attach.eta"]["value"]
        assert drawn.shape == (2, *GRAMMAR.blocks["attach"].shape)
        torch.testing.assert_close(
            drawn, rows.to(drawn.dtype)[:, None, None, None, None].expand(drawn.shape), rtol=0, atol=0.01
        )
        pyro.set_rng_seed(seed)
        guide.zero_grad()
        Trace_ELBO().loss_and_grads(model, guide, 2)
        for name in GRAMMAR.blocks:
            for kind in (guide.locs, guide.scales):
                gradient = getattr(kind, name).eta_unconstrained.grad
                touched = gradient.flatten(1).abs().sum(1).nonzero()[:, 0].tolist()
                assert set(touched) <= set(rows.tolist())
                assert name == "root" or touched == sorted(rows.tolist())
        seen |= set(rows.tolist())
    assert len(seen) > 2


def test_the_optimum_of_a_gaussian_model() -> None:
    """Mean field of a Gaussian: the exact mean, and the variance of each coordinate given the others."""
    observed = torch.tensor([1.0, -2.0])

    def gaussian_model() -> None:
        eta = pyro.sample("eta", dist.MultivariateNormal(torch.zeros(2), MATRIX))
        pyro.sample("x", dist.Normal(eta, 0.5).to_event(1), obs=observed)

    precision = MATRIX.inverse() + 4 * torch.eye(2)
    mean = precision.inverse() @ (4 * observed)
    guide = MeanFieldGaussian(gaussian_model)
    optimiser = pyro.optim.ClippedAdam({"lr": 0.1, "lrd": 0.97})
    elbo = Trace_ELBO(num_particles=16, vectorize_particles=True, max_plate_nesting=0)
    svi = SVI(gaussian_model, guide, optimiser, elbo)
    for _ in range(120):
        svi.step()
    torch.testing.assert_close(guide.locs.eta.detach(), mean, rtol=0, atol=0.03)
    torch.testing.assert_close(guide.scales.eta.detach(), precision.diagonal().rsqrt(), rtol=0.05, atol=0)


def test_untouched_sites_are_at_their_optimum_from_the_start() -> None:
    """No data: the gradient of the exact divergence vanishes."""

    def prior_only() -> None:
        draw("w", torch.tensor([1.0, -1.0]), MATRIX)

    guide = MeanFieldGaussian(prior_only)
    guide()
    q = dist.MultivariateNormal(guide.locs.w.eta, torch.diag(guide.scales.w.eta**2))
    divergence = torch.distributions.kl_divergence(q, dist.MultivariateNormal(torch.tensor([1.0, -1.0]), MATRIX))
    for gradient in torch.autograd.grad(divergence, list(guide.parameters())):
        torch.testing.assert_close(gradient, torch.zeros(2))


def mixed(words: Tensor) -> None:
    """Dirichlet attachments and roots for the corpus, logistic normal stops for each sentence."""
    weights = {
        name: pyro.sample(name, dist.Dirichlet(torch.ones(b.shape)).to_event(b.batch_dim))
        for name, b in GRAMMAR.blocks.items()
        if name != "stop"
    }
    with pyro.plate("sentences", len(words)) as i:
        weights["stop"] = draw("stop", 0.0, variance=1.0, shape=GRAMMAR.blocks["stop"].shape)
        pyro.sample("words", Sentence(GRAMMAR, weights), obs=words[i])


@pytest.mark.parametrize("elbo", [Trace_ELBO, TraceMeanField_ELBO])
def test_dirichlet_sites_have_dirichlets(elbo: Any) -> None:
    guide = MeanFieldGaussian(mixed, initial_counts={"root": torch.tensor([2.0, 3.0])})
    svi = SVI(mixed, guide, pyro.optim.Adam({"lr": 0.05}), elbo())  # type: ignore[attr-defined]
    assert all(math.isfinite(svi.step(WORDS)) for _ in range(3))
    names = {name.split(".")[0] for name, _ in guide.named_parameters()}
    assert names == {"concentrations", "locs", "scales"}
    pyro.clear_param_store()
    guide = MeanFieldGaussian(mixed, initial_counts={"root": torch.tensor([2.0, 3.0])})
    guide(WORDS)
    torch.testing.assert_close(guide.concentrations.root.detach(), torch.tensor([3.0, 4.0]))
    alone = MeanFieldGaussian(dirichlet)
    assert isinstance(alone, MeanFieldDirichlet) and alone(WORDS, GRAMMAR)["root"].shape == (2,)


def test_packed_dirichlets_have_packed_dirichlets() -> None:
    """The packed sites of a context-free grammar, as those of plain blocks."""
    grammar = CFG.from_string("S -> A S | A\nA -> 'a' | 'b' | 'c'")
    guide = MeanFieldGaussian(dirichlet, initial_counts={"rules": torch.arange(1.0, 6.0)})
    svi = SVI(dirichlet, guide, pyro.optim.Adam({"lr": 1e-6}), TraceGrammar_ELBO())  # type: ignore[attr-defined]
    assert math.isfinite(svi.step(grammar.encode(["a b", "c"]), grammar, concentration=0.5))
    q: Any = poutine.trace(guide).get_trace(grammar.encode(["a"]), grammar).nodes["rules"]["fn"]
    assert isinstance(q, PackedDirichlet) and q.sizes == grammar.blocks["rules"].sizes
    torch.testing.assert_close(q.concentration.detach(), 0.5 + torch.arange(1.0, 6.0), rtol=1e-4, atol=0)


def test_states_go_through_files_and_pickles() -> None:
    guide = MeanFieldGaussian(model)
    svi = SVI(model, guide, pyro.optim.Adam({"lr": 0.1}), Trace_ELBO())  # type: ignore[attr-defined]
    for _ in range(3):
        svi.step()
    learnt = {name: p.detach().clone() for name, p in guide.named_parameters()}
    file, data = io.BytesIO(), pickle.dumps(guide)
    torch.save(guide.state_dict(), file)
    file.seek(0)
    pyro.clear_param_store()
    other = MeanFieldGaussian(model)
    other()
    assert not torch.allclose(other.locs.stop.eta, learnt["locs.stop.eta_unconstrained"])
    other.load_state_dict(torch.load(file, weights_only=True))
    for copy in (other, pickle.loads(data)):
        found = dict(copy.named_parameters())
        assert set(found) == set(learnt)
        assert all(torch.equal(found[name].detach(), p) for name, p in learnt.items())


def test_other_sites_are_refused_by_name() -> None:
    def gamma() -> None:
        pyro.sample("alpha", dist.Gamma(1.0, 1.0))

    with pytest.raises(NotImplementedError, match=r"MeanFieldGaussian has no family for latent site 'alpha' \(Gamma\)"):
        MeanFieldGaussian(gamma)()


def test_plates_instead_of_events() -> None:
    def plated() -> None:
        with pyro.plate("heads", 4):
            pyro.sample("a.b", dist.Normal(torch.zeros(()), 2.0))

    guide = MeanFieldGaussian(plated)
    assert guide()["a.b"].shape == (4,)
    torch.testing.assert_close(guide.scales.a.b.detach(), torch.full((4,), 2.0))
    assert abs(Trace_ELBO().loss(plated, guide)) < 1e-12
