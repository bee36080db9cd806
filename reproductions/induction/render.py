# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A reproduction's tables for terminals and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich import box
from rich.console import RenderableType
from rich.table import Table as Grid
from rich.text import Text

from pyrogram.cli.io.output import footnotes
from pyrogram.cli.runs.evaluation import DECODERS
from pyrogram.cli.runs.report import HEADS
from reproductions.induction.published import BINS
from reproductions.induction.tables import COMPARED, Cell, Line, Ordering, Report, Table, length_name

ORDERINGS = "Differences between rows in points of MBR accuracy, and in how many starts they are positive"


def terminal(report: Report) -> Iterator[RenderableType]:
    """What to print, one thing after the other; tables fit into 80 columns."""
    yield Text(report.title, style="bold")
    for table in report.tables:
        yield Text(f"\n{table.title}", style="bold")
        yield _grid(table)
        if table.orderings:
            yield Text(ORDERINGS)
            yield _orderings(table.orderings)
    yield footnotes(report.notes)


def _grid(table: Table) -> Grid:
    grid = Grid(box=box.SIMPLE_HEAD, padding=0, pad_edge=False)
    grid.add_column("", no_wrap=True)
    for decoder in DECODERS:
        for b, bound in enumerate(BINS):
            heading = f"{HEADS[decoder] if b == 0 else ''}\n{length_name(bound)}"
            grid.add_column(Text(heading), justify="right", no_wrap=True, min_width=7 if b == 0 else 6)
    for line in table.lines:
        cells = list(line.cells.values())
        grid.add_row(Text(line.row.label), *(_number(cell.mean) for cell in cells))
        if any(cell.spread is not None for cell in cells):
            grid.add_row(Text(f"  ± over {line.starts} starts"), *(_number(cell.spread) for cell in cells))
        if any(cell.paper is not None for cell in cells):
            grid.add_row(Text("  paper"), *(_number(cell.paper) for cell in cells), style="dim")
    return grid


def _orderings(orderings: Sequence[Ordering]) -> Grid:
    grid = Grid(box=box.SIMPLE_HEAD, padding=0, pad_edge=False)
    grid.add_column("", no_wrap=True)
    for i in COMPARED:
        for top, bottom, width in ((length_name(BINS[i]), "paper", 7), ("", "here", 13), ("", "starts", 7)):
            grid.add_column(Text(f"{top}\n{bottom}"), justify="right", no_wrap=True, min_width=width)
    for o in orderings:
        grid.add_row(Text(f"{o.better} − {o.worse}"), *_ordering_cells(o))
    return grid


def _ordering_cells(o: Ordering) -> list[str]:
    cells = []
    for paper, (mean, spread), higher in zip(o.paper, o.here, o.higher, strict=True):
        here = f"{mean:+.1f}" + ("" if spread is None else f" ± {spread:.1f}")
        cells += ["" if paper is None else f"{paper:+.1f}", here, f"{higher}/{o.starts}"]
    return cells


def markdown(report: Report) -> str:
    """The tables and footnotes as Markdown: mean ± standard deviation (the paper's figure)."""
    lines = [f"# {report.title}", ""]
    for table in report.tables:
        headings = [f"{HEADS[decoder]} {length_name(bound)}" for decoder in DECODERS for bound in BINS]
        lines += [f"## {table.title}", "", f"| | {' | '.join(headings)} |", "|---" + "|---:" * len(headings) + "|"]
        lines += [f"| {line.row.label} | {' | '.join(_markdown_cells(line))} |" for line in table.lines]
        lines.append("")
        if table.orderings:
            names = [f"{length_name(BINS[i])}, {what}" for i in COMPARED for what in ("paper", "here", "starts")]
            lines += [f"{ORDERINGS}:", "", f"| | {' | '.join(names)} |", "|---" + "|---:" * len(names) + "|"]
            for o in table.orderings:
                cells = " | ".join(cell.strip() for cell in _ordering_cells(o))
                lines.append(f"| {o.better} − {o.worse} | {cells} |")
            lines.append("")
    return "\n".join([*lines, *(f"- {note}" for note in report.notes)]) + "\n"


def _markdown_cells(line: Line) -> list[str]:
    return [_with_paper(cell) for cell in line.cells.values()]


def _with_paper(cell: Cell) -> str:
    ours = _number(cell.mean) + ("" if cell.spread is None else f" ± {cell.spread:.1f}")
    return ours + ("" if cell.paper is None else f" ({cell.paper:.1f})")


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"
