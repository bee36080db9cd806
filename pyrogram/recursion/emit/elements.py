# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Loops over the elements of weights: in lanes, and as they are given."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import ClassVar

from ..code.expressions import Array, Expression, Name, value
from ..code.statements import Code
from ..rules.cells import Loop
from ..rules.language import Ref, Variable
from ..rules.lowering import lower
from ..rules.recursions import Recursion
from .grids import first_of, last_of
from .layout import Layout
from .powers import with_gauge
from .regions import Region, by_axes, regions_of
from .tables import Tables
from .weights import GAUGE, NUMBERS, WeightCells


@dataclass
class Elements:
    """Code that goes through the weights of a block of sentences.

    :param recursion: the rules.
    :param lanes: W.
    :param layout: where weights lie.
    :param shared: whether all sentences share the weights that know no position, as numbers.
    :param in_logs: whether numbers are logarithms, and the greatest is the sum; then words have no powers of two.
    """

    recursion: Recursion
    lanes: int
    layout: Layout
    shared: bool = False
    in_logs: bool = False
    code: Code = field(default_factory=Code)
    tables_type: ClassVar[type[Tables]] = Tables

    def __post_init__(self) -> None:
        cells = lower(self.recursion, widen=True)
        self.cells = cells if self.in_logs else with_gauge(cells)
        self.tables = self.tables_type(self.cells, self.layout, self.lanes, self.shared, self.in_logs, self.code)
        self.regions = {w: list(regions_of(self.cells, w)) for w in self.tables.in_lanes if w.table != GAUGE}

    @contextmanager
    def each_lane(self) -> Iterator[Name]:
        code = self.code
        with code.loop("lane", 0, Name("here", "int")) as x:
            b = code.set("b", Array("order", "int")[Name("begin.of", "int") + x])
            code.set("at.n", Array("lengths", "int")[b])
            self.layout.enter(code, x)
            yield x

    def drain(self, part: bool) -> None:
        """Add the posteriors of all elements in lanes to the output.

        :param part: whether the output has a table for each part of the sentences.
        """
        for w, region in self.all_regions():
            if self.tables.is_counted(w):
                with self.in_lanes(region) as x:
                    posterior = NUMBERS[self.place(w, region, adjoint=True) * self.lanes + x]
                    self.add(by_axes(region.ref), posterior, part)

    def add(self, f: Ref, number: Expression, part: bool) -> None:
        """Add a number to an element of the output.

        :param part: whether the output has a table for each part of the sentences.
        """
        target = self.layout.weight(f, f"out.{f.table}")
        index = target.index + Name("part", "int") * Name(f"out.{f.table}.part", "int") if part else target.index
        self.code.add(target.array, index, number)

    def place(self, w: WeightCells, region: Region, adjoint: bool = False) -> Expression:
        """The cell of a weight, or of its posterior, at the axes at hand."""
        return self.tables.weight(by_axes(region.ref), adjoint).index({})

    def all_regions(self) -> Iterator[tuple[WeightCells, Region]]:
        """The regions of all tables in lanes."""
        return ((w, region) for w, regions in self.regions.items() for region in regions)

    @contextmanager
    def in_lanes(self, region: Region) -> Iterator[Name]:
        """Loops over the elements of a region, in one lane after the other.

        Of three positions and more all but the last two are gone through once for all lanes, so that cells that these
        write one after the other stay in the nearest cache.
        """
        outer, code = region.loops[:-2], self.code
        with ExitStack() as stack:
            for loop in outer:
                code.set("at.n", Name("n", "int"))  # a lane has set it
                stack.enter_context(code.loop(f"at.{loop.name}", 0, last_of(loop) + 1))
            x = stack.enter_context(self.each_lane())
            stack.enter_context(code.when(self._holds(outer)))
            stack.enter_context(self.loops(replace(region, loops=region.loops[len(outer) :]), None))
            yield x

    @contextmanager
    def loops(self, region: Region, n: Expression | None) -> Iterator[None]:
        """Loops over the elements of a region; ``n`` for the length, or that of the lane at hand."""
        if n is not None:
            self.code.set("at.n", n)
        with ExitStack() as stack:
            for loop in region.loops:
                stack.enter_context(self.code.loop(f"at.{loop.name}", first_of(loop), last_of(loop) + 1))
            for x in region.ref.symbols:
                if isinstance(x, Variable):
                    stack.enter_context(self.code.loop(f"sym.{x.name}", 0, self.layout.size(x.size)))
            yield

    def _holds(self, loops: Iterable[Loop]) -> Expression:
        """Whether the axes at hand are within loops."""
        pairs = [(Name(f"at.{loop.name}", "int"), loop) for loop in loops]
        tests = [test for x, loop in pairs for test in (x >= first_of(loop), x <= last_of(loop))]
        return functools.reduce(lambda a, b: a & b, tests, value(True))
