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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ..code.expressions import VECTOR, Array, Expression, Name, any_lane, fill, select, total_of, vector_of
from ..rules.cells import Loop
from ..rules.language import Size, Variable
from .grids import Factor, Grid, variables_of
from .limits import ITEM, Extremes
from .numbers import Numbers
from .sums import Sums

VECTORS = Array("memory", "vector")
_ITEM = Extremes("item.vector", "vector")


class VectorNumbers(Numbers):
    """Real numbers, eight neighbours at once."""

    @property
    def zero(self) -> Expression:
        return vector_of(0.0)

    @property
    def one(self) -> Expression:
        return vector_of(1.0)

    def load(self, cell: Expression) -> Expression:
        return VECTORS[cell]

    def put(self, cell: Expression, x: Expression) -> None:
        self.code.put(VECTORS, cell, x)

    def set(self, name: str, x: Expression) -> Name:
        return self.code.set(f"{name}.vector", x)

    def get(self, name: str) -> Name:
        return Name(f"{name}.vector", "vector")

    def spread(self, x: Name) -> Expression:
        return vector_of(x)


@dataclass
class SumsOfVectors(Sums):
    """Sums of products in which a symbol is in vectors.

    :param symbol: is the last index of whatever it is an index of.
    :param plain: sums of numbers.
    """

    symbol: Variable
    plain: Sums
    extremes: ClassVar[Extremes] = _ITEM

    def step(self, v: Variable) -> int:
        return VECTOR if v == self.symbol else 1

    def value(self, f: Factor, steps: Mapping[str, int]) -> Expression:
        if isinstance(f, Grid) and self.symbol in f.variables:
            return VECTORS[f.index(steps)]
        return vector_of(self.plain.value(f, steps))

    def tiled(self, free: Sequence[Variable]) -> Variable | None:
        return super().tiled([x for x in free if x != self.symbol] or free)

    def closed(self, out: Grid, total: Expression) -> tuple[Sums, Expression]:
        if self.symbol in out.variables:
            return self, total
        return self.plain, fill(total_of(total))

    def add_up(self, name: str, factors: Sequence[Factor], loops: Sequence[Loop] = ()) -> None:
        self.numbers.set(name, self.numbers.zero)
        super().add_up(name, factors, loops)
        numbers = self.plain.numbers
        numbers.set(name, numbers.get(name) + fill(total_of(self.numbers.get(name))))


class VectorSums(Sums):
    """Code of sums of products, of real numbers; cells are numbers."""

    def extent(self, size: Size, last: bool) -> Expression:
        if not last or not _is_wide(size):
            return super().extent(size, last)
        return (self.layout.size(size) + (VECTOR - 1)) // VECTOR * VECTOR

    def suited(self, *factors: Factor, out: Grid | None = None) -> Sums:
        """Those of vectors, if a symbol of factors can be in them, rather one of the result's."""
        grids = [f for f in (out, *factors) if isinstance(f, Grid)]
        symbols = [] if any(g.rows for g in grids) else [v for v in variables_of(factors) if _is_last(v, grids)]
        if not symbols:
            return self
        symbol = next((v for v in symbols if out is not None and v in out.variables), symbols[0])
        return SumsOfVectors(self.code, self.layout, VectorNumbers(self.code), symbol, self)

    def add_up(self, name: str, factors: Sequence[Factor], loops: Sequence[Loop] = ()) -> None:
        sums = self.suited(*factors)
        if sums is self:
            super().add_up(name, factors, loops)
        else:
            sums.add_up(name, factors, loops)

    def clear(self, grid: Grid) -> None:
        Sums.clear(self.suited(grid), grid)

    def multiply_all(self, weight: Grid, count: Grid) -> None:
        Sums.multiply_all(self.suited(weight, count), weight, count)

    # ------------------------------------------------------------------ ranges

    def open_range(self) -> None:
        super().open_range()
        _ITEM.begin(self.code)

    def look_at(self, grid: Grid) -> None:
        Sums.look_at(self.suited(grid), grid)

    def is_any_outside(self, lanes: Expression) -> Expression:
        outside = (_ITEM.least < vector_of(ITEM.low)) | (_ITEM.greatest > vector_of(ITEM.high))
        return super().is_any_outside(lanes) | any_lane(select(outside, vector_of(1.0), vector_of(0.0)))

    def bound(self, grid: Grid, known: Sequence[Variable] = ()) -> None:
        Sums.bound(self if known else self.suited(grid), grid, known)


def _is_last(v: Variable, grids: Sequence[Grid]) -> bool:
    """Whether a symbol, of which there may be many, is the last index of whatever it is an index of."""
    mine = [g for g in grids if v in g.variables]
    return _is_wide(v.size) and all(g.symbols[-1] == v and g.symbols.count(v) == 1 for g in mine)


def _is_wide(size: Size) -> bool:
    """Whether symbols are in vectors: not, if they are known to be few."""
    return isinstance(size, str) or size >= VECTOR
