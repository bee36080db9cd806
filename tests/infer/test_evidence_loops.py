# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Loops, samplers, SVI and NUTS on sentences of which nothing, a part or all is known, against sums over trees."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from infer.collapsed_sums import FieldOfTrees, added
from infer.small_corpora import assert_close, padded, tensors
from infer.tree_chains import TinyCorpus, p_value
from infer.tree_sums import (
    Tables,
    agreeing,
    derivations,
    divergence,
    likelihood_and_counts,
    normalized,
    random_tables,
    shapes,
    sub_normalized,
)
from pyro import poutine
from pyro.infer import SVI, Trace_ELBO
from pyro.infer.autoguide import AutoDelta
from pyro.infer.mcmc.util import initialize_model
from torch.distributions import constraints

from pyrogram import CFG, DMV, HMM, models
from pyrogram.distributions import Sentence, dirichlet_prior, logistic_normal
from pyrogram.grammar import Grammar, Known
from pyrogram.guides import MeanFieldDirichlet
from pyrogram.infer import EM, CollapsedVB, ModelError, TraceGrammar_ELBO, TreeGibbs, TreeHastings, VariationalEM
from pyrogram.sweeps.plain import CollapsedUpdates, CorpusCounts

WORDS = [[0, 1, 1], [1, 0, 1], [0, 0, 1, 1], [1, 1], [0, 1, 0]]
#: Nothing, one head, a whole tree, a whole tree, a root.
SOME = [[-1, -1, -1], [-1, 3, -1], [2, 0, 2, 3], [0, 1], [0, -1, -1]]
ALL = [[2, 0, 2], [2, 3, 0], [2, 0, 2, 3], [0, 1], [0, 1, 2]]
KNOWN = {"some known": SOME, "all known": ALL}

all_known = pytest.mark.parametrize("known", KNOWN.values(), ids=KNOWN)
extended = pytest.mark.parametrize("valence_attach", [False, True])
LOOPS: dict[str, Any] = {
    "EM": EM, "VariationalEM": VariationalEM, "CollapsedVB": CollapsedVB, "TreeHastings": TreeHastings,
    "TreeGibbs": TreeGibbs,
}  # fmt: skip


def random_prior(valence_attach: bool = False, least: float = 0.1) -> Tables:
    generator = np.random.default_rng(0)
    return {n: generator.uniform(least, 2, shape) for n, shape in shapes(2, valence_attach).items()}


# ------------------------------------------------------------------ EM and VariationalEM


@all_known
@extended
def test_em_is_normalised_counts(known: list[list[int]], valence_attach: bool) -> None:
    tables = random_tables(2, valence_attach, seed=1)
    em = EM(models.maximum_likelihood, initial_weights=tensors(tables))
    grammar = DMV(2, valence_attach=valence_attach)
    for _ in range(3):
        objective, counts = likelihood_and_counts(WORDS, tables, known)
        tables = {name: normalized(counts[name], tables[name]) for name in tables}
        assert em.step(padded(WORDS), grammar, known=padded(known)) == pytest.approx(objective, rel=1e-12)
        assert_close(em.weights(), tables)


def test_supervised_em_is_relative_frequencies_after_one_step() -> None:
    grammar = DMV(2)
    em = EM(models.maximum_likelihood, initial_weights="uniform")
    em.run(padded(WORDS), grammar, known=padded(ALL), num_steps=3, tolerance=0, progress=False)
    counts = {n: c.sum(0) for n, c in grammar.counts(padded(WORDS), padded(ALL)).items()}
    uniform = {n: b.uniform(torch.ones(())).numpy() for n, b in grammar.blocks.items()}
    assert_close(em.weights(), {n: normalized(c.numpy(), uniform[n]) for n, c in counts.items()}, rtol=1e-14)
    best = sum(float(torch.where(c > 0, c * em.weights()[n].log(), 0.0).sum()) for n, c in counts.items())
    assert em.history[1] == pytest.approx(best) and em.history[2] == pytest.approx(best)


@all_known
@extended
def test_variational_em_has_the_bound_of_what_agrees(known: list[list[int]], valence_attach: bool) -> None:
    grammar, prior = DMV(2, valence_attach=valence_attach), random_prior(valence_attach)
    start = random_tables(2, valence_attach, 1)
    loop = VariationalEM(models.dirichlet.dirichlet, initial_weights=tensors(start))
    counts = likelihood_and_counts(WORDS, start, known)[1]
    for _ in range(4):
        posterior = {n: prior[n] + counts[n] for n in prior}
        log_z, counts = likelihood_and_counts(WORDS, {n: sub_normalized(q) for n, q in posterior.items()}, known)
        bound = log_z - sum(divergence(posterior[n], prior[n]) for n in prior)
        objective = loop.step(padded(WORDS), grammar, concentration=tensors(prior), known=padded(known))
        assert objective == pytest.approx(bound, rel=1e-11)


def test_a_computed_model() -> None:
    """Weights that the model's code computes: the objective is the likelihood of what agrees, and never falls."""

    def model(words: torch.Tensor, known: torch.Tensor) -> None:
        logits = {n: pyro.param(f"{n}.logits", torch.zeros(b.shape)) for n, b in DMV(2).blocks.items()}
        weights = {n: logits[n].softmax(-1) for n in logits}
        with pyro.plate("sentences", len(words)):
            pyro.sample("words", Sentence(DMV(2), weights, known=known), obs=words)

    em = EM(model, m_steps=20)
    em.run(padded(WORDS), padded(SOME), num_steps=5, progress=False)
    uniform = {n: b.uniform(torch.ones(())).numpy() for n, b in DMV(2).blocks.items()}
    assert em.history[0] == pytest.approx(likelihood_and_counts(WORDS, uniform, SOME)[0], rel=1e-12)
    assert all(b > a - 1e-9 for a, b in zip(em.history, em.history[1:], strict=False))


def test_per_sentence_logistic_normals() -> None:
    """Weights of each sentence's own: the E-step is on rows of multinomials, of what agrees."""
    grammar = DMV(2)

    def model(words: torch.Tensor, known: torch.Tensor | None = None) -> None:
        with pyro.plate("sentences", len(words)):
            weights = {
                n: logistic_normal(n, torch.zeros(b.shape[-1]), torch.eye(b.shape[-1]), shape=b)
                for n, b in grammar.blocks.items()
            }
            pyro.sample("words", Sentence(grammar, weights, known=known), obs=words)

    plain = VariationalEM(model)
    plain.run(padded(WORDS), num_steps=2, progress=False)
    given = VariationalEM(model)
    given.run(padded(WORDS), padded(SOME), num_steps=2, progress=False)
    assert given.history[-1] < plain.history[-1]  # fewer derivations
    same = VariationalEM(model)
    scores = torch.zeros(5, 5, 5)
    scores[:, 0, 0] = 1.0  # of no arc: every sentence goes through the code of evidence
    same.run(padded(WORDS), {"arc_scores": scores}, num_steps=2, progress=False)
    assert same.history == pytest.approx(plain.history, rel=1e-6)


# ------------------------------------------------------------------ collapsed variational Bayes


def visited(known: list[list[int]], batch_size: int) -> list[list[int]]:
    """The batches of a sweep: sentences whose derivations are not known, by length."""
    moving = [i for i, h in enumerate(known) if min(h) < 0]
    if batch_size > 1:
        moving = sorted(moving, key=lambda i: len(WORDS[i]))
    return [moving[k : k + batch_size] for k in range(0, len(moving), batch_size)]


@pytest.mark.one_in(11)
@all_known
@extended
@pytest.mark.parametrize("batch_size", [1, 2, 8])
def test_collapsed_vb_is_figure_3(known: list[list[int]], valence_attach: bool, batch_size: int) -> None:
    grammar, prior = DMV(2, valence_attach=valence_attach), random_prior(valence_attach)
    start = random_tables(2, valence_attach, 1)
    loop = CollapsedVB(models.dirichlet.dirichlet, initial_weights=tensors(start), batch_size=batch_size)
    truth = FieldOfTrees(WORDS, prior, start, known)
    for _ in range(4):
        found = loop.step(padded(WORDS), grammar, concentration=tensors(prior), known=padded(known))
        assert found == pytest.approx(truth.objective(), rel=1e-11)
        for batch in visited(known, batch_size):
            truth.figure3(batch, batch_size)
        assert_close(loop.weights(), truth.weights())


def test_sweeps_keep_the_order_that_is_asked_for() -> None:
    """One sentence at a time, so that the order matters; those whose derivations are known do not move."""
    prior, start = random_prior(), random_tables(2, False, 1)
    grammar = DMV(2)
    updates = grammar.collapsed_updates(grammar.sentences(padded(WORDS), padded(SOME)))
    counts = updates.expected_counts(tensors(start))[2]
    found = []
    for order in ([4, 3, 2, 1, 0], [1, 4, 0, 2, 3]):
        truth = FieldOfTrees(WORDS, prior, start, SOME)
        for i in (i for i in order if i in (0, 1, 4)):
            truth.figure3([i])
        corpus = CorpusCounts(updates.total(counts), tensors(prior))
        _, new = updates.collapsed_vb(corpus, counts, torch.tensor(order), 1)
        assert_close(corpus.counts, added(truth.means()))
        assert_close(updates.total(new), added(truth.means()))
        found.append(corpus.counts["attach"])
    assert not torch.allclose(*found)


# ------------------------------------------------------------------ samplers


def tiny(name: str) -> tuple[TinyCorpus, Known]:
    """Sentences of which nothing, a part and all is known."""
    sentences = padded([[0, 0, 0], [0, 1, 0], [0, 1]])
    heads = torch.tensor([[-1, -1, -1], [-1, 1, -1], [2, 0, -1]])
    states = torch.tensor([[-1, -1, -1], [-1, 1, -1], [1, 0, -1]])
    grammar: Grammar
    known: Any
    if name in ("dmv", "extended dmv"):
        grammar, known = DMV(2, valence_attach="extended" in name), heads
    elif name == "hmm":
        grammar, known = HMM(2, 2), states
    else:
        grammar = CFG.from_string("S -> S S | A | 'a' S\nA -> 'a' | 'b'")
        law = grammar.derivation(grammar.initial_weights(sentences, "uniform"), sentences)
        brackets = torch.zeros(3, 4, 4, dtype=torch.bool)
        brackets[1, 0, 2] = True
        rows = torch.full((3, law.event_shape[0]), -1)
        rows[2] = law.argmax()[2]
        known = {"brackets": brackets, "derivations": rows}
    uniform = grammar.initial_weights(sentences, "uniform")

    def agrees(i: int, row: list[int]) -> bool:
        if name != "cfg":
            return all(k in (-1, x) for k, x in zip(known[i].tolist(), row, strict=False))
        if i == 2:
            return [x for x in known["derivations"][2].tolist() if x >= 0] == [x for x in row if x >= 0]
        if i == 0:
            return True
        spans = grammar.derivation(uniform, sentences[1]).parts(torch.tensor(row))
        return not bool(spans[1, 3].any())  # which crosses [0, 2]

    generator = np.random.default_rng(0)
    alpha = {n: generator.uniform(0.1, 1.5, tuple(b.shape)) for n, b in grammar.blocks.items()}
    return TinyCorpus(grammar, sentences, alpha, agrees), known


SAMPLED = ["dmv", "extended dmv", "hmm", "cfg"]


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLED)
@pytest.mark.parametrize("sampler", [TreeHastings, TreeGibbs])
def test_one_sweep_leaves_the_posterior_invariant(name: str, sampler: Any) -> None:
    corpus, known = tiny(name)
    assert len(corpus.trees[2]) == 1 < len(corpus.trees[1]) < len(corpus.trees[0])
    kernel = sampler(models.dirichlet.dirichlet, seed=1, initial_weights="random", batch_size=2)
    kernel.setup(0, corpus.words, corpus.grammar, concentration=tensors(corpus.alpha), known=known)
    problem, observed = kernel._problem, np.zeros(len(corpus.states))
    generator, draws = np.random.default_rng(2), torch.Generator().manual_seed(1)
    for s in generator.choice(len(corpus.states), size=150, p=corpus.posterior):
        before = replace(kernel._state, derivations={"words": corpus.as_trees(corpus.states[s])})
        found, counts, _ = kernel._sweep(problem, kernel._recounted(problem, before), draws)
        assert_close(counts, {n: f.numpy() for n, f in problem.counted(found).items()})
        assert_close(counts, corpus.total(corpus.as_state(found["words"])))
        observed[corpus.number[corpus.as_state(found["words"])]] += 1
    assert p_value(observed, corpus.posterior) > 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLED)
def test_one_sweep_of_hastings_has_the_exact_transition_probabilities(name: str) -> None:
    """Sentences of which nothing is known come first."""
    corpus, known = tiny(name)
    given = Sentence(corpus.grammar, corpus.grammar.initial_weights(corpus.words, "uniform"), known=known)
    updates = given.observed_grammar.collapsed_updates(given.observed(corpus.words))
    matrix = corpus.batch([0]) @ corpus.batch([1])
    alpha, generator = tensors(corpus.alpha), torch.Generator().manual_seed(1)
    for start in (0, len(corpus.states) // 2):
        trees = corpus.as_trees(corpus.states[start])
        counts, observed = updates.counts(trees), np.zeros(len(corpus.states))
        for _ in range(150):
            trees = corpus.as_trees(corpus.states[start])
            field = CorpusCounts({n: f.clone() for n, f in counts.items()}, alpha)
            accepted = updates.hastings(field, trees, torch.arange(3), 1, generator=generator)
            assert bool(accepted[2])
            observed[corpus.number[corpus.as_state(trees)]] += 1
        assert_close(field.counts, {n: f.numpy() for n, f in updates.counts(trees).items()})
        assert p_value(observed, matrix[start]) > 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("sampler", [TreeHastings, TreeGibbs])
def test_averages_of_a_chain(sampler: Any) -> None:
    """Posterior means of weights, and marginals of arcs, of which known ones are one."""
    corpus, known = tiny("dmv")
    chain = sampler(models.dirichlet.dirichlet, seed=3, initial_weights="random")
    arguments = {"concentration": tensors(corpus.alpha), "known": known}
    chain.run(corpus.words, corpus.grammar, num_steps=300, burn_in=30, progress=False, **arguments)
    for n, mean in corpus.posterior_mean().items():
        assert np.abs(chain.weights()[n].numpy() - mean).max() < 0.07
    marginals = chain.marginals()
    assert marginals[1, 1, 2] == 1 and marginals[2, 2, 1] == 1 and marginals[2, 0, 2] == 1


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", ["dmv", "hmm", "cfg"])
def test_sweeps_with_weights_that_are_given(name: str) -> None:
    """Of a block that is a parameter: its counts are those of all sentences, and the others see them."""
    corpus, known = tiny(name)
    grammar = corpus.grammar
    weights = grammar.initial_weights(corpus.words, "random", seed=1)
    given = Sentence(grammar, weights, known=known)
    updates = given.observed_grammar.collapsed_updates(given.observed(corpus.words))
    plain = CollapsedUpdates(given.observed_grammar, given.observed(corpus.words))
    first = next(iter(grammar.blocks))
    alpha = {n: t for n, t in tensors(corpus.alpha).items() if n != first}
    results = []
    for one in (updates, plain):
        log_z, entropies, counts = one.expected_counts(weights)
        total = one.total(counts)
        field = CorpusCounts({n: f.clone() for n, f in total.items()}, alpha, {first: weights[first]})
        after, new = one.collapsed_vb(field, counts, torch.arange(3), 1)
        results.append(
            (
                log_z,
                entropies,
                after,
                *total.values(),
                *field.counts.values(),
                *one.total(new).values(),
                *one.dense_counts(new, torch.tensor([2, 0])).values(),
            )
        )
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


# ------------------------------------------------------------------ checkpoints, fingerprints, tying


@pytest.mark.parametrize("name", LOOPS)
def test_runs_are_resumed_with_the_same_evidence_only(name: str, tmp_path: Path) -> None:
    def loop() -> Any:
        options = {"seed": 1} if name.startswith("Tree") else {}
        return LOOPS[name](models.dirichlet.dirichlet, **options)

    def run(one: Any, heads: list[list[int]], steps: int, path: Path) -> Any:
        arguments = {"concentration": 2.0, "known": padded(heads)}
        return one.run(padded(WORDS), DMV(2), num_steps=steps, progress=False, checkpoint=path, **arguments)

    whole = run(loop(), SOME, 6, tmp_path / "whole")
    run(loop(), SOME, 3, tmp_path / "part")
    resumed = run(loop(), SOME, 6, tmp_path / "part")
    assert resumed.history == whole.history
    assert_close(resumed.weights(), {n: w.numpy() for n, w in whole.weights().items()}, rtol=1e-12)
    other = [[-1, -1, -1], [-1, 1, -1], *SOME[2:]]
    with pytest.raises(ValueError, match="other|not|fit"):
        run(loop(), other, 6, tmp_path / "part")


@pytest.mark.one_in(8)
@pytest.mark.parametrize("name", LOOPS)
def test_tied_weights(name: str) -> None:
    """A grammar over the sources of a grammar with evidence: both directions of attach are one table."""
    both = torch.zeros(2, 2, 2)

    def tied(words: torch.Tensor, known: torch.Tensor | None) -> None:
        grammar = DMV(2)
        weights = {n: pyro.sample(n, dirichlet_prior(b, 2.0)) for n, b in grammar.blocks.items() if n != "attach"}
        one = pyro.sample("attach", dist.Dirichlet(torch.full((2, 2), 2.0)).to_event(1))
        weights["attach"] = one[:, None].expand(both.shape)
        with pyro.plate("sentences", len(words)):
            pyro.sample("words", Sentence(grammar, weights, known=known), obs=words)

    options = {"seed": 1} if name.startswith("Tree") else {}
    loop = LOOPS[name](tied, **options)
    loop.run(padded(WORDS), padded(ALL), num_steps=3, progress=False)
    grammar = DMV(2)
    counts = {n: c.sum(0) for n, c in grammar.counts(padded(WORDS), padded(ALL)).items()}
    pseudo = 1.0 if name == "EM" else 2.0
    expected = {n: c + pseudo for n, c in counts.items()}
    expected["attach"] = (counts["attach"].sum(1) + pseudo)[:, None].expand(2, 2, 2)
    assert_close(loop.weights(), {n: (c / c.sum(-1, keepdim=True)).numpy() for n, c in expected.items()}, rtol=1e-8)
    some = LOOPS[name](tied, **options)
    some.run(padded(WORDS), padded(SOME), num_steps=2, progress=False)
    torch.testing.assert_close(some.weights()["attach"][:, 0], some.weights()["attach"][:, 1])


def test_two_sites_one_with_evidence() -> None:
    """A treebank and a larger corpus of the same grammar: as one corpus, of a part of which the trees are known."""

    def model(words: torch.Tensor, trees: torch.Tensor) -> None:
        grammar = DMV(2)
        weights = {
            n: pyro.param(n, b.uniform(torch.ones(())), constraint=constraints.simplex)
            for n, b in grammar.blocks.items()
        }
        for name, known, own in (("a", trees, words[:3]), ("b", None, words[3:])):
            with pyro.plate(name, len(own)):
                pyro.sample(f"{name}.words", Sentence(grammar, weights, known=known), obs=own)

    start = tensors(random_tables(2, False, 1))
    em = EM(model, initial_weights=start).run(padded(WORDS), padded(ALL)[:3], num_steps=4, progress=False)
    one = EM(models.maximum_likelihood, initial_weights=start)
    known = padded(ALL)
    known[3:] = -1
    one.run(padded(WORDS), DMV(2), known=known, num_steps=4, progress=False)
    assert em.history == pytest.approx(one.history, rel=1e-12)


def test_masked_sentences_take_their_evidence_along() -> None:
    keep = torch.tensor([True, False, True, True, False])

    def model(words: torch.Tensor, known: torch.Tensor) -> None:
        weights = {
            n: pyro.param(n, b.uniform(torch.ones(())), constraint=constraints.simplex)
            for n, b in DMV(2).blocks.items()
        }
        with pyro.plate("sentences", len(words)), poutine.mask(mask=keep if len(words) == 5 else torch.tensor(True)):
            pyro.sample("words", Sentence(DMV(2), weights, known=known), obs=words)

    tables = tensors(random_tables(2, False, 1))
    masked, few = EM(model, initial_weights=tables), EM(model, initial_weights=tables)
    masked.run(padded(WORDS), padded(SOME), num_steps=3, progress=False)
    pyro.clear_param_store()
    few.run(padded(WORDS)[keep], padded(SOME)[keep], num_steps=3, progress=False)
    assert masked.history == pytest.approx(few.history, rel=1e-12)


# ------------------------------------------------------------------ Pyro's own inference


def test_the_potential_of_nuts_is_the_joint_of_what_agrees() -> None:
    prior = random_prior(least=0.5)
    arguments = (padded(WORDS), DMV(2))
    options = {"concentration": tensors(prior), "known": padded(SOME)}
    start, potential, _, _ = initialize_model(models.dirichlet.dirichlet, arguments, options)
    weights = {n: torch.distributions.biject_to(constraints.simplex)(u) for n, u in start.items()}
    log_likelihood = likelihood_and_counts(WORDS, {n: w.numpy() for n, w in weights.items()}, SOME)[0]
    expected = -log_likelihood
    for n, w in weights.items():
        expected -= float(dist.Dirichlet(torch.tensor(prior[n])).log_prob(w).sum())
        transform = torch.distributions.biject_to(constraints.simplex)
        expected -= float(transform.log_abs_det_jacobian(start[n], w).sum())
    assert float(potential(start)) == pytest.approx(expected, rel=1e-10)


def test_minibatches_of_svi_are_unbiased() -> None:
    """The mean over all pairs of sentences of the loss at fixed parameters is that of the corpus."""
    grammar = DMV(2)
    tables = tensors(random_tables(2, False, 1))

    def loss(batch_size: int | None) -> float:
        arguments = {"initial_weights": tables, "known": padded(SOME), "batch_size": batch_size}
        return Trace_ELBO().loss(models.maximum_likelihood, lambda *_, **__: None, padded(WORDS), grammar, **arguments)

    whole = loss(None)
    assert whole == pytest.approx(-likelihood_and_counts(WORDS, {n: w.numpy() for n, w in tables.items()}, SOME)[0])
    seen = [loss(2) for _ in range(150)]
    each = Sentence(grammar, tables, known=padded(SOME)).log_prob(padded(WORDS))
    pairs = [-(each[i] + each[j]) * 2.5 for i in range(5) for j in range(i)]
    assert all(min(abs(float(p) - x) for p in pairs) < 1e-9 for x in seen)
    assert len({round(x, 9) for x in seen}) == 10
    assert float(sum(pairs)) / 10 == pytest.approx(whole)


def test_the_exact_elbo_is_that_of_variational_em() -> None:
    prior, start = random_prior(), tensors(random_tables(2, False, 1))
    loop = VariationalEM(models.dirichlet.dirichlet, initial_weights=start)
    arguments = {"concentration": tensors(prior), "known": padded(SOME)}
    loop.run(padded(WORDS), DMV(2), num_steps=2, progress=False, **arguments)
    counts = {
        n: q.base_dist.concentration - tensors(prior)[n] if n != "root" else q.concentration - tensors(prior)[n]
        for n, q in loop.posterior().items()
    }
    guide = MeanFieldDirichlet(models.dirichlet.dirichlet, initial_counts=counts)
    loss = TraceGrammar_ELBO().loss(models.dirichlet.dirichlet, guide, padded(WORDS), DMV(2), **arguments)
    again = loop.step(padded(WORDS), DMV(2), **arguments)
    assert -loss == pytest.approx(again, rel=1e-9)


# ------------------------------------------------------------------ refusals


@pytest.mark.parametrize("name", LOOPS)
def test_evidence_without_a_tree_is_named(name: str) -> None:
    wrong = [list(h) for h in SOME]
    wrong[2] = [0, 0, 2, 3]
    with pytest.raises(ValueError, match="sentence 2 of site 'words' has evidence that no derivation agrees with"):
        LOOPS[name](models.dirichlet.dirichlet).step(padded(WORDS), DMV(2), concentration=2.0, known=padded(wrong))


@pytest.mark.parametrize("name", LOOPS)
def test_evidence_that_is_to_be_learnt_is_refused(name: str) -> None:
    def model(words: torch.Tensor) -> None:
        grammar = DMV(2)
        weights = {n: pyro.sample(n, dirichlet_prior(b, 2.0)) for n, b in grammar.blocks.items()}
        scores = pyro.param("scores", torch.zeros(5, 5, 5))
        with pyro.plate("sentences", len(words)):
            pyro.sample("words", Sentence(grammar, weights, known={"arc_scores": scores}), obs=words)

    with pytest.raises(ModelError, match="cannot learn the evidence of site 'words'"):
        LOOPS[name](model).step(padded(WORDS))
    guide = AutoDelta(poutine.block(model, hide=["words"]))
    svi = SVI(model, guide, pyro.optim.Adam({"lr": 0.1}), Trace_ELBO())  # type: ignore[attr-defined]
    svi.step(padded(WORDS))
    assert bool((pyro.param("scores") != 0).any())


def test_an_observed_derivation_is_refused_and_known_is_named() -> None:
    def model(words: torch.Tensor, trees: torch.Tensor) -> None:
        grammar = DMV(2)
        weights = {n: pyro.sample(n, dirichlet_prior(b, 2.0)) for n, b in grammar.blocks.items()}
        with pyro.plate("sentences", len(words)):
            pyro.sample("words", Sentence(grammar, weights), obs=words)
            pyro.sample("trees", grammar.derivation(weights, words), obs=trees)

    with pytest.raises(ModelError, match="give derivations that are known to Sentence, as known="):
        CollapsedVB(model).step(padded(WORDS), padded(ALL))


def test_trees_that_agree_are_listed() -> None:
    """Of the helper: 7 trees of three words, of which three have word 1 for the root."""
    assert [len(agreeing(h)) for h in SOME] == [7, 3, 1, 1, 3]
    assert len(list(derivations([0, 1, 1], random_tables(2, False, 1)))) == 7
