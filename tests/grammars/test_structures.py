# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Derivations of each grammar as rows of events, and the factors that evidence has for them, one after the other."""

import math

import pytest
import torch
from evidence_sums import CASES

from pyrogram.distributions import Sentence
from pyrogram.event_map import joined, num_events
from pyrogram.sentences import Sentences

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
    assert bool((events[:, :-1] >= 0)[events[:, 1:] >= 0].all())  # padded on the right
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
