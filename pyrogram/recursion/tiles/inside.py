# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The inside pass, for the sentences of a block at once: the chart, and Z.

Columns are filled one after the other, and multiplied by powers of two (:mod:`~pyrogram.recursion.lanes.scaling`):
chains by that which brings the last point near one, before a point is filled; charts of spans afterwards, by the mean
of their cells. All cells are summed up: what is flushed to zero cannot have mattered as long as the sum is below a
bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from ..lanes.scaling import Columns
from ..lanes.tables import MEMORY, weight_cells
from ..machine.expressions import (
    Expression,
    Name,
    any_lane,
    equal,
    exponent_of,
    fill,
    greatest,
    least,
    power_of_two,
    real,
    rounded,
    select,
)
from ..machine.statements import Code
from ..rules.cells import CellClass, Head, Term, names_in, symbols_in
from ..rules.language import Variable
from ..rules.lowering import may_be_here
from .grids import Factor, Grid
from .tables import TileTables

N = Name("n", "int")
J = Name("at.j", "int")


class Pass:
    """Code of a pass over the cells. The variable ``n`` is the length of the longest sentence."""

    def __init__(self, tables: TileTables, code: Code, columns: Columns | None) -> None:
        self.tables, self.code, self.sums, self.columns = tables, code, tables.sums, columns
        self.cells = tables.cells
        spans = self.cells.of("span")
        self.fixed = [c for c in spans if c.width is not None]
        self.rest = next((c for c in spans if c.width is None), None)
        self.points, self.goal = self.cells.of("point"), self.cells.of("goal")
        self.first = self.cells.first

    @contextmanager
    def at_width(self, cell: CellClass) -> Iterator[None]:
        """The span of a fixed width that ends at j, if there is one."""
        assert cell.width is not None
        i = self.code.set("at.i", J - cell.width)
        with self.code.when(i >= self.first):
            yield

    @contextmanager
    def at_point(self, cell: CellClass) -> Iterator[None]:
        """The point j, if it is in the class."""
        with self.code.when(equal(J, cell.least) if cell.width is not None else J >= cell.least):
            yield

    @contextmanager
    def ends(self) -> Iterator[Expression]:
        """The lengths of sentences; which lanes have it."""
        with self.code.loop("at.n", 1, N + 1) as m:
            here = self.code.let(MEMORY[Name("ends", "int") + m])
            with self.code.when(any_lane(here)):
                yield here

    def brings(self, term: Term) -> bool:
        """Whether a rule brings the factor of its column."""
        return self.columns is not None and id(term) in self.columns.bringing

    def outer(self, term: Term) -> list[Factor]:
        """The factors of a term beside its inner sum."""
        return [self.tables.factor(f) for f in term.factors]

    def inner(self, term: Term) -> list[Factor]:
        """The factors of its inner sum."""
        assert term.inner is not None
        return [self.tables.factor(f) for f in term.inner.factors]

    def reads_own_rows(self, cell: CellClass, head: Head, term: Term) -> bool:
        """Whether rows of a list read what earlier rows have added to at the same cell."""
        same = [f for f in term.rule.items if f.table == head.ref.table and cell.kind != "goal"]
        return any(may_be_here(cell, term.rule, f, self.first, self.cells.domains) for f in same)

    @contextmanager
    def own_rows(self, cell: CellClass, head: Head, backwards: bool) -> Iterator[tuple[list[Variable], list[Term]]]:
        """A loop over the rows of a list, and the terms that read what earlier rows have added to."""
        terms = [t for t in head.terms if self.reads_own_rows(cell, head, t)]
        rows = list(self.tables.item(head.ref).rows) if terms else []
        with ExitStack() as stack:
            for row in rows:
                size, name = self.tables.layout.size(row.size), f"sym.{row.name}"
                stack.enter_context(
                    self.code.loop(name, size - 1, -1, -1) if backwards else self.code.loop(name, 0, size)
                )
            yield rows, terms[::-1] if backwards else terms

    def is_direct(self, head: Head, term: Term) -> bool:
        """Whether the inner sum has the symbols of the head, and needs no cells of its own."""
        if term.inner is None or term.symbols:
            return False
        mine = head.ref.symbols
        return set(term.inner.free) == set(symbols_in([head.ref])) and all(isinstance(x, Variable) for x in mine)

    def form(self, cell: CellClass, term: Term) -> Grid:
        """The inner sum of a term, in its own cells."""
        assert term.inner is not None
        node = self.tables.node(cell, term)
        self.sums.contract(node, self.inner(term), term.inner.loops, add=False)
        return node

    def is_kept(self, cell: CellClass, head: Head, term: Term) -> bool:
        """Whether the inside pass leaves the inner sum of a term to the outside pass: one for each point.

        Not beside spans, whose columns are scaled after sums of them have been formed.
        """
        alone = cell.kind == "point" and self.rest is None
        return alone and self.is_direct(head, term) and bool(term.factors)


class Inside(Pass):
    """Code that fills the chart."""

    def run(self) -> None:
        """Fill the chart and Z."""
        code = self.code
        code.set("bound.sum", fill(0.0))
        for name in ("exponent", "grown"):
            code.put(MEMORY, Name(name, "int"), fill(0.0))
        for name in ("alive", "steepest"):
            code.set(name, fill(0.0))
        code.set("next.factor", fill(1.0))
        with code.loop("x", 1, N + 1) as x:
            code.set("alive", Name("alive", "lanes") + MEMORY[Name("ends", "int") + x])
        with code.loop("at.j", self.first, N + 1):
            self._begin_column()
            for c in self.fixed:
                with self.at_width(c):
                    self._cell(c)
            if self.rest is not None:
                with code.loop("at.i", J - self.rest.least, self.first - 1, -1):
                    self._cell(self.rest)
            for c in self.points:
                with self.at_point(c):
                    self._cell(c)
            if self.columns is not None:
                with code.when(J >= self.columns.begin):
                    if self.rest is None:
                        self._choose_next()
                    else:
                        self._scale(self.rest)
        self._close()
        code.put(MEMORY, Name("bound", "int"), Name("bound.sum", "lanes"))

    def _begin_column(self) -> None:
        code = self.code
        with code.when(J > 1):  # sentences that have ended have no such column
            code.set("alive", Name("alive", "lanes") - MEMORY[Name("ends", "int") + (J - 1)])
        factor = Name("next.factor", "lanes")
        if self.columns is not None and self.rest is None:
            self._record(code.let(exponent_of(factor)))
        code.put(MEMORY, Name("factors", "int") + J, factor)

    def _record(self, exponent: Expression) -> None:
        """Count a power of two by which the column of sentences that have it is multiplied.

        No derivation has grown by more than that times the greatest weights that bring the factor with them; but a
        weight that is flushed to zero meets the factor of its own column without them, once: the steepest one.
        """
        code, alive = self.code, Name("alive", "lanes")
        code.add(MEMORY, Name("exponent", "int"), exponent * alive)
        code.set("steepest", greatest(Name("steepest", "lanes"), exponent * alive))
        code.set("brought", fill(0.0))
        for cell in [*self.fixed, *([self.rest] if self.rest else []), *self.points]:
            terms = [t for h in cell.heads for t in h.terms if self.brings(t)]
            if terms and cell is self.rest:
                code.set("brought", fill(1.0))
            elif terms:
                with self.at_width(cell) if cell.kind == "span" else self.at_point(cell):
                    for term in terms:
                        self._bring(term)
        most = code.let(exponent_of(Name("brought", "lanes")) + fill(1.0))
        code.add(MEMORY, Name("grown", "int"), greatest(exponent + most, fill(0.0)) * alive)

    def _bring(self, term: Term) -> None:
        """The greatest product of the weights of a term that know positions."""
        code = self.code
        product: Expression = fill(1.0)
        for f in term.all_factors:
            if not f.is_item and not self.tables.is_plain(weight_cells(f)) and names_in(f) <= {"i", "j"}:
                grid = self.tables.weight(f)
                code.set("greatest.weight", fill(0.0))
                with self.sums.loops((), grid.variables):
                    code.set("greatest.weight", greatest(Name("greatest.weight", "lanes"), grid.value({})))
                product = code.let(product * Name("greatest.weight", "lanes"))
        code.set("brought", greatest(Name("brought", "lanes"), product))

    # ------------------------------------------------------------------ cells

    def _cell(self, cell: CellClass) -> None:
        written: set[str] = set()
        for head in cell.heads:
            table, grid = head.ref.table, self.tables.item(head.ref)
            if table not in written and not self._overwrites(cell, head):
                self.sums.clear(self.tables.whole(head.ref))
                written.add(table)
            for term in head.terms:
                if not self.reads_own_rows(cell, head, term):
                    with self.sums.where(term.guard):
                        self._term(cell, head, term, grid, add=table in written)
                    written.add(table)
            with self.own_rows(cell, head, backwards=False) as (rows, terms):
                for term in terms:
                    with self.sums.where(term.guard):
                        self.sums.contract(grid, [*self.outer(term), *self._factor(term)], known=rows)
            if not any(h.ref.table == table for h in cell.heads[cell.heads.index(head) + 1 :]):
                self.sums.meet_all(self.tables.whole(head.ref))

    def _overwrites(self, cell: CellClass, head: Head) -> bool:
        """Whether the first term of a head gives all of its cells a value."""
        mine = head.ref.symbols
        whole = all(isinstance(x, Variable) for x in mine) and len(set(mine)) == len(mine)
        return whole and bool(head.terms) and not head.terms[0].guard

    def _factor(self, term: Term) -> list[Factor]:
        """The factor of the column, if the rule brings it and it is known."""
        return [Name("next.factor", "lanes")] if self.brings(term) and self.rest is None else []

    def _term(self, cell: CellClass, head: Head, term: Term, grid: Grid, add: bool) -> None:
        outer, factor = self.outer(term), self._factor(term)
        if self.is_direct(head, term):
            assert term.inner is not None
            kept = self.tables.node(cell, term) if self.is_kept(cell, head, term) else None
            parts = self.inner(term), term.inner.loops
            self.sums.contract(grid, *parts, outer=[*outer, *factor], add=add, kept=kept)
            if kept is not None:
                self.sums.meet_all(kept)
            return
        if term.inner is not None:
            outer.append(self.form(cell, term))
            self.sums.meet_all(self.tables.node(cell, term))
        self.sums.contract(grid, outer, outer=factor, add=add)

    # ------------------------------------------------------------------ scaling

    def _choose_next(self) -> None:
        """The power of two that brings the points of this column to between one and two."""
        code = self.code
        code.set("column.total", fill(0.0))
        for c in self.points:
            with self.at_point(c):
                for grid in self._grids(c):
                    self.sums.add_up([grid], "column.total")
        e = code.let(exponent_of(Name("column.total", "lanes")))
        code.set("next.factor", power_of_two(code.let(fill(0.0) - e)))

    def _scale(self, rest: CellClass) -> None:
        """Multiply the column by the power of two that brings the mean exponent of its cells to zero."""
        code = self.code
        code.set("exponents", fill(0.0))
        with code.loop("at.i", self.first, J - rest.least + 1):
            code.set("cell.total", fill(0.0))
            for grid in self._grids(rest):
                self.sums.add_up([grid], "cell.total")
            # Clamped, so that one cell does not decide.
            e = least(greatest(exponent_of(Name("cell.total", "lanes")), fill(-24.0)), fill(24.0))
            code.set("exponents", Name("exponents", "lanes") + e)
        mean = real(-1.0) / real(greatest(J, 1))
        e = code.let(rounded(Name("exponents", "lanes") * fill(mean)) * Name("alive", "lanes"))
        f = code.let(power_of_two(e))
        self._record(e)
        code.put(MEMORY, Name("factors", "int") + J, f)
        for c in self.fixed:
            with self.at_width(c):
                self._scale_cell(c, f)
        with code.loop("at.i", self.first, J - rest.least + 1):
            self._scale_cell(rest, f)
        for c in self.points:
            with self.at_point(c):
                self._scale_cell(c, f)

    def _grids(self, cell: CellClass) -> list[Grid]:
        """All items of a cell."""
        refs = {h.ref.table: h.ref for h in cell.heads}
        return [self.tables.whole(ref) for ref in refs.values()]

    def _scale_cell(self, cell: CellClass, f: Name) -> None:
        assert self.columns is not None
        for ref in {h.ref.table: h.ref for h in cell.heads}.values():
            if self.columns.has(cell, ref.table):
                grid = self.tables.whole(ref)
                self.sums.contract(grid, [grid, f], add=False)

    # ------------------------------------------------------------------ Z

    def _close(self) -> None:
        """Z of every lane, where its sentence ends."""
        code = self.code
        code.set("z.sum", fill(self.sums.numbers.zero))
        with self.ends() as here:
            code.set("goal.value", fill(self.sums.numbers.zero))
            for c in self.goal:
                for head in c.heads:
                    for term in head.terms:
                        if head.ref.table == self.cells.goal:
                            self._goal_term(c, term)
            code.set("z.sum", select(here > fill(0.0), Name("goal.value", "lanes"), Name("z.sum", "lanes")))
        code.put(MEMORY, Name("z", "int"), Name("z.sum", "lanes"))
        code.add(MEMORY, Name("grown", "int"), Name("steepest", "lanes"))

    def _goal_term(self, cell: CellClass, term: Term) -> None:
        with self.sums.where(term.guard):
            factors: Sequence[Factor] = self.outer(term)
            if term.inner is not None:
                factors = [*factors, self.form(cell, term)]
                self.sums.meet_all(self.tables.node(cell, term))
            self.sums.add_up(factors, "goal.value")
