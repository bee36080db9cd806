# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A grammar from given trees against counts by hand, its trees against all trees; sentences that are treated alike."""

from collections import Counter

import numpy as np
import pytest
import torch
from infer.small_corpora import padded, tensors
from infer.tree_sums import Tables, derivations, normalized, shapes, sub_normalized, tree_events
from oracle import all_trees

from pyrogram import DMV, Bias
from pyrogram.infer import refit

WORDS = [[0, 1, 1], [1, 0], [0, 0, 1]]
TREES = [(2, 0, 2), (0, 1), (3, 3, 0)]
OTHERS = [[1, 0, 0, 1], [0, 1]]
EVENTS = {"root": np.array([2.5, -2.0]), "stop": np.linspace(-3, 3, 16).reshape(2, 2, 2, 2)}


def counted(extended: bool) -> Tables:
    """Of the given trees, event by event."""
    found = {name: np.zeros(shape) for name, shape in shapes(2, extended).items()}
    for sentence, heads in zip(WORDS, TREES, strict=True):
        for (block, index), times in Counter(tree_events(sentence, heads, extended)).items():
            found[block][index] += times
    return found


def scores_of(seed: int) -> np.ndarray:
    """Nats of arcs of two sentences of at most four words."""
    return np.random.default_rng(seed).normal(size=(2, 5, 5))


def nats(counts: Tables) -> float:
    return float(sum((counts[name] * table).sum() for name, table in EVENTS.items()))


@pytest.mark.parametrize("extended", [False, True])
def test_weights_are_those_of_the_trees(extended: bool) -> None:
    """Of all events once more, whatever the bias: it is the same for all derivations of a known tree."""
    scores = torch.tensor(np.random.default_rng(0).normal(size=(3, 4, 4)))
    for bias in (None, Bias(tensors(EVENTS), {"arc_scores": scores})):
        found = refit(DMV(2, valence_attach=extended), padded(WORDS), padded(TREES), bias=bias, concentration=0.3)
        for name, counts in counted(extended).items():
            np.testing.assert_allclose(found.weights[name], normalized(counts + 0.3, counts), rtol=1e-6)


def test_concentrations_by_block() -> None:
    concentration = {name: torch.full(shape, 0.2 + k) for k, (name, shape) in enumerate(shapes(2, False).items())}
    found = refit(DMV(2), padded(WORDS), padded(TREES), concentration=concentration)
    for k, (name, counts) in enumerate(counted(False).items()):
        np.testing.assert_allclose(found.weights[name], normalized(counts + 0.2 + k, counts), rtol=1e-6)


def test_then_trees_are_forgotten() -> None:
    """An iteration of variational Bayes under the bias, from the weights of the trees, by enumeration."""
    arcs = np.random.default_rng(1).normal(size=(3, 4, 4))
    bias = Bias(tensors(EVENTS), {"arc_scores": torch.tensor(arcs)})
    start = {name: normalized(c + 0.3, c) for name, c in counted(False).items()}

    def expected(tables: Tables) -> Tables:
        total = {name: np.zeros(table.shape) for name, table in tables.items()}
        for sentence, own in zip(WORDS, arcs, strict=True):
            trees = list(derivations(sentence, tables))
            heads = all_trees(len(sentence), False)
            weights = np.array(
                [
                    w * np.exp(nats(c) + sum(own[h, i] for i, h in enumerate(tree, 1)))
                    for (w, c), tree in zip(trees, heads, strict=True)
                ]
            )
            for share, (_, counts) in zip(weights / weights.sum(), trees, strict=True):
                for name in total:
                    total[name] += share * counts[name]
        return total

    q = {name: 0.3 + c for name, c in expected(start).items()}
    q = {name: 0.3 + c for name, c in expected({n: sub_normalized(p) for n, p in q.items()}).items()}
    grammar = DMV(2)
    found = refit(grammar, padded(WORDS), padded(TREES), bias=bias, concentration=0.3, num_steps=1)
    for name, p in q.items():
        np.testing.assert_allclose(found.weights[name], p / p.sum(-1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("extended, seed", [(False, 4), (True, 4), (False, 5), (False, 6), (True, 7)])
def test_trees_are_those_of_the_bias(extended: bool, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The most expected right heads of all trees, under the nats of events that it has learnt under, and of arcs."""
    arcs = torch.zeros(3, 4, 4)
    found = refit(
        DMV(2, valence_attach=extended), padded(WORDS), padded(TREES), bias=Bias(tensors(EVENTS), {"arc_scores": arcs})
    )
    scores = scores_of(seed)
    bias = Bias(parts={"arc_scores": torch.tensor(scores)})
    heads = found.parse(padded(OTHERS), bias)
    monkeypatch.setattr("pyrogram.infer.refitting._CELLS", 1)  # one by one, the shortest first, each with its own nats
    assert torch.equal(found.parse(padded(OTHERS), bias), heads)
    tables = {name: w.double().numpy() for name, w in found.weights.items()}
    for sentence, own, row in zip(OTHERS, scores, heads.tolist(), strict=True):
        trees = all_trees(len(sentence), False)
        weights = np.array(
            [
                w * np.exp(nats(c) + sum(own[h, i] for i, h in enumerate(tree, 1)))
                for (w, c), tree in zip(derivations(sentence, tables), trees, strict=True)
            ]
        )
        right = [
            sum(w * sum(a == b for a, b in zip(t, u, strict=True)) for w, u in zip(weights, trees, strict=True))
            for t in trees
        ]
        assert tuple(row[: len(sentence)]) == trees[int(np.argmax(right))]
        assert set(row[len(sentence) :]) <= {-1}


def test_sentences_must_be_treated_alike() -> None:
    """Punctuation is a bias of arcs: on one side alone it is refused."""
    words, trees, arcs = padded(WORDS), padded(TREES), Bias(parts={"arc_scores": torch.zeros(3, 4, 4)})
    with_marks = refit(DMV(2), words, trees, bias=arcs)
    assert with_marks.parse(words, arcs).shape == words.shape
    with pytest.raises(ValueError, match="were found under arc_scores, and these sentences have none; give bias="):
        with_marks.parse(words)
    without = refit(DMV(2), words, trees)
    with pytest.raises(ValueError, match="these sentences have arc_scores, and the trees .* were found without"):
        without.parse(words, arcs)


def test_trees_that_no_sentence_has() -> None:
    with pytest.raises(ValueError, match="evidence that no derivation agrees with"):
        refit(DMV(2), padded(WORDS), padded([(2, 3, 2), (0, 1), (3, 3, 0)]))


def test_one_tree_is_not_that_of_all() -> None:
    with pytest.raises(ValueError, match=r"heads must have the shape of words, \(2, 2\), not \(1, 2\)"):
        refit(DMV(2), torch.tensor([[0, 1], [1, 0]]), torch.tensor([[2, 0]]))
