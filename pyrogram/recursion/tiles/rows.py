# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sums of products for one sentence: eight symbols at a time, where eight sentences would fill the lanes.

Before, for the states of a chain:

    F[j, x] = sum(all y: F[j - 1, y] * move[y, x])
    A[j - 1, y] = sum(all x: move[y, x] * A[j, x])

After, with rows of eight neighbours in registers:

    for x in 0, 8, ...:  for y:  s += F[j - 1, y] * move[y, x : x + 8];  F[j, x : x + 8] = s            along x
    for y:  for x in 0, 8, ...:  s += move[y, x : x + 8] * A[j, x : x + 8];  A[j - 1, y] = total of s    across x

What is left of a number of symbols that eight do not divide is done as in :mod:`.grids`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from ..lanes.tables import MEMORY
from ..machine.expressions import ROW, Array, Expression, Name, fill, row_of, select, total_of
from ..rules.cells import Loop
from ..rules.language import Variable
from .grids import TILE, Factor, Grid, Sums, variables_of

ROWS = Array("memory", "row")
Steps = dict[str, int]


class RowSums(Sums):
    """Code of sums of products, of real numbers; cells are numbers."""

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
        grids = [f for f in (out, *factors, *outer, kept) if isinstance(f, Grid)]
        v = None if known else _in_rows(out, variables_of(factors), grids)
        if v is None:
            super().contract(out, factors, loops, outer=outer, add=add, known=known, kept=kept)
            return
        summed = [x for x in variables_of(factors) if x not in (*out.variables, v)]
        others = [x for x in out.variables if x != v]

        def put(place: int, steps: Steps, found: Expression, in_rows: bool) -> None:
            array = ROWS if in_rows else MEMORY
            if kept is not None:
                self.code.put(array, kept.index(steps), found)
            for f in outer:
                found = found * self._value(f, steps, v if in_rows else None)
            index = self.code.let(out.index(steps))
            self.code.put(array, index, found + array[index] if add else found)

        if v not in out.variables:
            self._across(v, others, factors, (loops, summed), put)
            return

        def along(tile: list[Steps]) -> None:
            names = [f"row.{x}" for x in range(len(tile))]
            for name in names:
                self.code.set(name, row_of(0.0))
            with self.loops(loops, summed):
                self._add_rows(v, tile, factors, names)
            for x, (name, steps) in enumerate(zip(names, tile, strict=True)):
                put(x, steps, Name(name, "row"), in_rows=True)

        whole = self._whole(v)
        if others:
            self._nest(others, lambda tile: self._rows_of(v, whole, lambda: along(tile)))
        else:
            many = self.layout.size(v.size) // (TILE * ROW) * (TILE * ROW)
            with self.code.loop(f"sym.{v.name}", 0, many, TILE * ROW):
                along([{v.name: x * ROW} for x in range(TILE)])
            with self.code.loop(f"sym.{v.name}", many, whole, ROW):
                along([{}])
        self.starts[v.name] = whole
        super().contract(out, factors, loops, outer=outer, add=add, kept=kept)
        del self.starts[v.name]

    def _across(
        self,
        v: Variable,
        others: Sequence[Variable],
        factors: Sequence[Factor],
        inner: tuple[Sequence[Loop], Sequence[Variable]],
        put: Callable[[int, Steps, Expression, bool], None],
    ) -> None:
        """Sums over the symbol that is in rows."""
        code, whole = self.code, self._whole(v)

        def across(tile: list[Steps]) -> None:
            rows, rests = ([f"{kind}.{x}" for x in range(len(tile))] for kind in ("row", "rest"))
            for row, rest in zip(rows, rests, strict=True):
                code.set(row, row_of(0.0))
                code.set(rest, fill(0.0))
            with self.loops(*inner):
                self._rows_of(v, whole, lambda: self._add_rows(v, tile, factors, rows))
                with code.loop(f"sym.{v.name}", whole, self.layout.size(v.size)):
                    for name, term in zip(rests, self.products(tile, factors, rests), strict=True):
                        code.set(name, term)
            for x, steps in enumerate(tile):
                put(x, steps, Name(rests[x], "lanes") + fill(total_of(Name(rows[x], "row"))), False)

        self._nest(others, across)

    def add_up(self, factors: Sequence[Factor], name: str) -> None:
        grids = [f for f in factors if isinstance(f, Grid)]
        v = _in_rows(None, variables_of(factors), grids)
        if v is None:
            super().add_up(factors, name)
            return

        def put(place: int, steps: Steps, found: Expression, in_rows: bool) -> None:
            self.code.set(name, Name(name, "lanes") + found)

        others = [x for x in variables_of(factors) if x != v]
        self._across(v, [], factors, ((), others), put)

    def push(
        self,
        given: Grid,
        factors: Sequence[Factor],
        targets: Sequence[tuple[Grid, Sequence[int]]],
        loops: Sequence[Loop],
    ) -> None:
        products = [(target, [given, *(factors[f] for f in chosen)]) for target, chosen in targets]
        for target, parts in products:
            grids = [f for f in (target, *parts) if isinstance(f, Grid)]
            if _in_rows(target, variables_of(parts), grids) is None:
                super().push(given, factors, targets, loops)
                return
        with self.loops(loops):
            for target, parts in products:
                self.contract(target, parts)

    def multiply_all(self, weight: Grid, count: Grid) -> None:
        v = _in_rows(None, count.variables, [weight, count])
        if v is None:
            super().multiply_all(weight, count)
            return
        code, whole, met = self.code, self._whole(v), Name("row.0", "row")
        code.set(met.name, row_of(0.0))
        with self.loops((), [x for x in count.variables if x != v]):
            with code.loop(f"sym.{v.name}", 0, whole, ROW):
                index = code.let(count.index({}))
                x = code.let(ROWS[index])
                found = code.let(select(x > row_of(0.0), self._value(weight, {}, v) * x, row_of(0.0)))
                code.put(ROWS, index, found)
                code.set(met.name, met + (x + found))
            with code.loop(f"sym.{v.name}", whole, self.layout.size(v.size)):
                self.multiply(code.let(weight.value({})), count.index({}))
        self.meet([fill(total_of(met))])

    def meet_all(self, grid: Grid) -> None:
        self.add_up([grid], "bound.sum")

    # ------------------------------------------------------------------ rows

    def _whole(self, v: Variable) -> Expression:
        """Symbols in whole rows."""
        return self.code.let(self.layout.size(v.size) // ROW * ROW)

    def _rows_of(self, v: Variable, whole: Expression, body: Callable[[], None]) -> None:
        with self.code.loop(f"sym.{v.name}", 0, whole, ROW):
            body()

    def _nest(self, others: Sequence[Variable], body: Callable[[list[Steps]], None]) -> None:
        """Loops over other symbols, the last one of them in tiles."""
        with ExitStack() as stack:
            for x in others[:-1]:
                stack.enter_context(self.code.loop(f"sym.{x.name}", 0, self.layout.size(x.size)))
            for x in others[-1:]:
                stack.enter_context(self.code.loop(f"sym.{x.name}", 0, self.padded(x.size), TILE))
            names = [x.name for x in others[-1:]]
            body([dict(zip(names, s, strict=True)) for s in itertools.product(range(TILE), repeat=len(names))])

    def _value(self, f: Factor, steps: Steps, v: Variable | None) -> Expression:
        """A factor: a row of it, or a number."""
        if isinstance(f, Name):
            return f if v is None else row_of(f)
        if v is None:
            return f.value(steps)
        return ROWS[f.index(steps)] if v in f.variables else row_of(f.value(steps))

    def _add_rows(self, v: Variable, tile: Sequence[Steps], factors: Sequence[Factor], names: Sequence[str]) -> None:
        """Add the products of factors to rows: what has no row is multiplied first."""
        numbers = [f for f in factors if isinstance(f, Name) or v not in f.variables]
        rows = [f for f in factors if f not in numbers]
        firsts = self.products(tile, numbers) if numbers else []
        known: dict[tuple[int, tuple[tuple[str, int], ...]], Name] = {}
        for x, (name, steps) in enumerate(zip(names, tile, strict=True)):
            found: list[Expression] = [row_of(self.code.let(firsts[x]))] if numbers else []
            for f in rows:
                assert isinstance(f, Grid)
                own = {y.name for y in f.variables}
                key = id(f), tuple((n, s) for n, s in steps.items() if n in own)
                if key not in known:
                    known[key] = self.code.let(ROWS[f.index(steps)])
                found.append(known[key])
            first = found[0]
            for one in found[1:-1]:
                first = first * one
            total = Name(name, "row")
            self.code.set(name, self.numbers.add_product(total, first, found[-1]) if len(found) > 1 else total + first)


def _in_rows(out: Grid | None, variables: Sequence[Variable], grids: Sequence[Grid]) -> Variable | None:
    """A symbol that is the last index of whatever it is an index of; rather one of the result's."""
    lists = set().union(*(g.rows for g in grids))

    def fits(v: Variable) -> bool:
        return all(g.symbols[-1] == v and g.symbols.count(v) == 1 for g in grids if v in g.variables)

    if lists:
        return None
    found = [v for v in variables if fits(v)]
    return next((v for v in found if out is not None and v in out.variables), next(iter(found), None))
