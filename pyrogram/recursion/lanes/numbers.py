# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Numbers of any size: plain ones, and m * 2**e where plain ones will not do.

The cells of a chart are plain numbers, and sums of products of cells are formed of plain numbers. So it stays as long
as all of a block are within a range in which no product is lost, which is so for usual sentences: then nothing else is
read or written. When the first number is outside, the block goes on with two more numbers for each cell, m and e:

* an *item* is m * 2**e, and has a plain number beside it, zero if it is below the range and infinite above;
* a *sum* is formed of plain numbers first. All that it may have lost is far less than its rounding error, if it is not
  small itself. If it is small, or large, it is formed again of m and e, aligned by the greatest of its terms;
* the *adjoint* of an item is in two parts: of sums of plain numbers, and of others, times 2**e, as a posterior is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ..machine.expressions import (
    Array,
    Expression,
    Name,
    any_lane,
    equal,
    exponent_of,
    fill,
    greatest,
    least,
    negated,
    power_of_two,
    select,
)
from ..machine.statements import Code

MANTISSAS, EXPONENTS = Array("mantissas", "lanes"), Array("exponents", "lanes")  # numbered as the memory of lanes
MARKED = Name("marked", "int")  # whether a block has numbers with exponents
BITS = {"float64": 1000.0, "float32": 120.0}


@dataclass(frozen=True)
class Range:
    """Powers of two within which numbers are plain.

    Where numbers have exponents, plain ones are between 2**-bits and :attr:`most`. Of a product of ``factors``, at most
    one of which is lost, the others are at most ``2**(bits / 4)`` together: a sum of at least ``2**-(bits / 2)`` has
    lost ``2**-(bits / 4)`` of itself.

    :param bits: numbers from 2**-bits to 2**bits are exact.
    :param factors: the most factors of a term of a sum.
    """

    bits: float
    factors: int

    @property
    def of_items(self) -> tuple[float, float]:
        """Products of items in this range are exact."""
        most = self.bits // self.factors
        return 2.0**-most, 2.0**most

    @property
    def most(self) -> float:
        """The exponent up to which numbers that have exponents are plain, too."""
        return self.bits // 4 // max(1, self.factors - 1)

    @property
    def lowest(self) -> float:
        """The exponent of zero."""
        return -1e305 if self.bits > BITS["float32"] else -1e37

    @property
    def of_sums(self) -> tuple[float, float]:
        """Sums in this range have lost nothing that matters."""
        return 2.0 ** -(self.bits // 2), 2.0 ** (self.bits // 2)

    def of_weights(self, outer: int) -> tuple[float, float]:
        """Sums times so many of these are exact."""
        most = min(self.most, self.bits // 2 // max(1, outer))
        return 2.0**-most, 2.0**most


def is_within(x: Expression, limits: tuple[float, float], *, zero: bool) -> Expression:
    """The lanes in which a number is within a range; NaN is not.

    :param zero: whether zero is.
    """
    low, high = map(fill, limits)
    found = (x >= low) & (x <= high)
    return found | equal(x, fill(0.0)) if zero else found


def is_beyond(x: Expression, limits: tuple[float, float]) -> Expression:
    """The lanes in which a number is outside a range; zero and NaN are not."""
    low, high = map(fill, limits)
    return ((x < low) & (x > fill(0.0))) | (x > high)


def any_of(mask: Expression) -> Expression:
    """Whether something holds in a lane."""
    return any_lane(select(mask, fill(1.0), fill(0.0)))


def all_of(mask: Expression) -> Expression:
    """Whether something holds in all lanes."""
    return negated(any_lane(select(mask, fill(0.0), fill(1.0))))


@dataclass(frozen=True)
class Pair:
    """m * 2**e, in lanes: 1 <= m < 2, but of products of pairs; zero has the lowest exponent."""

    m: Expression
    e: Expression


@dataclass
class Pairs:
    """Code with numbers m * 2**e."""

    code: Code
    range: Range

    def power(self, e: Expression) -> Expression:
        """2**e for e that are not far above zero; what is far below counts for nothing."""
        bits = fill(self.range.bits)
        return power_of_two(least(greatest(e, fill(0.0) - bits), bits))

    def of(self, x: Expression, e: Expression | None = None) -> Pair:
        """A plain number, times 2**e."""
        let = self.code.let
        x = let(x)
        own = let(exponent_of(x))
        exponent = own if e is None else own + e
        return Pair(
            let(x * self.power(fill(0.0) - own)), let(select(equal(x, fill(0.0)), fill(self.range.lowest), exponent))
        )

    def product(self, factors: Sequence[Pair]) -> Pair:
        """The product."""
        if not factors:
            return Pair(fill(1.0), fill(0.0))
        m, e = factors[0].m, factors[0].e
        for f in factors[1:]:
            m, e = self.code.let(m * f.m), self.code.let(e + f.e)
        return Pair(m, e)

    def total(self, terms: Callable[[Callable[[Pair], None]], None], name: str) -> Pair:
        """A sum: the greatest exponent of its terms first, then all of them with it.

        :param terms: writes code that goes through them.
        :param name: of variables.
        """
        code, (top, total) = self.code, (Name(f"{name}.{x}", "lanes") for x in ("top", "total"))

        def raise_top(t: Pair) -> None:
            code.set(top.name, greatest(top, t.e))

        def add(t: Pair) -> None:
            code.set(total.name, total + t.m * self.power(t.e - top))

        code.set(top.name, fill(self.range.lowest))
        terms(raise_top)
        code.set(total.name, fill(0.0))
        terms(add)
        return self.of(total, top)

    def plain(self, x: Pair) -> Expression:
        """As a plain number: zero below the range, infinite above it."""
        low, high = fill(-self.range.bits), fill(self.range.most)
        above = select(x.e > high, x.m * fill(math.inf), x.m * self.power(x.e))
        return select(x.e < low, x.m * fill(0.0), above)

    def at(self, cell: Expression) -> Pair:
        """A cell that has been written with an exponent."""
        cell = self.code.let(cell)
        return Pair(self.code.let(MANTISSAS[cell]), self.code.let(EXPONENTS[cell]))

    def store(self, memory: Array, cells: Iterable[Expression], x: Pair) -> None:
        """Write a number into cells, with its exponent and plain."""
        code = self.code
        number = code.let(self.plain(x))
        for cell in cells:
            cell = code.let(cell)
            code.put(memory, cell, number)
            code.put(MANTISSAS, cell, x.m)
            code.put(EXPONENTS, cell, x.e)
