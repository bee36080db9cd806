# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sums of products, several at once in registers: those of neighbouring symbols.

Before, for the states of a chain:

    S[x] = sum(all y: F[j - 1, y] * move[y, x])

After, with four sums in registers, each a vector of W sentences:

    for x in 0, 4, 8, ...:
        s0 = s1 = s2 = s3 = 0
        for y:
            s0 += F[j - 1, y] * move[y, x];  s1 += F[j - 1, y] * move[y, x + 1];  ...
        S[x] = s0;  S[x + 1] = s1;  ...

Up to three symbols that are left over come one by one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import ClassVar

from ..code.expressions import Expression, fill, lane, opaque, total_of
from ..code.statements import Code
from ..rules.cells import Loop
from ..rules.language import Size, Variable
from .grids import (
    TILE,
    Factor,
    Grid,
    Held,
    Known,
    Steps,
    first_of,
    last_of,
    meets_items,
    variables_of,
)
from .layout import Layout
from .limits import ITEM, Extremes
from .numbers import Number, Numbers


@dataclass
class Sums:
    """Code of sums of products.

    :param layout: the names of sizes.
    :param numbers: what cells are, and sums and products.
    """

    code: Code
    layout: Layout
    numbers: Numbers
    extremes: ClassVar[Extremes] = ITEM

    def value(self, f: Factor, steps: Mapping[str, int]) -> Number:
        """A factor, some symbols steps from those at hand."""
        if isinstance(f, Held):
            return self.numbers.get(f.name)
        if f.numbers is not None:
            return self.numbers.of(f.value(steps))
        return self.numbers.load(f.index(steps))

    def loaded(self, f: Factor, steps: Steps, known: Known) -> Number:
        """The same, of what is known already or is from now on."""
        if isinstance(f, Held):
            return self.value(f, steps)
        key = f.key(steps)
        if key not in known:
            known[key] = self.numbers.let(self.value(f, steps))
        return known[key]

    # ------------------------------------------------------------------ loops

    def extent(self, size: Size, last: bool) -> Expression:
        """How many cells a number of symbols takes.

        :param last: whether they are the last index of cells.
        """
        return self.layout.size(size)

    @contextmanager
    def loops(self, loops: Sequence[Loop], symbols: Sequence[Variable] = ()) -> Iterator[None]:
        """Loops over positions and then over symbols."""
        all_loops = [self.code.loop(f"at.{loop.name}", first_of(loop), last_of(loop) + 1) for loop in loops]
        all_loops += [self.code.loop(f"sym.{v.name}", 0, self.layout.size(v.size), self.step(v)) for v in symbols]
        with ExitStack() as stack:
            for loop in all_loops:
                x = stack.enter_context(loop)
                self.code.set(x.name, opaque(x))
            yield

    def step(self, v: Variable) -> int:
        """How many symbols are next to each other in a number: one."""
        return 1

    def tiled(self, free: Sequence[Variable]) -> Variable | None:
        """The symbol, of those that sums are formed for, of which several are done at once."""
        return free[-1] if free else None

    def closed(self, out: Grid, total: Number) -> tuple[Numbers, Number]:
        """A sum that is done, for a result, and the numbers that it is one of."""
        return self.numbers, total

    def _tiles(self, free: Sequence[Variable], tiled: Variable | None, body: Callable[[list[Steps]], None]) -> None:
        """Loops over symbols, one of them several at once; the body is told their steps."""

        def go(x: int, tile: list[Steps]) -> None:
            if x == len(free):
                body(tile)
                return
            name, size, step = f"sym.{free[x].name}", self.layout.size(free[x].size), self.step(free[x])
            whole: Expression | int = 0
            if free[x] == tiled:
                whole = self.code.let(size // (TILE * step) * (TILE * step))
                with self.code.loop(name, 0, whole, TILE * step):
                    go(x + 1, [{name: y * step} for y in range(TILE)])
            with self.code.loop(name, whole, size, step):
                go(x + 1, tile)

        go(0, [{}])

    # ------------------------------------------------------------------ sums

    def suited(self, *factors: Factor, out: Grid | None = None) -> Sums:
        """The sums that form such products: these, or those of vectors of a symbol."""
        return self

    def contract(
        self,
        out: Grid,
        factors: Sequence[Factor],
        loops: Sequence[Loop] = (),
        *,
        add: bool = True,
        known: Sequence[Variable] = (),
        weight: Grid | None = None,
    ) -> None:
        """``out (+)= sum(factors)``, over positions and over the symbols that stand in factors alone.

        :param add: whether cells keep what they have.
        :param known: symbols that are at hand.
        :param weight: of a result that is no cells, but posteriors where they are wanted: what sums are multiplied by.
        """
        sums = self if known else self.suited(*factors, out=out)
        if sums is not self:
            sums.contract(out, factors, loops, add=add, weight=weight)
            return
        free = [x for x in out.variables if x not in known]
        summed = [x for x in variables_of(factors) if x not in (*free, *known)]
        tiled = None if out.rows or known else self.tiled([x for x in free if x in variables_of(factors)])

        def body(tile: list[Steps]) -> None:
            numbers = self.numbers
            names = [f"sum.{x}" for x in range(len(tile))]
            if loops or summed:
                for name in names:
                    numbers.set(name, numbers.zero)
                with self.loops(loops, summed):
                    for name, term in zip(names, self.products(tile, factors, names), strict=True):
                        numbers.set(name, term)
            else:
                for name, term in zip(names, self.products(tile, factors), strict=True):
                    numbers.set(name, term)
            for name, steps in zip(names, tile, strict=True):
                if weight is not None:
                    here = self.numbers.let(self.value(weight, steps))
                    self.add_posterior(out, steps, self.numbers.posterior(here, self.numbers.get(name)))
                    continue
                numbers, total = self.closed(out, self.numbers.get(name))
                cell = out.index(steps)
                numbers.put(cell, numbers.plus(numbers.load(cell), total) if add else total)

        self._tiles(free, tiled, body)

    def add_posterior(self, out: Grid, steps: Mapping[str, int], posterior: Expression) -> None:
        """Add a number to those that are wanted, of one sentence."""
        assert out.numbers is not None
        self.code.add(out.numbers, out.index(steps), lane(posterior, 0))

    def add_up(self, name: str, factors: Sequence[Factor], loops: Sequence[Loop] = ()) -> None:
        """Add the products for all positions and symbols to a variable."""
        sums, numbers = self.suited(*factors), self.numbers
        if sums is not self:
            sums.numbers.set(name, sums.numbers.zero)
        with sums.loops(loops, variables_of(factors)):
            (term,) = sums.products([{}], factors, [name])
            sums.numbers.set(name, term)
        if sums is not self:
            numbers.set(name, numbers.get(name) + fill(total_of(sums.numbers.get(name))))

    def products(self, tile: Sequence[Steps], factors: Sequence[Factor], totals: Sequence[str] = ()) -> list[Number]:
        """The product of factors for every place of a tile, added to the variables ``totals`` if there are any.

        What all places share is multiplied first. But an adjoint that meets several items comes last: times them it is
        in range, if nothing else is zero; else only the product of all others times it is.
        """
        tiled = {name for steps in tile for name in steps}

        def varies(f: Factor) -> int:  # by its symbols; columns have one order, together or not
            return sum(f"sym.{x.name}" in tiled for x in f.variables) if isinstance(f, Grid) else 0

        numbers, large, known = self.numbers, meets_items(factors), Known()
        ordered = sorted(factors, key=lambda f: (large and f.adjoint, varies(f)))
        products: list[Number] = []
        for x, steps in enumerate(tile):
            *first, last = [self.loaded(f, steps, known) for f in ordered] or [numbers.one]
            product = functools.reduce(numbers.times, first) if first else None
            if not totals:
                products.append(last if product is None else numbers.times(product, last))
                continue
            total = numbers.get(totals[x])
            plus = numbers.plus(total, last) if product is None else numbers.add_product(total, product, last)
            products.append(plus)
        return products

    def clear(self, grid: Grid) -> None:
        """Zero for all symbols of a table."""
        sums = self.suited(grid)
        with sums.loops((), grid.variables):
            sums.numbers.put(grid.index({}), sums.numbers.zero)

    def multiply_all(self, weight: Grid, count: Grid) -> None:
        """Sums that lack their weight become posteriors, for all symbols of a table."""
        sums = self.suited(weight, count)
        numbers = sums.numbers
        with sums.loops((), count.variables):
            weight_here, place = numbers.let(sums.value(weight, {})), self.code.let(count.index({}))
            numbers.put_posterior(place, weight_here, numbers.load(place))

    # ------------------------------------------------------------------ ranges

    def open_range(self) -> None:
        """No item has been looked at."""
        self.extremes.begin(self.code)

    def look_at(self, grid: Grid) -> None:
        """Let all cells of a table count for the least item, if they are not zero, and for the greatest one."""
        sums = self.suited(grid)
        with sums.loops((), grid.variables):
            self.extremes.include(self.code, sums.numbers.value(sums.value(grid, {})))

    def bound(self, grid: Grid, known: Sequence[Variable] = ()) -> None:
        """Take all adjoints of a table down to a number that they may be.

        :param known: symbols that are at hand.
        """
        sums = self if known else self.suited(grid)
        with sums.loops((), [x for x in grid.variables if x not in known]):
            index = self.code.let(grid.index({}))
            sums.numbers.put(index, sums.numbers.bounded(sums.numbers.load(index)))
