# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Where lines come from: files, gzip files, standard input, pipes; and which format a text has."""

import gzip
import io
import os
import threading
from pathlib import Path

import pytest

from pyrogram.data import Corpus, CorpusError, files, read_trees
from pyrogram.data.files import read_lines
from pyrogram.data.formats import format_of_text

SENTENCE = "1\ta\t_\tDET\tDT\t_\t2\t_\t_\t_\n2\tb\t_\tNOUN\tNN\t_\t0\t_\t_\t_\n\n"
TREE = "(S (NP (DT the) (NN dog)) (VP (VBZ barks)))\n"


@pytest.mark.parametrize("name", ["c.conllu.gz", "c.conllu"])
def test_gzip_whatever_its_name(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(SENTENCE.encode()) + gzip.compress(SENTENCE.encode()))
    assert Corpus.from_conllu(path).forms == [["a", "b"], ["a", "b"]]
    path.write_text(SENTENCE)
    assert Corpus.from_conllu(path).forms == [["a", "b"]]


def test_damaged_gzip(tmp_path: Path) -> None:
    path, whole = tmp_path / "c.gz", gzip.compress(SENTENCE.encode() * 50)
    damaged = [whole[:n] for n in range(2, len(whole))]
    damaged += [whole[:20] + b"\xff" * 8 + whole[28:], whole + b"more", whole[:-1] + bytes([whole[-1] ^ 1])]
    for data in damaged:
        path.write_bytes(data)
        with pytest.raises(CorpusError, match="c.gz: the gzip file is cut off or damaged"):
            Corpus.from_conllu(path)


class Stdin:
    """A terminal's or pipe's: text with bytes below."""

    def __init__(self, data: bytes) -> None:
        self.buffer = io.BytesIO(data)


def test_standard_input_may_be_read_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", Stdin(SENTENCE.encode()))
    for _ in range(2):
        assert Corpus.from_conllu("-").forms == [["a", "b"]]
    monkeypatch.setattr("sys.stdin", Stdin(gzip.compress(TREE.encode())))
    assert [tree.leaves() for tree in read_trees("-")] == [["the", "dog", "barks"]]
    monkeypatch.setattr("sys.stdin", Stdin(b"x"))
    with pytest.raises(CorpusError, match="^standard input, line 1: expected the 10 columns"):
        Corpus.from_conllu("-")
    monkeypatch.setattr("sys.stdin", io.StringIO("DT NN\n"))
    assert Corpus.from_tags("-").tags == [["DT", "NN"]]
    monkeypatch.setattr("sys.stdin", None)  # as under pythonw
    with pytest.raises(CorpusError, match="^standard input: the file cannot be read"):
        Corpus.from_tags("-")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
def test_a_pipe_may_be_read_twice(tmp_path: Path) -> None:
    """As of ``<(zcat file)``: the second time there would be nothing in it."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_text(SENTENCE))
    writer.start()
    assert [read_lines(str(pipe)) for _ in range(2)] == [SENTENCE.split("\n")] * 2
    writer.join()


def test_in_pieces_as_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_BLOCK", 5)
    path = tmp_path / "a"
    for data in (SENTENCE.encode(), gzip.compress(SENTENCE.encode()), b""):
        path.write_bytes(data)
        assert b"".join(files.blocks(str(path))) == files.read_bytes(str(path))
    path.write_bytes(gzip.compress(SENTENCE.encode() * 100)[:-9])
    with pytest.raises(CorpusError) as expected:
        files.read_bytes(str(path))
    with pytest.raises(CorpusError, match="cut off or damaged") as found:
        list(files.blocks(str(path)))
    assert str(found.value) == str(expected.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (SENTENCE, "conllu"),
        ("\n# text = a\n\n" + SENTENCE, "conllu"),
        (SENTENCE.replace("1\ta", "1-2\tab\t_\t_\t_\t_\t_\t_\t_\t_\n1\ta"), "conllu"),
        (TREE, "brackets"),
        ("\n( (S\n (NP (DT the)\n", "brackets"),
        ("DT NN VBZ\n", "tags"),
        ("the/DT dog/NN\n", "tags"),
        ("(/( dog/NN )/)\n", "tags"),
        ("( NN )\n", "tags"),
        ("# a comment, or a currency sign\n", "tags"),
        ("1 a b c\n", "tags"),
    ],
)
def test_the_format_of_a_text(text: str, expected: str) -> None:
    assert format_of_text(text.split("\n")) == expected


def test_other_formats_are_not_taken_for_tagged_text(tmp_path: Path) -> None:
    """They used to be read as tags, in silence."""
    path = tmp_path / "c.txt"
    path.write_text("\n" + SENTENCE)
    with pytest.raises(CorpusError, match="line 2: this is CoNLL-U, not tagged text; read it as that"):
        Corpus.from_tags(path)
    path.write_text(TREE)
    with pytest.raises(CorpusError, match="line 1: these are bracketed trees, not tagged text; read them as that"):
        Corpus.from_tags(path)
