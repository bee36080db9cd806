# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Priors of blocks against loops that say what they are, under every kind of inference."""

from typing import Any

import pyro
import pytest
import torch
from priors.prior_cases import CASES, RANDOM, model_of, with_a_number
from priors.small_grammars import SMALL
from pyro import poutine
from pyro.infer import MCMC, NUTS, SVI, Predictive, Trace_ELBO
from pyro.infer.autoguide import AutoNormal
from pyro.infer.mcmc.util import initialize_model
from pyro.poutine.util import site_is_subsample
from torch import Tensor

from pyrogram.infer import EM, TreeGibbs

pytestmark = pytest.mark.usefixtures("one_thread")
grammars = pytest.mark.parametrize("grammar", SMALL)
cases = pytest.mark.parametrize("case", CASES)


def latent(trace: Any) -> dict[str, Tensor]:
    return {n: trace.nodes[n]["value"] for n in trace.stochastic_nodes if not site_is_subsample(trace.nodes[n])}


def truth(grammar: str, case: str, latents: dict[str, Tensor]) -> tuple[float, dict[str, Tensor]]:
    """The log joint, and weights by block."""
    total, weights = 0.0, {}
    for name, block in SMALL[grammar].grammar.blocks.items():
        density, w = CASES[case].truth(name, block, {n: x.detach().numpy() for n, x in latents.items()})
        total, weights[name] = total + density, torch.tensor(w)
    return total + float(SMALL[grammar].log_likelihood(weights)), weights


@pytest.mark.one_in(2)
@grammars
@cases
def test_log_joint_and_weights(grammar: str, case: str) -> None:
    small = SMALL[grammar]
    model = model_of(small, CASES[case].draw)
    for _ in range(3):
        trace: Any = poutine.trace(model).get_trace(small.words)
        expected, weights = truth(grammar, case, latent(trace))
        assert float(trace.log_prob_sum()) == pytest.approx(expected, rel=1e-10)
        for name, w in trace.nodes["words"]["fn"].weights.items():
            torch.testing.assert_close(w, weights[name])


@grammars
@cases
def test_potential(grammar: str, case: str) -> None:
    """What NUTS moves on: the log joint and the Jacobian, less their sign."""
    small = SMALL[grammar]
    start, potential, transforms, _ = initialize_model(model_of(small, CASES[case].draw), (small.words,))
    values = {n: transforms[n].inv(x) for n, x in start.items()}
    jacobian = sum(float(transforms[n].log_abs_det_jacobian(values[n], x).sum()) for n, x in start.items())
    expected, _ = truth(grammar, case, values)
    assert float(potential(start)) == pytest.approx(jacobian - expected, rel=1e-9)


@pytest.mark.one_in(2)
@grammars
@pytest.mark.parametrize("case", [*RANDOM, "bayesian network"])
@pytest.mark.parametrize("batch", [(3, 1), (2, 3, 1)], ids=str)
def test_particles(grammar: str, case: str, batch: tuple[int, ...]) -> None:
    """Of a batch, each is what it is alone; also where a number of the prior is drawn, of which each has its own."""
    small = SMALL[grammar]
    model = with_a_number(small, RANDOM[case]) if case in RANDOM else model_of(small, CASES[case].draw)

    def run(shape: tuple[int, ...]) -> Any:
        with pyro.plate_stack("particles", shape[:-1], rightmost_dim=-2):
            return poutine.trace(model).get_trace(small.words)

    together = run(batch)
    together.compute_log_prob()
    for index in ((0,) * (len(batch) - 1), (1,) * (len(batch) - 1)):
        own = {n: x[(*index, 0)] for n, x in latent(together).items()}
        alone: Any = poutine.trace(poutine.condition(model, own)).get_trace(small.words)
        alone.compute_log_prob()
        for name in [*own, "words"]:
            found = together.nodes[name]["log_prob"][index]
            torch.testing.assert_close(found.sum(), alone.nodes[name]["log_prob"].sum())
        for name, w in alone.nodes["words"]["fn"].weights.items():
            assert together.nodes["words"]["fn"].weights[name].shape == (*batch, *w.shape)
            torch.testing.assert_close(together.nodes["words"]["fn"].weights[name][(*index, 0)], w)


@pytest.mark.one_in(12)
@grammars
@pytest.mark.parametrize("case", [name for name in CASES if name != "hierarchical_dirichlet"])
def test_em(grammar: str, case: str) -> None:
    """The objective is the log joint at the latent values before the step, and does not fall."""
    small = SMALL[grammar]
    loop = EM(model_of(small, CASES[case].draw), initial_weights="random", m_steps=3)
    loop.step(small.words)
    for _ in range(3):
        expected, _ = truth(grammar, case, loop.latents())
        assert loop.step(small.words) == pytest.approx(expected, rel=1e-9)
    assert all(b >= a - 1e-9 * abs(a) for a, b in zip(loop.history, loop.history[1:], strict=False))


@grammars
def test_gibbs(grammar: str) -> None:
    """A base that is drawn: collapsed around it, which EM cannot, for it has no mode."""
    small = SMALL[grammar]
    loop = TreeGibbs(model_of(small, CASES["hierarchical_dirichlet"].draw))
    loop.run(small.words, num_steps=3, progress=False)
    assert all(torch.isfinite(w).all() for w in loop.weights().values())
    assert set(loop.hyperparameters()) == {f"base.{name}" for name in small.grammar.blocks}


@pytest.mark.one_in(8)
@grammars
@cases
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_svi(grammar: str, case: str, dtype: torch.dtype) -> None:
    """Particles side by side, in both precisions; and weights of that precision."""
    torch.set_default_dtype(dtype)
    small = SMALL[grammar]
    model = model_of(small, CASES[case].draw)
    guide = AutoNormal(model)
    elbo = Trace_ELBO(num_particles=2, vectorize_particles=True, max_plate_nesting=1)
    svi = SVI(model, guide, pyro.optim.Adam({"lr": 0.05}), elbo)  # type: ignore[attr-defined]
    losses = [svi.step(small.words) for _ in range(5)]
    assert all(-1000 < x < 1000 for x in losses)
    trace: Any = poutine.trace(model).get_trace(small.words)
    for w in trace.nodes["words"]["fn"].weights.values():
        assert w.dtype == dtype


@pytest.mark.one_in(2)
@cases
def test_nuts_and_draws_from_the_prior(case: str) -> None:
    small = SMALL["CFG"]
    model = model_of(small, CASES[case].draw)
    chain = MCMC(NUTS(model, max_tree_depth=2), num_samples=2, warmup_steps=2, disable_progbar=True)
    chain.run(small.words)
    assert all(torch.isfinite(x).all() for x in chain.get_samples().values())
    drawn = [Predictive(model, num_samples=3, parallel=parallel)(None, 5)["words"] for parallel in (False, True)]
    assert all(words.reshape(-1, 6).shape == (15, 6) for words in drawn)
