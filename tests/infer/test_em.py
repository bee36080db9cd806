# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""EM against trees listed one by one, and what must hold at every iteration."""

import math

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import scipy.stats
import torch
from infer.small_corpora import CORPORA, assert_close, padded, random_corpus, tensors
from infer.tree_sums import likelihood_and_counts, normalized, random_tables, shapes
from torch import Tensor
from torch.distributions import constraints

from pyrogram import DMV
from pyrogram.distributions import Sentence, dirichlet_prior
from pyrogram.infer import EM
from pyrogram.models import maximum_likelihood
from pyrogram.models.dirichlet import dirichlet


@pytest.mark.parametrize("valence_attach", [False, True])
@pytest.mark.parametrize("corpus", CORPORA)
def test_maximum_likelihood_is_normalised_counts(corpus: str, valence_attach: bool) -> None:
    V, sentences = CORPORA[corpus]
    tables = random_tables(V, valence_attach, seed=1)
    em = EM(maximum_likelihood, initial_weights=tensors(tables))
    for _ in range(3):
        objective, counts = likelihood_and_counts(sentences, tables)
        tables = {name: normalized(counts[name], tables[name]) for name in tables}
        assert em.step(padded(sentences), DMV(V, valence_attach=valence_attach)) == pytest.approx(objective, rel=1e-12)
        assert_close(em.weights(), tables)


@pytest.mark.parametrize("valence_attach", [False, True])
@pytest.mark.parametrize("corpus", CORPORA)
def test_map_adds_the_prior(corpus: str, valence_attach: bool) -> None:
    """The objective is the log-likelihood plus the log density of every multinomial, by scipy."""
    V, sentences = CORPORA[corpus]
    tables = random_tables(V, valence_attach, seed=2)
    generator = np.random.default_rng(3)
    alpha = {name: 1 + generator.gamma(1.0, size=shape) for name, shape in shapes(V, valence_attach).items()}
    em = EM(dirichlet, initial_weights=tensors(tables))
    for _ in range(3):
        objective, counts = likelihood_and_counts(sentences, tables)
        for name, table in tables.items():
            for k in np.ndindex(table.shape[:-1]):
                if table.shape[-1] > 1:  # scipy knows no Dirichlet of one event; its density is 1
                    objective += scipy.stats.dirichlet.logpdf(table[k], alpha[name][k])
        tables = {name: normalized(counts[name] + alpha[name] - 1, tables[name]) for name in tables}
        grammar = DMV(V, valence_attach=valence_attach)
        step = em.step(padded(sentences), grammar, concentration=tensors(alpha))
        assert step == pytest.approx(objective, rel=1e-11)
        assert_close(em.weights(), tables)
        # The mapping of concentrations is a new object each time, and yet the same model.
    assert len(em.history) == 3


@pytest.mark.one_in(3)
@pytest.mark.parametrize("valence_attach", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_the_objective_never_falls(seed: int, valence_attach: bool) -> None:
    V, sentences = random_corpus(seed)
    grammar = DMV(V, valence_attach=valence_attach)
    start = tensors(random_tables(V, valence_attach, seed, concentration=0.3))
    for model, options in (
        (maximum_likelihood, {}),
        (dirichlet, {"concentration": 1.0}),
        (dirichlet, {"concentration": 1.7}),
    ):
        pyro.clear_param_store()
        em = EM(model, initial_weights=start)
        em.run(padded(sentences), grammar, num_steps=40, tolerance=0, progress=False, **options)
        history = np.array(em.history)
        assert len(history) == 40
        assert (np.diff(history) >= -1e-10 * np.abs(history[1:])).all()


def test_a_uniform_prior_is_maximum_likelihood() -> None:
    words, grammar = padded(CORPORA["two tags"][1]), DMV(2)
    start = tensors(random_tables(2, False, 0))
    one = EM(dirichlet, initial_weights=start).run(words, grammar, concentration=1.0, num_steps=5, progress=False)
    other = EM(maximum_likelihood, initial_weights=start).run(words, grammar, num_steps=5, progress=False)
    for name, w in one.weights().items():
        assert torch.equal(w, other.weights()[name])
    # Each of the multinomials of N events adds the log density log (N - 1)!, which is 0 for N = 2.
    assert one.history == pytest.approx(other.history, rel=1e-12)


def test_a_multinomial_without_counts_keeps_its_weights() -> None:
    """Tag 2 never occurs; tag 0 never has a child."""
    start = tensors(random_tables(3, True, 4))
    em = EM(maximum_likelihood, initial_weights=start)
    em.run(torch.tensor([[0], [1], [1]]), DMV(3, valence_attach=True), num_steps=4, tolerance=0, progress=False)
    weights = em.weights()
    torch.testing.assert_close(weights["attach"], start["attach"], rtol=1e-15, atol=0)
    torch.testing.assert_close(weights["stop"][2], start["stop"][2], rtol=1e-15, atol=0)
    torch.testing.assert_close(weights["stop"][:, :, 1], start["stop"][:, :, 1], rtol=1e-15, atol=0)


def test_one_word_sentences_have_a_closed_form() -> None:
    em = EM(maximum_likelihood, initial_weights="uniform")
    em.run(torch.tensor([[0], [1], [1], [1]]), DMV(2), num_steps=5, progress=False)
    assert em.weights()["root"].tolist() == pytest.approx([0.25, 0.75])
    assert em.weights()["stop"][:, :, 0, 1].tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert em.history[-1] == pytest.approx(math.log(0.25) + 3 * math.log(0.75))


def test_map_of_a_corpus_that_says_nothing_is_the_mode_of_the_prior() -> None:
    alpha = torch.tensor([2.0, 4.0, 1.0])
    grammar = DMV(3)
    prior = {name: alpha[: block.shape[-1]].expand(block.shape) for name, block in grammar.blocks.items()}
    em = EM(dirichlet, initial_weights="uniform")
    em.step(torch.tensor([[0]]), grammar, concentration=prior)
    assert em.weights()["attach"][1, 0].tolist() == pytest.approx([0.25, 0.75, 0.0])


def test_what_is_learnt_goes_to_the_parameter_store() -> None:
    words, grammar = padded(CORPORA["two tags"][1]), DMV(2)
    em = EM(maximum_likelihood).run(words, grammar, num_steps=3, progress=False)
    for name, w in em.weights().items():
        torch.testing.assert_close(pyro.param(name).detach(), w)
    again = EM(maximum_likelihood)
    objective = again.step(words, grammar)
    assert objective == pytest.approx(EM(maximum_likelihood, initial_weights=em.weights()).step(words, grammar))


def test_zeros_of_maximum_likelihood_survive_the_parameter_store() -> None:
    words, grammar = torch.tensor([[0], [0]]), DMV(2)
    EM(maximum_likelihood, initial_weights="uniform").run(words, grammar, num_steps=2, progress=False)
    assert pyro.param("root").tolist() == [1.0, 0.0]
    assert EM(maximum_likelihood).step(words, grammar) == 0.0


def test_sentence_after_sentence_and_repeated_by_a_plate() -> None:
    """Whatever log_prob has as many sentences is that many, in plates, in loops, and broadcast."""
    grammar = DMV(2)
    start = tensors(random_tables(2, False, 5))

    def weights() -> dict[str, Tensor]:
        return {n: pyro.param(n, start[n], constraint=constraints.simplex) for n in grammar.blocks}

    def in_a_loop() -> None:
        w = weights()
        for i in pyro.plate("sentences", 2):
            pyro.sample(f"words {i}", Sentence(grammar, w), obs=torch.tensor([[0, 1, -1], [1, 1, 0]])[i])

    def broadcast() -> None:
        with pyro.plate("copies", 3):
            pyro.sample("words", Sentence(grammar, weights()), obs=torch.tensor([0, 1]))

    def nested() -> None:
        words = torch.tensor([[[0], [1], [0]], [[1], [1], [1]]])
        with pyro.plate("outer", 2, dim=-2), pyro.plate("inner", 3, dim=-1):
            pyro.sample("words", Sentence(grammar, weights()), obs=words)

    def floats() -> None:
        with pyro.plate("sentences", 2):
            pyro.sample("words", Sentence(grammar, weights()), obs=torch.tensor([[0.0, 1.0], [1.0, -1.0]]))

    cases = (
        (in_a_loop, [[0, 1], [1, 1, 0]]),
        (broadcast, [[0, 1]] * 3),
        (nested, [[0], [1], [0], [1], [1], [1]]),
        (floats, [[0, 1], [1]]),
    )
    for model, sentences in cases:
        pyro.clear_param_store()
        objective = float(pyro.poutine.trace(model).get_trace().log_prob_sum().detach())
        em = EM(model)
        expected, counts = likelihood_and_counts(sentences, {n: w.numpy() for n, w in start.items()})
        assert em.step() == pytest.approx(expected, rel=1e-12)
        assert objective == pytest.approx(expected, rel=1e-12)
        site = next(iter(em._need_problem().traced.sentences)).name
        assert_close(em.weights(site), {n: normalized(counts[n], start[n].numpy()) for n in counts})


def test_two_corpora_with_a_block_in_common() -> None:
    """One grammar knows valence, the other does not; roots and stops are theirs both."""
    plain, extended = DMV(2), DMV(2, valence_attach=True)
    here, there = CORPORA["two tags"][1], [[1, 1, 0], [0, 0]]
    tables = {"root": random_tables(2, False, 6)["root"], "stop": random_tables(2, False, 6)["stop"]}
    attach, attach2 = random_tables(2, False, 7)["attach"], random_tables(2, True, 8)["attach"]

    def model() -> None:
        shared = {
            n: pyro.sample(
                n, dist.Dirichlet(1.5 * torch.ones(plain.blocks[n].shape)).to_event(plain.blocks[n].batch_dim)
            )
            for n in ("root", "stop")
        }
        own = pyro.param("attach", torch.tensor(attach), constraint=constraints.simplex)
        other = pyro.param("their attach", torch.tensor(attach2), constraint=constraints.simplex)
        with pyro.plate("here", len(here)):
            pyro.sample("here words", Sentence(plain, {**shared, "attach": own}), obs=padded(here))
        with pyro.plate("there", len(there)):
            pyro.sample("there words", Sentence(extended, {**shared, "attach": other}), obs=padded(there))

    em = EM(
        model,
        initial_weights={**tensors(tables), "attach": torch.tensor(attach), "their attach": torch.tensor(attach2)},
    )
    first, counts = likelihood_and_counts(here, {**tables, "attach": attach})
    second, counts2 = likelihood_and_counts(there, {**tables, "attach": attach2})
    prior = sum(
        scipy.stats.dirichlet.logpdf(tables[n][k], np.full(2, 1.5))
        for n in tables
        for k in np.ndindex(tables[n].shape[:-1])
    )
    assert em.step() == pytest.approx(first + second + prior, rel=1e-11)
    both = {n: normalized(counts[n] + counts2[n] + 0.5, tables[n]) for n in tables}
    assert_close(em.weights("here words"), {**both, "attach": normalized(counts["attach"], attach)})
    assert_close(em.weights("there words"), {**both, "attach": normalized(counts2["attach"], attach2)})
    with pytest.raises(ValueError, match="say which of the Sentence sites"):
        em.weights()


def test_one_site_for_two_blocks_gets_the_counts_of_both() -> None:
    """attach and stop have one shape for V = 2 in the extended grammar: a nonsensical, but legal model."""
    grammar = DMV(2, valence_attach=True)
    tables = random_tables(2, True, 9)
    tables["attach"] = tables["stop"]
    sentences = CORPORA["two tags"][1]

    def model() -> None:
        root = pyro.param("root", torch.tensor(tables["root"]), constraint=constraints.simplex)
        rest = pyro.param("rest", torch.tensor(tables["stop"]), constraint=constraints.simplex)
        with pyro.plate("sentences", len(sentences)):
            pyro.sample("words", Sentence(grammar, {"root": root, "attach": rest, "stop": rest}), obs=padded(sentences))

    objective, counts = likelihood_and_counts(sentences, tables)
    em = EM(model)
    assert em.step() == pytest.approx(objective, rel=1e-12)
    expected = normalized(counts["attach"] + counts["stop"], tables["stop"])
    assert_close(em.weights(), {"attach": expected, "stop": expected})


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_weights_have_the_dtype_of_the_model(dtype: torch.dtype) -> None:
    torch.set_default_dtype(dtype)
    words, grammar = padded(CORPORA["two tags"][1]), DMV(2)
    for loop in (EM(maximum_likelihood), EM(dirichlet)):
        options = {"concentration": 2.0} if loop.model is dirichlet else {}
        loop.run(words, grammar, num_steps=3, progress=False, **options)
        assert {w.dtype for w in loop.weights().values()} == {dtype}


def test_sentences_that_the_start_cannot_generate() -> None:
    start = {name: block.uniform(torch.ones(())) for name, block in DMV(2).blocks.items()}
    start["root"] = torch.tensor([1.0, 0.0])
    em = EM(maximum_likelihood, initial_weights=start)
    with pytest.raises(ValueError, match="sentence 1 of site 'words' has probability zero"):
        em.step(torch.tensor([[0], [1]]), DMV(2))
    assert em.history == []


@pytest.mark.parametrize("named", [None, "harmonic"])
@pytest.mark.parametrize("sizes", [(1, 4), (1, 1, 1, 1, 1)], ids=["two corpora", "a site for each sentence"])
def test_the_start_reads_all_sites_that_share_weights(sizes: tuple[int, ...], named: str | None) -> None:
    """Several sites are one corpus: the same start, so the same objective, whatever words the first site lacks."""
    grammar, alpha = DMV(3), 1.5
    sentences = [[0, 0], [1, 0, 2], [2], [2, 1], [1, 1, 2, 0]]
    sites = [[sentences.pop(0) for _ in range(size)] for size in sizes]

    def model() -> None:
        weights = {n: pyro.sample(n, dirichlet_prior(b, alpha)) for n, b in grammar.blocks.items()}
        for number, corpus in enumerate(sites):
            with pyro.plate(f"sentences {number}", len(corpus)):
                pyro.sample(f"words {number}", Sentence(grammar, weights), obs=padded(corpus))

    words = padded([sentence for corpus in sites for sentence in corpus])
    em, one = EM(model, initial_weights=named), EM(dirichlet)
    for _ in range(3):
        assert em.step() == pytest.approx(one.step(words, grammar, concentration=alpha), rel=1e-12)


def test_the_start_of_blocks_that_two_grammars_share() -> None:
    """Neither corpus has the other's tag, so that a start from one of them makes the other impossible."""
    plain, extended = DMV(2), DMV(2, valence_attach=True)

    def model() -> None:
        weights = {n: pyro.sample(n, dirichlet_prior(b, 1.5)) for n, b in plain.blocks.items()}
        theirs = pyro.sample("their attach", dirichlet_prior(extended.blocks["attach"], 1.5))
        pyro.sample("here", Sentence(plain, weights), obs=torch.tensor([0, 0]))
        pyro.sample("there", Sentence(extended, {**weights, "attach": theirs}), obs=torch.tensor([1, 1]))

    em = EM(model)
    em.step()
    assert math.isfinite(em.step())
    torch.testing.assert_close(em.weights("here")["root"], torch.tensor([0.5, 0.5]))  # one sentence each: (1 + 0.5) / 3
