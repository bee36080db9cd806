# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Variational Bayes against trees listed one by one; the bound against the exact evidence; empirical Bayes."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import scipy.integrate
import scipy.stats
import torch
from infer.small_corpora import CORPORA, assert_close, padded, random_corpus, tensors
from infer.tree_sums import (
    Corpus,
    Tables,
    bound,
    collapsed,
    likelihood_and_counts,
    normalized,
    random_tables,
    shapes,
    sub_normalized,
)
from scipy.special import digamma
from torch import Tensor
from torch.distributions import constraints

from pyrogram import DMV
from pyrogram.distributions import Sentence
from pyrogram.infer import EM, VariationalEM
from pyrogram.models import maximum_likelihood
from pyrogram.models.dirichlet import dirichlet


def posterior_of(vb: VariationalEM) -> Tables:
    """Concentrations of q by site."""
    out = {}
    for name, q in vb.posterior().items():
        while isinstance(q, torch.distributions.Independent):
            q = q.base_dist
        out[name] = q.concentration.numpy()
    return out


def random_prior(num_tags: int, valence_attach: bool, seed: int) -> Tables:
    generator = np.random.default_rng(seed)
    return {name: 0.1 + generator.gamma(0.5, size=shape) for name, shape in shapes(num_tags, valence_attach).items()}


@pytest.mark.parametrize("valence_attach", [False, True])
@pytest.mark.parametrize("corpus", CORPORA)
def test_the_posterior_is_the_prior_plus_counts_under_expected_logs(corpus: str, valence_attach: bool) -> None:
    V, sentences = CORPORA[corpus]
    start = random_tables(V, valence_attach, seed=1)
    prior = random_prior(V, valence_attach, seed=2)
    vb = VariationalEM(dirichlet, initial_weights=tensors(start))
    _, counts = likelihood_and_counts(sentences, start)
    q = {name: prior[name] + counts[name] for name in prior}
    for _ in range(3):
        objective = vb.step(padded(sentences), DMV(V, valence_attach=valence_attach), concentration=tensors(prior))
        assert objective == pytest.approx(bound(sentences, q, prior), rel=1e-11)
        _, counts = likelihood_and_counts(sentences, {name: sub_normalized(q[name]) for name in q})
        q = {name: prior[name] + counts[name] for name in prior}
        assert_close(posterior_of(vb), q)
        assert_close(vb.weights(), {name: q[name] / q[name].sum(-1, keepdims=True) for name in q})


@pytest.mark.parametrize("alpha", [1e-3, 1e3])
def test_extreme_concentrations(alpha: float) -> None:
    """exp E[log w] of events without counts underflows for alpha = 0.001: exp(-1000)."""
    sentences = CORPORA["two tags"][1]
    start = random_tables(2, False, seed=3)
    prior = {name: np.full(shape, alpha) for name, shape in shapes(2, False).items()}
    _, counts = likelihood_and_counts(sentences, start)
    q = {name: prior[name] + counts[name] for name in prior}
    vb = VariationalEM(dirichlet, initial_weights=tensors(start))
    for _ in range(8):
        objective = vb.step(padded(sentences), DMV(2), concentration=alpha)
        assert objective == pytest.approx(bound(sentences, q, prior), rel=1e-9)
        _, counts = likelihood_and_counts(sentences, {name: sub_normalized(q[name]) for name in q})
        q = {name: prior[name] + counts[name] for name in prior}
        assert_close(posterior_of(vb), q, rtol=1e-9)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("valence_attach", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_the_bound_never_falls(seed: int, valence_attach: bool) -> None:
    V, sentences = random_corpus(seed)
    start = tensors(random_tables(V, valence_attach, seed, concentration=0.3))
    for alpha in (0.05, 1.0, 4.0):
        vb = VariationalEM(dirichlet, initial_weights=start)
        grammar = DMV(V, valence_attach=valence_attach)
        vb.run(padded(sentences), grammar, concentration=alpha, num_steps=40, tolerance=0, progress=False)
        history = np.array(vb.history)
        assert len(history) == 40
        assert (np.diff(history) >= -1e-11 * np.abs(history[1:])).all()


TINY: dict[str, tuple[int, bool, Corpus]] = {
    "one tag": (1, False, [[0], [0, 0], [0, 0, 0], [0, 0]]),
    "two tags": (2, False, [[0], [1, 0], [0, 1, 1], [1, 0]]),
    "extended": (2, True, [[1, 0, 0, 1], [0, 1], [1]]),
}


@pytest.mark.parametrize("corpus", TINY)
@pytest.mark.parametrize("alpha", [0.25, 1.0, 3.0])
def test_the_bound_is_below_the_evidence(corpus: str, alpha: float) -> None:
    V, extended, sentences = TINY[corpus]
    prior = {name: np.full(shape, alpha) for name, shape in shapes(V, extended).items()}
    log_evidence, _ = collapsed(sentences, prior)
    for seed in range(4):
        vb = VariationalEM(dirichlet, initial_weights=tensors(random_tables(V, extended, seed)))
        vb.run(padded(sentences), DMV(V, valence_attach=extended), concentration=alpha, progress=False)
        assert vb.history[-1] < log_evidence
        assert vb.history[-1] > log_evidence - 4  # nats; a bound, not just any small number


def test_the_evidence_by_quadrature() -> None:
    """Of one-word sentences and one tag the evidence is an integral over two stop probabilities, and the bound is it.

    With two words to a sentence there are two trees, and so a gap.
    """
    alpha = 2.0
    beta = scipy.stats.beta(alpha, alpha).pdf

    def one_word(left: float, right: float) -> float:
        return float((left * right) ** 3 * beta(left) * beta(right))

    evidence, _ = scipy.integrate.dblquad(one_word, 0, 1, 0, 1)
    vb = VariationalEM(dirichlet).run(torch.zeros(3, 1).long(), DMV(1), concentration=alpha, progress=False)
    assert vb.history[-1] == pytest.approx(math.log(evidence), abs=1e-6)


def test_a_corpus_without_ambiguity_has_its_exact_evidence() -> None:
    """One-word sentences have one tree each, so q is the posterior and the bound is the evidence."""
    sentences = CORPORA["one word"][1]
    prior = random_prior(3, False, 5)
    vb = VariationalEM(dirichlet)
    vb.run(padded(sentences), DMV(3), concentration=tensors(prior), num_steps=2, progress=False)
    log_evidence, means = collapsed(sentences, prior)
    assert vb.history[-1] == pytest.approx(log_evidence, rel=1e-12)
    assert_close(vb.weights(), means)


def test_at_a_fixed_point_the_integrand_of_the_bound_is_constant() -> None:
    """log p(theta) + E_q(y)[log p(x, y | theta)] + H(q(y)) - log q(theta) is the bound at every theta.

    It is constant only if q's concentrations are the prior's plus the very counts that belong to q(y).
    """
    sentences = CORPORA["two tags"][1]
    prior = random_prior(2, True, 7)
    vb = VariationalEM(dirichlet, initial_weights=tensors(random_tables(2, True, 8)))
    grammar = DMV(2, valence_attach=True)
    vb.run(padded(sentences), grammar, concentration=tensors(prior), num_steps=3000, tolerance=1e-15, progress=False)
    q = posterior_of(vb)
    weights = {name: sub_normalized(table) for name, table in q.items()}
    log_z, counts = likelihood_and_counts(sentences, weights)
    entropy = log_z - sum(float((counts[name] * np.log(weights[name])).sum()) for name in counts)
    for seed in range(20):
        theta = random_tables(2, True, seed + 100)
        value = entropy
        for name in theta:
            value += float((counts[name] * np.log(theta[name])).sum())
            for k in np.ndindex(theta[name].shape[:-1]):
                value += scipy.stats.dirichlet.logpdf(theta[name][k], prior[name][k])
                value -= scipy.stats.dirichlet.logpdf(theta[name][k], q[name][k])
        assert value == pytest.approx(vb.history[-1], abs=1e-6)


def test_parameters_alone_are_maximum_likelihood() -> None:
    words, grammar = padded(CORPORA["two tags"][1]), DMV(2)
    start = tensors(random_tables(2, False, 0))
    vb = VariationalEM(maximum_likelihood, initial_weights=start).run(words, grammar, num_steps=5, progress=False)
    em = EM(maximum_likelihood, initial_weights=start).run(words, grammar, num_steps=5, progress=False)
    assert vb.history == em.history
    assert all(torch.equal(w, em.weights()[name]) for name, w in vb.weights().items())
    assert vb.posterior() == {}


def test_a_parameter_beside_dirichlet_sites() -> None:
    """The root by maximum likelihood, the rest by VB; the bound counts the root's log probability."""
    sentences = CORPORA["two tags"][1]
    grammar = DMV(2)
    start = random_tables(2, False, 1)
    prior = {name: np.full(shape, 0.5) for name, shape in shapes(2, False).items() if name != "root"}

    def model(words: Tensor) -> None:
        w = {name: pyro.sample(name, dist.Dirichlet(torch.tensor(p)).to_event(p.ndim - 1)) for name, p in prior.items()}
        w["root"] = pyro.param("root", torch.tensor(start["root"]), constraint=constraints.simplex)
        with pyro.plate("sentences", len(words)):
            pyro.sample("words", Sentence(grammar, w), obs=words)

    vb = VariationalEM(model, initial_weights=tensors(start))
    _, counts = likelihood_and_counts(sentences, start)
    q = {name: prior[name] + counts[name] for name in prior}
    root = start["root"]
    for _ in range(3):
        tables = {"root": root, **{name: sub_normalized(q[name]) for name in q}}
        log_z, counts = likelihood_and_counts(sentences, {n: tables[n] for n in ("root", "attach", "stop")})
        expected = log_z - sum(divergence_of(q[name], prior[name]) for name in q)
        assert vb.step(padded(sentences)) == pytest.approx(expected, rel=1e-11)
        q = {name: prior[name] + counts[name] for name in prior}
        root = normalized(counts["root"], root)
        assert_close(posterior_of(vb), q)
        assert_close(vb.weights(), {"root": root})
    torch.testing.assert_close(pyro.param("root").detach(), torch.tensor(root))


@pytest.mark.parametrize("learn", [False, True])
def test_a_corpus_in_two_sites(learn: bool) -> None:
    """Two sites with one set of Dirichlets are one corpus."""
    words, grammar = padded(LONGER), DMV(2)

    def model() -> None:
        alpha = pyro.param("alpha", torch.tensor(0.7), constraint=constraints.positive) if learn else torch.tensor(0.7)
        w = {
            name: pyro.sample(name, dist.Dirichlet(alpha * torch.ones(block.shape)).to_event(block.batch_dim))
            for name, block in grammar.blocks.items()
        }
        for site, part in (("first", words[:3]), ("second", words[3:])):
            with pyro.plate(f"{site} sentences", len(part)):
                pyro.sample(site, Sentence(grammar, w), obs=part)

    start = tensors(random_tables(2, False, 2))
    two = VariationalEM(model, initial_weights=start).run(num_steps=5, tolerance=0, progress=False)
    pyro.clear_param_store()
    whole = VariationalEM(with_prior(shared_by_all), initial_weights=start)
    if learn:
        pyro.param("alpha", torch.tensor(0.7), constraint=constraints.positive)
        whole.run(words, grammar, num_steps=5, tolerance=0, progress=False)
    else:
        whole = VariationalEM(dirichlet, initial_weights=start)
        whole.run(words, grammar, concentration=0.7, num_steps=5, tolerance=0, progress=False)
    assert two.history == pytest.approx(whole.history, rel=1e-8)
    for name, w in whole.weights().items():
        torch.testing.assert_close(two.weights("first")[name], w, rtol=1e-6, atol=1e-9)


def divergence_of(q: np.ndarray, p: np.ndarray) -> float:
    """KL by torch, to have it from elsewhere than the explicit formula."""
    a, b = torch.distributions.Dirichlet(torch.tensor(q)), torch.distributions.Dirichlet(torch.tensor(p))
    return float(torch.distributions.kl_divergence(a, b).sum())


# ---------------------------------------------------------------------- empirical Bayes


def slope(alpha: np.ndarray, q: np.ndarray) -> np.ndarray:
    """d/d alpha of E_q[log Dirichlet(theta; alpha)], element by element, by digammas."""
    expected = digamma(q) - digamma(q.sum(-1, keepdims=True))
    result: np.ndarray = digamma(alpha.sum(-1, keepdims=True)) - digamma(alpha) + expected
    return result


def per_block(words: Tensor, grammar: DMV) -> dict[str, Tensor]:
    return {
        name: pyro.param(f"alpha.{name}", torch.tensor(0.6), constraint=constraints.positive) * torch.ones(block.shape)
        for name, block in grammar.blocks.items()
    }


def shared_by_all(words: Tensor, grammar: DMV) -> dict[str, Tensor]:
    alpha = pyro.param("alpha", torch.tensor(0.6), constraint=constraints.positive)
    return {name: alpha * torch.ones(block.shape) for name, block in grammar.blocks.items()}


def exponential(words: Tensor, grammar: DMV) -> dict[str, Tensor]:
    loc = pyro.param("loc", torch.tensor(-0.5))
    return {name: loc.exp() * torch.ones(block.shape) for name, block in grammar.blocks.items()}


def vectors(words: Tensor, grammar: DMV) -> dict[str, Tensor]:
    return {
        name: pyro.param(f"alpha.{name}", 0.6 * torch.ones(block.shape[-1]), constraint=constraints.positive).expand(
            block.shape
        )
        for name, block in grammar.blocks.items()
    }


def only_attach(words: Tensor, grammar: DMV) -> dict[str, Tensor]:
    fixed = {name: 0.5 * torch.ones(block.shape) for name, block in grammar.blocks.items()}
    alpha = pyro.param("alpha", torch.tensor(0.6), constraint=constraints.positive)
    return {**fixed, "attach": alpha * torch.ones(grammar.blocks["attach"].shape)}


Prior = Callable[[Tensor, DMV], dict[str, Tensor]]


def with_prior(concentrations: Prior) -> Callable[[Tensor, DMV], None]:
    def model(words: Tensor, grammar: DMV) -> None:
        alpha = concentrations(words, grammar)
        w = {name: pyro.sample(name, dist.Dirichlet(a).to_event(a.dim() - 1)) for name, a in alpha.items()}
        with pyro.plate("sentences", len(words)):
            pyro.sample("words", Sentence(grammar, w), obs=words)

    return model


# Every multinomial occurs, or else the best alpha of a vector is at the boundary.
LONGER: Corpus = [[0, 1], [1, 0], [0, 1, 1, 0], [1, 0, 0, 1], [0, 0, 1, 0, 1], [1, 1, 0, 1, 0], [0], [1]]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("concentrations", [per_block, shared_by_all, exponential, vectors, only_attach])
def test_learnt_concentrations_are_stationary(concentrations: Prior) -> None:
    """After every iteration; for vectors, which are ill conditioned, after some more steps for the same q."""
    grammar, words = DMV(2), padded(LONGER)
    vb = VariationalEM(with_prior(concentrations), initial_weights="harmonic")
    for _ in range(3 if concentrations is vectors else 12):
        vb.step(words, grammar)
        if concentrations is vectors:
            for _ in range(40):
                problem, state = vb._present()
                vb._set_state(problem.climbed(state, {}))
        q = posterior_of(vb)
        alpha = {name: c.detach().numpy() for name, c in concentrations(words, grammar).items()}
        slopes = {name: slope(alpha[name], q[name]) * alpha[name] for name in q}  # of the logarithm
        if concentrations is vectors:
            found = np.concatenate([s.reshape(-1, s.shape[-1]).sum(0) for s in slopes.values()])
        elif concentrations is per_block:
            found = np.array([s.sum() for s in slopes.values()])
        elif concentrations is only_attach:
            found = slopes["attach"].sum()
        else:
            found = np.array(sum(s.sum() for s in slopes.values()))
        np.testing.assert_allclose(found, 0, atol=2e-4)
    learnt = {n for n, source in vb._need_problem().traced.weight_sources.items() if source.learns_prior}
    assert learnt == ({"attach"} if concentrations is only_attach else {"root", "attach", "stop"})


@pytest.mark.one_in(8)
@pytest.mark.parametrize("concentrations", [per_block, shared_by_all, exponential, vectors, only_attach])
def test_a_learnt_prior_never_lowers_the_bound(concentrations: Prior) -> None:
    grammar = DMV(2, valence_attach=True)
    for seed in range(2):
        pyro.clear_param_store()
        vb = VariationalEM(with_prior(concentrations), initial_weights=tensors(random_tables(2, True, seed)))
        vb.run(padded(LONGER), grammar, num_steps=25, tolerance=0, progress=False)
        history = np.array(vb.history)
        assert (np.diff(history) >= -1e-9 * np.abs(history[1:])).all()


def test_the_bound_of_a_learnt_prior_is_that_of_its_value() -> None:
    grammar, sentences = DMV(2), LONGER[:4]
    vb = VariationalEM(dirichlet)
    for _ in range(4):
        vb.step(padded(sentences), grammar, learn=True)
        q = posterior_of(vb)
        alpha = {name: float(pyro.param(f"concentration.{name}").detach()) for name in q}
        prior = {name: np.full(q[name].shape, alpha[name]) for name in q}
        before = bound(sentences, q, prior)
        assert vb.step(padded(sentences), grammar, learn=True) == pytest.approx(before, rel=1e-10)


@pytest.mark.parametrize("wild", [-6.0, 6.0, math.nan])
def test_a_hyperparameter_step_that_fails_is_taken_back(wild: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the optimiser leaves: what lowers the bound is not kept."""

    class Wild(torch.optim.LBFGS):
        def step(self, closure: Callable[[], Any]) -> Any:
            loss = closure()
            with torch.no_grad():
                for parameter in self.param_groups[0]["params"]:
                    parameter += wild
            return loss

    words, grammar = padded(LONGER), DMV(2)
    with monkeypatch.context() as patched:
        patched.setattr(torch.optim, "LBFGS", Wild)
        with pyro.validation_enabled(not math.isnan(wild)):
            vb = VariationalEM(dirichlet).run(words, grammar, learn=True, num_steps=5, tolerance=0, progress=False)
    assert float(pyro.param("concentration.attach").detach()) == 0.25
    fixed = VariationalEM(dirichlet).run(words, grammar, num_steps=5, tolerance=0, progress=False)
    assert vb.history == pytest.approx(fixed.history, rel=1e-12)


def test_a_learnt_prior_is_used_in_the_next_iteration() -> None:
    """In one run, which reads the model once."""
    sentences, grammar = LONGER[:4], DMV(2)
    seen: list[tuple[Tables, Tables]] = []

    def remember(loop: VariationalEM) -> None:
        q = posterior_of(loop)
        alpha = {name: float(pyro.param(f"concentration.{name}").detach()) for name in q}
        seen.append((q, {name: np.full(q[name].shape, alpha[name]) for name in q}))

    vb = VariationalEM(dirichlet)
    vb.run(padded(sentences), grammar, learn=True, num_steps=4, tolerance=0, callback=remember, progress=False)
    for (q, prior), (after, _), objective in zip(seen, seen[1:], vb.history[1:], strict=False):
        assert objective == pytest.approx(bound(sentences, q, prior), rel=1e-10)
        _, counts = likelihood_and_counts(sentences, {name: sub_normalized(q[name]) for name in q})
        assert_close(after, {name: prior[name] + counts[name] for name in q}, rtol=1e-9)


def test_learning_beats_where_it_started() -> None:
    words, grammar = padded(LONGER), DMV(2)
    fixed = VariationalEM(dirichlet).run(words, grammar, concentration=3.0, progress=False)
    learnt = VariationalEM(dirichlet).run(words, grammar, concentration=3.0, learn=True, num_steps=20, progress=False)
    assert learnt.history[-1] > fixed.history[-1]
    assert float(pyro.param("concentration.attach").detach()) != 3.0


def test_concentrations_that_run_away_do_no_harm() -> None:
    """The best alpha is 0 if all sentences are the same word, and infinite if tags are perfectly even."""
    for words in (torch.zeros(20, 1).long(), torch.tensor([[0], [1]] * 10)):
        pyro.clear_param_store()
        vb = VariationalEM(dirichlet)
        vb.run(words, DMV(2), learn=True, num_steps=40, tolerance=0, progress=False)
        history = np.array(vb.history)
        assert np.isfinite(history).all()
        assert (np.diff(history) >= -1e-9 * np.abs(history[1:])).all()


def test_other_arguments_are_another_prior() -> None:
    """The second concentration is heeded, not only the first."""
    words, grammar = padded(CORPORA["two tags"][1]), DMV(2)
    vb = VariationalEM(dirichlet)
    vb.run(words, grammar, concentration=1.0, progress=False)
    vb.run(words, grammar, concentration=5.0, num_steps=1000, tolerance=1e-14, progress=False)
    fresh = VariationalEM(dirichlet).run(
        words, grammar, concentration=5.0, num_steps=1000, tolerance=1e-14, progress=False
    )
    assert vb.history[-1] == pytest.approx(fresh.history[-1], rel=1e-9)


def test_the_caller_s_tensors_stay_as_they_were() -> None:
    words = padded(LONGER)
    start = tensors(random_tables(2, False, 3))
    alpha = {name: torch.full(w.shape, 0.7) for name, w in start.items()}
    given = [words, *start.values(), *alpha.values()]
    before = [t.clone() for t in given]
    vb = VariationalEM(dirichlet, initial_weights=start)
    vb.run(words, DMV(2), concentration=alpha, num_steps=3, progress=False)
    vb.weights()["root"].zero_()
    vb.run(words, DMV(2), concentration=alpha, learn=True, num_steps=3, progress=False)
    em = EM(maximum_likelihood, initial_weights=start).run(words, DMV(2), num_steps=3, progress=False)
    em.weights()["root"].zero_()
    assert float(em.weights()["root"].sum()) == pytest.approx(1)
    assert float(vb.weights()["root"].sum()) == pytest.approx(1)
    assert all(torch.equal(a, b) and not a.requires_grad for a, b in zip(given, before, strict=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("learn", [False, True])
def test_weights_have_the_dtype_of_the_model(dtype: torch.dtype, learn: bool) -> None:
    torch.set_default_dtype(dtype)
    vb = VariationalEM(dirichlet).run(padded(LONGER), DMV(2), learn=learn, num_steps=4, progress=False)
    assert {w.dtype for w in vb.weights().values()} == {dtype}
    assert {q.mean.dtype for q in vb.posterior().values()} == {dtype}


@pytest.mark.parametrize("alpha", [1e-3, 1e-6, 1e-20])
def test_the_bound_under_concentrations_near_zero(alpha: float) -> None:
    """E_q[log p] and E_q[log q] are then huge, and nearly the same."""
    histories = []
    for dtype in (torch.float32, torch.float64):
        torch.set_default_dtype(dtype)
        vb = VariationalEM(dirichlet).run(
            padded(LONGER), DMV(2), concentration=alpha, num_steps=5, tolerance=0.0, progress=False
        )
        histories.append(vb.history)
    assert histories[0] == pytest.approx(histories[1], rel=2e-6)
    assert min(np.diff(histories[1])) >= 0


@pytest.mark.one_in(2)
@pytest.mark.parametrize("model", [maximum_likelihood, dirichlet])
def test_threads_change_nothing(model: Callable[..., None]) -> None:
    """To the last bit: counts are summed in fixed parts. The corpus is large enough to be shared by two threads."""
    generator = torch.Generator().manual_seed(0)
    words = torch.randint(0, 5, (8000, 12), generator=generator)
    lengths = torch.randint(1, 13, (8000, 1), generator=generator)
    words = torch.where(torch.arange(12) < lengths, words, -1)
    threads = torch.get_num_threads()
    runs = []
    try:
        for n in (1, 2):
            torch.set_num_threads(n)
            pyro.clear_param_store()
            loop = VariationalEM(model).run(words, DMV(5), num_steps=3, progress=False)
            runs.append((loop.history, loop.weights()))
    finally:
        torch.set_num_threads(threads)
    assert runs[0][0] == runs[1][0]
    assert all(torch.equal(w, runs[1][1][name]) for name, w in runs[0][1].items())
