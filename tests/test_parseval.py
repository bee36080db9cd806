# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""PARSEVAL on examples worked by hand."""

from collections import Counter

import pytest
from nltk.tree import Tree

from pyrogram.metrics.constituents import Conventions, brackets, parseval


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


def test_attachment_of_punctuation_is_free() -> None:
    gold = tree("(S (NP (NN a)) (, ,) (VP (VB b)))")
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


def test_summary_leaves_out_the_sentences_that_evalb_leaves_out() -> None:
    """The summary is that of EVALB, worked out from its source: "Error" and "Skip" sentences add to no total.

    The first three sentences are right, wrong with a crossing bracket, and wrong with three; the others have no parse,
    a comma that is tagged as a noun, a noun that is tagged as a comma, and nothing but punctuation.
    """
    short = "(S (A (X a) (Y b)) (Z c))"  # S 0-3, A 0-2
    crossed = "(S (X a) (A (Y b) (Z c)))"  # S 0-3, A 1-3: crosses A 0-2
    long = "(S (B (A (X a) (Y b)) (A (Z c) (X d))) (A (Y e) (Z f)))"  # S 0-6, B 0-4, A 0-2, A 2-4, A 4-6
    three = "(S (X a) (A (Y b) (Z c)) (C (X d) (Y e)) (Z g))"  # S 0-6, A 1-3 and C 3-5 cross
    four = "(S (X a) (B (A (Y b) (Z c)) (C (X d) (Y e))) (Z f))"  # and B 1-5
    comma = "(S (NP (NN a)) (, ,) (VP (VB b)))"
    pairs = [
        (short, short),
        (crossed, short),
        (four, long),
        (None, short),
        (comma.replace("(, ,)", "(NN ,)"), comma),
        (comma.replace("(NN a)", "(, a)"), comma),
        ("(S (. .) (. !))", "(S (. .) (. !))"),
    ]
    predicted = [p and tree(p) for p, _ in pairs]
    (row,) = parseval(predicted, [tree(g) for _, g in pairs], bins=[None])
    assert (row.sentences, row.skipped) == (7, 4)
    assert row.precision == pytest.approx((2 + 1 + 1) / (2 + 2 + 4))
    assert row.recall == pytest.approx((2 + 1 + 1) / (2 + 2 + 5))
    assert row.f1 == pytest.approx(2 * 4 / (8 + 9))
    assert row.exact == pytest.approx(1 / 3)
    assert row.crossing == pytest.approx((0 + 1 + 3) / 3)
    assert row.no_crossing == pytest.approx(1 / 3)
    assert row.two_crossing == pytest.approx(2 / 3)
    assert row.tagging == 1.0
    (row,) = parseval([tree(three)], [tree(long)], bins=[None])
    assert (row.crossing, row.two_crossing) == (2.0, 1.0)


def test_no_parse() -> None:
    scores = parseval([None], [tree(GOLD)], bins=[None])
    assert scores[0].precision is scores[0].recall is scores[0].exact is scores[0].tagging is None
    assert str(scores).splitlines()[1].split() == ["all", "1", "1", *"-" * 7]


def test_nothing() -> None:
    (row,) = parseval([], [], bins=[None])
    assert (row.sentences, row.f1, row.crossing) == (0, None, None)


def test_errors() -> None:
    with pytest.raises(ValueError, match="the same sentences, got 1 and 0"):
        parseval([tree(GOLD)], [])
    with pytest.raises(ValueError, match="in sentence 1 they have 1 and 2"):
        parseval([tree(GOLD), tree("(S (NN a))")], [tree(GOLD), tree("(S (NN a) (NN b))")])
