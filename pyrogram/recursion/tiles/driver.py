# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sentences into lanes, and log Z and posteriors out of them, where items have symbols."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ..calling.layout import Layout
from ..lanes.driver import LOG_Z, Blocks, LogCounts
from ..lanes.gauge import with_gauge
from ..lanes.limits import Extremes, FactorCounts, items_and_weights
from ..lanes.numbers import Numbers, PlainNumbers, log2_of
from ..lanes.tables import MEMORY, WeightCells
from ..lanes.tangents import Tangents
from ..machine.expressions import (
    Array,
    Expression,
    Name,
    equal,
    fill,
    real,
    select,
    total_of,
    value,
    with_lane,
)
from ..machine.statements import Code, Function
from ..rules.lowering import lower
from ..rules.products import Products, with_given
from ..rules.recursions import Recursion
from .elements import TileElements
from .grids import NUMBERS, Sums
from .inside import Inside
from .outside import Outside
from .tables import TileTables

_NUMBER = Extremes("number")  # that all sentences share


def size(
    recursion: Recursion,
    lanes: int,
    shared: bool,
    layout: Layout | None = None,
    given: frozenset[str] = frozenset(),
    areas: int = 1,
) -> Function:
    """``size``: the number of cells that the functions of lanes need.

    :param given: tables that are not counted by :class:`TileLogCounts`.
    :param areas: how often there is a place for every cell.
    """
    code, layout = Code(), layout or Layout(lower(recursion))
    made = with_given(recursion, given).recursion
    code.give(TileTables(with_gauge(lower(made, widen=True)), layout, lanes, shared).place(code) * areas)
    return Function("size", layout.parameters(), code.body, "int")


class TileBlocks(Blocks):
    """Code for blocks of sentences, where items have symbols.

    :param shared: whether all sentences share the weights that know no position.
    """

    elements: TileElements
    elements_type: type[TileElements] = TileElements

    def __init__(
        self, recursion: Recursion, lanes: int, dtype: str, layout: Layout | None = None, shared: bool = False
    ) -> None:
        self._shared = shared
        super().__init__(recursion, lanes, dtype, layout)

    def _elements(self, recursion: Recursion, lanes: int, layout: Layout | None) -> TileElements:
        made = layout or Layout(lower(recursion))
        return self.elements_type(Products(recursion, {}), lanes, made, shared=self._shared, arithmetic=self.arithmetic)

    def _begin(self) -> None:
        """Numbers that all sentences share, in whole tiles."""
        code, tables = self.code, self.elements.tables
        code.set("b", 0)
        for w in tables.numbers:
            ref = tables.plain(w)
            grid = tables.weight(ref)
            with tables.sums.loops((), grid.variables):
                code.put(tables.SHARED, grid.index({}), self.elements.layout.weight(ref))
        self._measure()

    def _measure(self) -> None:
        """Of each table of numbers that all sentences share the sum, and of all the least and the greatest."""
        code, tables = self.code, self.elements.tables
        _NUMBER.begin(code)
        for w in () if self.arithmetic.in_logs else tables.numbers:
            grid, total = tables.weight(tables.plain(w)), code.set(f"sum.{w.name}", fill(0.0))
            with tables.sums.loops((), grid.variables):
                x = code.let(grid.value({}))
                _NUMBER.include(code, x)
                code.set(total.name, total + x)

    @property
    def shared_extremes(self) -> tuple[Expression, Expression]:
        return (_NUMBER.least, _NUMBER.greatest) if self.elements.tables.numbers else super().shared_extremes

    def logs_of_means(self) -> dict[str, Expression]:
        code, tables, found = self.code, self.elements.tables, dict[str, Expression]()
        for table in dict.fromkeys(w.table for w in tables.numbers):
            total, count = fill(0.0), value(0)
            for w in (w for w in tables.numbers if w.table == table):
                sizes = [self.elements.layout.size(size) for size in tables.sizes(w)]
                total, count = total + Name(f"sum.{w.name}", "lanes"), count + math.prod(sizes, start=value(1))
            found[table] = log2_of(code, code.let(total * (fill(1.0) / fill(real(count)))), self.range.bits)
        return found

    def fill_chart(self, numbers: Numbers) -> None:
        Inside(self.elements.tables, self.code, self.sums_of(numbers)).run()

    def find_posteriors(self, numbers: Numbers) -> None:
        Outside(self.elements.tables, self.code, self.sums_of(numbers)).run()

    def is_any_outside(self, lanes: Expression) -> Expression:
        return self.elements.tables.sums.is_any_outside(lanes)

    @property
    def factor_counts(self) -> FactorCounts:
        found: dict[bool, set[tuple[int, int]]] = {True: set(), False: set()}
        for c in self.elements.cells.classes:
            for factors in (t.all_factors for h in c.heads for t in h.terms):
                found[c.kind == "goal"].add(items_and_weights(factors))
        return FactorCounts(frozenset(found[True]), frozenset(found[False]))

    def sums_of(self, numbers: Numbers) -> Sums:
        """Code of sums of such numbers: small tiles of those that take twice the registers."""
        if isinstance(numbers, PlainNumbers):
            return self.elements.tables.sums
        return Sums(self.code, self.elements.layout, numbers, (2, 2))

    def _feed_lanes(self, in_logs: bool) -> None:
        elements = self.elements
        rows, others = self._split()
        with elements.each_lane() as x:
            self.feed_lane(x, others, in_logs)
        for w in rows:
            with elements.rows([w], inward=True), elements.each_lane() as x:
                self.feed_lane(x, [w], in_logs)

    def _split(self) -> tuple[list[WeightCells], list[WeightCells]]:
        """The tables in lanes of which rows may go at once, and the others."""
        found = list(self.elements.regions)
        return [w for w in found if w in self.elements.rows_of], [w for w in found if w not in self.elements.rows_of]


class TileLogCounts(TileBlocks, LogCounts):
    """Code for log Z and posteriors, where items have symbols."""

    def _elements(self, recursion: Recursion, lanes: int, layout: Layout | None) -> TileElements:
        assert layout is not None
        products = with_given(recursion, layout.given)
        return self.elements_type(products, lanes, layout, shared=self._shared, arithmetic=self.arithmetic)

    def _drain(self) -> None:
        code, elements = self.code, self.elements
        rows, others = (list(filter(elements.tables.is_counted, part)) for part in self._split())
        share = code.set("share", fill(0.0))
        for x, scale in self._possible():
            code.set("share", with_lane(share, x, scale))
            for w, region in elements.all_regions(others):
                elements.drain(w, region, x, scale, part=True)
        for w in rows:
            self._drain_lanes(w)
        for w in filter(elements.tables.is_counted, elements.tables.numbers):
            with code.when(Name(f"out.{w.table}.b", "int") > 0):
                self._drain_lanes(w)
            with code.otherwise():
                code.set("b", 0)
                self._drain_sum(w, share)

    def _possible(self) -> Iterator[tuple[Expression, Expression]]:
        """The lanes of sentences whose log Z is a number, each with its scale."""
        code, b = self.code, Name("b", "int")
        with self.elements.each_lane() as x, code.when(self.fits(LOG_Z[b])):
            yield x, code.set("scale.of", Array("scale", "real")[b])

    def _drain_lanes(self, w: WeightCells) -> None:
        """Add the counts of every lane to those of its sentence, of a table without positions."""
        elements = self.elements
        ref = elements.tables.plain(w)
        count = elements.tables.weight(ref, posterior=True)
        with elements.rows([w], inward=False):
            for x, scale in self._possible():
                with elements.tables.sums.loops((), count.variables):
                    elements.add(ref, NUMBERS[count.index({}) * self.lanes + x] * scale, part=True)

    def _drain_sum(self, w: WeightCells, share: Expression) -> None:
        """Add the counts of all lanes to those of a table that sentences share. Others may be NaN."""
        code, elements = self.code, self.elements
        ref = elements.tables.plain(w)
        count = elements.tables.weight(ref, posterior=True)
        with elements.tables.sums.loops((), count.variables):
            here = code.let(MEMORY[count.index({})] * share)
            here = code.let(select(equal(share, 0.0), fill(0.0), here))
            elements.add(ref, total_of(here), part=True)


class TileTangents(Tangents, TileLogCounts):
    """Code for derivatives of log Z and of posteriors, where items have symbols."""
