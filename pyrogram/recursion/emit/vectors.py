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

from ..code.expressions import VECTOR, Array, Expression, fill, total_of, vector_of
from ..rules.language import Size, Variable
from .grids import Factor, Grid, variables_of
from .limits import Extremes
from .numbers import Number, Numbers
from .sums import Sums
from .weights import VECTORS


@dataclass
class SumsOfVectors(Sums):
    """Sums of products in which a symbol is in vectors.

    :param symbol: is the last index of whatever it is an index of.
    :param plain: sums of numbers.
    """

    symbol: Variable
    plain: Sums

    def step(self, v: Variable) -> int:
        return VECTOR if v == self.symbol else 1

    def value(self, f: Factor, steps: Mapping[str, int]) -> Number:
        if isinstance(f, Grid) and self.symbol in f.variables:
            array = f.numbers or VECTORS  # numbers that all sentences share lie beside each other, too
            return Array(array.name, "vector")[f.index(steps)]
        return vector_of(self.plain.value(f, steps))

    def tiled(self, free: Sequence[Variable]) -> Variable | None:
        return super().tiled([x for x in free if x != self.symbol] or free)

    def add_posterior(self, out: Grid, steps: Mapping[str, int], posterior: Expression) -> None:
        assert out.numbers is not None
        array, index = Array(out.numbers.name, "vector"), self.code.let(out.index(steps))
        self.code.put(array, index, array[index] + posterior)

    def closed(self, out: Grid, total: Expression) -> tuple[Numbers, Expression]:
        if self.symbol in out.variables:
            return self.numbers, total
        return self.plain.numbers, fill(total_of(total))


class VectorSums(Sums):
    """Code of sums of products, of real numbers; cells are numbers."""

    extremes: ClassVar[Extremes] = Extremes("item", "vector")

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
        return SumsOfVectors(self.code, self.layout, Numbers(self.code, "vector"), symbol, self)


def _is_last(v: Variable, grids: Sequence[Grid]) -> bool:
    """Whether a symbol, of which there may be many, is the last index of whatever it is an index of."""
    mine = [g for g in grids if v in g.variables]
    return _is_wide(v.size) and all(g.symbols[-1] == v and g.symbols.count(v) == 1 for g in mine)


def _is_wide(size: Size) -> bool:
    """Whether symbols are in vectors: not, if they are known to be few."""
    return isinstance(size, str) or size >= VECTOR
