# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Words of any Unicode come back from what is written, or are refused in one sentence, whatever the format."""

import json
import re
from pathlib import Path

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from nltk.tree import Tree

from pyrogram import DMV
from pyrogram.cli.runs.pcfg import grammar_text
from pyrogram.data import Corpus, CorpusError, Vocabulary
from pyrogram.data.brackets import bracketed, escaped, unescaped
from pyrogram.data.conllu import read_conllu
from pyrogram.data.export import conllu_text
from pyrogram.data.records import SentenceRecord
from pyrogram.data.treebank import read_trees
from pyrogram.grammars import CFG
from pyrogram.grammars.cfg_text import Word
from pyrogram.viz.charts import chart

# One word to a blank.
BRACKETS = "( ) :) (: [ {x} -LRB- -LRB LRB- -LRB) (LRB- -LRB-RRB- --RCB- :-RRB-".split()
MARKS = "\" ' ` `` # _ | / % -> [0.5] <!--<script> </script> * 0 = -NONE-".split()
ESCAPES = r"\ \/ \u \u0041 \u00a0 \\u0020 \u002dLRB- \u005c \U0001f415".split()
BLANKS = ["New York", "10\u00a0000", "\u00a0", "a\u2028b", "a\u3000", "\u0085", "\x1c", "\x0b", "a\u202fb", "\u2003x"]
LETTERS = ["\ufeffa", "\ufeff", "e\u0301", "\u200d", "\u202e", "\U0001f415", "\ufffd", "\u05d0\u05b8", "\x1b"]
WORDS = BRACKETS + BLANKS + ESCAPES + MARKS + LETTERS
# What no file of text, or no column of one, can hold.
UNHELD = ["", "\ud800", "a\udfff"]
UNHELD_BY_COLUMNS = [*UNHELD, "a\tb", "a\nb", "a\rb", "\0", " a", "a ", "a  b"]


def record(words: list[str]) -> SentenceRecord:
    none = ("_",) * len(words)
    return SentenceRecord(tuple(words), none, none, None, (1,) * len(words), "here")


@example("-LRB)")
@given(
    st.text(alphabet=st.sampled_from("()[]{}-LRSCB\\u0042d \u00a0\u2028\t\n\r\0x"), min_size=1) | st.text(min_size=1)
)
def test_escapes(word: str) -> None:
    written = escaped(word)
    assert not re.search(r"[\s()\0]", written)
    assert unescaped(written) == word


def test_escapes_are_those_of_the_treebank() -> None:
    """And what cannot be mistaken stays as it is, such as slashes, which the treebank has escaped itself."""
    names = {"(": "-LRB-", ")": "-RRB-", "[": "-LSB-", "]": "-RSB-", "{": "-LCB-", "}": "-RCB-", ":)": ":-RRB-"}
    assert {word: escaped(word) for word in names} == names
    plain = ["\\/", "*", "-", "LRB", "-lrb-", "\\x20", "\u200b", "e\u0301", "\ufeff"]
    assert list(map(escaped, plain)) == list(map(unescaped, plain)) == plain
    assert escaped("10\u00a0000") == "10\\u00a0000"
    assert escaped("-LRB-") == "\\u002dLRB-"
    assert escaped("\\") == "\\u005c"  # before ), nltk takes it for an escape
    assert unescaped("\\u0041\\ud800\\u00A0") == "\\u0041\\ud800\\u00A0"  # which escaped never writes


def test_trees(tmp_path: Path) -> None:
    file = tmp_path / "x.mrg"
    tree = Tree("S", [Tree("NN", [word]) for word in WORDS + UNHELD_BY_COLUMNS[len(UNHELD) :]])
    file.write_text(bracketed(tree) + "\n", encoding="utf-8")
    assert file.read_bytes().count(b"\n") == 1
    assert read_trees(file) == [tree]
    file.write_text(bracketed(Tree("S", [Tree("NN", [word]) for word in WORDS])) + "\n", encoding="utf-8")
    (forms,) = Corpus.from_brackets(file, punctuation="keep").forms
    assert list(forms) == WORDS
    for word in UNHELD:
        with pytest.raises(ValueError, match="the word '.*' cannot be written; words are not empty, without halves"):
            bracketed(Tree("NN", [word]))
    for label in ("A B", "A(", ")", "\u00a0"):
        with pytest.raises(ValueError, match="the label '.*' cannot be written; rename it, without brackets"):
            bracketed(Tree(label, ["a"]))


def test_conllu(tmp_path: Path) -> None:
    file = tmp_path / "x.conllu"
    file.write_text("".join(conllu_text([record(WORDS)], [None])), encoding="utf-8")
    (found,) = read_conllu(str(file))
    assert list(found.forms) == WORDS
    (forms,) = Corpus.from_conllu(file, tags="form", punctuation="keep").forms
    assert list(forms) == WORDS
    for word in UNHELD_BY_COLUMNS:
        with pytest.raises(CorpusError, match="CoNLL-U cannot hold '.*'"):
            list(conllu_text([record(["a", word])], [None]))
        with pytest.raises(CorpusError, match="is no symbol"):
            Corpus.from_sentences([["a", word]], tags="form")


def test_grammars() -> None:
    held = [word for word in WORDS if not ("'" in word and '"' in word)]
    rules = [("S", (Word(word), "S")) for word in held] + [("S", (Word("a"),))]
    grammar = CFG(rules)
    weights = grammar.initial_weights(grammar.encode([["a"]]), "uniform")
    assert CFG.from_string(grammar_text(grammar, weights)).rules == grammar.rules
    for word in ("'\"", "a\nb", "a\r"):
        with pytest.raises(ValueError, match="the terminal .* holds a line end or both kinds of quotes"):
            grammar_text(CFG([("S", (Word(word),))]), weights)


def test_vocabularies_and_pages() -> None:
    """JSON holds everything but halves of pairs; in a page of HTML, words cannot begin a script or end one."""
    vocab = Vocabulary.count(WORDS)
    assert Vocabulary.from_list(json.loads(json.dumps(vocab.to_list(), ensure_ascii=False).encode())) == vocab
    words = ["<!--<script>", "</script>"]
    dmv = DMV(2)
    trees = dmv.derivation(dmv.initial_weights(torch.tensor([[0, 1]]), "uniform"), torch.tensor([0, 1]))
    assert chart(trees, forms=words).page.count("<") == chart(trees, forms=["a", "b"]).page.count("<")
