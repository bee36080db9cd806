# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Syntactic topics as columns of words, some beside one another in each row, as in tables of topic models."""

from collections.abc import Iterator, Sequence

from pyrogram.printable import plural
from pyrogram.viz.svg import element, label, number, picture, text_width
from pyrogram.viz.trees import TreeDrawing

# Pixels.
WORD, HEAD, TITLE = 13.0, 12.0, 16.0  # sizes of type
LINE, GAP, MARGIN = 18.0, 22.0, 16.0
_RULE, _SOFT = "#d0d7de", "#656d76"


class TopicDrawing(TreeDrawing):
    """A drawing of columns of words, which notebooks show by themselves; ``save(path)`` writes it."""

    def __repr__(self) -> str:
        return f"<TopicDrawing: {self.summary}>"


def draw_topics(
    columns: Sequence[Sequence[str]],
    *,
    headings: Sequence[str] | None = None,
    title: str | None = None,
    per_row: int = 5,
) -> TopicDrawing:
    """Draws each state as a column of its words, most probable first.

    :param columns: the words of each state, top to bottom.
    :param headings: printed above the columns, one for each.
    :param title: printed above.
    :param per_row: columns beside one another.
    """
    words = [list(column) for column in columns]
    if not words or any(isinstance(column, str) for column in columns):
        raise ValueError(f"columns must be at least one sequence of words, got {columns!r}.")
    if headings is not None and len(headings) != len(words):
        raise ValueError(f"headings must be {len(words)} strings, one for each column, got {len(headings)}.")
    if per_row < 1:
        raise ValueError(f"per_row must be at least 1, got {per_row}.")
    heads = [""] * len(words) if headings is None else list(headings)
    rows = [range(i, min(i + per_row, len(words))) for i in range(0, len(words), per_row)]
    widths = [
        max(max((text_width(t, WORD) for t in words[i]), default=0.0) for i in range(j, len(words), per_row))
        for j in range(min(per_row, len(words)))
    ]
    widths = [
        max(w, *(text_width(heads[i], HEAD) for i in range(j, len(words), per_row))) for j, w in enumerate(widths)
    ]
    width = max(sum(widths) + GAP * (len(widths) - 1), text_width(title or "", TITLE)) + 2 * MARGIN
    elements: list[str] = []
    y = MARGIN + (TITLE + 8.0 if title else 0.0)
    for row in rows:
        elements += _row([words[i] for i in row], [heads[i] for i in row], widths, width, y, headings is not None)
        y += _height([words[i] for i in row], headings is not None)
    if title:
        elements.append(label(title, width / 2, MARGIN + TITLE - 4.0, TITLE, "title", font_weight="600"))
    svg = picture(title or "topics", width, y + MARGIN, *elements)
    return TopicDrawing(svg, f"{plural(len(words), 'column')} of words")


def _height(columns: Sequence[Sequence[str]], headed: bool) -> float:
    return 10.0 + LINE * (max(map(len, columns)) + headed)


def _row(
    columns: Sequence[Sequence[str]],
    heads: Sequence[str],
    widths: Sequence[float],
    width: float,
    y: float,
    headed: bool,
) -> Iterator[str]:
    """A rule, headings and words of the columns that stand beside one another."""
    yield element("path", d=f"M{number(MARGIN)} {number(y)}H{number(width - MARGIN)}", stroke=_RULE, fill="none")
    x = MARGIN
    for column, head, column_width in zip(columns, heads, widths, strict=False):
        line = y + LINE
        elements = []
        if headed:
            elements.append(label(head, x, line, HEAD, "heading", text_anchor="start", fill=_SOFT))
            line += LINE
        for i, word in enumerate(column):
            elements.append(label(word, x, line + i * LINE, WORD, "word", text_anchor="start"))
        yield element("g", *elements, class_="topic") if elements else ""
        x += column_width + GAP
