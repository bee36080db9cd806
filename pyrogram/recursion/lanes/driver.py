# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sentences into lanes, and log Z and posteriors out of them: one compiled function does block after block.

Weights are given as they are, or as logarithms. Logarithms are shifted before they are exponentiated, where the
recursion says that every derivation has one weight of a group (``once``): the best of the group becomes one.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from ..calling.layout import Layout
from ..machine.statements import (
    Array,
    Code,
    Element,
    Expression,
    Function,
    Name,
    Number,
    equal,
    fill,
    fma,
    greatest,
    lane,
    least,
    log,
    negated,
    power_of_two,
    rounded,
    select,
    take,
    value,
)
from ..rules.bounds import Bounds
from ..rules.cells import Cells, Loop, Term
from ..rules.domains import constraints
from ..rules.language import Constant, Position, Ref, Word
from .inside import Inside
from .outside import Outside
from .passes import Options
from .tables import MEMORY, Tables, WeightCells, axes, weight_cells

LEAST = -1e30  # lower shifts would turn -inf into NaN
NUMBERS = Array("memory", "element")  # the same memory, number by number
STARTS = Array("starts", "int")
INF = Number(math.inf, "real")


@dataclass(frozen=True)
class Region:
    """Elements of a weight that a rule speaks of, in loops over its axes: variables axis0, axis1, ..."""

    ref: Ref
    bounds: Bounds
    loops: tuple[Loop, ...]

    @staticmethod
    def of(ref: Ref, bounds: Bounds, names: Sequence[str], outer: Sequence[str] = ()) -> Region:
        """Loops over the axes ``names``, within those over ``outer``."""
        known = ["", "n", *outer]
        loops = []
        for name in names:
            loops.append(Loop(name, *bounds.limits(name, known)))
            known.append(name)
        return Region(ref, bounds, tuple(loops))


def functions(cells: Cells, logs: bool, lanes: int, dtype: str, options: Options | None = None) -> list[Function]:
    """``lanes``: log Z and, if they are wanted, posteriors of weights, for sentences of which the longest come first.

    ``size``: the number of cells that it needs.
    """
    code = Code()
    code.give(Tables(cells).place(code))
    size = Function("size", Layout(cells).parameters(), code.body, "int")
    return [_Driver(cells, logs, lanes, dtype, options or Options()).function(), size]


class _Driver:
    def __init__(self, cells: Cells, logs: bool, lanes: int, dtype: str, options: Options) -> None:
        self.cells, self.logs, self.lanes, self.dtype = cells, logs, lanes, dtype
        self.tables, self.layout, self.code = Tables(cells), Layout(cells), Code()
        self.options = options
        self.regions = {w: list(_regions(cells, w)) for w in self.tables.weights}

    def function(self) -> Function:
        code = self.code
        self.tables.place(code)
        parts = Name("parts", "int")
        part = code.set("part", take(Array("turns", "int")))
        with code.loop_while(part < parts):
            code.set("block", part)
            with code.loop_while(Name("block", "int") * self.lanes < Name("count", "int")):
                self._block()
                code.set("block", Name("block", "int") + parts)
            code.set("part", take(Array("turns", "int")))
        parameters = [*self.layout.parameters(), *_OWN]
        for w in self.layout.weights:
            parameters.append(Array(f"out.{w.name}", "element"))
            parameters += [Name(f"out.{w.name}.{x}", "int") for x in ("part", "b", *range(w.num_axes))]
        return Function("lanes", [*parameters, MEMORY], code.body)

    def _block(self) -> None:
        code, order = self.code, Array("order", "int")
        begin = code.set("begin.of", Name("block", "int") * self.lanes)
        here = code.set("here", least(self.lanes, Name("count", "int") - begin))
        n = code.set("n", Array("lengths", "int")[order[begin]])
        shortest = code.set("shortest", Array("lengths", "int")[order[begin + here - 1]])
        code.set("ragged", select(here < self.lanes, 1, select(shortest < n, 1, 0)))
        code.set("whole", 1 - Name("ragged", "int"))
        self._feed()
        Inside(self.tables, self.code, self.options).run()
        self._judge(adjoints=False)
        with code.when(Name("adjoints", "int") > 0):
            Outside(self.tables, self.code, self.options).run()
        self._judge(adjoints=True)
        with code.when(Name("with_counts", "int") > 0):
            code.set("whole", Name("whole", "int") * Name("plain", "int"))
            self._drain()

    @contextmanager
    def _each_lane(self) -> Iterator[Name]:
        code = self.code
        with code.loop("lane", 0, Name("here", "int")) as x:
            b = code.set("b", Array("order", "int")[Name("begin.of", "int") + x])
            code.set("at.n", Array("lengths", "int")[b])
            yield x

    # ------------------------------------------------------------------ in

    def _feed(self) -> None:
        code, n = self.code, Name("n", "int")
        nothing = fill(-math.inf if self.logs else 0.0)
        with code.loop("x", 0, n + 1) as x:
            code.put(MEMORY, Name("ends", "int") + x, fill(0.0))
        with code.when(equal(Name("ragged", "int"), 1)):
            for w, regions in self.regions.items():
                for region in regions:
                    with self._loops(region, n):
                        code.put(MEMORY, self._place(w, region), nothing)
        with self._each_lane() as x:
            end = Name("ends", "int") + Name("at.n", "int")
            code.put(NUMBERS, end * self.lanes + x, 1.0)
        for family in self.tables.families.values():
            with self._rows(family, inward=True), self._each_lane() as x:
                for w, region in self._all(family):
                    with self._loops(region, None):
                        code.put(NUMBERS, self._place(w, region) * self.lanes + x, self._given(region.ref))
        code.put(MEMORY, Name("shift", "int"), fill(0.0))
        if self.logs:
            self._exponentiate()

    def _given(self, ref: Ref, output: bool = False) -> Element:
        """An element of a table of weights, or of the output, where its axes are in variables."""
        named = _by_axes(ref)
        return self.layout.weight(named, f"out.{ref.table}" if output else None)

    def _place(self, w: WeightCells, region: Region, adjoint: bool = False) -> Expression:
        index: Expression = value(0)
        for x in range(w.num_axes):
            index = index * Name("pitch", "int") + Name(f"at.axis{x}", "int")
        return Name(f"d{w.name}" if adjoint else w.name, "int") + index * self.tables.turns[w][0]

    def _all(self, family: Sequence[WeightCells]) -> Iterator[tuple[WeightCells, Region]]:
        """The regions of tables."""
        for w in family:
            for region in self.regions[w]:
                yield w, region

    @contextmanager
    def _loops(self, region: Region, n: Expression | None) -> Iterator[None]:
        """Loops over the elements of a region; ``n`` for the length, or that of the lane at hand."""
        if n is not None:
            self.code.set("at.n", n)
        with ExitStack() as stack:
            for loop in region.loops:
                stack.enter_context(self.code.loop(f"at.{loop.name}", self._low(loop), self._high(loop) + 1))
            yield

    def _exponentiate(self) -> None:
        code = self.code
        done: set[WeightCells] = set()
        for group in self._groups():
            done |= {w for w, _ in group}
            self._shift_group(group)
        for w, regions in self.regions.items():
            if w not in done:
                for region in regions:
                    with self._loops(region, Name("n", "int")):
                        place = code.let(self._place(w, region))
                        code.put(MEMORY, place, self._exp(code.let(MEMORY[place])))

    def _groups(self) -> Iterator[list[tuple[WeightCells, str | None]]]:
        """Tables of lanes that are shifted together, each with its axis that says to which group a weight belongs."""
        found: dict[object, list[tuple[WeightCells, str | None]]] = {}
        for w in self.regions:
            once = self.cells.recursion.tables[w.table].once
            if once is not None:
                claim, own = once
                constants = tuple(w.indices[a] for a in own)
                axis = next((f"axis{w.indices[:a].count(None)}" for a in own if w.indices[a] is None), None)
                found.setdefault((claim, constants), []).append((w, axis))
        yield from found.values()

    def _shift_group(self, group: list[tuple[WeightCells, str | None]]) -> None:
        code, n = self.code, Name("n", "int")
        with ExitStack() as stack:
            owner = None
            if group[0][1] is not None:
                owner = stack.enter_context(code.loop("owner", self.cells.first, n + 1))
            code.set("top", fill(LEAST))
            top = Name("top", "lanes")
            for w, axis in group:
                for region in self.regions[w]:
                    with self._of_owner(region, axis, owner):
                        code.set("top", greatest(top, MEMORY[self._place(w, region)]))
            code.add(MEMORY, Name("shift", "int"), select(top > fill(LEAST), top, fill(0.0)))
            for w, axis in group:
                for region in self.regions[w]:
                    with self._of_owner(region, axis, owner):
                        place = code.let(self._place(w, region))
                        code.put(MEMORY, place, self._exp(code.let(MEMORY[place] - top)))

    @contextmanager
    def _of_owner(self, region: Region, axis: str | None, owner: Expression | None) -> Iterator[None]:
        """The elements of a region that belong to a group."""
        code, n = self.code, Name("n", "int")
        if axis is None or owner is None:
            with self._loops(region, n):
                yield
            return
        code.set("at.n", n)
        at = code.set(f"at.{axis}", owner)
        (own,) = Region.of(region.ref, region.bounds, [axis]).loops
        with ExitStack() as stack:
            for low in own.low:
                stack.enter_context(code.when(at >= self.tables.at(low)))
            for high in own.high:
                stack.enter_context(code.when(at <= self.tables.at(high)))
            stack.enter_context(self._loops(_within(region, [axis]), n))
            yield

    def _exp(self, x: Expression) -> Expression:
        """exp in every lane, to about a unit in the last place; zero below the normal range, NaN stays NaN.

        exp(x) = 2**k exp(r), where r is at most log(2) / 2 from zero, by Taylor's polynomial, whose first dropped term
        is below half a unit in the last place.
        """
        code = self.code
        double = self.dtype == "float64"
        high, low = (0.693145751953125, 1.42860682030941723212e-6) if double else (0.693359375, -2.12194440e-4)
        lowest, highest = (-708.0, 709.0) if double else (-87.0, 88.0)
        k = code.let(rounded(x * fill(1 / math.log(2))))
        inside = code.let(least(greatest(k, fill(-1022.0 if double else -126.0)), fill(1023.0 if double else 127.0)))
        r = code.let(fma(k, fill(-high), x))
        r = code.let(fma(k, fill(-low), r))
        degree = 13 if double else 7
        total: Expression = fill(1 / math.factorial(degree))
        for d in range(degree - 1, -1, -1):
            total = fma(total, r, fill(1 / math.factorial(d)))
        found = code.let(total * power_of_two(inside))
        return select(x < fill(lowest), fill(0.0), select(x > fill(highest), fill(math.inf), found))

    # ------------------------------------------------------------------ out

    def _judge(self, adjoints: bool) -> None:
        """Log Z of every lane after the inside pass; whether it can be trusted after both."""
        code = self.code
        with self._each_lane() as x:
            b = Name("b", "int")
            if not adjoints:
                z = lane(MEMORY[Name("z", "int")], x)
                exponent = lane(MEMORY[Name("exponent", "int")], x)
                log_z = log(z) - exponent * math.log(2.0) + lane(MEMORY[Name("shift", "int")], x)
                code.put(Array("log_z", "real"), b, log_z)
                grown = lane(MEMORY[Name("grown", "int")], x)
                least_log_z = Array("least", "real")[0] + grown * math.log(2.0)
                code.set("trusted", select(Name("adjoints", "int") > 0, 1, select(log(z) >= least_log_z, 1, 0)))
                code.put(Array("failed", "int"), b, 1 - Name("trusted", "int"))
            else:
                total = lane(MEMORY[Name("bound", "int")], x)
                found = Array("log_z", "real")[b]
                # Written so that NaN fails.
                fits = select(total <= Array("most", "real")[0], select(found < INF, select(found > -INF, 0, 1), 1), 1)
                code.put(Array("failed", "int"), b, greatest(Array("failed", "int")[b], fits))
                code.set("whole", Name("whole", "int") * (1 - fits))

    def _drain(self) -> None:
        code = self.code
        for family in self.tables.families.values():
            with self._rows(family, inward=False), self._each_lane() as x:
                b = Name("b", "int")
                with code.when(equal(Array("failed", "int")[b], 0)):
                    scale = code.set("scale.of", Array("scale", "real")[b])
                    for w, region in self._all(family):
                        with self._loops(region, None):
                            place = self._place(w, region, adjoint=True) * self.lanes + x
                            target = self._given(region.ref, output=True)
                            index = target.index + Name("part", "int") * Name(f"out.{w.table}.part", "int")
                            code.add(target.array, index, NUMBERS[place] * scale)

    @contextmanager
    def _rows(self, family: Sequence[WeightCells], inward: bool) -> Iterator[None]:
        """Whole rows of tables at once, where they follow one another in memory; the body does it lane by lane.

        That takes a sentence for every lane, all of one length, and rows of at least eight numbers.
        """
        code, n, w = self.code, Name("n", "int"), family[0]
        hull = self._hull(family)
        steady = [*hull.loops[-1].low, *hull.loops[-1].high] if hull.loops else [Position("axis")]
        arity, count = self.cells.arity[w.table], self.tables.turns[w][0]
        words = any(isinstance(s, Word) for s in self.regions[w][0].ref.symbols)
        if words or w.indices[:arity][-1:] != (None,) or any(x.name not in ("", "n") for x in steady):
            yield
            return
        *outer, last = hull.loops
        code.set("at.n", n)
        low, high = self._low(last), self._high(last)
        fits = (Name("whole", "int") > 0) & ((high - low + 1) * count >= 8)
        name, expected = f"weight.{w.table}" if inward else f"out.{w.table}", 1
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
            with self._loops(replace(hull, loops=tuple(outer)), n):
                if not inward:
                    self._clear_rest(family, hull, last)
                code.set(f"at.{last.name}", 0)
                first = replace(hull.ref, symbols=tuple(Constant(0) for _ in hull.ref.symbols))
                element = self._given(first, output=not inward)
                place = self._place(w, hull, adjoint=not inward) - self.tables.turns[w][1]
                with code.loop("t", low * count, (high + 1) * count, 8) as t:
                    at = code.let(least(t, (high + 1) * count - 8))
                    code.turn(MEMORY, place + at, element.array, STARTS, element.index + at, inward)
        with code.otherwise():
            yield

    def _hull(self, family: Sequence[WeightCells]) -> Region:
        """All regions of tables, and perhaps more, in one."""
        (_, first), *others = self._all(family)
        bounds = first.bounds
        for _, region in others:
            bounds = bounds.hull(region.bounds)
        return Region.of(first.ref, bounds, [loop.name for loop in first.loops])

    def _clear_rest(self, family: Sequence[WeightCells], hull: Region, last: Loop) -> None:
        """Zero for the posteriors of what is in the hull, and in no region."""
        code = self.code
        count = self.tables.turns[family[0]][0]
        by_turn = {self.tables.turns[w][1]: w for w in family}
        with self._loops(replace(hull, loops=(last,)), None):
            start = self._place(family[0], hull, adjoint=True) - self.tables.turns[family[0]][1]
            place = code.let(start)
            for turn in range(count):
                if turn not in by_turn:
                    code.put(MEMORY, place + turn, fill(0.0))
                    continue
                regions = self.regions[by_turn[turn]]
                if len(regions) == 1 and str(regions[0].loops) == str(hull.loops):
                    continue
                inside: Expression | None = None
                for region in regions:
                    here = self._holds(region)
                    inside = here if inside is None else inside | here
                assert inside is not None
                with code.when(negated(inside)):
                    code.put(MEMORY, place + turn, fill(0.0))

    def _holds(self, region: Region) -> Expression:
        """Whether the axes at hand are in a region."""
        tests = [Name(f"at.{loop.name}", "int") >= self._low(loop) for loop in region.loops]
        tests += [Name(f"at.{loop.name}", "int") <= self._high(loop) for loop in region.loops]
        return functools.reduce(lambda a, b: a & b, tests)

    def _low(self, loop: Loop) -> Expression:
        first = self.tables.at(loop.low[0])
        for x in loop.low[1:]:
            first = greatest(first, self.tables.at(x))
        return first

    def _high(self, loop: Loop) -> Expression:
        last = self.tables.at(loop.high[0])
        for x in loop.high[1:]:
            last = least(last, self.tables.at(x))
        return last


_OWN: list[Array | Name] = [
    Array("lengths", "int"),
    Array("order", "int"),
    Name("count", "int"),
    Name("parts", "int"),
    Array("turns", "int"),
    Array("log_z", "real"),
    Array("failed", "int"),
    Name("adjoints", "int"),
    Name("with_counts", "int"),
    Name("plain", "int"),
    Array("scale", "real"),
    Array("least", "real"),
    Array("most", "real"),
    STARTS,
]


def _by_axes(ref: Ref) -> Ref:
    """The reference with the variables axis0, axis1, ... for its positions."""
    count = itertools.count()

    def named(x: Position) -> Position:
        return Position(f"axis{next(count)}") if x.name else x

    positions = tuple(map(named, ref.positions))
    symbols = tuple(Word(s.words, named(s.position)) if isinstance(s, Word) else s for s in ref.symbols)
    return replace(ref, positions=positions, symbols=symbols)


def _regions(cells: Cells, w: WeightCells) -> Iterator[Region]:
    """The elements of a table of lanes that rules speak of, each in one region."""
    names = [f"axis{x}" for x in range(w.num_axes)]
    found: list[tuple[Ref, Bounds]] = []
    for cell in cells.classes:
        for term in (t for head in cell.heads for t in head.terms):
            for f in term.all_factors:
                if not f.is_item and weight_cells(f) == w:
                    bounds = _axis_bounds(cells, term, f).among(names)
                    for old in [x for x in found if x[1].meets(bounds)]:
                        found.remove(old)
                        bounds = bounds.hull(old[1])
                    found.append((f, bounds))
    for f, bounds in found:
        yield Region.of(f, bounds, names)


def _axis_bounds(cells: Cells, term: Term, f: Ref) -> Bounds:
    """What holds for the axes of a weight in a term."""
    given = list(constraints(term.rule, cells.first, cells.domains) or [])
    names = [f"axis{x}" for x in range(len(axes(f)))]
    for name, x in zip(names, axes(f), strict=True):
        here = Position(name)
        given += [*(here <= x).bounds, *(x <= here).bounds]
    return Bounds([*term.rule.positions, "i", "j", *names], given)


def _within(region: Region, outer: Sequence[str]) -> Region:
    """The region, in loops within those over some of its axes."""
    names = [loop.name for loop in region.loops if loop.name not in outer]
    return Region.of(region.ref, region.bounds, names, outer)
