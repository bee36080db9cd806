# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The little of SVG that trees need: elements and paths as strings, and how wide a text will be.

Everything is an attribute of its element. A style sheet or a marker with an id would leak from one drawing
into the next in a notebook, where all drawings share one page.
"""

import re
import unicodedata
from xml.sax.saxutils import escape, quoteattr

FONT = "Helvetica, Arial, 'Liberation Sans', 'Noto Sans', 'Noto Sans CJK SC', sans-serif"
INK = "#24292f"

# What XML 1.0 cannot hold, not even escaped.
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def number(x: float) -> str:
    """A coordinate, to a tenth of a pixel."""
    return f"{x:.1f}".removesuffix(".0")


def element(tag: str, *content: str, **attributes: str | float) -> str:
    """One element around ``content``, which is SVG already; in attribute names, ``_`` stands for ``-``."""
    head = tag
    for key, value in attributes.items():
        text = value if isinstance(value, str) else number(value)
        head += f" {key.strip('_').replace('_', '-')}={quoteattr(text)}"
    return f"<{head}>{''.join(content)}</{tag}>" if content else f"<{head}/>"


def printable(text: str) -> str:
    """The text, escaped, with a replacement character for what XML cannot hold."""
    return escape(_UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text))


def label(text: str, x: float, y: float, size: float, kind: str, **attributes: str) -> str:
    """A line of text, centred on x, its baseline at y."""
    style: dict[str, str | float] = {"text_anchor": "middle", "fill": INK, **attributes}
    return element("text", printable(text), x=x, y=y, font_size=size, class_=kind, **style)


def bow(x0: float, y0: float, x1: float, y1: float, top: float) -> str:
    """A path from (x0, y0) along the line ``top`` to (x1, y1), with round corners."""
    r = min(abs(x1 - x0) / 2, 14.0) * (1.0 if x1 > x0 else -1.0)
    v = min(abs(top - y1), 14.0) * (1.0 if y0 > top else -1.0)
    a, b, t, u = map(number, (x0, x1, top, top + v))
    return f"M{a} {number(y0)}V{u}Q{a} {t} {number(x0 + r)} {t}H{number(x1 - r)}Q{b} {t} {b} {u}V{number(y1)}"


def text_width(text: str, size: float) -> float:
    """Estimated width of a line in a sans-serif face, a little on the wide side."""
    return size * sum(map(_em, text))


def _em(char: str) -> float:
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):  # accents of their own, joiners
        return 0.0
    if unicodedata.east_asian_width(char) in "WF":
        return 1.05
    if char in "iIjl.,:;'|!` ":
        return 0.32
    if char in 'frt()[]/\\-"':
        return 0.42
    if char in "mwMW@%&—…":
        return 0.95
    return 0.74 if char.isupper() else 0.6
