# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Cells in lanes that have symbols for indices, and sums of products of them in tiles of registers.

Before, for the states of a chain:

    F[j, x] = sum(all y: F[j - 1, y] * move[y, x]) * emit[j, x]

After, with four sums in registers, each a vector of W sentences:

    for x in 0, 4, 8, ...:
        s0 = s1 = s2 = s3 = 0
        for y:
            s0 += F[j - 1, y] * move[y, x];  s1 += F[j - 1, y] * move[y, x + 1];  ...
        F[j, x] = s0 * emit[j, x];  F[j, x + 1] = s1 * emit[j, x + 1];  ...

Numbers of symbols are rounded up to whole tiles. What lies beyond the last symbol is computed and never read, but for
the rows of lists, which are gone through to the last one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from ..calling.layout import Layout
from ..lanes.limits import ITEM
from ..lanes.numbers import Number, Numbers, any_of
from ..lanes.tables import MEMORY
from ..machine.expressions import Array, Expression, Name, fill, greatest, least, value
from ..machine.statements import Code
from ..rules.cells import Loop
from ..rules.language import Bound, Constant, Entry, Place, Position, Symbol, Variable

NUMBERS = Array("memory", "element")  # the memory of lanes, number by number
TILE = 4  # numbers of symbols are multiples of it, and the greatest number of rows and columns of sums


@dataclass(frozen=True)
class Grid:
    """Cells at the positions at hand, by symbols.

    :param start: the first of them.
    :param symbols: the indices.
    :param strides: of each.
    :param numbers: the array that they are in, if they are numbers, the same in all lanes, and not cells.
    :param adjoint: whether they are adjoints.
    :param items: of how many items the greatest value is the product; 0 for a weight or an adjoint.
    """

    start: Expression
    symbols: tuple[Symbol, ...]
    strides: tuple[Expression, ...]
    numbers: Array | None = None
    adjoint: bool = False
    items: int = 0

    @property
    def variables(self) -> tuple[Variable, ...]:
        """Those of its symbols, each once."""
        found = [x.row if isinstance(x, Entry) else x for x in self.symbols]
        return tuple(dict.fromkeys(x for x in found if isinstance(x, Variable)))

    @property
    def rows(self) -> set[Variable]:
        """Variables that are rows of lists."""
        return {x.row for x in self.symbols if isinstance(x, Entry)}

    def index(self, steps: Mapping[str, int]) -> Expression:
        """The number of a cell, some symbols steps from those at hand."""
        found = self.start
        for x, stride in zip(self.symbols, self.strides, strict=True):
            found = found + _symbol(x, steps) * stride
        return found

    def value(self, steps: Mapping[str, int]) -> Expression:
        """The plain number that it holds there, in lanes."""
        index = self.index(steps)
        return MEMORY[index] if self.numbers is None else fill(self.numbers[index])


Factor = Grid | Name  # a name is of the goal's adjoint
Steps = dict[str, int]  # from the symbols at hand, by name
Known = dict[tuple[int, tuple[int, ...]], Number]  # values of grids that have been loaded, by steps


def place(x: Position) -> Expression:
    """A position as a number."""
    return Name(f"at.{x.name}", "int") + x.offset if x.name else value(x.offset)


def _symbol(x: Symbol, steps: Mapping[str, int]) -> Expression:
    if isinstance(x, Variable):
        return Name(f"sym.{x.name}", "int") + steps.get(x.name, 0)
    if isinstance(x, Entry):
        return Array(f"list.{x.column}", "int")[Name(f"sym.{x.row.name}", "int") + steps.get(x.row.name, 0)]
    if isinstance(x, Place):
        return place(x.position)
    assert isinstance(x, Constant)
    return value(x.value)


def is_adjoint(f: Factor) -> bool:
    """Whether a factor is an adjoint."""
    return isinstance(f, Name) or f.adjoint


def variables_of(factors: Sequence[Factor]) -> tuple[Variable, ...]:
    """The symbols of several, each once."""
    return tuple(dict.fromkeys(x for f in factors if isinstance(f, Grid) for x in f.variables))


def _best_tile(free: Sequence[Variable], factors: Sequence[Factor]) -> list[Variable]:
    """The two symbols, of those that sums are formed for, that let a product load the fewest numbers."""

    def loads(tile: tuple[Variable, Variable]) -> int:
        return sum(TILE ** sum(x in f.variables for x in tile) for f in factors if isinstance(f, Grid))

    pairs = list(itertools.combinations(free, 2))[::-1]
    best = min(pairs, key=loads, default=None)
    return list(free if best is None else best)


@dataclass
class Sums:
    """Code of sums of products.

    :param layout: the names of sizes.
    :param numbers: what cells are, and sums and products.
    :param tile: rows and columns of sums that are formed at once.
    """

    code: Code
    layout: Layout
    numbers: Numbers
    tile: tuple[int, int]

    def value(self, f: Factor, steps: Mapping[str, int]) -> Number:
        """A factor, some symbols steps from those at hand."""
        if isinstance(f, Name):
            return self.numbers.get(f.name)
        return self.numbers.load(f.index(steps)) if f.numbers is None else self.numbers.of(f.value(steps))

    # ------------------------------------------------------------------ loops

    def at(self, x: Position) -> Expression:
        """A position as a number."""
        return place(x)

    def padded(self, size: int | str) -> Expression:
        """A number of symbols, in whole tiles."""
        if isinstance(size, int):
            return self.layout.size(-(-size // TILE) * TILE)
        return Name(f"padded.{size}", "int")

    @contextmanager
    def loops(self, loops: Sequence[Loop], symbols: Sequence[Variable] = ()) -> Iterator[None]:
        """Loops over positions and then over symbols."""
        with ExitStack() as stack:
            for loop in loops:
                low, high = self.at(loop.low[0]), self.at(loop.high[0])
                for x in loop.low[1:]:
                    low = greatest(low, self.at(x))
                for x in loop.high[1:]:
                    high = least(high, self.at(x))
                stack.enter_context(self.code.loop(f"at.{loop.name}", low, high + 1))
            for v in symbols:
                stack.enter_context(self.code.loop(f"sym.{v.name}", 0, self.layout.size(v.size)))
            yield

    @contextmanager
    def where(self, guard: Sequence[Bound]) -> Iterator[None]:
        """What is done if bounds hold."""
        with ExitStack() as stack:
            for b in guard:
                stack.enter_context(self.code.when(self.at(Position(b.x)) <= self.at(Position(b.y, b.most))))
            yield

    def _tiles(
        self,
        free: Sequence[Variable],
        tiled: Sequence[Variable],
        rows: set[Variable],
        starts: Mapping[Variable, Expression],
        body: Callable[[list[Steps]], None],
    ) -> None:
        """Loops over symbols, some of them in tiles; the body is told the steps of all that are done at once.

        :param starts: of symbols whose first ones are done, where to begin.
        """

        def go(x: int, counts: dict[str, int]) -> None:
            if x == len(free):
                steps = itertools.product(*(range(c) for c in counts.values()))
                body([dict(zip(counts, s, strict=True)) for s in steps])
                return
            v, name = free[x], f"sym.{free[x].name}"
            if v not in tiled:
                with self.code.loop(name, starts.get(v, 0), self.layout.size(v.size)):
                    go(x + 1, counts)
                return
            whole = self.layout.size(v.size) // TILE * TILE if v in rows else self.padded(v.size)
            at_once = TILE if len(tiled) == 1 else self.tile[tiled.index(v)]
            with self.code.loop(name, starts.get(v, 0), whole, at_once):
                go(x + 1, counts | {v.name: at_once})
            if v in rows:
                with self.code.loop(name, whole, self.layout.size(v.size)):
                    go(x + 1, counts)

        go(0, {})

    # ------------------------------------------------------------------ sums

    def contract(
        self,
        out: Grid,
        factors: Sequence[Factor],
        loops: Sequence[Loop] = (),
        *,
        outer: Sequence[Factor] = (),
        add: bool = True,
        known: Sequence[Variable] = (),
        kept: Grid | None = None,
    ) -> None:
        """``out (+)= outer * sum(factors)``, over positions and over the symbols that stand in factors alone.

        :param add: whether cells keep what they have.
        :param known: symbols that are at hand.
        :param kept: where the sums of factors are written, too, before they are multiplied.
        """
        starts = {} if known else self.in_vectors(out, factors, loops, outer, add, kept)
        if starts is None:
            return
        free = [x for x in out.variables if x not in known]
        summed = [x for x in variables_of(factors) if x not in (*free, *known)]
        everywhere = variables_of([*factors, *outer])
        rows = set().union(*(f.rows for f in [out, *factors, *outer] if isinstance(f, Grid)))
        tiled = [] if out.rows or known else _best_tile([x for x in free if x in everywhere], factors)

        def body(tile: list[Steps]) -> None:
            numbers = self.numbers
            names = [f"sum.{x}" for x in range(len(tile))]
            if loops or summed:
                for name in names:
                    numbers.set(name, numbers.zero)
                for each in numbers.rounds():
                    with self.loops(loops, summed):
                        terms = replace(self, numbers=each).products(tile, factors, names)
                        for name, term in zip(names, terms, strict=True):
                            each.set(name, term)
            else:
                for name, term in zip(names, self.products(tile, factors), strict=True):
                    numbers.set(name, term)
            for name, steps in zip(names, tile, strict=True):
                found = numbers.get(name)
                if kept is not None:
                    numbers.put(kept.index(steps), found)
                for f in outer:
                    found = numbers.times(found, self.value(f, steps))
                index = self.code.let(out.index(steps))
                numbers.put(index, numbers.plus(found, numbers.load(index)) if add else found)

        self._tiles(free, tiled, rows, starts, body)

    def in_vectors(
        self,
        out: Grid,
        factors: Sequence[Factor],
        loops: Sequence[Loop],
        outer: Sequence[Factor],
        add: bool,
        kept: Grid | None,
    ) -> dict[Variable, Expression] | None:
        """The part of :meth:`contract` that is done by vectors of symbols; here there is none.

        :returns: the symbols that it has done in part, with the first one that is left; None if it has done all.
        """
        return {}

    def add_up(self, factors: Sequence[Factor], name: str) -> None:
        """Add the products for all symbols to a variable."""
        with self.loops((), variables_of(factors)):
            (term,) = self.products([{}], factors, [name])
            self.numbers.set(name, term)

    def push(
        self,
        given: Grid,
        factors: Sequence[Factor],
        targets: Sequence[tuple[Grid, Sequence[int]]],
        loops: Sequence[Loop],
    ) -> None:
        """``target += given * factors``, summed, for each target and the numbers of its factors.

        The tile of ``given`` stays in registers while positions change.
        """
        free = given.variables
        summed = [x for x in variables_of(factors) if x not in free]
        rows = set().union(*(f.rows for f in [given, *factors] if isinstance(f, Grid)))
        tiled = [x for x in free if x in variables_of(factors)][-2:]

        def body(tile: list[Steps]) -> None:
            code, numbers = self.code, self.numbers
            adjoints = [numbers.let(self.value(given, steps)) for steps in tile]
            with self.loops(loops, summed):
                known: Known = {}  # values, which no adjoint is among
                for target, chosen in targets:
                    names = {x.name for x in target.variables}
                    groups: dict[tuple[tuple[str, int], ...], list[int]] = {}
                    for x, steps in enumerate(tile):
                        key = tuple((name, step) for name, step in steps.items() if name in names)
                        groups.setdefault(key, []).append(x)
                    for members in groups.values():
                        index = code.let(target.index(tile[members[0]]))
                        total = numbers.load(index)
                        for x in members:
                            parts = [factors[f] for f in chosen]
                            (total,) = self.products([tile[x]], parts, [total], known, last=adjoints[x])
                        numbers.put(index, total)

        self._tiles(free, tiled, rows, {}, body)

    def products(
        self,
        tile: Sequence[Steps],
        factors: Sequence[Factor],
        totals: Sequence[str | Number] = (),
        known: Known | None = None,
        last: Number | None = None,
    ) -> list[Number]:
        """The product of factors for every place of a tile, added to totals if there are any.

        What all places share is multiplied first. But an adjoint that meets several items comes last: times them it is
        in range, if nothing else is zero; else only the product of all others times it is.

        :param last: an adjoint that is a factor, too.
        """
        names = {name for steps in tile for name in steps}

        def varies(f: Factor) -> int:
            return len(names & {x.name for x in f.variables}) if isinstance(f, Grid) else 0

        known = {} if known is None else known
        numbers, large = self.numbers, sum(f.items for f in factors if isinstance(f, Grid)) > 1
        ordered = sorted(factors, key=lambda f: (large and is_adjoint(f), varies(f)))
        found: list[Number] = []
        for place, steps in enumerate(tile):
            values: list[Number] = []
            for f in ordered:
                if isinstance(f, Name):
                    values.append(self.value(f, steps))
                    continue
                own = {x.name for x in f.variables}
                key = id(f), tuple(step for name, step in steps.items() if name in own)
                if key not in known:
                    known[key] = numbers.let(self.value(f, steps))
                values.append(known[key])
            values += [] if last is None else [last]
            product: Number = values[0] if values else numbers.one
            for v in values[1:-1]:
                product = numbers.times(product, v)
            if not totals:
                found.append(numbers.times(product, values[-1]) if len(values) > 1 else product)
                continue
            given = totals[place]
            total = numbers.get(given) if isinstance(given, str) else given
            found.append(
                numbers.add_product(total, product, values[-1]) if len(values) > 1 else numbers.plus(total, product)
            )
        return found

    def clear(self, grid: Grid) -> None:
        """Zero for all symbols of a table."""
        with self.loops((), grid.variables):
            self.numbers.put(grid.index({}), self.numbers.zero)

    def multiply_all(self, weight: Grid, count: Grid) -> None:
        """Sums that lack their weight become posteriors, for all symbols of a table."""
        with self.loops((), count.variables):
            self.multiply(self.numbers.let(self.value(weight, {})), count.index({}))

    def multiply(self, weight: Number, place: Expression) -> None:
        """A sum that lacks its weight becomes a posterior."""
        numbers, place = self.numbers, self.code.let(place)
        numbers.put_posterior(place, weight, numbers.load(place))

    # ------------------------------------------------------------------ ranges

    def open_range(self) -> None:
        """No item has been looked at."""
        ITEM.begin(self.code)

    def look_at(self, grid: Grid) -> None:
        """Let all cells of a table count for the least item, if they are not zero, and for the greatest one."""
        with self.loops((), grid.variables):
            ITEM.include(self.code, grid.value({}))

    def is_any_outside(self, lanes: Expression) -> Expression:
        """Whether a number of some lane is outside its range, or an item that has been looked at in vectors.

        :param lanes: those that are known to have one.
        """
        return any_of(lanes)

    def bound(self, grid: Grid, known: Sequence[Variable] = ()) -> None:
        """Take all adjoints of a table down to a number that they may be.

        :param known: symbols that are at hand.
        """
        with self.loops((), [x for x in grid.variables if x not in known]):
            index = self.code.let(grid.index({}))
            self.numbers.put(index, self.numbers.bounded(self.numbers.load(index)))
