# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""EM and variational Bayes for context-free grammars, by the models that serve all, against lists of derivations."""

import itertools
import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from numpy.typing import NDArray
from pyro.infer import SVI
from rewriting import derivations
from scipy.optimize import minimize_scalar
from scipy.special import digamma, gammaln, logsumexp
from torch.distributions import constraints

from pyrogram import CFG
from pyrogram.distributions import Sentence
from pyrogram.guides import MeanFieldDirichlet
from pyrogram.infer import EM, ModelError, TraceGrammar_ELBO, VariationalEM
from pyrogram.models import maximum_likelihood
from pyrogram.models.dirichlet import dirichlet

Numbers = NDArray[np.float64]
GRAMMARS = {
    "with unary and long rules": """
        S -> A S | A | A 'b' S A
        A -> B | 'a' | 'a' 'b' | 'b' 'b'
        B -> 'b'
    """,
    "in normal form": """
        S -> S S | A S | 'a'
        A -> S A | 'b'
    """,
}
SENTENCES = ["a b a", "b a a", "a a", "b b a"]


@pytest.fixture(params=GRAMMARS)
def case(request: pytest.FixtureRequest) -> "Case":
    return Case(GRAMMARS[request.param])


class Case:
    """A grammar, a small corpus, and the counts of all derivations of each sentence, (T, R)."""

    def __init__(self, text: str):
        self.grammar = CFG.from_string(text)
        self.R = len(self.grammar.rules)
        self.sizes = self.grammar.blocks["rules"].sizes
        found = {s: derivations(self.grammar, s.split()) for s in SENTENCES}
        self.sentences = [s for s in SENTENCES if found[s]]
        assert max(len(found[s]) for s in self.sentences) > 1
        self.words = self.grammar.encode(self.sentences)
        self.counts = [np.array([np.bincount(d, minlength=self.R) for d in found[s]], float) for s in self.sentences]

    def pieces(self, values: Numbers) -> list[Numbers]:
        return np.split(values, np.cumsum(self.sizes)[:-1])

    def totals(self, values: Numbers) -> Numbers:
        return np.concatenate([np.full(len(v), v.sum()) for v in self.pieces(values)])

    def expected(self, weights: Numbers) -> tuple[float, Numbers]:
        """Log-likelihood and expected counts, derivation by derivation."""
        log_w = np.log(np.maximum(weights, 1e-300))
        scores = [c @ log_w for c in self.counts]
        log_z = [logsumexp(s) for s in scores]
        total = sum(np.exp(s - z) @ c for s, z, c in zip(scores, log_z, self.counts, strict=True))
        return float(sum(log_z)), np.asarray(total)

    def sub_normalized(self, q: Numbers) -> Numbers:
        return np.asarray(np.exp(digamma(q) - digamma(self.totals(q))))

    def bound(self, q: Numbers, prior: Numbers) -> float:
        """sum log Z(exp E[log w]) - KL(q || prior), piece by piece."""
        divergence = 0.0
        for a, b in zip(self.pieces(q), self.pieces(prior), strict=True):
            divergence += gammaln(a.sum()) - gammaln(a).sum() - gammaln(b.sum()) + gammaln(b).sum()
            divergence += ((a - b) * (digamma(a) - digamma(a.sum()))).sum()
        return self.expected(self.sub_normalized(q))[0] - divergence

    def log_evidence(self, prior: Numbers) -> float:
        """Every choice of a derivation for each sentence, the weights integrated out."""
        terms = []
        for chosen in itertools.product(*self.counts):
            f = np.sum(chosen, 0)
            own = [
                gammaln(a.sum()) - gammaln((a + c).sum()) + (gammaln(a + c) - gammaln(a)).sum()
                for a, c in zip(self.pieces(prior), self.pieces(f), strict=True)
            ]
            terms.append(sum(own))
        return float(logsumexp(terms))

    def start(self, seed: int = 0) -> Numbers:
        weights = np.random.default_rng(seed).gamma(1.0, size=self.R) + 0.1
        return np.asarray(weights / self.totals(weights))


def posterior(loop: VariationalEM) -> Numbers:
    q: Any = loop.posterior()["rules"]
    return np.asarray(q.concentration.numpy())


def test_map_adds_concentrations_less_one(case: Case) -> None:
    w, alpha = case.start(), 1 + np.random.default_rng(1).gamma(0.5, size=case.R)
    em = EM(dirichlet, initial_weights={"rules": torch.from_numpy(w)})
    for _ in range(3):
        log_z, f = case.expected(w)
        density = sum(
            ((a - 1) * np.log(v)).sum() + gammaln(a.sum()) - gammaln(a).sum()
            for a, v in zip(case.pieces(alpha), case.pieces(w), strict=True)
        )
        found = em.step(case.words, case.grammar, concentration={"rules": torch.from_numpy(alpha)})
        assert found == pytest.approx(log_z + density, rel=1e-11)
        w = (f + alpha - 1) / case.totals(f + alpha - 1)
        np.testing.assert_allclose(em.weights()["rules"].numpy(), w, rtol=1e-10)


@pytest.mark.parametrize("alpha", [0.1, 1.0])
def test_the_bound_rises_to_a_fixed_point_below_the_evidence(case: Case, alpha: float) -> None:
    vb = VariationalEM(dirichlet, initial_weights={"rules": torch.from_numpy(case.start())})
    vb.run(case.words, case.grammar, concentration=alpha, num_steps=400, tolerance=1e-14, progress=False)
    assert all(b >= a - 1e-9 for a, b in itertools.pairwise(vb.history))
    prior = np.full(case.R, alpha)
    evidence = case.log_evidence(prior)
    assert vb.history[-1] <= evidence
    assert vb.history[-1] > evidence - 3
    q = posterior(vb)
    np.testing.assert_allclose(prior + case.expected(case.sub_normalized(q))[1], q, rtol=1e-5)


def test_learnt_concentrations_maximise_the_bound(case: Case) -> None:
    vb = VariationalEM(dirichlet, initial_weights={"rules": torch.from_numpy(case.start())})
    vb.run(case.words, case.grammar, concentration=0.5, learn=True, num_steps=60, tolerance=0, progress=False)
    assert all(b >= a - 1e-9 for a, b in itertools.pairwise(vb.history))
    q, alpha = posterior(vb), float(pyro.param("concentration.rules").detach())
    best = minimize_scalar(
        lambda log_a: -case.bound(q, np.full(case.R, math.exp(log_a))), bounds=(-5, 8), method="bounded"
    )
    assert case.bound(q, np.full(case.R, alpha)) == pytest.approx(-best.fun, abs=0.05)


def test_the_optimum_of_variational_em_is_that_of_svi(case: Case) -> None:
    """There the loss is the bound of variational EM, and its gradients vanish; elsewhere it is greater."""
    vb = VariationalEM(dirichlet, initial_weights={"rules": torch.from_numpy(case.start())})
    vb.run(case.words, case.grammar, concentration=0.5, num_steps=300, tolerance=1e-13, progress=False)
    model = partial(dirichlet, concentration=0.5)
    counts = torch.from_numpy(posterior(vb) - 0.5).clamp_min(1e-6)
    for scale in (1.0, 1.3):
        pyro.clear_param_store()
        guide = MeanFieldDirichlet(model, initial_counts={"rules": counts * scale})
        loss = TraceGrammar_ELBO().loss_and_grads(model, guide, case.words, case.grammar)
        slopes = [float(p.grad.abs().max()) for _, p in pyro.get_param_store().named_parameters()]
        if scale == 1.0:
            assert -loss == pytest.approx(vb.history[-1], abs=1e-4) and max(slopes) < 1e-3
        else:
            assert -loss < vb.history[-1] - 1e-3 and max(slopes) > 1e-2


@pytest.mark.slow
def test_svi_reaches_the_bound_of_variational_em(case: Case, one_thread: None) -> None:
    vb = VariationalEM(dirichlet, initial_weights={"rules": torch.from_numpy(case.start())})
    vb.run(case.words, case.grammar, concentration=0.5, num_steps=300, tolerance=1e-13, progress=False)
    model = partial(dirichlet, concentration=0.5)
    counts = torch.from_numpy(posterior(vb) - 0.5)
    exact = MeanFieldDirichlet(model, initial_counts={"rules": counts.clamp_min(1e-6)})
    loss = TraceGrammar_ELBO().loss(model, exact, case.words, case.grammar)
    assert -loss == pytest.approx(vb.history[-1], abs=1e-4)
    guide = MeanFieldDirichlet(model)
    svi = SVI(model, guide, pyro.optim.Adam({"lr": 0.05}), TraceGrammar_ELBO())  # type: ignore[attr-defined]
    for _ in range(600):
        loss = svi.step(case.words, case.grammar)
    assert -loss == pytest.approx(vb.history[-1], abs=0.02) or -loss > vb.history[-1]


def test_minibatches_of_the_exact_bound_are_unbiased(case: Case) -> None:
    model = partial(dirichlet, concentration=0.5)
    guide = MeanFieldDirichlet(model)
    whole = TraceGrammar_ELBO().loss(model, guide, case.words, case.grammar)

    def one(b: int) -> float:
        def part(words: Any, grammar: CFG) -> None:
            prior = pyro.sample("rules", model_prior(grammar))
            with pyro.plate("sentences", len(words), subsample=torch.tensor([b])) as i:
                pyro.sample("words", Sentence(grammar, {"rules": prior}), obs=words[i])

        return TraceGrammar_ELBO().loss(part, guide, case.words, case.grammar)

    assert np.mean([one(b) for b in range(len(case.words))]) == pytest.approx(whole, rel=1e-10)


def model_prior(grammar: CFG) -> Any:
    from pyrogram.distributions import dirichlet_prior

    return dirichlet_prior(grammar.blocks["rules"], torch.tensor(0.5))


def test_a_run_resumed_is_the_run(case: Case, tmp_path: Path) -> None:
    args = (case.words, case.grammar)
    whole = VariationalEM(dirichlet, initial_weights={"rules": torch.from_numpy(case.start())})
    whole.run(*args, num_steps=8, tolerance=0, progress=False)
    path = tmp_path / "state"
    for steps in (3, 8):
        part = VariationalEM(dirichlet, initial_weights={"rules": torch.from_numpy(case.start())})
        part.run(*args, num_steps=steps, tolerance=0, progress=False, checkpoint=path)
    assert part.history == whole.history
    assert (part.weights()["rules"] == whole.weights()["rules"]).all()


def test_a_checkpoint_of_another_grammar_is_refused(tmp_path: Path) -> None:
    """With as many rules and words, nothing but the rules tells them apart."""
    one, two = (CFG.from_string(f"S -> A S | A\nA -> {rest}") for rest in ("'a' | 'b'", "'a' | 'b' 'b'"))
    words, path = one.encode(["a a"]), tmp_path / "state"
    EM(maximum_likelihood).run(words, one, num_steps=2, progress=False, checkpoint=path)
    EM(maximum_likelihood).run(words, CFG(one.rules), num_steps=3, progress=False, checkpoint=path)
    pyro.clear_param_store()
    with pytest.raises(ValueError, match="is the checkpoint of another run"):
        EM(maximum_likelihood).run(words, two, num_steps=3, progress=False, checkpoint=path)


def test_held_out_sentences_with_rules_unseen_in_training() -> None:
    grammar = CFG.from_string("S -> A S | A\nA -> 'a' | 'b' | 'c'")
    em = EM(maximum_likelihood)
    em.run(grammar.encode(["a b"]), grammar, num_steps=3, held_out=grammar.encode(["c a"]), progress=False)
    assert all(math.isfinite(h) for h in em.held_out_history)


# ---------------------------------------------------------------------- what is refused

GRAMMAR = CFG.from_string(GRAMMARS["in normal form"])
WORDS = GRAMMAR.encode(["a a"])


def sentence_model(weights: Any) -> None:
    with pyro.plate("sentences", len(WORDS)):
        pyro.sample("words", Sentence(GRAMMAR, {"rules": weights}), obs=WORDS)


def refused(model: Any, loop: Any, message: str) -> None:
    """By the sums of the weights where they are validated, by the loop where they are not."""
    with pytest.raises(ValueError, match="weights must sum to one over each multinomial, but .* of block 'rules'"):
        loop(model).step()
    with pyro.validation_enabled(False), pytest.raises(ModelError, match=message):
        loop(model).step()


@pytest.mark.parametrize("loop", [EM, VariationalEM])
def test_one_dirichlet_over_all_rules_is_refused(loop: Any) -> None:
    """It would be a prior over a choice of one rule, whatever is to be rewritten."""

    def model() -> None:
        sentence_model(pyro.sample("rules", dist.Dirichlet(torch.full((5,), 2.0))))

    refused(model, loop, "needs a Dirichlet for each multinomial of block 'rules' .* dirichlet_prior")


@pytest.mark.parametrize("loop", [EM, VariationalEM])
def test_one_simplex_for_all_rules_is_refused(loop: Any) -> None:
    def model() -> None:
        sentence_model(pyro.param("rules", torch.full((5,), 0.2), constraint=constraints.simplex))

    refused(model, loop, r"needs pyro.param 'rules' to have constraint=simplex_of\(block\)")


def test_an_impossible_sentence_is_named() -> None:
    words = GRAMMAR.encode(["a a", "b", "a"])
    with pytest.raises(ValueError, match="sentence 1 of site 'words' has probability zero"):
        EM(maximum_likelihood).step(words, GRAMMAR)
