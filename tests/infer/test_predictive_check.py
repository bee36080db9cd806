# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Posterior predictive checks against sums over all sentences, and of models that do not fit."""

from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro.infer.autoguide import AutoNormal
from torch import Tensor
from torch.distributions import constraints

from pyrogram.distributions import Sentence, dirichlet_prior
from pyrogram.grammars import CFG, DMV
from pyrogram.infer import EM, TreeGibbs, VariationalEM, posterior_predictive, predictive_check

GRAMMAR = DMV(2)
BLOCKS = GRAMMAR.blocks
WORDS = torch.tensor([[0, 1, 1], [1, 0, -1], [0, -1, -1]])
CHAINS = CFG.from_string("S -> 'a' S | 'a'")


def chain(words: Tensor) -> None:
    w = pyro.sample("rules", dirichlet_prior(CHAINS.blocks["rules"], 1.0))
    with pyro.plate("sentences", len(words)):
        pyro.sample("words", Sentence(CHAINS, {"rules": w}, max_length=400), obs=words)


def dmv(words: Tensor) -> None:
    w = {name: pyro.sample(name, dirichlet_prior(block, 2.0)) for name, block in GRAMMAR.blocks.items()}
    with pyro.plate("sentences", len(words)):
        pyro.sample("words", Sentence(GRAMMAR, w, max_length=6, too_long="truncate"), obs=words)


def test_p_values_are_those_of_the_geometric_distribution() -> None:
    """Two sentences of k words: with stop probability p, the mean length is negative binomial."""
    words = CHAINS.encode([["a"] * 3, ["a"] * 2])
    rows = torch.tensor([[0.5, 0.5]]).expand(200, 2)
    found = predictive_check(chain, {"rules": rows}, words)
    total = torch.arange(2, 200).double()
    probability = (total - 1) * 0.5**total  # of so many words in two sentences
    expected = float(probability[total > 5].sum() + probability[total == 5].sum() / 2)
    error = (expected * (1 - expected) / 200) ** 0.5
    for name in ("words.words", "words.rules", "words.depth"):  # one rule a word
        assert found.p_values[name] == pytest.approx(expected, abs=4 * error)
        assert set(found.realised[name].tolist()) == {2.5}
    assert str(found).splitlines()[1].split()[:2] == ["words.words", "2.500"]


def test_a_model_that_does_not_fit_is_seen() -> None:
    words = CHAINS.encode([["a"] * 9] * 30)  # a geometric distribution has no such lengths
    w = torch.distributions.Dirichlet(torch.tensor([241.0, 31.0])).sample((40,))
    own = {"shortest": lambda words, trees: (words >= 0).sum(-1).amin(-1, keepdim=True).expand(trees.shape[:-1])}
    found = predictive_check(chain, {"rules": w}, words, statistics=own)
    assert found.p_values["words.shortest"] < 0.02
    assert 0.1 < predictive_check(chain, {"rules": w}, words).p_values["words.words"] < 0.9


LONG, SHORT = 0.5, 0.99  # probabilities of a stop
ROOTS = [[0.9, 0.1], [0.2, 0.8]]


def mixture(words: Tensor) -> None:
    """One component has long sentences and roots of tag 0, the other one short ones and roots of tag 1."""
    share = pyro.param("share", torch.tensor([0.3, 0.7]), constraint=constraints.simplex)
    root = torch.tensor(ROOTS)
    stop = torch.tensor([[1 - LONG, LONG], [1 - SHORT, SHORT]])[:, None, None, None].expand(2, 2, 2, 2, 2)
    with pyro.plate("sentences", len(words)):
        z = pyro.sample("z", dist.Categorical(share), infer={"enumerate": "parallel"})
        weights = {"root": root[z], "attach": torch.full((2, 2, 2), 0.5), "stop": stop[z]}
        pyro.sample("words", Sentence(GRAMMAR, weights, max_length=8, too_long="truncate"), obs=words)


@pytest.mark.slow
def test_of_a_mixture_of_grammars() -> None:
    """Trees of two words, by the component that these have; sentences of one word, by that which is drawn."""
    words = torch.tensor([[0, 1], [1, -1]])
    loop = EM(mixture).run(words, num_steps=2, progress=False)
    share = loop.weights()["z"].tolist()
    # One arc, to the right from a root of tag 0 or to the left from one of tag 1: four stops or three, and a step.
    own = [[m * r * (1 - s) * 0.5 * s**4 for r in row] for m, row, s in zip(share, ROOTS, (LONG, SHORT), strict=True)]
    right = sum(row[0] for row in own) / sum(map(sum, own))
    found = posterior_predictive(mixture, loop, words, num_samples=1000)
    assert set(found) == {"words.tree"} and found["words.tree"].shape == (1000, 2, 2)
    assert float((found["words.tree"][:, 0, 0] == 0).double().mean()) == pytest.approx(right, abs=0.06)
    new = posterior_predictive(mixture, loop, words, num_samples=1000, new_sentences=True)
    single = share[0] * LONG**2 + share[1] * SHORT**2
    assert float((new["words"][..., 1] < 0).double().mean()) == pytest.approx(single, abs=0.05)
    likely = [sum(row) for row in own]  # of the component that is more probable, the better tree
    best = own[likely.index(max(likely))]
    heads = posterior_predictive(mixture, loop, words, num_samples=2, temperature=0)["words.tree"][:, 0].tolist()
    assert heads == [[0, 1] if best[0] > best[1] else [2, 0]] * 2
    check = predictive_check(mixture, loop, words, num_samples=20)
    assert set(check.realised["words.words"].tolist()) == {1.5} and len(check.replicated["words.depth"]) == 20


def computed_mixture(words: Tensor) -> None:
    share = pyro.sample("share", dist.Normal(torch.zeros(2), 1.0).to_event(1)).softmax(-1)
    logits = {n: dist.Normal(torch.zeros(2, *b.shape), 1.0).to_event(1 + len(b.shape)) for n, b in BLOCKS.items()}
    weights = {n: pyro.sample(n, prior).softmax(-1) for n, prior in logits.items()}
    with pyro.plate("sentences", len(words)):
        z = pyro.sample("z", dist.Categorical(share))
        own = {n: w[z] for n, w in weights.items()}
        pyro.sample("words", Sentence(GRAMMAR, own, max_length=8, too_long="truncate"), obs=words)


@pytest.mark.parametrize("loop", [EM, VariationalEM])
def test_of_a_mixture_whose_weights_are_computed(loop: Any) -> None:
    fitted = loop(computed_mixture).run(WORDS, num_steps=1, progress=False)
    assert len(predictive_check(computed_mixture, fitted, WORDS, num_samples=3).replicated["words.words"]) == 3


def test_of_another_model() -> None:
    loop = VariationalEM(dmv).run(WORDS, num_steps=1, progress=False)

    def other() -> None:
        with pyro.plate("sentences", len(WORDS)):
            pyro.sample("others", Sentence(GRAMMAR, GRAMMAR.initial_weights(WORDS, "uniform")), obs=WORDS)

    with pytest.raises(ValueError, match=r"no weights for site 'others', only for \['words'\]; give the model"):
        posterior_predictive(other, loop)


def test_observed_trees_are_realised() -> None:
    heads = torch.tensor([[0, 1, 2], [0, 1, -1], [0, -1, -1]])
    loop = VariationalEM(dmv).run(WORDS, num_steps=2, progress=False)
    found = predictive_check(dmv, loop, WORDS, trees=heads, num_samples=20)
    assert set(found.realised["words.depth"].tolist()) == {2.0} and len(found.realised["words.depth"]) == 20
    latent = predictive_check(dmv, loop, WORDS, num_samples=20).realised["words.depth"]
    assert float(latent.std()) > 0


@pytest.mark.parametrize("kind", ["samples", "guide", "own guide"])
def test_of_whatever_was_fitted(kind: str) -> None:
    fitted: Any
    if kind == "samples":
        mcmc = pyro.infer.MCMC(TreeGibbs(dmv, keep_statistics=True), 30, warmup_steps=1, disable_progbar=True)
        mcmc.run(WORDS)
        fitted = mcmc  # whose samples have more than the model's sites
    else:
        loop = VariationalEM(dmv).run(WORDS, num_steps=2, progress=False)
        fitted = loop.guide if kind == "own guide" else AutoNormal(dmv)
    options = {} if kind == "samples" else {"num_samples": 30}
    found = predictive_check(dmv, fitted, WORDS, **options)
    assert {len(x) for x in [*found.realised.values(), *found.replicated.values()]} == {30}
    assert all(0 <= p <= 1 for p in found.p_values.values())


def test_a_model_without_sentences_is_refused() -> None:
    with pytest.raises(ValueError, match="it has no observed Sentence site"):
        predictive_check(lambda: pyro.sample("x", pyro.distributions.Normal(0.0, 1.0)), {})


@pytest.mark.parametrize(
    ("trees", "message"),
    [
        ({"wrds": torch.zeros(3, 3)}, "trees has no use for 'wrds', only for the Sentence sites"),
        (torch.tensor([[9, 0, 1], [0, 1, -1], [0, -1, -1]]), "trees of site 'words' must be derivations of its words"),
        (torch.tensor([[2, 1, 0], [0, 1, -1], [0, -1, -1]]), "trees of site 'words' must be derivations of its words"),
        (torch.tensor([[0, 1], [0, 1], [0, -1]]), "trees of site 'words' must be derivations of its words"),
    ],
)
def test_observed_trees_are_checked(trees: Any, message: str) -> None:
    weights = {name: block.uniform(torch.ones(()))[None] for name, block in GRAMMAR.blocks.items()}
    with pytest.raises(ValueError, match=message):
        predictive_check(dmv, weights, WORDS, trees=trees)
    with pytest.raises(TypeError, match="statistics must be functions by name, not 'depth'"):
        predictive_check(dmv, weights, WORDS, statistics="depth")  # type: ignore
