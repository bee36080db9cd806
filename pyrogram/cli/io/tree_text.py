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
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.text import Text

from pyrogram.printable import printable

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

    :param heads: a tree with one root or several, 0 for the wall.
    :param ascii_only: for terminals that know no others.
    """
    n = len(heads)
    forms = [printable(form) for form in forms]
    tags = [printable(tag) for tag in tags] if tags else None
    grid = _grid(heads)
    form_width = max(cell_len(form) for form in forms)
    tag_width = max(cell_len(tag) for tag in tags) if tags else 0
    crossing = _has_crossing_arcs(heads)
    text = Text(no_wrap=True)
    for c in range(n):
        lines = "".join((_ASCII if ascii_only else _LINES)[bits] for bits in grid[c])
        text.append(lines + " ", style="dim")
        wrong = gold is not None and gold[c] != heads[c]
        text.append(_padded(forms[c], form_width if tags or wrong or crossing else 0), style="bold")
        if tags:
            text.append("  " + _padded(tags[c], tag_width if wrong or crossing else 0), style="cyan")
        if crossing:
            text.append(f"  head: {_name(heads[c], forms)}", style="dim")
        if wrong and gold is not None:
            text.append(f"  {'x' if ascii_only else '✗'} gold head: {_name(gold[c], forms)}", style="red")
        text.append("\n" if c < n - 1 else "")
    return text


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
    return f"{forms[head - 1]} ({head})" if head else "the wall"


def _padded(text: str, width: int) -> str:
    return text + " " * (width - cell_len(text))
