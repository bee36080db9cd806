# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The public checks, crossed with every grammar and its derivations: one test for each pair."""

import unittest
from typing import Any

import instances
import pytest
import torch
import toy

from pyrogram import DMV, Grammar
from pyrogram.testing import DISTRIBUTION_CHECKS, GRAMMAR_CHECKS, GrammarCase, check_distribution, check_grammar

CHAIN = GrammarCase(
    toy.Chain(2, 2),
    torch.tensor([[0, 1, 0], [1, -1, -1], [1, 1, -1]]),
    parts=lambda value: torch.nn.functional.one_hot(value.long() + 1, 3)[..., 1:].double(),
)
CHAIN_DERIVATIONS = {f"chain {words}": case for words, case in CHAIN.derivations().items()}
GRAMMARS = instances.GRAMMARS | {"a third party's chain": CHAIN}


@pytest.mark.one_in(100)
@pytest.mark.parametrize(("case", "check"), instances.crossed(instances.DERIVATIONS | CHAIN_DERIVATIONS))
def test_distribution(case, check):
    check(case)


@pytest.mark.parametrize("name", [name for name in DISTRIBUTION_CHECKS if name not in ("compile", "draws")])
def test_each_check_of_distributions(name):
    DISTRIBUTION_CHECKS[name](instances.TREES["two words"])


@pytest.mark.one_in(20)
@pytest.mark.parametrize(
    "of", [pytest.param(of, marks=[pytest.mark.slow] if of in instances.SLOW else []) for of in GRAMMARS]
)
@pytest.mark.parametrize("name", GRAMMAR_CHECKS)
def test_grammar(of, name):
    GRAMMAR_CHECKS[name](GRAMMARS[of])


@pytest.mark.slow
def test_all_at_once():
    check_distribution(instances.TREES["two words"])
    check_grammar(GrammarCase(toy.Chain(1, 2), torch.tensor([[0, 1], [1, -1]]), parts=None))


class Mute(toy.Chain):
    """A grammar that gives only what it must."""

    sample = Grammar.sample


def test_short_sentences_among_long_ones() -> None:
    GRAMMAR_CHECKS["draws_of_any_length"](CHAIN)


MUTE = GrammarCase(Mute(2, 2), CHAIN.words, parts=CHAIN.parts)
OF_DRAWS = {"draws", "draws_of_any_length", "draws_follow_the_seed"}


@pytest.mark.slow
def test_a_grammar_that_draws_nothing_passes_the_other_checks():
    with pytest.warns(UserWarning, match=r"Mute cannot draw sentences.* checks draws, .* were skipped") as caught:
        check_grammar(MUTE)
    assert len(caught) == 1
    skipped = set()
    for name, check in GRAMMAR_CHECKS.items():
        try:
            check(MUTE)
        except unittest.SkipTest as error:
            assert "Mute cannot draw sentences" in str(error)
            skipped.add(name)
    assert skipped == OF_DRAWS


def test_what_draws_nothing_is_still_checked():
    class Wrong(Mute):
        def log_partition(self, log_weights, words):
            return 1.01 * super().log_partition(log_weights, words)

    with pytest.raises(AssertionError, match="check 'log_prob' failed"):
        check_grammar(GrammarCase(Wrong(2, 2), CHAIN.words, parts=CHAIN.parts))


class Mirrored(DMV):
    """Draws sentences with the attachments of the other direction."""

    def sample(self, weights: Any, sample_shape: Any, max_length: int, **options: Any) -> Any:
        exchanged = {**weights, "attach": weights["attach"].flip(-2)}
        return super().sample(exchanged, sample_shape, max_length, **options)


def test_sharp_weights_are_powers_and_show_exchanged_directions() -> None:
    plain, sharp = (GrammarCase(Mirrored(2), instances.WORDS, sharpness=power) for power in (1.0, 4.0))
    for name, block in plain.grammar.blocks.items():
        assert torch.allclose(sharp.weights((2,))[name], block.normalize(plain.weights((2,))[name] ** 4))
    GRAMMAR_CHECKS["draws"](GrammarCase(DMV(2), instances.WORDS, sharpness=4.0))
    with pytest.raises(AssertionError, match="frequencies of 20,000 draws"):
        GRAMMAR_CHECKS["draws"](sharp)
