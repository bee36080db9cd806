# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The outside pass: adjoints of log Z, and from them the posteriors of all weights.

Cells are visited in the reverse of the order in which the inside pass filled them. The reverse of ``c += a * b`` is
``da += dc * b`` and ``db += dc * a``; an inner sum is formed again where its value is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..code.expressions import Name, fill
from ..rules.cells import CellClass, Loop, Term
from ..rules.language import Position, Ref, Variable
from .grids import Factor, Grid, Held
from .inside import N, Pass
from .instances import the_cell
from .regions import by_axes, regions_of
from .weights import PITCH, weight_cells

GOAL, HERE = Held("adjoint.of.goal", adjoint=True), Held("adjoint.of.item", adjoint=True)


class Outside(Pass):
    """Code that finds posteriors, after :class:`.Inside`."""

    def run(self) -> None:
        """Posteriors of all weights, after the inside pass."""
        code, numbers = self.code, self.sums.numbers
        code.set("at.n", N)
        self._clear()
        numbers.set("inverse", numbers.inverse(numbers.let(numbers.z())))  # no NaN from lanes without a sentence
        self._late: list[tuple[Grid, list[Factor]]] = []
        self._goal()
        with code.loop("at.j", N, self.first - 1, -1) as j:
            for c in reversed(self.points):
                with the_cell(code, c, self.first):
                    self._cell(c)
            if self.rest is not None:
                with code.loop("at.i", self.first, j + (1 - self.rest.least)):
                    self._cell(self.rest)
            for c in reversed(self.fixed):
                with the_cell(code, c, self.first):
                    self._cell(c)
        code.set("at.n", N)
        self._add_late()
        self._close()

    def _goal(self) -> None:
        numbers, adjoint = self.sums.numbers, GOAL
        with self.ends() as here:
            numbers.set(adjoint.name, numbers.select(here > fill(0.0), numbers.get("inverse"), numbers.zero))
            for c in self.goal:
                for head in (h for h in c.heads if h.ref.table == self.cells.goal):
                    for term in head.terms:
                        with self.sums.where(term.guard):
                            self._open(c, term, adjoint)

    def _cell(self, cell: CellClass) -> None:
        bounded: set[str] = set()
        for head in reversed(cell.heads):
            grid = self.tables.item(head.ref, adjoint=True)
            adjoint: Factor = grid if head.ref.symbols else self._held(grid)
            if head.ref.symbols and head.ref.table not in bounded:
                self._bound(self.tables.whole(head.ref, adjoint=True))
                bounded.add(head.ref.table)
            with self.own_rows(cell, head, backwards=True) as (rows, terms):
                if terms:
                    self._bound(grid, rows)
                for term in terms:
                    with self.sums.where(term.guard):
                        self._reverse(grid, term.factors, self.factors(term.factors), rows)
            for term in reversed(head.terms):
                if not self.reads_own_rows(cell, term):
                    with self.sums.where(term.guard):
                        self._open(cell, term, adjoint)

    def _bound(self, adjoint: Grid, known: Sequence[Variable] = ()) -> None:
        """Adjoints of what is zero can be of any size: they matter to nobody, and must not become infinite."""
        if self.in_range:
            self.sums.bound(adjoint, known)

    def _held(self, adjoint: Grid) -> Held:
        """The adjoint of an item without symbols in a variable, for it is complete."""
        number = self.sums.value(adjoint, {})
        self.sums.numbers.set(HERE.name, self.sums.numbers.bounded(number) if self.in_range else number)
        return HERE

    # ------------------------------------------------------------------ adjoints of one term

    def _open(self, cell: CellClass, term: Term, adjoint: Factor) -> None:
        """From the adjoint of a head to those of the factors of a term."""
        values, loops = self.values(cell, term)
        refs: Sequence[Ref] = term.all_factors
        if term.inner is not None and term.is_split:
            self._reverse(adjoint, term.factors, values)
            adjoint = self.formed(cell, term, [adjoint, *self.factors(term.factors)], adjoint=True)
            refs, loops = term.inner.factors, term.inner.loops
        late = cell.kind == "point" and cell.width is None and not (loops or term.guard or isinstance(adjoint, Held))
        with self.sums.loops(loops):
            self._reverse(adjoint, refs, self.factors(refs), late=late)

    def _reverse(
        self,
        adjoint: Factor,
        refs: Sequence[Ref],
        values: Sequence[Factor],
        known: Sequence[Variable] = (),
        late: bool = False,
    ) -> None:
        """The reverse of a product: each factor's adjoint gets that of the product times all other factors.

        :param values: of the factors, and of others that are multiplied.
        :param known: symbols that are at hand.
        :param late: whether counts of weights that know no position are added up when all points have been done.
        """
        for x, f in enumerate(refs):
            if f.is_item or self.tables.is_counted(weight_cells(f)):
                target, others = self.tables.target(f), [adjoint, *values[:x], *values[x + 1 :]]
                if late and not f.is_item and self.tables.is_plain(weight_cells(f)):
                    self._late.append((target, others))
                else:
                    self.sums.contract(target, others, known=known)

    def _add_late(self) -> None:
        """Counts that are sums over all points of the class that has no end: each is added to memory once."""
        for cell in (c for c in self.points if c.width is None):
            points = Loop("j", (Position("", cell.least),), (Position("n"),))
            for target, others in self._late:
                self.sums.contract(target, others, [points])

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
