# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Where lines come from: files, gzip files, standard input, pipes; and which format a text has."""

import bz2
import gzip
import hashlib
import io
import lzma
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from pipes_with_data import needs_pipes, piped

from pyrogram.data import Corpus, CorpusError, files, read_morphs, read_trees, read_utterances, streams
from pyrogram.data.conllu import read_conllu
from pyrogram.data.formats import format_of_file, format_of_lines

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


PACKERS = {
    "bzip2": bz2.compress(SENTENCE.encode()),
    "xz": lzma.compress(SENTENCE.encode()),
    "zip": b"PK\x03\x04" + SENTENCE.encode(),
    "zstd": b"\x28\xb5\x2f\xfd" + SENTENCE.encode(),
}


@pytest.mark.parametrize("packer", PACKERS)
def test_files_of_other_packers_are_named(packer: str, tmp_path: Path) -> None:
    path = tmp_path / "c"
    path.write_bytes(PACKERS[packer])
    for read in (Corpus.from_conllu, read_trees, format_of_file):
        with pytest.raises(CorpusError, match=f"c: this is a file of {packer}, and only gzip is unpacked; unpack it"):
            read(str(path))


def test_a_text_that_begins_like_a_packer(tmp_path: Path) -> None:
    (tmp_path / "c").write_text("BZh9 PK\n")
    assert Corpus.from_tags(tmp_path / "c", tags="xpos").tags == [["BZh9", "PK"]]


class Stdin:
    """A terminal's or pipe's: text with bytes below."""

    def __init__(self, data: bytes) -> None:
        self.buffer = io.BytesIO(data)


def test_standard_input_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", Stdin(SENTENCE.encode()))
    for _ in range(2):
        assert format_of_file("-") == "conllu"  # a look is no reading
    assert Corpus.from_conllu("-").forms == [["a", "b"]]
    for again in (Corpus.from_conllu, Corpus.from_tags, format_of_file):
        with pytest.raises(CorpusError, match="^standard input: this was read before, and can be read only once"):
            again("-")
    assert streams.digest("-") == hashlib.sha256(SENTENCE.encode()).hexdigest()
    monkeypatch.setattr("sys.stdin", Stdin(gzip.compress(TREE.encode())))
    assert format_of_file("-") == "brackets"
    assert [tree.leaves() for tree in read_trees("-")] == [["the", "dog", "barks"]]
    assert streams.digest("-") == hashlib.sha256(TREE.encode()).hexdigest()
    monkeypatch.setattr("sys.stdin", Stdin(b"x"))
    with pytest.raises(CorpusError, match="^standard input, line 1: expected the 10 columns"):
        Corpus.from_conllu("-")
    monkeypatch.setattr("sys.stdin", io.StringIO("DT NN\n"))
    assert format_of_file("-") == "tags"
    assert Corpus.from_tags("-").tags == [["DT", "NN"]]
    monkeypatch.setattr("sys.stdin", None)  # as under pythonw
    with pytest.raises(CorpusError, match="^standard input: the file cannot be read"):
        Corpus.from_tags("-")


@needs_pipes
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_pipe_is_read_once(pack: Callable[[bytes], bytes]) -> None:
    with piped(pack(SENTENCE.encode() * 9)) as path:
        assert format_of_file(path) == "conllu"
        corpus = Corpus.from_conllu(path, cache=True)
        assert len(corpus) == 9 and corpus[8].lines == (25, 26) and corpus[0].source == path
        with pytest.raises(CorpusError, match=f"^{path}: this was read before"):
            Corpus.from_conllu(path)
        assert streams.digest(path) == hashlib.sha256(SENTENCE.encode() * 9).hexdigest()


READ: dict[str, Callable[[Path], object]] = {
    "conllu": lambda path: [(*s.forms, *s.lines) for s in Corpus.from_conllu(path)],
    "records": lambda path: [(*s.forms, *s.lines) for s in read_conllu(str(path))],
    "brackets": lambda path: [(*s.forms, *s.lines) for s in Corpus.from_brackets(path)],
    "trees": lambda path: list(map(str, read_trees(path))),
    "tags": lambda path: [(*s.forms, *s.lines) for s in Corpus.from_tags(path)],
    "morphs": lambda path: list(read_morphs(path)),
    "utterances": lambda path: list(read_utterances(path)),
    "format": lambda path: format_of_file(str(path)),
}
TEXTS = {"brackets": TREE, "trees": TREE, "tags": "a/X b/Y\n", "morphs": "ab\ta b\n", "utterances": "a b\n"}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("reader", READ)
def test_files_put_together(reader: str, end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte order mark where a line begins is none of the text, wherever blocks end; elsewhere it is of a word."""
    path, text = tmp_path / "c", TEXTS.get(reader, "# c\n" + SENTENCE)
    path.write_text(text * 3, encoding="utf-8")
    expected = READ[reader](path)
    path.write_text(("\ufeff" + text).replace("\n", end) * 3, encoding="utf-8", newline="")
    assert READ[reader](path) == expected
    for size in range(3, 9):
        monkeypatch.setattr(streams, "_BLOCK", size)
        monkeypatch.setattr(files, "_PART", 2 * size)
        assert READ[reader](path) == expected
    path.write_text("a\ufeffb \ufeffc\n", encoding="utf-8")
    assert Corpus.from_tags(path).tags == [["a\ufeffb", "\ufeffc"]]


GOOD = SENTENCE.encode() * 3
CUT_OFF = "the gzip file is cut off or damaged"
FAULTS = [
    (GOOD + b"x\n", 10, "expected the 10 columns ID to MISC, actual 1"),
    (b"x\n" + GOOD + b"\xff", 11, "byte 0xff is not UTF-8"),
    (b"x\n" + GOOD + b"a\0", 11, "byte 0x00 is no text"),
    (GOOD + b"a\0\n\xe2\x82", 11, "byte 0xe2 is not UTF-8"),
    (b"", 1, "the file is empty"),
    (b" \r\n\n", 1, "the file is empty"),
    (GOOD + b"# c", 10, "the file ends after these comments"),
    (b"# c\n\n", 1, "the file ends after these comments"),
    (gzip.compress(b"x\n" + GOOD)[:-9], None, CUT_OFF),
    (gzip.compress(b"\xff\n" + GOOD)[:-1], None, CUT_OFF),
    (gzip.compress(GOOD + b"\0") + b"more", None, CUT_OFF),
]


@needs_pipes
@pytest.mark.parametrize(("data", "line", "problem"), FAULTS, ids=range(len(FAULTS)))
def test_first_errors_of_files_and_pipes(
    data: bytes, line: int | None, problem: str, in_small_parts: None, tmp_path: Path
) -> None:
    """That a file cannot be unpacked comes first, then that it is no text, wherever that is in it."""
    file = tmp_path / "f"
    file.write_bytes(data)
    with piped(data) as pipe:
        for path in (str(file), pipe):
            with pytest.raises(CorpusError, match=problem) as found:
                Corpus.from_conllu(path)
            assert (found.value.source, found.value.line) == (path, line)


LONG_AND_SHORT = {
    "conllu": (SENTENCE, "1\tc\t_\tVERB\tVB\t_\t0\t_\t_\t_\n\n"),
    "brackets": (TREE, "(VB c)\n"),
    "tags": ("the/DT dog/NN barks/VBZ\n", "c/VB\n"),
}


@pytest.mark.one_in(4)
@needs_pipes
@pytest.mark.parametrize("kind", LONG_AND_SHORT)
def test_a_pipe_is_never_in_memory(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 3 MB of sentences, all but the last are too long."""
    monkeypatch.setattr(streams, "_BLOCK", 1 << 14)
    monkeypatch.setattr(files, "_PART", 1 << 14)
    long, short = LONG_AND_SHORT[kind]
    data = (long * ((3 << 20) // len(long)) + short).encode()
    read = {"conllu": Corpus.from_conllu, "brackets": Corpus.from_brackets, "tags": Corpus.from_tags}[kind]
    with piped(data) as path:
        assert format_of_file(path) == kind
        tracemalloc.start()
        try:
            corpus = read(path, max_length=1)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert corpus.forms == [["c"]]
    assert peak < 2 << 20, peak


# Readers of other files than corpora: a good line, a bad one if there is any, and the words of the good one.
OTHERS = {
    "trees": (read_trees, TREE, "(S (NN a)))\n", lambda tree: tuple(tree.leaves()), ("the", "dog", "barks")),
    "morphs": (read_morphs, "saka\tsa ka\tvr\n", "a\n", tuple, ("sa", "ka")),
    "utterances": (read_utterances, "yu want\n", None, tuple, ("yu", "want")),
}


@needs_pipes
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize("kind", OTHERS)
def test_other_files_are_read_in_parts(
    kind: str, pack: Callable[[bytes], bytes], in_small_parts: None, tmp_path: Path
) -> None:
    """First errors are those of corpora: it cannot be unpacked, it is no text, and only then what is in a line."""
    read, good, bad, words, expected = OTHERS[kind]
    path, text = tmp_path / "f", good.encode() * 50
    path.write_bytes(pack(b"\xef\xbb\xbf" + text.replace(b"\n", b"\r\n")))
    assert [words(found) for found in read(path)] == [expected] * 50
    with piped(pack(text)) as pipe:
        assert [words(found) for found in read(pipe)] == [expected] * 50
        with pytest.raises(CorpusError, match=f"^{pipe}: this was read before"):
            read(pipe)
    bad = "" if bad is None else bad
    faults = [(bad + good * 50 + "\udcff", 51 + bool(bad), "byte 0xff is not UTF-8"), (" \n", 1, "the file is empty")]
    faults += [(good * 50 + bad + good * 50, 51, "expected|never opened")] if bad else []
    for fault, line, problem in faults:
        path.write_bytes(pack(fault.encode("utf-8", "surrogateescape")))
        with pytest.raises(CorpusError, match=problem) as error:
            read(path)
        assert error.value.line == line
    path.write_bytes(gzip.compress(bad.encode() + text)[:-9])
    with pytest.raises(CorpusError, match=CUT_OFF):
        read(path)


@pytest.mark.parametrize("kind", OTHERS)
def test_other_files_are_never_in_memory(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_BLOCK", 1 << 14)
    monkeypatch.setattr(files, "_PART", 1 << 14)
    read, good, _, _, _ = OTHERS[kind]
    path = tmp_path / "f"
    path.write_text((" " * 255 + "\n") * (1 << 14) + good)
    assert len(read(path)) == 1  # what reading imports is there
    tracemalloc.start()
    try:
        assert len(read(path)) == 1
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1 << 19, peak


def test_in_pieces_as_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_BLOCK", 5)
    path = tmp_path / "a"
    for data in (SENTENCE.encode(), gzip.compress(SENTENCE.encode()), b""):
        path.write_bytes(data)
        found = list(streams.blocks(str(path)))
        assert b"".join(found) == (gzip.decompress(path.read_bytes()) if data[:1] == b"\x1f" else data)
        assert max(map(len, found), default=0) <= 5
    path.write_bytes(gzip.compress(SENTENCE.encode() * 100)[:-9])
    for read in (streams.blocks, streams.beginning):
        with pytest.raises(CorpusError, match="cut off or damaged"):
            list(read(str(path)))


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
    assert format_of_lines(text.split("\n")) == expected


def test_other_formats_are_not_taken_for_tagged_text(tmp_path: Path) -> None:
    """They used to be read as tags, in silence."""
    path = tmp_path / "c.txt"
    path.write_text("\n" + SENTENCE)
    with pytest.raises(CorpusError, match="line 2: this is CoNLL-U, not tagged text; read it as that"):
        Corpus.from_tags(path)
    path.write_text(TREE)
    with pytest.raises(CorpusError, match="line 1: these are bracketed trees, not tagged text; read them as that"):
        Corpus.from_tags(path)
