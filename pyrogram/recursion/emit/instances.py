# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Loops over the cells of a chart, and over the instances of the rules that prove an item.

All programs that look at one sentence at a time are made of these loops: draws, the best derivations, the k best. They
differ in what they do at an instance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..code.expressions import Array, Expression, Name, equal
from ..code.statements import Code
from ..rules.cells import CellClass, Cells, Head, Term
from ..rules.language import Bound, Entry, Position, Ref, Variable
from .grids import first_of, last_of, place
from .layout import Layout
from .names import AT_N

Numbers = Any  # a numpy array
J = Name("at.j", "int")
ROWS_BY_SYMBOL = Array("rows_by_symbol", "int")  # see the function of this name


@dataclass
class Enumeration:
    """Code that goes through a chart.

    :param cells: of the chart.
    :param layout: where weights lie.
    :param code: to which loops are added.
    """

    cells: Cells
    layout: Layout
    code: Code

    # ------------------------------------------------------------------ items

    def heads(self, clear: Callable[[Ref], None]) -> Iterator[Head]:
        """All items in the order of filling, by head: code that is added after a head is within loops over them.

        :param clear: code for all symbols of an item, before its first head.
        """
        for cell in in_order(self.code, self.cells):
            for ref in {head.ref.table: head.ref for head in cell.heads}.values():
                clear(ref)
            for head in cell.heads:
                with self._symbols(head):
                    yield head

    @contextmanager
    def _symbols(self, head: Head) -> Iterator[None]:
        """Loops over the symbols of a head. Where a list of rules names one, the loop is over the rows of the list.

        That is the outer one: a row may read all that earlier rows have added to.
        """
        rows = [x.row for x in head.ref.symbols if isinstance(x, Entry)]
        with ExitStack() as stack:
            for x in dict.fromkeys([*rows, *(x for x in head.ref.symbols if isinstance(x, Variable))]):
                stack.enter_context(self.code.loop(f"sym.{x.name}", 0, self.layout.size(x.size)))
            yield

    # ------------------------------------------------------------------ instances

    def instances(self, head: Head) -> Iterator[Term]:
        """All instances that prove an item of a head, by term: code that is added after a term is within loops over
        them.
        """
        code = self.code
        known = {x.row if isinstance(x, Entry) else x for x in head.ref.symbols}
        for term in head.terms:
            with where(code, term.guard), ExitStack() as stack:
                for loop in term.loops:
                    stack.enter_context(code.loop(f"at.{loop.name}", first_of(loop), last_of(loop) + 1))
                for x in dict.fromkeys(term.all_symbols):
                    if x not in known:
                        stack.enter_context(code.loop(f"sym.{x.name}", 0, self.layout.size(x.size)))
                yield term

    def item_here(self, table: str) -> Ref:
        """The item at hand: its positions are in ``at.i`` and ``at.j``, its symbols in those of :func:`here`."""
        ref = next(h.ref for c in self.cells.classes for h in c.heads if h.ref.table == table)
        return replace(ref, symbols=tuple(here(a) for a in range(len(ref.symbols))))

    def instances_here(self, table: str) -> Iterator[Term]:
        """All instances that prove the item at hand; see :meth:`instances`."""
        for cell in self.cells.classes:
            for head in (h for h in cell.heads if h.ref.table == table):
                with where(self.code, cell.widths), self._matching(head):
                    yield from self.instances(head)

    @contextmanager
    def _matching(self, head: Head) -> Iterator[None]:
        """If the item at hand is one of a head's: for each row of a list that names its symbols."""
        with ExitStack() as stack:
            bound: set[Variable] = set()
            for a, x in enumerate(head.ref.symbols):
                wanted = self.layout.symbol(here(a))
                if isinstance(x, Variable) and x not in bound:
                    bound.add(x)
                    self.code.set(f"sym.{x.name}", wanted)
                elif isinstance(x, Entry) and x.row not in bound:
                    bound.add(x.row)
                    stack.enter_context(self._rows_with(x, wanted))
                else:
                    stack.enter_context(self.code.when(equal(self.layout.symbol(x), wanted)))
            yield

    @contextmanager
    def _rows_with(self, x: Entry, symbol: Expression) -> Iterator[None]:
        """A loop over the rows of a column that have a symbol."""
        start = self.code.let(ROWS_BY_SYMBOL[_columns(self.layout.cells).index(x.column)] + symbol)
        with self.code.loop(f"place.{x.row.name}", ROWS_BY_SYMBOL[start], ROWS_BY_SYMBOL[start + 1]) as place:
            self.code.set(f"sym.{x.row.name}", ROWS_BY_SYMBOL[place])
            yield


def here(axis: int) -> Variable:
    """A symbol of the item at hand."""
    return Variable(f"here.{axis}", 1)


def in_order(
    code: Code, cells: Cells, backwards: bool = False, close: Callable[[], None] | None = None
) -> Iterator[CellClass]:
    """The classes of cells in the order of filling, or backwards: code that is added after one is within loops over
    its cells. The goal is the last one, or the first.

    :param close: code after all cells that end at j.
    """
    classes, last = [*cells.of("span"), *cells.of("point")], AT_N
    if backwards:
        yield from cells.of("goal")
    with code.loop("at.j", *((last, cells.first - 1, -1) if backwards else (cells.first, last + 1))):
        for cell in reversed(classes) if backwards else classes:
            first, end = cells.first, J - cell.least
            if cell.kind != "span" or cell.width is not None:
                with the_cell(code, cell, first):
                    yield cell
                continue
            with code.loop("at.i", *((first, end + 1) if backwards else (end, first - 1, -1))):
                yield cell
        if close is not None:
            close()
    if not backwards:
        yield from cells.of("goal")


@contextmanager
def the_cell(code: Code, cell: CellClass, first: int) -> Iterator[None]:
    """The only cell of a class that ends at j, if there is one: a point, or a span of the class's width."""
    if cell.kind == "span":
        assert cell.width is not None
        test = code.set("at.i", J - cell.width) >= first
    else:
        test = equal(J, cell.least) if cell.width is not None else J >= cell.least
    with code.when(test):
        yield


@contextmanager
def where(code: Code, bounds: Iterable[Bound]) -> Iterator[None]:
    """If bounds of positions hold."""
    with ExitStack() as stack:
        for b in bounds:
            stack.enter_context(code.when(place(Position(b.x)) <= place(Position(b.y, b.most))))
        yield


def _columns(cells: Cells) -> list[str]:
    """Columns of lists that name symbols of items that are proved."""
    return sorted({x.column for c in cells.classes for h in c.heads for x in h.ref.symbols if isinstance(x, Entry)})


def rows_by_symbol(cells: Cells, sizes: Mapping[str, int], lists: Mapping[str, Numbers]) -> Numbers:
    """Which rows of a list prove an item: for ``X[i, j, A[r]] += ...`` the rows with A[r] = x, for each symbol x.

    One array has it for all columns. First, for each column, where its symbols begin. Then, column by column, where the
    rows of each symbol begin, and where the last ones end; and the rows, those of a symbol in ascending order.

    :param sizes: numbers of symbols, by their names.
    :param lists: columns of lists of rules.
    """
    columns = _columns(cells)
    starts, end = np.zeros(len(columns), np.int64), len(columns)
    num_symbols = max((s if isinstance(s, int) else sizes[s] for axes in cells.sizes.values() for s in axes), default=0)
    parts = [starts]
    for x, column in enumerate(columns):
        entries = np.asarray(lists[column])
        order = np.argsort(entries, kind="stable")
        first = end + num_symbols + 1
        parts += [first + np.searchsorted(entries[order], np.arange(num_symbols + 1)), order]
        starts[x], end = end, first + len(order)
    return np.concatenate(parts)
