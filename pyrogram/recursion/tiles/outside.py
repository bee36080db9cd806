# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The outside pass: adjoints of log Z, and from them the posteriors of all weights.

Cells are visited in the reverse of the order in which the inside pass filled them. A sum is formed again where its
value is needed. Counts of weights that know no position come last: one sum over the cells of a column, or over all
points, with the cells innermost, so that each count stays in a register.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..lanes.tables import MEMORY, weight_cells
from ..machine.expressions import Name, fill, select, value
from ..rules.cells import CellClass, Head, Loop, Term
from ..rules.language import Position, Ref, Variable
from .grids import Factor, Grid
from .inside import J, N, Pass
from .tables import PITCH


class Outside(Pass):
    """Code that finds posteriors, after :class:`.Inside`."""

    def run(self) -> None:
        """Posteriors of all weights, after the inside pass."""
        code = self.code
        self._clear()
        code.set("bound.sum", MEMORY[Name("bound", "int")])
        z = code.let(MEMORY[Name("z", "int")])
        code.set("inverse", select(z > fill(0.0), fill(1.0) / z, fill(0.0)))  # no NaN from lanes without a sentence
        self._goal()
        with code.loop("at.j", N, self.first - 1, -1):
            code.set("factor", MEMORY[Name("factors", "int") + J])
            for c in reversed(self.points):
                with self.at_point(c):
                    self._cell(c)
            if self.rest is not None:
                with code.loop("at.i", self.first, J - self.rest.least + 1):
                    self._cell(self.rest)
                self._count_all(self.rest, Loop("i", (Position("", self.first),), (Position("j", -self.rest.least),)))
            for c in reversed(self.fixed):
                with self.at_width(c):
                    self._cell(c)
        code.set("at.n", N)
        for c in self.points:
            last = Position("n") if c.width is None else Position("", c.least)
            with code.when(N >= c.least):
                self._count_all(c, Loop("j", (Position("", c.least),), (last,)))
        self._close()
        code.put(MEMORY, Name("bound", "int"), Name("bound.sum", "lanes"))

    def _goal(self) -> None:
        code = self.code
        with self.ends() as here:
            adjoint = code.set("goal.adjoint", here * Name("inverse", "lanes"))
            for c in self.goal:
                for head in (h for h in c.heads if h.ref.table == self.cells.goal):
                    for term in head.terms:
                        with self.sums.where(term.guard):
                            self._open(c, head, term, adjoint)
                            self._count(c, head, term, ())

    def _cell(self, cell: CellClass) -> None:
        for head in reversed(cell.heads):
            adjoint = self.tables.item(head.ref, adjoint=True)
            with self.own_rows(cell, head, backwards=True) as (rows, terms):
                for term in terms:
                    with self.sums.where(term.guard):
                        self._open_rows(term, adjoint, rows)
            for term in reversed(head.terms):
                with self.sums.where(term.guard):
                    if not self.reads_own_rows(cell, head, term):
                        self._open(cell, head, term, adjoint)
                    if not self._is_late(cell, term):
                        self._count(cell, head, term, ())
        for ref in {h.ref.table: h.ref for h in cell.heads}.values():
            met = self.code.set("met", fill(0.0))
            self.sums.add_up([self.tables.whole(ref, adjoint=True)], met.name)
            self.sums.meet([met])
            if self.columns is not None and self.rest is None:  # a product may be flushed before it meets the factor
                self.sums.meet([met * Name("factor", "lanes")])

    # ------------------------------------------------------------------ adjoints of one term

    def _open(self, cell: CellClass, head: Head, term: Term, adjoint: Factor) -> None:
        """From the adjoint of a head to those of the factors of a term; counts come later."""
        outer, given = self.outer(term), self._given(term, adjoint)
        values = list(outer)
        if term.inner is not None and term.factors:
            kept = self.is_kept(cell, head, term)
            values.append(self.tables.node(cell, term) if kept else self.form(cell, term))
        for x, f in enumerate(term.factors):
            if self._is_opened(f):
                self.sums.contract(self.tables.target(f), [*given, *values[:x], *values[x + 1 :]])
        if term.inner is not None:
            self._open_sum(cell, head, term, [*given, *outer])

    def _open_rows(self, term: Term, adjoint: Grid, rows: Sequence[Variable]) -> None:
        """The same for one row of a list whose rows read what earlier ones have added to."""
        outer, given = self.outer(term), self._given(term, adjoint)
        for x, f in enumerate(term.factors):
            if self._is_opened(f):
                self.sums.contract(self.tables.target(f), [*given, *outer[:x], *outer[x + 1 :]], known=rows)

    def _given(self, term: Term, adjoint: Factor) -> list[Factor]:
        """The adjoint of a term."""
        return [adjoint, Name("factor", "lanes")] if self.brings(term) else [adjoint]

    def _open_sum(self, cell: CellClass, head: Head, term: Term, parts: Sequence[Factor]) -> None:
        """From the adjoint of a term to those of the factors of its inner sum."""
        assert term.inner is not None
        adjoint = self._of_sum(cell, head, term)
        if adjoint != parts[0] or len(parts) > 1:
            self.sums.contract(adjoint, parts, add=False)
        inner, refs = self.inner(term), term.inner.factors
        targets = []
        for x, f in enumerate(refs):
            if self._is_opened(f):
                others = [y for y in range(len(refs)) if y != x]
                targets.append((self.tables.target(f), others))
        if term.inner.loops:
            self.sums.push(adjoint, inner, targets, term.inner.loops)
            return
        for target, others in targets:
            self.sums.contract(target, [adjoint, *(inner[y] for y in others)])

    def _of_sum(self, cell: CellClass, head: Head, term: Term) -> Grid:
        """The adjoint of an inner sum: that of the head, if they are the same."""
        if cell.kind != "goal" and self.is_direct(head, term) and not term.factors and not self.brings(term):
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
        adjoint: Factor = Name("goal.adjoint", "lanes")
        if cell.kind != "goal":
            adjoint = self.tables.item(head.ref, adjoint=True)
        given: list[Factor] = [adjoint]
        if self.brings(term):
            given.append(self.tables.factor_of_column())
        values: list[Factor] = self.outer(term)
        if term.inner is not None:
            values.append(self.tables.node(cell, term))
        for x, f in enumerate(term.factors):
            if self._is_late_count(f):
                self.sums.contract(self.tables.target(f), [*given, *values[:x], *values[x + 1 :]], loops)
        if term.inner is None:
            return
        inner = self.inner(term)
        for x, f in enumerate(term.inner.factors):
            if self._is_late_count(f):
                parts = [self._of_sum(cell, head, term), *inner[:x], *inner[x + 1 :]]
                self.sums.contract(self.tables.target(f), parts, [*loops, *term.inner.loops])

    # ------------------------------------------------------------------ posteriors

    def _clear(self) -> None:
        """Zero for all adjoints of items, and for all counts."""
        code, zero = self.code, fill(0.0)
        for name, sizes in self.cells.sizes.items():
            arity = self.cells.arity[name]
            if arity == 0:
                continue
            block = self.tables.block(sizes)
            with code.loop("x", 0, N + 1 if arity == 2 else 1) as x:
                low = x * PITCH + x if arity == 2 else value(0)
                high = x * PITCH + N + 1 if arity == 2 else N + 1
                with code.loop("y", low * block, high * block) as y:
                    code.put(MEMORY, Name(f"adjoint.{name}", "int") + y, zero)
        for w in filter(self.tables.is_counted, self.tables.weights):
            with self.tables.elements(self.code, w) as element:
                code.put(MEMORY, Name(f"d{w.name}", "int") + element, zero)

    def _close(self) -> None:
        """Posteriors from sums that lack the weight; all of them are added to the bound."""
        code = self.code
        for w in filter(self.tables.is_counted, self.tables.weights):
            if self.tables.is_plain(w):
                weight, count = (self.tables.weight(self.tables.plain(w), posterior) for posterior in (False, True))
                self.sums.multiply_all(weight, count)
                continue
            with self.tables.elements(self.code, w) as element:
                number = code.let(MEMORY[Name(w.name, "int") + element])
                self.sums.multiply(number, Name(f"d{w.name}", "int") + element)
