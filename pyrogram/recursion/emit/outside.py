# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The outside pass: adjoints of log Z, and from them the posteriors of all weights.

Cells are visited in the reverse of the order in which the inside pass filled them. A sum is formed again where its
value is needed, if the inside pass has not kept it. Counts of weights that know no position come last: one sum over the
cells of a column, or over all points, with the cells innermost, so that each count stays in a register.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ..code.expressions import Name, fill
from ..rules.cells import CellClass, Head, Loop, Term
from ..rules.language import Position, Ref, Variable
from .grids import Factor, Grid, Held
from .inside import N, Pass
from .instances import the_cell
from .regions import by_axes, regions_of
from .weights import PITCH, weight_cells

GOAL = Held("goal.adjoint", adjoint=True)


class Outside(Pass):
    """Code that finds posteriors, after :class:`.Inside`."""

    def run(self) -> None:
        """Posteriors of all weights, after the inside pass."""
        code, numbers = self.code, self.sums.numbers
        code.set("at.n", N)
        self._clear()
        numbers.set("inverse", numbers.inverse(numbers.let(numbers.z())))  # no NaN from lanes without a sentence
        self._goal()
        with code.loop("at.j", N, self.first - 1, -1) as j:
            for c in reversed(self.points):
                with the_cell(code, c, self.first):
                    self._cell(c)
            if self.rest is not None:
                with code.loop("at.i", self.first, j + (1 - self.rest.least)):
                    self._cell(self.rest)
                first, last = Position("", self.first), Position("j", -self.rest.least)
                self._count_all(self.rest, Loop("i", (first,), (last,)))
            for c in reversed(self.fixed):
                with the_cell(code, c, self.first):
                    self._cell(c)
        code.set("at.n", N)
        for c in self.points:
            last = Position("n") if c.width is None else Position("", c.least)
            with code.when(N >= c.least):
                self._count_all(c, Loop("j", (Position("", c.least),), (last,)))
        self._close()

    def _goal(self) -> None:
        numbers, adjoint = self.sums.numbers, GOAL
        with self.ends() as here:
            numbers.set(adjoint.name, numbers.select(here > fill(0.0), numbers.get("inverse"), numbers.zero))
            for c in self.goal:
                for head in (h for h in c.heads if h.ref.table == self.cells.goal):
                    for term in head.terms:
                        with self.sums.where(term.guard):
                            self._open(c, head, term, adjoint)
                            self._count(c, head, term, ())

    def _cell(self, cell: CellClass) -> None:
        bounded: set[str] = set()
        for head in reversed(cell.heads):
            adjoint = self.tables.item(head.ref, adjoint=True)
            if head.ref.table not in bounded:
                self._bound(self.tables.whole(head.ref, adjoint=True))
                bounded.add(head.ref.table)
            with self.own_rows(cell, head, backwards=True) as (rows, terms):
                if terms:
                    self._bound(adjoint, rows)
                for term in terms:
                    with self.sums.where(term.guard):
                        values = self.factors(term.factors)
                        self._reverse(adjoint, term.factors, values, self._is_opened, known=rows)
            for term in reversed(head.terms):
                with self.sums.where(term.guard):
                    if not self.reads_own_rows(cell, term):
                        self._open(cell, head, term, adjoint)
                    if not self._is_late(cell, term):
                        self._count(cell, head, term, ())

    def _bound(self, adjoint: Grid, known: Sequence[Variable] = ()) -> None:
        """Adjoints of what is zero can be of any size: they matter to nobody, and must not become infinite."""
        if self.in_range:
            self.sums.bound(adjoint, known)

    # ------------------------------------------------------------------ adjoints of one term

    def _open(self, cell: CellClass, head: Head, term: Term, adjoint: Factor) -> None:
        """From the adjoint of a head to those of the factors of a term; counts come later."""
        values = self.factors(term.factors)
        if term.inner is None:
            self._reverse(adjoint, term.factors, values, self._is_opened)
            return
        of_sum = self._of_sum(cell, head, term)
        if term.factors:
            kept = self.is_kept(cell, head, term)
            values.append(self.tables.node(cell, term) if kept else self.form(cell, term))
            self._reverse(adjoint, term.factors, values, self._is_opened)
        if of_sum != adjoint:
            self.sums.contract(of_sum, [adjoint, *values[: len(term.factors)]], add=False)
        with self.sums.loops(term.inner.loops):
            self._reverse(of_sum, term.inner.factors, self.factors(term.inner.factors), self._is_opened)

    def _reverse(
        self,
        adjoint: Factor,
        refs: Sequence[Ref],
        values: Sequence[Factor],
        is_wanted: Callable[[Ref], bool],
        loops: Sequence[Loop] = (),
        known: Sequence[Variable] = (),
    ) -> None:
        """The reverse of a product: each factor's adjoint gets that of the product times all other factors.

        :param values: of the factors, and of others that are multiplied.
        :param loops: over which it is summed.
        :param known: symbols that are at hand.
        """
        for x, f in enumerate(refs):
            if is_wanted(f):
                others = [adjoint, *values[:x], *values[x + 1 :]]
                self.sums.contract(self.tables.target(f), others, loops, known=known)

    def _of_sum(self, cell: CellClass, head: Head, term: Term) -> Grid:
        """The adjoint of an inner sum: that of the head, if they are the same."""
        if cell.kind != "goal" and self.is_direct(head, term) and not term.factors:
            return self.tables.item(head.ref, adjoint=True)
        return self.tables.node(cell, term, adjoint=True)

    def _is_opened(self, f: Ref) -> bool:
        """Whether the adjoints of a factor are added up along with those of items."""
        w = weight_cells(f)
        return f.is_item or (self.tables.is_counted(w) and not self.tables.is_plain(w))

    def _is_late_count(self, f: Ref) -> bool:
        """Whether a factor is a weight whose counts come later."""
        w = weight_cells(f)
        return not f.is_item and self.tables.is_counted(w) and self.tables.is_plain(w)

    # ------------------------------------------------------------------ counts

    def _is_late(self, cell: CellClass, term: Term) -> bool:
        """Whether counts are formed after many cells."""
        return not term.guard and (cell is self.rest or cell.kind == "point")

    def _count_all(self, cell: CellClass, loop: Loop) -> None:
        for head in cell.heads:
            for term in head.terms:
                if self._is_late(cell, term):
                    self._count(cell, head, term, (loop,))

    def _count(self, cell: CellClass, head: Head, term: Term, loops: Sequence[Loop]) -> None:
        """Add to the counts of a term's weights without positions, from cells that have their adjoints."""
        adjoint: Factor = GOAL
        if cell.kind != "goal":
            adjoint = self.tables.item(head.ref, adjoint=True)
        values: list[Factor] = self.factors(term.factors)
        if term.inner is not None:
            values.append(self.tables.node(cell, term))
        self._reverse(adjoint, term.factors, values, self._is_late_count, loops)
        if term.inner is not None:
            inner, of_sum = term.inner, self._of_sum(cell, head, term)
            values = self.factors(inner.factors)
            self._reverse(of_sum, inner.factors, values, self._is_late_count, [*loops, *inner.loops])

    # ------------------------------------------------------------------ posteriors

    def _counted(self) -> Iterator[Ref]:
        """Weights whose posteriors are wanted, in loops over the positions that rules speak of."""
        for w in filter(self.tables.is_counted, self.tables.weights):
            if self.tables.is_plain(w):
                yield self.tables.plain(w)
                continue
            for region in regions_of(self.cells, w):
                with self.sums.loops(region.loops):
                    yield by_axes(region.ref)

    def _clear(self) -> None:
        """Zero for all adjoints of items, and for all counts."""
        code, numbers = self.code, self.sums.numbers
        for name, sizes in self.cells.sizes.items():
            positions = self.tables.num_positions[name]
            if positions == 0:
                continue
            block, rows = self.tables.block(sizes), N + 1 if positions == 2 else 1
            with code.loop("x", 0, rows) as x:
                end = (x * PITCH + N + 1) * block
                with code.loop("y", x * (PITCH + 1) * block, end) as y:
                    numbers.put_adjoint(Name(f"adjoint.{name}", "int") + y, numbers.zero)
        for ref in self._counted():
            self.sums.clear(self.tables.weight(ref, posterior=True))

    def _close(self) -> None:
        """Posteriors from sums that lack the weight."""
        for ref in self._counted():
            self.sums.multiply_all(self.tables.weight(ref), self.tables.weight(ref, posterior=True))
