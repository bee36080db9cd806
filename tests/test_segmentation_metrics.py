# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Segmentation scores, worked out by hand."""

import math

import pytest
import torch

from pyrogram import metrics
from pyrogram.metrics import Agreement, closest_segmentations, perplexity, segmentation_scores

# the|dog|barks against the|dogbarks: one token of two is right, of three found; one boundary of one, of two found.
# a|dog against adog: no token, one boundary too many. a|b|a all right: three tokens, two boundaries.
PREDICTED = [["the", "dogbarks"], ["a", "dog"], ["a", "b", "a"]]
GOLD = [["the", "dog", "barks"], ["adog"], ["a", "b", "a"]]


def test_by_hand():
    scores = segmentation_scores(PREDICTED, GOLD)
    assert scores.token == Agreement(right=1 + 0 + 3, predicted=2 + 2 + 3, gold=3 + 1 + 3)
    assert scores.boundary == Agreement(right=1 + 0 + 2, predicted=1 + 1 + 2, gold=2 + 0 + 2)
    # Predicted the, dogbarks, a, dog, b; gold the, dog, barks, adog, a, b: in common the, dog (from elsewhere), a, b.
    assert scores.type == Agreement(right=4, predicted=5, gold=6)
    assert (scores.exact, scores.items) == (1 / 3, 3)
    assert scores.token.precision == 4 / 7 and scores.token.recall == 4 / 7
    assert scores.type.f1 == pytest.approx(2 * (4 / 5) * (4 / 6) / (4 / 5 + 4 / 6))


def test_tokens_need_both_boundaries_and_none_between():
    scores = segmentation_scores([["ab", "cd"]], [["a", "bc", "d"]])
    assert scores.token.right == 0 and scores.boundary.right == 0
    scores = segmentation_scores([["ab", "cd"]], [["a", "b", "cd"]])
    assert scores.token.right == 1 and scores.boundary == Agreement(1, 1, 2)


def test_what_there_is_none_of_has_no_share():
    scores = segmentation_scores([["ab"]], [["ab"]])
    assert scores.boundary == Agreement(0, 0, 0)
    assert (scores.boundary.precision, scores.boundary.recall, scores.boundary.f1) == (None, None, None)
    assert scores.token.f1 == 1.0
    scores = segmentation_scores([["ab"]], [["a", "b"]])
    assert (scores.boundary.precision, scores.boundary.recall, scores.boundary.f1) == (None, 0.0, 0.0)


def test_segments_of_longer_symbols():
    scores = segmentation_scores([[("TH", "AH"), ("K",)]], [[("TH",), ("AH",), ("K",)]])
    assert scores.token == Agreement(1, 2, 3)


def test_the_closest_of_several():
    predicted = [["a", "ba", "bhuza"], ["ab"]]
    alternatives = [[["a", "b", "a", "bhuz", "a"], ["a", "ba", "bhuz", "a"]], [["a", "b"], ["b", "a"][::-1]]]
    assert closest_segmentations(predicted, alternatives) == [["a", "ba", "bhuz", "a"], ["a", "b"]]


def test_print():
    lines = str(segmentation_scores(PREDICTED, GOLD)).splitlines()
    assert lines[1].split() == ["token", "57.1", "57.1", "57.1"]
    assert lines[4].split() == ["exact", "33.3"]
    assert str(segmentation_scores([["a"]], [["a"]])).splitlines()[2].split() == ["boundary", "-", "-", "-"]


@pytest.mark.parametrize(
    ("predicted", "gold", "message"),
    [
        ([], [], "the same items, at least one, got 0 and 0"),
        ([["a"]], [["a"], ["b"]], "the same items, at least one, got 1 and 2"),
        ([["a"], ["ab"]], [["a"], ["a", "c"]], "item 1 is 'ab' predicted but 'a c' in gold"),
        ([["a"], ["ab"]], [["a"], ["ab", "c"]], "item 1 is 'ab' predicted but 'ab c' in gold"),
        ([["a", ""]], [["a"]], "item 0 of predicted must be segments, none of them empty"),
        ([["ab"]], ["ab"], "item 0 of gold must be segments, none of them empty, not 'ab'"),
    ],
)
def test_errors(predicted, gold, message):
    with pytest.raises(ValueError, match=message):
        segmentation_scores(predicted, gold)


def test_perplexity():
    # Two words of probability 1/2 and 1/8 are as hard as two of 1/4.
    assert perplexity(torch.tensor([0.5, 0.125]).log()) == pytest.approx(4.0)
    assert perplexity(torch.tensor([0.0, -math.inf])) == math.inf
    assert perplexity(torch.tensor([-800.0])) == math.inf
    with pytest.raises(ValueError, match=r"shape \(N,\), N at least 1, not \(0,\)"):
        perplexity(torch.zeros(0))


def test_they_are_metrics():
    assert metrics.segmentation_scores is segmentation_scores
