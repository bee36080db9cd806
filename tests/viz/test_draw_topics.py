# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Columns of words: what stands where."""

import xml.etree.ElementTree as ET

import pytest

from pyrogram.viz import draw_topics

COLUMNS = [["president", "director"], ["u.s.", "london", "tokyo"], ["<&>", "a rather long word indeed"], ["x"], []]
SVG = "{http://www.w3.org/2000/svg}"


def texts(drawing, kind):
    root = ET.fromstring(drawing.svg)
    return [e for e in root.iter(f"{SVG}text") if e.get("class") == kind]


def test_words_are_where_they_belong(tmp_path):
    drawing = draw_topics(COLUMNS, headings=["NN", "NNP", "SYM", "X", ""], title="Topics", per_row=2)
    words = texts(drawing, "word")
    assert [w.text for w in words] == [w for column in COLUMNS for w in column]
    at = {w.text: (float(w.get("x")), float(w.get("y"))) for w in words}
    assert at["president"][0] == at["director"][0] == at["<&>"][0] < at["u.s."][0] == at["tokyo"][0] == at["x"][0]
    assert at["president"][1] == at["u.s."][1] < at["london"][1] < at["tokyo"][1] < at["<&>"][1] == at["x"][1]
    heads = {e.text: (float(e.get("x")), float(e.get("y"))) for e in texts(drawing, "heading")}
    assert heads["NN"][0] == at["president"][0] and heads["NN"][1] < at["president"][1]
    root = ET.fromstring(drawing.svg)
    width, height = float(root.get("width")), float(root.get("height"))
    for e in root.iter(f"{SVG}text"):
        size, anchor = float(e.get("font-size")), 0 if e.get("text-anchor") == "start" else 0.5
        left = float(e.get("x")) - anchor * 0.45 * size * len(e.text or "")
        assert left > 0 and left + 0.45 * size * len(e.text or "") < width and 0 < float(e.get("y")) < height
    assert repr(drawing) == "<TopicDrawing: 5 columns of words>" and drawing._repr_svg_() == drawing.svg
    assert drawing.save(tmp_path / "topics.svg").read_text() == drawing.svg


def test_one_column_without_heading():
    drawing = draw_topics([["word"]])
    assert [w.text for w in texts(drawing, "word")] == ["word"] and not texts(drawing, "heading")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"columns": []}, "at least one sequence"),
        ({"columns": ["word"]}, "at least one sequence"),
        ({"columns": [["a"]], "headings": ["x", "y"]}, "headings must be 1 strings"),
        ({"columns": [["a"]], "per_row": 0}, "per_row must be at least 1"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        draw_topics(**arguments)
