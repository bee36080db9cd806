# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Vocabularies: order, lookup, encoding, JSON."""

import copy
import json
import pickle
from dataclasses import FrozenInstanceError

import pytest
import torch

from pyrogram.data import Vocabulary

VOCAB = Vocabulary(("N", "V", "D"), (5, 3, 1))


def test_most_frequent_first_then_alphabetical() -> None:
    vocab = Vocabulary.count(["b", "a", "c", "c", "a", "b", "d"])
    assert list(vocab) == ["a", "b", "c", "d"]
    assert vocab.counts == (2, 2, 2, 1)
    assert vocab.most_frequent == "a"


def test_most_frequent_goes_by_counts_not_by_order() -> None:
    assert Vocabulary(("a", "b", "c"), (1, 7, 7)).most_frequent == "b"


def test_lookup() -> None:
    assert len(VOCAB) == 3
    assert [VOCAB.index(s) for s in "NVD"] == [0, 1, 2]
    assert [VOCAB[i] for i in range(3)] == ["N", "V", "D"]
    assert "V" in VOCAB and "X" not in VOCAB
    with pytest.raises(KeyError, match="'X'"):
        VOCAB.index("X")


def test_encode_and_decode() -> None:
    assert VOCAB.encode(["D", "N", "V"]) == [2, 0, 1]
    assert VOCAB.encode(["D", "X"], unknown="most_frequent") == [2, 0]
    assert VOCAB.decode([2, 0, 1]) == ["D", "N", "V"]
    assert VOCAB.decode(torch.tensor([1, 0, -1, -1])) == ["V", "N"]
    with pytest.raises(KeyError, match="'X'"):
        VOCAB.encode(["N", "X"])
    with pytest.raises(IndexError, match="actual 3"):
        VOCAB.decode([3])
    with pytest.raises(IndexError, match="actual -2"):
        VOCAB.decode([-2])
    with pytest.raises(ValueError, match="'most_frequent' or 'error', actual 'skip'"):
        VOCAB.encode(["N"], unknown="skip")  # type: ignore[arg-type]


def test_json_round_trip() -> None:
    assert VOCAB.to_list() == [["N", 5], ["V", 3], ["D", 1]]
    assert Vocabulary.from_list(json.loads(json.dumps(VOCAB.to_list()))) == VOCAB


@pytest.mark.parametrize("bad", [["N", "V"], [["N", "1"]], [["N", 1, 2]], [[1, 1]], [{"N": 1}]])
def test_from_list_takes_pairs_only(bad: list[object]) -> None:
    with pytest.raises(ValueError, match=r"expected pairs \[symbol, count\]"):
        Vocabulary.from_list(bad)  # type: ignore[arg-type]


def test_invalid_vocabularies() -> None:
    with pytest.raises(ValueError, match="'N' twice"):
        Vocabulary(("N", "N"), (1, 2))
    with pytest.raises(ValueError, match="expected 2 counts, one per symbol, actual 1"):
        Vocabulary(("N", "V"), (1,))
    with pytest.raises(ValueError, match="at least 0"):
        Vocabulary(("N",), (-1,))
    with pytest.raises(ValueError, match="an empty one"):
        _ = Vocabulary((), ()).most_frequent


def test_equality_immutability_and_copies() -> None:
    assert VOCAB == Vocabulary(["N", "V", "D"], [5, 3, 1])  # type: ignore[arg-type]
    assert VOCAB != Vocabulary(("V", "N", "D"), (5, 3, 1))
    assert VOCAB != Vocabulary(("N", "V", "D"), (5, 3, 2))
    assert hash(VOCAB) == hash(Vocabulary(("N", "V", "D"), (5, 3, 1)))
    assert pickle.loads(pickle.dumps(VOCAB)).index("D") == 2
    assert copy.deepcopy(VOCAB) == VOCAB
    with pytest.raises(FrozenInstanceError):
        VOCAB.counts = (1, 1, 1)  # type: ignore[misc]
    assert repr(VOCAB) == "Vocabulary(3 symbols: N, V, D)"


def test_half_of_a_surrogate_pair_is_no_symbol() -> None:
    """JSON can hold one, and no file in UTF-8 could be written with it."""
    pairs = json.loads(r'[["NN", 2], ["a\ud800", 1]]')
    with pytest.raises(ValueError, match=r"expected symbols of Unicode text, actual 'a\\ud800', half of a surrogate"):
        Vocabulary.from_list(pairs)
    assert Vocabulary.from_list(json.loads(r'[["\ud83d\udc36", 1]]')).symbols == ("🐶",)


def test_messages_are_short_and_printable() -> None:
    with pytest.raises(ValueError) as caught:
        Vocabulary.from_list([["a"] * 10**5])
    assert len(str(caught.value)) < 200
    with pytest.raises(KeyError) as missing:
        VOCAB.index("\x1b" + "w" * 10**5)
    assert len(str(missing.value)) < 200 and str(missing.value.args[0]).isprintable()
