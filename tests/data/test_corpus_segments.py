# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Segments between marks of punctuation: their numbers, by hand, and that they go where the sentences go."""

import itertools
import pickle
from typing import Any

import numpy as np

from pyrogram.data import Corpus
from pyrogram.data.punctuation import segment_numbers

# Marks at both ends, two in a row, and one after the first word.
SENTENCES = [
    ["PUNCT", "NOUN", "PUNCT", "VERB", "NOUN", "PUNCT", "PUNCT", "VERB", "PUNCT"],
    ["NOUN", "VERB"],
    ["PUNCT", "VERB", "PUNCT"],
    ["NOUN", "PUNCT", "VERB"],
]
REMOVED = [[0, 1, 1, 2], [0, 0, -1, -1], [0, -1, -1, -1], [0, 1, -1, -1]]


def corpus(**options: Any) -> Corpus:
    return Corpus.from_sentences(SENTENCES, tags="upos", **options)


def test_marks_that_were_left_out_count() -> None:
    assert corpus().segments.tolist() == REMOVED
    penn = Corpus.from_sentences([["NN", ",", "VB", "."], ["``", "VB", "''"]])
    assert penn.segments.tolist() == [[0, 1], [0, -1]]


def test_marks_that_were_kept_are_of_the_segment_before_them() -> None:
    found = corpus(punctuation="keep").segments.tolist()
    assert found[0] == [0, 0, 0, 1, 1, 1, 1, 2, 2]
    assert found[3] == [0, 0, 1, *[-1] * 6]


def test_numbers_rise_where_a_mark_stands_between_words() -> None:
    """By the definition: the number of a token is that of runs of words up to it, from 0."""
    for kept in itertools.product([False, True], repeat=5):
        numbers = segment_numbers(np.array(kept), np.array([0, 5]), np.zeros(5, np.bool_))
        for i, number in enumerate(numbers):
            runs = [word for word, _ in itertools.groupby(kept[: i + 1]) if word]
            assert number == max(0, len(runs) - 1), kept


def test_they_go_along_with_the_sentences() -> None:
    whole = corpus()
    assert whole[[3, 0]].segments.tolist() == [REMOVED[3], REMOVED[0]]
    assert whole.filter(max_length=2).segments.tolist() == [[0, 0], [0, -1], [0, 1]]
    assert whole.filter(min_length=9).segments.shape == (0, 0)
    assert pickle.loads(pickle.dumps(whole)).segments.tolist() == REMOVED
    assert corpus(max_length=2).segments.tolist() == [[0, 0], [0, -1], [0, 1]]
    assert corpus(heads=[[2, 4, 2, 0, 4, 4, 4, 4, 4], [2, 0], [2, 0, 2], [0, 1, 1]]).segments.tolist() == REMOVED
