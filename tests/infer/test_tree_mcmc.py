# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Samplers over trees as kernels of Pyro's MCMC, and hyperparameters."""

import math
import pickle
import sys
import types

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
import torch.multiprocessing as mp
from infer.small_corpora import CORPORA, padded
from infer.tree_chains import TinyCorpus
from pyro.infer import MCMC
from pyro.infer.mcmc import NUTS
from scipy.stats import kstest

from pyrogram import DMV, models
from pyrogram.distributions import Sentence
from pyrogram.infer import ModelError, TreeGibbs, TreeHastings, to_inference_data
from pyrogram.infer.samplers.latents import slice_sweep

V, SENTENCES = CORPORA["one tag"]
WORDS = padded(SENTENCES)


def sentences(words, grammar, weights):
    with pyro.plate("sentences", len(words)):
        pyro.sample("words", Sentence(grammar, weights), obs=words)


def learnt_alpha(words):
    """One concentration for all multinomials, itself drawn."""
    grammar = DMV(V)
    alpha = pyro.sample("alpha", dist.LogNormal(0.0, 1.0))
    weights = {
        name: pyro.sample(name, dist.Dirichlet(alpha * torch.ones(block.shape)).to_event(block.batch_dim))
        for name, block in grammar.blocks.items()
    }
    sentences(words, grammar, weights)


def hierarchy(words):
    """A scale above two concentrations, and a base measure that is a Dirichlet."""
    grammar = DMV(2)
    scale = pyro.sample("scale", dist.Gamma(2.0, 1.0))
    alpha = pyro.sample("alpha", dist.LogNormal(torch.zeros(2), scale).to_event(1))
    base = pyro.sample("base", dist.Dirichlet(torch.ones(2)))
    concentrations = {
        "root": torch.ones(2),
        "attach": alpha[0] * base * torch.ones(2, 2, 2),
        "stop": alpha[1] * torch.ones(2, 2, 2, 2),
    }
    weights = {n: pyro.sample(n, dist.Dirichlet(c).to_event(c.dim() - 1)) for n, c in concentrations.items()}
    sentences(words, grammar, weights)


@pytest.mark.parametrize("sampler", [TreeHastings, TreeGibbs])
def test_runs_in_pyro(sampler):
    mcmc = MCMC(sampler(models.dirichlet.dirichlet), 30, warmup_steps=10, disable_progbar=True)
    mcmc.run(WORDS, DMV(V))
    samples = mcmc.get_samples()
    assert {n: tuple(s.shape) for n, s in samples.items()} == {
        n: (30, *b.shape) for n, b in DMV(V).blocks.items()
    }  # trees are not among them: they would be turned into floats
    for name, draws in samples.items():
        assert torch.allclose(draws.sum(-1), torch.ones(()))
        assert len(draws.unique(dim=0)) == (1 if name in ("root", "attach") else 30)
    diagnostics = mcmc.diagnostics()
    assert diagnostics["divergences"] == {"chain 0": []}
    assert diagnostics["acceptance rate"]["chain 0"] == mcmc.kernel.acceptance > 0.3
    assert len(mcmc.kernel.history) == 40 and mcmc.kernel._averages.kept == 30
    assert mcmc.kernel.trees().shape == WORDS.shape


@pytest.mark.filterwarnings("ignore:num_chains=2 is more than available_cpu")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
@pytest.mark.parametrize("context", [None, "fork", "spawn"])
def test_several_chains(monkeypatch, context):
    """One after the other, or in processes: other chains from other seeds, and the same ones again."""
    if context is not None:
        monkeypatch.setattr(mp, "cpu_count", lambda: 3)
    runs = []
    for _ in range(1 if context else 2):
        pyro.set_rng_seed(7)
        kernel = TreeHastings(models.dirichlet.dirichlet)
        mcmc = MCMC(kernel, 6, warmup_steps=2, num_chains=2, mp_context=context, disable_progbar=True)
        mcmc.run(WORDS, DMV(V))
        runs.append(mcmc.get_samples(group_by_chain=True)["stop"])
    assert runs[0].shape == (2, 6, V, 2, 2, 2)
    assert not torch.equal(runs[0][0], runs[0][1])
    assert torch.equal(runs[0], runs[-1])
    assert len(mcmc.diagnostics()["acceptance rate"]) == 2


def test_a_kernel_that_has_run_travels_as_it_was_made():
    kernel = TreeHastings(models.dirichlet.dirichlet, batch_size=3, seed=4).run(
        WORDS, DMV(V), num_steps=3, progress=False
    )
    copy = pickle.loads(pickle.dumps(kernel))
    assert (copy.batch_size, copy.history, copy._state) == (3, [], None)
    assert copy.run(WORDS, DMV(V), num_steps=3, progress=False).history == kernel.history


def test_start_may_be_given():
    start = {"stop": torch.full((V, 2, 2, 2), 0.5)}
    mcmc = MCMC(TreeGibbs(models.dirichlet.dirichlet), 3, initial_params=start, disable_progbar=True)
    mcmc.run(WORDS, DMV(V))
    assert mcmc.get_samples()["stop"].shape == (3, V, 2, 2, 2)


def exact_alpha():
    """log alpha on a grid, and its posterior by quadrature over the exact evidence."""
    grid = np.linspace(-6, 6, 61)
    logs = []
    for x in grid:
        alpha = {n: np.full(tuple(b.shape), math.exp(x)) for n, b in DMV(V).blocks.items()}
        logs.append(TinyCorpus(DMV(V), WORDS, alpha).evidence - x * x / 2)
    weights = np.exp(np.array(logs) - max(logs))
    return grid, weights / weights.sum()


@pytest.mark.parametrize(
    ("kernel", "draws"),
    [("slice", 120), *(pytest.param(kernel, 400, marks=pytest.mark.slow) for kernel in ("slice", "hmc"))],
)
def test_posterior_of_a_concentration(kernel, draws):
    grid, weights = exact_alpha()
    kernel = TreeHastings(learnt_alpha, kernel=kernel)
    mcmc = MCMC(kernel, draws, warmup_steps=draws // 4, disable_progbar=True)
    mcmc.run(WORDS)
    found = mcmc.get_samples()["alpha"].log().numpy()
    mean = float(weights @ grid)
    assert found.mean() == pytest.approx(mean, abs=0.25)
    assert found.std() == pytest.approx(math.sqrt(float(weights @ (grid - mean) ** 2)), abs=0.25)
    assert not mcmc.diagnostics()["divergences"]["chain 0"]


def test_hyperparameters_of_hyperparameters():
    words = padded([[0, 1], [1], [0, 0, 1]])
    chain = TreeHastings(hierarchy, seed=0).run(words, num_steps=10, progress=False)
    values = chain.hyperparameters()
    assert {n: tuple(v.shape) for n, v in values.items()} == {"scale": (), "alpha": (2,), "base": (2,)}
    assert float(values["base"].sum()) == pytest.approx(1) and float(values["scale"]) > 0
    problem, state = chain._problem, chain._state
    joint = problem.log_joint(state.point, state.counts, state.weights)
    by_hand = dist.Gamma(2.0, 1.0).log_prob(values["scale"])
    by_hand = by_hand + dist.LogNormal(torch.zeros(2), values["scale"]).log_prob(values["alpha"]).sum()
    by_hand = by_hand + dist.Dirichlet(torch.ones(2)).log_prob(values["base"])
    alpha = {
        "root": torch.ones(2),
        "attach": values["alpha"][0] * values["base"] * torch.ones(2, 2, 2),
        "stop": values["alpha"][1] * torch.ones(2, 2, 2, 2),
    }
    corpus = TinyCorpus(DMV(2), words, {n: a.numpy() for n, a in alpha.items()})
    by_hand = float(by_hand) + corpus.log_joint(corpus.total(corpus.as_state(chain.trees())))
    assert float(joint) == pytest.approx(by_hand) == float(state.log_joint)


def test_chain_with_hyperparameters_resumes(tmp_path):
    words, chains = padded([[0, 1], [1], [0, 0, 1]]), []
    for stops in ([4], [2, 4]):
        path = tmp_path / f"{len(stops)}.safetensors"
        for stop in stops:
            chain = TreeHastings(hierarchy, seed=1).run(words, num_steps=stop, progress=False, checkpoint=path)
        chains.append(chain)
    assert chains[0].history == chains[1].history
    assert torch.equal(chains[0]._state.point["alpha"], chains[1]._state.point["alpha"])


@pytest.mark.slow
def test_nuts_of_a_model_without_trees_agrees():
    """The same posterior of alpha where derivations are summed out and weights are sampled by NUTS."""
    mcmc = MCMC(NUTS(learnt_alpha), 150, warmup_steps=100, disable_progbar=True)
    mcmc.run(WORDS)
    grid, weights = exact_alpha()
    assert float(mcmc.get_samples()["alpha"].log().mean()) == pytest.approx(float(weights @ grid), abs=0.4)


def parameters_below(words):
    grammar = DMV(V)
    alpha = pyro.param("alpha", torch.tensor(0.7), constraint=dist.constraints.positive)
    weights = {
        name: pyro.sample(name, dist.Dirichlet(alpha * torch.ones(block.shape)).to_event(block.batch_dim))
        for name, block in grammar.blocks.items()
    }
    sentences(words, grammar, weights)


def test_parameters_of_priors_stay_as_they_are():
    chain = TreeHastings(parameters_below, seed=0).run(WORDS, num_steps=5, progress=False)
    assert float(pyro.param("alpha").detach()) == pytest.approx(0.7)
    assert float(chain._problem.alpha(chain._state.point)["stop"].max()) == pytest.approx(0.7)


def with_discrete(words):
    grammar, which = DMV(V), pyro.sample("which", dist.Bernoulli(0.5))
    weights = {
        n: pyro.sample(n, dist.Dirichlet((1 + which) * torch.ones(b.shape)).to_event(b.batch_dim))
        for n, b in grammar.blocks.items()
    }
    sentences(words, grammar, weights)


def test_what_cannot_be_handled_is_named():
    with pytest.raises(ModelError, match="TreeHastings cannot handle the discrete latent site 'which'"):
        TreeHastings(with_discrete).step(WORDS)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("width", [0.1, 1.0, 10.0])
def test_slices_are_of_the_density(width):
    """Draws of a Gamma on the logarithmic scale and of a standard normal."""
    generator = torch.Generator().manual_seed(0)

    def log_density(x):
        a, b = x.tolist()
        return 3 * a - math.exp(a) - b**2 / 2

    point, draws = torch.tensor([1.0, 0.0]), []
    for k in range(2400):
        point = slice_sweep(log_density, point, generator, width=width)
        if k % 8 == 0:
            draws.append(point.tolist())
    logs, normals = np.array(draws).T
    assert kstest(np.exp(logs), "gamma", args=(3,)).pvalue > 1e-4
    assert kstest(normals, "norm").pvalue > 1e-4


def test_slices_start_where_there_is_density():
    with pytest.raises(ValueError, match="density is zero"):
        slice_sweep(lambda x: -math.inf, torch.zeros(1), torch.Generator())


@pytest.mark.parametrize("version", ["0.21.0", "1.0.0"])
def test_inference_data(monkeypatch, version):
    """ArviZ takes groups by name, since 1.0 in a mapping."""
    calls = []
    fake = types.ModuleType("arviz")
    fake.__version__ = version  # type: ignore[attr-defined]
    fake.from_dict = lambda *args, **kwargs: calls.append(args[0] if args else kwargs) or "data"  # type: ignore
    monkeypatch.setitem(sys.modules, "arviz", fake)
    mcmc = MCMC(TreeHastings(models.dirichlet.dirichlet), 5, warmup_steps=2, disable_progbar=True)
    mcmc.run(WORDS, DMV(V))
    assert to_inference_data(mcmc) == "data"
    assert calls[0]["posterior"]["stop"].shape == (1, 5, V, 2, 2, 2)
    np.testing.assert_allclose(calls[0]["sample_stats"]["lp"], [mcmc.kernel.diagnostics()["log joint"]])


def test_inference_data_needs_arviz(monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(ImportError, match="to_inference_data needs arviz"):
        to_inference_data(None)
