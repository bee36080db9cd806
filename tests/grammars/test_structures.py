# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Derivations of each grammar as rows of events, and the factors that evidence has for them, one after the other."""

import copy
import math
import pickle
from typing import Any

import pytest
import torch
from evidence_sums import CASES
from own_grammars import tied

from pyrogram.distributions import Sentence
from pyrogram.event_map import joined, num_events
from pyrogram.grammars import SparseDMV
from pyrogram.infer.model.composed import MixtureGrammar
from pyrogram.sentences import Sentences
from pyrogram.sweeps.compiled import RecursiveUpdates
from pyrogram.sweeps.plain import CollapsedUpdates, CorpusCounts

every_case = pytest.mark.parametrize("name", CASES)


@every_case
def test_factors_of_derivations(name: str) -> None:
    """Of all derivations of all sentences, also of those that the evidence forbids."""
    case = CASES[name]()
    given = case.grammar.sentences(case.words, case.known)
    structure = given.structure
    assert structure is not None
    plain = case.grammar.derivation(case.weights(), case.words)
    for b, words in enumerate(case.words):
        law = case.grammar.derivation(case.weights(), words[words >= 0])
        rows = law.enumerate_support()
        rows = torch.nn.functional.pad(rows, (0, plain.event_shape[0] - rows.shape[1]), value=-1)
        copies = given[torch.full((len(rows),), b)]
        logs = structure.log_factors(copies, rows)
        for row, log in zip(rows.tolist(), logs.tolist(), strict=True):
            values = [x for x in row if x >= 0]
            is_other = bool(copies.is_whole[0]) and structure.is_by_row and copies.derivations[0].tolist() != row
            expected = case.bonus(b, values)
            assert log == pytest.approx(0.0 if is_other and math.isinf(expected) else expected, abs=1e-10)


@every_case
def test_events_of_derivations(name: str) -> None:
    """Those that the law of derivations counts."""
    case = CASES[name]()
    structure = case.grammar.structure
    assert structure is not None
    law = case.grammar.derivation(case.weights(), case.words)
    drawn = law.sample()
    events = structure.events(case.words, drawn)
    numbers = torch.zeros(len(drawn), num_events(case.grammar.blocks) + 1)
    numbers.scatter_add_(1, torch.where(events >= 0, events, numbers.shape[1] - 1), torch.ones(events.shape))
    torch.testing.assert_close(numbers[:, :-1].double(), joined(law.counts(drawn), case.grammar.blocks).double())


def test_sentences_go_with_what_is_known_of_them() -> None:
    case = CASES["DMV both"]()
    given = case.grammar.sentences(case.words, case.known)
    assert isinstance(case.known, dict)
    index = torch.tensor([2, 0, 2])
    for some in (given[index], given[index].flat(), given[index[:, None]].flat(torch.Size([3, 2]))[::2]):
        assert torch.equal(some.words, case.words[index])
        for kind, table in some.known.items():
            assert torch.equal(table, case.known[kind][index])
    assert len(given[1:3]) == 2 and given[1:3].digest != given[2:4].digest != Sentences.of(case.words).digest == ""
    uniform = case.grammar.initial_weights(given, "uniform")
    torch.testing.assert_close(uniform, case.grammar.initial_weights(case.words, "uniform"))
    assert Sentences.of(given) is given and case.grammar.sentences(given) is given


@every_case
def test_how_much_is_known(name: str) -> None:
    """Sentences by what evidence says, and their known derivations with counts and log weights."""
    case = CASES[name]()
    given = case.grammar.sentences(case.words, case.known)
    parts = given.parts
    assert torch.equal(torch.cat([parts.plain, parts.partly, parts.whole]).sort().values, torch.arange(len(given)))
    logs = {n: w.log() for n, w in case.weights().items()}
    expected = Sentence(case.grammar, case.weights(), known=case.known).log_prob(case.words)
    torch.testing.assert_close(
        parts.whole_sentences.log_weights(logs, case.grammar.blocks), expected[parts.whole], rtol=1e-10, atol=0
    )
    for b in parts.plain.tolist():
        words = case.words[b : b + 1]
        torch.testing.assert_close(expected[b : b + 1], case.grammar.log_partition(logs, words), rtol=1e-10, atol=0)


def test_what_is_learnt_is_summed_again() -> None:
    """Sentences may be kept while their scores learn: a graph is good for one backward pass."""
    case = CASES["DMV both"]()
    assert isinstance(case.known, dict)
    scores = case.known["arc_scores"].clone().requires_grad_()
    given = case.grammar.sentences(case.words, {**case.known, "arc_scores": scores})
    logs = {n: w.log() for n, w in case.weights().items()}
    gradients = []
    for _ in range(2):
        log_z = case.grammar.log_partition(logs, given)
        gradients += torch.autograd.grad(log_z[log_z > -math.inf].sum(), scores)
        with torch.no_grad():
            scores += 0.1
    assert not torch.equal(*gradients) or bool((gradients[0] > 0).any())
    other = Sentence(case.grammar, case.weights(), known={**case.known, "arc_scores": scores.detach()})
    torch.testing.assert_close(case.grammar.log_partition(logs, given).detach(), other.log_prob(case.words))
    assert not copy.deepcopy(given).is_learnt and not pickle.loads(pickle.dumps(given)).is_learnt


def test_sweeps_over_no_sentences() -> None:
    """In plain torch as well as compiled, with evidence and without."""
    case = CASES["DMV both"]()
    none = case.grammar.sentences(case.words, case.known)[:0]
    weights, blocks = case.weights(), case.grammar.blocks
    for sentences in (none, none.words):
        for updates in (case.grammar.collapsed_updates(sentences), CollapsedUpdates(case.grammar, sentences)):
            log_z, entropies, own = updates.expected_counts(weights)
            assert log_z.shape == entropies.shape == (0,)
            trees = updates.draw({n: w.log() for n, w in weights.items()})
            for counts in (updates.total(own), updates.counts(trees)):
                assert all(c.shape == blocks[n].shape and not bool(c.any()) for n, c in counts.items())
            corpus = CorpusCounts(updates.total(own), {n: torch.ones(b.shape) for n, b in blocks.items()})
            nothing = torch.zeros(0, dtype=torch.long)
            assert updates.collapsed_vb(corpus, own, nothing, 2)[0].shape == (0,)
            assert updates.hastings(corpus, trees, nothing, 2).shape == (0,)


@pytest.mark.parametrize("known", [False, True])
def test_unseen_pairs_have_factors_whatever_is_known(known: bool) -> None:
    """Of a grammar of few pairs, in the log joint of samplers: by the trees of sentences that are known or not."""
    grammar = SparseDMV.of(torch.tensor([[0, 1], [1, 2]]), num_tags=4)
    words = torch.tensor([[0, 2, 3], [1, 2, 0], [3, 1, -1]])
    scores = torch.randn(3, 4, 4, generator=torch.Generator().manual_seed(0))
    scores[1:] = 0.0
    given = grammar.sentences(words, {"arc_scores": scores} if known else None)
    weights = {n: b.uniform(torch.ones(())) for n, b in grammar.blocks.items()}
    trees = grammar.derivation(weights, words).sample()
    zeros = {n: torch.zeros(b.shape) for n, b in grammar.blocks.items()}
    expected = torch.zeros(())
    for b, row in enumerate(words):  # the joint of a tree, its weights left out
        law = grammar.derivation(zeros, row, log_weights=zeros)
        expected += law.log_prob(trees[b]) + law.log_partition
        if known:
            expected += sum(scores[b, h, j + 1] for j, h in enumerate(trees[b].tolist()) if h >= 0)
    assert float(grammar.collapsed_updates(given).log_tilt(trees)) == pytest.approx(float(expected), abs=1e-9)


@pytest.mark.parametrize("tie", [False, True])
@pytest.mark.parametrize("name", ["DMV both", "HMM both"])
def test_factors_of_derivations_of_a_mixture(name: str, tie: bool) -> None:
    """Those of the derivations, whatever their components; in compiled sweeps."""
    case = CASES[name]()
    possible = case.grammar.sentences(case.words, case.known)
    weights = case.weights()
    keep = Sentence(case.grammar, weights, known=case.known).log_prob(case.words) > -math.inf
    grammar: Any = MixtureGrammar(case.grammar, "k", 2)
    updates = (tied(grammar) if tie else grammar).collapsed_updates(possible[keep])
    assert isinstance(updates, RecursiveUpdates)
    trees = updates.draw({n: b.uniform(torch.ones(())).log() for n, b in updates.blocks.items()})
    rows = [[x for x in row if x >= 0] for row in trees[:, 1:].tolist()]
    expected = sum(case.bonus(b, row) for b, row in zip(keep.nonzero()[:, 0].tolist(), rows, strict=True))
    assert float(updates.log_tilt(trees)) == pytest.approx(expected, abs=1e-9)
