# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Trees that are drawn or found given all else, against lists of trees."""

from collections.abc import Callable
from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
from infer.tree_site_models import (
    CHAIN,
    GRAMMAR,
    MODELS,
    WORDS,
    every_run,
    latent_values,
    log_joint,
    no_plate,
    padded_batch,
    states,
    two_sites,
    weights,
)
from pyro import poutine
from pyro.infer import SVI, Predictive, Trace_ELBO, TraceEnum_ELBO, config_enumerate, infer_discrete
from pyro.infer.autoguide import AutoDelta
from pyro.infer.inspect import get_model_relations
from torch import Tensor

from pyrogram import CFG
from pyrogram.distributions import Sentence, dirichlet_prior
from pyrogram.infer import infer_trees
from pyrogram.trees import projective_trees

SENTENCE = torch.tensor([0, 1, 2, 0])
LIST = projective_trees(4)


def dmv(words: Tensor = WORDS) -> None:
    w = weights()
    with pyro.plate("sentences", len(words)):
        pyro.sample("words", Sentence(GRAMMAR, w), obs=words)


def some_weights() -> dict[str, Tensor]:
    return {name: dirichlet_prior(block, 1.0).sample() for name, block in GRAMMAR.blocks.items()}


def exact(w: dict[str, Tensor]) -> Tensor:
    """The posterior of the listed trees of the sentence, from the counts of their events."""
    counts = GRAMMAR.counts(SENTENCE, LIST)
    return sum(((f * w[n].log()).flatten(1).sum(-1) for n, f in counts.items()), torch.zeros(())).softmax(0)


def values_of(model: Callable[..., Any], *args: Any, **options: Any) -> dict[str, Tensor]:
    nodes: Any = poutine.trace(infer_trees(model, **options)).get_trace(*args).nodes
    return {name: site["value"] for name, site in nodes.items() if site["type"] == "sample"}


def test_draws_of_the_trees_of_sentences() -> None:
    w = some_weights()
    many = SENTENCE.expand(5000, -1)
    trees = values_of(poutine.condition(dmv, w), many)["words.tree"]
    frequencies = (trees[:, None] == LIST).all(-1).double().mean(0)
    torch.testing.assert_close(frequencies, exact(w), rtol=0, atol=4 * (0.25 / 5000) ** 0.5)


def test_the_best_trees_of_sentences() -> None:
    for _ in range(5):
        w = some_weights()
        model, words, p = poutine.condition(dmv, w), SENTENCE[None], exact(w)
        assert torch.equal(values_of(model, words, temperature=0)["words.tree"][0], LIST[p.argmax()])
        right = (LIST[:, None] == LIST).double().sum(-1) @ p
        found = values_of(model, words, temperature=0, mbr=True)["words.tree"][0]
        assert float(right[(found == LIST).all(-1)]) == pytest.approx(float(right.max()))


def test_the_log_joint_of_sentences_and_trees() -> None:
    w = some_weights()
    trace: Any = poutine.trace(infer_trees(poutine.condition(dmv, w))).get_trace()
    counts = GRAMMAR.counts(WORDS, trace.nodes["words.tree"]["value"])
    joint = sum(((f * w[n].log()).sum() for n, f in counts.items()), torch.zeros(()))
    prior = sum(trace.nodes[n]["fn"].log_prob(w[n]).sum() for n in w)
    torch.testing.assert_close(trace.log_prob_sum(), joint + prior)


@pytest.mark.one_in(15)
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_the_log_joint_of_latent_trees(model: Callable[[], None]) -> None:
    """Of the trees that were drawn, it is that of the model with these trees; so they are exact draws."""
    values = latent_values(model)
    trace: Any = poutine.trace(infer_trees(poutine.condition(model, values))).get_trace()
    trees = {n: s["value"] for n, s in trace.nodes.items() if s.get("infer", {}).get("given_all_else")}
    assert trees
    torch.testing.assert_close(trace.log_prob_sum(), log_joint(model, {**values, **trees}), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("model", [padded_batch, two_sites, no_plate, states], ids=lambda model: model.__name__)
def test_the_best_latent_trees(model: Callable[[], None]) -> None:
    values = latent_values(model)
    runs = every_run(model, values)
    best = max(runs, key=lambda run: float(run[1].log_prob_sum()))[0]
    found = values_of(poutine.condition(model, values), temperature=0)
    assert all(torch.equal(found[name], tree) for name, tree in best.items())


def test_draws_of_latent_trees() -> None:
    """In the plates, and with the scale, of the site."""

    def model() -> None:
        with pyro.plate("sentences", 8000, subsample_size=4000) as i:
            heads = pyro.sample("heads", GRAMMAR.derivation(w, SENTENCE.expand(len(i), -1)))
            pyro.factor("evidence", (heads[..., 0] == 0) * 1.5 - (heads[..., 3] == 3) * 1.0)

    w = some_weights()
    evidence = (LIST[:, 0] == 0) * 1.5 - (LIST[:, 3] == 3) * 1.0
    posterior = (exact(w).log() + evidence).softmax(0)
    site: Any = poutine.trace(infer_trees(model)).get_trace().nodes["heads"]
    frequencies = (site["value"][:, None] == LIST).all(-1).double().mean(0)
    torch.testing.assert_close(frequencies, posterior, rtol=0, atol=4 * (0.25 / 4000) ** 0.5)
    assert site["scale"] == 2 and [plate.name for plate in site["cond_indep_stack"]] == ["sentences"]


# ---------------------------------------------------------------------- Pyro's own


def test_predictive_with_posterior_samples() -> None:
    draws = [some_weights() for _ in range(3)]
    samples = {name: torch.stack([w[name] for w in draws]) for name in draws[0]}
    words = SENTENCE.expand(2, -1)
    trees = Predictive(infer_trees(dmv, temperature=0), samples)(words)["words.tree"]
    assert trees.shape == (3, 2, 4)
    side_by_side = {name: x[:, None] for name, x in samples.items()}  # (S, 1, *event): one dimension for the plate
    found = Predictive(infer_trees(dmv, temperature=0), side_by_side, parallel=True)(words)["words.tree"]
    assert torch.equal(found, trees)
    for tree, w in zip(trees[:, 0], draws, strict=True):
        assert torch.equal(tree, LIST[exact(w).argmax()])
    drawn = Predictive(infer_trees(dmv), side_by_side, parallel=True)(SENTENCE.expand(3000, -1))["words.tree"]
    for d, w in zip(drawn, draws, strict=True):
        frequencies = (d[:, None] == LIST).all(-1).double().mean(0)
        torch.testing.assert_close(frequencies, exact(w), rtol=0, atol=4 * (0.25 / 3000) ** 0.5)


def test_predictive_with_latent_trees() -> None:
    values = [latent_values(padded_batch) for _ in range(2)]
    samples = {name: torch.stack([v[name] for v in values]) for name in values[0]}
    found = Predictive(infer_trees(padded_batch, temperature=0), samples)()["heads"]
    for heads, v in zip(found, values, strict=True):
        assert torch.equal(heads, values_of(poutine.condition(padded_batch, v), temperature=0)["heads"])
    given = {**samples, "heads": found}
    assert "heads" not in Predictive(infer_trees(padded_batch), given)()


def test_predictive_with_a_guide_and_parameters() -> None:
    guide = AutoDelta(dmv)
    SVI(dmv, guide, pyro.optim.Adam({"lr": 0.1}), Trace_ELBO()).step()  # type: ignore[attr-defined]
    found = Predictive(infer_trees(dmv, temperature=0), guide=guide, num_samples=1)()["words.tree"][0]
    assert torch.equal(found, GRAMMAR.derivation(guide(), WORDS).argmax())

    def model() -> None:
        root = pyro.param("root", torch.tensor([0.2, 0.3, 0.5]), constraint=dist.constraints.simplex)
        with pyro.plate("sentences", len(WORDS)):
            pyro.sample("words", Sentence(GRAMMAR, {**w, "root": root}), obs=WORDS)

    w = some_weights()
    found = Predictive(infer_trees(model, temperature=0), num_samples=1)()["words.tree"][0]
    assert torch.equal(found, GRAMMAR.derivation({**w, "root": pyro.param("root")}, WORDS).argmax())


def test_mixture_of_grammars() -> None:
    single = [some_weights(), some_weights()]
    both = {name: torch.stack([w[name] for w in single]) for name in GRAMMAR.blocks}

    def model(words: Tensor) -> None:
        with pyro.plate("sentences", len(words)):
            z = pyro.sample("z", dist.Categorical(torch.tensor([0.4, 0.6])))
            pyro.sample("words", Sentence(GRAMMAR, {name: w[z] for name, w in both.items()}), obs=words)

    words = SENTENCE.expand(6000, -1)
    drawn = infer_trees(infer_discrete(config_enumerate(model), first_available_dim=-2))
    trees = poutine.trace(drawn).get_trace(words).nodes["words.tree"]["value"]
    evidence = torch.stack([Sentence(GRAMMAR, w).log_prob(SENTENCE) for w in single]) + torch.tensor([0.4, 0.6]).log()
    posterior = sum(p * exact(w) for p, w in zip(evidence.softmax(0), single, strict=True))
    frequencies = (trees[:, None] == LIST).all(-1).double().mean(0)
    torch.testing.assert_close(frequencies, posterior, rtol=0, atol=4 * (0.25 / 6000) ** 0.5)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("temperature", [0, 1])
def test_any_grammar(temperature: Any) -> None:
    cfg = CFG.from_string("S -> S S | 'a'")
    sentences = {"states": (CHAIN, WORDS[:, None]), "parse": (cfg, cfg.encode([["a", "a", "a"], ["a"]])[:, None])}
    for name, (grammar, words) in sentences.items():

        def model(name: str = name, grammar: Any = grammar, words: Tensor = words) -> None:
            w = weights(grammar)
            with pyro.plate("documents", len(words)):
                pyro.sample(name, Sentence(grammar, w).expand([len(words), 1]).to_event(1), obs=words)

        site: Any = poutine.trace(infer_trees(model, temperature)).get_trace().nodes[f"{name}.tree"]
        assert site["value"].shape[:2] == words.shape[:2] and site["fn"].batch_shape == words.shape[:1]
        assert site["fn"].event_dim == 2


@pytest.mark.parametrize("temperature", [0, 1])
def test_render_model(temperature: Any) -> None:
    options = {"include_deterministic": temperature == 0}
    relations: Any = get_model_relations(infer_trees(dmv, temperature), **options)
    upstream = {name: set(found) for name, found in relations["sample_sample"].items()}
    assert upstream["words"] == {"root", "attach", "stop"}
    assert upstream["words.tree"] == {"root", "attach", "stop", "words"}
    assert relations["plate_sample"] == {"sentences": ["words", "words.tree"]}
    latent: Any = get_model_relations(padded_batch)
    assert set(latent["sample_sample"]["heads"]) == {"root", "attach", "stop"}
    assert set(latent["sample_sample"]["tokens"]) == {"emission", "heads"}
    assert latent["sample_dist"]["heads"] == "DMVDerivation"


def test_refusals() -> None:
    with pytest.raises(ValueError, match="temperature must be 1, for draws, or 0"):
        infer_trees(dmv, 0.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="mbr finds the best trees, so it needs temperature=0"):
        infer_trees(dmv, mbr=True)
    with pytest.raises(ValueError, match="found no Sentence site and no latent site of trees"):
        infer_trees(lambda: None)()
    with pytest.raises(NotImplementedError, match="infer.collapse_trees"):
        TraceEnum_ELBO().loss(config_enumerate(padded_batch), lambda: None)
