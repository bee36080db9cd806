# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Loops over the cells of a chart, and over the instances of the rules that prove an item.

All programs that look at one sentence at a time are made of these loops: logarithms of sums, posteriors, the best
derivations, draws. They differ in what they do at an instance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from ..code.expressions import Expression, Name, equal, greatest, least
from ..code.statements import Code
from ..rules.cells import CellClass, Cells, Head, Term
from ..rules.language import Bound, Entry, Position, Ref, Variable, Word
from .agenda import here, in_class
from .layout import Layout
from .rows import chain

J = Name("at.j", "int")


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

    # ------------------------------------------------------------------ cells

    def cells_in_order(self, visit: Callable[[CellClass], None], upwards: bool = True) -> None:
        """All cells in the order of filling, or in the reverse one."""
        code, first, n = self.code, self.cells.first, Name("n", "int")
        columns, goal = [*self.cells.of("span"), *self.cells.of("point")], self.cells.of("goal")
        for cell in () if upwards else goal:
            visit(cell)
        if columns:
            with code.loop("at.j", first, n + 1) if upwards else code.loop("at.j", n, first - 1, -1):
                for cell in columns if upwards else reversed(columns):
                    with self._of_column(cell, upwards):
                        visit(cell)
        for cell in goal if upwards else ():
            visit(cell)

    def fill(self, clear: Callable[[Ref], None], visit: Callable[[Head], None]) -> None:
        """All items in the order of filling, head by head.

        :param clear: code for all symbols of an item, before its first head.
        :param visit: code for a head at its symbols.
        """

        def cells(cell: CellClass) -> None:
            cleared: set[str] = set()
            for head in cell.heads:
                if head.ref.table not in cleared:
                    cleared.add(head.ref.table)
                    clear(head.ref)
                with self.symbols(head), self.rows(head):
                    visit(head)

        self.cells_in_order(cells)

    @contextmanager
    def _of_column(self, cell: CellClass, upwards: bool) -> Iterator[None]:
        """The cells of a class that end at j."""
        code, first, last = self.code, self.cells.first, J - cell.least
        if cell.kind == "span" and cell.width is None:
            with code.loop("at.i", last, first - 1, -1) if upwards else code.loop("at.i", first, last + 1):
                yield
        else:
            with the_cell(code, cell, first):
                yield

    # ------------------------------------------------------------------ items and instances

    @contextmanager
    def symbols(self, head: Head) -> Iterator[Ref]:
        """A loop over the symbols of a head that are not left to its instances; yields the item at hand.

        Where a list of rules names the symbol, the rows of the list are its instances, and there is no loop: the item
        is then that of the row.
        """
        with ExitStack() as stack:
            for x in head.ref.symbols:
                self._enter_word(stack, x)
            for x in dict.fromkeys(x for x in head.ref.symbols if isinstance(x, Variable)):
                stack.enter_context(self.code.loop(f"sym.{x.name}", 0, self.layout.size(x.size)))
            yield head.ref

    @contextmanager
    def rows(self, head: Head, upwards: bool = True) -> Iterator[None]:
        """A loop over the rows of lists that name symbols of a head, in the order of filling or in the reverse one."""
        with ExitStack() as stack:
            for x in dict.fromkeys(x.row for x in head.ref.symbols if isinstance(x, Entry)):
                size = self.layout.size(x.size)
                stack.enter_context(self.code.loop(f"sym.{x.name}", *((0, size) if upwards else (size - 1, -1, -1))))
            yield

    def instances(self, head: Head, visit: Callable[[Term], object]) -> None:
        """All instances of the terms of a head whose symbols are known."""
        known = {x.row if isinstance(x, Entry) else x for x in head.ref.symbols}
        for term in head.terms:
            with ExitStack() as stack:
                for bound in term.guard:
                    stack.enter_context(self.code.when(self._holds(bound)))
                for loop in term.loops:
                    low = self._extreme(loop.low, greatest)
                    high = self._extreme(loop.high, least)
                    stack.enter_context(self.code.loop(f"at.{loop.name}", low, high + 1))
                for x in dict.fromkeys(term.all_symbols):
                    if x not in known:
                        stack.enter_context(self.code.loop(f"sym.{x.name}", 0, self.layout.size(x.size)))
                visit(term)

    def _holds(self, bound: Bound) -> Expression:
        return self.layout.position(Position(bound.x)) <= self.layout.position(Position(bound.y, bound.most))

    def _extreme(
        self, limits: tuple[Position, ...], choose: Callable[[Expression, Expression], Expression]
    ) -> Expression:
        position = self.layout.position(limits[0])
        for x in limits[1:]:
            position = choose(position, self.layout.position(x))
        return position

    # ------------------------------------------------------------------ from an item to its head

    @contextmanager
    def matching(self, head: Head) -> Iterator[None]:
        """Code for the item at hand, whose symbols are in variables, if it is one of this head's.

        Positions are in ``at.i`` and ``at.j`` already.
        """
        with ExitStack() as stack:
            bound: set[Variable] = set()
            for a, x in enumerate(head.ref.symbols):
                wanted = self.layout.symbol(here(a))
                self._enter_word(stack, x)
                if isinstance(x, Variable) and x not in bound:
                    bound.add(x)
                    self.code.set(f"sym.{x.name}", wanted)
                    continue
                if isinstance(x, Entry) and x.row not in bound:
                    bound.add(x.row)
                    size = self.cells.sizes[head.ref.table][a]
                    stack.enter_context(chain(self.code, x, size, wanted))
                    continue
                stack.enter_context(self.code.when(equal(self.layout.symbol(x), wanted)))
            yield

    def _enter_word(self, stack: ExitStack, x: object) -> None:
        """Where a head's symbol is a word, there is a head only where there is a word: no fence post 0 has one."""
        if isinstance(x, Word):
            at = self.layout.position(x.position)
            stack.enter_context(self.code.when((at >= 1) & (at <= Name("n", "int"))))

    def item_here(self, table: str) -> Ref:
        """The item at hand."""
        ref = next(h.ref for c in self.cells.classes for h in c.heads if h.ref.table == table)
        return replace(ref, symbols=tuple(here(a) for a in range(len(ref.symbols))))

    def instances_here(self, table: str, visit: Callable[[Term], object]) -> None:
        """All instances that prove the item at hand."""
        for cell in self.cells.classes:
            for head in (h for h in cell.heads if h.ref.table == table):
                with in_class(self.code, cell), self.matching(head):
                    self.instances(head, visit)


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
