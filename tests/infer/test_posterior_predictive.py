# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sentences and trees of fitted models, whatever they were fitted by."""

from collections.abc import Callable
from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
from infer.tree_site_models import GRAMMAR, WORDS, padded_batch, weights
from pyro.distributions import constraints
from pyro.infer import MCMC, SVI, Trace_ELBO
from pyro.infer.autoguide import AutoDelta, AutoNormal
from torch import Tensor

from pyrogram.distributions import Sentence
from pyrogram.infer import (
    EM,
    CollapsedVB,
    TreeGibbs,
    TreeHastings,
    VariationalEM,
    collapse_trees,
    posterior_predictive,
)
from pyrogram.trees import is_tree


def dmv(words: Tensor) -> None:
    w = weights()
    with pyro.plate("sentences", len(words)):
        pyro.sample("words", Sentence(GRAMMAR, w, max_length=5, too_long="truncate"), obs=words)


def softmax(words: Tensor) -> None:
    """Weights that the model computes, from parameters."""
    w = {}
    for name, block in GRAMMAR.blocks.items():
        logits = pyro.param(f"{name}.logits", torch.linspace(-1, 1, block.shape.numel()).reshape(block.shape))
        w[name] = logits.softmax(-1)
    with pyro.plate("sentences", len(words)):
        pyro.sample("words", Sentence(GRAMMAR, w, max_length=5, too_long="truncate"), obs=words)


@pytest.mark.parametrize("loop", [EM, VariationalEM, CollapsedVB, TreeGibbs, TreeHastings])
def test_of_a_loop(loop: Callable[..., Any]) -> None:
    fitted = loop(dmv).run(WORDS, num_steps=2, progress=False)
    best = posterior_predictive(dmv, fitted, WORDS, temperature=0)
    assert best.keys() == {"words.tree"}
    assert torch.equal(best["words.tree"][0], GRAMMAR.derivation(fitted.weights(), WORDS).argmax())
    other = posterior_predictive(dmv, fitted, WORDS[:1, :2], num_samples=4)
    assert other["words.tree"].shape == (4, 1, 2)
    new = posterior_predictive(dmv, fitted, WORDS, num_samples=3, new_sentences=True)
    assert {name: x.shape for name, x in new.items()} == {"words": (3, 4, 5), "words.tree": (3, 4, 5)}
    assert bool(is_tree(new["words.tree"]).all())


def test_best_trees_of_a_mixture_are_of_the_best_component() -> None:
    V = GRAMMAR.num_words

    def model(words: Tensor) -> None:
        share = pyro.sample("share", dist.Beta(2.0, 2.0))
        attach = pyro.sample("attach", dist.Dirichlet(1.5 * torch.ones(2, V, 2, V)).to_event(3))
        rest = {name: block.uniform(share) for name, block in GRAMMAR.blocks.items()}
        with pyro.plate("sentences", len(words)):
            z = pyro.sample("z", dist.Bernoulli(share))
            pyro.sample("words", Sentence(GRAMMAR, rest | {"attach": attach[z.long()]}), obs=words)

    fitted = EM(model, initial_weights="random").run(WORDS, num_steps=2, progress=False)
    w = fitted.weights()
    own = [{n: w.get(f"{n}[{k}]", w.get(n, GRAMMAR.blocks[n].uniform(w["z"]))) for n in GRAMMAR.blocks} for k in (0, 1)]
    laws = [GRAMMAR.derivation(weights, WORDS) for weights in own]
    logits = torch.stack([law.log_partition for law in laws], -1) + w["z"].log()
    trees = torch.stack([law.argmax() for law in laws])
    expected = trees[logits.argmax(-1), torch.arange(len(WORDS))]
    assert (trees[0] != trees[1]).any()
    for _ in range(4):  # no draw is made
        found = posterior_predictive(model, fitted, WORDS, temperature=0)["words.tree"]
        assert torch.equal(found[0], expected)


def test_weights_of_a_loop_are_those_that_it_found() -> None:
    fitted = EM(softmax).run(WORDS, num_steps=3, progress=False)
    w = fitted.weights()
    pyro.param("root.logits").data.zero_()  # the loop has what it learnt, wherever the store has gone
    new = posterior_predictive(softmax, fitted, WORDS[:1].expand(4000, -1), new_sentences=True)
    words, heads = new["words"][0], new["words.tree"][0]
    tags = words.gather(-1, (heads == 0).double().argmax(-1, keepdim=True))[:, 0]
    frequencies = torch.bincount(tags, minlength=3) / 4000
    torch.testing.assert_close(frequencies, w["root"].detach(), rtol=0, atol=4 * (0.25 / 4000) ** 0.5)
    assert float((w["root"] - 1 / 3).abs().max()) > 0.1


def test_of_parameters_and_a_guide_without_sites() -> None:
    root = torch.tensor([0.0, 0.0, 1.0])
    pyro.param("root.logits", (root + 1e-9).log())
    new = posterior_predictive(softmax, lambda words: None, WORDS, num_samples=5, new_sentences=True)
    words, heads = new["words"], new["words.tree"]
    assert bool((words.gather(-1, (heads == 0).double().argmax(-1, keepdim=True)) == 2).all())


@pytest.mark.parametrize("kernel", [TreeHastings, TreeGibbs])
def test_of_markov_chains(kernel: Callable[..., Any]) -> None:
    mcmc = MCMC(kernel(dmv), 3, warmup_steps=1, disable_progbar=True)
    mcmc.run(WORDS)
    samples = mcmc.get_samples()
    for fitted in (mcmc, samples):
        found = posterior_predictive(dmv, fitted, WORDS, temperature=0)["words.tree"]
        for i, trees in enumerate(found):
            w = {name: x[i] for name, x in samples.items()}
            assert torch.equal(trees, GRAMMAR.derivation(w, WORDS).argmax())
    new = posterior_predictive(dmv, mcmc, WORDS, new_sentences=True)
    assert new["words"].shape == new["words.tree"].shape == (3, 4, 5)
    with pytest.raises(ValueError, match="posterior samples are used once each"):
        posterior_predictive(dmv, mcmc, WORDS, num_samples=2)


@pytest.mark.parametrize("make", [AutoDelta, AutoNormal])
def test_of_a_guide(make: Callable[..., Any]) -> None:
    guide = make(dmv)
    SVI(dmv, guide, pyro.optim.Adam({"lr": 0.1}), Trace_ELBO()).step(WORDS)  # type: ignore[attr-defined]
    found = posterior_predictive(dmv, guide, WORDS, num_samples=2, temperature=0)
    for i, trees in enumerate(found["words.tree"]):
        w = {name: found[name][i].reshape(block.shape) for name, block in GRAMMAR.blocks.items()}
        assert torch.equal(trees, GRAMMAR.derivation(w, WORDS).argmax())
    new = posterior_predictive(dmv, guide, WORDS, new_sentences=True)
    assert new["words"].shape == (1, 4, 5) and bool(is_tree(new["words.tree"]).all())


def test_of_latent_trees() -> None:
    guide = AutoNormal(collapse_trees(padded_batch))
    guide()
    found = posterior_predictive(padded_batch, guide, num_samples=2)
    assert found["heads"].shape == (2, *WORDS.shape)
    assert constraints.simplex.check(found["emission"]).all()


@pytest.mark.parametrize("of", ["guide", "samples"])
def test_components_that_nobody_has_are_drawn_given_the_words(of: str) -> None:
    """A guide for ``TraceEnum_ELBO`` has no site for them; the trees are of the component that was drawn."""
    V = GRAMMAR.num_words
    bumps = 4 * torch.eye(V)[:, None].expand(V, 2, V)  # heads like children of their own tag, or do not
    table = torch.stack([bumps, -bumps]).softmax(-1)
    shared = GRAMMAR.initial_weights(WORDS)

    def model(words: Tensor) -> None:
        share = pyro.sample("share", dist.Beta(2.0, 2.0))
        with pyro.plate("sentences", len(words)):
            z = pyro.sample("z", dist.Bernoulli(share))
            pyro.sample("words", Sentence(GRAMMAR, shared | {"attach": table[z.long()]}), obs=words)

    def guide(words: Tensor) -> None:
        pyro.sample("share", dist.Delta(torch.tensor(0.3)))

    S, copies = 50, 8  # of each sentence
    words, draws = WORDS.repeat(copies, 1), S * copies
    fitted: Any = guide if of == "guide" else {"share": torch.full((S,), 0.3)}
    options = {"num_samples": S} if of == "guide" else {}
    found = posterior_predictive(model, fitted, words, **options)
    assert found["words.tree"].shape == (S, *words.shape)
    z, trees = found["z"].reshape(draws, -1), found["words.tree"].reshape(draws, *WORDS.shape)
    logits = torch.stack([Sentence(GRAMMAR, shared | {"attach": table[k]}).log_prob(WORDS) for k in (0, 1)])
    shares = (logits + torch.tensor([0.7, 0.3]).log()[:, None]).softmax(0)[1]
    assert z.mean(0) == pytest.approx(shares, abs=5 * (0.25 / draws) ** 0.5)
    assert not torch.allclose(shares, torch.full_like(shares, 0.3), atol=0.25)
    for k in (0, 1):  # a component's own trees
        law = GRAMMAR.derivation(shared | {"attach": table[k]}, WORDS)
        own = (z[..., 0] == k).nonzero()[:, 0]
        arcs = law.parts(trees[own])[:, 0].double().mean(0)
        assert arcs == pytest.approx(law.marginals()[0].double(), abs=5 * (0.25 / len(own)) ** 0.5)
    best = posterior_predictive(model, guide, WORDS, temperature=0)
    assert torch.equal(best["z"][0], (shares > 0.5).to(best["z"]))
    new = posterior_predictive(model, {"share": torch.full((5,), 0.3)}, WORDS, new_sentences=True)
    assert new["words"].shape[0] == 5
