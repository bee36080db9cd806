# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Loops over the elements of weights that have symbols for indices: in lanes, and as they are given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import ClassVar

from ..lanes.arithmetic import REALS, Arithmetic
from ..lanes.elements import ROW, STARTS, Elements
from ..lanes.gauge import with_gauge
from ..lanes.regions import Region, by_axes, regions_of
from ..lanes.tables import GAUGE, MEMORY, WeightCells
from ..machine.expressions import Expression, Name, least
from ..rules.language import Variable
from ..rules.lowering import lower
from .grids import NUMBERS
from .tables import TileTables


@dataclass
class TileElements(Elements):
    """Code that goes through the weights of a block of sentences.

    :param shared: whether all sentences share the weights that know no position, as numbers.
    :param arithmetic: what a sum and a product are.
    """

    shared: bool = False
    arithmetic: Arithmetic = REALS
    tables_type: ClassVar[type[TileTables]] = TileTables

    def __post_init__(self) -> None:
        cells = lower(self.products.recursion, widen=True)
        self.cells = cells if self.arithmetic.in_logs else with_gauge(cells)
        # All that reads the tables of trees is overridden here and in TileLogCounts.
        self.tables: TileTables = self.tables_type(  # type: ignore[assignment]
            self.cells, self.layout, self.lanes, self.shared, self.arithmetic
        )
        factors = self.products.factors
        spoken = Counter(
            name for w in self.tables.weights for name in (w.table, *(f.table for f in factors.get(w.table, ())))
        )
        self.rows_of = [w for w in self.tables.weights if self.tables.is_plain(w) and spoken[w.table] == 1]
        self.regions = {w: list(regions_of(self.cells, w)) for w in self.tables.in_lanes if w.table != GAUGE}

    def place(self, w: WeightCells, region: Region, adjoint: bool = False) -> Expression:
        return self.tables.weight(by_axes(region.ref), adjoint).index({})

    @contextmanager
    def loops(self, region: Region, n: Expression | None) -> Iterator[None]:
        """Loops over the elements of a region; ``n`` for the length, or that of the lane at hand."""
        with super().loops(region, n), ExitStack() as stack:
            for x in region.ref.symbols:
                if isinstance(x, Variable):
                    stack.enter_context(self.code.loop(f"sym.{x.name}", 0, self.layout.size(x.size)))
            yield

    @contextmanager
    def rows(self, family: Sequence[WeightCells], inward: bool) -> Iterator[None]:
        """Rows of a table of symbols alone at once, where they follow one another in memory; else the body does it.

        That takes a sentence for every lane, and rows of at least eight numbers.
        """
        (w,) = family
        code, ref = self.code, self.tables.plain(w)
        last = ref.symbols[-1] if ref.symbols else None
        if w not in self.rows_of or not isinstance(last, Variable) or self.lanes < ROW:
            yield
            return
        count = self.layout.size(last.size)
        with code.when((Name("full", "int") > 0) & (count >= ROW) & self.layout.follow(ref, not inward)):
            with self.each_lane() as x:
                code.put(STARTS, x, self.layout.start(ref, not inward))
            self.layout.begin(code, ref)
            outer = [x for x in ref.symbols[:-1] if isinstance(x, Variable)]
            with self.tables.sums.loops((), outer):
                code.set(f"sym.{last.name}", 0)
                element = self.layout.weight(ref, None if inward else f"out.{w.table}")
                start = code.let(element.index)
                place = code.let(self.tables.weight(ref, posterior=not inward).index({}))
                with code.loop("t", 0, count, ROW) as t:
                    at = code.let(least(t, count - ROW))
                    code.turn(MEMORY, place + at, element.array, STARTS, start + at, inward)
        with code.otherwise():
            yield

    def drain(self, w: WeightCells, region: Region, lane: Expression, scale: Expression | None, part: bool) -> None:
        with self.loops(region, None):
            found: Expression = self.code.let(NUMBERS[self.place(w, region, adjoint=True) * self.lanes + lane])
            found = found if scale is None else self.code.let(found * scale)
            for f in self.products.of(by_axes(region.ref)):
                self.add(f, found, part)
