# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Loops over the elements of weights that have symbols for indices: in lanes, and as they are given."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from ..lanes.elements import Elements
from ..lanes.regions import Region, by_axes, regions_of
from ..lanes.tables import WeightCells
from ..machine.expressions import Expression, Name, value, within
from ..rules.language import Variable
from ..rules.lowering import lower
from .grids import NUMBERS
from .tables import TileTables


@dataclass
class TileElements(Elements):
    """Code that goes through the weights of a block of sentences.

    :param shared: whether all sentences share the weights that know no position, as numbers.
    """

    shared: bool = False

    def __post_init__(self) -> None:
        self.cells = lower(self.products.recursion, widen=True)
        self.tables: TileTables = TileTables(self.cells, self.layout, self.lanes, self.shared)  # type: ignore[assignment]
        self.regions = {w: list(regions_of(self.cells, w)) for w in self.tables.in_lanes}

    def place(self, w: WeightCells, region: Region, adjoint: bool = False) -> Expression:
        index: Expression = value(0)
        for x in range(w.num_axes):
            index = index * Name("pitch", "int") + within(Name(f"at.axis{x}", "int"), 0, Name("pitch", "int"))
        sizes = self.tables.sizes(w)
        found = Name(f"d{w.name}" if adjoint else w.name, "int") + index * self.tables.block(sizes)
        symbols = [x for x in region.ref.symbols if isinstance(x, Variable)]
        for a, v in enumerate(symbols):
            found = found + self.layout.symbol(v) * self.tables.block(sizes[a + 1 :])
        return found

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
