# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Loops, samplers and Pyro's own inference over tilted sentences, against lists of all derivations."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyro
import pytest
import torch
from infer.collapsed_sums import FieldOfTrees, log_joint, log_weight, normalised
from infer.small_corpora import assert_close, padded, tensors
from infer.tree_chains import TinyCorpus, p_value
from infer.tree_sums import Tables, derivations, divergence, normalized, random_tables, shapes, sub_normalized
from pyro.infer import MCMC, NUTS

from pyrogram import DMV, HMM, Bias, models
from pyrogram.distributions import Sentence, dirichlet_prior
from pyrogram.infer import EM, CollapsedVB, ModelError, TreeGibbs, TreeHastings, VariationalEM

WORDS = [[0, 1, 1], [1, 0, 1], [1, 1], [0]]
GRAMMAR = DMV(2)
NATS = {
    "root": np.array([0.5, -1.0]),
    "attach": np.array([[[-np.inf, 1.5], [0.3, -0.7]], [[1.0, -0.2], [0.4, 2.0]]]),
    "stop": np.linspace(-1, 1, 16).reshape(2, 2, 2, 2),
}
TILTED = GRAMMAR.tilted(tensors(NATS))
LOOPS: dict[str, Any] = {
    "EM": EM, "VariationalEM": VariationalEM, "CollapsedVB": CollapsedVB, "TreeHastings": TreeHastings,
    "TreeGibbs": TreeGibbs,
}  # fmt: skip


def nats_of(counts: Tables) -> float:
    return log_weight(counts, NATS)


def sums(tables: Mapping[str, np.ndarray]) -> tuple[float, Tables]:
    """log Z and expected counts of all sentences, derivation by derivation."""
    total, expected = 0.0, {n: np.zeros(t.shape) for n, t in tables.items()}
    with np.errstate(divide="ignore"):
        logs = {n: np.log(t) for n, t in tables.items()}
    for sentence in WORDS:
        trees = [c for _, c in derivations(sentence, {n: np.ones(t.shape) for n, t in tables.items()})]
        scores = np.array([log_weight(c, logs) + nats_of(c) for c in trees])
        total += float(np.logaddexp.reduce(scores))
        for share, counts in zip(normalised(list(scores)), trees, strict=True):
            for n in expected:
                expected[n] += share * counts[n]
    return total, expected


def random_prior() -> Tables:
    generator = np.random.default_rng(0)
    return {n: generator.uniform(0.1, 2, shape) for n, shape in shapes(2, False).items()}


# ---------------------------------------------------------------------- loops


def test_em_counts_under_the_tilted_posterior() -> None:
    tables = random_tables(2, False, seed=1)
    em = EM(models.maximum_likelihood, initial_weights=tensors(tables))
    for _ in range(3):
        objective, counts = sums(tables)
        tables = {n: normalized(counts[n], tables[n]) for n in tables}
        assert em.step(padded(WORDS), TILTED) == pytest.approx(objective, abs=1e-9)
        assert_close(em.weights(), tables)
    em.run(padded(WORDS), TILTED, num_steps=20, progress=False)
    assert all(b > a - 1e-9 for a, b in zip(em.history, em.history[1:], strict=False))


def test_variational_em_has_the_tilted_bound() -> None:
    prior, start = random_prior(), random_tables(2, False, 1)
    loop = VariationalEM(models.dirichlet.dirichlet, initial_weights=tensors(start))
    counts = sums(start)[1]
    for _ in range(3):
        posterior = {n: prior[n] + counts[n] for n in prior}
        log_z, counts = sums({n: sub_normalized(q) for n, q in posterior.items()})
        bound = log_z - sum(divergence(posterior[n], prior[n]) for n in prior)
        objective = loop.step(padded(WORDS), TILTED, concentration=tensors(prior))
        assert objective == pytest.approx(bound, abs=1e-9)


@pytest.mark.parametrize("loop", [EM, VariationalEM])
def test_weights_that_are_computed(loop: Any) -> None:
    """By gradients, also those of guided variational Bayes: the first objective is exact, and none is lower."""

    def model(words: torch.Tensor) -> None:
        weights = {
            n: pyro.sample(n, dirichlet_prior(b, 2.0))
            if n == "root" and loop is VariationalEM
            else pyro.param(f"{n}.logits", torch.zeros(b.shape)).softmax(-1)
            for n, b in GRAMMAR.blocks.items()
        }
        with pyro.plate("sentences", len(words)):
            pyro.sample("words", Sentence(TILTED, weights), obs=words)

    pyro.clear_param_store()
    found = loop(model)
    found.run(padded(WORDS), num_steps=4, progress=False)
    if loop is EM:
        uniform = {n: b.uniform(torch.ones(())).numpy() for n, b in GRAMMAR.blocks.items()}
        assert found.history[0] == pytest.approx(sums(uniform)[0], abs=1e-9)
    assert all(b > a - 1e-9 for a, b in zip(found.history, found.history[1:], strict=False))


class TiltedTrees(FieldOfTrees):
    """Q(t_i) in proportion to exp φ(t_i), too."""

    def __init__(self, prior: Tables, start: Tables) -> None:
        super().__init__(WORDS, prior, start)
        self.q = [self._tilted(i, q) for i, q in enumerate(self.q)]

    def _tilted(self, i: int, q: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return normalised([np.log(share) + nats_of(t) for share, t in zip(q, self.trees[i], strict=True)])

    def figure3(self, order: Any, batch_size: int = 1) -> None:
        for i in order:
            super().figure3([i])
            self.q[i] = self._tilted(i, self.q[i])

    def objective(self) -> float:
        own = sum(
            float(share) * nats_of(t)
            for q, trees in zip(self.q, self.trees, strict=True)
            for share, t in zip(q, trees, strict=True)
            if share > 0
        )
        return super().objective() + own


def test_collapsed_vb_is_figure_3_under_a_tilt() -> None:
    prior, start = random_prior(), random_tables(2, False, 1)
    truth = TiltedTrees(prior, start)
    loop = CollapsedVB(models.dirichlet.dirichlet, initial_weights=tensors(start), batch_size=1)
    for _ in range(3):
        found = loop.step(padded(WORDS), TILTED, concentration=tensors(prior))
        assert found == pytest.approx(truth.objective(), abs=1e-9)
        truth.figure3(range(len(WORDS)))
        assert_close(loop.weights(), truth.weights(), rtol=1e-9)


# ---------------------------------------------------------------------- samplers


class TiltedCorpus(TinyCorpus):
    """The joint, and the proposals, have the nats of all events in them."""

    def __init__(self, grammar: Any, words: torch.Tensor, alpha: Tables, nats: Tables) -> None:
        self.nats = nats
        super().__init__(grammar, words, alpha)  # type: ignore[no-untyped-call]

    def log_joint(self, counts: Tables) -> float:
        return float(super().log_joint(counts) + log_weight(counts, self.nats))  # type: ignore[no-untyped-call]


def tiny(name: str) -> tuple[TiltedCorpus, Any]:
    grammar: Any = DMV(2) if name == "DMV" else HMM(2, 2)
    generator = np.random.default_rng(0)
    alpha, nats = (
        {n: generator.uniform(low, 1.5, tuple(b.shape)) for n, b in grammar.blocks.items()} for low in (0.1, -1.5)
    )
    corpus = TiltedCorpus(grammar, padded([[0, 1, 0], [0, 1]]), alpha, nats)
    return corpus, grammar.tilted(tensors(nats))


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", ["DMV", "HMM"])
@pytest.mark.parametrize("sampler", [TreeHastings, TreeGibbs])
def test_one_sweep_leaves_the_posterior_invariant(name: str, sampler: Any) -> None:
    """And the log joint that is kept has the nats in it."""
    corpus, grammar = tiny(name)
    kernel = sampler(models.dirichlet.dirichlet, seed=1, initial_weights="random", batch_size=2)
    kernel.setup(0, corpus.words, grammar, concentration=tensors(corpus.alpha))
    problem, observed = kernel._problem, np.zeros(len(corpus.states))
    generator, draws = np.random.default_rng(2), torch.Generator().manual_seed(1)
    for s in generator.choice(len(corpus.states), size=200, p=corpus.posterior):
        before = replace(kernel._state, derivations={"words": corpus.as_trees(corpus.states[s])})
        ready = kernel._recounted(problem, before)
        assert float(ready.log_joint) == pytest.approx(corpus.log_joint(corpus.total(corpus.states[s])), abs=1e-9)
        found, _, _ = kernel._sweep(problem, ready, draws)
        observed[corpus.number[corpus.as_state(found["words"])]] += 1
    assert p_value(observed, corpus.posterior) > 1e-3  # type: ignore[no-untyped-call]


def test_nats_of_arcs_are_in_the_log_joint() -> None:
    """Of a chain that runs, whose states are those of its sentences."""
    words = padded([[0, 1, 1], [1, 0]])
    arcs = torch.randn(2, 4, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    grammar = GRAMMAR.tilted(Bias(tensors({"root": NATS["root"]}), {"arc_scores": arcs}))
    chain = TreeHastings(models.dirichlet.dirichlet, seed=0).run(
        words, grammar, concentration=1.0, num_steps=5, progress=False
    )
    trees = chain.trees()
    counts = {n: c.sum(0).numpy().astype(float) for n, c in GRAMMAR.counts(words, trees).items()}
    expected = log_joint(counts, {n: np.ones(c.shape) for n, c in counts.items()}) + float(
        (counts["root"] * NATS["root"]).sum()
    )
    expected += sum(float(arcs[b, h, j + 1]) for b, t in enumerate(trees.tolist()) for j, h in enumerate(t) if h >= 0)
    assert float(chain._state.log_joint) == pytest.approx(expected, abs=1e-9)


# ---------------------------------------------------------------------- Pyro's own, and refusals


def test_the_potential_of_nuts_and_svi_is_the_tilted_joint() -> None:
    prior = {n: torch.full(b.shape, 1.5, dtype=torch.float64) for n, b in GRAMMAR.blocks.items()}
    values = tensors(random_tables(2, False, 3))

    def model() -> None:
        weights = {n: pyro.sample(n, dirichlet_prior(b, prior[n])) for n, b in GRAMMAR.blocks.items()}
        with pyro.plate("sentences", len(WORDS)):
            pyro.sample("words", Sentence(TILTED, weights), obs=padded(WORDS))

    trace = pyro.poutine.trace(pyro.poutine.condition(model, values)).get_trace()
    own = sum(float(dirichlet_prior(b, prior[n]).log_prob(values[n]).sum()) for n, b in GRAMMAR.blocks.items())
    expected = sums({n: w.numpy() for n, w in values.items()})[0] + own
    assert float(trace.log_prob_sum()) == pytest.approx(expected, abs=1e-9)


@pytest.mark.slow
def test_a_chain_of_nuts_agrees_with_importance_sampling(one_thread: None) -> None:
    """Draws from the prior, weighted by the sums over all trees, give the posterior means."""
    words, grammar = padded(WORDS[:2] + [[0]]), GRAMMAR.tilted(tensors({n: np.maximum(t, -3) for n, t in NATS.items()}))

    def prior() -> dict[str, torch.Tensor]:
        blocks = GRAMMAR.blocks.items()
        return {name: pyro.sample(name, dirichlet_prior(block, 2.0)) for name, block in blocks}

    def model() -> None:
        weights = prior()
        with pyro.plate("sentences", len(words)):
            pyro.sample("words", Sentence(grammar, weights), obs=words)

    mcmc = MCMC(NUTS(model, max_tree_depth=4), num_samples=200, warmup_steps=60, disable_progbar=True)
    mcmc.run()
    with pyro.plate("draws", 50_000, dim=-1):
        drawn = prior()
    expanded = {name: w[:, None] for name, w in drawn.items()}
    tilted, plain = (Sentence(g, expanded).log_prob(words).sum(-1).softmax(0) for g in (grammar, GRAMMAR))
    effective, apart = 1 / (tilted**2).sum(), 0.0
    assert effective > 1000
    for name, samples in mcmc.get_samples().items():
        mean, other = (torch.tensordot(w, drawn[name], 1) for w in (tilted, plain))
        error = samples.std(0) * (1 / 40 + 1 / effective) ** 0.5  # 200 draws are worth at least 40 independent ones
        assert ((samples.mean(0) - mean).abs() < 4 * error).all()
        apart = max(apart, float(((mean - other).abs() / error).max()))
    assert apart > 4  # the test has power: the posterior without the tilt is another one


@pytest.mark.parametrize("name", LOOPS)
def test_a_bias_that_is_to_be_learnt_is_refused(name: str) -> None:
    def model() -> None:
        weights = {n: pyro.sample(n, dirichlet_prior(b, 1.0)) for n, b in GRAMMAR.blocks.items()}
        nats = pyro.param("nats", torch.zeros(2))
        with pyro.plate("sentences", len(WORDS)):
            pyro.sample("words", Sentence(GRAMMAR.tilted({"root": nats}), weights), obs=padded(WORDS))

    pyro.clear_param_store()
    with pytest.raises(ModelError, match="cannot learn the bias of site 'words'"):
        LOOPS[name](model).run(num_steps=1, progress=False)


@pytest.mark.parametrize("name", LOOPS)
def test_a_bias_that_forbids_all_derivations_is_named(name: str) -> None:
    grammar = GRAMMAR.tilted({"root": torch.tensor([-torch.inf, 0.0])})
    with pytest.raises(ValueError, match="sentence 3 of site 'words' .* with a bias that does not forbid all"):
        LOOPS[name](models.dirichlet.dirichlet).run(
            padded(WORDS), grammar, concentration=1.0, num_steps=1, progress=False
        )


def test_a_run_under_another_tilt_is_another_run() -> None:
    found = []
    for grammar in (GRAMMAR, TILTED, TILTED.tilted({"root": torch.ones(2)})):
        loop = EM(models.maximum_likelihood)
        loop.step(padded(WORDS), grammar)
        found.append(loop._fingerprint())
    assert len(set(found)) == 3
