# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A reproduction's tables for terminals and as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich import box
from rich.console import RenderableType
from rich.table import Table as Grid
from rich.text import Text

from pyrogram.choices import DECODERS
from pyrogram.cli.io.output import footnotes
from pyrogram.cli.runs.report import HEADS
from pyrogram.metrics import SignTest
from pyrogram.printable import plural
from reproductions.induction.parses import COLUMNS, LEVEL, ErrorShare, Signs
from reproductions.induction.published import BINS, COMPARED
from reproductions.induction.tables import Cell, Ordering, Report, Table, length_name

ORDERINGS = "Differences between rows in points of MBR accuracy, and in how many starts they are positive"
SIGNS = (
    f"Sign tests of these differences: in how many starts a row is better (+) or worse (−) with p < {LEVEL:g}; of one "
    "start, p"
)
ERRORS = "Errors of LN by the family of the gold parent, in %"


def terminal(report: Report) -> Iterator[RenderableType]:
    """What to print, one thing after the other; tables fit into 80 columns."""
    yield Text(report.title, style="bold")
    for table in report.tables:
        yield Text(f"\n{table.title}", style="bold")
        yield _grid(table)
        if table.orderings:
            yield Text(ORDERINGS)
            yield _orderings(table.orderings)
        if table.signs:
            yield Text(SIGNS)
            yield _signs(table.signs)
        if table.errors:
            yield Text(ERRORS)
            yield _errors(table.errors)
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
            grid.add_row(Text(f"  ± over {plural(line.starts, 'start')}"), *(_number(cell.spread) for cell in cells))
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


def _signs(signs: Sequence[Signs]) -> Grid:
    grid = Grid(box=box.SIMPLE_HEAD, padding=0, pad_edge=False)
    grid.add_column("", no_wrap=True)
    for b, unit in COLUMNS:
        grid.add_column(Text(f"{length_name(BINS[b])}\n{unit}"), justify="right", no_wrap=True, min_width=12)
    for s in signs:
        grid.add_row(Text(f"{s.better} − {s.worse}"), *map(_sign, s.tests))
    return grid


def _sign(tests: Sequence[SignTest] | None) -> str:
    if tests is None:
        return ""
    if len(tests) == 1:
        (test,) = tests
        return f"{'+' if test.better >= test.worse else '−'} {test.p_value:.2g}"
    sure = [test for test in tests if test.p_value < LEVEL]
    return f"+{sum(t.better > t.worse for t in sure)} −{sum(t.better < t.worse for t in sure)}"


def _errors(errors: Sequence[ErrorShare]) -> Grid:
    grid = Grid(box=box.SIMPLE_HEAD, padding=0, pad_edge=False)
    grid.add_column("", no_wrap=True)
    for name in _ERRORS:
        grid.add_column(name, justify="right", no_wrap=True, min_width=14)
    for e in errors:
        grid.add_row(Text(e.family), *_error_cells(e))
    return grid


_ERRORS = ("words", "errors", "paper")


def _error_cells(e: ErrorShare) -> list[str]:
    return [_number(e.words), _number(e.errors) + ("" if e.spread is None else f" ± {e.spread:.1f}"), _number(e.paper)]


def markdown(report: Report) -> str:
    """The tables and footnotes as Markdown: mean ± standard deviation (the paper's figure)."""
    lines = [f"# {report.title}", ""]
    for table in report.tables:
        headings = [f"{HEADS[decoder]} {length_name(bound)}" for decoder in DECODERS for bound in BINS]
        cells = [(line.row.label, map(_with_paper, line.cells.values())) for line in table.lines]
        lines += [f"## {table.title}", "", *_markdown_grid(headings, cells), ""]
        if table.orderings:
            names = [f"{length_name(BINS[i])}, {what}" for i in COMPARED for what in ("paper", "here", "starts")]
            rows = [(f"{o.better} − {o.worse}", _ordering_cells(o)) for o in table.orderings]
            lines += [f"{ORDERINGS}:", "", *_markdown_grid(names, rows), ""]
        if table.signs:
            names = [f"{length_name(BINS[b])}, {unit}" for b, unit in COLUMNS]
            rows = [(f"{s.better} − {s.worse}", [_sign(t) for t in s.tests]) for s in table.signs]
            lines += [f"{SIGNS}:", "", *_markdown_grid(names, rows), ""]
        if table.errors:
            rows = [(e.family, _error_cells(e)) for e in table.errors]
            lines += [f"{ERRORS}:", "", *_markdown_grid(_ERRORS, rows), ""]
    return "\n".join([*lines, *(f"- {note}" for note in report.notes)]) + "\n"


def _markdown_grid(names: Sequence[str], rows: Iterable[tuple[str, Iterable[str]]]) -> list[str]:
    head = [f"| | {' | '.join(names)} |", "|---" + "|---:" * len(names) + "|"]
    return head + [f"| {name} | {' | '.join(cells)} |" for name, cells in rows]


def _with_paper(cell: Cell) -> str:
    ours = _number(cell.mean) + ("" if cell.spread is None else f" ± {cell.spread:.1f}")
    return ours + ("" if cell.paper is None else f" ({cell.paper:.1f})")


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"
