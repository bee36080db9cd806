# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The evidence of logistic normals by importance sampling, against quadrature and listed trees."""

import math
import warnings
from typing import Any

import numpy as np
import pyro
import pytest
import torch
from infer.gaussian_sums import dense, log_evidence, random_start
from infer.small_corpora import padded
from infer.test_logistic_normal_em import THREE, TWO, model_of
from torch import Tensor
from torch.distributions import MultivariateNormal

from pyrogram import DMV
from pyrogram.distributions import Sentence, logistic_normal
from pyrogram.infer import EStep, ImportanceWeightedBound, ModelError, VariationalEM

pytestmark = pytest.mark.filterwarnings("ignore:the importance weights")


def fitted(diagonal: bool, seed: int = 1, size: int = 2, **options: Any) -> VariationalEM:
    loop = VariationalEM(model_of(DMV(size), seed, diagonal=diagonal, learn=False), **options)
    loop.step(padded(TWO if size == 2 else THREE))
    return loop


@pytest.mark.parametrize("diagonal", [pytest.param(True, marks=pytest.mark.slow), False])
def test_the_evidence_is_that_of_quadrature(diagonal: bool) -> None:
    """Of two events, only the variance of their difference matters: a + b - 2 c with a covariance."""
    locs, covariances, variances = random_start(DMV(2), 1)
    if not diagonal:  # the same differences, with independent coordinates
        for name, matrix in covariances.items():
            whole = matrix[..., 0, 0] + matrix[..., 1, 1] - 2 * matrix[..., 0, 1]
            variances[name] = (whole / 2)[..., None].expand(locs[name].shape)
    truth = torch.tensor([log_evidence(sentence, locs, variances) for sentence in TWO])
    found = fitted(diagonal).importance_weighted_bound(500)
    error = (1 / found.effective_sample_sizes - 1 / 500).sqrt()
    assert bool(((found.values - truth).abs() < 4 * error).all())
    assert found.value == pytest.approx(float(truth.sum()), abs=4 * found.standard_error)
    assert found.standard_error < 0.3
    assert bool((found.bounds < truth).all())
    same, other = (fitted(diagonal).importance_weighted_bound(2, seed=seed).log_weights for seed in (5, 6))
    assert torch.equal(same, fitted(diagonal).importance_weighted_bound(2, seed=5).log_weights)
    assert not torch.equal(same, other)


@pytest.mark.parametrize("diagonal", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_bound_marginal_bound_and_evidence_rise(diagonal: bool) -> None:
    loop = fitted(diagonal, seed=3, size=3)
    found = loop.importance_weighted_bound(300)
    marginal, error = loop.marginal_bound(300)
    assert float(found.bounds.sum()) < marginal - 3 * error
    assert marginal + 3 * error < found.value
    few = torch.stack([loop.importance_weighted_bound(5, seed=seed).values for seed in range(1, 20)])
    assert float(few.sum(1).mean()) < found.value


def test_bounds_are_the_next_objective() -> None:
    """Restarts of that iteration included; the estimate changes nothing of the run."""
    words, e_step = padded(THREE), EStep(restarts=2, restart_every=2)
    plain = VariationalEM(model_of(DMV(3), 1), e_step=e_step)
    pyro.clear_param_store()
    plain.run(words, num_steps=4, tolerance=0, progress=False)
    pyro.clear_param_store()
    loop = VariationalEM(model_of(DMV(3), 1), e_step=e_step)
    state = torch.get_rng_state()
    for _ in range(3):
        loop.step(words)
        bounds = loop.importance_weighted_bound(2).bounds
        loop.marginal_bound(2)
        before = len(loop.history)
        assert float(bounds.sum()) == pytest.approx(plain.history[before], abs=1e-9)
    loop.step(words)
    assert loop.history == plain.history
    assert torch.equal(torch.get_rng_state(), state)


def test_the_marginal_bound_is_that_of_q() -> None:
    """Of a sentence of one word, by quadrature over q and its divergence from the prior."""
    locs, covariances, _ = random_start(DMV(2), 1)
    loop = VariationalEM(model_of(DMV(2), 1, learn=False), e_step=EStep(1e-13, 500))
    loop.step(torch.tensor([[1]]))
    means, variances = ({n.removesuffix(".eta"): t[0] for n, t in found.items()} for found in dense(loop))
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    expected = 0.0
    for name, index in (("root", 1), ("stop", (1, 0, 0)), ("stop", (1, 1, 0))):
        # log p of the event: of the root tag 1; of stopping at once on either side
        at = () if name == "root" else index
        m, v = means[name][at], variances[name][at]
        event = 1  # the tag, and stopping, which comes after going on
        difference = float(m[event] - m[1 - event]) + math.sqrt(float(v.sum())) * nodes
        expected -= float((weights / weights.sum() * np.logaddexp(0, -difference)).sum())
    for name, loc in locs.items():
        q = MultivariateNormal(means[name], torch.diag_embed(variances[name]))
        p = MultivariateNormal(loc, covariances[name])
        expected -= float(torch.distributions.kl_divergence(q, p).sum())
    marginal, error = loop.marginal_bound(400)
    assert marginal == pytest.approx(expected, abs=4 * error)
    assert error < 0.1


@pytest.mark.parametrize("scale", [1.0, 3.0])
def test_what_does_not_occur_costs_its_correlations(scale: float) -> None:
    """A sentence of tag 0 loses (log |Σ| + sum log Λ_ii) / 2 for every Gaussian of tag 1, whatever the scale of Σ."""
    grammar, words = DMV(2), torch.tensor([[0, 0]])
    matrix = scale * torch.tensor([[1.0, 0.8], [0.8, 1.0]])
    constant = 0.5 * float(torch.logdet(matrix) + torch.linalg.inv(matrix).diagonal().log().sum())
    assert constant == pytest.approx(-0.5 * math.log(1 - 0.8**2))
    found = []
    for other in (matrix, torch.diag(matrix.diagonal())):

        def model(words: Tensor, other: Tensor = other) -> None:
            with pyro.plate("sentences", len(words)):
                weights = {}
                for name, block in grammar.blocks.items():
                    full = torch.eye(2).expand(*block.shape, 2).clone()
                    if name != "root":
                        full[1] = other
                    weights[name] = logistic_normal(name, torch.zeros(block.shape), full)
                pyro.sample("words", Sentence(grammar, weights), obs=words)

        loop = VariationalEM(model)
        loop.step(words)
        found.append((loop.history[0], loop.importance_weighted_bound(50)))
    (full, own), (diagonal, other_own) = found
    assert diagonal - full == pytest.approx((2 + 4) * constant)
    assert own.value == pytest.approx(other_own.value, abs=1e-12)


def test_tails() -> None:
    """k of a Pareto tail is found; weights that are equal, or few, have none; the warning counts sentences."""
    generator = torch.Generator().manual_seed(0)
    uniform = torch.rand(2000, 3, generator=generator, dtype=torch.float64)
    k = torch.tensor([0.3, 0.9, 1.5])
    found = ImportanceWeightedBound(-k * uniform.log(), torch.zeros(3))
    torch.testing.assert_close(found.pareto_k.to(k), k, rtol=0, atol=0.3)
    assert found.greatest_pareto_k == pytest.approx(min(0.7, 1 - 1 / math.log10(2000)))
    assert found.unreliable.tolist() == [1, 2]
    with pytest.warns(UserWarning, match="of 2 of 3 sentences have too heavy a tail for 2,000 draws"):
        found.warn()
    equal = ImportanceWeightedBound(torch.full((100, 2), -3.0), torch.zeros(2))
    assert equal.value == pytest.approx(-6)
    assert equal.standard_error == pytest.approx(0, abs=1e-3)
    torch.testing.assert_close(equal.effective_sample_sizes, torch.full((2,), 100.0))
    few = ImportanceWeightedBound(torch.randn(20, 2, generator=generator), torch.zeros(2))
    assert bool(few.pareto_k.isnan().all())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        equal.warn()
        few.warn()


def test_refusals() -> None:
    words = padded(TWO)
    with pytest.raises(ValueError, match="at least 2"):
        fitted(True).importance_weighted_bound(1)
    beside = VariationalEM(model_of(DMV(2), 1, only=("attach",)))
    beside.step(words)
    with pytest.raises(ModelError, match="'stop' is drawn once"):
        beside.importance_weighted_bound()
    once = VariationalEM(model_of(DMV(2), 1, per_sentence=False))
    once.step(words)
    with pytest.raises(ModelError, match="marginal_bound"):
        once.importance_weighted_bound()
