# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The layout of a tree's drawing: columns of words, arcs above and below, a legend.

Sentences of scripts that are written from right to left have their first word on the right.
"""

from collections.abc import Iterator, Sequence

from pyrogram.viz.arcs import ARROW, CORRECT, MISSED, PLAIN, WRONG, Arc, Side, Style
from pyrogram.viz.direction import is_right_to_left
from pyrogram.viz.svg import FONT, bow, element, label, number, printable, text_width

# Pixels.
WORD, TAG, SMALL = 16.0, 11.0, 11.0  # sizes of type
GAP = 18.0  # between words
MARGIN = 16.0


class Picture:
    """Where everything stands.

    :param above: one arc for each word.
    :param below: arcs drawn below the words.
    :param legend: whether to explain the styles of arcs.
    """

    def __init__(
        self,
        forms: Sequence[str],
        tags: Sequence[str] | None,
        above: Sequence[Arc],
        below: Sequence[Arc],
        title: str | None,
        legend: bool,
    ) -> None:
        self.forms, self.tags, self.title, self.legend = forms, tags, title, legend
        self.above, self.below = Side(above, len(forms)), Side(below, len(forms))
        *columns, full = self._columns()
        needs = [text_width(title or "", WORD), sum(width for *_, width in self._legend_items())]
        self.width = max(full, max(needs) + 2 * MARGIN)
        self.mirrored = is_right_to_left(forms)
        self.x = [(full - x if self.mirrored else x) + (self.width - full) / 2 for x in columns]
        # From top to bottom: ROOT, the ends of the arcs above, the words' baseline, the ends of the arcs
        # below, ROOT again.
        self.root_y = MARGIN + (38.0 if title else 12.0)
        self.top = self.root_y + 10.0 + self.above.height
        self.baseline = self.top + WORD + 3.0
        self.bottom = self.baseline + (TAG + 13.0 if tags else 9.0)
        self.floor = self.bottom + (self.below.height + 10.0 if below else 0.0)
        root_y = 14.0 if any(arc.head == 0 for arc in below) else 0.0
        self.height = self.floor + root_y + (26.0 if legend else 0.0) + MARGIN - 4.0

    def svg(self) -> str:
        attributes: dict[str, str | float] = {
            "xmlns": "http://www.w3.org/2000/svg",
            "width": self.width,
            "height": self.height,
            "viewBox": f"0 0 {number(self.width)} {number(self.height)}",
            "role": "img",
            "font_family": FONT,
        }
        return element("svg", *self._parts(), **attributes)

    def _columns(self) -> list[float]:
        """The middle of each word, as close as the texts and the ends of arcs allow; last, the full width."""
        columns, right = [], MARGIN
        for i, form in enumerate(self.forms):
            text = max(text_width(form, WORD), text_width(self.tags[i], TAG) if self.tags else 0.0, 14.0)
            width = max(text, self.above.room(i + 1), self.below.room(i + 1))
            columns.append(right + width / 2)
            right += width + GAP
        return [*columns, right - GAP + MARGIN]

    def _parts(self) -> Iterator[str]:
        yield element("title", printable(self.title or " ".join(self.forms)))
        yield element("rect", width="100%", height="100%", fill="#ffffff", rx=4)
        if self.title:
            yield label(self.title, self.width / 2, MARGIN + 12.0, WORD, "title", font_weight="600")
        yield from self._arcs(self.above, self.top, -1.0, self.root_y)
        direction = {"direction": "rtl"} if self.mirrored else {}
        for i, x in enumerate(self.x):
            yield label(self.forms[i], x, self.baseline, WORD, "form", **direction)
            if self.tags:
                yield label(self.tags[i], x, self.baseline + TAG + 6.0, TAG, "tag", fill="#656d76")
        yield from self._arcs(self.below, self.bottom, 1.0, self.floor)
        if self.legend:
            yield element("g", *self._legend(), class_="legend")

    def _arcs(self, side: Side, y: float, sign: float, root_y: float) -> Iterator[str]:
        """Arcs that end on the line ``y`` and bulge towards ROOT: upwards if ``sign`` is -1."""
        tip = y + sign * ARROW
        # The longest first, so that short ones, and the arrows at their ends, lie on top.
        for arc in sorted(side.arcs, key=lambda a: a.low - a.high):
            colour = arc.style.colour
            x = self._end(side, arc.word, arc)
            points = f"M{number(x)} {number(y)}L{number(x - ARROW / 2)} {number(tip)}h{number(ARROW)}Z"
            ends = element("path", d=points, fill=colour, class_="arrow")
            if arc.head == 0:
                head, path = "ROOT", f"M{number(x)} {number(root_y)}V{number(tip)}"
                ends += element("circle", cx=x, cy=root_y, r=2.5, fill=colour)
                ends += label("ROOT", x, root_y + (-5.0 if sign < 0 else 12.0), SMALL, "root", fill=colour)
            else:
                head, start = self.forms[arc.head - 1], self._end(side, arc.head, arc)
                path = bow(start, y, x, tip, y + sign * side.rise(arc))
            kind = "" if arc.style is PLAIN else f" {arc.style.name}"
            title = element("title", printable(f"{head} → {self.forms[arc.word - 1]}{kind and ',' + kind}"))
            yield element("g", title, _line(path, arc.style), ends, class_=f"arc{kind}")

    def _end(self, side: Side, word: int, arc: Arc) -> float:
        """Where an arc ends that begins or ends on a word."""
        offset = side.port(word, arc)
        return self.x[word - 1] + (-offset if self.mirrored else offset)

    def _legend(self) -> Iterator[str]:
        x, y = MARGIN, self.height - MARGIN
        for style, text, width in self._legend_items():
            yield _line(f"M{number(x)} {number(y - 4.0)}h28", style)
            yield label(text, x + 34.0, y, SMALL, "legend", text_anchor="start")
            x += width

    def _legend_items(self) -> Iterator[tuple[Style, str, float]]:
        texts = ((CORRECT, "correct"), (WRONG, "wrong"), (MISSED, "gold, missed")) if self.legend else ()
        for style, name in texts:
            count = sum(arc.style is style for arc in (*self.above.arcs, *self.below.arcs))
            text = f"{name} ({count})"
            yield style, text, 52.0 + text_width(text, SMALL)


def _line(path: str, style: Style) -> str:
    dash = {"stroke_dasharray": style.dash} if style.dash else {}
    return element("path", d=path, fill="none", stroke=style.colour, stroke_width=style.width, **dash)
