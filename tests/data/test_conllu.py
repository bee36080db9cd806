# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Reading CoNLL-U: what is read, and what every kind of damage is called."""

import re
from pathlib import Path

import pytest

from pyrogram.data import Corpus, CorpusError, SentenceRecord, Vocabulary
from pyrogram.data.conllu import read_conllu


def row(i: object, form: str = "w", upos: str = "NOUN", xpos: str = "NN", head: object = 0) -> str:
    return f"{i}\t{form}\t_\t{upos}\t{xpos}\t_\t{head}\t_\t_\t_"


def text(*rows: str) -> str:
    return "\n".join(rows) + "\n\n"


GOOD = text(
    "# newdoc id = d",
    "# sent_id = d-1",
    "# text = vámonos al mar.",
    "#",
    "1-2\tvámonos\t_\t_\t_\t_\t_\t_\t_\t_",
    "1\tvamos\tir\tVERB\tVB\tMood=Imp|Tense=Pres\t0\troot\t0:root\t_",
    "2\tnos\tnosotros\tPRON\tPRP\tCase=Acc\t1\tobj\t1:obj\tSpaceAfter=No",
    "3-4\tal\t_\t_\t_\t_\t_\t_\t_\t_",
    "3\ta\ta\tADP\tIN\t_\t5\tcase\t_\t_",
    "3.1\tx\tx\tVERB\tVB\t_\t_\t_\t1:conj\t_",
    "4\tel\tel\tDET\tDT\t_\t5\tdet\t_\t_",
    "5\tmar\tmar\tNOUN\tNN\t_\t1\tobl\t_\tSpaceAfter=No",
    "6\t.\t.\tPUNCT\t.\t_\t1\tpunct\t_\t_",
) + text(row(1, "Sí", "INTJ", "UH"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "c.conllu"


def write(file: Path, content: str | bytes) -> Path:
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return file


def test_a_sentence_with_everything(file: Path) -> None:
    first, second = read_conllu(str(write(file, GOOD)))
    assert first == SentenceRecord(
        forms=("vamos", "nos", "a", "el", "mar", "."),
        upos=("VERB", "PRON", "ADP", "DET", "NOUN", "PUNCT"),
        xpos=("VB", "PRP", "IN", "DT", "NN", "."),
        heads=(0, 1, 5, 5, 1, 1),
        lines=(6, 7, 9, 11, 12, 13),
        source=str(file),
        sent_id="d-1",
    )
    assert first.line == 6
    assert (second.forms, second.heads, second.lines, second.sent_id) == (("Sí",), (0,), (15,), None)


@pytest.mark.parametrize(
    "variant",
    [
        GOOD.replace("\n", "\r\n").encode(),
        GOOD.replace("\n", "\r").encode(),
        b"\xef\xbb\xbf" + GOOD.encode(),
        b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode(),
        GOOD.rstrip("\n").encode(),
        b"\n\n" + GOOD.replace("\n\n", "\n \t\n\n").encode(),
    ],
    ids=["CRLF", "CR", "BOM", "BOM CRLF", "no end of line", "more empty lines"],
)
def test_line_ends_and_byte_order_mark(file: Path, variant: bytes) -> None:
    expected = Corpus.from_conllu(write(file, GOOD))
    actual = Corpus.from_conllu(write(file, variant))
    assert actual.forms == expected.forms == [["vamos", "nos", "a", "el", "mar"], ["Sí"]]
    assert actual.tags == expected.tags
    assert [s.heads for s in actual] == [(0, 1, 5, 5, 1), (0,)]
    assert [s.sent_id for s in actual] == ["d-1", None]


def test_unicode_separators_are_no_line_ends(file: Path) -> None:
    form = "a\x0bb\x0cc\x1cd\x85e\u2028f\u2029g\u00a0h i"
    (record,) = read_conllu(str(write(file, text(row(1, form)))))
    assert record.forms == (form,)


def test_underscore_as_a_word(file: Path) -> None:
    corpus = Corpus.from_conllu(write(file, text(row(1, "_"), row(2, "x", head=1))), tags="form")
    assert corpus.forms == [["_", "x"]]


TWO = text(row(1, "a"), row(2, "b", head=1))
DAMAGED = {
    "cycle": (
        TWO + text(row(1), row(2, head=4), row(3, head=2), row(4, head=3)),
        5,
        "the heads of words 2, 4, 3 form a cycle; one of them needs another head",
    ),
    "own head": (text(row(1), row(2, head=2)), 2, "word 2 is its own head; give it another"),
    "head too high": (TWO + text("# c", row(1), row(2, head=3)), 6, "the head 3 of word 2 is out of range"),
    "head negative": (text(row(1, head=-1)), 1, "the head '-1' is no integer from 0"),
    "head a word": (text(row(1), row(2, head="one")), 2, "the head 'one' is no integer from 0"),
    "head a fraction": (text(row(1), row(2, head="1.1")), 2, "the head '1.1' is no integer from 0"),
    "head endless": (text(row(1), row(2, head="9" * 5000)), 2, "is no integer from 0"),
    "head missing": (text(row(1), row(2, head="_")), 2, r"the word has no head \(_\)"),
    "two roots": (text(row(1), row(2, head=1), row(3)), 3, "words 1 and 3 both have head 0"),
    "no root": (text(row(1, head=2), row(2, head=1)), 1, "no word has head 0"),
    "id a word": (text(row(1), row("x", head=1)), 2, "'x' is no ID; IDs are integers"),
    "id a range backwards": (text(row(1), row("3-2")), 2, "range 3-2 must end after"),
    "id missing": (text(row(1), row("_", head=1)), 2, "expected the word with ID 2, actual ID _"),
    "ids with a gap": (text("# c", row(1), row(3, head=1)), 3, "expected the word with ID 2, actual ID 3"),
    "ids from 0": (text(row(0), row(1)), 1, "expected the word with ID 1, actual ID 0"),
    "no empty line": (text(row(1), row(1)), 2, "put an empty line between sentences"),
    "column lacking": (TWO + row(1)[:-2] + "\n", 4, "expected the 10 columns ID to MISC, actual 9"),
    "cut in a line": (TWO + text(row(1)) + "1\tha", 6, "actual 2; the line seems to be cut off"),
    "cut in a sentence": (
        TWO + text(row(1, head=3), row(2, head=1)),
        4,
        "the head 3 of word 1 is out of range",
    ),
    "cut after comments": (TWO + "# sent_id = 2\n# te", 4, "the file ends after these comments"),
    "one column more": (text(row(1) + "\t_"), 1, "actual 11"),
    "spaces for tabs": (text(row(1).replace("\t", "  ")), 1, "actual 1; separate them by tabs"),
    "two spaces": (text(row(1), row(2, "a  b", head=1)), 2, "column FORM has two spaces in a row"),
    "empty form": (text(row(1, "")), 1, "column FORM is empty"),
    "empty tag": (text(row(1), row(2, upos="", head=1)), 2, "column UPOS is empty"),
    "no UPOS": (text(row(1), row(2, "b", upos="_", head=1)), 2, r"the word 'b' has no UPOS \(_\)"),
    "no UPOS at all": (text(row(1, upos="_")), 1, "read the file with tags='xpos' or 'form'"),
    "only ranges": (TWO + text(row("1-2", head="_")), 4, "this sentence has no words"),
    "only comments": ("# a\n\n# b\n", 3, "the file ends after these comments"),
    "nothing": ("", 1, "the file is empty"),
    "nothing but space": (" \n\n\t\n", 1, "the file is empty"),
    "not UTF-8": (TWO.encode() + "1\tSí".encode("latin-1"), 4, "byte 0xed is not UTF-8; convert"),
    "not UTF-8, BOM": (b"\xef\xbb\xbf" + TWO.encode() + b"\xff\n", 4, "byte 0xff is not UTF-8; convert"),
    "only punctuation": (text(row(1, upos="PUNCT")) * 2, None, "2 sentences are only punctuation"),
    "blanks before a comment": (text(row(1)) + text("  # c", row(1)), 3, "blanks before #; a comment begins with #"),
    "a tab before a comment": (text("\t# c", row(1)), 1, "blanks before #; a comment begins with #"),
    "no ID": (text(row(1), row("", head=1)), 2, "column ID is empty"),
    "no ID, one column more": (text("\t" + row(1)), 1, "actual 11"),
    "blanks before an ID": (text(row(" 1")), 1, "column ID begins or ends with a space"),
    "blanks before a tag": (text(row(1, upos=" NOUN")), 1, "column UPOS begins or ends with a space"),
    "blanks after a form": (text(row(1, "w ")), 1, "column FORM begins or ends with a space"),
    "blanks before a head": (text(row(1, head=" 0")), 1, "column HEAD begins or ends with a space"),
    "id twice": (text(row(1), row(2, head=1), row(2, head=1)), 3, "expected the word with ID 3, actual ID 2"),
    "id endless": (text(row("9" * 5000)), 1, "'9{40}...' is no ID"),
    "id with a zero": (text(row("01")), 1, "'01' is no ID"),
    "id in other digits": (text(row("\u0661")), 1, "is no ID"),
    "id with a sign": (text(row("+1")), 1, "is no ID"),
    "range backwards": (text(row("2-1", head="_"), row(1), row(2, head=1)), 1, "range 2-1 must end after"),
    "range of one word": (text(row("1-1", head="_"), row(1)), 1, "range 1-1 must end after"),
    "range after its words": (
        text(row(1), row(2, head=1), row("1-2", head="_")),
        3,
        "range 1-2 must stand before word 1",
    ),
    "range too early": (
        text(row("2-3", head="_"), row(1), row(2, head=1), row(3, head=1)),
        1,
        "must stand before word 2",
    ),
    "range in a range": (
        text(row("1-3", head="_"), row(1), row("2-3", head="_"), row(2, head=1), row(3, head=1)),
        3,
        "range 2-3 begins inside of the range before it",
    ),
    "range twice": (text(row("1-2"), row("1-2"), row(1), row(2, head=1)), 2, "begins inside of the range before it"),
    "range too long": (text("# c", row("1-2", head="_"), row(1)), 2, "range 1-2 ends after the last word, 1"),
    "empty node too early": (text(row("1.1", head="_"), row(1)), 1, "empty node 1.1 must stand after word 1"),
    "empty node too late": (text(row(1), row(2, head=1), row("1.1", head="_")), 3, "must stand after word 1"),
    "empty node twice": (text(row(1), row("1.1"), row("1.1")), 3, "empty node 1.1 must come after 1.1"),
    "NUL": (TWO + text(row(1, "a\0b")), 4, "byte 0x00 is no text"),
    "UTF-16": (TWO.encode("utf-16-le"), 1, "byte 0x00 is no text"),
    "UTF-16 with a mark": (TWO.encode("utf-16"), 1, "byte 0xff is not UTF-8"),
    "a surrogate in UTF-8": (TWO.encode() + b"1\t\xed\xa0\x80\n", 4, "byte 0xed is not UTF-8"),
    "a mark of byte order inside": (text("\ufeff" + row(1)).replace("\ufeff", "\ufeff\ufeff"), 1, "is no ID"),
    "another format": ("<html>\n<p>hello</p>\n</html>\n", 1, "actual 1; separate them by tabs"),
}


@pytest.mark.parametrize(("content", "line", "problem"), DAMAGED.values(), ids=DAMAGED.keys())
def test_damage_is_named_with_its_line(file: Path, content: str | bytes, line: int | None, problem: str) -> None:
    with pytest.raises(CorpusError, match=problem) as caught:
        Corpus.from_conllu(write(file, content))
    message = str(caught.value)
    place = str(file) if line is None else f"{file}, line {line}"
    assert message.startswith(f"{place}: ")
    assert message.endswith(".") and "\n" not in message
    assert isinstance(caught.value, ValueError)
    # One sentence, that says what is wrong; and what to do.
    assert not re.search(r"\. [A-Z]", message.removeprefix(place))
    assert (caught.value.source, caught.value.line) == (str(file), line)


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="no.conllu: there is no such file; check the path"):
        Corpus.from_conllu(tmp_path / "no.conllu")
    with pytest.raises(CorpusError, match="this is a directory; name a file in it"):
        Corpus.from_conllu(tmp_path)
    with pytest.raises(CorpusError, match="the file cannot be read"):
        Corpus.from_conllu("a\0b")
    with pytest.raises(ValueError, match="expected at least one path"):
        Corpus.from_conllu([])


HEADLESS = text(row(1, head="_"), row(2, head="_"))


def test_heads_optional_required_ignored(file: Path, tmp_path: Path) -> None:
    write(file, HEADLESS)
    assert Corpus.from_conllu(file).heads is None
    assert Corpus.from_conllu(file, heads="ignore").heads is None
    with pytest.raises(CorpusError, match=r"c.conllu, line 1: the word has no head \(_\)"):
        Corpus.from_conllu(file, heads="required")

    other = write(tmp_path / "d.conllu", TWO)
    assert Corpus.from_conllu(other, heads="required").heads is not None
    assert Corpus.from_conllu([other, file], heads="ignore").words.shape == (2, 2)
    with pytest.raises(CorpusError, match="c.conllu, line 1: this sentence has no heads"):
        Corpus.from_conllu([other, file])

    wrong = write(tmp_path / "e.conllu", text(row(1, head="x"), row(2, head=7)))
    assert Corpus.from_conllu(wrong, heads="ignore").heads is None
    with pytest.raises(ValueError, match="expected heads to be one of 'required', 'optional', 'partial', 'ignore'"):
        Corpus.from_conllu(wrong, heads="maybe")  # type: ignore[arg-type]


def test_penn_tags_decide_where_there_are_no_universal_ones(file: Path) -> None:
    rows = [row(1, "$", "_", "$", 2), row(2, "5", "_", "CD", 0), row(3, ".", "_", ".", 2)]
    corpus = Corpus.from_conllu(write(file, text(*rows)), tags="xpos")
    assert corpus.tags == [["CD"]]
    assert [s.heads for s in corpus] == [(0,)]


def test_ranges_and_empty_nodes_in_their_places(file: Path) -> None:
    before, cells = row("0.1", head="_"), [row("1-2"), row(1), row("1.1"), row("1.3"), row(2, head=1), row("3-4")]
    write(file, text(before, *cells, row(3, head=1), row(4, head=1), row("4.10"), row("4.11")))
    (record,) = read_conllu(str(file))
    assert (len(record), record.lines) == (4, (3, 6, 8, 9))


def test_messages_cut_long_words_and_long_cycles_and_escape(file: Path) -> None:
    n = 5000
    circle = text(row(1), *(row(i, head=i + 1 if i < n else 2) for i in range(2, n + 1)))
    for content in (circle, text(row(1, head="x" * 10**6)), text(row("i" * 10**6))):
        with pytest.raises(CorpusError) as caught:
            Corpus.from_conllu(write(file, content))
        assert len(str(caught.value)) < len(str(file)) + 250
    with pytest.raises(CorpusError) as caught:
        Corpus.from_conllu(write(file, text(row(1), row(2, "\x1b]0;t\x07\x9b2J", upos="_", head=1))))
    assert "\\x1b]0;t\\x07\\x9b2J" in str(caught.value) and str(caught.value).isprintable()
    with pytest.raises(CorpusError) as caught:
        Corpus.from_conllu(file.parent / "\x1b[2J\n.conllu")
    assert str(caught.value).isprintable()


def test_the_same_as_another_reader(file: Path) -> None:
    """The library ``conllu`` reads good files as this one does."""
    import conllu

    write(file, GOOD)
    for sentence, record in zip(conllu.parse(GOOD), read_conllu(str(file)), strict=True):
        words = [token for token in sentence if isinstance(token["id"], int)]
        assert record.forms == tuple(token["form"] for token in words)
        assert record.heads == tuple(token["head"] for token in words)
        assert (record.upos, record.xpos) == tuple(tuple(token[k] for token in words) for k in ("upos", "xpos"))
        assert record.sent_id == sentence.metadata.get("sent_id")


CONJ = text(row(1, "a"), row(2, "and", "CONJ", "CC", 1), row(3, "b", head=1))


def test_conj_of_version_1_is_cconj(file: Path, tmp_path: Path) -> None:
    """Universal Dependencies 2 renamed CONJ to CCONJ; a vocabulary that has CONJ keeps it."""
    train = Corpus.from_conllu(write(tmp_path / "two.conllu", CONJ.replace("CONJ", "CCONJ")))
    test = Corpus.from_conllu(write(file, CONJ), vocab=train.vocab)
    assert test.tags == [["NOUN", "CCONJ", "NOUN"]] and test.num_unknown == 0
    assert test.words.tolist() == train.words.tolist()
    assert test.sentences[0].upos[1] == "CONJ" and "\tCONJ\t" in test.to_conllu()
    assert Corpus.from_conllu([file, tmp_path / "two.conllu"]).vocab.symbols == ("NOUN", "CCONJ")
    old = Corpus.from_conllu(file, vocab=Vocabulary(("NOUN", "CONJ"), (2, 1)))
    assert old.tags == [["NOUN", "CONJ", "NOUN"]]
    assert Corpus.from_conllu(file, tags="xpos").tags == [["NN", "CC", "NN"]]


def test_forms_missing_everywhere(file: Path) -> None:
    write(file, text(row(1, "_"), row(2, "_", head=1)))
    with pytest.raises(CorpusError, match=r"line 1: column FORM is empty \(_\) in the whole file"):
        Corpus.from_conllu(file, tags="form")
    assert len(Corpus.from_conllu(file)) == 1


PARTIAL = text(
    row(1, "a", "DET", head="_"), row(2, "b", head=3), row(3, ".", "PUNCT", ".", head="_"), row(4, "c", "VERB", head=0)
)


def test_heads_of_some_words(file: Path, tmp_path: Path) -> None:
    """Unknown ones are -1; a word below punctuation whose head is unknown has an unknown head itself."""
    corpus = Corpus.from_conllu([write(file, PARTIAL + HEADLESS), write(tmp_path / "d.conllu", TWO)], heads="partial")
    assert corpus.heads is None
    assert corpus.known_heads.tolist() == [[-1, -1, 0], [-1, -1, -1], [0, 1, -1]]
    kept = Corpus.from_conllu(file, heads="partial", punctuation="keep")
    assert kept.known_heads.tolist() == [[-1, 3, -1, 0], [-1, -1, -1, -1]]
    assert kept[1:].known_heads.tolist() == [[-1, -1]] and kept[[]].known_heads.shape == (0, 0)
    again = tmp_path / "again.conllu"
    kept.to_conllu(again)
    assert Corpus.from_conllu(again, heads="partial", punctuation="keep").known_heads.equal(kept.known_heads)
    whole = Corpus.from_conllu(tmp_path / "d.conllu", heads="partial")
    assert whole.heads is not None and whole.known_heads is whole.heads
    with pytest.raises(CorpusError, match="read what there is with heads='partial'"):
        Corpus.from_conllu(file)


@pytest.mark.parametrize(
    "heads, problem",
    [
        ((0, "_", 0), "words 1 and 3 both have head 0"),
        ((2, 1, "_"), "the heads of words 1, 2 form a cycle"),
        (("_", 2, "_"), "word 2 is its own head; give it another"),
        ((4, "_", "_"), "the head 4 of word 1 is out of range"),
        (("x", "_", "_"), "is no integer from 0"),
    ],
)
def test_partial_heads_that_are_no_part_of_a_tree(file: Path, heads: tuple[object, ...], problem: str) -> None:
    write(file, text(*(row(i, head=h) for i, h in enumerate(heads, 1))))
    with pytest.raises(CorpusError, match=problem):
        Corpus.from_conllu(file, heads="partial")
