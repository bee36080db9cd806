# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""NUTS with the trees summed out, on a logistic normal drawn once for the corpus, against importance sampling."""

import pytest
import torch
from pyro.infer.mcmc import MCMC, NUTS
from pyro.ops.stats import effective_sample_size

from pyrogram import DMV
from pyrogram.distributions import Sentence
from pyrogram.models import corpus_logistic_normal, initial_experts

WORDS = torch.tensor([[0, 0, 0, 0], [0, 0, 0, -1], [0, 0, 0, 0], [0, -1, -1, -1], [0, 0, -1, -1]])
GRAMMAR = DMV(1)
PRIOR = initial_experts(WORDS, GRAMMAR, GRAMMAR.initial_weights(WORDS, "uniform"))


def posterior_mean(num_samples: int) -> tuple[torch.Tensor, torch.Tensor]:
    """E[stop | words] and its standard error, from draws of the prior weighted by their likelihood."""
    eta = torch.randn(num_samples, 1, 2, 2, 2)  # one tag: root and attach have one event
    weights = {
        "root": torch.ones(num_samples, 1, 1),
        "attach": torch.ones(num_samples, 1, 1, 2, 1),
        "stop": eta.softmax(-1).unsqueeze(1),
    }
    likelihood = Sentence(GRAMMAR, weights, validate_args=False).log_prob(WORDS).sum(-1)
    shares = likelihood.softmax(0)
    values = eta.softmax(-1)[:, 0, :, :, 1]
    mean = (shares[:, None, None] * values).sum(0)
    error = ((shares[:, None, None] * (values - mean)) ** 2).sum(0).sqrt()
    return mean, error


@pytest.mark.slow
def test_nuts_agrees_with_importance_sampling() -> None:
    torch.manual_seed(0)
    expected, error = posterior_mean(40_000)
    mcmc = MCMC(NUTS(corpus_logistic_normal), num_samples=500, warmup_steps=150, disable_progbar=True)
    mcmc.run(WORDS, GRAMMAR, prior=PRIOR)
    draws = mcmc.get_samples()["stop.eta"].softmax(-1)[:, 0, :, :, 1]
    spread = draws.std(0) / effective_sample_size(draws[None], sample_dim=1, chain_dim=0).sqrt()
    distance = (draws.mean(0) - expected).abs() / (error**2 + spread**2).sqrt()
    assert float(distance.max()) < 4
    # The data moved them: the prior's mean is one half.
    assert float((expected - 0.5).abs().max()) > 0.1
