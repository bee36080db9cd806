# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A dependency tree drawn as text: a word to a line, every word joined to its head on its left.

    ╭── the     DT
  ╭─┴── dog     NN
──┼──── barks   VBZ
  ╰──── loudly  RB

A word's column is its depth in the tree; its children hang on the vertical line at the column after. Lines
of projective trees do not cross; where arcs cross, lines may coincide, and every word says its head as well.
It needs as many lines as words, and twice as many columns as the tree is deep.

Sentences of scripts that are written from right to left are drawn as in a mirror, at the right margin. A mark of no
width at the beginning of each line tells terminals that reorder text to leave the order of its parts alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.text import Text

from pyrogram.printable import printable
from pyrogram.viz.direction import is_right_to_left

LEFT_TO_RIGHT = "\u200e"
_UP, _DOWN, _LEFT, _RIGHT = 1, 2, 4, 8
_LINES = " ╵╷│╴╯╮┤╶╰╭├─┴┬┼"  # indexed by the sum of directions
_ASCII = " |||-+++-+++-+++"


def tree_text(
    heads: Sequence[int],
    forms: Sequence[str],
    tags: Sequence[str] | None = None,
    gold: Sequence[int] | None = None,
    *,
    ascii_only: bool = False,
) -> Text:
    """Draw a tree of words; with ``gold``, wrong heads are marked and the right ones said.

    :param heads: a tree with one root or several, 0 for ROOT.
    :param ascii_only: for terminals that know no others.
    """
    n = len(heads)
    mirrored = is_right_to_left(forms)
    mark = LEFT_TO_RIGHT if mirrored and not ascii_only else ""
    forms = [printable(form) + mark for form in forms]
    tags = [printable(tag) for tag in tags] if tags else None
    grid = _grid(heads)
    form_width = max(cell_len(form) for form in forms)
    tag_width = max(cell_len(tag) for tag in tags) if tags else 0
    crossing = _has_crossing_arcs(heads)
    rows = []  # cells from the tree outwards, each with the gap before it
    for c in range(n):
        wrong = gold is not None and gold[c] != heads[c]
        cells = [("", _drawn(grid[c], ascii_only, mirrored), "dim")]
        cells.append((" ", _padded(forms[c], form_width if tags or wrong or crossing else 0, mirrored), "bold"))
        if tags:
            cells.append(("  ", _padded(tags[c], tag_width if wrong or crossing else 0, mirrored), "cyan"))
        if crossing:
            cells.append(("  ", f"head: {_name(heads[c], forms)}", "dim"))
        if wrong and gold is not None:
            cells.append(("  ", f"{'x' if ascii_only else '✗'} gold head: {_name(gold[c], forms)}", "red"))
        rows.append(cells)
    widths = [sum(cell_len(gap + cell) for gap, cell, _ in cells) for cells in rows]
    text = Text(no_wrap=True)
    for c, cells in enumerate(rows):
        if mirrored:
            text.append(mark + " " * (max(widths) - widths[c]))
        for gap, cell, style in reversed(cells) if mirrored else cells:
            text.append(cell + gap if mirrored else gap + cell, style=style)
        text.append("\n" if c < n - 1 else "")
    return text


def _drawn(row: Sequence[int], ascii_only: bool, mirrored: bool) -> str:
    """The lines of a row."""
    characters = _ASCII if ascii_only else _LINES
    if not mirrored:
        return "".join(characters[bits] for bits in row)
    turned = {_LEFT: _RIGHT, _RIGHT: _LEFT}  # a cell with both or neither stays
    return "".join(characters[bits & ~12 | turned.get(bits & 12, bits & 12)] for bits in reversed(row))


def _grid(heads: Sequence[int]) -> list[list[int]]:
    """For every word a row of directions in which lines leave each cell."""
    n = len(heads)
    depth = [0] * n
    for c in range(n):
        h = heads[c]
        while h:
            depth[c] += 1
            h = heads[h - 1]
    width = 2 * max(depth) + 4
    grid = [[0] * width for _ in range(n)]
    for c in range(n):
        start = 2 * depth[c]
        grid[c][start] |= _RIGHT | (0 if heads[c] else _LEFT)
        for x in range(start + 1, width):
            grid[c][x] |= _LEFT | _RIGHT
        children = [d for d in range(n) if heads[d] == c + 1]
        low, high = min([c, *children]), max([c, *children])
        for row in range(low, high + 1):
            grid[row][start + 2] |= (_UP if row > low else 0) | (_DOWN if row < high else 0)
    return grid


def _has_crossing_arcs(heads: Sequence[int]) -> bool:
    arcs = [(min(h, c), max(h, c)) for c, h in enumerate(heads, 1)]
    return any(a < c < b < d for a, b in arcs for c, d in arcs)


def _name(head: int, forms: Sequence[str]) -> str:
    return f"{forms[head - 1]} ({head})" if head else "ROOT"


def _padded(text: str, width: int, mirrored: bool) -> str:
    blanks = " " * (width - cell_len(text))
    return blanks + text if mirrored else text + blanks
