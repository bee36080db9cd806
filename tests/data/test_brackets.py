# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Bracketed trees: splitting files, heads by rules, damage."""

from pathlib import Path

import nltk
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrogram.data import HEAD_RULES, Corpus, CorpusError, bracket_columns, head_child, read_trees
from pyrogram.data.brackets import read_brackets
from pyrogram.data.builtin import generate
from pyrogram.grammars import CFG
from pyrogram.metrics.constituents import parseval


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "t.mrg"


def write(file: Path, content: str) -> Path:
    file.write_text(content, encoding="utf-8")
    return file


WSJ = """
( (S
    (NP-SBJ-1 (DT The) (JJ big) (NN dog) )
    (ADVP-TMP|PRT (RB soon))
    (VP (MD will)
      (VP (VB want)
        (S (NP-SBJ (-NONE- *-1))
           (VP (TO to) (VP (VB see)
               (NP (NP (NNP Kim) (POS 's)) (CD two) (NNS cats))
               (PP-LOC=2 (IN in) (NP (NNP Rome))))))))
    (. .) ))
"""
# Positions:  1 The  2 big  3 dog  4 soon  5 will  6 want  7 to  8 see  9 Kim  10 's  11 two  12 cats  13 in
#            14 Rome  15 .
# S -> VP (will); NP -> dog; VP will -> will, its VP (want) below; S -> VP, VP -> VP (see), "to" below it;
# NP -> cats (rightmost noun or POS), whose child is the NP with head 's, Kim below that; PP -> in -> Rome.
WSJ_HEADS = (3, 3, 5, 5, 0, 5, 8, 6, 10, 12, 12, 8, 8, 13, 5)


def test_a_tree_of_the_treebank(file: Path) -> None:
    (record,) = read_brackets(str(write(file, WSJ)))
    assert " ".join(record.forms) == "The big dog soon will want to see Kim 's two cats in Rome ."
    assert " ".join(record.xpos) == "DT JJ NN RB MD VB TO VB NNP POS CD NNS IN NNP ."
    assert set(record.upos) == {"_"}
    assert record.heads == WSJ_HEADS
    assert set(record.lines) == {2}
    corpus = Corpus.from_brackets(file)
    assert corpus.forms == [list(record.forms[:-1])]
    assert [s.heads for s in corpus] == [WSJ_HEADS[:-1]]


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        ("(S (VB go))\n(S (VB sit))\n", [1, 2]),
        ("(S (VB go)) (S (VB sit))", [1, 1]),
        ("(S (VB go))(S\n(VB sit)\n)\n\n", [1, 1]),
        ("\n\n( (S (VB go)) )\r\n\r\n(S\n\n  (VB\nsit))\n", [3, 5]),
        ("\ufeff(VB go)\n((VB sit))", [1, 2]),
    ],
)
def test_one_or_many_to_a_line(file: Path, content: str, lines: list[int]) -> None:
    corpus = Corpus.from_brackets(write(file, content))
    assert corpus.forms == [["go"], ["sit"]]
    assert [s.line for s in corpus] == lines


# Top brackets without a label: the children of their roots, as nltk reads them, and the heads.
TOPS = {
    "( (S (NP (NN a)) (VP (VB b))) (S (VP (VB c))) )": (2, 3, 0),  # a label without rules has its head on the right
    "((NP (DT a) (NN b)) (. .))": (2, 0, 2),
    "( (NN a) (. .) (NN b) )": (3, 3, 0),
    "((S (VP (VB a))) (NP (-NONE- *)))": (0,),
    "( (S (NP (NN a)) (VP (VB b))) )": (2, 0),
}


@pytest.mark.parametrize("text", TOPS)
def test_top_brackets_without_a_label(file: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = nltk.Tree.fromstring(text, remove_empty_top_bracketing=True)
    words = [(word, tag) for word, tag in expected.pos() if tag != "-NONE-"]
    write(file, text.replace(" (", "\n (") + text)
    (read, again), records = read_trees(file), list(read_brackets(str(file)))
    assert read == again and read.pos() == words
    if "-NONE-" not in text:
        assert (read.label() or "TOP", list(read)) == (expected.label() or "TOP", list(expected))
    assert [(r.heads, list(zip(r.forms, r.xpos, strict=True))) for r in records] == [(TOPS[text], words)] * 2
    assert [r.line for r in records] == [1, text.count(" (") + 1]
    if words == expected.pos():  # the top is no bracket
        assert parseval([read], [expected])[-1].f1 in (None, 1.0)
    grammar = CFG.from_trees([read])
    assert grammar.tree(None, grammar.derivation_of(read)) == read
    monkeypatch.setattr(bracket_columns, "trees_of", None)
    corpus = Corpus.from_brackets(file, punctuation="keep")
    assert [s.heads for s in corpus] == [TOPS[text]] * 2


def test_traces_empty_phrases_and_punctuation(file: Path) -> None:
    write(file, "(S (NP-SBJ (-NONE- *)) (VP (VB go) (SBAR (-NONE- 0) (S (-NONE- *T*)))) (-LRB- -LRB-) (RB now))")
    (record,) = read_brackets(str(file))
    # Without traces, S has VP, -LRB- and RB; VP is the head. The word -LRB- is a parenthesis, its tag is not.
    assert (record.forms, record.xpos[1], record.heads) == (("go", "(", "now"), "-LRB-", (0, 1, 1))
    assert Corpus.from_brackets(file).forms == [["go", "now"]]


@pytest.mark.parametrize("label", ["VP", "VP-TPC", "VP=2", "VP|NP", "VP-TPC-1=2"])
def test_function_tags_do_not_count(file: Path, label: str) -> None:
    # VP takes its leftmost verb; a label without rules would take the rightmost child.
    write(file, f"(S ({label} (VBD ate) (NP (NN soup))))")
    assert [s.heads for s in Corpus.from_brackets(file)] == [(0, 1)]


def test_punctuation_is_no_head(file: Path) -> None:
    # QP looks for its head from the right: 10; the currency sign is none although it comes last.
    write(file, "(NP (QP (CD 5) (TO to) (CD 10) ($ $)) (, ,))")
    (record,) = read_brackets(str(file))
    assert record.heads == (3, 3, 0, 3, 3)
    # A phrase that is all punctuation has one of its own as head, here the rightmost.
    write(file, "(S (VP (VB go)) (PRN (: --) (. !)))")
    (record,) = read_brackets(str(file))
    assert record.heads == (0, 3, 1)


@pytest.mark.parametrize(
    ("phrase", "children", "head"),
    [
        ("NP", "DT JJ NN NN PP", 3),  # rightmost noun
        ("NP", "NP CC NP", 2),
        ("NP", "DT JJ", 1),
        ("NP", "DT JJR JJ", 1),  # JJR before JJ
        ("PP", "IN IN NP", 0),
        ("PP", "RB NP", 0),  # no group: leftmost
        ("VP", "ADVP VBN PP VB", 1),
        ("VP", "TO VP", 1),
        ("VP", "MD RB VP", 0),
        ("S", "NP VP NP", 1),
        ("S", "S CC S", 2),
        ("SBAR", "IN S", 0),
        ("SBAR", "WHNP S", 0),
        ("ADJP", "RB JJ PP", 1),
        ("ADJP", "ADVP JJ", 0),
        ("QP", "IN CD", 0),
        ("INTJ", "UH UH", 1),
        ("FRAG", "NP PP", 0),
        ("UNHEARD-OF", "A B C", 2),
    ],
)
def test_head_rules(phrase: str, children: str, head: int) -> None:
    assert head_child(phrase, children.split()) == head


def test_rules_exist_for_the_phrases_of_the_treebank() -> None:
    phrases = "ADJP ADVP CONJP FRAG INTJ LST NAC NP NX PP PRN PRT QP RRC S SBAR SBARQ SINV SQ UCP VP WHADJP "
    assert set((phrases + "WHADVP WHNP WHPP X").split()) == set(HEAD_RULES)


labels = st.sampled_from(["NP", "VP", "S", "PP", "QP", "PRN"])
words = st.tuples(st.sampled_from(["NN", "VB", "IN", ",", "CD"]), st.sampled_from("abc")).map(
    lambda pair: nltk.Tree(pair[0], [pair[1]])
)
phrases = st.recursive(
    words, lambda inner: st.builds(nltk.Tree, labels, st.lists(inner, min_size=1, max_size=3)), max_leaves=9
)


@given(phrases)
def test_heads_are_a_projective_tree_over_the_leaves(tmp_path_factory: pytest.TempPathFactory, tree: nltk.Tree) -> None:
    file = tmp_path_factory.mktemp("t") / "t.mrg"
    write(file, tree.pformat(margin=20))
    corpus = Corpus.from_brackets(file, punctuation="keep")
    assert corpus.forms == [tree.leaves()]
    assert corpus.tags == [[tag for _, tag in tree.pos()]]
    assert corpus.num_nonprojective() == 0


def test_rules_agree_with_the_heads_of_the_builtin_corpus(file: Path) -> None:
    made = generate(300, 0)
    corpus = Corpus.from_brackets(write(file, "\n".join(s.brackets for s in made)))
    assert [s.heads for s in corpus] == [s.heads for s in made]
    assert corpus.tags == [list(s.tags) for s in made]


def test_universal_tags(file: Path) -> None:
    write(file, "(S (NP (DET the) (NOUN dog)) (VP (VERB barks)) (PUNCT !))")
    corpus = Corpus.from_brackets(file, tags="upos")
    assert corpus.tags == [["DET", "NOUN", "VERB"]]
    assert [(s.upos, set(s.xpos)) for s in corpus] == [(("DET", "NOUN", "VERB"), {"_"})]


GOOD = "(S (VB go))\n"
DAMAGED = {
    "never closed": (
        GOOD + "(S (NP (NN a))\n",
        2,
        "the tree that starts here does not end: a bracket is missing",
    ),
    "twice not closed": (GOOD + "\n(S (NP (NN a)", 3, "2 brackets are missing"),
    "never opened": (GOOD + "\n(S (NN a)))\n", 3, "a bracket closes that was never opened"),
    "text outside": (GOOD + "hello (S (NN a))", 2, r"text outside of the brackets \('hello'\)"),
    "text after": (GOOD + "(S (NN a)) hello", 2, r"text outside of the brackets \('hello'\)"),
    "other text": ("hello\n", 1, "text outside of the brackets"),
    "word without tag": (GOOD + "(S (NP the (NN dog)))", 2, r"\(NP ...\) holds 'the' beside others"),
    "two words": (GOOD + "(S (NP the dog))", 2, r"\(NP ...\) holds 'the' beside others; write \(NN the\)"),
    "word without label": (GOOD + "(S ( (dog)))", 2, "without a label|is empty|has no tag"),
    "empty phrase": (GOOD + "(S (NP) (VB go))", 2, r"the bracket \(NP\) is empty"),
    "nothing in it": (GOOD + "()", 2, "without a label|is empty"),
    "one in another": (GOOD + "(S (VB a) ( (S (VB go)))\n)", 2, "there is a phrase without a label"),
    "only traces": (GOOD + "(S (-NONE- *))", 2, "this tree has no words, only traces"),
    "nothing": ("", 1, "the file is empty"),
    "only punctuation": ("(S (. .))\n(S (, ,))", None, "2 sentences are only punctuation"),
    "too deep": (GOOD + "(S " * 5000 + "(NN a)" + ")" * 5000, 2, "nested more than 250 deep"),
}


def test_as_deep_as_allowed(file: Path) -> None:
    write(file, "(S " * 249 + "(NN a)" + ")" * 249)
    assert Corpus.from_brackets(file).forms == [["a"]]


@pytest.mark.parametrize(("content", "line", "problem"), DAMAGED.values(), ids=DAMAGED.keys())
def test_damage_is_named_with_its_line(file: Path, content: str, line: int | None, problem: str) -> None:
    with pytest.raises(CorpusError, match=problem) as caught:
        Corpus.from_brackets(write(file, content))
    assert (caught.value.source, caught.value.line) == (str(file), line)
    assert "\n" not in str(caught.value)
