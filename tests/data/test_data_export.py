# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Trees out: CoNLL-U that reads back, and graphs."""

import io
import os
from pathlib import Path

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pyrogram.data import Corpus
from pyrogram.data.conllu import read_conllu
from pyrogram.data.export import conllu_text, replace_trees

CORPUS = Corpus.from_sentences(
    [["DT", "NN", "VBZ"], ["VB"]], forms=[["the", "dog", "barks"], ["go"]], heads=[[2, 3, 0], [0]]
)
TEXT = (
    "1\tthe\t_\t_\tDT\t_\t2\t_\t_\t_\n"
    "2\tdog\t_\t_\tNN\t_\t3\t_\t_\t_\n"
    "3\tbarks\t_\t_\tVBZ\t_\t0\t_\t_\t_\n"
    "\n"
    "1\tgo\t_\t_\tVB\t_\t0\t_\t_\t_\n"
    "\n"
)


def test_text() -> None:
    assert CORPUS.to_conllu() == TEXT


def test_path_and_file(tmp_path: Path) -> None:
    path = tmp_path / "out.conllu"
    path.write_text("old")
    CORPUS.to_conllu(path)
    assert path.read_bytes() == TEXT.encode()
    assert os.listdir(tmp_path) == ["out.conllu"]
    file = io.StringIO()
    CORPUS.to_conllu(file)
    assert file.getvalue() == TEXT


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out.conllu"
    path.write_text("old")

    def fail(descriptor: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        CORPUS.to_conllu(path)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["out.conllu"]


def test_predicted_heads() -> None:
    # More padding than needed, as a parser of larger batches gives; and no tree.
    text = CORPUS.to_conllu(heads=torch.tensor([[0, 0, 1, -1], [0, -1, -1, -1]]))
    assert [line.split("\t")[6] for line in text.split("\n") if line] == ["0", "0", "1", "0"]


@pytest.mark.parametrize(
    "heads",
    [
        [[2, 3, 0]],
        [[2, 3], [0, -1]],
        [[2, 4, 0], [0, -1, -1]],
        [[2, 3, -1], [0, -1, -1]],
        [[2, 3, 0], [0, 1, -1]],
        [[2, 3, 0], [2, -1, -1]],
        [[2.0, 3.0, 0.0], [0.0, -1.0, -1.0]],
    ],
)
def test_heads_that_do_not_fit(heads: list[list[float]]) -> None:
    with pytest.raises(ValueError, match="expected heads"):
        CORPUS.to_conllu(heads=torch.tensor(heads))


def test_without_heads(tmp_path: Path) -> None:
    corpus = Corpus.from_sentences([["DT", "NN"]])
    corpus.to_conllu(tmp_path / "a.conllu")
    text = (tmp_path / "a.conllu").read_text()
    assert text == "1\tDT\t_\t_\tDT\t_\t_\t_\t_\t_\n2\tNN\t_\t_\tNN\t_\t_\t_\t_\t_\n\n"
    assert Corpus.from_conllu(tmp_path / "a.conllu", tags="xpos").heads is None


characters = st.characters(exclude_categories=["Cs"], exclude_characters="\0\t\n\r")
tokens = st.text(characters, min_size=1, max_size=4).filter(lambda s: "  " not in s and s == s.strip(" "))


@st.composite
def rows(draw: st.DrawFn) -> tuple[list[str], list[str], list[str], list[int]]:
    """Forms, UPOS, XPOS and a tree that need not be projective."""
    n = draw(st.integers(1, 6))
    order = draw(st.permutations(range(1, n + 1)))
    heads = [0] * n
    for i, c in enumerate(order[1:], 1):
        heads[c - 1] = order[draw(st.integers(0, i - 1))]
    tags = st.lists(st.sampled_from(["NOUN", "VERB", "PUNCT", "X"]), min_size=n, max_size=n)
    return draw(st.lists(tokens, min_size=n, max_size=n)), draw(tags), draw(tags), heads


@settings(max_examples=50)
@given(st.lists(rows(), min_size=1, max_size=4), st.booleans())
def test_round_trip(
    tmp_path_factory: pytest.TempPathFactory, sentences: list[tuple[list[str], ...]], named: bool
) -> None:
    folder = tmp_path_factory.mktemp("round")
    first = ""
    for number, (forms, upos, xpos, heads) in enumerate(sentences):
        if named:
            first += f"# sent_id = s-{number}\n"
        for i, (form, u, x, h) in enumerate(zip(forms, upos, xpos, heads, strict=True), 1):
            first += f"{i}\t{form}\tlemma\t{u}\t{x}\tA=b\t{h}\tdep\t_\tC=d\n"
        first += "\n"
    (folder / "1.conllu").write_text(first, encoding="utf-8", newline="\n")
    corpus = Corpus.from_conllu(folder / "1.conllu", punctuation="keep", tags="xpos")
    for record, (forms, upos, xpos, heads) in zip(corpus, sentences, strict=True):
        assert [list(record.forms), list(record.upos), list(record.xpos)] == [forms, upos, xpos]
        assert list(record.heads or ()) == heads
    corpus.to_conllu(folder / "2.conllu")
    second = Corpus.from_conllu(folder / "2.conllu", punctuation="keep", tags="xpos")
    assert torch.equal(second.words, corpus.words)
    assert second.heads is not None and corpus.heads is not None
    assert torch.equal(second.heads, corpus.heads)
    assert [(s.forms, s.upos, s.xpos, s.sent_id) for s in second] == [
        (s.forms, s.upos, s.xpos, s.sent_id) for s in corpus
    ]
    assert second.to_conllu() == corpus.to_conllu() == (folder / "2.conllu").read_bytes().decode()


def test_graph() -> None:
    tree = CORPUS.to_networkx(0)
    assert sorted(tree.nodes) == [0, 1, 2, 3]
    assert sorted(tree.edges) == [(0, 3), (2, 1), (3, 2)]
    assert tree.nodes[2] == {"form": "dog", "tag": "NN"}
    assert nx.is_arborescence(tree)
    predicted = CORPUS.to_networkx(0, heads=torch.tensor([0, 1, 1, -1]))
    assert sorted(predicted.edges) == [(0, 1), (1, 2), (1, 3)]
    assert sorted(CORPUS.to_networkx(-1).edges) == [(0, 1)]
    with pytest.raises(ValueError, match="expected heads"):
        CORPUS.to_networkx(1, heads=torch.tensor([0, 1]))
    with pytest.raises(ValueError, match="expected a corpus with heads"):
        Corpus.from_sentences([["N"]]).to_networkx(0)


# Multiword ranges, an empty node, comments, features, a line separator in a word.
RICH = """# newdoc
# sent_id = 1
# text = vámonos al mar.
1-2\tvámonos\t_\t_\t_\t_\t_\t_\t_\tOwn=Yes
1\tvamos\tir\tVERB\tV\tMood=Imp|Number=Plur\t{0}\t{1}\t0:root\t_
2\tnos\tnosotros\tPRON\tP\t_\t{2}\t{3}\t1:obj\t_
2.1\tfuimos\tir\tVERB\t_\t_\t_\t_\t1:conj\tCopyOf=1
3-4\tal\t_\t_\t_\t_\t_\t_\t_\t_
3\ta\ta\tADP\tE\t_\t{4}\t{5}\t_\t_
4\tel\u2028\tel\tDET\tD\t_\t{6}\t{7}\t_\tA=1|B=2
5\t.\t.\tPUNCT\tF\t_\t{8}\t{9}\t_\tSpaceAfter=No

# of marks alone
1\t...\t...\tPUNCT\tF\t_\t{10}\t{11}\t_\t_

"""
BEFORE = [0, "root", 1, "obj", 4, "case", 1, "obl", 1, "punct", 0, "root"]
AFTER = [2, "dep", 0, "root", 2, "dep", 3, "dep", 2, "punct", 0, "root"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("first", ["", "\ufeff"])
def test_replaced_trees_leave_all_else(end: str, first: str, tmp_path: Path) -> None:
    text = first + RICH.format(*BEFORE).replace("\n", end)
    path = tmp_path / "a.conllu"
    path.write_bytes(text.encode())
    records = list(read_conllu(str(path), "ignore"))
    heads = [(2, 0, 2, 3, 2), (0,)]
    for size in (1, 7, 1000):
        pieces = [text.encode()[i : i + size] for i in range(0, len(text.encode()), size)]
        assert "".join(replace_trees(pieces, records, heads)) == first + RICH.format(*AFTER).replace("\n", end)


def test_the_last_sentence_ends(tmp_path: Path) -> None:
    """The standard and CoNLL's evaluation want an empty line after the last sentence; nothing else is added."""
    whole = RICH.format(*BEFORE)
    path = tmp_path / "a.conllu"
    for cut in (1, 2):
        path.write_text(whole[:-cut])
        records = list(read_conllu(str(path), "ignore"))
        replaced = replace_trees([whole[:-cut].encode()], records, [(2, 0, 2, 3, 2), (0,)])
        assert "".join(replaced) == RICH.format(*AFTER)


def test_text_with_relations() -> None:
    heads = [(2, 3, 0), (0,)]
    text = "".join(conllu_text(CORPUS.sentences, heads, with_relations=True))
    assert [line.split("\t")[7] for line in text.split("\n") if line] == ["dep", "dep", "root", "root"]
    assert [line.split("\t")[6] for line in text.split("\n") if line] == ["2", "3", "0", "0"]
