# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What goes to stdout: through rich, in colour on a terminal unless NO_COLOR is set; plain in a pipe.

Nothing that files hold can steer a terminal, and no table is cut.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text

from pyrogram.cli.io.tree_text import tree_text
from pyrogram.printable import printable

PIPE_WIDTH = 100


class Screen(Console):
    """A console that writes control characters as escapes, and tables that are too wide in parts."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else printable(text, keep="\n"), style, control)

    def print(self, *objects: Any, **options: Any) -> None:
        for item in objects or ("",):
            for part in self._parts(item) if isinstance(item, Table) and item.box is not None else [item]:
                super().print(part, **options)

    def _parts(self, table: Table) -> Iterator[Table]:
        """The table, or several with the same first column and some of the others each."""
        label, *others = table.columns
        while others:
            chosen = others
            while len(chosen) > 1 and not self._fits(_with_columns(table, [label, *chosen])):
                chosen = chosen[:-1]
            part = _with_columns(table, [label, *chosen])
            yield part if self._fits(part) else _with_columns(table, [label, *chosen], fold=True)
            others = others[len(chosen) :]

    def _fits(self, table: Table) -> bool:
        return Measurement.get(self, self.options.update(max_width=10**6), table).maximum <= self.width


def _with_columns(table: Table, columns: Sequence[Column], fold: bool = False) -> Table:
    """A table of these columns; labels are folded only where nothing else helps."""
    part = Table(box=table.box, padding=table.padding, pad_edge=table.pad_edge, show_header=table.show_header)
    for i, column in enumerate(columns):
        part.add_column(
            column.header,
            justify=column.justify,
            no_wrap=column.no_wrap if i else not fold,
            min_width=column.min_width,
            overflow="fold",
        )
    for row, *cells in zip(table.rows, *(column.cells for column in columns), strict=True):
        part.add_row(*cells, style=row.style, end_section=row.end_section)
    return part


def footnotes(lines: Iterable[str]) -> Table:
    """Footnotes, wrapped beside their asterisks."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column()
    grid.add_column(overflow="fold")
    for line in lines:
        grid.add_row(Text("*", style="dim"), Text(line, style="dim"))
    return grid


def console() -> Console:
    """A console for stdout. A pipe has no width, so tables get as much as they need.

    What the terminal's encoding lacks is shown as a question mark.
    """
    if not _is_utf8() and hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")
    plain = Screen(highlight=False)
    return plain if plain.is_terminal else Screen(highlight=False, width=PIPE_WIDTH)


def print_tree(
    heads: Sequence[int], forms: Sequence[str], tags: Sequence[str] | None = None, gold: Sequence[int] | None = None
) -> None:
    """Draw a tree on stdout, in ASCII if it takes no more."""
    text = tree_text(heads, forms, tags, gold, ascii_only=not _is_utf8())
    console().print(text, soft_wrap=True)


def write_text(text: str | Iterable[str]) -> None:
    """Text for other programs, in UTF-8 whatever the terminal takes: as it is, but with escapes on a terminal.

    :param text: all of it, or pieces that are written one by one.
    """
    sys.stdout.flush()
    for piece in [text] if isinstance(text, str) else text:
        shown = printable(piece, keep="\t\n") if sys.stdout.isatty() else piece
        sys.stdout.buffer.write(shown.encode())


def _is_utf8() -> bool:
    return (getattr(sys.stdout, "encoding", None) or "ascii").lower().startswith("utf")
