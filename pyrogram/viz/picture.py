# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The layout of a tree's drawing: the wall and columns of words, arcs above and below, a legend.

The wall, ROOT, stands before the first word: on the left, or on the right in scripts written from right to left.
"""

from collections.abc import Iterator, Sequence

from pyrogram.viz.arcs import ARROW, Arc, Side, Style
from pyrogram.viz.direction import is_right_to_left
from pyrogram.viz.svg import bow, element, label, number, picture, printable, text_width

# Pixels.
WORD, TAG, SMALL = 16.0, 11.0, 11.0  # sizes of type
GAP = 18.0  # between words
MARGIN = 16.0
WALL = "ROOT"


class Picture:
    """Where everything stands.

    :param above: arcs drawn above the words.
    :param below: arcs drawn below the words.
    :param legend: styles of arcs and their meanings.
    """

    def __init__(
        self,
        forms: Sequence[str],
        tags: Sequence[str] | None,
        above: Sequence[Arc],
        below: Sequence[Arc],
        title: str | None,
        legend: Sequence[tuple[Style, str]] = (),
    ) -> None:
        self.forms, self.tags, self.title, self.legend = forms, tags, title, legend
        self.above, self.below = Side(above, len(forms)), Side(below, len(forms))
        *columns, full = self._columns()
        needs = [text_width(title or "", WORD), sum(map(_legend_width, legend))]
        self.width = max(full, max(needs) + 2 * MARGIN)
        self.mirrored = is_right_to_left(forms)
        self.x = [(full - x if self.mirrored else x) + (self.width - full) / 2 for x in columns]
        # From top to bottom: the ends of the arcs above, the words' baseline, the ends of the arcs below.
        self.top = MARGIN + (28.0 if title else 0.0) + self.above.height
        self.baseline = self.top + WORD + 3.0
        self.bottom = self.baseline + (TAG + 13.0 if tags else 9.0)
        floor = self.bottom + (self.below.height if below else 0.0)
        self.height = floor + (26.0 if legend else 0.0) + MARGIN - 4.0

    def svg(self) -> str:
        return picture(self.title or " ".join(self.forms), self.width, self.height, *self._parts())

    def _columns(self) -> list[float]:
        """The middle of the wall and of each word, as close as texts and ends of arcs allow; last, the full width."""
        columns, right = [], MARGIN
        for i in range(len(self.forms) + 1):
            text = text_width(WALL, SMALL) if i == 0 else text_width(self.forms[i - 1], WORD)
            tag = text_width(self.tags[i - 1], TAG) if self.tags and i else 0.0
            width = max(text, tag, 14.0, self.above.room(i), self.below.room(i))
            columns.append(right + width / 2)
            right += width + GAP
        return [*columns, right - GAP + MARGIN]

    def _parts(self) -> Iterator[str]:
        if self.title:
            yield label(self.title, self.width / 2, MARGIN + 12.0, WORD, "title", font_weight="600")
        yield from self._arcs(self.above, self.top, -1.0)
        direction = {"direction": "rtl"} if self.mirrored else {}
        yield label(WALL, self.x[0], self.baseline - 1.0, SMALL, "root", fill="#656d76")
        for i, x in enumerate(self.x[1:]):
            yield label(self.forms[i], x, self.baseline, WORD, "form", **direction)
            if self.tags:
                yield label(self.tags[i], x, self.baseline + TAG + 6.0, TAG, "tag", fill="#656d76")
        yield from self._arcs(self.below, self.bottom, 1.0)
        if self.legend:
            yield element("g", *self._legend(), class_="legend")

    def _arcs(self, side: Side, y: float, sign: float) -> Iterator[str]:
        """Arcs that end on the line ``y`` and bulge upwards if ``sign`` is -1, else downwards."""
        tip = y + sign * ARROW
        # The longest first, so that short ones, and the arrows at their ends, lie on top.
        for arc in sorted(side.arcs, key=lambda a: a.low - a.high):
            x, start = self._end(side, arc.word, arc), self._end(side, arc.head, arc)
            points = f"M{number(x)} {number(y)}L{number(x - ARROW / 2)} {number(tip)}h{number(ARROW)}Z"
            arrow = element("path", d=points, fill=arc.style.colour, class_="arrow")
            path = bow(start, y, x, tip, y + sign * side.rise(arc))
            kind = "" if arc.style.name == "plain" else arc.style.name
            head = self.forms[arc.head - 1] if arc.head else WALL
            title = element("title", printable(f"{head} → {self.forms[arc.word - 1]}{kind and ', ' + kind}"))
            faint = {"opacity": f"{arc.style.opacity:.2f}"} if arc.style.opacity < 1 else {}
            yield element("g", title, _line(path, arc.style), arrow, class_=f"arc {kind}".strip(), **faint)

    def _end(self, side: Side, word: int, arc: Arc) -> float:
        """Where an arc ends that begins or ends on a word."""
        offset = side.port(word, arc)
        return self.x[word] + (-offset if self.mirrored else offset)

    def _legend(self) -> Iterator[str]:
        x, y = MARGIN, self.height - MARGIN
        for style, text in self.legend:
            faint = {"opacity": f"{style.opacity:.2f}"} if style.opacity < 1 else {}
            yield element("g", _line(f"M{number(x)} {number(y - 4.0)}h28", style), **faint)
            yield label(text, x + 34.0, y, SMALL, "legend", text_anchor="start")
            x += _legend_width((style, text))


def _legend_width(item: tuple[Style, str]) -> float:
    return 52.0 + text_width(item[1], SMALL)


def _line(path: str, style: Style) -> str:
    dash = {"stroke_dasharray": style.dash} if style.dash else {}
    return element("path", d=path, fill="none", stroke=style.colour, stroke_width=style.width, **dash)
