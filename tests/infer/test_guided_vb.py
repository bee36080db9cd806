# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Variational EM with a guide for latent values that have no closed form; the trees of all sentences are listed."""

import functools
import itertools
import math
from collections.abc import Callable
from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
from infer.computed_models import (
    FEATURES,
    GRAMMAR,
    MODELESS,
    MODELS,
    WORDS,
    V,
    a_root_for_each_sentence,
    dirichlets,
    expected,
    features,
    hierarchical_dirichlet,
    log_joint,
    observe,
    sentences,
    softmax_of_normals,
    stick_breaking,
)
from pyro import poutine
from pyro.infer import SVI, Predictive, Trace_ELBO
from pyro.infer.autoguide import AutoDelta, AutoLowRankMultivariateNormal, AutoNormal
from pyro.optim import Adam  # type: ignore[attr-defined]
from torch import Tensor
from torch.distributions import constraints

from pyrogram.distributions import Sentence
from pyrogram.infer import EM, ModelError, TreeGibbs, VariationalEM

pytestmark = pytest.mark.usefixtures("doubles")

MADE = {**MODELS, **{name: lambda model=model: model for name, model in MODELESS.items()}}
GUIDED = [
    name
    for name in MADE
    if name not in ("logistic_normal_of_the_corpus", "conditioned", "sparse", "learnt_concentration", "moving_support")
]


def bound_at_a_point(model: Callable[[], None], loop: VariationalEM, points: dict[str, Tensor]) -> float:
    """E_q[log p] + H(q), z at a point: Dirichlets at exp E_q[log w], at which their log density is its expectation."""
    posterior, values, entropy = loop.posterior(), dict(points), 0.0
    for name, q in posterior.items():
        base = getattr(q, "base_dist", q)
        alpha = torch.stack([base.concentration1, base.concentration0], -1) if hasattr(base, "concentration1") else None
        concentration = base.concentration if alpha is None else alpha
        logs = concentration.digamma() - concentration.sum(-1, keepdim=True).digamma()
        values[name] = logs.exp() if alpha is None else logs
        entropy += float(torch.distributions.Dirichlet(concentration).entropy().sum())
    with pyro.validation_enabled(False), torch.no_grad():
        return float(log_joint(model, values)) + entropy


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", [n for n in GUIDED if n not in ("beta_stops", "stick_breaking")])
def test_bound(name: str) -> None:
    """With every z at a point the bound is the log joint at exp E_q[log w], and the entropy of Dirichlets."""
    model = MADE[name]()
    pyro.set_rng_seed(0)
    loop = VariationalEM(model, guide=AutoDelta, guide_steps=3, guide_draws=1, initial_weights="uniform")
    loop.step()
    for _ in range(5):
        found = poutine.trace(loop.guide).get_trace().nodes
        posterior = loop.posterior()
        points = {n: s["value"].detach() for n, s in found.items() if s["type"] == "sample" and n not in posterior}
        expected = bound_at_a_point(model, loop, points)
        assert loop.step() == pytest.approx(expected, rel=1e-9)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "name", ["features", "network", "tied_and_computed", "tempered_dirichlets", "masked_sentences"]
)
def test_never_falls(name: str) -> None:
    """Without a latent value for a guide the bound is exact."""
    loop = VariationalEM(MADE[name](), guide_steps=4, initial_weights="uniform")
    loop.run(num_steps=30, tolerance=0, progress=False)
    assert not loop.may_fall
    assert all(b >= a - 1e-9 * abs(a) for a, b in itertools.pairwise(loop.history))
    assert loop.history[-1] > loop.history[0] + 0.1


@pytest.mark.slow
def test_gaussian_beside() -> None:
    """A Gaussian that has nothing to do with the sentences adds its evidence, and q is its posterior."""

    def plain() -> None:
        observe(dirichlets("root", "attach", "stop"))

    def model() -> None:
        height = pyro.sample("height", dist.Normal(0.0, 1.0))
        pyro.sample("seen", dist.Normal(height, 1.0), obs=torch.tensor(0.6))
        plain()

    optim = functools.partial(torch.optim.Adam, lr=0.02)
    loop = VariationalEM(model, guide=AutoNormal, guide_steps=20, optim=optim).run(
        num_steps=40, tolerance=0, progress=False
    )
    alone = VariationalEM(plain).run(num_steps=40, tolerance=0, progress=False)
    evidence = float(dist.Normal(0.0, math.sqrt(2.0)).log_prob(torch.tensor(0.6)))
    assert loop.history[-1] == pytest.approx(alone.history[-1] + evidence, abs=3e-2)
    parameters = loop.state_dict()
    assert float(parameters["parameters.AutoNormal.locs.height"]) == pytest.approx(0.3, abs=0.15)
    torch.testing.assert_close(loop.weights(), alone.weights(), rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_expected_logs() -> None:
    """E_q[log w] and E_q[w] are averages over the guide; here they are found by many draws at once."""
    still = functools.partial(torch.optim.SGD, lr=0.0)

    def model() -> None:
        eta = pyro.sample("eta", dist.Normal(torch.zeros(V), 1.0).to_event(1))
        observe({"root": eta.softmax(-1), "attach": torch.full((V, 2, V), 1 / V), "stop": HALVES})

    guide = functools.partial(AutoNormal, init_scale=1.5)
    loop = VariationalEM(model, guide=guide, optim=still, guide_steps=1, guide_draws=1000)
    bound = loop.step()
    eta = 1.5 * torch.randn(200_000, V, generator=torch.Generator().manual_seed(1))
    logs = eta.log_softmax(-1).mean(0)
    weights = {"root": logs.exp(), "attach": torch.full((V, 2, V), 1 / V), "stop": HALVES}
    divergence = V * (1.5**2 / 2 - 0.5 - math.log(1.5))
    assert bound == pytest.approx(float(sentences(weights).sum()) - divergence, abs=0.15)
    torch.testing.assert_close(loop.weights()["root"], eta.softmax(-1).mean(0), atol=0.02, rtol=0)


HALVES = torch.full((V, 2, 2, 2), 0.5, dtype=torch.float64)


@pytest.mark.parametrize(
    "model",
    [pytest.param(m, marks=pytest.mark.slow) for m in (softmax_of_normals, stick_breaking)] + [hierarchical_dirichlet],
)
def test_bounds_are_below_the_evidence(model: Callable[[], None]) -> None:
    """The loop's own bound is below the marginal one, and this below the evidence, and not by much."""
    pyro.set_rng_seed(1)
    loop = VariationalEM(model, guide_steps=8, guide_draws=4).run(num_steps=20, tolerance=0, progress=False)
    marginal, error = loop.marginal_bound(150)
    with torch.no_grad():
        draws = [poutine.trace(loop.guide).get_trace() for _ in range(100)]
        joints = [poutine.trace(poutine.replay(model, d)).get_trace().log_prob_sum() - d.log_prob_sum() for d in draws]
    evidence = float(torch.stack(joints).logsumexp(0)) - math.log(len(joints))
    assert error < 0.3
    assert sum(loop.history[-10:]) / 10 < marginal < evidence + 3 * error
    assert marginal > evidence - 2


@pytest.mark.slow
def test_is_as_good_as_svi() -> None:
    """Pyro's SVI over the same family finds no better bound."""
    loop = VariationalEM(softmax_of_normals, guide_steps=10).run(num_steps=60, tolerance=0, progress=False)
    found, error = loop.marginal_bound(400)
    guide = AutoNormal(softmax_of_normals)
    svi = SVI(softmax_of_normals, guide, Adam({"lr": 0.05}), Trace_ELBO())
    for _ in range(200):
        svi.step()
    with torch.no_grad():
        other = -Trace_ELBO(num_particles=200).loss(softmax_of_normals, guide)
    assert found > other - 3 * error - 0.3


@pytest.mark.slow
def test_fixed_point() -> None:
    """Of scaled priors and sentences: q of a Dirichlet is 1 + s (α - 1) + c f, and z is where the bound is flat."""

    def model() -> None:
        with poutine.scale(scale=0.25):
            weights = dirichlets("root", "stop")
        theta = pyro.sample("theta", dist.Normal(torch.zeros(4), 2.0).to_event(1))
        with poutine.scale(scale=3.0):
            observe({**weights, "attach": (FEATURES @ theta).softmax(-1)})

    optim = functools.partial(torch.optim.Adam, lr=0.01)
    loop = VariationalEM(model, guide=AutoDelta, guide_steps=30, optim=optim)
    loop.run(num_steps=60, tolerance=0, progress=False)
    theta = poutine.trace(loop.guide).get_trace().nodes["theta"]["value"].detach().clone().requires_grad_()
    weights = {"attach": (FEATURES @ theta).softmax(-1)}
    posterior = {n: q.base_dist.concentration if n == "stop" else q.concentration for n, q in loop.posterior().items()}  # type: ignore[attr-defined]
    for name, q in posterior.items():
        weights[name] = (q.digamma() - q.sum(-1, keepdim=True).digamma()).exp()
    counts = expected({n: w.detach() for n, w in weights.items()})
    for name, q in posterior.items():
        torch.testing.assert_close(q, 1 + 0.25 * 0.5 + 3 * counts[name], rtol=1e-2, atol=1e-2)
    bound = 3 * (counts["attach"] * weights["attach"].log()).sum() - (theta / 2).square().sum() / 2
    (slope,) = torch.autograd.grad(bound, theta)
    assert float(slope.abs().max()) < 0.1


# ---------------------------------------------------------------------- guides of one's own


def test_guide_of_ones_own() -> None:
    """Its sites are its own, Dirichlets among them; the arguments are the model's; an amortised one will do."""

    def model(words: Tensor, scale: float) -> None:
        weights = dirichlets("attach", "stop")
        with pyro.plate("sentences", len(words)):
            z = pyro.sample("z", dist.Normal(torch.zeros(V), scale).to_event(1))
            observe_each({**weights, "root": z.softmax(-1)}, words)

    def observe_each(weights: dict[str, Tensor], words: Tensor) -> None:
        from infer.computed_models import GRAMMAR

        from pyrogram.distributions import Sentence

        pyro.sample("words", Sentence(GRAMMAR, weights), obs=words)

    def guide(words: Tensor, scale: float) -> None:
        table = pyro.param("table", torch.zeros(V, V))
        q = pyro.param("q", torch.full((V, 2, V), 1.5), constraint=constraints.positive)
        pyro.sample("attach", dist.Dirichlet(q).to_event(2))
        bags = torch.nn.functional.one_hot(words.clamp_min(0), V).double() * (words >= 0)[..., None]
        with pyro.plate("sentences", len(words)):
            pyro.sample("z", dist.Normal(bags.mean(1) @ table, 0.5).to_event(1))

    loop = VariationalEM(model, guide=guide, guide_steps=5)
    loop.run(WORDS, 1.0, num_steps=10, tolerance=0, progress=False)
    assert set(loop.posterior()) == {"stop"}
    assert float(pyro.param("table").detach().abs().max()) > 0.05
    assert loop.history[-1] > loop.history[0]
    assert loop.weights()["root"].shape == (len(WORDS), V)


def test_guide_that_lacks_a_site() -> None:
    def guide() -> None:
        pass

    with pytest.raises(ModelError, match="needs a guide that draws latent site 'eta'"):
        VariationalEM(softmax_of_normals, guide=guide).step()


def test_sites_and_parameters_of_guides() -> None:
    """All latent sites, and no others; parameters that Pyro knows, and that are not weights."""

    class Part(AutoNormal):
        def __init__(self, model: Callable[..., None]) -> None:
            super().__init__(poutine.block(model, hide=["eta"]))

    with pytest.raises(ModelError, match="needs a guide that draws latent site 'eta'; add the site to it"):
        VariationalEM(softmax_of_normals, guide=Part).step()

    def with_another_site() -> None:
        loc = pyro.param("loc", torch.zeros(V, 2, V))
        pyro.sample("eta", dist.Normal(loc, 0.5).to_event(3))
        pyro.sample("etta", dist.Normal(0.0, 1.0))

    with pytest.raises(ModelError, match="found no latent site 'etta', which the guide draws"):
        VariationalEM(softmax_of_normals, guide=with_another_site).step()

    encoder = torch.nn.Linear(1, V * 2 * V)

    def with_an_unknown_module() -> None:
        pyro.sample("eta", dist.Normal(encoder(torch.ones(1)).reshape(V, 2, V), 0.5).to_event(3))

    with pytest.raises(ModelError, match="that Pyro does not know; make it known by pyro.module"):
        VariationalEM(softmax_of_normals, guide=with_an_unknown_module).step()

    def shared() -> None:
        root = pyro.param("r", torch.ones(V) / V, constraint=constraints.simplex)
        eta = pyro.sample("eta", dist.Normal(torch.zeros(V, 2, V), 1.0).to_event(3))
        observe({**dirichlets("stop"), "root": root, "attach": eta.softmax(-1)})

    def with_weights() -> None:
        root = pyro.param("r", torch.ones(V) / V, constraint=constraints.simplex)
        pyro.sample("eta", dist.Normal(root.expand(V, 2, V), 0.5).to_event(3))

    with pytest.raises(ModelError, match="cannot learn pyro.param 'r' as weights and in the guide"):
        VariationalEM(shared, guide=with_weights).step()


def test_weights_that_are_parameters_reach_the_guide() -> None:
    """In a callback, and after a state was loaded, Pyro's store has the state's weights for the marginal bound."""

    def model() -> None:
        root = pyro.param("root", torch.ones(V) / V, constraint=constraints.simplex)
        eta = pyro.sample("eta", dist.Normal(torch.zeros(V, 2, V), 1.5).to_event(3))
        observe({**dirichlets("stop"), "root": root, "attach": eta.softmax(-1)})

    bounds = list[float]()
    loop = VariationalEM(model, guide_steps=2)
    loop.run(num_steps=4, tolerance=0, progress=False, callback=lambda same: bounds.append(same.marginal_bound(5)[0]))
    assert loop.marginal_bound(5)[0] == pytest.approx(bounds[-1], rel=1e-9)
    state = loop.state_dict()
    pyro.clear_param_store()
    other = VariationalEM(model, guide_steps=2)
    other._read((), {})
    other.load_state_dict(state)
    assert other.marginal_bound(5)[0] == pytest.approx(bounds[-1], rel=1e-9)


def test_optimisers() -> None:
    """Their state and their rate go on from iteration to iteration."""
    loop = VariationalEM(softmax_of_normals, guide_steps=3).run(num_steps=4, tolerance=0, progress=False)
    assert float(loop.state_dict()["optimiser.AutoNormal.locs.eta.step"]) == 12
    decaying = functools.partial(pyro.optim.clipped_adam.ClippedAdam, lr=0.1, lrd=0.5)
    loop = VariationalEM(softmax_of_normals, guide_steps=2, optim=decaying)
    loop.run(num_steps=3, tolerance=0, progress=False)
    assert float(loop.state_dict()["optimiser..lr"]) == pytest.approx(0.1 * 0.5**6)
    for optim in (torch.optim.LBFGS, lambda leaves: None):
        with pytest.raises(TypeError, match="optim must make a torch optimiser that needs no closure"):
            VariationalEM(softmax_of_normals, optim=optim).step()  # type: ignore[arg-type]


def test_another_corpus_goes_on() -> None:
    def model(words: Tensor) -> None:
        eta = pyro.sample("eta", dist.Normal(torch.zeros(V, 2, V), 1.5).to_event(3))
        observe({**dirichlets("root", "stop"), "attach": eta.softmax(-1)}, words)

    loop = VariationalEM(model).run(WORDS, num_steps=8, tolerance=0, progress=False)
    before = loop.weights()["attach"]
    loop._read((WORDS[:2],), {})
    assert float((loop.weights()["attach"] - before).abs().max()) < 0.3
    loop.step(WORDS[:2])
    assert float((loop.weights()["attach"] - before).abs().max()) < 0.3


@pytest.mark.parametrize("plate", ["documents", "sentences"])
def test_plates_within_plates(plate: str) -> None:
    """Values of each document, or of each sentence of each document."""
    words = WORDS[torch.tensor([[0, 1], [2, 0]])]
    table = torch.eye(V)

    def model() -> None:
        weights = dirichlets("attach", "stop")
        with pyro.plate("documents", 2, dim=-2):
            if plate == "documents":
                z = pyro.sample("z", dist.Normal(torch.zeros(V), 1.0).to_event(1))
            with pyro.plate("sentences", 2, dim=-1):
                if plate == "sentences":
                    z = pyro.sample("z", dist.Normal(torch.zeros(V), 1.0).to_event(1))
                weights["root"] = (z @ table).softmax(-1)
                pyro.sample("words", Sentence(GRAMMAR, weights), obs=words)

    loop = VariationalEM(model, guide=AutoDelta, guide_steps=3, guide_draws=1).run(num_steps=3, progress=False)
    z = poutine.trace(loop.guide).get_trace().nodes["z"]["value"].detach()
    root = z.softmax(-1).expand(2, 2, V).reshape(4, V)
    torch.testing.assert_close(loop.weights()["root"], root)
    assert EM(model).run(num_steps=3, progress=False).weights()["root"].shape == (4, V)
    chain = TreeGibbs(model, seed=0).run(num_steps=3, progress=False)
    assert chain.hyperparameters()["z"].shape == (2, 1 if plate == "documents" else 2, V)


def test_other_guides() -> None:
    made = functools.partial(AutoLowRankMultivariateNormal, rank=2)
    loop = VariationalEM(softmax_of_normals, guide=made).run(num_steps=8, tolerance=0, progress=False)
    assert loop.marginal_bound(40)[0] > -23


def test_guide_for_predictive() -> None:
    loop = VariationalEM(softmax_of_normals).run(num_steps=3, progress=False)
    found = Predictive(softmax_of_normals, guide=loop.guide, num_samples=5, return_sites=["eta", "root"])()
    assert found["eta"].shape[-3:] == (V, 2, V) and found["root"].shape[-1] == V


# ---------------------------------------------------------------------- what users see


def test_two_loops_share_nothing() -> None:
    """Guides of one class have parameters of their own, and Pyro's store has none of them."""
    first = VariationalEM(softmax_of_normals, guide_steps=3).run(num_steps=2, tolerance=0, progress=False)
    before = first.weights()
    VariationalEM(softmax_of_normals, guide_steps=3).run(num_steps=4, tolerance=0, progress=False)
    torch.testing.assert_close(first.weights(), before, rtol=0, atol=0)
    assert not list(pyro.get_param_store())


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", ["softmax_of_normals", "features", "hierarchical_dirichlet"])
def test_resumes_to_the_same_numbers(name: str, tmp_path: Any) -> None:
    def loop() -> VariationalEM:
        pyro.clear_param_store()
        return VariationalEM(MADE[name](), guide_steps=3)

    whole = loop().run(num_steps=8, tolerance=0, progress=False)
    path = tmp_path / "state.pt"
    loop().run(num_steps=3, tolerance=0, progress=False, checkpoint=path)
    again = loop().run(num_steps=8, tolerance=0, progress=False, checkpoint=path)
    assert again.history == whole.history
    torch.testing.assert_close(again.weights(), whole.weights(), rtol=0, atol=0)


def test_random_numbers_are_left_alone() -> None:
    before = torch.get_rng_state()
    VariationalEM(softmax_of_normals).run(num_steps=2, progress=False).marginal_bound(2)
    assert torch.equal(before, torch.get_rng_state())


def test_initial_weights_are_fitted() -> None:
    """The guide starts where computed weights are near those that are given."""
    given = {"root": torch.ones(V), "stop": HALVES, "attach": (3 * FEATURES.sum(-1)).exp()}
    started = VariationalEM(softmax_of_normals, initial_weights=given, guide_steps=60)
    started._read((), {})
    started._present()
    plain = VariationalEM(softmax_of_normals)
    plain._read((), {})
    plain._present()
    target = given["attach"] / given["attach"].sum(-1, keepdim=True)
    counted = torch.tensor([0, 1])  # heads that the corpus has children of
    far = (plain.weights()["attach"] - target)[counted].abs().mean()
    assert float((started.weights()["attach"] - target)[counted].abs().mean()) < float(far)


def test_a_gradient_that_is_not_finite() -> None:
    def model() -> None:
        eta = pyro.sample("eta", dist.Normal(torch.zeros(V), 1.0).to_event(1))
        pyro.factor("bad", (eta - eta).abs().sqrt().sum())
        observe({**dirichlets("attach", "stop"), "root": eta.softmax(-1)})

    loop = VariationalEM(model)
    with pytest.raises(ValueError, match="gradient of 'AutoNormal.locs.eta' is not finite"):
        loop.step()


@pytest.mark.parametrize("options", [{"guide_steps": 0}, {"guide_draws": 0}])
def test_options(options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="need guide_steps >= 1 and guide_draws >= 1"):
        VariationalEM(features, **options)  # type: ignore[arg-type]


def test_marginal_bound_of_closed_forms() -> None:
    """Where all of q has closed forms it is that of Pyro's own ELBO."""
    model = MODELESS["sparse"]
    loop = VariationalEM(model).run(num_steps=10, tolerance=0, progress=False)
    mean, error = loop.marginal_bound(100)
    with torch.no_grad():
        expected = -Trace_ELBO(num_particles=100).loss(model, loop.guide)
    assert mean == pytest.approx(expected, abs=6 * error) and mean > loop.history[-1]
    with pytest.raises(ValueError, match="num_samples must be at least 2, not 1"):
        loop.marginal_bound(1)


def test_sentences_with_values_of_their_own() -> None:
    loop = VariationalEM(a_root_for_each_sentence, guide_steps=5).run(num_steps=10, tolerance=0, progress=False)
    assert loop.weights()["root"].shape == (len(WORDS), V)
    assert loop.marginal_bound(20)[0] > loop.history[0]
