# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The (shared) logistic normal in Pyro models: densities against torch.distributions, inference against quadrature."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine
from pyro.infer import MCMC, NUTS, SVI, Predictive, Trace_ELBO
from pyro.infer.autoguide import AutoNormal
from pyro.poutine.messenger import Messenger
from torch import Tensor
from torch.distributions import MultivariateNormal, Normal, constraints

from pyrogram.distributions import (
    Experts,
    Gaussian,
    Link,
    LogisticNormalWeights,
    PartitionStructure,
    logistic_normal,
    shared_logistic_normal,
)


@pytest.fixture(autouse=True)
def small_tensors(one_thread: None) -> None:
    """All tests of this file run on one thread."""


def traced(model: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    trace = poutine.trace(model).get_trace(*args, **kwargs)
    trace.compute_log_prob()
    return trace


def matrices(*shape: int) -> Tensor:
    root = torch.randn(*shape, shape[-1])
    return root @ root.mT + torch.eye(shape[-1])


def tied() -> PartitionStructure:
    """Block x (3, 2) with own experts, one shared by the first two, a long one; block z by the shared one alone."""
    return PartitionStructure(
        {"x": (3, 2), "z": (2,)},
        {
            "x": Experts(torch.Size([3, 2])),
            "both": Experts(torch.Size([2])),
            "long": Experts(torch.Size([4]), ((0, 2), (2, 4))),
        },
        {
            "x": [
                Link("x", torch.arange(3)),
                Link("both", torch.tensor([0, 0, -1])),
                Link("long", torch.tensor([0, -1, -1]), 0),
                Link("long", torch.tensor([-1, -1, 0]), 1),
            ],
            "z": [Link("both", torch.tensor(0))],
        },
    )


def experts(structure: PartitionStructure) -> dict[str, Gaussian]:
    return {name: Gaussian(torch.randn(e.shape), matrices(*e.shape)) for name, e in structure.experts.items()}


def softmaxes(eta: dict[str, Tensor]) -> dict[str, Tensor]:
    """The weights of :func:`tied`, by hand."""
    x, both, long = eta["x"], eta["both"], eta["long"]
    mixed = [
        (x[..., 0, :] + both + long[..., :2]) / 3,
        (x[..., 1, :] + both) / 2,
        (x[..., 2, :] + long[..., 2:]) / 2,
    ]
    return {name: m.exp() / m.exp().sum(-1, keepdim=True) for name, m in (("x", torch.stack(mixed, -2)), ("z", both))}


# ---------------------------------------------------------------- traces


@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.parametrize("plate", [None, 5])
def test_logistic_normal_in_a_trace(diagonal: bool, plate: int | None) -> None:
    loc, covariance, variance = torch.randn(4, 2, 3), matrices(4, 2, 3), torch.rand(4, 2, 3) + 0.1

    def model() -> Tensor:
        return logistic_normal("w", loc, variance=variance) if diagonal else logistic_normal("w", loc, covariance)

    def plated() -> Tensor:
        if plate is None:
            return model()
        with pyro.plate("sentences", plate):
            return model()

    trace = traced(plated)
    site, weights = trace.nodes["w.eta"], trace.nodes["w"]
    batch = () if plate is None else (plate,)
    assert site["fn"].batch_shape == weights["fn"].batch_shape == batch
    assert site["fn"].event_shape == weights["fn"].event_shape == (4, 2, 3)
    eta = site["value"]
    prior = Normal(loc, variance.sqrt()) if diagonal else MultivariateNormal(loc, covariance)
    assert float(trace.log_prob_sum()) == pytest.approx(float(prior.log_prob(eta).sum()), rel=1e-12)
    torch.testing.assert_close(weights["value"], eta.exp() / eta.exp().sum(-1, keepdim=True))
    assert trace.nodes["_RETURN"]["value"] is weights["value"]
    assert float(weights["log_prob_sum"]) == 0
    assert weights["is_observed"] and weights["infer"]["_deterministic"]


def test_what_loops_read() -> None:
    """The tensors that the user gave, by identity, and which sites the weights are made of."""
    loc = pyro.param("loc", torch.zeros(4, 3))
    covariance = pyro.param("covariance", torch.eye(3), constraint=constraints.positive_definite)
    variance = pyro.param("variance", torch.ones(3), constraint=constraints.positive)
    trace = traced(lambda: (logistic_normal("a", loc, covariance), logistic_normal("b", loc, variance=variance)))
    full, diagonal = (trace.nodes[name]["infer"]["gaussian"] for name in ("a.eta", "b.eta"))
    assert full.loc is loc and full.covariance is covariance and full.variance is None
    assert diagonal.loc is loc and diagonal.variance is variance and diagonal.covariance is None
    mixture = trace.nodes["a"]["infer"]["logistic_normal"]
    assert isinstance(mixture, LogisticNormalWeights)
    assert (mixture.block, dict(mixture.sites)) == ("a", {"a": "a.eta"})
    assert mixture.structure.experts["a"].shape == (4, 3)
    structure = tied()
    given = experts(structure)
    trace = traced(shared_logistic_normal, "w", given, structure)
    for name in structure.experts:
        assert trace.nodes[f"w.{name}.eta"]["infer"]["gaussian"] is given[name]
    for name in structure.blocks:
        mixture = trace.nodes[f"w.{name}"]["infer"]["logistic_normal"]
        assert mixture.structure is structure and mixture.block == name
        assert dict(mixture.sites) == {family: f"w.{family}.eta" for family in structure.experts}


@pytest.mark.parametrize("plate", [None, 5])
def test_shared_logistic_normal_in_a_trace(plate: int | None) -> None:
    structure = tied()
    given = experts(structure)

    def model() -> dict[str, Tensor]:
        if plate is None:
            return shared_logistic_normal("w", given, structure)
        with pyro.plate("sentences", plate):
            return shared_logistic_normal("w", given, structure)

    trace = traced(model)
    eta = {name: trace.nodes[f"w.{name}.eta"]["value"] for name in structure.experts}
    expected = 0.0
    for name, value in eta.items():
        assert value.shape == (() if plate is None else (plate,)) + structure.experts[name].shape
        covariance = given[name].covariance
        assert covariance is not None
        expected += float(MultivariateNormal(given[name].loc, covariance).log_prob(value).sum())
    assert float(trace.log_prob_sum()) == pytest.approx(expected, rel=1e-12)
    returned = trace.nodes["_RETURN"]["value"]
    for name, w in softmaxes(eta).items():
        torch.testing.assert_close(returned[name], w)
        assert returned[name] is trace.nodes[f"w.{name}"]["value"]


@pytest.mark.parametrize(
    ("loc", "covariance", "variance", "shape"),
    [
        (0.5, None, 2.0, (3, 2)),
        (torch.zeros(()), torch.eye(2), None, (3, 2)),
        (torch.arange(6.0).reshape(3, 2), torch.eye(2), None, None),
        (torch.arange(2.0), torch.eye(2).expand(3, 2, 2), None, None),
        (torch.arange(2.0), None, torch.ones(3, 1), None),
    ],
)
def test_broadcasting(loc: Any, covariance: Any, variance: Any, shape: Any) -> None:
    trace = traced(logistic_normal, "w", loc, covariance, variance=variance, shape=shape)
    eta = trace.nodes["w.eta"]["value"]
    assert eta.shape == trace.nodes["w.eta"]["fn"].event_shape == (3, 2)
    expected = 0.0
    for k in range(3):
        mean = torch.as_tensor(loc).expand(3, 2)[k]
        matrix = torch.diag(torch.as_tensor(variance).expand(3, 2)[k]) if covariance is None else torch.eye(2)
        expected += float(MultivariateNormal(mean.to(eta), matrix.to(eta)).log_prob(eta[k]))
    assert float(trace.log_prob_sum()) == pytest.approx(expected, rel=1e-6)


def test_means_for_each_element_of_a_plate() -> None:
    """With ``shape``, further dimensions are the plate's."""
    loc = torch.randn(5, 3, 2)

    def model() -> Tensor:
        with pyro.plate("sentences", 5):
            return logistic_normal("w", loc, torch.eye(2), shape=(3, 2))

    trace = traced(model)
    assert trace.nodes["w.eta"]["fn"].batch_shape == (5,)
    expected = MultivariateNormal(loc, torch.eye(2)).log_prob(trace.nodes["w.eta"]["value"]).sum(-1)
    torch.testing.assert_close(trace.nodes["w.eta"]["log_prob"], expected)
    assert trace.nodes["w"]["value"].shape == (5, 3, 2)


@pytest.mark.parametrize("plate", [None, 4])
def test_one_expert_per_multinomial_is_the_logistic_normal(plate: int | None) -> None:
    """The same draws from the same seed, and the same density."""
    given = Gaussian(torch.randn(3, 2), matrices(3, 2))
    structure = PartitionStructure.untied({"x": (3, 2)})

    def shared() -> Tensor:
        return shared_logistic_normal("w", {"x": given}, structure)["x"]

    def plain() -> Tensor:
        return logistic_normal("w", given.loc, given.covariance)

    traces = []
    for model in (shared, plain):
        pyro.set_rng_seed(3)
        with pyro.plate("sentences", plate) if plate else poutine.block(hide=[]):
            traces.append(traced(model))
    assert torch.equal(*(t.nodes["_RETURN"]["value"] for t in traces))
    assert torch.equal(*(t.log_prob_sum() for t in traces))


def test_mixtures_are_normal_as_the_moments_say() -> None:
    """The mixed vector of two experts has mean and variance as ``mix`` has them; five standard errors."""
    structure = PartitionStructure.from_sets({"a": [[0, 1]], "b": [[0, 1]]}, {"x": [("a", 0), ("b", 0)]})
    given = {n: Gaussian(torch.randn(2), variance=torch.rand(2) + 0.5) for n in structure.experts}
    draws = 20000
    with pyro.plate("draws", draws):
        weights = shared_logistic_normal("w", given, structure)["x"]
    ratio = (weights[:, 0] / weights[:, 1]).log()
    loc = structure.average("x", {n: g.loc for n, g in given.items()})
    variance = structure.average(
        "x", {n: g.variance for n, g in given.items() if g.variance is not None}, variances=True
    )
    expected = float(variance.sum())
    assert float(ratio.mean()) == pytest.approx(float(loc[0] - loc[1]), abs=5 * math.sqrt(expected / draws))
    assert float(ratio.var()) == pytest.approx(expected, abs=5 * expected * math.sqrt(2 / draws))


class _Expanded(Messenger):
    """One value for all elements of a plate, as loops put in."""

    def _pyro_sample(self, msg: Any) -> None:
        if "gaussian" in msg["infer"]:
            fn = msg["fn"]
            msg["value"] = torch.randn(fn.event_shape).expand(fn.batch_shape + fn.event_shape)
            msg["done"] = True


def test_expanded_draws_stay_expanded() -> None:
    """A trace of 100,000 sentences in which all share one draw takes the memory of one."""
    structure = tied()
    given = experts(structure)
    with _Expanded(), pyro.plate("sentences", 100_000):
        weights = shared_logistic_normal("w", given, structure)
        weights["plain"] = logistic_normal("plain", torch.zeros(7, 2), torch.eye(2))
    for w in weights.values():
        assert w.shape[0] == 100_000 and w.stride(0) == 0
        assert w.untyped_storage().nbytes() == 8 * w[0].numel()


# ---------------------------------------------------------------- inference

COUNTS = torch.tensor([[7.0, 1.0], [0.0, 2.0], [3.0, 3.0]])


def observe(weights: Tensor) -> None:
    """Draws of events: their log probability is sum of count times log weight, up to a constant."""
    pyro.factor("counts", (COUNTS * weights.log()).sum((-1, -2)))


def one_for_all() -> None:
    loc = torch.tensor([[0.5, 0.0], [1.0, -1.0], [0.0, 0.0]])
    observe(logistic_normal("w", loc, torch.tensor([[1.0, 0.3], [0.3, 2.0]])))


def each_its_own() -> None:
    with pyro.plate("sentences", 3):
        weights = logistic_normal("w", torch.zeros(2), variance=torch.tensor([1.0, 2.0]))
        pyro.factor("counts", (COUNTS * weights.log()).sum(-1))


def shared() -> None:
    structure = tied()
    given = {n: Gaussian(torch.zeros(()), variance=torch.ones(e.shape)) for n, e in structure.experts.items()}
    observe(shared_logistic_normal("w", given, structure)["x"])


MODELS = pytest.mark.parametrize("model", [one_for_all, each_its_own, shared])


@pytest.mark.one_in(20)
@MODELS
@pytest.mark.parametrize("vectorize", [False, True])
def test_stochastic_variational_inference(model: Callable[[], None], vectorize: bool) -> None:
    guide = AutoNormal(model)
    elbo = Trace_ELBO(num_particles=4, vectorize_particles=vectorize, max_plate_nesting=1)
    svi = SVI(model, guide, pyro.optim.Adam({"lr": 0.05}), elbo)  # type: ignore[attr-defined]
    losses = [svi.step() for _ in range(60)]
    assert np.isfinite(losses).all()
    assert np.mean(losses[-15:]) < np.mean(losses[:15])


@MODELS
def test_nuts_runs(model: Callable[[], None]) -> None:
    mcmc = MCMC(NUTS(model, max_tree_depth=3), num_samples=4, warmup_steps=4, disable_progbar=True)
    mcmc.run()
    draws = mcmc.get_samples()
    assert draws and all(name.endswith(".eta") and torch.isfinite(d).all() for name, d in draws.items())


@MODELS
def test_potentials_have_the_gradients_that_nuts_follows(model: Callable[[], None]) -> None:
    """The log joint is differentiable in all latent numbers."""
    sites = [n for n, x in poutine.trace(model).get_trace().nodes.items() if n.endswith(".eta")]
    drawn = poutine.trace(model).get_trace().nodes

    def log_joint(*values: Tensor) -> Tensor:
        given = dict(zip(sites, values, strict=True))
        return torch.as_tensor(poutine.trace(pyro.condition(model, given)).get_trace().log_prob_sum())

    at = tuple(drawn[n]["value"].detach().requires_grad_() for n in sites)
    assert sites and torch.autograd.gradcheck(log_joint, at, check_undefined_grad=False)


@pytest.mark.slow
def test_nuts_against_quadrature() -> None:
    """Two events: their log odds are N(mu1 - mu2, S11 + S22 - 2 S12), and the posterior is an integral over a line."""
    mcmc = MCMC(NUTS(one_for_all, max_tree_depth=4), num_samples=200, warmup_steps=60, disable_progbar=True)
    mcmc.run()
    eta = mcmc.get_samples()["w.eta"]
    odds = eta[..., 0] - eta[..., 1]
    grid = np.linspace(-12, 12, 4001)
    for k, (mean, counts) in enumerate(zip((0.5, 2.0, 0.0), COUNTS.tolist(), strict=True)):
        log = -((grid - mean) ** 2) / (2 * (1 + 2 - 0.6))
        log += counts[0] * -np.log1p(np.exp(-grid)) + counts[1] * -np.log1p(np.exp(grid))
        p = np.exp(log - log.max())
        p /= p.sum()
        expected = float((p * grid).sum())
        deviation = math.sqrt(float((p * grid**2).sum()) - expected**2)
        # Two hundred draws are worth forty independent ones at the least.
        assert float(odds[:, k].mean()) == pytest.approx(expected, abs=5 * deviation / math.sqrt(40))
        assert abs(mean - expected) > 0 and float(odds[:, k].std()) == pytest.approx(deviation, rel=0.35)


@MODELS
@pytest.mark.parametrize("parallel", [False, True])
def test_predictive(model: Callable[[], None], parallel: bool) -> None:
    drawn = Predictive(model, num_samples=6, parallel=parallel)()
    weights = {name: w for name, w in drawn.items() if name in ("w", "w.x", "w.z")}
    assert weights
    for name, w in weights.items():
        assert w.shape[0] == 6
        torch.testing.assert_close(w.sum(-1), torch.ones(w.shape[:-1]))
        assert len(torch.unique(w.reshape(6, -1)[:, 0])) == 6, name
    posterior = {name: d for name, d in drawn.items() if name.endswith(".eta")}
    again = Predictive(model, posterior, num_samples=6, parallel=parallel)()
    for name, w in weights.items():
        torch.testing.assert_close(again[name].reshape(w.shape), w)


def test_conditioned() -> None:
    eta = torch.randn(3, 2)
    trace = traced(poutine.condition(one_for_all, {"w.eta": eta}))
    torch.testing.assert_close(trace.nodes["w"]["value"], eta.softmax(-1))


# ---------------------------------------------------------------- refusals


def test_wrong_arguments() -> None:
    loc, matrix = torch.zeros(3, 2), torch.eye(2)
    for arguments in ({}, {"covariance": matrix, "variance": 1.0}):
        with pytest.raises(ValueError, match="either covariance or variance"):
            logistic_normal("w", loc, **arguments)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"loc of shape \(3, 2\) and covariance of shape \(3, 3\) do not fit"):
        logistic_normal("w", loc, torch.eye(3))
    with pytest.raises(ValueError, match=r"loc of shape \(3, 2\) and covariance of shape \(1, 1\) do not fit"):
        logistic_normal("w", loc, torch.eye(1))
    with pytest.raises(ValueError, match=r"loc of shape \(3, 2\) and variance of shape \(3,\) do not fit"):
        logistic_normal("w", loc, variance=torch.ones(3))
    with pytest.raises(ValueError, match=r"covariance must have shape \(..., N, N\), not \(2,\)"):
        logistic_normal("w", loc, torch.ones(2))
    with pytest.raises(ValueError, match=r"site 'w.eta': a Gaussian of shape \(3, 2\) does not broadcast to \(4, 2\)"):
        logistic_normal("w", loc, matrix, shape=(4, 2))
    with pytest.raises(ValueError, match="site 'w.eta'.*covariance_matrix"):
        logistic_normal("w", loc, -matrix)
    with pytest.raises(ValueError, match="site 'w.eta'.*scale"):
        logistic_normal("w", loc, variance=-1.0)
    with pytest.raises(ValueError, match="experts must have shape"):
        logistic_normal("w", torch.tensor(0.0), variance=1.0)


def test_wrong_experts() -> None:
    structure = tied()
    given = experts(structure)
    some = {name: g for name, g in given.items() if name != "both"}
    with pytest.raises(ValueError, match=r"experts must be given for \['x', 'both', 'long'\], not for \['x', 'long'\]"):
        shared_logistic_normal("w", some, structure)
    with pytest.raises(ValueError, match="not for .*'more'"):
        shared_logistic_normal("w", {**given, "more": given["x"]}, structure)
    wrong = {**given, "long": Gaussian(torch.zeros(3), variance=torch.ones(3))}
    with pytest.raises(ValueError, match=r"'long' of site 'w.long.eta': .* \(3,\) does not broadcast to \(4,\)"):
        shared_logistic_normal("w", wrong, structure)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_default_dtype(dtype: torch.dtype) -> None:
    torch.set_default_dtype(dtype)
    assert logistic_normal("w", 0.0, variance=1.0, shape=(3, 2)).dtype == dtype
    structure = tied()
    assert shared_logistic_normal("w", experts(structure), structure)["x"].dtype == dtype


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_cuda() -> None:
    structure = tied()
    given = {
        n: Gaussian(torch.zeros(e.shape, device="cuda"), variance=torch.ones((), device="cuda"))
        for n, e in structure.experts.items()
    }
    trace = traced(shared_logistic_normal, "w", given, structure)
    eta = {name: trace.nodes[f"w.{name}.eta"]["value"] for name in structure.experts}
    for name, w in softmaxes(eta).items():
        torch.testing.assert_close(trace.nodes[f"w.{name}"]["value"], w)


def test_deterministic_site_is_hidden_from_guides() -> None:
    """Only the Gaussians are latent."""
    trace = traced(one_for_all)
    assert [n for n, s in trace.nodes.items() if s["type"] == "sample" and not s["is_observed"]] == ["w.eta"]
    assert isinstance(trace.nodes["w"]["fn"], dist.torch_distribution.MaskedDistribution)
