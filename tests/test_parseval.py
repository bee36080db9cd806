# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""PARSEVAL on examples worked by hand."""

from collections import Counter

import pytest
from nltk.tree import Tree

from pyrogram.parseval import Conventions, brackets, parseval


def tree(text: str) -> Tree:
    return Tree.fromstring(text)


GOLD = "(S (NP (DT the) (NN dog)) (VP (VBD saw) (NP (DT a) (NN cat)) (PP (IN in) (NP (NN town)))) (. .))"
# PP inside the object: one bracket more, S NP VP NP PP NP right
NESTED = "(S (NP (DT the) (NN dog)) (VP (VBD saw) (NP (NP (DT a) (NN cat)) (PP (IN in) (NP (NN town))))) (. .))"


def test_brackets_leave_out_tags_and_punctuation() -> None:
    expected = {("S", 0, 7): 1, ("NP", 0, 2): 1, ("VP", 2, 7): 1, ("NP", 3, 5): 1, ("PP", 5, 7): 1, ("NP", 6, 7): 1}
    assert brackets(tree(GOLD)) == Counter(expected)


def test_one_bracket_too_many() -> None:
    """6 of 7 predicted are right, all 6 of gold are found; the additional NP crosses nothing."""
    (row,) = parseval([tree(NESTED)], [tree(GOLD)], bins=[None])
    assert row.precision == pytest.approx(6 / 7)
    assert row.recall == 1.0
    assert row.f1 == pytest.approx(12 / 13)
    assert row.unlabelled_precision == pytest.approx(6 / 7)
    assert (row.exact, row.crossing, row.no_crossing, row.tagging) == (0.0, 0.0, 1.0, 1.0)


def test_crossing_brackets() -> None:
    """[saw a] and [cat in] cross; each predicted bracket counts once, however many it crosses."""
    predicted = "(S (NP (DT the) (NN dog)) (X (X (VBD saw) (DT a)) (X (NN cat) (IN in)) (NN town)) (. .))"
    (row,) = parseval([tree(predicted)], [tree(GOLD)], bins=[None])
    # predicted: S, NP, X 2-7, X 2-4, X 4-6; labelled right: S, NP; unlabelled also 2-7
    assert row.precision == pytest.approx(2 / 5)
    assert row.recall == pytest.approx(2 / 6)
    assert row.unlabelled_precision == pytest.approx(3 / 5)
    assert row.unlabelled_recall == pytest.approx(3 / 6)
    assert (row.crossing, row.no_crossing, row.two_crossing) == (2.0, 0.0, 1.0)


def test_wrong_label() -> None:
    predicted = GOLD.replace("PP", "ADVP")
    (row,) = parseval([tree(predicted)], [tree(GOLD)], bins=[None])
    assert row.precision == row.recall == pytest.approx(5 / 6)
    assert row.unlabelled_f1 == 1.0
    assert row.exact == 0.0


def test_top_node_is_left_out() -> None:
    for top in ("ROOT", "TOP", "S1", ""):
        assert brackets(Tree(top, [tree(GOLD)])) == brackets(tree(GOLD))
    (row,) = parseval([Tree("ROOT", [tree(GOLD)])], [tree(GOLD)], bins=[None])
    assert row.exact == 1.0
    # only on top
    inner = "(S (ROOT (NN a) (NN b)))"
    assert brackets(tree(inner)) == Counter({("S", 0, 2): 1, ("ROOT", 0, 2): 1})


def test_unary_chains_are_multisets() -> None:
    gold, chain = tree("(S (NP (NP (NN a))) (VP (VB b)))"), tree("(S (NP (NP (NP (NN a)))) (VP (VB b)))")
    assert brackets(gold)["NP", 0, 1] == 2
    (row,) = parseval([chain], [gold], bins=[None])
    assert row.precision == pytest.approx(4 / 5)
    assert row.recall == 1.0
    (row,) = parseval([gold], [chain], bins=[None])
    assert row.recall == pytest.approx(4 / 5)


def test_adverbs_and_particles_are_the_same() -> None:
    gold = tree("(S (VP (VB give) (PRT (RP up))))")
    predicted = tree("(S (VP (VB give) (ADVP (RB up))))")
    (row,) = parseval([predicted], [gold], bins=[None])
    assert row.exact == 1.0
    assert row.tagging == 0.5
    (row,) = parseval([predicted], [gold], bins=[None], conventions=Conventions(equal_labels={}))
    assert row.f1 == pytest.approx(2 / 3)


def test_punctuation_is_that_of_the_gold_tags() -> None:
    """A comma that is tagged as a noun, within a phrase of nothing else, makes no difference to brackets."""
    gold = tree("(S (NP (NN a)) (, ,) (VP (VB b)))")
    predicted = tree("(S (NP (NN a)) (NP (NN ,)) (VP (VB b)))")
    (row,) = parseval([predicted], [gold], bins=[None])
    assert row.exact == 1.0
    assert row.tagging == 1.0
    # and where a comma is attached does not matter either
    (row,) = parseval([tree("(S (NP (NN a) (, ,)) (VP (VB b)))")], [gold], bins=[None])
    assert row.exact == 1.0


def test_micro_averages_and_lengths() -> None:
    short = tree("(S (NP (NN a)) (VP (VB b)))")
    wrong = tree("(S (XX (NN a)) (VP (VB b)))")
    scores = parseval([wrong, tree(GOLD)], [short, tree(GOLD)], bins=[2, 10, None])
    assert [row.sentences for row in scores] == [1, 2, 2]
    assert scores[0].f1 == pytest.approx(2 / 3)
    assert scores[1].f1 == pytest.approx(8 / 9)  # of all brackets, not of sentences: 2 + 6 of 3 + 6
    assert scores[2].exact == 0.5
    assert parseval([tree(GOLD)], [tree(GOLD)], bins=[7])[0].sentences == 0  # the full stop counts
    assert "66.7" in str(scores) and "<=2" in str(scores)


def test_no_parse() -> None:
    (row,) = parseval([None], [tree(GOLD)], bins=[None])
    assert row.precision is None
    assert (row.recall, row.f1, row.tagging) == (0.0, 0.0, 0.0)


def test_nothing() -> None:
    (row,) = parseval([], [], bins=[None])
    assert (row.sentences, row.f1, row.crossing) == (0, None, None)


def test_errors() -> None:
    with pytest.raises(ValueError, match="the same sentences, got 1 and 0"):
        parseval([tree(GOLD)], [])
    with pytest.raises(ValueError, match="in sentence 1 they have 1 and 2"):
        parseval([tree(GOLD), tree("(S (NN a))")], [tree(GOLD), tree("(S (NN a) (NN b))")])
