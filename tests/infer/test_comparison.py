# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Runs compared with one another, against the same numbers by hand and by the metrics of two runs."""

from functools import partial
from typing import Any

import pytest
import torch

from pyrogram import DMV
from pyrogram.infer import EM, VariationalEM, compare
from pyrogram.metrics import SignTest, directed_accuracy, paired_bootstrap, sign_test
from pyrogram.models import maximum_likelihood
from pyrogram.models.dirichlet import dirichlet

GRAMMAR = DMV(3)
WORDS = torch.tensor([[0, 1, -1, -1], [1, 0, 1, -1], [0, 0, 1, 1], [1, -1, -1, -1]])  # tag 2 is in the test alone
TEST = torch.tensor([[0, 1, 2, 0], [2, 1, -1, -1], [1, 0, 0, -1]])
GOLD = torch.tensor([[2, 0, 2, 3], [2, 0, -1, -1], [0, 1, 2, -1]])
RIGHT = torch.tensor([[2, 3, 4, 0], [2, 0, -1, -1], [2, 3, 0, -1]])  # 1, 2 and 0 right words
LEFT = torch.tensor([[0, 1, 2, 3], [0, 1, -1, -1], [0, 1, 2, -1]])  # 2, 0 and 3


def test_heads() -> None:
    found = compare({"right": RIGHT, "left": LEFT}, GOLD, samples=400, seed=5)
    assert found.accuracies == {"right": (3 / 9,), "left": (5 / 9,)}
    (difference,) = found.differences
    assert (difference.first, difference.second) == ("right", "left")
    assert difference.starts == (pytest.approx(-2 / 9),)
    assert difference.bootstrap == paired_bootstrap(RIGHT, LEFT, GOLD, samples=400, seed=5)
    # word 1 of the first and both of the second sentence; 3, 4 of the first and all of the third. Of the 256 throws of
    # 8 coins 70 are even, so differ less.
    assert difference.words == SignTest(3, 5, pytest.approx(186 / 256))
    assert difference.sentences == SignTest(1, 2, 1.0)


def test_starts_are_paired() -> None:
    runs = {"two": [RIGHT, GOLD], "one": LEFT, "both": torch.stack([LEFT, RIGHT])}
    found = compare(runs, GOLD, samples=50)
    assert found.accuracies == {"two": (3 / 9, 1.0), "one": (5 / 9,), "both": (5 / 9, 3 / 9)}
    gaps = {(d.first, d.second): d.starts for d in found.differences}
    assert gaps == {
        ("two", "one"): pytest.approx((-2 / 9, 4 / 9)),
        ("two", "both"): pytest.approx((-2 / 9, 6 / 9)),
        ("one", "both"): pytest.approx((0, 2 / 9)),
    }
    for d in found.differences:
        assert d.bootstrap.difference == pytest.approx(sum(d.starts) / 2)
    two = torch.stack([RIGHT, GOLD])
    assert found.differences[0].words == sign_test(two, LEFT, GOLD)
    assert found.differences[0].sentences == sign_test(two, LEFT, GOLD, unit="sentences")


def test_words_that_count() -> None:
    scored = torch.tensor([[True, True, False, False], [True, False, False, False], [False] * 4])
    found = compare({"right": RIGHT, "left": LEFT}, GOLD, scored=scored, samples=50)
    assert found.accuracies == {"right": (2 / 3,), "left": (0.0,)}
    assert found.differences[0].words == SignTest(2, 0, pytest.approx(1 / 2))


@pytest.mark.parametrize("decoder", ["mbr", "viterbi"])
def test_loops_parse(decoder: Any) -> None:
    """EM gives zero to what its sentences lack, and would have no tree for a sentence with tag 2."""
    em = EM(partial(maximum_likelihood, grammar=GRAMMAR)).run(WORDS, num_steps=3, progress=False)
    vb = VariationalEM(partial(dirichlet, grammar=GRAMMAR, concentration=0.5)).run(WORDS, num_steps=3, progress=False)
    found = compare({"em": em, "vb": [vb, RIGHT]}, GOLD, TEST, GRAMMAR, decoder=decoder, smoothing=0.01, samples=50)
    expected = {}
    for name, loop in (("em", em), ("vb", vb)):
        weights = {b: 0.99 * w + 0.01 / w.shape[-1] for b, w in loop.weights().items()}
        trees = GRAMMAR.derivation(weights, TEST)
        expected[name] = directed_accuracy(trees.mbr() if decoder == "mbr" else trees.argmax(), GOLD)
    assert found.accuracies == {"em": (expected["em"],), "vb": (expected["vb"], 3 / 9)}


def test_many_sentences_are_parsed_in_their_places() -> None:
    words = torch.randint(0, 3, (150, 5), generator=torch.Generator().manual_seed(0))
    lengths = torch.arange(150) % 5 + 1
    words = words.masked_fill(torch.arange(5) >= lengths[:, None], -1)
    em = EM(partial(maximum_likelihood, grammar=GRAMMAR)).run(WORDS, num_steps=1, progress=False)
    weights = {b: 0.5 * w + 0.5 / w.shape[-1] for b, w in em.weights().items()}
    gold = GRAMMAR.derivation(weights, words).mbr()
    assert compare({"em": em}, gold, words, GRAMMAR, smoothing=0.5).accuracies == {"em": (1.0,)}


def test_the_table() -> None:
    found = compare({"right": [RIGHT, GOLD], "left": LEFT}, GOLD, samples=50)
    b = found.differences[0].bootstrap
    lines = [line.split() for line in str(found).splitlines()]
    assert lines[:4] == [
        ["directed", "starts"],
        ["right", "66.7", "2", "±", "47.1"],
        ["left", "55.6", "1"],
        [],
    ]
    assert lines[4][:3] == ["difference", "95%", "interval"]
    expected = f"right - left +11.1 {100 * b.low:+.1f} {100 * b.high:+.1f} {b.p_value:.2g} 1/2"
    words, sentences = found.differences[0].words, found.differences[0].sentences
    for test in (words, sentences):
        expected += f" +{test.better} -{test.worse} {test.p_value:.2g}"
    assert lines[5] == f"{expected} ± 47.1".split()
    assert len({len(line.split(" ±")[0].rstrip()) for line in str(found).splitlines()[4:]}) == 1
    assert str(compare({"left": LEFT}, GOLD)).splitlines()[1].split() == ["left", "55.6", "1"]


def test_refused() -> None:
    em = EM(partial(maximum_likelihood, grammar=GRAMMAR)).run(WORDS, num_steps=1, progress=False)
    for given in ((), (TEST,), (None, GRAMMAR)):
        with pytest.raises(ValueError, match="run 'em' is a loop, .* give words and grammar"):
            compare({"em": em}, GOLD, *given)
    with pytest.raises(ValueError, match="run 'none' has no starts"):
        compare({"none": []}, GOLD)
    with pytest.raises(ValueError, match="one start or as many, got 3 and 2 starts"):
        compare({"three": [LEFT] * 3, "two": [RIGHT] * 2}, GOLD)
    with pytest.raises(ValueError, match="expected decoder to be one of 'viterbi', 'mbr', actual 'best'"):
        compare({"left": LEFT}, GOLD, decoder="best")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="must hold the same sentences"):
        compare({"left": LEFT[:2]}, GOLD)
    with pytest.raises(ValueError, match="at least one word"):
        compare({"left": LEFT}, GOLD, scored=GOLD < -1)
