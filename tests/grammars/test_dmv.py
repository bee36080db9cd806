# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The DMV beyond lists of trees (test_listed_grammars.py): long sentences, weights of any size, trees that cross."""

import math

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro.infer import MCMC, NUTS

from pyrogram import DMV
from pyrogram.distributions import ProjectiveDependencyTree, Sentence
from pyrogram.grammars.dmv import dmv
from pyrogram.recursion import Grounded, InvalidRecursion, Reals

LEFT = 0


def random_weights(grammar, *batch):
    return {name: block.normalize(0.2 + torch.rand(*batch, *block.shape)) for name, block in grammar.blocks.items()}


GRAMMARS = [DMV(3), DMV(3, valence_attach=True), DMV(3, num_valences=1), DMV(3, valence_attach=True, num_valences=3)]
both = pytest.mark.parametrize("grammar", GRAMMARS[:2], ids=repr)


def test_counts_of_a_tree_that_crosses():
    grammar = DMV(2)
    counts = grammar.counts(torch.tensor([[0, 1, 0, 1]]), torch.tensor([[3, 4, 0, 3]]))
    assert counts["root"].tolist() == [[1, 0]] and counts["attach"].sum() == 3
    assert counts["attach"][0, 0, LEFT].tolist() == [1, 0] and counts["attach"][0, 1, LEFT].tolist() == [0, 1]


def test_long_sentences_in_single_precision():
    grammar = DMV(20)
    w = {name: v.float().log().requires_grad_() for name, v in random_weights(grammar).items()}
    words = torch.randint(20, (3, 200))
    words[1, 150:] = -1
    log_z = grammar.log_partition(w, words)
    gradients = torch.autograd.grad(log_z.sum(), list(w.values()))
    assert log_z.isfinite().all() and all(g.isfinite().all() for g in gradients)
    exact = grammar.log_partition({name: v.detach().double() for name, v in w.items()}, words)
    torch.testing.assert_close(log_z.double(), exact, rtol=1e-5, atol=0.0)
    assert gradients[1].sum().item() == pytest.approx(200 + 150 + 200 - 3, rel=1e-4)


def test_weights_in_single_precision_are_summed_in_double_precision():
    """Log Z, counts and derivatives are those of the same weights as float64, rounded once."""
    grammar, words = DMV(3), torch.randint(3, (40, 12))
    singles = {name: w.log().float() for name, w in grammar.initial_weights(words, "random", seed=0).items()}
    doubles = {name: w.double() for name, w in singles.items()}
    for tables in (singles, doubles):
        for w in tables.values():
            w.requires_grad_()
    log_z, exact = grammar.log_partition(singles, words), grammar.log_partition(doubles, words)
    assert torch.equal(log_z, exact.float())
    log_z.sum().backward()
    (_, single_counts), (_, counts) = (grammar.expected_counts(tables, words) for tables in (singles, doubles))
    for name, w in singles.items():
        assert w.grad.dtype == single_counts[name].dtype == torch.float32
        assert torch.equal(single_counts[name], counts[name].float()) and torch.equal(w.grad, counts[name].float())


def test_expected_counts_by_the_torch_engine():
    grammar = DMV(2)
    w = {name: v.log() for name, v in random_weights(grammar).items()}
    words = torch.tensor([[0, 1, 0], [1, -1, -1]])
    half = {name: v.to(torch.bfloat16) for name, v in w.items()}
    log_z, counts = grammar.expected_counts(half, words)
    expected_log_z, expected = grammar.expected_counts(w, words)
    torch.testing.assert_close(log_z.double(), expected_log_z, rtol=0.05, atol=0.05)
    for name in counts:
        torch.testing.assert_close(counts[name].double(), expected[name], rtol=0.1, atol=0.05)


@pytest.mark.slow
def test_nuts_agrees_with_importance_sampling():
    grammar = DMV(2)
    words = torch.tensor([[0, 1, 1], [1, -1, -1], [0, 1, -1]])

    def prior():
        return {
            name: pyro.sample(name, dist.Dirichlet(2 * torch.ones(block.shape)).to_event(block.batch_dim))
            for name, block in grammar.blocks.items()
        }

    def model():
        weights = prior()
        with pyro.plate("sentences", len(words)):
            pyro.sample("words", Sentence(grammar, weights), obs=words)

    mcmc = MCMC(NUTS(model, max_tree_depth=4), num_samples=200, warmup_steps=60, disable_progbar=True)
    mcmc.run()
    with pyro.plate("draws", 50_000, dim=-1):
        drawn = prior()
    log_likelihood = Sentence(grammar, {name: w[:, None] for name, w in drawn.items()}).log_prob(words).sum(-1)
    importance = log_likelihood.softmax(0)
    effective = 1 / (importance**2).sum()
    assert effective > 1000
    for name, samples in mcmc.get_samples().items():
        mean = torch.tensordot(importance, drawn[name], 1)
        prior_mean = drawn[name].mean(0)
        # 200 correlated draws are worth at least 40 independent ones.
        error = samples.std(0) * (1 / 40 + 1 / effective) ** 0.5
        assert ((samples.mean(0) - mean).abs() < 4 * error).all()
        if name == "stop":  # the test has power: the posterior is not the prior
            assert ((mean - prior_mean).abs() > 4 * samples.std(0) / 200**0.5).any()


def test_nuts_runs():
    grammar = DMV(2)
    words = torch.tensor([[0, 1], [1, -1]])

    def model():
        weights = {
            name: pyro.sample(name, dist.Dirichlet(torch.ones(block.shape)).to_event(block.batch_dim))
            for name, block in grammar.blocks.items()
        }
        with pyro.plate("sentences", 2):
            pyro.sample("words", Sentence(grammar, weights), obs=words)

    mcmc = MCMC(NUTS(model, max_tree_depth=2), num_samples=2, warmup_steps=2, disable_progbar=True)
    mcmc.run()
    assert mcmc.get_samples()["stop"].shape == (2, 2, 2, 2, 2)


def test_tags_must_be_there():
    with pytest.raises(ValueError, match="num_tags must be at least 1, not 0"):
        DMV(0)
    assert repr(DMV(3, valence_attach=True)) == "DMV(3, valence_attach=True)"


def test_posteriors_under_weights_of_all_magnitudes():
    """Unnormalised: Z is huge, though the root has hardly any weight to stop on its left."""
    grammar = DMV(2)
    weights = {name: torch.ones(block.shape, dtype=torch.float64) for name, block in grammar.blocks.items()}
    weights["root"] = torch.tensor([1e150, 1e-100], dtype=torch.float64)
    weights["attach"][0, 1, 1] = 1e150
    weights["stop"][0, 1, 0, 0] = 1e74
    weights["stop"][0, 0, 0, 1] = 1e-130
    words = torch.tensor([[0, 1]])
    log_z, counts = grammar.expected_counts({name: w.log() for name, w in weights.items()}, words)
    torch.testing.assert_close(log_z, torch.tensor([244 * math.log(10)], dtype=torch.float64))
    derivation = grammar.derivation(weights, words)
    for name, expected in derivation.expected_counts().items():
        torch.testing.assert_close(counts[name], expected[0])
    assert counts["root"].tolist() == pytest.approx([1.0, 0.0])


@pytest.mark.one_in(4)
@both
def test_long_sentences_as_the_interpreter_has_them(grammar):
    """Columns are scaled from 13 words on; the interpreter knows nothing of that."""
    words = torch.randint(3, (10, 14), generator=torch.Generator().manual_seed(0))
    weights = random_weights(grammar)
    logs = {name: w.log() for name, w in weights.items()}
    log_z, counts = grammar.expected_counts(logs, words)
    torch.testing.assert_close(grammar.log_partition(logs, words), log_z)
    page, tables = dmv(valence_attach=grammar.valence_attach), {name: w.numpy() for name, w in weights.items()}
    for b in (0, 9):
        sentence = Grounded(page, n=14, sizes={"V": 3}, words={"w": words[b].tolist()})
        assert math.log(sentence.goal(Reals(), tables)) == pytest.approx(float(log_z[b]), rel=1e-10)
    arcs, stops = grammar.scores(logs, words)
    trees = ProjectiveDependencyTree(arcs, stops, valence=True)
    torch.testing.assert_close(trees._program.log_partition(trees._tensor_inputs(log_z.shape), by_torch=True), log_z)
    assert counts["root"].sum() == pytest.approx(10)
    assert counts["attach"].sum() == pytest.approx(10 * 13)


def test_what_is_drawn_has_the_valences_of_the_model() -> None:
    """Three children on the right, no more and no fewer: only valences can say so."""
    grammar = DMV(2, num_valences=4)
    stop = torch.zeros(2, 2, 4, 2)
    stop[..., 1] = 1  # everybody stops at once
    stop[0, 1, :3] = torch.tensor([1.0, 0.0])  # but the first tag's three children on the right
    attach = torch.zeros(2, 2, 2)
    attach[..., 1] = 1
    weights = {"root": torch.tensor([1.0, 0.0]), "attach": attach, "stop": stop}
    words, heads = grammar.sample_trees(weights, (5,), 10)
    assert words[:, :5].tolist() == [[0, 1, 1, 1, -1]] * 5 and heads[:, :4].tolist() == [[0, 1, 1, 1]] * 5
    assert repr(grammar) == "DMV(2, num_valences=4)" and grammar.axes["stop"]["valence"] == ["0", "1", "2", "3"]
    with pytest.raises(ValueError, match="num_valences must be at least 1, not 0"):
        DMV(2, num_valences=0)


def test_words_that_change_before_a_second_backward_pass_are_refused():
    """Compiled code, which runs once more then, looks at no bounds."""
    grammar, words = DMV(3), torch.tensor([[0, 1, 2], [2, 0, -1]])
    logs = {n: w.log().requires_grad_() for n, w in grammar.initial_weights(words, "harmonic").items()}
    total = grammar.log_partition(logs, words).sum()
    torch.autograd.grad(total, list(logs.values()), retain_graph=True)
    words.fill_(-1)
    with pytest.raises(InvalidRecursion, match="words w are not all in"):
        torch.autograd.grad(total, list(logs.values()))
