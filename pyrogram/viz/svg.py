# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The little of SVG that trees need: elements and paths as strings, and how wide a text will be.

Everything is an attribute of its element. A marker with an id would leak from one drawing into the next in a notebook,
where all drawings share one page. One style sheet is in all of them: it changes the colours on a dark screen.
"""

import re
import unicodedata
from xml.sax.saxutils import escape, quoteattr

FONT = "Helvetica, Arial, 'Liberation Sans', 'Noto Sans', 'Noto Sans CJK SC', sans-serif"
INK = "#24292f"

PAPER = "#ffffff"

# Each colour and its counterpart on a dark screen, of the same contrast.
_DARK = {
    INK: "#e6edf3", PAPER: "#0d1117", "#656d76": "#9198a1", "#8c959f": "#7d8590", "#c4261d": "#ff7b72",
    "#2f6f9f": "#79c0ff", "#d0d7de": "#3d444d",
}  # fmt: skip
_RULES = (f'.pyrogram [{x}="{day}"] {{{x}: {night}}}' for day, night in _DARK.items() for x in ("fill", "stroke"))
_NIGHT = f"@media (prefers-color-scheme: dark) {{{''.join(_RULES)}}}"
_SMALLEST = 0.65  # to which a picture shrinks on a narrow screen; below that, it is scrolled

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


def picture(title: str, width: float, height: float, *content: str) -> str:
    """A complete drawing on paper of its own; a little smaller on a narrow screen.

    :param title: its name for readers of screens.
    """
    attributes: dict[str, str | float] = {
        "xmlns": "http://www.w3.org/2000/svg",
        "class_": "pyrogram",
        "width": width,
        "height": height,
        "viewBox": f"0 0 {number(width)} {number(height)}",
        "role": "img",
        "font_family": FONT,
        "style": f"max-width: max(100%, {number(_SMALLEST * width)}px); height: auto",
    }
    paper = element("rect", width="100%", height="100%", fill=PAPER, rx=4)
    return element("svg", element("title", printable(title)), element("style", _NIGHT), paper, *content, **attributes)


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
