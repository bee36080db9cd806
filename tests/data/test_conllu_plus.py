# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""CoNLL-U Plus: a first line names the columns, in any order; beside the same sentences in ten columns."""

import gzip
from collections.abc import Sequence
from pathlib import Path

import pytest
from column_oracle import outcome, records

from pyrogram.cli.io.corpora import format_of, read_whole
from pyrogram.cli.io.trees import dependency_text
from pyrogram.data import Corpus, CorpusError, conllu_columns
from pyrogram.data.conllu import Heads, read_conllu
from pyrogram.data.formats import format_of_file
from pyrogram.knowledge import read_treebanks

TEN = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")
ROWS = [
    "# sent_id = a",
    "1-2	del	_	_	_	_	_	_	_	_",
    "1	de	de	ADP	IN	_	3	case	_	HeadHint=3:1",
    "2	el	el	DET	DT	_	3	det	_	_",
    "3	mar abierto	mar	NOUN	NN	_	0	root	_	_",
    "3.1	x	_	_	_	_	_	_	_	_",
    "4	.	.	PUNCT	.	_	3	punct	_	_",
    "",
    "# a	tab",
    "1	sí	sí	INTJ	UH	_	0	root	_	_",
    "",
]


def plus(names: Sequence[str], first: str = "# global.columns = ") -> str:
    """The sentences with these columns; those that are none of the ten hold ``*``."""
    lines = [first + " ".join(names)]
    for row in ROWS:
        cells = dict(zip(TEN, row.split("\t"), strict=False))
        lines.append(row if not row or row[0] == "#" else "\t".join(cells.get(name, "*") for name in names))
    return "\n".join(lines) + "\n"


ORDERS = [TEN, ("ID", "FORM", "XPOS", "UPOS", "HEAD"), ("HEAD", "UPOS", "X:Y", "ID", "MISC", "FORM", "LEMMA"), ("ID",)]


@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.parametrize("heads", ["optional", "partial", "ignore"])
@pytest.mark.parametrize("names", ORDERS)
def test_columns_in_any_order(
    names: Sequence[str], heads: Heads, slow: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path, ten = tmp_path / "c.conllup", tmp_path / "ten.conllu"
    lines = ["#"]
    for row in ROWS:
        kept = [cell if name in names else "_" for name, cell in zip(TEN, row.split("\t"), strict=False)]
        lines.append(row if row[:1] in ("", "#") else "\t".join(kept))
    ten.write_text("\n".join(lines) + "\n")
    expected = [(r.forms, r.upos, r.xpos, r.heads, r.hints, r.lines) for r in read_conllu(str(ten), heads)]
    if slow:
        monkeypatch.setattr(conllu_columns._Reader, "_columns", _doubt)
    elif names[0] == "ID" and heads != "partial":  # hints, and rows of other beginnings, are read one by one
        monkeypatch.setattr(conllu_columns, "sentences_of", None)
    for content in (plus(names), plus(names, "\ufeff#global.columns=\t").replace("\n", "\r\n")):
        path.write_bytes(gzip.compress(content.encode()) if slow else content.encode())
        for read in (list(records(str(path), "conllu", heads=heads)), list(read_conllu(str(path), heads))):
            assert [(r.forms, r.upos, r.xpos, r.heads, r.hints, r.lines) for r in read] == expected
            assert read[0].sent_id == "a"


def _doubt(*_: object) -> None:
    raise conllu_columns.Doubt


def test_readers_of_files(tmp_path: Path) -> None:
    path = tmp_path / "xx-ud-train.conllup"
    path.write_text(plus(ORDERS[1]))
    for corpus in (Corpus.from_conllu(path), *read_treebanks([path]).values()):
        assert corpus.tags == [["ADP", "DET", "NOUN"], ["INTJ"]]
        assert [s.heads for s in corpus] == [(3, 3, 0), (0,)]
    assert list(read_treebanks([path])) == ["xx"] and list(read_treebanks([path.rename(tmp_path / "y.conllup")])) == [
        "y"
    ]
    other = tmp_path / "c.txt"
    other.write_text(plus(ORDERS[1]))
    assert format_of(tmp_path / "c.conllup") == format_of_file(str(other)) == "conllu"
    with pytest.raises(CorpusError, match="this is CoNLL-U, not tagged text"):
        Corpus.from_tags(other)


@pytest.mark.parametrize(
    ("content", "line", "problem"),
    [
        (plus(("FORM", "UPOS")), 1, "global.columns lacks ID; name every column once"),
        (plus(("id", "FORM")), 1, "global.columns lacks ID"),
        (plus(()), 1, "global.columns lacks ID"),
        (plus(("ID", "UPOS", "UPOS")), 1, "global.columns names UPOS twice"),
        (plus(("ID", "HEAD")).replace("4\t3", "4"), 8, "expected the 2 columns ID to HEAD, actual 1"),
        (plus(("ID", "HEAD")).replace("4\t3", "4\t9"), 8, "the head 9 of word 4 is out of range"),
        (plus(("ID", "XPOS")), 4, "the word '_' has no UPOS"),
        (plus(TEN) + plus(ORDERS[1]), 13, "global.columns names other columns than those of the first line"),
        ("\n" + plus(ORDERS[1]), 2, "global.columns names other columns than those of the first line"),
    ],
)
def test_what_is_wrong(content: str, line: int, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "c.conllup"
    path.write_text(content)
    with pytest.raises(CorpusError, match=problem) as caught:
        Corpus.from_conllu(path)
    assert (caught.value.source, caught.value.line) == (str(path), line)
    if "UPOS (_)" not in str(caught.value):
        assert outcome(lambda: records(str(path), "conllu"))[1:] == outcome(lambda: read_conllu(str(path)))[1:]


def test_heads_that_are_required(tmp_path: Path) -> None:
    path = tmp_path / "c.conllup"
    path.write_text(plus(("ID", "UPOS")))
    assert Corpus.from_conllu(path).heads is None
    with pytest.raises(CorpusError, match="c.conllup, line 4: the word has no head"):
        Corpus.from_conllu(path, heads="required")


def test_the_same_columns_twice(tmp_path: Path) -> None:
    path = tmp_path / "c.conllup"
    path.write_text(plus(ORDERS[1]) * 2)
    assert len(Corpus.from_conllu(path)) == 4


@pytest.mark.parametrize(
    "names", [TEN, ("ID", "FORM", "XPOS", "UPOS", "HEAD"), ("X:Y", "ID", "DEPREL", "UPOS", "HEAD")]
)
def test_parses_keep_the_columns(names: Sequence[str], tmp_path: Path) -> None:
    path = tmp_path / "c.conllup"
    path.write_text(plus(names))
    whole = read_whole(path, "auto", "upos", "ignore", keep_text=True)
    found = "".join(dependency_text(whole, [(0, 1, 2, 1), (0,)]))
    new = {"1": ("0", "root"), "2": ("1", "dep"), "3": ("2", "dep"), "4": ("1", "punct")}
    expected = []
    for line in path.read_text().split("\n"):
        cells = dict(zip(names, line.split("\t"), strict=False))
        if line[:1] not in ("", "#") and cells["ID"] in new:
            head, relation = new[cells["ID"]]
            cells |= {name: cell for name, cell in (("HEAD", head), ("DEPREL", relation)) if name in names}
            line = "\t".join(cells.values())
        expected.append(line)
    assert found == "\n".join(expected)


def test_parses_need_a_column_of_heads(tmp_path: Path) -> None:
    path = tmp_path / "c.conllup"
    path.write_text("\ufeff" + plus(("ID", "UPOS")))
    with pytest.raises(
        CorpusError, match="c.conllup, line 1: global.columns lacks HEAD, where trees are to be written"
    ):
        read_whole(path, "auto", "upos", "ignore", keep_text=True)
