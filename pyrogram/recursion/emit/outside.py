# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The outside pass: adjoints of log Z, and from them the posteriors of all weights.

Cells are visited in the reverse of the order in which the inside pass filled them. The reverse of ``c += a * b`` is
``da += dc * b`` and ``db += dc * a``; an inner sum is formed again where its value is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..code.expressions import Name, fill
from ..rules.cells import CellClass, Term
from ..rules.language import Ref, Variable
from .grids import Factor, Grid, Held
from .inside import Pass
from .instances import in_order, where
from .names import AT_N, PITCH, N
from .regions import by_axes, regions_of
from .weights import weight_cells

GOAL, HERE = Held("adjoint.of.goal", adjoint=True), Held("adjoint.of.item", adjoint=True)


class Outside(Pass):
    """Code that finds posteriors, after :class:`.Inside`."""

    backwards = True

    def run(self) -> None:
        """Posteriors of all weights, after the inside pass."""
        code, numbers = self.code, self.sums.numbers
        code.set(AT_N.name, N)
        self._clear()
        numbers.set("inverse", numbers.inverse(numbers.let(numbers.z())))  # no NaN from lanes without a sentence
        for cell in in_order(code, self.cells, backwards=True):
            if cell.kind == "goal":
                self._goal(cell)
                code.set(AT_N.name, N)
            else:
                self._cell(cell)
        code.set(AT_N.name, N)
        self._close()

    def _goal(self, cell: CellClass) -> None:
        numbers, adjoint = self.sums.numbers, GOAL
        with self.ends() as here:
            numbers.set(adjoint.name, numbers.select(here > fill(0.0), numbers.get("inverse"), numbers.zero))
            for term in reversed(cell.terms):
                with where(self.code, term.guard):
                    self._open(cell, term, adjoint)

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
                    with where(self.code, term.guard), self.sums.loops(term.loops):
                        self._reverse(grid, term.all_factors, self.factors(term.all_factors), rows)
            for term in reversed(head.terms):
                if not self.reads_own_rows(cell, term):
                    with where(self.code, term.guard):
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
            if term is not self.of_same_sum(cell, term)[0]:
                return
            refs, loops = term.inner.factors, term.inner.loops
        with self.sums.loops(loops):
            self._reverse(adjoint, refs, self.factors(refs))

    def _reverse(
        self,
        adjoint: Factor,
        refs: Sequence[Ref],
        values: Sequence[Factor],
        known: Sequence[Variable] = (),
    ) -> None:
        """The reverse of a product: each factor's adjoint gets that of the product times all other factors.

        :param values: of the factors, and of others that are multiplied.
        :param known: symbols that are at hand.
        """
        for x, f in enumerate(refs):
            if f.is_item or self.tables.is_counted(weight_cells(f)):
                others, target = [adjoint, *values[:x], *values[x + 1 :]], self.tables.target(f)
                weight = None if target.numbers is None else self.tables.weight(f)
                self.sums.contract(target, others, known=known, weight=weight)

    # ------------------------------------------------------------------ posteriors

    def _counted(self) -> Iterator[Ref]:
        """Weights whose posteriors are wanted, in loops over the positions that rules speak of."""
        for w in self.tables.counted:
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
                    numbers.put(Name(f"adjoint.{name}", "int") + y, numbers.zero)
        for ref in self._counted():
            self.sums.clear(self.tables.weight(ref, posterior=True))

    def _close(self) -> None:
        """Posteriors from sums that lack the weight."""
        for ref in self._counted():
            self.sums.multiply_all(self.tables.weight(ref), self.tables.weight(ref, posterior=True))
