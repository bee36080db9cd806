# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Trees and states with a bonus for each label, against lists of them."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from pyrogram import DMV, HMM
from pyrogram.distributions import DependencyTree, ProjectiveDependencyTree, SiblingDependencyTree
from pyrogram.trees import lengths_of

WORDS = torch.tensor([[0, 1, 1], [1, 0, 0]])
PADDED = torch.tensor([[0, 1, 1], [1, 0, -1]])


def weights(grammar: Any) -> dict[str, Tensor]:
    return {name: block.softmax(torch.randn(block.shape)) for name, block in grammar.blocks.items()}


MAKE: dict[str, Callable[[Tensor], Any]] = {
    "arcs": lambda words: ProjectiveDependencyTree(torch.randn(4, 4), lengths=lengths_of(words)),
    "roots": lambda words: ProjectiveDependencyTree(
        torch.randn(2, 4, 4, 2), torch.randn(4, 2, 2), lengths=lengths_of(words), multiroot=True
    ),
    "crossing arcs": lambda words: DependencyTree(torch.randn(4, 4), lengths=lengths_of(words)),
    "siblings": lambda words: SiblingDependencyTree(torch.randn(4, 4), torch.randn(4, 4, 4), lengths=lengths_of(words)),
    "DMV": lambda words: DMV(2).derivation(weights(DMV(2)), words),
    "HMM": lambda words: HMM(4, 2).derivation(weights(HMM(4, 2)), words),
}


@pytest.mark.parametrize("kind", MAKE)
def test_in_proportion_to_the_bonus(kind: str) -> None:
    plain = MAKE[kind](WORDS)
    bonus = torch.randn(5, 1, 3, 4, requires_grad=True)  # five times as many, for both sentences
    tilted = plain.tilted(bonus)
    assert tilted.batch_shape == (5, 2)
    values = plain.enumerate_support()  # (T, 2, 3)
    given = bonus.expand(len(values), 5, 2, 3, 4).gather(-1, values[:, None, :, :, None].expand(-1, 5, 2, 3, 1))
    scores = plain.log_prob(values)[:, None] + given.sum((-2, -1))
    log_z = scores.logsumexp(0)
    torch.testing.assert_close(tilted.log_partition - plain.log_partition, log_z)
    torch.testing.assert_close(tilted.log_prob(values[:, None]), scores - log_z)
    (found,) = torch.autograd.grad(tilted.log_partition.sum(), bonus)
    (exact,) = torch.autograd.grad(log_z.sum(), bonus)
    torch.testing.assert_close(found, exact)
    torch.testing.assert_close(plain.log_prob(values).logsumexp(0), torch.zeros(2))  # it is as it was
    assert tilted.sample((2,)).shape == (2, 5, 2, 3)


@pytest.mark.parametrize("kind", MAKE)
def test_padding_has_no_bonus(kind: str) -> None:
    torch.manual_seed(1)
    plain = MAKE[kind](PADDED)
    bonus = torch.randn(2, 3, 4, requires_grad=True)
    tilted = plain.tilted(bonus)
    (slope,) = torch.autograd.grad(tilted.log_partition.sum(), bonus)
    assert not bool(slope[1, 2].any())
    torch.testing.assert_close(slope.sum(-1), (PADDED >= 0).double())
    assert bool(tilted.support.check(tilted.sample()).all())


@pytest.mark.parametrize("kind", MAKE)
def test_what_is_refused(kind: str) -> None:
    for wrong in (torch.nan, torch.inf):
        with pytest.raises(ValueError, match="NaN or \\+inf"):
            MAKE[kind](WORDS).tilted(torch.full((3, 4), wrong))


def test_counts_stay_those_of_the_grammar() -> None:
    grammar = DMV(2)
    tilted = grammar.derivation(weights(grammar), WORDS).tilted(torch.randn(3, 4))
    values = tilted.enumerate_support()
    p = tilted.log_prob(values).exp()
    for name, expected in tilted.expected_counts().items():
        exact = (p[(..., *(None,) * (expected.dim() - 1))] * tilted.counts(values)[name]).sum(0)
        torch.testing.assert_close(expected, exact)
