# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Derivations of the sentences in lanes, where items have symbols: the best one, and draws.

As in :mod:`~pyrogram.recursion.lanes.descents`, each lane goes down from the goal by itself. The instances of an item
are gone through twice: for the total of their values, or the greatest, and then up to the one that is wanted.
"""

from __future__ import annotations

from ..lanes.descents import BestDerivation, Descents, IndependentDraws
from ..lanes.driver import INF
from ..lanes.numbers import MARKED
from ..lanes.tables import GAUGE
from ..logs.derivations import choose_in_proportion
from ..logs.instances import Enumeration
from ..machine.expressions import Expression, Name, equal, negated, select, value
from ..rules.cells import Term
from .driver import TileBlocks
from .grids import NUMBERS


class TileDescents(TileBlocks, Descents):
    """Code that goes down from the goal in one lane."""

    def step(self, table: str) -> None:
        self.choose(Enumeration(self.elements.cells, self.elements.layout, self.code), table)

    def choose(self, loops: Enumeration, table: str) -> None:
        """Choose an instance of the item at hand, and push the items that it is made of."""
        raise NotImplementedError

    def push(self, term: Term) -> None:
        """Go on with an instance."""
        for f in term.all_factors:
            if not f.is_item and f.table != GAUGE:
                self.write(f)
        self.agenda.push([f for f in term.all_factors if f.is_item])

    def amount(self, term: Term) -> Expression:
        """The value of an instance: in units of 2**e of its head, where that has an exponent."""
        code, tables, total = self.code, self.elements.tables, None
        grids = [tables.factor(f) for f in term.all_factors]
        for grid in grids:
            index = grid.index({})
            v = self._number(index) if grid.numbers is None else grid.numbers[index]
            total = v if total is None else self.arithmetic.times(total, v)
        found = value(self.arithmetic.one) if total is None else total
        if self.arithmetic.in_logs:
            return found
        amount, sums = code.set("amount", found), self.sums_of(self.pairs)
        with code.when(MARKED > 0), code.apart(amount.name):
            head = next(h.ref for c in self.elements.cells.classes for h in c.heads if any(t is term for t in h.terms))
            item = tables.item(head).index({}) if head.positions else None
            code.set(amount.name, self.in_units_of(item, (sums.value(grid, {}) for grid in grids)))
        return code.let(amount)

    def _number(self, cell: Expression) -> Expression:
        return NUMBERS[cell * self.lanes + Name("lane", "int")]


class TileDraws(TileDescents):
    """Code that chooses instances in proportion to their values."""

    def choose(self, loops: Enumeration, table: str) -> None:
        choose_in_proportion(loops, table, self.amount, self.push)


class IndependentTileDraws(TileDraws, IndependentDraws):
    """Code for ``draw``."""


class BestTileDerivation(TileDescents, BestDerivation):
    """Code for ``best``."""

    def choose(self, loops: Enumeration, table: str) -> None:
        code, top, found = self.code, Name("top", "real"), Name("found", "bool")
        code.set("found", value(False))
        code.set("top", -INF)

        def offer(term: Term) -> None:
            v = code.let(self.amount(term))
            code.set("top", select(v > top, v, top))

        loops.instances_here(table, offer)

        def visit(term: Term) -> None:
            with code.when(negated(found)), code.when(equal(self.amount(term), top)):
                code.set("found", value(True))
                self.push(term)

        loops.instances_here(table, visit)
