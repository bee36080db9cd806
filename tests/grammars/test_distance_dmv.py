# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Distance classes in the DMV beyond lists of trees (test_listed_grammars.py): arcs, and where they are the DMV."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch
from listed_grammars import CASES
from torch import Tensor

from pyrogram import DMV
from pyrogram.grammars import DistanceDMV

WORDS = torch.tensor([[0, 1, 2, 1, 0], [2, 2, 0, 1, -1], [1, 0, 0, -1, -1], [1, -1, -1, -1, -1]])
STOP = 1
close = partial(torch.testing.assert_close, rtol=1e-6, atol=1e-6)


def log_weights(grammar: DistanceDMV) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return {n: torch.randn(*b.shape, generator=generator, dtype=torch.float64) for n, b in grammar.blocks.items()}


@pytest.mark.parametrize("name", ["distances", "three distances"])
def test_arcs_and_the_tree_with_the_most_right_ones(name: str) -> None:
    case = CASES[name]
    grammar, logs, words = case.grammar, case.log_weights(), case.words[0]
    found, (*_, shares) = [heads for heads, _ in case.listed(words.tolist())], case.sums(logs, words.tolist())
    arcs = torch.zeros(5, 5)
    for heads, share in zip(found, shares, strict=True):
        for m, h in enumerate(heads, 1):
            arcs[h, m] += share
    close(grammar.arc_marginals(logs, words[None])[0], arcs)
    right = torch.stack([sum((arcs[h, m] for m, h in enumerate(heads, 1)), torch.zeros(())) for heads in found])
    assert grammar.mbr_heads(logs, words[None]).tolist() == [list(found[int(right.argmax())])]
    assert grammar.mbr_heads(logs, words).tolist() == list(found[int(right.argmax())])
    none = {**logs, "root": torch.full((3,), -torch.inf)}
    assert grammar.mbr_heads(none, WORDS[1:3]).tolist() == [[-1] * 5] * 2


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


def test_draws_of_several_weights() -> None:
    """Each sentence from its own; the first grammar has one word, and the second one more to the right."""
    grammar = DistanceDMV(2, widths=(1, 3))
    stop = torch.zeros(2, 2, 2, 3, 2)  # of two grammars
    stop[..., STOP] = 1
    stop[1, 0, 1, 0] = torch.tensor([1.0, 0.0])
    attach = torch.zeros(2, 2, 2)
    attach[..., 1] = 1
    weights = {"root": torch.tensor([1.0, 0.0]), "attach": attach, "stop": stop}
    words, heads = grammar.sample_trees(weights, (3, 2), 4)
    assert words.tolist() == [[[0, -1, -1, -1], [0, 1, -1, -1]]] * 3
    assert heads.tolist() == [[[0, -1, -1, -1], [0, 1, -1, -1]]] * 3
    stop[1, 1, 0, 0] = torch.tensor([1.0, 0.0])  # words without end, to the left of one another
    with pytest.raises(ValueError, match="in a row had more than 4 words"):
        grammar.sample_trees(weights, (3, 2), 4)
    words, heads = grammar.sample_trees(weights, (2,), 4, too_long="truncate")
    assert words.tolist() == [[0, -1, -1, -1], [0, 1, 1, 1]] and heads.tolist() == [[0, -1, -1, -1], [0, 3, 4, 1]]


def test_what_is_no_tree_is_refused() -> None:
    grammar = DistanceDMV(2, widths=(1, 3))
    row = grammar.derivation(grammar.initial_weights(WORDS % 2, "uniform"), torch.tensor([0, 1])).argmax()
    assert grammar.heads(torch.full((2, 5), -1)).tolist() == [[-1], [-1]]
    for bad, message in (
        (row[1:], "does not begin with a root"),
        (row[:-1], r"has nothing\[\] after 2 words, not a stop"),
        (torch.cat([row, row]), "goes on after its last word, word 2"),
    ):
        with pytest.raises(ValueError, match=message):
            grammar.heads(bad)
    for widths in ((), (3, 1), (0, 1)):
        with pytest.raises(ValueError, match="widths must be"):
            DistanceDMV(2, widths=widths)
    with pytest.raises(TypeError, match=r"widths must be a sequence of numbers, such as \(3,\), not 3"):
        DistanceDMV(2, widths=3)  # type: ignore[arg-type]
    assert math.prod(grammar.blocks["stop"].shape) == 2 * 2 * 3 * 2 and repr(grammar) == "DistanceDMV(2, widths=(1, 3))"
