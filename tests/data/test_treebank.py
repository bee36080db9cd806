# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Treebanks: what is read, which words are known, and the way from trees to a grammar and back."""

from collections import Counter
from pathlib import Path

import pytest
from nltk.tree import Tree

from pyrogram.data import Corpus
from pyrogram.data.records import CorpusError
from pyrogram.data.treebank import KnownWords, read_treebank, read_trees, signature
from pyrogram.grammars.cfg import CFG

TRAIN = """
( (S (NP-SBJ-1 (DT The) (NN dog)) (VP (VBD saw) (NP (-NONE- *T*-1)) (NP (DT a) (NN cat))) (. .)))
((S (NP (NNP Ann)) (VP (VBD saw) (NP (DT the) (NN dog))) (. .)))
(S (NP (NP (DT the) (NN cat)) (PP (IN of) (NP (NNP Bob))))
   (VP (VBD saw) (ADVP|PRT (RP up))) (. .))
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "train.mrg"
    file.write_text(TRAIN)
    return file


def test_traces_and_function_tags_go(path: Path) -> None:
    first, second, third = read_trees(path)
    assert first == Tree.fromstring("(S (NP (DT The) (NN dog)) (VP (VBD saw) (NP (DT a) (NN cat))) (. .))")
    assert second == Tree.fromstring("(S (NP (NNP Ann)) (VP (VBD saw) (NP (DT the) (NN dog))) (. .))")
    assert third[1][1].label() == "ADVP"


@pytest.mark.parametrize(
    "text, message",
    [
        ("(S (NN a)", "missing"),
        ("(S (NN a) b)", "'b' has siblings and no tag"),
        ("(S ((NN a)))", "without a label"),
        ("(S (-NONE- *))", "no words, only traces"),
        ("(S (NN a) (NP))", "is empty"),
    ],
)
def test_what_is_no_treebank(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "bad.mrg"
    file.write_text(text)
    with pytest.raises(CorpusError, match=message):
        read_trees(file)


@pytest.mark.parametrize(
    "form, first, expected",
    [
        ("walking", False, "UNK-ing"),
        ("Walking", True, "UNK-INIT-ing"),
        ("Smiths", False, "UNK-CAP-s"),
        ("IBM", False, "UNK-CAPS"),
        ("IBM", True, "UNK-INIT"),
        ("A", False, "UNK-CAP"),
        ("eBay", False, "UNK-MIX-y"),
        ("1987", False, "UNK-NUM"),
        ("mid-1987", False, "UNK-NUM-DASH"),
        ("well-known", False, "UNK-DASH"),
        ("ring", False, "UNK"),  # an ending needs three letters before it
        ("ties", False, "UNK-s"),
        ("nation", False, "UNK-ion"),
        ("%", False, "UNK"),
        ("Ährenfelds", False, "UNK-CAP-s"),
    ],
)
def test_signature(form: str, first: bool, expected: str) -> None:
    assert signature(form, first) == expected


def test_rare_words_become_classes() -> None:
    known = KnownWords([["the", "dog", "barked"], ["the", "cat", "walked"], ["the", "Dogs"]], min_class=2)
    assert known.words == {"the"}
    assert known.classes == {"UNK-ed", "UNK"}  # dog and cat are UNK themselves; UNK-CAP-s has one instance
    assert known(["the", "dog", "jumped", "Dogs", "1"]) == ["the", "UNK", "UNK-ed", "UNK", "UNK"]


def test_what_training_has_no_instance_of_is_a_class_that_it_has() -> None:
    known = KnownWords([["walked", "barked"], ["1", "the", "the"]], min_class=1)
    assert known.classes == {"UNK-ed", "UNK-NUM"}
    assert known(["dog", "7"]) == ["UNK-ed", "UNK-NUM"]


def test_one_class() -> None:
    known = KnownWords([["the", "dog"], ["the", "Dogs"]], signatures=False)
    assert known(["the", "dog", "1"]) == ["the", "UNK", "UNK"]


def test_all_words_known() -> None:
    known = KnownWords([["the", "dog"]], max_rare=0)
    assert known(["the", "dog"]) == ["the", "dog"]
    assert known(["cat"]) == ["UNK"]
    with pytest.raises(ValueError, match="max_rare >= 0"):
        KnownWords([], max_rare=-1)


def test_parts_share_a_vocabulary(path: Path, tmp_path: Path) -> None:
    test = tmp_path / "test.mrg"
    test.write_text("(S (NP (DT the) (NN bird)) (VP (VBD saw) (NP (NNP Ann))) (. .))")
    bank = read_treebank(path, test=test, min_class=1)
    (tree,) = bank.prepared("test")
    assert tree.leaves() == ["the", "UNK", "saw", "UNK-CAP", "."]
    assert tree.leaves() == bank.sentences("test")[0]
    assert bank.forms("test") == [["the", "bird", "saw", "Ann", "."]]
    assert bank.parts["test"][0].leaves() == ["the", "bird", "saw", "Ann", "."]  # the tree itself was not changed
    words = Counter(w for tree in bank.prepared("train") for w in tree.leaves())
    assert set(words) == bank.known.words | bank.known.classes


@pytest.mark.parametrize("markov_order", [None, 0, 1])
def test_the_way_back(path: Path, markov_order: int | None) -> None:
    """From trees to a grammar's derivations, and back to the original labels and words."""
    bank = read_treebank(path)
    grammar = CFG.from_trees(bank.prepared("train"), binarize=True, markov_order=markov_order)
    for tree, prepared in zip(bank.parts["train"], bank.prepared("train"), strict=True):
        derivation = grammar.derivation_of(prepared)
        assert all(len(grammar.rules[int(r)][1]) <= 2 for r in derivation)
        assert grammar.tree(tree.leaves(), derivation) == tree


def test_only_words_are_traces(tmp_path):
    """A phrase with the name of a trace keeps its words, here as in :func:`pyrogram.data.brackets.read_brackets`."""
    path = tmp_path / "t.mrg"
    path.write_text("(S (-NONE- (NN a)) (NP (-NONE- *)) (VB b))")
    (tree,) = read_trees(path)
    assert tree.leaves() == ["a", "b"] == Corpus.from_brackets(path).forms[0]
