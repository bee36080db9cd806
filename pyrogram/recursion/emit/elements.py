# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Loops over the elements of weights: in lanes, and as they are given.

Where all sentences of a block have one length, rows are turned whole: eight neighbours of every lane at a time.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import ClassVar

from ..code.expressions import Array, Expression, Name, equal, fill, least, value
from ..code.statements import Code
from ..rules.cells import Loop
from ..rules.language import Constant, Ref, Variable, Word
from ..rules.lowering import lower
from ..rules.recursions import Recursion
from .gauge import with_gauge
from .grids import first_of, last_of
from .layout import Layout
from .regions import Region, by_axes, regions_of
from .tables import Tables
from .weights import GAUGE, MEMORY, NUMBERS, TURNED, Index, WeightCells

STARTS = Array("starts", "int")
ROW = 8  # numbers that are turned together


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
        self.tables = self.tables_type(self.cells, self.layout, self.lanes, self.shared, self.in_logs)
        self.regions = {w: list(regions_of(self.cells, w)) for w in self.tables.in_lanes if w.table != GAUGE}
        families: dict[tuple[str, tuple[Index, ...]], list[WeightCells]] = {}
        for w in self.regions:
            key = w.indices[: self.cells.arity[w.table]] if self.tables.turns(w)[0] > 1 else w.indices
            families.setdefault((w.table, key), []).append(w)
        self.families = list(families.values())
        """Tables of cells, together those that are filled from the same rows."""
        spoken = Counter(w.table for w in self.tables.weights)
        self.whole = {w for w in self.tables.weights if self.tables.is_plain(w) and spoken[w.table] == 1}
        """Tables of symbols alone all of whose elements are weights."""

    @property
    def counted_families(self) -> list[list[WeightCells]]:
        """Those whose posteriors are wanted."""
        return [family for family in self.families if self.tables.is_counted(family[0])]

    @contextmanager
    def each_lane(self) -> Iterator[Name]:
        code = self.code
        with code.loop("lane", 0, Name("here", "int")) as x:
            b = code.set("b", Array("order", "int")[Name("begin.of", "int") + x])
            code.set("at.n", Array("lengths", "int")[b])
            self.layout.enter(code, x)
            yield x

    def drain(self, w: WeightCells, region: Region, lane: Expression, part: bool) -> None:
        """Add the posteriors of a region, in a lane, to the output.

        :param part: whether the output has a table for each part of the sentences.
        """
        with self.loops(region, None):
            self.add(by_axes(region.ref), NUMBERS[self.place(w, region, adjoint=True) * self.lanes + lane], part)

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

    def all_regions(self, family: Iterable[WeightCells]) -> Iterator[tuple[WeightCells, Region]]:
        """The regions of tables."""
        for w in family:
            for region in self.regions[w]:
                yield w, region

    @contextmanager
    def loops(
        self, region: Region, n: Expression | None, step: Callable[[Variable], int] = lambda v: 1
    ) -> Iterator[None]:
        """Loops over the elements of a region; ``n`` for the length, or that of the lane at hand.

        :param step: how many symbols are gone through at once.
        """
        if n is not None:
            self.code.set("at.n", n)
        with ExitStack() as stack:
            for loop in region.loops:
                stack.enter_context(self.code.loop(f"at.{loop.name}", first_of(loop), last_of(loop) + 1))
            for x in region.ref.symbols:
                if isinstance(x, Variable):
                    stack.enter_context(self.code.loop(f"sym.{x.name}", 0, self.layout.size(x.size), step(x)))
            yield

    @contextmanager
    def rows(self, family: Sequence[WeightCells], inward: bool) -> Iterator[None]:
        """Whole rows of tables at once, where they follow one another in memory; the body does it lane by lane.

        That takes a sentence for every lane, all of one length, and rows of at least eight numbers.
        """
        with ExitStack() as stack:
            if family[0] in self.whole:
                stack.enter_context(self._rows_of_symbols(family[0], inward))
            elif family[0] in self.regions:
                stack.enter_context(self._rows_of_positions(family, inward))
            yield

    @contextmanager
    def _rows_of_symbols(self, w: WeightCells, inward: bool) -> Iterator[None]:
        """See :meth:`rows`, of a table that knows no position."""
        code, ref = self.code, self.tables.plain(w)
        last = ref.symbols[-1] if ref.symbols else None
        if not isinstance(last, Variable) or self.lanes < ROW:
            yield
            return
        count = self.layout.size(last.size)
        with code.when((Name("even", "int") > 0) & (count >= ROW) & self.layout.follow(ref, not inward)):
            with self.each_lane() as x:
                code.put(STARTS, x, self.layout.start(ref, not inward))
            self.layout.begin(code, ref)
            outer = [x for x in ref.symbols[:-1] if isinstance(x, Variable)]
            with self.tables.sums.loops((), outer):
                code.set(f"sym.{last.name}", 0)
                element = self.layout.weight(ref, None if inward else f"out.{w.table}")
                start = code.let(element.index)
                first = code.let(self.tables.weight(ref, posterior=not inward).index({}))
                with code.loop("t", 0, count, ROW) as t:
                    at = code.let(least(t, count - ROW))
                    code.turn(MEMORY, first + at, element.array, STARTS, start + at, inward)
        with code.otherwise():
            yield

    @contextmanager
    def _rows_of_positions(self, family: Sequence[WeightCells], inward: bool) -> Iterator[None]:
        """See :meth:`rows`: a row of the table, and from there those elements that rules speak of."""
        code, n, w = self.code, Name("n", "int"), family[0]
        arity, count = self.cells.arity[w.table], self.tables.turns(w)[0]
        ref = self.regions[w][0].ref
        words = any(isinstance(x, (Word, Variable)) for v in family for x in self.regions[v][0].ref.symbols)
        if words or w.indices[:arity][-1:] != (None,) or self.lanes < ROW or not self.layout.in_strides:
            yield
            return
        (table,) = (t for t in self.layout.weights if t.name == w.table)
        width = code.let((n + (table.last[-1] + 1)) * count)
        fits = (Name("even", "int") > 0) & (width >= ROW)
        name, expected = f"weight.{w.table}" if inward else f"out.{w.table}", 1
        if not inward:  # where sentences share a table, their counts are added
            fits = fits & (Name(f"{name}.b", "int") > 0)
        for axis in range(len(w.indices) - 1, arity - 2, -1):
            fits = fits & equal(Name(f"{name}.{axis}", "int"), expected)
            size = table.sizes[axis - arity] if axis >= arity else 1
            expected *= size if isinstance(size, int) else 1
        with code.when(fits), ExitStack() as stack:
            with code.loop("lane", 0, self.lanes) as x:
                b = Array("order", "int")[Name("begin.of", "int") + x]
                code.put(STARTS, x, b * Name(f"{name}.b", "int"))
            code.set("b", 0)
            code.set("at.n", n)
            outer = [last for x, last in zip(ref.positions[:-1], table.last, strict=False) if x.name]
            for number, last in enumerate(outer):
                stack.enter_context(code.loop(f"at.axis{number}", 0, n + (last + 1)))
            code.set(f"at.axis{len(outer)}", 0)
            first = replace(ref, symbols=tuple(Constant(0) for _ in ref.symbols))
            element = self.layout.weight(by_axes(first), None if inward else f"out.{w.table}")
            start = code.let(element.index)
            if not inward:
                with code.loop("t", 0, width) as t:
                    code.put(MEMORY, TURNED + t, fill(0.0))
                self._move_row(family, inward)
            with code.loop("t", 0, width, ROW) as t:
                at = code.let(least(t, width - ROW))
                code.turn(MEMORY, TURNED + at, element.array, STARTS, start + at, inward)
            if inward:
                self._move_row(family, inward)
        with code.otherwise():
            yield

    def _move_row(self, family: Sequence[WeightCells], inward: bool) -> None:
        """What rules speak of, between a row of a table and its cells."""
        for w, region in self.all_regions(family):
            count, turn = self.tables.turns(w)
            *outer, last = region.loops
            with self.code.when(self._holds(outer)), self.loops(replace(region, loops=(last,)), None):
                cell = self.place(w, region, adjoint=not inward)
                turned = TURNED + (Name(f"at.{last.name}", "int") * count + turn)
                to, of = (cell, turned) if inward else (turned, cell)
                self.code.put(MEMORY, to, MEMORY[of])

    def _holds(self, loops: Iterable[Loop]) -> Expression:
        """Whether the axes at hand are within loops."""
        pairs = [(Name(f"at.{loop.name}", "int"), loop) for loop in loops]
        tests = [test for x, loop in pairs for test in (x >= first_of(loop), x <= last_of(loop))]
        return functools.reduce(lambda a, b: a & b, tests, value(True))
