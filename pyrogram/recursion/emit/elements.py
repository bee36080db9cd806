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

from ..code.expressions import Array, Expression, Name, equal, fill, greatest, least, negated, value
from ..code.statements import Code
from ..rules.cells import Loop, names_in
from ..rules.language import Constant, Position, Ref, Variable, Word
from ..rules.lowering import lower
from ..rules.products import Products
from .gauge import with_gauge
from .grids import place
from .layout import Layout
from .regions import Region, by_axes, regions_of
from .tables import Tables
from .weights import GAUGE, MEMORY, NUMBERS, WeightCells

STARTS = Array("starts", "int")
ROW = 8  # numbers that are turned together


@dataclass
class Elements:
    """Code that goes through the weights of a block of sentences.

    :param products: the recursion, in which some weights are products of those that are given.
    :param lanes: W.
    :param layout: where weights lie.
    :param shared: whether all sentences share the weights that know no position, as numbers.
    :param in_logs: whether numbers are logarithms, and the greatest is the sum; then words have no powers of two.
    """

    products: Products
    lanes: int
    layout: Layout
    shared: bool = False
    in_logs: bool = False
    code: Code = field(default_factory=Code)
    tables_type: ClassVar[type[Tables]] = Tables

    def __post_init__(self) -> None:
        cells = lower(self.products.recursion, widen=True)
        self.cells = cells if self.in_logs else with_gauge(cells)
        self.tables = self.tables_type(self.cells, self.layout, self.lanes, self.shared, self.in_logs)
        self.regions = {w: list(regions_of(self.cells, w)) for w in self.tables.in_lanes if w.table != GAUGE}
        factors = self.products.factors
        spoken = Counter(
            name for w in self.tables.weights for name in (w.table, *(f.table for f in factors.get(w.table, ())))
        )
        self.whole = {w for w in self.tables.weights if self.tables.is_plain(w) and spoken[w.table] == 1}
        """Tables of symbols alone all of whose elements are weights."""

    @property
    def families(self) -> list[list[WeightCells]]:
        """Tables of weights that take turns."""
        return [family for family in self.tables.families.values() if family[0] in self.regions]

    @contextmanager
    def each_lane(self) -> Iterator[Name]:
        code = self.code
        with code.loop("lane", 0, Name("here", "int")) as x:
            b = code.set("b", Array("order", "int")[Name("begin.of", "int") + x])
            code.set("at.n", Array("lengths", "int")[b])
            self.layout.enter(code, x)
            yield x

    def given(self, ref: Ref, in_logs: bool) -> Expression:
        """An element of a table of weights, where its axes are in variables; or a product of several."""
        weight, *others = (self.layout.value(f) for f in self.products.of(by_axes(ref)))
        for x in others:
            weight = weight + x if in_logs else weight * x
        return weight

    def drain(self, w: WeightCells, region: Region, lane: Expression, scale: Expression | None, part: bool) -> None:
        """Add the posteriors of a region, in a lane, to the output, times a scale.

        :param part: whether the output has a table for each part of the sentences.
        """
        code = self.code
        factors = self.products.of(by_axes(region.ref))
        symbols = any(isinstance(x, Variable) for x in region.ref.symbols)
        *outer, last = (*region.loops, None) if symbols or not region.loops else region.loops
        inner = [f for f in factors if last is None or last.name in names_in(f)]
        with ExitStack() as stack:
            stack.enter_context(self.loops(replace(region, loops=tuple(x for x in outer if x is not None)), None))
            totals = [code.set(f"drained.{x}", 0.0) for x, f in enumerate(factors) if f not in inner]
            with ExitStack() as innermost:
                if last is not None:
                    innermost.enter_context(self.loops(replace(region, loops=(last,)), None))
                posterior: Expression = code.let(NUMBERS[self.place(w, region, adjoint=True) * self.lanes + lane])
                posterior = posterior if scale is None else code.let(posterior * scale)
                for f in inner:
                    self.add(f, posterior, part)
                for total in totals:
                    code.set(total.name, total + posterior)
            for f, total in zip((f for f in factors if f not in inner), totals, strict=True):
                self.add(f, total, part)

    def add(self, f: Ref, number: Expression, part: bool) -> None:
        """Add a number to an element of the output.

        :param part: whether the output has a table for each part of the sentences.
        """
        if not self.layout.is_counted(f.table):
            return
        target = self.layout.weight(f, f"out.{f.table}")
        index = target.index + Name("part", "int") * Name(f"out.{f.table}.part", "int") if part else target.index
        self.code.add(target.array, index, number)

    def are_counted(self, family: Iterable[WeightCells]) -> bool:
        """Whether posteriors of some of these weights are wanted."""
        refs = (f for w in family for f in self.products.of(by_axes(self.regions[w][0].ref)))
        return any(self.layout.is_counted(f.table) for f in refs)

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
                stack.enter_context(self.code.loop(f"at.{loop.name}", self._low(loop), self._high(loop) + 1))
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
        """See :meth:`rows`."""
        code, n, w = self.code, Name("n", "int"), family[0]
        arity, count = self.cells.arity[w.table], self.tables.turns(w)[0]
        words = any(isinstance(x, (Word, Variable)) for v in family for x in self.regions[v][0].ref.symbols)
        no_rows = w.indices[:arity][-1:] != (None,) or self.lanes < ROW or not self.layout.in_strides
        if words or w.table in self.products.factors or no_rows:
            yield
            return
        hull = self._hull(family)
        steady = [*hull.loops[-1].low, *hull.loops[-1].high] if hull.loops else [Position("axis")]
        if any(x.name not in ("", "n") for x in steady):
            yield
            return
        *outer, last = hull.loops
        code.set("at.n", n)
        low, high = self._low(last), self._high(last)
        fits = (Name("even", "int") > 0) & ((high - low + 1) * count >= ROW)
        name, expected = f"weight.{w.table}" if inward else f"out.{w.table}", 1
        if not inward:  # where sentences share a table, their counts are added
            fits = fits & (Name(f"{name}.b", "int") > 0)
        sizes = self.cells.recursion.tables[w.table].sizes
        for axis in range(len(w.indices) - 1, arity - 2, -1):
            fits = fits & equal(Name(f"{name}.{axis}", "int"), expected)
            size = sizes[axis - arity] if axis >= arity else 1
            expected *= size if isinstance(size, int) else 1
        with code.when(fits):
            with code.loop("lane", 0, self.lanes) as x:
                b = Array("order", "int")[Name("begin.of", "int") + x]
                code.put(STARTS, x, b * Name(f"{name}.b", "int"))
            code.set("b", 0)
            with self.loops(replace(hull, loops=tuple(outer)), n):
                if not inward:
                    self._clear_rest(family, hull, last, adjoint=True)
                code.set(f"at.{last.name}", 0)
                first = replace(hull.ref, symbols=tuple(Constant(0) for _ in hull.ref.symbols))
                element = self.layout.weight(by_axes(first), None if inward else f"out.{first.table}")
                start = self.place(w, hull, adjoint=not inward) - self.tables.turns(w)[1]
                with code.loop("t", low * count, (high + 1) * count, ROW) as t:
                    at = code.let(least(t, (high + 1) * count - ROW))
                    code.turn(MEMORY, start + at, element.array, STARTS, element.index + at, inward)
                if inward and not self.in_logs:  # cells read it, and multiply it by empty sums
                    self._clear_rest(family, hull, last, adjoint=False)
        with code.otherwise():
            yield

    def _hull(self, family: Sequence[WeightCells]) -> Region:
        """All regions of tables, and perhaps more, in one."""
        (_, first), *others = self.all_regions(family)
        bounds = first.bounds
        for _, region in others:
            bounds = bounds.hull(region.bounds)
        return Region.of(first.ref, bounds, [loop.name for loop in first.loops])

    def _clear_rest(self, family: Sequence[WeightCells], hull: Region, last: Loop, adjoint: bool) -> None:
        """Zero for what is in a row of the hull, and in no region: for weights, or for their posteriors."""
        code, count = self.code, self.tables.turns(family[0])[0]
        by_turn = {self.tables.turns(w)[1]: w for w in family}
        first, end = self._low(last), self._high(last) + 1

        def clear(low: Expression, high: Expression, turn: int, regions: Sequence[Region] = ()) -> None:
            with code.loop(f"at.{last.name}", low, high):
                start = self.place(family[0], hull, adjoint) - self.tables.turns(family[0])[1]
                with code.when(negated(functools.reduce(lambda a, b: a | b, map(self._holds, regions), value(False)))):
                    code.put(MEMORY, start + turn, fill(0.0))

        for turn in range(count):
            regions = self.regions[by_turn[turn]] if turn in by_turn else []
            if len(regions) == 1 and str(regions[0].loops) == str(hull.loops):
                continue
            low, high, covered = code.set("rest.low", end), code.set("rest.high", first), code.set("rest.covered", 0)
            for region in regions:  # no two meet
                (along,) = (loop for loop in region.loops if loop.name == last.name)
                outer = replace(region, loops=tuple(loop for loop in region.loops if loop is not along))
                begin, over = code.let(self._low(along)), code.let(self._high(along) + 1)
                with code.when(self._holds(outer) & (begin < over)):
                    code.set(low.name, least(low, begin))
                    code.set(high.name, greatest(high, over))
                    code.set(covered.name, covered + (over - begin))
            clear(first, low, turn)
            clear(greatest(low, high), end, turn)
            with code.when(covered < high - low):
                clear(low, high, turn, regions)

    def _holds(self, region: Region) -> Expression:
        """Whether the axes at hand are in a region."""
        tests = [Name(f"at.{loop.name}", "int") >= self._low(loop) for loop in region.loops]
        tests += [Name(f"at.{loop.name}", "int") <= self._high(loop) for loop in region.loops]
        return functools.reduce(lambda a, b: a & b, tests, value(True))

    def _low(self, loop: Loop) -> Expression:
        return functools.reduce(greatest, map(place, loop.low))

    def _high(self, loop: Loop) -> Expression:
        last = functools.reduce(least, map(place, loop.high))
        if all(not x.name for x in loop.high):  # a position that shorter sentences do not have
            last = least(last, Name("at.n", "int"))
        return last
