# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The Pyro model of syntactic topics: its density, SVI and NUTS, against sums over all states."""

import itertools
from functools import partial

import pyro
import pyro.distributions as dist
import pytest
import torch
from infer.topic_sums import HEADS, WORDS, V, log_urns, pairs, posterior
from pyro import poutine
from pyro.infer import MCMC, NUTS, SVI, TraceEnum_ELBO
from pyro.infer.autoguide import AutoDelta

from pyrogram.models.syntactic_topics import syntactic_topics

BASE, B, K = [0.7, 0.3], 0.4, 2
model = partial(syntactic_topics, num_words=V, num_states=K, concentration=torch.tensor(BASE), word_concentration=B)


def test_the_samplers_joint_is_the_models_with_multinomials_integrated_out():
    """By conjugacy: P(θ, φ, s, w) over the posterior of θ and φ given s and w is P(s, w), whatever θ and φ."""
    torch.manual_seed(0)
    states = torch.tensor([0, 1, 1, 0, 1, 0])
    tokens = pairs(WORDS, HEADS)
    theta_counts, phi_counts = torch.zeros(V + 1, K), torch.zeros(K, V)
    for (p, w), k in zip(tokens, states.tolist(), strict=True):
        theta_counts[p, k] += 1
        phi_counts[k, w] += 1
    for _ in range(3):
        theta = dist.Dirichlet(torch.ones(V + 1, K)).sample()
        phi = dist.Dirichlet(torch.ones(K, V)).sample()
        fixed = pyro.condition(model, {"theta": theta, "phi": phi, "state": states})
        joint = poutine.trace(fixed).get_trace(WORDS, HEADS).log_prob_sum()
        joint = joint - dist.Dirichlet(torch.tensor(BASE) + theta_counts).log_prob(theta).sum()
        joint = joint - dist.Dirichlet(B + phi_counts).log_prob(phi).sum()
        assert float(joint) == pytest.approx(log_urns(tokens, states.tolist(), BASE, B))


def test_svi_sums_over_all_states():
    """With a point for θ and φ, the ELBO is their log density with that of the words, states summed out one by one."""
    guide = AutoDelta(poutine.block(partial(model, learn=True), hide=["state"]))
    svi = SVI(partial(model, learn=True), guide, pyro.optim.Adam({"lr": 0.05}), TraceEnum_ELBO(max_plate_nesting=1))  # type: ignore
    svi.step(WORDS, HEADS)
    point = guide(WORDS, HEADS)
    theta, phi, alpha_m = point["theta"].detach(), point["phi"].detach(), pyro.param("alpha_m").detach()
    expected = dist.Dirichlet(alpha_m).log_prob(theta).sum() + dist.Dirichlet(torch.full((V,), B)).log_prob(phi).sum()
    for p, w in pairs(WORDS, HEADS):
        expected = expected + sum(theta[p, k] * phi[k, w] for k in range(K)).log()
    assert svi.evaluate_loss(WORDS, HEADS) == pytest.approx(-float(expected))
    before = svi.evaluate_loss(WORDS, HEADS)
    for _ in range(20):
        svi.step(WORDS, HEADS)
    assert svi.evaluate_loss(WORDS, HEADS) < before
    assert (alpha_m != torch.tensor(BASE)).any()


def test_minibatches_are_unbiased():
    theta = dist.Dirichlet(torch.ones(V + 1, K)).sample()
    phi = dist.Dirichlet(torch.ones(K, V)).sample()
    fixed = pyro.condition(partial(model, batch_size=2), {"theta": theta, "phi": phi})
    elbo = TraceEnum_ELBO(max_plate_nesting=1)

    def empty(words, heads):
        pass

    pairs_of_tokens = list(itertools.combinations(range(len(pairs(WORDS, HEADS))), 2))
    losses = [  # of every minibatch, all of which are as probable
        elbo.loss(pyro.condition(fixed, {"tokens": torch.tensor(pair)}), empty, WORDS, HEADS)
        for pair in pairs_of_tokens
    ]
    whole = pyro.condition(model, {"theta": theta, "phi": phi})
    exact = elbo.loss(whole, empty, WORDS, HEADS)
    assert sum(losses) / len(losses) == pytest.approx(exact, rel=1e-9)
    assert max(losses) - min(losses) > 0.1


def test_a_wall_of_its_own_and_one_word():
    trace = poutine.trace(model).get_trace(torch.tensor([[1]]), torch.tensor([[0]]))
    assert trace.nodes["theta"]["value"].shape == (V + 1, K) and trace.nodes["phi"]["value"].shape == (K, V)
    assert trace.nodes["word"]["value"].tolist() == [1]


@pytest.mark.slow
def test_nuts_finds_the_posterior_means(one_thread):
    """Of θ, which are averages over all states of Dirichlet means."""
    words, heads, base, b = WORDS[:2], HEADS[:2], [2.0, 1.0], 1.0
    everything, p, _ = posterior(words, heads, base, b)
    expected = torch.zeros(V + 1, K)
    for probability, states in zip(p, everything, strict=True):
        counts = torch.tensor(base).repeat(V + 1, 1)
        for (head, _), k in zip(pairs(words, heads), states, strict=True):
            counts[head, k] += 1
        expected += probability * counts / counts.sum(1, keepdim=True)
    tiny = partial(model, concentration=torch.tensor(base), word_concentration=b)
    mcmc = MCMC(NUTS(tiny, max_plate_nesting=1, max_tree_depth=5), 800, warmup_steps=200, disable_progbar=True)
    mcmc.run(words, heads)
    theta = mcmc.get_samples()["theta"]
    ess = torch.as_tensor(mcmc.diagnostics()["theta"]["n_eff"])
    assert ess.min() > 100
    assert ((theta.mean(0) - expected).abs() < 4.5 * theta.std(0) / ess.sqrt()).all()
