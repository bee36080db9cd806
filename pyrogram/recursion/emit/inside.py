# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The inside pass, for the sentences of a block at once: the chart, and Z."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from ..code.expressions import Expression, any_lane, fill
from ..code.statements import Code
from ..rules.cells import CellClass, Head, Loop, Term
from ..rules.language import Ref, Variable
from ..rules.lowering import items_here
from .grids import Factor, Held
from .instances import in_order, where
from .names import AT_N, ENDS, N
from .powers import Powers
from .sums import Sums
from .tables import Tables
from .weights import MEMORY


class Pass:
    """Code of a pass over the cells. The variable ``n`` is the length of the longest sentence.

    :param sums: of what cells are.
    """

    backwards = False

    def __init__(self, tables: Tables, code: Code, sums: Sums) -> None:
        self.tables, self.code, self.sums, self.in_range = tables, code, sums, sums.numbers.in_range
        self.cells = tables.cells
        self.first = self.cells.first

    def factors(self, refs: Sequence[Ref]) -> list[Factor]:
        """Items and weights."""
        return [self.tables.factor(f) for f in refs]

    @contextmanager
    def ends(self) -> Iterator[Expression]:
        """The lengths of sentences; which lanes have it."""
        with self.code.loop("at.n", 1, N + 1) as m:
            here = self.code.let(MEMORY[ENDS + m])
            with self.code.when(any_lane(here)):
                yield here

    def reads_own_rows(self, cell: CellClass, term: Term) -> bool:
        """Whether rows of a list read what earlier rows have added to at the same cell."""
        return bool(items_here(cell, term.rule, self.first, self.cells.domains))

    @contextmanager
    def own_rows(self, cell: CellClass, head: Head, backwards: bool) -> Iterator[tuple[list[Variable], list[Term]]]:
        """A loop over the rows of a list, and the terms that read what earlier rows have added to."""
        terms = [t for t in head.terms if self.reads_own_rows(cell, t)]
        rows = list(self.tables.item(head.ref).rows) if terms else []
        with ExitStack() as stack:
            for row in rows:
                size, name = self.tables.layout.size(row.size), f"sym.{row.name}"
                stack.enter_context(
                    self.code.loop(name, size - 1, -1, -1) if backwards else self.code.loop(name, 0, size)
                )
            yield rows, terms[::-1] if backwards else terms

    def values(self, cell: CellClass, term: Term) -> tuple[list[Factor], Sequence[Loop]]:
        """The factors of a term, and the positions that it is summed over.

        An inner sum that is multiplied by others is one of the factors: it is formed.
        """
        if term.inner is None or not term.is_split:
            return self.factors(term.all_factors), term.loops
        inner = self.formed(cell, term, self.factors(term.inner.factors), term.inner.loops)
        return [*self.factors(term.factors), inner], ()

    def formed(
        self, cell: CellClass, term: Term, factors: Sequence[Factor], loops: Sequence[Loop] = (), adjoint: bool = False
    ) -> Factor:
        """The inner sum of a term, or its adjoint: in its own cells if it has symbols, else in a variable.

        Of several terms with the same sum the one that is visited first forms it, and all add to its adjoint: terms are
        visited in the order of the cell, or :attr:`backwards`.
        """
        assert term.inner is not None
        if term.inner.free:
            node = self.tables.node(cell, term, adjoint)
            self.sums.contract(node, factors, loops, add=False)
            return node
        same = self.of_same_sum(cell, term)
        is_first = term is same[-1 if self.backwards else 0]
        name = f"{'adjoint.of' if adjoint else 'inner'}.sum.{[id(t) for t in cell.terms].index(id(same[0]))}"
        if is_first:
            self.sums.numbers.set(name, self.sums.numbers.zero)
        if is_first or adjoint:
            self.sums.add_up(name, factors, loops)
        return Held(name, adjoint, 0 if adjoint else sum(f.is_item for f in term.inner.factors))

    def of_same_sum(self, cell: CellClass, term: Term) -> list[Term]:
        """The terms of a cell that have the same inner sum, without symbols and without a guard."""
        if term.guard or term.inner is None or term.inner.free:
            return [term]
        same = [t for t in cell.terms if t.is_split and t.inner == term.inner and not t.guard]
        return [t for t in same if not self.reads_own_rows(cell, t)]


class Inside(Pass):
    """Code that fills the chart."""

    def run(self) -> None:
        """Fill the chart and Z."""
        assert self.tables.is_alone or not self.cells.recursion.linked  # links differ from lane to lane
        code, powers = self.code, Powers(self.tables, self.code)
        code.set(AT_N.name, N)  # a lane may have set it
        if self.in_range:
            self.sums.open_range()
        powers.begin(self.sums.numbers)
        for cell in in_order(code, self.cells, close=powers.choose if self.in_range else None):
            if cell.kind != "goal":
                self._cell(cell)
        self._close()

    # ------------------------------------------------------------------ cells

    def _cell(self, cell: CellClass) -> None:
        written: set[str] = set()
        for head in cell.heads:
            table, grid = head.ref.table, self.tables.item(head.ref)
            if not head.ref.symbols:
                self._number(cell, head)
                continue
            if table not in written:
                self.sums.clear(self.tables.whole(head.ref))
                written.add(table)
            for term in head.terms:
                if not self.reads_own_rows(cell, term):
                    with where(self.code, term.guard):
                        self.sums.contract(grid, *self.values(cell, term))
            with self.own_rows(cell, head, backwards=False) as (rows, terms):
                for term in terms:
                    with where(self.code, term.guard):
                        self.sums.contract(grid, self.factors(term.all_factors), term.loops, known=rows)
        for ref in {h.ref.table: h.ref for h in cell.heads}.values() if self.in_range else ():
            self.sums.look_at(self.tables.whole(ref))

    def _number(self, cell: CellClass, head: Head) -> None:
        """An item without symbols, which is one number."""
        numbers = self.sums.numbers
        numbers.set("item.sum", numbers.zero)
        for term in head.terms:
            with where(self.code, term.guard):
                self.sums.add_up("item.sum", *self.values(cell, term))
        numbers.put(self.tables.item(head.ref).index({}), numbers.get("item.sum"))

    # ------------------------------------------------------------------ Z

    def _close(self) -> None:
        """Z of every lane, where its sentence ends."""
        numbers = self.sums.numbers
        numbers.set("z.sum", numbers.zero)
        with self.ends() as here:
            numbers.set("goal.value", numbers.zero)
            for cell in self.cells.of("goal"):
                for term in cell.terms:
                    with where(self.code, term.guard):
                        self.sums.add_up("goal.value", *self.values(cell, term))
            z = numbers.select(here > fill(0.0), numbers.get("goal.value"), numbers.get("z.sum"))
            numbers.set("z.sum", z)
        numbers.put_z(numbers.get("z.sum"))
