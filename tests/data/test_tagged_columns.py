# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Many lines of tagged text at a time are read as one by one: the same sentences, and the same first error."""

import random
from pathlib import Path
from typing import Any

import pytest
from column_oracle import check_first_errors, outcome, records
from mutations import PIECES, as_file

from pyrogram.data import Corpus, tagged_columns
from pyrogram.data.tagged import read_tagged

WITH_WORDS = """
the/DT dog/NN barks/VBZ ./.
  1\\/2/CD\tand\\/or/CC //SYM \\//NN a/b/JJ

caf\u00e9/NN\u00a0ja/UH ,/, doch/_
#/# the/DT
./. !/.
"""
ALONE = "DT NN VBZ .\n\nNN\n# NN \\/\n. .\n"
TOKENS = ["a/NN", "a", "/NN", "a/", "/", "\\/", "_", "\n", "(", "(NN a)\n", "1\ta\t_\t_\t_\t_\t_\t_\t_\t_\n"]


def mutated(rng: random.Random) -> bytes:
    """Some characters changed, once or twice or not at all; or other lines first."""
    text = rng.choice([WITH_WORDS, ALONE]) * rng.choice([1, 1, 20])
    for _ in range(rng.choice([0, 0, 1, 1, 2])):
        at = rng.choice([0, rng.randrange(len(text))])
        space = rng.choice(["", " "])
        text = text[:at] + space + rng.choice([*TOKENS, *PIECES]) + space + text[at + rng.choice([0, 0, 1, 2, 7]) :]
    text = rng.choice([""] * 8 + ["# DT\n" * 150, "(NN\n" * 90, "(NN\n" * 110]) + text
    return as_file(rng, text)


@pytest.mark.parametrize("text", [WITH_WORDS, ALONE])
def test_valid_text_is_read_at_once(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.txt"
    path.write_text(text, encoding="utf-8")
    expected = list(read_tagged(str(path)))
    monkeypatch.setattr(tagged_columns, "sentences_of", None)
    assert list(records(str(path), "tags")) == expected


@pytest.mark.parametrize("tags", ["upos", pytest.param("xpos", marks=pytest.mark.slow), "form"])
def test_as_one_by_one(tags: Any, tmp_path: Path) -> None:
    path, rng = tmp_path / "t.txt", random.Random(f"tags {tags}")
    refused = 0
    for _ in range(250):
        path.write_bytes(mutated(rng))
        expected = outcome(lambda: read_tagged(str(path), tags))
        assert outcome(lambda: records(str(path), "tags", tags)) == expected, path.read_bytes()
        refused += len(expected) > 1
    assert 50 < refused < 225


@pytest.mark.one_in(4)
@pytest.mark.parametrize("tags", ["upos", "xpos", "form"])
def test_first_errors_in_small_parts(tags: Any, in_small_parts: None, tmp_path: Path) -> None:
    """What is wrong with a later part of the file, or with the file as a whole, and with the tags of an earlier one."""
    path = tmp_path / "t.txt"
    check_first_errors(path, f"corpora {tags}", mutated, lambda: read_tagged(str(path), tags), Corpus.from_tags, tags)
