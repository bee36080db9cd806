# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What syntactic topics are given: words and the words that head them."""

import pytest
import torch

from pyrogram.topics.tokens import check_words, tokens

V = 3
MALFORMED = {
    "no word": [[0, 1], [-1, -1]],
    "no word, in one column": [[0], [-1]],
    "padding before the first word": [[-1, 0]],
    "padding between words": [[0, -1, 1]],
    "a first word too great": [[V, 0]],
    "a last word too great": [[0, V]],
}


@pytest.mark.parametrize("words", MALFORMED.values(), ids=MALFORMED)
def test_malformed_words_are_refused(words):
    for order in (words, words[::-1]):
        with pytest.raises(ValueError, match=rf"words must be ids from 0 to {V - 1}, at least one a sentence"):
            check_words(torch.tensor(order), V)


@pytest.mark.parametrize("shape", [(0, 2), (2, 0), (2,), (1, 2, 2)])
def test_words_of_another_shape_are_refused(shape):
    with pytest.raises(ValueError, match=r"words must be integers of shape \(N, n\)"):
        check_words(torch.zeros(shape, dtype=torch.long), V)


def test_every_word_and_its_head():
    words = torch.tensor([[2, 0, 1], [1, -1, -1], [0, 2, -1]])
    heads = torch.tensor([[2, 0, 2], [0, -1, -1], [0, 1, -1]])
    check_words(words, V)
    check_words(words[:, :1], V)
    parents, own = tokens(words, heads, V)
    assert own.tolist() == [2, 0, 1, 1, 0, 2]
    assert parents.tolist() == [0, V, 0, V, V, 0]


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32])
def test_words_of_few_bits_may_be_of_many(dtype):
    """ROOT's number, how many words there are, need not fit in them."""
    parents, own = tokens(torch.tensor([[1, 2]], dtype=dtype), torch.tensor([[0, 1]]), 70_000)
    assert own.tolist() == [1, 2] and parents.tolist() == [70_000, 1]
