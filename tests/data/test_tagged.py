# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Plain tagged text."""

from pathlib import Path

import pytest

from pyrogram.data import Corpus, CorpusError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "t.txt"


def write(file: Path, content: str) -> Path:
    file.write_text(content, encoding="utf-8")
    return file


def test_words_with_tags(file: Path) -> None:
    write(file, "the/DT dog/NN barks/VBZ ./.\n\n  1\\/2/CD\tand\\/or/CC //SYM \\//NN a/b/JJ\r\n")
    corpus = Corpus.from_tags(file)
    assert corpus.forms == [["the", "dog", "barks"], ["1/2", "and/or", "/", "/", "a/b"]]
    assert corpus.tags == [["DT", "NN", "VBZ"], ["CD", "CC", "SYM", "NN", "JJ"]]
    assert corpus.heads is None
    assert [s.line for s in corpus] == [1, 3]
    assert [s.xpos[0] for s in corpus] == ["DT", "CD"]
    words = Corpus.from_tags(file, tags="form", punctuation="keep")
    assert words.tags[0] == ["the", "dog", "barks", "."]


def test_universal_tags(file: Path) -> None:
    write(file, "ja/INTJ !/PUNCT\n")
    corpus = Corpus.from_tags(file, tags="upos")
    assert corpus.tags == [["INTJ"]]
    assert [(s.upos, s.xpos) for s in corpus] == [(("INTJ",), ("_",))]
    # With the words as alphabet, the kind of the tags is not known; PUNCT is punctuation in any.
    assert Corpus.from_tags(file, tags="form").tags == [["ja"]]


def test_tags_alone(file: Path) -> None:
    corpus = Corpus.from_tags(write(file, "DT NN VBZ .\nNN\n"))
    assert corpus.tags == corpus.forms == [["DT", "NN", "VBZ"], ["NN"]]
    assert corpus.words.tolist() == [[corpus.vocab.index(t) for t in ("DT", "NN", "VBZ")], [0, -1, -1]]


def test_words_alone(file: Path) -> None:
    corpus = Corpus.from_tags(write(file, "You know .\n1\\/2\n"), tags="form", lowercase=True)
    # Words without tags are never punctuation.
    assert corpus.tags == [["you", "know", "."], ["1/2"]]
    assert corpus.forms == [["You", "know", "."], ["1/2"]]


@pytest.mark.parametrize(
    ("content", "line", "problem"),
    [
        ("a/DT b/NN\nc/VB d\n", 2, "the token 'd' has no tag, though others do; write d/TAG"),
        ("a\nb\nc/NN\n", 1, "the token 'a' has no tag"),
        ("a/NN /NN\n", 1, "the token '/NN' has no word before its last slash"),
        ("a/NN\n\nb/\n", 3, "the token 'b/' has no tag after its last slash"),
        ("", 1, "the file is empty"),
        ("./.\n", None, "1 sentence is only punctuation"),
    ],
)
def test_damage_is_named_with_its_line(file: Path, content: str, line: int | None, problem: str) -> None:
    with pytest.raises(CorpusError, match=problem) as caught:
        Corpus.from_tags(write(file, content))
    assert (caught.value.source, caught.value.line) == (str(file), line)
