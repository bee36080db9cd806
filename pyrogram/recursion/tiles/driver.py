# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sentences into lanes, and log Z and posteriors out of them, where items have symbols."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence

from ..calling.layout import Layout
from ..lanes.driver import INF, Blocks, LogCounts
from ..lanes.scaling import Columns, columns
from ..lanes.tables import MEMORY, WeightCells
from ..machine.expressions import Array, Expression, Name, equal, fill, lane, log, select, total_of, with_lane
from ..machine.statements import Code, Function
from ..rules.lowering import lower
from ..rules.products import Products, with_given
from ..rules.recursions import Recursion
from .elements import TileElements
from .grids import NUMBERS
from .inside import Inside
from .outside import Outside
from .shifts import Shifts
from .tables import TileTables


def size(
    recursion: Recursion, lanes: int, shared: bool, layout: Layout | None = None, given: frozenset[str] = frozenset()
) -> Function:
    """``size``: the number of cells that the functions of lanes need.

    :param given: tables that are not counted by :class:`TileLogCounts`.
    """
    code, layout = Code(), layout or Layout(lower(recursion))
    made = with_given(recursion, given).recursion
    code.give(TileTables(lower(made, widen=True), layout, lanes, shared).place(code))
    return Function("size", layout.parameters(), code.body, "int")


class TileBlocks(Blocks):
    """Code for blocks of sentences, where items have symbols.

    :param shared: whether all sentences share the weights that know no position.
    """

    elements: TileElements
    memory: Sequence[Array] = [MEMORY]
    elements_type: type[TileElements] = TileElements

    def __init__(
        self, recursion: Recursion, lanes: int, dtype: str, layout: Layout | None = None, shared: bool = False
    ) -> None:
        self._shared = shared
        super().__init__(recursion, lanes, dtype, layout)

    def _elements(self, recursion: Recursion, lanes: int, layout: Layout | None) -> TileElements:
        made = layout or Layout(lower(recursion))
        return self.elements_type(Products(recursion, {}), lanes, made, shared=self._shared, arithmetic=self.numbers)

    def _begin(self) -> None:
        """Numbers that all sentences share, in whole tiles."""
        code, tables = self.code, self.elements.tables
        code.set("b", 0)
        for w in tables.numbers:
            ref = tables.plain(w)
            grid = tables.weight(ref)
            with tables.sums.loops((), grid.variables):
                code.put(tables.SHARED, grid.index({}), self.elements.layout.weight(ref))

    @functools.cached_property
    def columns(self) -> Columns | None:
        """How columns are scaled: none where numbers are logarithms."""
        return None if self.numbers.in_logs else columns(self.elements.cells)

    def feed_reals(self, logs: bool) -> None:
        """Weights of a block, at most one where ``once`` says how."""
        self.feed(-math.inf if logs else 0.0)
        for name in ("shift", "shift.rest"):
            self.code.put(MEMORY, Name(name, "int"), fill(0.0))
        if logs:
            Shifts(self.elements, self.dtype).run()

    def note_marks(self) -> None:
        """There are none."""
        self.code.set("spoilt", 0)

    def log_z(self, x: Expression) -> tuple[Expression, Expression]:
        z, exponent, grown, shift, rest = (
            lane(MEMORY[Name(name, "int")], x) for name in ("z", "exponent", "grown", "shift", "shift.rest")
        )
        least_log_z = Name("least", "real") + grown * math.log(2.0)
        return log(z) - exponent * math.log(2.0) + (shift + rest), log(z) >= least_log_z

    def fits(self, x: Expression, log_z: Expression) -> Expression:
        """Whether all that was met in a lane is below the bound, and log Z is a number. NaN fails."""
        within = lane(MEMORY[Name("bound", "int")], x) <= Name("most", "real")
        return within & (log_z < INF) & (log_z > -INF)

    def inside(self) -> None:
        Inside(self.elements.tables, self.code, self.columns).run()

    def outside(self) -> None:
        Outside(self.elements.tables, self.code, self.columns).run()

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
        found = self.elements.tables.in_lanes
        return [w for w in found if w in self.elements.rows_of], [w for w in found if w not in self.elements.rows_of]


class TileLogCounts(TileBlocks, LogCounts):
    """Code for log Z and posteriors, where items have symbols."""

    def _elements(self, recursion: Recursion, lanes: int, layout: Layout | None) -> TileElements:
        assert layout is not None
        products = with_given(recursion, layout.given)
        return self.elements_type(products, lanes, layout, shared=self._shared, arithmetic=self.numbers)

    def _drain(self) -> None:
        code, elements = self.code, self.elements
        rows, others = (list(filter(elements.tables.is_counted, part)) for part in self._split())
        share = code.set("share", fill(0.0))
        for x, scale in self._trusted():
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

    def _trusted(self) -> Iterator[tuple[Expression, Expression]]:
        """The lanes of sentences that have not failed, each with its scale."""
        code, b = self.code, Name("b", "int")
        with self.elements.each_lane() as x, code.when(equal(Array("failed", "int")[b], 0)):
            yield x, code.set("scale.of", Array("scale", "real")[b])

    def _drain_lanes(self, w: WeightCells) -> None:
        """Add the counts of every lane to those of its sentence, of a table without positions."""
        elements = self.elements
        ref = elements.tables.plain(w)
        count = elements.tables.weight(ref, posterior=True)
        with elements.rows([w], inward=False):
            for x, scale in self._trusted():
                with elements.tables.sums.loops((), count.variables):
                    elements.add(ref, NUMBERS[count.index({}) * self.lanes + x] * scale, part=True)

    def _drain_sum(self, w: WeightCells, share: Expression) -> None:
        """Add the counts of all lanes to those of a table that sentences share. What failed may be NaN."""
        code, elements = self.code, self.elements
        ref = elements.tables.plain(w)
        count = elements.tables.weight(ref, posterior=True)
        with elements.tables.sums.loops((), count.variables):
            here = code.let(MEMORY[count.index({})] * share)
            here = code.let(select(equal(share, 0.0), fill(0.0), here))
            elements.add(ref, total_of(here), part=True)
