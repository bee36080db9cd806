# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Loops over the elements of weights that have symbols for indices: in lanes, and as they are given."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from ..lanes.arithmetic import REALS, Arithmetic
from ..lanes.elements import Elements
from ..lanes.regions import Region, by_axes, regions_of
from ..lanes.tables import WeightCells
from ..machine.expressions import Expression
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

    def __post_init__(self) -> None:
        self.cells = lower(self.products.recursion, widen=True)
        # All that reads the tables of trees is overridden here and in TileLogCounts.
        self.tables: TileTables = TileTables(  # type: ignore[assignment]
            self.cells, self.layout, self.lanes, self.shared, self.arithmetic
        )
        self.regions = {w: list(regions_of(self.cells, w)) for w in self.tables.in_lanes}

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

    def drain(self, w: WeightCells, region: Region, lane: Expression, scale: Expression | None, part: bool) -> None:
        with self.loops(region, None):
            found: Expression = self.code.let(NUMBERS[self.place(w, region, adjoint=True) * self.lanes + lane])
            self._add(by_axes(region.ref), found if scale is None else found * scale, part)
