# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""EM for weights that any code computes; the trees of all sentences are listed."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from infer.computed_models import (
    BLOCKS,
    FEATURES,
    GRAMMAR,
    MODELESS,
    MODELS,
    WORDS,
    Net,
    V,
    a_root_for_each_sentence,
    backing_off,
    dirichlets,
    expected,
    features,
    gaussian_process,
    log_joint,
    observe,
    sentences,
    softmax_of_normals,
    tied_and_computed,
)
from pyro import poutine
from scipy import optimize, stats
from torch import Tensor
from torch.distributions import transform_to

from pyrogram import CFG
from pyrogram.distributions import Sentence, dirichlet_prior
from pyrogram.infer import EM, ModelError

pytestmark = pytest.mark.usefixtures("doubles")
models = pytest.mark.parametrize("name", list(MODELS))


@pytest.mark.one_in(14)
@models
def test_objective(name: str) -> None:
    """The log joint at the latent values and parameters before the step, which no step lowers."""
    model = MODELS[name]()
    loop = EM(model, initial_weights="uniform", m_steps=4)
    loop.step()
    for _ in range(6):
        with torch.no_grad():
            expected = float(log_joint(model, loop.latents()))
        assert loop.step() == pytest.approx(expected, rel=1e-10)
    assert all(b >= a - 1e-9 * abs(a) for a, b in zip(loop.history, loop.history[1:], strict=False))


@pytest.mark.one_in(20)
@pytest.mark.parametrize(
    "name", ["softmax_of_normals", "with_other_sites", "smoothed", "a_root_for_each_sentence", "tempered", "network"]
)
def test_optimum(name: str) -> None:
    """At the end the log joint is flat in everything, in the coordinates in which it is free."""
    model = MODELS[name]()
    loop = EM(model, m_steps=20, initial_weights="uniform")
    loop.run(num_steps=100, tolerance=0, progress=False)
    latents = loop.latents()
    nodes: dict[str, Any] = dict(poutine.trace(model).get_trace().nodes)
    supports = {name: nodes[name]["fn"].support for name in latents}
    free = {n: transform_to(supports[n]).inv(v).clone().requires_grad_() for n, v in latents.items()}
    total = log_joint(model, {n: transform_to(supports[n])(x) for n, x in free.items()})
    store: Any = pyro.get_param_store()
    others = [store[name].unconstrained() for name in store]
    for slope in torch.autograd.grad(total, [*free.values(), *others]):
        assert float(slope.abs().max()) < 2e-3


@pytest.mark.one_in(9)
@models
def test_weights(name: str) -> None:
    """The estimate is what the model's code makes of the latent values and of the parameters in Pyro's store."""
    model = MODELS[name]()
    loop = EM(model, initial_weights="uniform").run(num_steps=3, progress=False)
    nodes: dict[str, Any] = dict(poutine.trace(poutine.condition(model, loop.latents())).get_trace().nodes)
    function = nodes["words"]["fn"]
    for block, w in getattr(function, "base_dist", function).weights.items():
        torch.testing.assert_close(loop.weights()[block], w.detach())


# ---------------------------------------------------------------------- unconstrained coordinates


def log_jacobian(model: Callable[[], None], values: dict[str, Tensor]) -> float:
    """Of logits and logarithms: the product of probabilities, or of positive numbers."""
    nodes: dict[str, Any] = dict(poutine.trace(poutine.condition(model, values)).get_trace().nodes)
    total = 0.0
    for name, value in values.items():
        base: Any = nodes[name]["fn"]
        while hasattr(base, "base_dist") and not isinstance(base, dist.LogNormal):
            base = base.base_dist
        if isinstance(base, dist.Beta):
            total += float((value * (1 - value)).log().sum())
        elif isinstance(base, dist.Dirichlet | dist.Gamma | dist.LogNormal | dist.HalfCauchy):
            total += float(value.log().sum())
    return total


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "name", [*MODELESS, "softmax_of_normals", "gaussian_process", "smoothed", "beta_stops", "tempered_dirichlets"]
)
def test_unconstrained_objective(name: str) -> None:
    """The log joint of the coordinates in which latent values are real numbers, which no step lowers."""
    model = MODELESS[name] if name in MODELESS else MODELS[name]()
    loop = EM(model, initial_weights="random", m_steps=4, unconstrained=True)
    loop.step()
    for _ in range(3 if name == "learnt_concentration" else 6):  # it grows without end, past what lgamma can tell
        with torch.no_grad():
            expected = float(log_joint(model, loop.latents())) + log_jacobian(model, loop.latents())
        assert loop.step() == pytest.approx(expected, rel=1e-9)
    assert all(b >= a - 1e-9 * abs(a) for a, b in itertools.pairwise(loop.history))


def test_unconstrained_mode() -> None:
    """f + α, normalised (MacKay 1998), however small α is."""
    model = MODELESS["sparse"]
    loop = EM(model, initial_weights="uniform", unconstrained=True).run(num_steps=300, tolerance=0, progress=False)
    counts = expected(loop.weights())
    for name, w in loop.weights().items():
        pseudo = counts[name] + 0.3
        torch.testing.assert_close(w, pseudo / pseudo.sum(-1, keepdim=True), rtol=1e-5, atol=1e-6)


def test_unconstrained_is_another_problem(tmp_path: Any) -> None:
    path = tmp_path / "state.pt"
    EM(softmax_of_normals).run(num_steps=2, progress=False, checkpoint=path)
    with pytest.raises(ValueError, match="checkpoint"):
        EM(softmax_of_normals, unconstrained=True).run(num_steps=4, progress=False, checkpoint=path)


# ---------------------------------------------------------------------- what users see


def test_plan() -> None:
    assert EM(softmax_of_normals).plan() == {
        "words": {"root": "closed form", "attach": "gradient", "stop": "closed form"}
    }
    assert EM(backing_off).plan() == {"words": {"root": "gradient", "attach": "gradient", "stop": "closed form"}}
    assert EM(tied_and_computed).plan() == {
        "words": {"root": "closed form", "attach": "closed form", "stop": "gradient"}
    }

    def frozen() -> None:
        half = torch.cat([torch.full((V, 1, 2, 2), 0.5), pyro.sample("right", dirichlet_prior(RIGHT, 2.0))], 1)
        observe({**dirichlets("attach"), "root": torch.full((V,), 1 / V), "stop": half})

    assert EM(frozen).plan() == {
        "words": {"root": "constant", "attach": "closed form", "stop": "closed form and constant"}
    }


RIGHT = type(BLOCKS["stop"])(torch.Size([V, 1, 2, 2]))


def test_start() -> None:
    """Computed weights are fitted to the counts under given ones; otherwise they begin where they are."""
    given = {n: b.normalize(torch.rand(b.shape)) for n, b in BLOCKS.items()}
    loop = EM(features, initial_weights=given, m_steps=50)
    loop._read((), {})
    loop._present()
    theta = pyro.param("theta").detach().clone().requires_grad_()
    counts = expected(given)["attach"]
    fitted = (counts * (FEATURES @ theta).log_softmax(-1)).sum()
    (slope,) = torch.autograd.grad(fitted, theta)
    assert float(slope.abs().max()) < 1e-4 and float(theta.detach().abs().max()) > 0.01


def test_start_of_tied_and_expanded_weights() -> None:
    """By the block's own name where other blocks are tied; and one fit, however many sentences share it."""

    def tied() -> None:
        rows = pyro.sample("rows", dist.Dirichlet(1.5 * torch.ones(2, 2, 2)).to_event(2))
        stop = rows[torch.tensor([0, 1, 0])][:, :, None].expand(V, 2, 2, 2)
        theta = pyro.param("theta", torch.zeros(4))
        observe({**dirichlets("root"), "stop": stop, "attach": (FEATURES @ theta).softmax(-1)})

    given = {n: b.normalize(torch.rand(b.shape) ** 3) for n, b in BLOCKS.items()}
    loop = EM(tied, initial_weights=given, m_steps=50)
    loop._read((), {})
    loop._present()
    assert float(pyro.param("theta").detach().abs().max()) > 0.01

    def root(expanded: bool) -> Tensor:
        def model() -> None:
            root = pyro.sample("eta", dist.Normal(torch.zeros(V), 1.0).to_event(1)).softmax(-1)
            observe({**dirichlets("attach", "stop"), "root": root.expand(3, V) if expanded else root})

        loop = EM(model, initial_weights=given, m_steps=100)
        loop._read((), {})
        return loop.latents()["eta"]

    torch.testing.assert_close(root(True), root(False), rtol=1e-4, atol=1e-5)


def wide(words: Tensor, sigma: float) -> None:
    eta = pyro.sample("eta", dist.Normal(torch.zeros(V, 2, V), sigma).to_event(3))
    observe({**dirichlets("root", "stop"), "attach": eta.softmax(-1)}, words)


def test_another_prior_is_another_problem(tmp_path: Any) -> None:
    """Also where sites have the same names and shapes; latent values go on from where they were."""
    loop = EM(wide).run(WORDS, 3.0, progress=False)
    before = loop.latents()["eta"]
    loop.step(WORDS, 0.1)
    assert len(loop.history) == 1
    loop.run(WORDS, 0.1, progress=False)
    assert float(loop.latents()["eta"].abs().max()) < 0.1 < float(before.abs().max())
    EM(wide).run(WORDS, 3.0, num_steps=2, progress=False, checkpoint=tmp_path / "state.pt")
    with pytest.raises(ValueError, match="state"):
        EM(wide).run(WORDS, 0.1, num_steps=3, progress=False, checkpoint=tmp_path / "state.pt")


def test_another_corpus_goes_on() -> None:
    loop = EM(wide).run(WORDS, 1.0, progress=False)
    last = loop.history[-1]
    loop.run(WORDS.flip(0), 1.0, num_steps=1, progress=False)
    assert loop.history[0] >= last - 1e-6


def test_plan_leaves_a_run_alone() -> None:
    loop = EM(wide).run(WORDS, 1.0, num_steps=3, progress=False)
    loop.plan(WORDS[:1], 1.0)
    assert len(loop.history) == 3
    loop.run(WORDS, 1.0, num_steps=4, progress=False)
    assert len(loop.history) == 7


def test_a_step_that_breaks_a_matrix() -> None:
    """Where a line search leaves the positive definite matrices, it is taken back."""

    def model() -> None:
        s = pyro.sample("s", dist.Normal(0.3, 0.05))
        factor = torch.linalg.cholesky(torch.eye(V) * (1 - s) + s)
        z = pyro.sample("z", dist.Normal(torch.zeros(V, 2, V), 1.0).to_event(3))
        pyro.sample("y", dist.Normal(s, 0.01), obs=torch.tensor(5.0))
        observe({**dirichlets("root", "stop"), "attach": (z @ factor.T).softmax(-1)})

    loop = EM(model).run(num_steps=5, progress=False)
    assert all(b >= a - 1e-9 for a, b in itertools.pairwise(loop.history))


def test_resumes_to_the_same_numbers(tmp_path: Any) -> None:
    path = tmp_path / "state.pt"

    def fresh() -> EM:
        pyro.clear_param_store()
        torch.manual_seed(3)
        return EM(gaussian_process)

    whole = fresh().run(num_steps=5, tolerance=0, progress=False)
    fresh().run(num_steps=2, tolerance=0, progress=False, checkpoint=path)
    resumed = fresh().run(num_steps=5, tolerance=0, progress=False, checkpoint=path)
    assert resumed.history == whole.history
    for name, value in whole.latents().items():
        assert torch.equal(resumed.latents()[name], value)


def test_random_numbers_are_left_alone() -> None:
    torch.manual_seed(5)
    reference = torch.rand(2)
    torch.manual_seed(5)
    EM(gaussian_process).plan()
    assert torch.equal(torch.rand(2), reference)


def test_an_interrupted_step_leaves_parameters() -> None:
    loop = EM(features).run(num_steps=2, progress=False)
    before, weights = pyro.param("theta").detach().clone(), loop.weights()

    def interrupt(*_: Any) -> Any:
        raise KeyboardInterrupt

    problem: Any = loop._problem
    problem.climb = interrupt
    with pytest.raises(KeyboardInterrupt):
        loop.step()
    del problem.climb
    assert torch.equal(pyro.param("theta"), before)
    for block, w in weights.items():
        assert torch.equal(loop.weights()[block], w)


def test_held_out() -> None:
    loop = EM(features).run(num_steps=5, progress=False, held_out=WORDS)
    assert all(math.isfinite(x) for x in loop.held_out_history)


def test_held_out_needs_shared_weights() -> None:
    with pytest.raises(ValueError, match="held_out needs weights that all sentences share, .* block 'root'"):
        EM(a_root_for_each_sentence).run(num_steps=2, progress=False, held_out=WORDS[:2])


def test_densities_of_what_has_no_gradient() -> None:
    """A penalty on a number that autograd does not see is part of the objective all the same."""

    def model() -> None:
        weights = dirichlets("root", "attach", "stop")
        pyro.factor("penalty", torch.tensor(-5.0 * float(weights["root"].detach()[0])))
        observe(weights)

    loop = EM(model, initial_weights="uniform")
    loop.step()
    for _ in range(3):
        expected = float(log_joint(model, loop.latents()))
        assert loop.step() == pytest.approx(expected, rel=1e-10)


def detached() -> None:
    weights = dirichlets("root", "stop", "attach")
    observe({**weights, "root": weights["root"].detach().flip(0)})


def unknown_network() -> None:
    observe({**dirichlets("root", "stop"), "attach": Net()()})


def indicator() -> None:
    z = pyro.sample("z", dist.Categorical(torch.ones(2)))
    roots = pyro.sample("roots", dist.Dirichlet(torch.ones(2, V)).to_event(1))
    observe({**dirichlets("attach", "stop"), "root": roots[z]})


def minibatch() -> None:
    weights = dirichlets("root", "attach", "stop")
    with pyro.plate("sentences", len(WORDS), subsample_size=2) as i:
        pyro.sample("words", Sentence(GRAMMAR, weights), obs=WORDS[i])


def float_latent() -> None:
    z = pyro.sample("z", dist.Bernoulli(0.5))
    weights = dirichlets("root", "attach", "stop")
    observe({**weights, "stop": (0.9 - 0.1 * z) * weights["stop"] + 0.05})


def dropout() -> None:
    table = torch.nn.functional.dropout(pyro.param("table", torch.ones(V, 2, V)), 0.5)
    observe({**dirichlets("root", "stop"), "attach": table.softmax(-1)})


def open_without_a_mode() -> None:
    weights = dirichlets("root", "attach", "stop", alpha=0.3)
    observe({**weights, "stop": 0.9 * weights["stop"] + 0.05})


STRAY = torch.tensor(1.5, dtype=torch.float64, requires_grad=True)


def unknown_in_a_density() -> None:
    eta = pyro.sample("eta", dist.Normal(STRAY.expand(V, 2, V), 1.0).to_event(3))
    observe({**dirichlets("root", "stop"), "attach": eta.softmax(-1)})


def four_grammars() -> None:
    rows = pyro.sample("rows", dist.Dirichlet(1.5 * torch.ones(2, 2, V)).to_event(2))
    root = pyro.param("t", torch.randn(4, 1, V)).softmax(-1)
    weights = {**dirichlets("stop"), "attach": rows[torch.tensor([0, 1, 0])], "root": root}
    with pyro.plate("K", 4, dim=-2), pyro.plate("sentences", len(WORDS), dim=-1):
        pyro.sample("words", Sentence(GRAMMAR, weights), obs=WORDS)


def test_four_grammars_for_each_sentence() -> None:
    """Weights that vary along one of two plates are each sentence's own."""
    loop = EM(four_grammars)
    loop.step()
    for _ in range(3):
        latents = loop.latents()
        values = {n: s["value"].detach() for n, s in site_values(four_grammars, latents).items()}
        roots = pyro.param("t").detach().softmax(-1)
        shared = {"stop": values["stop"], "attach": values["rows"][torch.tensor([0, 1, 0])]}
        expected = sum(float(sentences({**shared, "root": root[0]}).sum()) for root in roots)
        for name in ("rows", "stop"):
            prior = dist.Dirichlet(torch.full(values[name].shape, 1.5))
            expected += float(prior.log_prob(values[name]).sum())
        assert loop.step() == pytest.approx(expected, rel=1e-10)
    assert loop.weights()["root"].shape == (12, V)


def site_values(model: Callable[[], None], latents: dict[str, Tensor]) -> dict[str, Any]:
    nodes: dict[str, Any] = dict(poutine.trace(poutine.condition(model, latents)).get_trace().nodes)
    return {name: nodes[name] for name in latents}


def named_like_a_block() -> None:
    eta = pyro.sample("words.root", dist.Normal(torch.zeros(V), 1.0).to_event(1))
    observe({**dirichlets("attach", "stop"), "root": eta.softmax(-1)})


def learnt_concentration() -> None:
    alpha = pyro.sample("alpha", dist.Gamma(2.0, 1.0))
    observe({n: pyro.sample(n, dirichlet_prior(b, alpha)) for n, b in BLOCKS.items()})


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (detached, "block 'root' of site 'words', which is computed .* let gradients through"),
        (
            unknown_network,
            "block 'attach' .* 3 parameters that Pyro does not know; make parameters known by pyro.module",
        ),
        (indicator, r"discrete latent site 'z' \(Categorical\); .* TraceEnum_ELBO"),
        (float_latent, r"discrete latent site 'z' \(Bernoulli\)"),
        (dropout, "draws random numbers or counts its runs; put networks with dropout into eval mode"),
        (open_without_a_mode, r"at least 1, but that of site 'stop' goes down to 0.3"),
        (unknown_in_a_density, "density of site 'eta' depends on: a tensor that requires a gradient"),
        (named_like_a_block, "needs another name for site 'words.root', which is that of a block"),
        (minibatch, "whole corpus, but site 'words' is in a subsampled plate"),
        (learnt_concentration, "cannot learn the concentration of Dirichlet site"),
        (lambda: None, "no observed Sentence site"),
    ],
)
def test_refused(model: Callable[[], None], message: str) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        EM(model).step()
    assert "\n" not in str(caught.value)


def test_m_steps() -> None:
    with pytest.raises(ValueError, match="m_steps must be at least 1, not 0"):
        EM(features, m_steps=0)


def test_concentrations_that_are_found_by_gradient_rise() -> None:
    """The greatest log joint of a Dirichlet and its concentration, whose densities exceed one, by Nelder and Mead."""
    grammar = CFG.from_string("S -> 'a' S | 'a'")
    words = grammar.encode([["a"], ["a", "a"], ["a", "a", "a"]] * 5)

    def model(words: Tensor) -> None:
        alpha = pyro.sample("alpha", dist.Gamma(40.0, 2.0))
        rules = pyro.sample("rules", dirichlet_prior(grammar.blocks["rules"], alpha))
        with pyro.plate("sentences", len(words)):
            pyro.sample("words", Sentence(grammar, {"rules": rules}), obs=words)

    def log_joint(x: np.ndarray) -> float:
        """Of a logit and the log of the concentration, with their Jacobians; 'a' S is used 15 times, as is 'a'."""
        p, alpha = 1 / (1 + math.exp(-x[0])), math.exp(x[1])
        prior = stats.gamma(40.0, scale=0.5).logpdf(alpha) + stats.beta(alpha, alpha).logpdf(p)
        return float(prior + math.log(p * (1 - p)) + x[1] + 15 * math.log(p) + 15 * math.log(1 - p))

    loop = EM(model, unconstrained=True).run(words, num_steps=30, tolerance=1e-12, progress=False)
    best = optimize.minimize(lambda x: -log_joint(x), [0.1, 2.0], method="Nelder-Mead", options={"xatol": 1e-9})
    assert loop.history[-1] == pytest.approx(-best.fun, abs=1e-6)
    assert float(loop.latents()["alpha"]) == pytest.approx(math.exp(best.x[1]), rel=1e-3)
