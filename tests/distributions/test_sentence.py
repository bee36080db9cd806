# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What is special about Sentence: its errors, word for word, and its values."""

import pytest
import torch

from pyrogram import DMV
from pyrogram.distributions import Sentence
from pyrogram.distributions.sentence import safe_log

GRAMMAR = DMV(2)


@pytest.fixture
def weights():
    return GRAMMAR.initial_weights(torch.tensor([[0, 1]]), "uniform")


def refused(message, weights=None, **options):
    with pytest.raises(ValueError, match=f"^{message}$"):
        Sentence(GRAMMAR, weights, validate_args=True, **options)


def test_neither_weights_nor_logarithms(weights):
    refused("give either weights or log_weights")
    refused("give either weights or log_weights", weights, log_weights=weights)


def test_missing_block(weights):
    del weights["attach"]
    refused(r"weights lacks block 'attach' of shape \(2, 2, 2\)", weights)


def test_unknown_block(weights):
    refused(
        r"weights has no use for \['stops'\]; the grammar's blocks are \['root', 'attach', 'stop'\]",
        {**weights, "stops": torch.ones(2)},
    )


def test_wrong_shape(weights):
    message = r"weights\['stop'\] must have shape \(..., 2, 2, 2, 2\), not \(2, 2, 2\)"
    refused(message, {**weights, "stop": torch.ones(2, 2, 2)})


@pytest.mark.parametrize("bad", [-0.25, torch.nan, torch.inf])
def test_weights_that_are_none(weights, bad):
    weights["attach"][1, 0, 1] = bad
    message = rf"weights must be non-negative and finite, but that of block 'attach' at \(1, 0, 1\) is {bad}"
    refused(message, weights)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_log_weights_that_are_none(weights, bad):
    logs = {name: w.log() for name, w in weights.items()}
    logs["root"][1] = bad
    refused(rf"log weights must be less than inf, but that of block 'root' at \(1,\) is {bad}", log_weights=logs)


@pytest.mark.parametrize("row", [[0, 2], [-1, -1], [0, -1, 1], [-2, 0], [0, -2], [0, 0.5], [0, torch.nan]])
def test_words_that_are_none(weights, row):
    words = torch.tensor([[0] * len(row), row])
    sentence = Sentence(GRAMMAR, weights, validate_args=True)
    message = r"^words must be one or more of 0..1 and then padding of -1, but sentence 1 is \[.*\]$"
    for action in (sentence.log_prob, sentence.derivation):
        with pytest.raises(ValueError, match=message):
            action(words)
    assert sentence.support.check(words).tolist() == [True, False]


def test_no_words(weights):
    with pytest.raises(ValueError, match=r"^words must have shape \(..., n\) with n >= 1, not \(3, 0\)$"):
        Sentence(GRAMMAR, weights).log_prob(torch.zeros(3, 0))
    with pytest.raises(ValueError, match=r"^words must have shape \(..., n\) with n >= 1, not \(\)$"):
        Sentence(GRAMMAR, weights).log_prob(torch.tensor(1))


def test_no_sentences(weights):
    assert Sentence(GRAMMAR, weights).log_prob(torch.zeros(0, 3, dtype=torch.long)).shape == (0,)


@pytest.mark.parametrize("words", [[[0, 2]], [[0, -1, 1]], [[-3, 0]]])
def test_counts_of_wrong_words_are_refused_even_without_validation(weights, words):
    """Compiled code would read and write beyond its tables."""
    logs = {name: w.log() for name, w in weights.items()}
    for action in (GRAMMAR.log_partition, GRAMMAR.expected_counts):
        with pytest.raises(
            ValueError, match=r"^words must be one or more of 0..1 and then padding"
        ):
            action(logs, torch.tensor(words))


def test_unnormalised_weights_cannot_be_sampled(weights):
    weights["stop"] = 2 * weights["stop"]
    with pytest.raises(ValueError, match="sampling needs normalised weights, but a multinomial of 'stop' sums to 2"):
        Sentence(GRAMMAR, weights).sample()


def test_grammar_that_does_not_stop(weights):
    weights["stop"] = torch.tensor([1.0, 0.0]).expand(2, 2, 2, 2)
    with pytest.raises(ValueError, match="10000 sampled sentences in a row had more than 5 words"):
        Sentence(GRAMMAR, weights, max_length=5).sample()


def test_safe_log():
    w = torch.tensor([0.0, 1.0, 4.0], requires_grad=True)
    (gradient,) = torch.autograd.grad(safe_log(w)[1:].sum() + 0 * w.sum(), [w])
    assert safe_log(w).tolist() == [-torch.inf, 0.0, torch.tensor(4.0).log().item()]
    assert gradient.tolist() == [0.0, 1.0, 0.25]
