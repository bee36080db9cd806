# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Many sentences at a time are read as one by one: the same sentences, and the same first error, of any file."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from column_oracle import contents, of_records, outcome
from column_oracle import records as read_records
from mutations import PIECES, as_file

from pyrogram.data import Corpus, CorpusError, conllu_columns
from pyrogram.data.conllu import Heads, read_conllu
from pyrogram.data.selection import Options

# Ranges, empty nodes, comments of all kinds, spaces inside of words, a cycle of comments that are no sentence.
VALID = """# newdoc id = d
# sent_id = d-1
# text = vámonos  al mar.
#
1-2\tvámonos\t_\t_\t_\t_\t_\t_\t_\t_
1\tvamos\tir\tVERB\tVB\tMood=Imp|Tense=Pres\t0\troot\t0:root\t_
2\tnos\tnosotros\tPRON\tPRP\tCase=Acc\t1\tobj\t1:obj\tSpaceAfter=No
# in between
3-4\tal\t_\t_\t_\t_\t_\t_\t_\t_
3\ta\ta\tADP\tIN\t_\t5\tcase\t_\t_
3.1\tx\tx\tVERB\tVB\t_\t_\t_\t1:conj\t_
3.2\tx\tx\tVERB\tVB\t_\t_\t_\t1:conj\t_
4\tel\tel\tDET\tDT\t_\t5\tdet\t_\t a  b
5\tmar\tmar\tNOUN\tNN\t_\t1\tobl\t_\tSpaceAfter=No
6\t.\t.\tPUNCT\t.\t_\t1\tpunct\t_\t_
# sent_id = later


# a comment alone

#sent_id=d-2
0.1\tx\t_\t_\t_\t_\t_\t_\t_\t_
1\tđi chơi\t_\tVERB\tVB\t_\t0\t_\t_\t_

# speaker = s
1\t"\t_\tPUNCT\t``\t_\t2\t_\t_\t_
2\tja\tja\tINTJ\tUH\t_\t0\t_\t_\t_
3\tdoch\tdoch\tCONJ\tRB\t_\t2\t_\t_\t_

# sent_id = é
"""
VALID += "".join(f"{i}\tw{i}\t_\tNOUN\tNN\t_\t{i - 1}\t_\t_\t_\n" for i in range(1, 13)) + "\n"
FIELDS = [
    "",
    "_",
    "0",
    "1",
    "2",
    "3",
    "5",
    "7",
    "01",
    "+1",
    "1_0",
    "-1",
    "1.0",
    "1-2",
    "2-3",
    "3-9",
    "1-1",
    "2.1",
    "4.1",
    "x",
]
FIELDS += [
    "5-6",
    "3.1",
    "03.1",
    "3.01",
    "a b",
    "a  b",
    " a",
    "a ",
    "PUNCT",
    "CONJ",
    "HeadHint=1:2",
    "headhint=1:2",
    "1" * 10,
    "\u00a0",
]
LINES = [
    "",
    " ",
    "\t",
    "\u00a0",
    "#",
    " #",
    "# sent_id = x ",
    "# sent_id =",
    "#\u00a0sent_id = y",
    "1\t_",
    VALID.split("\n")[5],
]


def mutated(rng: random.Random) -> bytes:
    """A field, a line, or some bytes changed, once or twice."""
    lines = VALID.split("\n")
    for _ in range(rng.choice([0, 1, 1, 1, 2])):
        at = rng.randrange(len(lines))
        columns = lines[at].split("\t")
        kind = rng.randrange(6)
        if kind < 3 and len(columns) > 1:
            columns[rng.choice([0, 0, 1, 2, 3, 4, 6, 6, 6, 9])] = rng.choice(FIELDS)
            lines[at] = "\t".join(columns)
        elif kind == 3:
            lines[at : at + rng.randrange(2)] = [rng.choice(LINES)]
        elif kind == 4:
            other = rng.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
        else:
            where = rng.randrange(len(lines[at]) + 1)
            lines[at] = lines[at][:where] + rng.choice(PIECES) + lines[at][where + rng.randrange(3) :]
    return as_file(rng, "\n".join(lines))


@pytest.fixture
def in_small_parts(in_small_parts: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts that are halved down to one sentence, besides."""
    monkeypatch.setattr(conllu_columns, "_SMALL", 100)


def records(path: str, heads: Heads) -> Iterator[Any]:
    return read_records(path, "conllu", heads=heads)


@pytest.mark.one_in(48)
@pytest.mark.filterwarnings("ignore:.*is no hint")  # of mutations of hints' keys
@pytest.mark.parametrize("heads", ["optional", "required", "partial", "ignore"])
def test_as_one_by_one(heads: Heads, tmp_path: Path) -> None:
    path, rng = tmp_path / "c.conllu", random.Random(f"parts {heads}")
    refused = 0
    for _ in range(250):
        path.write_bytes(mutated(rng))
        expected = outcome(lambda: read_conllu(str(path), heads))
        assert outcome(lambda: records(str(path), heads)) == expected, path.read_bytes()
        refused += len(expected) > 1
    assert 50 < refused < 225


@pytest.mark.one_in(4)
@pytest.mark.filterwarnings("ignore:.*is no hint")  # of mutations of hints' keys
@pytest.mark.parametrize("tags", ["upos", "xpos", "form"])
@pytest.mark.parametrize("part", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_first_errors_in_small_parts(tags: Any, part: int, in_small_parts: None, tmp_path: Path) -> None:
    """What is wrong with a later part of the file, or with its bytes, and with the tags of an earlier one."""
    path, rng = tmp_path / "c.conllu", random.Random(f"corpora {tags} {part}")
    for _ in range(100):
        path.write_bytes(mutated(rng))
        heads: Heads = rng.choice(["optional", "partial"])
        options = Options(tags, None, "remove", None, "most_frequent", False, heads == "partial")

        def at_once(heads: Heads = heads, options: Options = options) -> Any:
            return of_records(lambda: read_conllu(str(path), heads), str(path), options)

        def in_parts(heads: Heads = heads) -> Any:
            return contents(Corpus.from_conllu(path, tags=tags, heads=heads))

        assert outcome(in_parts) == outcome(at_once), path.read_bytes()


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("1-2\tvámonos", "1-3\tvámonos", "line 9: the range 3-4 begins inside of the range before it"),
        ("3-4\tal", "3-7\tal", "line 9: the range 3-7 ends after the last word"),
        ("3.2\tx", "3.1\tx", "line 12: the empty node 3.1 must come after 3.1"),
        ("\t1\tobl", "\t7\tobl", "line 14: the head 7 of word 5 is out of range"),
        ("\t1\tobl", "\t3\tobl", "line 10: the heads of words 3, 5 form a cycle"),
        ("\t1\tobl", "\t0\tobl", "line 14: words 1 and 5 both have head 0"),
        ("\t0\troot", "\t5\troot", "line 6: no word has head 0"),
        ("SpaceAfter=No", "HeadHint=1", "line 7: '1' is no hint"),
        ("vamos\tir", "vamos\t ir", "line 6: column LEMMA begins or ends with a space"),
    ],
)
def test_each_fault(old: str, new: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "c.conllu"
    assert VALID.count(old) >= 1
    path.write_text(VALID.replace(old, new, 1))
    expected = outcome(lambda: read_conllu(str(path), "partial"))
    assert problem in expected[1] and outcome(lambda: records(str(path), "partial")) == expected


def test_hints_are_read(tmp_path: Path) -> None:
    path = tmp_path / "c.conllu"
    path.write_text(VALID.replace("SpaceAfter=No", "HeadHint=1:0.5,3:-inf", 1))
    found = list(records(str(path), "partial"))
    assert found == list(read_conllu(str(path), "partial"))
    assert found[0].hints == ((), ((1, 0.5), (3, float("-inf"))), (), (), (), ())


def test_bytes_that_are_no_text_are_told_first(in_small_parts: None, tmp_path: Path) -> None:
    """As if the whole file was read before its first sentence."""
    path = tmp_path / "c.conllu"
    path.write_bytes(VALID.replace("VERB", "_").encode() * 3 + b"\xff")
    with pytest.raises(CorpusError, match="byte 0xff is not UTF-8"):
        Corpus.from_conllu(path)


def test_what_is_usual_is_read_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Ranges, empty nodes, unknown heads and carriage returns must not make reading slow."""
    path, expected = tmp_path / "c.conllu", None
    for end in ("\n", "\r\n"):
        for heads, text in (("optional", VALID), ("partial", VALID.replace("\t1\tobl", "\t_\tobl"))):
            path.write_bytes(text.replace("\n", end).encode())
            expected = list(read_conllu(str(path), heads))
            with monkeypatch.context() as patch:
                patch.setattr(conllu_columns, "sentences_of", None)
                assert list(records(str(path), heads)) == expected
    assert expected is not None and [r.sent_id for r in expected] == ["later", "d-2", None, "é"]


def test_one_strange_sentence_does_not_make_the_others_slow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "c.conllu"
    path.write_text(VALID * 50 + "1\ta\t_\tX\tX\t_\t00\t_\t_\t_\n\n" + VALID * 50)
    given: list[str] = []
    plain = conllu_columns.sentences_of

    def counted(path: str, number: int, lines: list[str], heads: Heads) -> Any:
        given.extend(lines)
        return plain(path, number, lines, heads)

    monkeypatch.setattr(conllu_columns, "sentences_of", counted)
    found = list(records(str(path), "optional"))
    assert found == list(read_conllu(str(path))) and len(found) == 401
    assert len("\n".join(given)) < conllu_columns._SMALL


def test_cycles_of_any_length(tmp_path: Path) -> None:
    path = tmp_path / "c.conllu"
    for n in range(2, 20):
        for length in range(1, n):  # of a cycle at the end of the sentence; the words before are a chain to the root
            heads = [0, *range(1, n)]
            heads[n - length] = n
            rows = [f"{i}\tw\t_\tX\tX\t_\t{h}\t_\t_\t_\n" for i, h in enumerate(heads, 1)]
            path.write_text("".join(rows) + "\n")
            expected = outcome(lambda: read_conllu(str(path)))
            assert "cycle" in expected[1] and outcome(lambda: records(str(path), "optional")) == expected
