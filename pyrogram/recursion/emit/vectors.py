# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sums of products for one sentence: eight symbols at a time, where eight sentences would fill the lanes.

Before, for the states of a chain:

    F[j, x] = sum(all y: F[j - 1, y] * move[y, x])
    A[j - 1, y] = sum(all x: move[y, x] * A[j, x])

After, with vectors of eight neighbours:

    for x in 0, 8, ...:  for y:  s += F[j - 1, y] * move[y, x : x + 8];  F[j, x : x + 8] = s            along x
    for y:  for x in 0, 8, ...:  s += move[y, x : x + 8] * A[j, x : x + 8];  A[j - 1, y] = total of s    across x

The last symbols of cells are rounded up to whole vectors. Beyond the last one weights are zero, and so is all that is
computed of them; what a symbol is in no factor of is not computed there. So it adds nothing to a sum across vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from ..code.expressions import (
    VECTOR,
    Array,
    Expression,
    Name,
    any_lane,
    equal,
    fill,
    least,
    select,
    total_of,
    vector_of,
)
from ..rules.cells import Loop
from ..rules.language import Size, Variable
from .grids import TILE, Factor, Grid, Held, Known, Steps, Sums, Target, meets_items, variables_of
from .limits import ITEM, Extremes
from .numbers import MOST_ADJOINT
from .weights import MEMORY

VECTORS = Array("memory", "vector")
_ITEM = Extremes("item.vector", "vector")


class VectorSums(Sums):
    """Code of sums of products, of real numbers; cells are numbers."""

    def padded(self, size: Size, last: bool = False) -> Expression:
        if not last or not _is_wide(size):
            return super().padded(size)
        return (self.layout.size(size) + (VECTOR - 1)) // VECTOR * VECTOR

    def in_vectors(
        self,
        out: Grid,
        factors: Sequence[Factor],
        loops: Sequence[Loop],
        outer: Sequence[Factor],
        add: bool,
        kept: Grid | None,
    ) -> bool:
        v = _last_symbol(out, factors, *outer, *([] if kept is None else [kept]))
        if v is None:
            return False
        summed = [x for x in variables_of(factors) if x not in (*out.variables, v)]
        others = [x for x in out.variables if x != v]

        def put(steps: Steps, found: Expression) -> None:
            is_vector = found.type == "vector"
            array = VECTORS if is_vector else MEMORY
            if kept is not None:
                self.code.put(array, kept.index(steps), found)
            for f in outer:
                found = found * self._value(f, steps, v if is_vector else None)
            index = self.code.let(out.index(steps))
            self.code.put(array, index, found + array[index] if add else found)

        if v not in out.variables:
            self._across(v, others, factors, (loops, summed), put)
            return True

        def along(tile: list[Steps]) -> None:
            names = [f"vector.{x}" for x in range(len(tile))]
            for name in names:
                self.code.set(name, vector_of(0.0))
            with self.loops(loops, summed):
                self._add_vectors(v, tile, factors, names)
            for name, steps in zip(names, tile, strict=True):
                put(steps, Name(name, "vector"))

        whole, first = self.code.let(self.padded(v.size, last=True)), f"sym.{v.name}"
        if others:
            with self._nest(others) as tile, self.code.loop(first, 0, whole, VECTOR):
                along(tile)
        else:
            many = self.code.let(whole // (TILE * VECTOR) * (TILE * VECTOR))
            with self.code.loop(first, 0, many, TILE * VECTOR):
                along([{first: x * VECTOR} for x in range(TILE)])
            with self.code.loop(first, many, whole, VECTOR):
                along([{}])
        return True

    def _across(
        self,
        v: Variable,
        others: Sequence[Variable],
        factors: Sequence[Factor],
        inner: tuple[Sequence[Loop], Sequence[Variable]],
        put: Callable[[Steps, Expression], None],
    ) -> None:
        """Sums over the symbol that is in vectors."""
        with self._nest(others) as tile:
            names = [f"vector.{x}" for x in range(len(tile))]
            for name in names:
                self.code.set(name, vector_of(0.0))
            with self.loops(*inner), self._vectors(v):
                self._add_vectors(v, tile, factors, names)
            for name, steps in zip(names, tile, strict=True):
                put(steps, fill(total_of(Name(name, "vector"))))

    def add_up(self, factors: Sequence[Factor], name: str) -> None:
        v = _last_symbol(None, factors)
        if v is None:
            super().add_up(factors, name)
            return
        others = [x for x in variables_of(factors) if x != v]

        def put(steps: Steps, found: Expression) -> None:
            self.code.set(name, Name(name, "lanes") + found)

        self._across(v, [], factors, ((), others), put)

    def push(
        self,
        given: Grid,
        factors: Sequence[Factor],
        targets: Sequence[Target],
        loops: Sequence[Loop],
    ) -> None:
        products = [(target.grid, [given, *(factors[f] for f in target.factors)]) for target in targets]
        if any(_last_symbol(target, parts) is None for target, parts in products):
            super().push(given, factors, targets, loops)
            return
        with self.loops(loops):
            for target, parts in products:
                self.contract(target, parts)

    def clear(self, grid: Grid) -> None:
        v = _last_symbol(None, [grid])
        if v is None:
            super().clear(grid)
            return
        with self.loops((), [x for x in grid.variables if x != v]), self._vectors(v):
            self.code.put(VECTORS, grid.index({}), vector_of(0.0))

    def multiply_all(self, weight: Grid, count: Grid) -> None:
        v, zero = _last_symbol(None, [weight, count]), vector_of(0.0)
        if v is None:
            super().multiply_all(weight, count)
            return
        with self.loops((), [x for x in count.variables if x != v]), self._vectors(v):
            index, w = self.code.let(count.index({})), self.code.let(self._value(weight, {}, v))
            self.code.put(VECTORS, index, select(equal(w, zero), zero, w * VECTORS[index]))

    # ------------------------------------------------------------------ ranges

    def open_range(self) -> None:
        super().open_range()
        _ITEM.begin(self.code)

    def look_at(self, grid: Grid) -> None:
        v = _last_symbol(None, [grid])
        if v is None:
            super().look_at(grid)
            return
        with self.loops((), [x for x in grid.variables if x != v]), self._vectors(v):
            _ITEM.include(self.code, VECTORS[grid.index({})])

    def is_any_outside(self, lanes: Expression) -> Expression:
        outside = (_ITEM.least < vector_of(ITEM.low)) | (_ITEM.greatest > vector_of(ITEM.high))
        return super().is_any_outside(lanes) | any_lane(select(outside, vector_of(1.0), vector_of(0.0)))

    def bound(self, grid: Grid, known: Sequence[Variable] = ()) -> None:
        v = _last_symbol(None, [grid])
        if v is None:
            super().bound(grid, known)
            return
        with self.loops((), [x for x in grid.variables if x != v]), self._vectors(v):
            index = self.code.let(grid.index({}))
            self.code.put(VECTORS, index, least(vector_of(MOST_ADJOINT), VECTORS[index]))

    # ------------------------------------------------------------------ vectors

    @contextmanager
    def _vectors(self, v: Variable) -> Iterator[None]:
        """A loop over the vectors of a symbol."""
        with self.code.loop(f"sym.{v.name}", 0, self.padded(v.size, last=True), VECTOR):
            yield

    @contextmanager
    def _nest(self, others: Sequence[Variable]) -> Iterator[list[Steps]]:
        """Loops over other symbols, the last one of them in tiles; yields the steps of what is done at once."""
        with ExitStack() as stack:
            for x in others[:-1]:
                stack.enter_context(self.code.loop(f"sym.{x.name}", 0, self.layout.size(x.size)))
            for x in others[-1:]:
                stack.enter_context(self.code.loop(f"sym.{x.name}", 0, self.padded(x.size), TILE))
            yield [{f"sym.{x.name}": step for x in others[-1:]} for step in range(TILE if others else 1)]

    def _value(self, f: Factor, steps: Steps, v: Variable | None) -> Expression:
        """A factor: a vector of it, or a number."""
        if isinstance(f, Held):
            found = self.numbers.get(f.name)
            return found if v is None else vector_of(found)
        if v is None:
            return f.value(steps)
        return VECTORS[f.index(steps)] if v in f.variables else vector_of(f.value(steps))

    def _add_vectors(self, v: Variable, tile: Sequence[Steps], factors: Sequence[Factor], names: Sequence[str]) -> None:
        """Add the products of factors to vectors: what is a number is multiplied first."""
        adjoints = [f for f in factors if f.adjoint] if meets_items(factors) else []
        others = [f for f in factors if f not in adjoints]
        numbers = [f for f in others if isinstance(f, Held) or v not in f.variables]
        vectors = [f for f in others if f not in numbers] + adjoints
        firsts = self.products(tile, numbers) if numbers else []
        known: Known = {}
        for x, (name, steps) in enumerate(zip(names, tile, strict=True)):
            found: list[Expression] = [vector_of(self.code.let(firsts[x]))] if numbers else []
            for f in vectors:
                if isinstance(f, Held):
                    found.append(self._value(f, steps, v))
                    continue
                key = f.key(steps)
                if key not in known:
                    known[key] = self.code.let(self._value(f, steps, v))
                found.append(known[key])
            first = found[0]
            for one in found[1:-1]:
                first = first * one
            total = Name(name, "vector")
            self.code.set(name, self.numbers.add_product(total, first, found[-1]) if len(found) > 1 else total + first)


def _last_symbol(out: Grid | None, factors: Sequence[Factor], *others: Factor) -> Variable | None:
    """A symbol of factors that is the last index of whatever it is an index of; rather one of the result's."""
    grids = [f for f in (out, *factors, *others) if isinstance(f, Grid)]
    if any(g.rows for g in grids):
        return None

    def fits(v: Variable) -> bool:
        own = [g for g in grids if v in g.variables]
        return _is_wide(v.size) and all(g.symbols[-1] == v and g.symbols.count(v) == 1 for g in own)

    found = [v for v in variables_of(factors) if fits(v)]
    return next((v for v in found if out is not None and v in out.variables), next(iter(found), None))


def _is_wide(size: Size) -> bool:
    """Whether symbols are in vectors: not, if they are known to be few."""
    return isinstance(size, str) or size >= VECTOR
