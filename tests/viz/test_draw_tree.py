# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
import re
from xml.etree import ElementTree

import pytest
import torch

from pyrogram.distributions import ProjectiveDependencyTree
from pyrogram.trees import projective_trees
from pyrogram.viz import draw_posterior, draw_tree
from pyrogram.viz.arcs import PLAIN, Arc, Side
from pyrogram.viz.direction import is_right_to_left
from pyrogram.viz.svg import text_width

FORMS = "Factory payrolls fell in September".split()
TAGS = "NN NNS VBD IN NN".split()
HEADS = [2, 3, 0, 3, 4]


def elements(drawing, kind):
    """The elements of a class, which may have further classes."""
    root = ElementTree.fromstring(drawing.svg)
    return [e for e in root.iter() if kind in e.get("class", "").split()]


def texts(drawing, kind):
    return [e.text for e in elements(drawing, kind)]


def line_of(arc):
    return next(e for e in arc if e.get("stroke"))


@pytest.mark.parametrize("heads", [HEADS, tuple(HEADS), torch.tensor(HEADS), torch.tensor([*HEADS, -1, -1])])
def test_words_tags_and_arcs(heads):
    drawing = draw_tree(heads, FORMS, TAGS, title="A tree")
    assert texts(drawing, "form") == FORMS
    assert texts(drawing, "tag") == TAGS
    assert texts(drawing, "title") == ["A tree"]
    assert texts(drawing, "root") == ["ROOT"]
    assert len(elements(drawing, "arc")) == len(elements(drawing, "arrow")) == 5
    assert not elements(drawing, "legend")
    assert {arc[0].text for arc in elements(drawing, "arc")} == {
        "payrolls → Factory",
        "fell → payrolls",
        "ROOT → fell",
        "fell → in",
        "in → September",
    }
    assert str(drawing) == repr(drawing) == "<TreeDrawing: 5 words>"
    assert drawing._repr_svg_() == drawing.svg


def test_arrows_are_at_the_dependents():
    drawing = draw_tree(HEADS, FORMS)
    middle = {e.text: float(e.get("x")) for e in elements(drawing, "form")}
    for arc in elements(drawing, "arc"):
        head, word = re.fullmatch("(.*) → (.*)", arc[0].text).groups()
        x = float(elements_of(arc, "arrow").get("d")[1:].split()[0])
        assert min(middle, key=lambda form: abs(middle[form] - x)) == word
        start = float(line_of(arc).get("d")[1:].split()[0])
        if head == "ROOT":
            assert start == float(elements(drawing, "root")[0].get("x")) < min(middle.values())
        else:
            assert min(middle, key=lambda form: abs(middle[form] - start)) == head


def elements_of(arc, kind):
    return next(e for e in arc if e.get("class") == kind)


def test_gold():
    drawing = draw_tree([2, 0, 2, 3, 4], FORMS, gold=HEADS)
    counts = {kind: len(elements(drawing, kind)) for kind in ("arc", "correct", "wrong", "missed")}
    assert counts == {"arc": 7, "correct": 3, "wrong": 2, "missed": 2}
    styles = {
        (line_of(arc).get("stroke"), line_of(arc).get("stroke-dasharray"))
        for kind in ("correct", "wrong", "missed")
        for arc in elements(drawing, kind)
    }
    assert len(styles) == len({dash for _, dash in styles}) == 3
    assert len(elements(drawing, "legend")) == 1 + 3
    assert texts(drawing, "legend")[1:] == ["correct (3)", "wrong (2)", "gold, missed (2)"]
    assert str(drawing) == "<TreeDrawing: 5 words, 3 with the right head>"
    # what was missed lies below the words, all else above
    baseline = float(elements(drawing, "form")[0].get("y"))
    for arc in elements(drawing, "arc"):
        y = float(line_of(arc).get("d").split("V")[-1])
        assert (y > baseline) == (arc.get("class") == "arc missed")


def test_gold_and_all_right():
    drawing = draw_tree(HEADS, FORMS, gold=torch.tensor([*HEADS, -1]))
    assert len(elements(drawing, "correct")) == 5
    assert texts(drawing, "legend")[1:] == ["correct (5)", "wrong (0)", "gold, missed (0)"]


def test_what_is_not_xml():
    forms = ['<b> & "c"', "a\x00b\ud800", "]]>"]
    drawing = draw_tree([0, 1, 1], forms, ["&", "<", "'"], title="<title>")
    assert texts(drawing, "form") == ['<b> & "c"', "a\ufffdb\ufffd", "]]>"]
    assert texts(drawing, "tag") == ["&", "<", "'"]
    assert texts(drawing, "title") == ["<title>"]


def test_words_do_not_overlap():
    forms = ["多數", "的", "internationalization", "WWW", "e\u0301te\u0301", ""] * 6
    drawing = draw_tree([0] + [1] * 35, forms, ["TAG"] * 36)
    middle = [float(e.get("x")) for e in elements(drawing, "form")]
    half = [text_width(form, 16) / 2 for form in forms]
    for i in range(35):
        assert middle[i] + half[i] < middle[i + 1] - half[i + 1]
    root = ElementTree.fromstring(drawing.svg)
    assert middle[0] > half[0] and middle[-1] + half[-1] < float(root.get("width"))


def test_width_of_text():
    assert text_width("的", 10) > text_width("m", 10) > text_width("n", 10) > text_width("i", 10) > 0
    assert text_width("e\u0301", 10) == text_width("e", 10)


def test_one_word_and_a_long_title():
    drawing = draw_tree([0], ["Yes"], title="A title that is wider than the tree")
    assert len(elements(drawing, "arc")) == 1
    root = ElementTree.fromstring(drawing.svg)
    wall, word = float(elements(drawing, "root")[0].get("x")), float(elements(drawing, "form")[0].get("x"))
    left, right = wall - text_width("ROOT", 11) / 2, word + text_width("Yes", 16) / 2
    assert wall < word
    assert (left + right) / 2 == pytest.approx(float(root.get("width")) / 2, abs=0.2)


def test_arcs_that_overlap_have_different_levels():
    for heads in projective_trees(5).tolist():
        arcs = [Arc(h, c, PLAIN) for c, h in enumerate(heads, 1)]
        side = Side(arcs, 5)
        for a in arcs:
            for b in arcs:
                if a != b and a.low <= b.low and b.high <= a.high:
                    assert side.level[a] > side.level[b]
                    # nor do they cross on the way down
                    if a.low == b.low:
                        assert side.port(a.low, a) < side.port(a.low, b)
                    if a.high == b.high:
                        assert side.port(a.high, a) > side.port(a.high, b)


def test_crossing_arcs_are_drawn():
    drawing = draw_tree([3, 4, 0, 3], list("abcd"))
    assert len(elements(drawing, "arc")) == 4
    side = Side([Arc(h, c, PLAIN) for c, h in enumerate([3, 4, 0, 3], 1)], 4)
    assert side.level[Arc(3, 1, PLAIN)] != side.level[Arc(4, 2, PLAIN)]


def test_a_dark_screen_has_other_colours():
    drawing = draw_tree([2, 0, 2, 3, 4], FORMS, gold=HEADS)
    root = ElementTree.fromstring(drawing.svg)
    (sheet,) = (e.text for e in root.iter() if e.tag.endswith("style"))
    assert sheet.startswith("@media (prefers-color-scheme: dark)")
    used = {(x, e.get(x)) for e in root.iter() for x in ("fill", "stroke") if e.get(x, "none") != "none"}
    for kind, colour in used:  # none is left as it is, for it would be dark on dark
        assert f'.pyrogram [{kind}="{colour}"]' in sheet


def test_posterior():
    torch.manual_seed(0)
    trees = ProjectiveDependencyTree(torch.randn(6, 6))
    support = trees.enumerate_support()
    p = trees.log_prob(support).exp()
    drawing = draw_posterior(trees.marginals(), FORMS, TAGS, least=0.1)
    drawn = {}
    for arc in elements(drawing, "arc"):
        head, word, number = re.fullmatch("(.*) → (.*), (.*)", arc[0].text).groups()
        drawn[head, word] = float(number)
    expected = {}
    for c, word in enumerate(FORMS, 1):
        for h, head in enumerate(["ROOT", *FORMS]):
            expected[head, word] = float(p[support[:, c - 1] == h].sum())
    assert drawn.keys() == {arc for arc, x in expected.items() if x >= 0.1}
    assert all(abs(expected[arc] - x) <= 5.1e-4 for arc, x in drawn.items())
    opacity = {arc[0].text: float(arc.get("opacity", 1)) for arc in elements(drawing, "arc")}
    assert sorted(opacity, key=opacity.get) == sorted(opacity, key=lambda x: float(x.split(", ")[1]))
    assert str(drawing) == f"<TreeDrawing: 5 words, {len(drawn)} arcs of probability 0.1 and more>"


@pytest.mark.parametrize(
    ("marginals", "tags", "message"),
    [
        (
            torch.zeros(3, 3),
            None,
            "marginals must have shape (n+1, n+1) for the n words of forms, got (3, 3) and 5 words",
        ),
        (torch.full((6, 6), 1.5), None, "marginals must be probabilities, from 0 to 1"),
        (torch.zeros(6, 6), ["A"], "tags must be 5 strings, one for each word, got 1."),
    ],
)
def test_posterior_errors(marginals, tags, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        draw_posterior(marginals, FORMS, tags)


def test_save(tmp_path):
    drawing = draw_tree([0], ["né"])
    path = tmp_path / "tree.svg"
    path.write_text("old")
    assert drawing.save(str(path)) == path
    assert path.read_text(encoding="utf-8") == drawing.svg
    assert list(tmp_path.iterdir()) == [path]


def test_save_leaves_nothing_behind(tmp_path):
    with pytest.raises(OSError):
        draw_tree([0], ["a"]).save(tmp_path)  # a folder
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "heads, forms, options, message",
    [
        ([0, 1], ["a"], {}, "forms must be 2 strings, one for each word of heads, got 1."),
        ([0, 1], "ab", {}, "forms must be 2 strings, one for each word of heads, got 'ab'."),
        ([0, 1], ["a", "b"], {"tags": ["A"]}, "tags must be 2 strings, one for each word of heads, got 1."),
        ([0, 1], ["a", "b"], {"gold": [0]}, "gold must be 2 heads, one for each word of heads, got 1."),
        ([0, 2], ["a", "b"], {}, "heads must be integers from 0 to n, no word its own head, got [0, 2]."),
        ([-1, 0], ["a", "b"], {}, "heads must be integers from 0 to n"),
        ([], [], {}, "heads must be integers from 0 to n"),
        (
            torch.tensor([[0]]),
            ["a"],
            {},
            "heads must be integers of shape (n,), got torch.int64 of shape (1, 1).",
        ),
        (
            torch.tensor([0.0], dtype=torch.float64),
            ["a"],
            {},
            "heads must be integers of shape (n,), got torch.float64 of shape (1,).",
        ),
    ],
)
def test_errors(heads, forms, options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        draw_tree(heads, forms, **options)


def test_right_to_left_is_the_mirror_image():
    """The same widths, the same arcs: every point lies as far from the right edge as its image from the left one."""
    hebrew = ["\u05d4\u05db\u05dc\u05d1", "(\u05d4\u05d2\u05d3\u05d5\u05dc)", "\u05e0\u05d1\u05d7", "2", "."]
    latin = [word.translate(dict.fromkeys(range(1424, 1536), "a")) for word in hebrew]
    left, right = (
        draw_tree(HEADS, latin, TAGS, gold=[2, 0, 2, 3, 4]),
        draw_tree(HEADS, hebrew, TAGS, gold=[2, 0, 2, 3, 4]),
    )
    width = float(ElementTree.fromstring(left.svg).get("width"))
    for kind in ("form", "tag", "root"):
        images = [width - float(e.get("x")) for e in elements(left, kind)]
        assert [float(e.get("x")) for e in elements(right, kind)] == pytest.approx(images, abs=0.11)
    assert texts(right, "form") == hebrew  # in their order in the file, as readers of screens want them
    for arc, image in zip(elements(left, "arc"), elements(right, "arc"), strict=True):
        first, second = (float(re.match("M([0-9.]+)", line_of(a).get("d"))[1]) for a in (arc, image))
        assert second == pytest.approx(width - first, abs=0.11)
    assert {e.get("direction") for e in elements(right, "form")} == {"rtl"}
    assert {e.get("direction") for e in elements(left, "form")} == {None}


@pytest.mark.parametrize(
    "forms, expected",
    [
        (["dog"], False),
        (["\u05db\u05dc\u05d1"], True),  # Hebrew
        (["\u0643\u0644\u0628", "NATO", "\u0646\u0628\u062d"], True),  # Arabic, with an English word
        (["Hebrew", "\u05db\u05dc\u05d1", "means", "dog"], False),
        (["1998", ".", "%"], False),
        (["\u5927", "\u72d7"], False),
    ],
)
def test_direction(forms, expected):
    assert is_right_to_left(forms) == expected
