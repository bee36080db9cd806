# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Weights that are entries of other multinomials: what is found, what is refused, and what every loop makes of them.

Each idiom is written twice: as a Pyro model, and as plain functions of arrays, from sources to events and back. The
trees of the corpora are listed.
"""

import itertools
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from infer.collapsed_sums import FieldOfTrees, all_counts, log_joint, log_weight, normalised
from infer.small_corpora import CORPORA, assert_close, padded, tensors
from infer.tree_sums import (
    Tables,
    derivations,
    divergence,
    likelihood_and_counts,
    normalized,
    random_tables,
    sub_normalized,
)
from oracle import all_trees
from pyro import poutine
from pyro.nn import PyroModule, PyroParam
from torch import Tensor
from torch.distributions import constraints

from pyrogram import CFG, DMV
from pyrogram.distributions import Sentence, dirichlet_prior, logistic_normal
from pyrogram.grammar import Weights
from pyrogram.infer import EM, CollapsedVB, ModelError, TreeGibbs, TreeHastings, VariationalEM
from pyrogram.infer.model.collapsed import log_dirichlet_multinomial
from pyrogram.infer.model.composed import TiedGrammar
from pyrogram.infer.model.reading import read
from pyrogram.infer.model.selection import Computed, Selection, selections
from pyrogram.sweeps.compiled import RecursiveUpdates

V, CORPUS = CORPORA["three tags"]
GRAMMAR, WORDS = DMV(V), padded(CORPUS)
FAMILY = np.array([1, 0, 1])
RIGHTS = np.array([[[0.2, 0.3, 0.5]]])  # of attach, in direction 1
HALF = np.array([[[0.5, 0.5], [0.25, 0.75]]])  # of stop, in direction 0


pytestmark = pytest.mark.usefixtures("doubles")


def observe(weights: Mapping[str, Tensor], words: Tensor = WORDS, **options: Any) -> None:
    with pyro.plate("sentences", len(words)):
        pyro.sample("words", Sentence(GRAMMAR, dict(weights), **options), obs=words)


def multinomials(name: str, alpha: np.ndarray) -> Tensor:
    found: Tensor = pyro.sample(name, dist.Dirichlet(torch.tensor(alpha)).to_event(alpha.ndim - 1))
    return found


@dataclass(frozen=True)
class Idiom:
    """Weights of the grammar from sources, in a model and in arrays.

    :param prior: concentrations by source.
    :param model: the weights by block, from the sources as the model draws them.
    :param events: the same of arrays.
    :param sums: from arrays by block to sources, the transpose.
    :param fixed: events that are constants, by block.
    """

    prior: Tables
    model: Callable[[Callable[[str], Tensor]], Weights]
    events: Callable[[Tables], Tables]
    sums: Callable[[Tables], Tables]

    def run(self, words: Tensor = WORDS) -> None:
        observe(self.model(lambda name: multinomials(name, self.prior[name])), words)


def prior(**shapes: tuple[int, ...]) -> Tables:
    return {name: 1.3 + np.arange(math.prod(shape)).reshape(shape) % 3 / 2 for name, shape in shapes.items()}


def untied_names(*names: str) -> dict[str, tuple[int, ...]]:
    shapes = {"root": (V,), "attach": (V, 2, V), "stop": (V, 2, 2, 2)}
    return {name: shapes[name] for name in names}


def by_family(rows: np.ndarray) -> np.ndarray:
    found = np.zeros((2, *rows.shape[1:]))
    np.add.at(found, FAMILY, rows)
    return found


def of_probability(draw: Callable[[str], Tensor]) -> Weights:
    alpha = torch.tensor(PAIRS.prior["p"])
    p = pyro.sample("p", dist.Beta(alpha[..., 0], alpha[..., 1]).to_event(3))
    return {"root": draw("root"), "attach": draw("attach"), "stop": torch.stack([1 - p, p], -1)}


def half_constant(draw: Callable[[str], Tensor]) -> Weights:
    left = torch.tensor(HALF).expand(V, 1, 2, 2)
    return {
        "root": torch.full((V,), 1 / V),
        "attach": torch.cat([draw("dependent"), torch.tensor(RIGHTS).expand(V, 1, V)], 1),
        "stop": torch.cat([left, draw("right")], 1),
    }


FAMILIES = Idiom(
    prior(**untied_names("root", "stop"), rows=(2, 2, V)),
    lambda draw: {"root": draw("root"), "attach": draw("rows")[torch.tensor(FAMILY)], "stop": draw("stop")},
    lambda s: {"root": s["root"], "attach": s["rows"][FAMILY], "stop": s["stop"]},
    lambda c: {"root": c["root"], "rows": by_family(c["attach"]), "stop": c["stop"]},
)
EXPANDED = Idiom(
    prior(**untied_names("root"), tag=(V,), decision=(2, 2)),
    lambda draw: {
        "root": draw("root"),
        "attach": draw("tag").expand(V, 2, V),
        "stop": draw("decision")[None, None].expand(V, 2, 2, 2),
    },
    lambda s: {
        "root": s["root"],
        "attach": np.broadcast_to(s["tag"], (V, 2, V)),
        "stop": np.broadcast_to(s["decision"], (V, 2, 2, 2)),
    },
    lambda c: {"root": c["root"], "tag": c["attach"].sum((0, 1)), "decision": c["stop"].sum((0, 1))},
)
PAIRS = Idiom(
    prior(**untied_names("root", "attach"), p=(V, 2, 2, 2)),
    of_probability,
    lambda s: {"root": s["root"], "attach": s["attach"], "stop": s["p"][..., ::-1]},
    lambda c: {"root": c["root"], "attach": c["attach"], "p": c["stop"][..., ::-1]},
)
ONE_FOR_BOTH = Idiom(
    prior(**untied_names("stop"), tag=(V,)),
    lambda draw: (
        {
            name: (tag := draw("tag")) if name == "root" else tag.flip(-1)[None, None].expand(V, 2, V)
            for name in ("root", "attach")
        }
        | {"stop": draw("stop")}
    ),
    lambda s: {"root": s["tag"], "attach": np.broadcast_to(s["tag"][::-1], (V, 2, V)), "stop": s["stop"]},
    lambda c: {"tag": c["root"] + c["attach"].sum((0, 1))[::-1], "stop": c["stop"]},
)
CONSTANTS = Idiom(
    prior(dependent=(V, 1, V), right=(V, 1, 2, 2)),
    half_constant,
    lambda s: {
        "root": np.full(V, 1 / V),
        "attach": np.concatenate([s["dependent"], np.broadcast_to(RIGHTS, (V, 1, V))], 1),
        "stop": np.concatenate([np.broadcast_to(HALF, (V, 1, 2, 2)), s["right"]], 1),
    },
    lambda c: {"dependent": c["attach"][:, :1], "right": c["stop"][:, 1:]},
)
IDIOMS = {
    "families": FAMILIES,
    "expanded": EXPANDED,
    "pairs": PAIRS,
    "one for both": ONE_FOR_BOTH,
    "constants": CONSTANTS,
}
CONSTANT_ROOT = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
SWEEPS = 300
idioms = pytest.mark.parametrize("idiom", list(IDIOMS.values()), ids=list(IDIOMS))


def start(idiom: Idiom) -> Tables:
    generator = np.random.default_rng(1)
    return {n: generator.dirichlet(np.ones(a.shape[-1]), size=a.shape[:-1]) for n, a in idiom.prior.items()}


# ---------------------------------------------------------------------- the loops against lists of trees


@idioms
def test_em(idiom: Idiom) -> None:
    """Every M-step is in closed form in the sources, and the objective the log density of sentences and sources."""
    weights = start(idiom)
    loop = EM(idiom.run, initial_weights=tensors(weights))
    for _ in range(3):
        log_z, counts = likelihood_and_counts(CORPUS, idiom.events(weights))
        log_prior = sum(float(dirichlet_log_density(idiom.prior[n], weights[n])) for n in weights)
        assert loop.step() == pytest.approx(log_z + log_prior, rel=1e-12)
        pseudo = {n: c + idiom.prior[n] - 1 for n, c in idiom.sums(counts).items()}
        weights = {n: normalized(p, weights[n]) for n, p in pseudo.items()}
    assert_close(loop.weights(), idiom.events(weights))


def dirichlet_log_density(alpha: np.ndarray, weights: np.ndarray) -> float:
    from scipy.special import gammaln

    normaliser = gammaln(alpha.sum(-1)).sum() - gammaln(alpha).sum()
    return float(normaliser + ((alpha - 1) * np.log(weights)).sum())


@idioms
def test_variational_em(idiom: Idiom) -> None:
    """The bound and q, from E_q[log w] of the sources."""
    loop = VariationalEM(idiom.run, initial_weights=tensors(start(idiom)))
    _, counts = likelihood_and_counts(CORPUS, idiom.events(start(idiom)))
    q = {n: idiom.prior[n] + c for n, c in idiom.sums(counts).items()}
    for _ in range(3):
        log_z, counts = likelihood_and_counts(CORPUS, idiom.events({n: sub_normalized(x) for n, x in q.items()}))
        bound = log_z - sum(divergence(q[n], idiom.prior[n]) for n in q)
        assert loop.step() == pytest.approx(bound, rel=1e-12)
        q = {n: idiom.prior[n] + c for n, c in idiom.sums(counts).items()}
    assert_close(loop.weights(), idiom.events({n: x / x.sum(-1, keepdims=True) for n, x in q.items()}))
    posterior = loop.posterior()
    for name, x in q.items():
        mean = posterior[name].mean.numpy()
        expected = x / x.sum(-1, keepdims=True)
        np.testing.assert_allclose(mean, expected[..., 0] if name == "p" else expected, rtol=1e-12)


class TiedField(FieldOfTrees):
    """Q over all trees, whose counts are those of the sources."""

    def __init__(self, idiom: Idiom, begin: Tables) -> None:
        shapes = {name: np.zeros(block.shape) for name, block in GRAMMAR.blocks.items()}
        events = all_counts(CORPUS, shapes)
        self.prior = idiom.prior
        self.trees = [[idiom.sums(counts) for counts in trees] for trees in events]
        logs = {n: np.log(w) for n, w in begin.items()}
        self.q = [normalised([log_weight(t, logs) for t in trees]) for trees in self.trees]


@pytest.mark.one_in(6)
@pytest.mark.parametrize("batch_size", [1, 2, 20])
@pytest.mark.parametrize("name", [name for name in IDIOMS if name != "constants"])
def test_collapsed_vb(name: str, batch_size: int) -> None:
    """Figure 3 in the counts of the sources, by compiled code."""
    idiom = IDIOMS[name]
    field = TiedField(idiom, start(idiom))
    loop = CollapsedVB(idiom.run, batch_size=batch_size, initial_weights=tensors(start(idiom)))
    order = sorted(range(len(CORPUS)), key=lambda i: len(CORPUS[i])) if batch_size > 1 else range(len(CORPUS))
    for _ in range(3):
        assert loop.step() == pytest.approx(field.objective(), rel=1e-10)
        field.figure3(order, batch_size)
    assert_close(loop.weights(), idiom.events(field.weights()), rtol=1e-8)
    assert isinstance(loop._problem.updates["words"], RecursiveUpdates)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("sampler", [TreeGibbs, TreeHastings])
def test_samplers(sampler: Any) -> None:
    """The share of every pair of trees of two sentences, against the exact posterior: rows, pairs and constants."""
    rows, pairs = {"rows": FAMILIES.prior["rows"]}, {"p": PAIRS.prior["p"]}
    idiom = Idiom(
        rows | pairs,
        lambda draw: of_probability(
            lambda name: CONSTANT_ROOT if name == "root" else draw("rows")[torch.tensor(FAMILY)]
        ),
        lambda s: {"root": CONSTANT_ROOT.numpy(), "attach": s["rows"][FAMILY], "stop": s["p"][..., ::-1]},
        lambda c: {"rows": by_family(c["attach"]), "p": c["stop"][..., ::-1]},
    )
    corpus = [[0, 1], [2, 0, 1]]
    ones = idiom.events({n: np.ones(a.shape) for n, a in idiom.prior.items()})
    trees = [list(zip(all_trees(len(s), False), derivations(s, ones), strict=True)) for s in corpus]
    logs = {}
    for one, (weight, counts) in trees[0]:
        for other, (more_weight, more) in trees[1]:
            total = {n: counts[n] + more[n] for n in counts}
            logs[(*one, *other)] = math.log(weight * more_weight) + log_joint(idiom.sums(total), idiom.prior)
    exact = dict(zip(logs, normalised(list(logs.values())), strict=True))
    chain = sampler(partial(idiom.run, padded(corpus)), seed=0, batch_size=1, keep_parts=False)
    visits = dict.fromkeys(exact, 0)

    def visited(_: Any) -> None:
        first, second = chain.trees().tolist()
        visits[(*first[:2], *second)] += 1

    chain.run(num_steps=SWEEPS, progress=False, callback=visited)
    assert chain.history[-1] == pytest.approx(min(logs.values(), key=lambda x: abs(x - chain.history[-1])), abs=1e-9)
    found = [n / SWEEPS for n in visits.values()]
    np.testing.assert_allclose(found, list(exact.values()), atol=0.06)


def test_beta_samples_are_probabilities() -> None:
    """A kernel of Pyro's MCMC gives p itself, and not 1 - p."""
    chain = pyro.infer.MCMC(TreeGibbs(PAIRS.run, seed=0), num_samples=70, warmup_steps=0, disable_progbar=True)
    chain.run()
    p = chain.get_samples()["p"]
    assert p.shape == (70, V, 2, 2) and bool(((p > 0) & (p < 1)).all())
    stops = TreeGibbs(PAIRS.run, seed=1).run(num_steps=70, progress=False).weights()["stop"][..., 1]
    assert float((p.mean(0) - stops).abs().max()) < 0.12
    assert float((stops - 0.5).abs().max()) > 0.2  # p and 1 - p differ


def test_parameters_that_are_tied() -> None:
    """Maximum likelihood of tied rows, left in Pyro's store."""
    begin = start(FAMILIES)

    def model() -> None:
        made = {n: pyro.param(n, torch.tensor(w), constraint=constraints.simplex) for n, w in begin.items()}
        observe(FAMILIES.model(made.__getitem__))

    loop, weights = EM(model), begin
    for _ in range(3):
        log_z, counts = likelihood_and_counts(CORPUS, FAMILIES.events(weights))
        assert loop.step() == pytest.approx(log_z, rel=1e-10)
        weights = {n: normalized(c, weights[n]) for n, c in FAMILIES.sums(counts).items()}
    assert_close({n: pyro.param(n) for n in weights}, weights, rtol=1e-6)


# ---------------------------------------------------------------------- the same as something else


def plain() -> None:
    observe({name: pyro.sample(name, dirichlet_prior(block, 1.5)) for name, block in GRAMMAR.blocks.items()})


def cloned() -> None:
    observe({name: pyro.sample(name, dirichlet_prior(b, 1.5)).clone() for name, b in GRAMMAR.blocks.items()})


def logarithms() -> None:
    drawn = {name: pyro.sample(name, dirichlet_prior(block, 1.5)) for name, block in GRAMMAR.blocks.items()}
    with pyro.plate("sentences", len(WORDS)):
        pyro.sample("words", Sentence(GRAMMAR, log_weights={n: w.log() for n, w in drawn.items()}), obs=WORDS)


def expanded_over_sentences() -> None:
    drawn = {name: pyro.sample(name, dirichlet_prior(block, 1.5)) for name, block in GRAMMAR.blocks.items()}
    observe({n: w.expand(len(WORDS), *w.shape) for n, w in drawn.items()})


@pytest.mark.parametrize("model", [cloned, logarithms, expanded_over_sentences])
@pytest.mark.parametrize("loop", [EM, VariationalEM, CollapsedVB])
def test_whole_sources_stay_compiled(model: Callable[[], None], loop: Any) -> None:
    """The same numbers to the last bit, by the same code."""
    expected, found = (loop(m, initial_weights="random") for m in (plain, model))
    for made in (expected, found):
        torch.manual_seed(0)
        made.run(num_steps=3, progress=False)
    assert found.history == expected.history
    assert found._problem.traced.sentences[0].grammar is GRAMMAR


FIXED = tensors(random_tables(V, False, 5))["stop"]


@pytest.mark.parametrize(
    "model", [poutine.condition(plain, {"stop": FIXED}), poutine.do(plain, {"stop": FIXED})], ids=["condition", "do"]
)
def test_frozen_weights(model: Callable[[], None]) -> None:
    """Weights that are given stay, and the others are learnt beside them."""
    prior = {n: np.full(b.shape, 1.5) for n, b in GRAMMAR.blocks.items() if n != "stop"}
    weights = {n: w for n, w in random_tables(V, False, 2).items() if n != "stop"}
    loop = EM(model, initial_weights=tensors(weights))
    for _ in range(3):
        loop.step()
        _, counts = likelihood_and_counts(CORPUS, {**weights, "stop": FIXED.numpy()})
        weights = {n: normalized(counts[n] + prior[n] - 1, w) for n, w in weights.items()}
    assert_close(loop.weights(), {**weights, "stop": FIXED.numpy()})
    for kind in (VariationalEM, CollapsedVB, TreeGibbs, TreeHastings):
        other = kind(model, initial_weights="uniform").run(num_steps=2, progress=False)
        assert torch.equal(other.weights()["stop"], FIXED)
        assert set(other._problem.traced.weight_sources) == {"root", "attach", "words.stop"}


def test_tied_rules_of_a_grammar() -> None:
    """Packed multinomials whose entries are exchanged: the grammar in which the rules are."""
    grammar = CFG.from_string("S -> A A | 'a' | 'b'\nA -> 'a' | 'b'")
    words = grammar.encode([["a", "b"], ["a"], ["b", "b"]])
    alpha = torch.tensor([1.5, 2.0, 2.5, 1.2, 3.0])

    def selected() -> None:
        rules = pyro.sample("rules", dirichlet_prior(grammar.blocks["rules"], alpha))
        with pyro.plate("sentences", len(words)):
            pyro.sample("words", Sentence(grammar, {"rules": rules[torch.tensor([0, 2, 1, 4, 3])]}), obs=words)

    def renamed() -> None:
        own = alpha[torch.tensor([0, 2, 1, 4, 3])]
        rules = pyro.sample("rules", dirichlet_prior(grammar.blocks["rules"], own))
        with pyro.plate("sentences", len(words)):
            pyro.sample("words", Sentence(grammar, {"rules": rules}), obs=words)

    for loop in (EM, VariationalEM, CollapsedVB):
        one, other = (loop(m, initial_weights="uniform").run(num_steps=5, progress=False) for m in (selected, renamed))
        np.testing.assert_allclose(one.history, other.history, rtol=1e-10)
        torch.testing.assert_close(one.weights(), other.weights())


def test_tied_logistic_normals() -> None:
    """Rows of a logistic normal that several heads share, exchanged: those of the heads as they are."""
    covariance = 0.5 + torch.eye(V)

    def model(order: Tensor | None) -> None:
        loc = torch.arange(2.0 * 2 * V).reshape(2, 2, V) % 5 / 5
        own = loc if order is None else loc[order]
        rows = logistic_normal("rows", own, covariance=covariance, shape=torch.Size([2, 2, V]))
        rows = rows if order is None else rows[order]
        drawn = {n: pyro.sample(n, dirichlet_prior(GRAMMAR.blocks[n], 1.5)) for n in ("root", "stop")}
        observe({**drawn, "attach": rows[torch.tensor(FAMILY)]})

    one, other = (
        VariationalEM(partial(model, order)).run(num_steps=4, progress=False) for order in (None, torch.tensor([1, 0]))
    )
    np.testing.assert_allclose(one.history, other.history, rtol=1e-8)
    assert one.weights()["attach"].shape == (V, 2, V)


# ---------------------------------------------------------------------- selections


def found(weights: Callable[[], Weights]) -> dict[str, Selection | Computed]:
    return selections(lambda: observe(weights(), normalized=False))["words"]


def drawn(name: str = "stop") -> Tensor:
    value: Tensor = pyro.sample(name, dirichlet_prior(GRAMMAR.blocks[name], 1.5))
    return value


def all_with(**weights: Tensor) -> Weights:
    return {n: weights.get(n, b.uniform(torch.ones(()))) for n, b in GRAMMAR.blocks.items()}


def test_entries() -> None:
    """Every element's site and place."""

    def weights() -> Weights:
        p = pyro.sample("p", dist.Beta(torch.ones(V, 2), 1.0).to_event(2))
        rows = pyro.sample("rows", dist.Dirichlet(torch.ones(2, V)).to_event(1))
        stop = torch.stack([p, 1 - p], -1)[:, :, None].expand(V, 2, 2, 2)
        attach = torch.stack([rows[0].expand(V, V), torch.eye(V)], 1)
        return all_with(root=rows[1].flip(0), attach=attach, stop=stop)

    by_block = found(weights)
    root, attach, stop = (by_block[name] for name in ("root", "attach", "stop"))
    assert isinstance(root, Selection) and isinstance(attach, Selection) and isinstance(stop, Selection)
    assert root.sources == ("rows",) and root.entry.tolist() == [5, 4, 3]
    assert attach.sources == ("rows",) and attach.source[:, 0].unique().tolist() == [0]
    assert attach.source[:, 1].unique().tolist() == [-1] and torch.equal(attach.constants[:, 1], torch.eye(V))
    assert attach.entry[:, 0].tolist() == [[0, 1, 2]] * V
    assert torch.equal(stop.entry, torch.arange(2 * 2 * V).reshape(V, 2, 1, 2).expand(V, 2, 2, 2))


def test_random_numbers_are_left_alone() -> None:
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    read(FAMILIES.run, "EM")
    assert torch.equal(torch.rand(2), expected)


def test_single_precision() -> None:
    torch.set_default_dtype(torch.float32)
    selection = found(lambda: all_with(attach=(drawn("attach").log() * 1.0).exp().flip(0)))["attach"]
    assert isinstance(selection, Selection)
    assert torch.equal(selection.entry, torch.arange(V * 2 * V).reshape(V, 2, V).flip(0))


def in_a_module() -> Weights:
    net = torch.nn.Linear(V, V).double()
    pyro.module("net", net)
    return all_with(root=net(torch.eye(V))[0].softmax(-1))


def in_a_module_unknown_to_pyro() -> Weights:
    return all_with(root=torch.nn.Linear(V, V).double()(torch.eye(V))[0].softmax(-1))


def averaged() -> Weights:
    root = drawn("root")
    return all_with(root=(root + root.flip(0)) / 2)


def by_a_switch() -> Weights:
    stop = drawn()
    return all_with(stop=torch.where(stop[:1, :1, :1, :1] > 0.5, stop, stop.flip(0)))


@pytest.mark.parametrize(
    ("weights", "cause"),
    [
        (lambda: all_with(root=drawn("root") * 2), "computed from 'root', not a selection of its entries"),
        (lambda: all_with(root=drawn("root") ** 0.5), "computed from 'root', not a selection"),
        (averaged, "not a selection"),
        (lambda: all_with(stop=0.9 * drawn() + 0.05), "computed from 'stop', not a selection"),
        (lambda: all_with(root=1 - drawn("root")), "not a selection"),
        (lambda: all_with(root=(1 - drawn("root")[-1:]).expand(V)), "computed from 'root', not a selection"),
        (lambda: all_with(root=(drawn("root")[-1:] * 2).expand(V)), "computed from 'root', not a selection"),
        (lambda: all_with(root=drawn("root").cumsum(0)), "not a selection"),
        (lambda: all_with(root=drawn("root").sort().values), "differs from draw to draw"),
        (lambda: all_with(root=drawn("root").detach()), "differs from draw to draw"),
        (by_a_switch, "differs from draw to draw"),
        (
            lambda: all_with(root=pyro.sample("eta", dist.Normal(torch.zeros(V), 1.0).to_event(1)).softmax(-1)),
            r"computed from 'eta' \(Normal\)",
        ),
        (lambda: all_with(root=pyro.param("x", torch.zeros(V)).softmax(-1)), "computed from pyro.param 'x'"),
        (in_a_module, "computed from pyro.param 'net"),
        (in_a_module_unknown_to_pyro, "computed from 2 parameters that Pyro does not know"),
    ],
)
def test_what_is_no_selection(weights: Callable[[], Weights], cause: str) -> None:
    (computed,) = [x for x in found(weights).values() if isinstance(x, Computed)]
    assert re.search(cause, computed.cause)


def with_a_floor(floor: float) -> Callable[[], Weights]:
    return lambda: all_with(attach=drawn("attach").clamp(min=floor))


def sorted_pairs(first: str) -> Callable[[], Weights]:
    """What is sorted must not depend on the order in which sites are drawn."""

    def weights() -> Weights:
        if first != "stop":
            drawn(first)
        return all_with(stop=drawn("stop").sort(-1).values)

    return weights


def by_rank(rank: Callable[[Tensor], Tensor]) -> Callable[[], Weights]:
    """Rows in an order that is the same where all numbers are in the reverse order."""

    def weights() -> Weights:
        stop = drawn("stop")
        return all_with(stop=stop[rank(stop[:, 0, 0]).argsort()])

    return weights


def median() -> Weights:
    p = pyro.sample("p", dist.Beta(torch.ones(V), 1.0).to_event(1)).median()
    return all_with(stop=torch.stack([p, 1 - p]).expand(V, 2, 2, 2))


def partly_detached() -> Weights:
    stop = drawn("stop")
    return all_with(stop=torch.cat([stop[:, :1].detach(), stop[:, 1:]], 1))


def partly_random() -> Weights:
    return all_with(stop=torch.cat([torch.rand(V, 1, 2, 2), drawn("stop")[:, 1:]], 1))


@pytest.mark.parametrize(
    ("weights", "is_followed"),
    [
        *((with_a_floor(floor), True) for floor in (0.1, 0.01, 1e-4)),
        *((sorted_pairs(first), True) for first in ("stop", "root", "attach")),
        *((by_rank(rank), True) for rank in (lambda x: x.amax(-1), lambda x: (x * x.log()).sum(-1))),
        (lambda: all_with(attach=drawn("attach").median(-1, keepdim=True).values.expand(V, 2, V)), True),
        (median, True),
        (partly_detached, False),
        (partly_random, False),
    ],
)
def test_what_is_a_selection_at_some_points_only(weights: Callable[[], Weights], is_followed: bool) -> None:
    (computed,) = [x for x in found(weights).values() if isinstance(x, Computed)]
    assert computed.is_followed == is_followed
    if not is_followed:
        with pytest.raises(ModelError, match="cannot learn block 'stop' .* let gradients through"):
            EM(lambda: observe(weights(), normalized=False)).step()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", [dist.Dirichlet, dist.Beta])
def test_observed_values_that_are_latent(kind: Any) -> None:
    """A density of the weights themselves is no constant, and leaves nothing to integrate out."""

    def model() -> None:
        weights = {n: drawn(n) for n in GRAMMAR.blocks}
        if kind is dist.Beta:
            pyro.sample("x", dist.Beta(50.0, 1.0), obs=weights["root"][0])
        else:
            pyro.sample("x", dist.Dirichlet(torch.tensor([50.0, 1.0, 1.0])), obs=weights["root"])
        observe(weights)

    for kind_of_loop in (TreeGibbs, TreeHastings):
        chain = kind_of_loop(model, seed=0).run(num_steps=2, progress=False)
        assert set(chain.hyperparameters()) == {"root"}
    for loop in (VariationalEM, CollapsedVB):
        assert loop(model).run(num_steps=12, progress=False).weights()["root"][0] > 0.6


def test_parameters_that_are_frozen() -> None:
    def model() -> None:
        root: Any = pyro.param("root", torch.tensor([0.2, 0.3, 0.5]), constraint=constraints.simplex)
        root.unconstrained().requires_grad_(False)
        observe({"root": pyro.param("root"), **{n: drawn(n) for n in ("attach",)}, "stop": FIXED})

    for loop in (VariationalEM, CollapsedVB):
        pyro.clear_param_store()
        fitted = loop(model).run(num_steps=2, progress=False)
        torch.testing.assert_close(fitted.weights()["root"], torch.tensor([0.2, 0.3, 0.5]))
        torch.testing.assert_close(pyro.param("root"), torch.tensor([0.2, 0.3, 0.5]))


def test_probabilities_in_the_shape_of_a_block() -> None:
    """p itself, where its pairs would have another shape."""

    def model() -> None:
        p = pyro.sample("p", dist.Beta(torch.full((V, 2, 2, 2), 2.0), 3.0).to_event(4))
        observe({"root": drawn("root"), "attach": drawn("attach"), "stop": p}, normalized=False)

    loop = VariationalEM(model).run(num_steps=2, progress=False)
    mean = loop.posterior()["p"].mean
    torch.testing.assert_close(loop.weights()["stop"], mean)


def test_weights_that_hyperparameters_reach() -> None:
    """A sampler puts latent values at a point: what is computed from them must not pass for constants there."""

    def model() -> None:
        eta = pyro.sample("eta", dist.Normal(torch.zeros(V), 1.0).to_event(1))
        observe(
            {
                "root": eta.softmax(-1),
                "attach": pyro.sample("attach", dirichlet_prior(GRAMMAR.blocks["attach"], eta[0].exp() + 0.1)),
                "stop": drawn(),
            }
        )

    chain = TreeGibbs(model, seed=0).run(num_steps=3, progress=False)
    torch.testing.assert_close(chain._state.weights["words.root"], chain.hyperparameters()["eta"].softmax(-1))


def test_constants_alone() -> None:
    with pytest.raises(ModelError, match="nothing to learn"):
        EM(lambda: observe(all_with())).step()


def test_observed_weights_inform_hyperparameters() -> None:
    def model() -> None:
        alpha = pyro.sample("alpha", dist.Gamma(2.0, 1.0))
        observe({n: pyro.sample(n, dirichlet_prior(b, alpha)) for n, b in GRAMMAR.blocks.items()})

    chain = TreeGibbs(poutine.condition(model, {"stop": FIXED}), seed=0)
    problem, state = (chain.step(), chain._present())[1]
    joints = []
    for alpha in (0.5, 3.0):
        point = {"alpha": torch.tensor(alpha).log()}
        stop = float(dirichlet_prior(GRAMMAR.blocks["stop"], alpha).log_prob(FIXED))
        joints.append(float(problem.log_joint(point, state.counts, state.weights)) - stop)
        joints[-1] -= float(dist.Gamma(2.0, 1.0).log_prob(torch.tensor(alpha)))
        for name in ("root", "attach"):
            block, f = GRAMMAR.blocks[name], state.counts[name]
            joints[-1] -= float(log_dirichlet_multinomial(block, f, torch.full(block.shape, alpha)))
    assert joints[0] == pytest.approx(joints[1], rel=1e-10)

    def learnt() -> None:
        alpha = pyro.param("alpha", torch.tensor(2.0), constraint=constraints.positive)
        observe({n: pyro.sample(n, dirichlet_prior(b, alpha)) for n, b in GRAMMAR.blocks.items()})

    collapsed = CollapsedVB(poutine.condition(learnt, {"stop": FIXED})).run(num_steps=50, tolerance=0, progress=False)
    grid = torch.linspace(0.1, 8, 791)
    densities = []
    for alpha in grid:
        f, blocks = collapsed._state.counts, GRAMMAR.blocks
        joint = [log_dirichlet_multinomial(blocks[n], f[n], alpha.expand(blocks[n].shape)) for n in ("root", "attach")]
        densities.append(float(sum(joint) + dirichlet_prior(blocks["stop"], alpha).log_prob(FIXED)))
    assert float(pyro.param("alpha").detach()) == pytest.approx(float(grid[int(np.argmax(densities))]), abs=0.011)
    pyro.clear_param_store()
    loop = VariationalEM(poutine.condition(learnt, {"stop": FIXED})).run(num_steps=5, progress=False)
    assert all(b >= a - 1e-9 for a, b in itertools.pairwise(loop.history))


def test_weights_of_a_module() -> None:
    """PyroModule's parameters, tied."""

    class Tied(PyroModule):
        def __init__(self) -> None:
            super().__init__()
            self.rows = PyroParam(torch.full((2, 2, V), 1 / V), constraint=constraints.simplex)

        def forward(self) -> None:
            observe(all_with(attach=self.rows[torch.tensor(FAMILY)]))

    module = Tied()
    EM(module, initial_weights={"rows": torch.tensor(start(FAMILIES)["rows"])}).run(num_steps=3, progress=False)
    assert not torch.allclose(module.rows, torch.full((2, 2, V), 1 / V))


def test_start_by_block() -> None:
    """Weights of the grammar's own blocks begin sources that are tied to them."""
    given = random_tables(V, False, 3)
    loop = EM(FAMILIES.run, initial_weights=tensors(given))
    loop._read((), {})
    _, state = loop._present()
    expected = FAMILIES.sums(given)
    assert_close(state.weights, {n: x / x.sum(-1, keepdims=True) for n, x in expected.items()})
    with pytest.raises(ValueError, match="lacks"):
        EM(FAMILIES.run, initial_weights={"attach": torch.tensor(given["attach"])}).step()


def test_checkpoint(tmp_path: Any) -> None:
    """A tied model resumes to the same numbers; other ties are another problem."""
    path = tmp_path / "state.pt"
    whole = CollapsedVB(FAMILIES.run).run(num_steps=4, progress=False, tolerance=0)
    CollapsedVB(FAMILIES.run).run(num_steps=2, progress=False, tolerance=0, checkpoint=path)
    resumed = CollapsedVB(FAMILIES.run).run(num_steps=4, progress=False, tolerance=0, checkpoint=path)
    assert resumed.history == whole.history
    site = read(FAMILIES.run, "EM").sentences[0].grammar
    other = read(EXPANDED.run, "EM").sentences[0].grammar
    assert isinstance(site, TiedGrammar) and site.identity != other.identity
