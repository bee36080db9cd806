# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Drawings of phrase structure trees: what stands where."""

import itertools
import xml.etree.ElementTree as ET

import pytest
from nltk import Tree

from pyrogram.viz import draw_derivation

TREE = Tree.fromstring("(S (NP (D the) (N man)) (VP (V saw) (NP (NP (D a) (N cat)) (PP (P with) (N ears)))))")
GOLD = Tree.fromstring("(S (NP (D the) (N man)) (VP (V saw) (NP (D a) (N cat)) (PP (P with) (N ears))))")
SVG = "{http://www.w3.org/2000/svg}"


def texts(drawing, kind):
    root = ET.fromstring(drawing.svg)
    return [e for e in root.iter(f"{SVG}text") if e.get("class") == kind]


def test_words_and_labels_are_where_they_belong():
    drawing = draw_derivation(TREE, title="A tree")
    words = texts(drawing, "word")
    assert [w.text for w in words] == TREE.leaves()
    x = [float(w.get("x")) for w in words]
    assert x == sorted(x) and len({w.get("y") for w in words}) == 1
    labels = texts(drawing, "label")
    assert [e.text for e in labels] == [t.label() for t in TREE.subtrees()]
    height = {id(t): float(e.get("y")) for t, e in zip(TREE.subtrees(), labels, strict=True)}
    for parent in TREE.subtrees():
        for child in parent:
            if isinstance(child, Tree):
                assert height[id(parent)] < height[id(child)]
    (title,) = texts(drawing, "title")
    assert title.text == "A tree" and "7 words" in repr(drawing)


def test_labels_of_one_level_do_not_overlap():
    tree = Tree("S", [Tree("a-very-long-label", ["i"]), Tree("another-long-label", ["j"]), Tree("K", ["Donaudampf"])])
    drawing = draw_derivation(tree)
    rows = {}
    for e in texts(drawing, "label") + texts(drawing, "word"):
        rows.setdefault(e.get("y"), []).append((float(e.get("x")), len(e.text) * 0.45 * float(e.get("font-size"))))
    for row in rows.values():
        for (a, v), (b, w) in itertools.pairwise(sorted(row)):
            assert b - a > (v + w) / 2


def test_gold_shows_what_is_wrong():
    drawing = draw_derivation(TREE, gold=GOLD)
    wrong = [e.text for e in texts(drawing, "label") if e.get("fill") == "#c4261d"]
    assert wrong == ["NP"]  # "a cat with ears"
    assert "12 of 13 labels right, 0 missed" in repr(drawing)
    assert "12 of 12 labels right, 1 missed" in repr(draw_derivation(GOLD, gold=TREE))
    assert "0 missed" in repr(draw_derivation(TREE, gold=TREE))


def test_a_label_over_itself_counts_as_often_as_in_gold():
    chain = Tree.fromstring("(S (S (A a)))")
    drawing = draw_derivation(chain, gold=Tree.fromstring("(S (A a))"))
    assert [e.text for e in texts(drawing, "label") if e.get("fill") == "#c4261d"] == ["S"]


def test_probabilities_are_printed_and_make_faint():
    drawing = draw_derivation(TREE, probabilities={("PP", 5, 7): 0.25, ("NP", 0, 2): 1.0, ("D", 0, 1): 0.5})
    assert [e.text for e in texts(drawing, "probability")] == ["1.00", "0.25"]  # there is no room under those of words
    opacity = {e.text: float(e.get("opacity")) for e in texts(drawing, "label") if e.get("opacity")}
    assert opacity["PP"] < opacity["D"] < opacity["NP"] == 1
    assert "PP, words 6 to 7, probability 0.250" in drawing.svg


def test_what_cannot_be_drawn():
    with pytest.raises(ValueError, match="must have words at its leaves"):
        draw_derivation(Tree("S", []))
    with pytest.raises(ValueError, match="gold must have the words of the tree, 'the man saw"):
        draw_derivation(TREE, gold=Tree("S", ["other"]))
    with pytest.raises(ValueError, match=r"between 0 and 1, but that of \('S', 0, 7\) is 2"):
        draw_derivation(TREE, probabilities={("S", 0, 7): 2.0})


def test_markup_in_labels_is_text():
    drawing = draw_derivation(Tree("<S>&", ['"a"']))
    assert [e.text for e in texts(drawing, "label")] == ["<S>&"]
