# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Distance classes in the DMV: lists of trees in plain Python, and the DMV where distance is its valence."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from pyrogram.models import maximum_likelihood
from pyrogram.models.dirichlet import dirichlet
from torch import Tensor

from pyrogram import DMV
from pyrogram.grammars import DistanceDMV
from pyrogram.infer import EM, CollapsedVB, TreeGibbs, TreeHastings, VariationalEM
from pyrogram.testing import GrammarCase, check_grammar

WORDS = torch.tensor([[0, 1, 2, 1, 0], [2, 2, 0, 1, -1], [1, 0, 0, -1, -1], [1, -1, -1, -1, -1]])
CASES = [((1,), False), ((1, 2, 4), False), ((1, 3), True), ((2, 3), True)]


def projective(heads: tuple[int, ...]) -> bool:
    """Whether heads are a tree with one root in which everything between a word and its head is below the head."""
    n = len(heads)

    def above(word: int) -> list[int]:
        found = [word]
        while found[-1] and len(found) <= n:
            found.append(heads[found[-1] - 1])
        return found

    if heads.count(0) != 1 or any(len(above(m)) > n + 1 or 0 not in above(m) for m in range(1, n + 1)):
        return False
    return all(h in above(x) for m, h in enumerate(heads, 1) for x in range(min(h, m) + 1, max(h, m)) if h)


def events(heads: tuple[int, ...], words: list[int], widths: tuple[int, ...], by_distance: bool) -> list[Any]:
    """The events of a tree, head by head."""

    def below(word: int) -> list[int]:
        return [word, *itertools.chain(*(below(m) for m, h in enumerate(heads, 1) if h == word))]

    found: list[Any] = [("root", (words[heads.index(0)],))]
    for head, tag in enumerate(words, 1):
        for direction in (0, 1):
            side = [m for m, h in enumerate(heads, 1) if h == head and (m > head) == direction]
            reached = head
            for child in sorted(side, key=lambda m: abs(m - head)):
                distance = sum(abs(reached - head) >= width for width in widths)
                found.append(("stop", (tag, direction, distance, 0)))
                own = (tag, direction, distance) if by_distance else (tag, direction)
                found.append(("attach", (*own, words[child - 1])))
                reached = (max if direction else min)(below(child))
            distance = sum(abs(reached - head) >= width for width in widths)
            found.append(("stop", (tag, direction, distance, 1)))
    return found


def trees(n: int) -> list[tuple[int, ...]]:
    return [heads for heads in itertools.product(range(n + 1), repeat=n) if projective(heads)]


def log_weights(grammar: DistanceDMV) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return {n: torch.randn(*b.shape, generator=generator, dtype=torch.float64) for n, b in grammar.blocks.items()}


@pytest.mark.parametrize("widths, by_distance", CASES)
def test_log_z_counts_and_heads_against_all_trees(widths: tuple[int, ...], by_distance: bool) -> None:
    grammar = DistanceDMV(3, widths=widths, distance_attach=by_distance)
    logs = log_weights(grammar)
    log_z, counts = [], {name: torch.zeros(block.shape, dtype=torch.float64) for name, block in grammar.blocks.items()}
    for row in WORDS.tolist():
        words = [w for w in row if w >= 0]
        rows = [events(heads, words, widths, by_distance) for heads in trees(len(words))]
        scores = torch.tensor([sum(float(logs[name][index]) for name, index in one) for one in rows]).double()
        log_z.append(scores.logsumexp(0))
        for one, p in zip(rows, (scores - log_z[-1]).exp().tolist(), strict=True):
            for name, index in one:
                counts[name][index] += p
    found, expected = grammar.expected_counts(logs, WORDS)
    torch.testing.assert_close(found, torch.stack(log_z), rtol=1e-6, atol=1e-6)
    for name, table in counts.items():
        torch.testing.assert_close(expected[name], table, rtol=1e-6, atol=1e-6)
    for words in ([0, 1, 2, 1], [2]):
        listed = grammar.derivation(None, torch.tensor(words), log_weights=logs).enumerate_support()
        heads = grammar.heads(listed)
        assert sorted(map(tuple, heads.tolist())) == sorted(trees(len(words)))
        for row, own in zip(listed.tolist(), heads.tolist(), strict=True):
            numbers = [grammar.number(*event) for event in events(tuple(own), words, widths, by_distance)]
            assert sorted(x for x in row if x >= 0) == sorted(numbers)


@pytest.mark.parametrize("extended", [False, True])
def test_two_classes_are_the_dmv(extended: bool) -> None:
    grammar, other = DistanceDMV(3, distance_attach=extended), DMV(3, valence_attach=extended)
    assert {n: b.shape for n, b in grammar.blocks.items()} == {n: b.shape for n, b in other.blocks.items()}
    logs = log_weights(grammar)
    words = torch.randint(3, (20, 15), generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(grammar.log_partition(logs, words), other.log_partition(logs, words))
    start = grammar.initial_weights(words, "harmonic")
    for name, w in other.initial_weights(words, "harmonic").items():
        torch.testing.assert_close(start[name], w)


def test_battery() -> None:
    grammar = DistanceDMV(2, widths=(1, 2))
    R = grammar.num_events

    def parts(value: Tensor) -> Tensor:
        return torch.nn.functional.one_hot(value.long() + 1, R + 1)[..., 1:].sum(-2).double()

    with pytest.warns(UserWarning, match="cannot draw sentences"):
        check_grammar(GrammarCase(grammar, torch.tensor([[0, 1], [1, -1]]), parts=parts))


def test_loops() -> None:
    grammar = DistanceDMV(3, widths=(1, 3), distance_attach=True)
    loops = [VariationalEM(dirichlet), CollapsedVB(dirichlet), TreeHastings(dirichlet), TreeGibbs(dirichlet)]
    for loop in (EM(maximum_likelihood, initial_weights="harmonic"), *loops):
        loop.run(WORDS, grammar, num_steps=4, progress=False)
        for block, w in loop.weights().items():
            torch.testing.assert_close(w.sum(-1), torch.ones(grammar.blocks[block].shape[:-1]))
        if isinstance(loop, (EM, VariationalEM)):
            assert (np.diff(loop.history) >= -1e-9).all()


def test_what_is_no_tree_is_refused() -> None:
    grammar = DistanceDMV(2, widths=(1, 3))
    row = grammar.derivation(grammar.initial_weights(WORDS % 2, "uniform"), torch.tensor([0, 1])).argmax()
    assert grammar.heads(torch.full((2, 5), -1)).tolist() == [[-1], [-1]]
    for bad, message in (
        (row[1:], "does not begin with a root"),
        (row[:-1], r"has nothing\[\] after 2 words, not a stop"),
        (torch.cat([row, row]), "goes on after its last word, the 2th"),
    ):
        with pytest.raises(ValueError, match=message):
            grammar.heads(bad)
    for widths in ((), (3, 1), (0, 1)):
        with pytest.raises(ValueError, match="widths must be"):
            DistanceDMV(2, widths=widths)
    assert math.prod(grammar.blocks["stop"].shape) == 2 * 2 * 3 * 2 and repr(grammar) == "DistanceDMV(2, widths=(1, 3))"
    for block, axes in grammar.axes.items():
        assert tuple(map(len, axes.values())) == tuple(grammar.blocks[block].shape)
