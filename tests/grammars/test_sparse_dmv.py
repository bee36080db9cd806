# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Attachments of the pairs that were seen, against the DMV with equal weights of all others, and against all trees."""

from __future__ import annotations

import itertools
from collections import Counter
from functools import partial
from typing import Any

import numpy as np
import pyro
import pytest
import torch
from torch import Tensor

from pyrogram import DMV
from pyrogram.distributions import Sentence
from pyrogram.grammars import SparseDMV, attachments, sparse_dmv, weights_of_classes
from pyrogram.grammars.sparse_dmv import SparseDMVUpdates
from pyrogram.infer import EM, CollapsedVB, TreeGibbs, TreeHastings, VariationalEM
from pyrogram.models import maximum_likelihood
from pyrogram.models.dirichlet import dirichlet
from pyrogram.sweeps.plain import CollapsedUpdates, CorpusCounts
from pyrogram.testing import chi_square
from pyrogram.trees import projective_trees

WORDS = torch.tensor([[0, 1, 2, 1, 0], [2, 2, 0, 1, -1], [1, 0, 0, -1, -1], [1, -1, -1, -1, -1], [3, 4, -1, -1, -1]])
NEW = torch.tensor([[4, 0, 3, 1, 5], [2, 4, -1, -1, -1], [5, -1, -1, -1, -1]])  # pairs and a word that WORDS has not
V = 6
KINDS = [{}, {"valence_attach": True}, {"num_valences": 1}, {"valence_attach": True, "num_valences": 3}]
close = partial(torch.testing.assert_close, rtol=1e-9, atol=1e-9)
kinds = pytest.mark.parametrize("options", KINDS, ids=str)


def pair(options: dict[str, Any]) -> tuple[SparseDMV, DMV, dict[str, Tensor], dict[str, Tensor]]:
    """The grammar, the DMV that it is, and weights of both."""
    grammar = SparseDMV.of(WORDS, V, **options)
    weights = grammar.initial_weights(WORDS, "random", seed=1)
    return grammar, DMV(V, **options), weights, by_hand(grammar, weights)


def by_hand(grammar: SparseDMV, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """The weights of the DMV: the children in their order, then what is left in equal parts."""
    at, valences = 0, grammar.num_valences if grammar.valence_attach else 1
    table = torch.zeros(V, 2, valences, V)
    for head, direction in itertools.product(range(V), range(2)):
        before = {
            int(row[j])
            for row in WORDS
            for i, j in itertools.permutations(range(5), 2)
            if row[i] == head and row[j] >= 0 and (j > i) == direction
        }
        assert grammar.children(head, direction).tolist() == sorted(before)
        for v in range(valences):
            others = [x for x in range(V) if x not in before]
            for x in sorted(before):
                table[head, direction, v, x] = weights["attach"][at]
                at += 1
            if others:
                table[head, direction, v, others] = weights["attach"][at] / len(others)
                at += 1
    assert at == len(weights["attach"])
    return {**weights, "attach": table if grammar.valence_attach else table[:, :, 0]}


def logs(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: w.log() for name, w in weights.items()}


@pytest.mark.one_in(14)
@kinds
@pytest.mark.parametrize("words", [WORDS, NEW], ids=["seen", "new"])
def test_sums_over_trees_are_those_of_the_dmv(options: dict[str, Any], words: Tensor) -> None:
    grammar, other, weights, dense = pair(options)
    for name, w in grammar.dense(weights).items():
        close(w, dense[name])
    log_z, counts = grammar.expected_counts(logs(weights), words)
    leaf = {name: w.requires_grad_() for name, w in logs(weights).items()}
    exact = other.log_partition(logs(grammar.dense({name: w.exp() for name, w in leaf.items()})), words)
    close(log_z, exact.detach())
    gradients = dict(zip(leaf, torch.autograd.grad(exact.sum(), list(leaf.values())), strict=True))
    mine = grammar.log_partition(leaf, words)
    for name, gradient in zip(leaf, torch.autograd.grad(mine.sum(), list(leaf.values())), strict=True):
        close(counts[name], gradients[name])
        close(gradient, gradients[name])
    trees, others = grammar.derivation(weights, words), other.derivation(dense, words)
    close(trees.log_partition, exact.detach())
    close(trees.marginals(), others.marginals())
    close(trees.entropy(), others.entropy())
    assert trees.argmax().equal(others.argmax()) and trees.mbr().equal(others.mbr())
    close({n: c.sum(0) for n, c in trees.expected_counts().items()}, counts)
    batch = {name: torch.stack([w, w.flip(-1)])[:, None] for name, w in weights.items()}
    close(grammar.log_partition(logs(batch), words)[0], log_z)
    single = {name: w.float() for name, w in logs(weights).items()}
    assert grammar.expected_counts(single, words)[1]["attach"].dtype == torch.float32
    torch.testing.assert_close(grammar.log_partition(single, words).double(), log_z, rtol=1e-5, atol=1e-4)


def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    grammar, _, weights, _ = pair({})
    expected = grammar.expected_counts(logs(weights), WORDS)
    monkeypatch.setattr(sparse_dmv, "CELLS", 40)
    monkeypatch.setattr(sparse_dmv, "MOST_KEPT", 10)
    monkeypatch.setattr(attachments, "CELLS", 10)
    again = SparseDMV.of(WORDS, V)
    assert again.pairs.equal(grammar.pairs) and again.identity == grammar.identity
    log_z, counts = again.expected_counts(logs(weights), WORDS)
    close(log_z, expected[0])
    close(counts, expected[1])
    close(again.log_partition(logs(weights), WORDS), log_z)


@kinds
def test_starts_are_those_of_the_dmv(options: dict[str, Any]) -> None:
    grammar, other, weights, _ = pair(options)
    heads = grammar.derivation(weights, WORDS).argmax()
    starts: list[tuple[str, dict[str, Any]]] = [("uniform", {}), ("supervised", {"heads": heads})]
    starts += [("harmonic", {"stops": stops, "distance": 0.5}) for stops in ("half", "expected", "e-step")]
    for method, arguments in starts:
        found = grammar.dense(grammar.initial_weights(WORDS, method, **arguments))
        close(found, other.initial_weights(WORDS, method, **arguments))


@pytest.mark.parametrize("options", KINDS[1:3], ids=str)
def test_draws(options: dict[str, Any]) -> None:
    """Sentences of one and two words, unseen pairs among them, as often as the DMV has them."""
    grammar, other, weights, dense = pair(options)
    words, heads = grammar.sample_trees(weights, (8000,), 3)
    assert bool(((heads >= 0) == (words >= 0)).all())
    seen = Counter(tuple(row) for row in words.tolist() if row[2] < 0)
    support = [(x, y, -1) for x in range(V) for y in (-1, *range(V))]
    p = other.log_partition(logs(dense), torch.tensor(support)).softmax(0)
    assert sum(seen.values()) > 2000 and chi_square(torch.tensor([seen[x] for x in support]), p) > 1e-4


# ---------------------------------------------------------------------- loops


def runs(kind: Any, model: Any, options: dict[str, Any], steps: int, **arguments: Any) -> list[tuple[Any, Any]]:
    """History and weights, those of the DMV in both cases."""
    grammar, other, weights, dense = pair(options)
    found = []
    for own, start in ((grammar, weights), (other, dense)):
        pyro.clear_param_store()
        given = {"initial_weights": start} if model is maximum_likelihood else {}
        seed = {"seed": 3} if kind in (TreeHastings, TreeGibbs) else {}
        loop = kind(partial(model, grammar=own, **given, **arguments), initial_weights=start, **seed)
        loop.run(WORDS, num_steps=steps, progress=False)
        learnt = loop.weights()
        found.append((list(loop.history), grammar.dense(learnt) if own is grammar else learnt))
    return found


@pytest.mark.parametrize("options", KINDS[:2], ids=str)
@pytest.mark.parametrize(
    "kind, model", [(EM, maximum_likelihood), (VariationalEM, dirichlet), (CollapsedVB, dirichlet)]
)
def test_loops_are_those_of_the_dmv(kind: Any, model: Any, options: dict[str, Any]) -> None:
    """The same objectives and weights after every step, although the DMV has parameters for unseen pairs, too."""
    alpha = {} if model is maximum_likelihood else {"concentration": 0.3}
    (history, weights), (exact, dense) = runs(kind, model, options, 5, **alpha)
    close(torch.tensor(history), torch.tensor(exact))
    close(weights, dense)


def test_hastings_draws_the_trees_of_the_dmv(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the same trees, proposals and ratios are the same, and so are the trees that a seed gives."""
    for updates in (SparseDMVUpdates, CollapsedUpdates):  # draws of the first trees come in another order
        monkeypatch.setattr(
            updates,
            "draw",
            lambda own, log_weights, _: own.grammar.derivation(None, own.words, log_weights=log_weights).argmax(),
        )
    (history, weights), (exact, dense) = runs(TreeHastings, dirichlet, {"valence_attach": True}, 5, concentration=0.3)
    close(torch.tensor(history), torch.tensor(exact))
    close(weights, dense)


@pytest.mark.slow
def test_hastings_of_long_sentences_of_rare_words_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Log Z of sixty rare words is below the least positive number, and no sentence is done in torch."""
    words = torch.arange(60)[None] * 900
    grammar = SparseDMV.of(words, 90_000)
    monkeypatch.setattr(CollapsedUpdates, "_hastings", None)
    chain = TreeHastings(partial(dirichlet, grammar=grammar, concentration=1.0), initial_weights="uniform", seed=0)
    chain.run(words, num_steps=4, progress=False)
    assert chain.history[-1] < -700 and chain.acceptance > 0


@pytest.mark.one_in(4)
@pytest.mark.parametrize("kind", [VariationalEM, CollapsedVB, TreeHastings])
def test_large_vocabularies(kind: Any) -> None:
    """A table of all pairs would have 160 GB."""
    pyro.clear_param_store()
    words = torch.where(WORDS >= 0, WORDS * 19_999, -1)
    grammar = SparseDMV.of(words, 100_000)
    start = grammar.initial_weights(words, "harmonic")
    model = partial(maximum_likelihood, initial_weights=start) if kind is EM else partial(dirichlet, concentration=1e-4)
    loop = kind(partial(model, grammar=grammar), initial_weights=start)
    loop.run(words, num_steps=2, progress=False)
    weights = loop.weights()
    assert len(weights["attach"]) == 200_000 + len(grammar.pairs)
    heads = grammar.derivation(weights, words).mbr()
    assert ((heads >= 0) == (words >= 0)).all() and (grammar.sample(weights, torch.Size([2]), 500) < 100_000).all()


def test_concentrations_are_learnt() -> None:
    """One number for each outcome: no step lowers the bound, which rises above that of the number it began with."""
    grammar, _, weights, _ = pair({})
    bounds = []
    for learn in (False, True):
        pyro.clear_param_store()
        model = partial(dirichlet, grammar=grammar, concentration=0.3, learn=learn)
        history = VariationalEM(model, initial_weights=weights).run(WORDS, num_steps=25, progress=False).history
        assert (np.diff(history) > -1e-9).all()
        bounds.append(history[-1])
    assert bounds[1] > bounds[0] + 0.1


@pytest.mark.parametrize("options", KINDS[:2], ids=str)
def test_compiled_sweeps_against_plain_ones(options: dict[str, Any]) -> None:
    grammar, _, weights, _ = pair(options)
    compiled, plain = grammar.collapsed_updates(WORDS), CollapsedUpdates(grammar, WORDS)
    assert type(compiled) is not CollapsedUpdates
    found = []
    for updates in (compiled, plain):
        log_z, entropy, own = updates.expected_counts(weights)
        alpha = {name: 0.3 * block.outcomes.expand(block.shape) for name, block in grammar.blocks.items()}
        corpus = CorpusCounts(updates.total(own), alpha)
        entropies, own = updates.collapsed_vb(corpus, own, torch.arange(5), 2)
        found.append((log_z, entropy, entropies, corpus.counts, updates.total(own)))
    close(found[0], found[1])
    trees = grammar.derivation(weights, WORDS).argmax()
    close(compiled.counts(trees), plain.counts(trees))
    assert type(grammar.collapsed_updates(NEW)) is CollapsedUpdates  # whose other words have parts of an event


@pytest.mark.parametrize(
    "options", [KINDS[1], *(pytest.param(options, marks=pytest.mark.slow) for options in KINDS[2:])], ids=str
)
def test_trees_are_drawn_by_their_probabilities(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Sentences of unequal lengths, in two chunks, against all trees of each."""
    monkeypatch.setattr(sparse_dmv, "CELLS", 80)
    grammar, _, weights, dense = pair(options)
    repeated, drawn = WORDS.repeat(400, 1), Counter[tuple[int, ...]]()
    heads = grammar.collapsed_updates(repeated).draw(logs(weights), torch.Generator().manual_seed(0))
    assert (heads >= 0).equal(repeated >= 0)
    drawn.update((b % 5, *tree) for b, tree in enumerate(heads.tolist()))
    for b, words in enumerate(WORDS):
        words = words[words >= 0]
        trees = projective_trees(len(words))
        counts = DMV(V, **options).counts(words.expand(len(trees), -1), trees)
        scores = torch.as_tensor(sum((c * dense[name].log()).flatten(1).nansum(1) for name, c in counts.items()))
        padded = torch.nn.functional.pad(trees, (0, 5 - len(words)), value=-1)
        assert chi_square(torch.tensor([drawn[(b, *tree)] for tree in padded.tolist()]), scores.softmax(0)) > 1e-3


@pytest.mark.slow
def test_gibbs_draws_from_the_collapsed_posterior() -> None:
    """Trees of one sentence, as often as prod B(f + alpha) / B(alpha) says."""
    words = torch.tensor([[0, 1, 0]])
    grammar, trees = SparseDMV.of(words, 4), projective_trees(3)
    counts = grammar.counts(words.expand(len(trees), -1), trees)
    log_joint = torch.zeros(len(trees))
    for name, block in grammar.blocks.items():
        pseudo = counts[name] + 0.3 * block.outcomes
        parts = torch.lgamma(pseudo), -torch.lgamma(block.sums(pseudo))
        log_joint += sum(part.reshape(len(trees), -1).sum(1) for part in parts)
    exact, seen = log_joint.softmax(0), Counter[tuple[int, ...]]()
    chain = TreeGibbs(dirichlet, seed=0)
    for _ in range(420):
        chain.step(words, grammar, concentration=0.3)
        seen[tuple(chain.trees()[0].tolist())] += 1
    share = torch.tensor([seen[tuple(tree)] for tree in trees.tolist()]) / 420
    assert ((share - exact).abs() < 5 * (exact * (1 - exact) / 100).sqrt()).all()  # worth 100 independent draws


@pytest.mark.parametrize("words", [WORDS, NEW], ids=["seen", "new"])
def test_evidence_is_that_of_the_dmv(words: Tensor) -> None:
    grammar, other, weights, dense = pair({})
    best = other.derivation(dense, words).argmax()
    heads = torch.where(words >= 0, -1, -1)
    heads[0, 1], heads[1] = 0, best[1]  # a part is known of the first, all of the second, nothing of the third
    scores = torch.randn(len(words), 6, 6, generator=torch.Generator().manual_seed(0))
    for known in ({"heads": heads}, {"heads": heads, "arc_scores": scores}):
        mine, exact = (Sentence(g, w, known=known) for g, w in ((grammar, weights), (other, dense)))
        close(mine.log_prob(words), exact.log_prob(words))
        close(mine.derivation(words).marginals(), exact.derivation(words).marginals())
        found = []
        for own, start in ((grammar, weights), (other, dense)) if words is WORDS else ():
            pyro.clear_param_store()
            vb = VariationalEM(partial(dirichlet, grammar=own, known=known), initial_weights=start)
            cvb = CollapsedVB(partial(dirichlet, grammar=own, known=known), initial_weights=start)
            found.append([list(loop.run(words, num_steps=3, progress=False).history) for loop in (vb, cvb)])
        close(*(torch.tensor(x) for x in found or (0, 0)))


@pytest.mark.parametrize("options", KINDS[:2], ids=str)
def test_words_back_off_to_their_classes(options: dict[str, Any]) -> None:
    """Dirichlets that lean to the weights of classes are those of the DMV, in which unseen words differ."""
    grammar, other, _, _ = pair(options)
    classes, shares = torch.tensor([0, 1, 0, 1, 2, 2]), torch.tensor([0.25, 0.5, 0.75, 0.5, 0.1, 0.9])
    own = DMV(3, **options)
    of_classes = own.initial_weights(torch.where(WORDS >= 0, classes[WORDS.clamp_min(0)], -1), "random", seed=0)
    found = weights_of_classes(grammar, of_classes, classes, shares)
    exact = {
        "root": of_classes["root"][classes] * shares,
        "attach": of_classes["attach"][classes][..., classes] * shares,
        "stop": of_classes["stop"][classes],
    }
    for name, block in grammar.blocks.items():
        close(block.sums(found[name]), torch.ones_like(block.sums(found[name])))
    close(grammar.log_partition(logs(found), WORDS), other.log_partition(logs(exact), WORDS))
    histories = []
    for g, w in ((grammar, found), (other, exact)):
        pyro.clear_param_store()
        loop = VariationalEM(
            partial(dirichlet, grammar=g, concentration={name: 5 * x for name, x in w.items()}), initial_weights=w
        )
        histories.append(torch.tensor(loop.run(WORDS, num_steps=4, progress=False).history))
    close(*histories)
    with pytest.raises(ValueError, match="classes and shares must be one for each of 6 words, and classes 0 to 2"):
        weights_of_classes(grammar, of_classes, classes + 1, shares)


def test_what_is_no_grammar_is_refused() -> None:
    for pairs in (torch.tensor([3, 1]), torch.tensor([0.5]), torch.tensor([8]), torch.tensor([-1, 2])):
        with pytest.raises(ValueError, match=r"pairs must be increasing indices .* SparseDMV.of\(words\) makes them"):
            SparseDMV(2, pairs)
    with pytest.raises(ValueError, match="sentence 0 is"):
        SparseDMV.of(torch.tensor([[0, 9]]), 3)
    lone = SparseDMV.of(torch.tensor([[1]]))
    assert len(lone.pairs) == 0 and repr(lone) == "SparseDMV(2, 0 pairs)" and lone.blocks["attach"].shape == (4,)
    whole = SparseDMV.of(torch.tensor([[0, 0]]))  # no other word is left
    assert whole.blocks["attach"].shape == (2,)
    weights = {**lone.initial_weights(WORDS, "uniform"), "attach": torch.ones(4) / 2}
    with pytest.raises(ValueError, match="a multinomial of 'attach' sums to 0.5"):
        lone.sample_trees(weights)
    assert lone.identity != whole.identity


def test_no_sentences_have_gradients_of_zero() -> None:
    words = torch.tensor([[0, 1, 2]])
    grammar = SparseDMV.of(words, 3)
    logs = {name: w.log().requires_grad_() for name, w in grammar.initial_weights(words, "uniform").items()}
    log_z = grammar.log_partition(logs, words[:0])
    assert log_z.shape == (0,)
    for gradient in torch.autograd.grad(log_z.sum(), list(logs.values())):
        assert not gradient.any()
