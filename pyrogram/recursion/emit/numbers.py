# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Numbers of any size: plain ones, and m * 2**e where plain ones will not do.

All code of sums is written once, for either. A chart is filled with plain numbers first. They are right as long as no
product of the factors of a rule leaves the range of a float: then nothing is lost, whatever it is a part of. So the
least and the greatest item are kept (:mod:`.limits`); if they are too small or too large for the weights of the block,
its chart is filled with numbers m * 2**e, which have no range, and give the same bits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from ..code.expressions import (
    Array,
    Expression,
    Name,
    Type,
    any_lane,
    equal,
    exponent_of,
    fill,
    fma,
    greatest,
    least,
    power_of_two,
    select,
    spread,
)
from ..code.statements import Code
from .names import Z_EXPONENT, Z
from .weights import MEMORY, VECTORS

MANTISSAS, EXPONENTS = Array("mantissas", "lanes"), Array("exponents", "lanes")  # numbered as the memory of lanes
MARKED = Name("marked", "int")  # whether a block has numbers with exponents
MOST_ADJOINT = Name("greatest.adjoint", "lanes")  # what adjoints of items that are not zero are below
SHARE = Name("share", "lanes")  # what posteriors are multiplied by: zero of sentences whose log Z is no number
Number = Any  # an expression, or a Pair of them


@dataclass(frozen=True)
class Range:
    """Powers of two within which floats are exact.

    :param bits: from 2**-bits to 2**bits.
    """

    bits: float

    @staticmethod
    def of(dtype: str) -> Range:
        """Of ``float64`` or ``float32``."""
        return Range(1020.0 if dtype == "float64" else 124.0)

    @property
    def lowest(self) -> float:
        """The exponent of zero."""
        return -1e305 if self.bits > 500.0 else -1e37

    @property
    def of_weights(self) -> tuple[float, float]:
        """Within which weights are plain numbers."""
        return 2.0 ** -(self.bits // 2), 2.0 ** (self.bits // 2)


def any_of(mask: Expression) -> Expression:
    """Whether something holds in a lane, or in a place of a vector."""
    type: Type = "lanes" if mask.type == "mask" else "vector"
    return any_lane(select(mask, spread(1.0, type), spread(0.0, type)))


@dataclass(frozen=True)
class Pair:
    """m * 2**e, in lanes; zero has the lowest exponent."""

    m: Expression
    e: Expression


class Numbers:
    """Numbers in cells and in variables, and sums and products of them: plain ones here, others below.

    :param type: ``lanes``, or ``vector`` for eight neighbours at once.
    """

    def __init__(self, code: Code, type: Type = "lanes") -> None:
        self.code, self.type = code, type
        self.memory = MEMORY if type == "lanes" else VECTORS
        self.in_range = True  # whether the range of items is looked after
        self.zero: Number = spread(0.0, type)  # what a sum begins with
        self.one: Number = spread(1.0, type)  # the product of nothing

    def of(self, x: Expression) -> Number:
        """A plain number, in lanes."""
        return x

    def value(self, x: Number) -> Expression:
        """The number as a plain one, which it is within its range."""
        plain: Expression = x
        return plain

    def is_zero(self, x: Number) -> Expression:
        """The lanes in which it is zero."""
        return equal(x, spread(0.0, x.type))

    def load(self, cell: Expression) -> Number:
        """The number in a cell."""
        return self.memory[cell]

    def put(self, cell: Expression, x: Number) -> None:
        """Write a cell."""
        self.code.put(self.memory, cell, x)

    def put_posterior(self, cell: Expression, weight: Number, count: Number) -> None:
        """Write a weight times a sum that lacks it, times :data:`SHARE`, as a plain number; zero if one of them is."""
        count, share = self.code.let(count), self.code.let(spread(SHARE, self.type))
        nothing = self.is_zero(weight) | self.is_zero(count) | equal(share, spread(0.0, share.type))
        self.put(cell, select(nothing, spread(0.0, weight.type), weight * count * share))

    def posterior(self, weight: Number, count: Number) -> Expression:
        """The same number; a sum that is infinite lacks a weight of zero."""
        finite = select(count < spread(math.inf, self.type), count, spread(0.0, self.type))
        plain: Expression = weight * finite * spread(SHARE, self.type)
        return plain

    def let(self, x: Number) -> Number:
        """A number in a new variable."""
        return self.code.let(x)

    def set(self, name: str, x: Number) -> Number:
        """A number in a variable; of lanes and vectors, each has one of its own."""
        return self.code.set(name if self.type == "lanes" else f"{name}.{self.type}", x)

    def get(self, name: str) -> Number:
        """The number in a variable."""
        return Name(name if self.type == "lanes" else f"{name}.{self.type}", self.type)

    def times(self, a: Number, b: Number) -> Number:
        """A product."""
        return a * b

    def plus(self, a: Number, b: Number) -> Number:
        """A sum."""
        return a + b

    def add_product(self, total: Number, a: Number, b: Number) -> Number:
        """``total + a * b``, rounded once."""
        return fma(a, b, total)

    def bounded(self, adjoint: Number) -> Number:
        """An adjoint. Those of what is zero can be of any size: they matter to nobody, and must not become infinite."""
        return least(spread(MOST_ADJOINT, self.type), adjoint)  # in this order NaN is kept

    def select(self, test: Expression, a: Number, b: Number) -> Number:
        """a where the test holds, else b."""
        return select(test, a, b)

    def inverse(self, x: Number) -> Number:
        """1 / x; zero of zero."""
        return select(x > fill(0.0), fill(1.0) / x, fill(0.0))

    def take_weights(self, begin: Expression, end: Expression) -> None:
        """Make numbers of some cells of weights."""

    def put_z(self, x: Number) -> None:
        """Write Z into the cells ``z`` and ``z.exponent``."""
        self.code.put(MEMORY, Z, x)
        self.code.put(MEMORY, Z_EXPONENT, fill(0.0))

    def z(self) -> Number:
        """Z."""
        return MEMORY[Z]


class LogNumbers(Numbers):
    """Logarithms, of which the greatest is the sum."""

    def __init__(self, code: Code) -> None:
        super().__init__(code)
        self.in_range, self.zero, self.one = False, fill(-math.inf), fill(0.0)

    def times(self, a: Expression, b: Expression) -> Expression:
        return a + b

    def plus(self, a: Expression, b: Expression) -> Expression:
        return greatest(a, b)

    def add_product(self, total: Expression, a: Expression, b: Expression) -> Expression:
        return greatest(total, a + b)


class PairNumbers(Numbers):
    """Cells that are m * 2**e, in :data:`.MANTISSAS` and :data:`.EXPONENTS`.

    A sum has the exponent of its greatest term so far. Powers of two are exact, and terms come in the order in which
    plain numbers have them, so that the mantissa is rounded as a plain number would be.
    """

    def __init__(self, code: Code, range: Range) -> None:
        super().__init__(code)
        self.range, self.in_range = range, False
        self.zero, self.one = Pair(fill(0.0), fill(range.lowest)), Pair(fill(1.0), fill(0.0))

    def of(self, x: Expression) -> Pair:
        return self.normal(Pair(x, fill(0.0)))

    def scaled(self, m: Expression, e: Expression) -> Expression:
        """m * 2**e, for e that is not above the range of exponents: below it, it is next to zero."""
        return m * power_of_two(greatest(e, fill(0.0 - self.range.bits)))

    def normal(self, x: Pair) -> Pair:
        """The same number with 1 <= m < 2."""
        m = self.code.let(x.m)
        exponent = self.code.let(exponent_of(m))
        e = select(equal(m, fill(0.0)), fill(self.range.lowest), exponent + x.e)
        return self.let(Pair(self.scaled(m, fill(0.0) - exponent), e))

    def is_zero(self, x: Pair) -> Expression:
        return equal(x.m, fill(0.0))

    def value(self, x: Pair) -> Expression:
        """As a plain number: zero below the range, infinite above it."""
        x, bits = self.normal(x), fill(self.range.bits)
        above = select(x.e > bits, x.m * fill(math.inf), self.scaled(x.m, x.e))
        return select(x.e < fill(0.0) - bits, x.m * fill(0.0), above)

    def load(self, cell: Expression) -> Pair:
        cell = self.code.let(cell)
        return self.let(Pair(MANTISSAS[cell], EXPONENTS[cell]))

    def put(self, cell: Expression, x: Pair) -> None:
        cell, x = self.code.let(cell), self.normal(x)
        self.code.put(MANTISSAS, cell, x.m)
        self.code.put(EXPONENTS, cell, x.e)

    def put_posterior(self, cell: Expression, weight: Pair, count: Pair) -> None:
        self.code.put(MEMORY, cell, self.posterior(weight, count))

    def posterior(self, weight: Pair, count: Pair) -> Expression:
        posterior = self.value(self.times(weight, count)) * SHARE
        nothing = self.is_zero(count) | equal(SHARE, fill(0.0))
        return select(nothing, fill(0.0), posterior)

    def let(self, x: Pair) -> Pair:
        return replace(x, m=self.code.let(x.m), e=self.code.let(x.e))

    def set(self, name: str, x: Pair) -> Pair:
        m, e = self.code.let(x.m), self.code.let(x.e)  # both may speak of the variable
        return Pair(self.code.set(f"{name}.m", m), self.code.set(f"{name}.e", e))

    def get(self, name: str) -> Pair:
        return Pair(Name(f"{name}.m", "lanes"), Name(f"{name}.e", "lanes"))

    def times(self, a: Pair, b: Pair) -> Pair:
        return self.let(Pair(a.m * b.m, a.e + b.e))

    def plus(self, a: Pair, b: Pair) -> Pair:
        return self.add_product(a, b, self.one)

    def add_product(self, total: Pair, a: Pair, b: Pair) -> Pair:
        e = self.code.let(a.e + b.e)
        top = self.code.let(greatest(total.e, e))
        return self.let(Pair(fma(self.scaled(a.m, e - top), b.m, self.scaled(total.m, total.e - top)), top))

    def bounded(self, adjoint: Pair) -> Pair:
        return adjoint

    def select(self, test: Expression, a: Pair, b: Pair) -> Pair:
        return Pair(select(test, a.m, b.m), select(test, a.e, b.e))

    def inverse(self, x: Pair) -> Pair:
        x = self.normal(x)
        return self.select(x.m > fill(0.0), Pair(fill(1.0) / x.m, fill(0.0) - x.e), self.zero)

    def put_z(self, x: Pair) -> None:
        self.code.put(MEMORY, Z, x.m)
        self.code.put(MEMORY, Z_EXPONENT, x.e)

    def z(self) -> Pair:
        return self.let(Pair(MEMORY[Z], MEMORY[Z_EXPONENT]))

    def take_weights(self, begin: Expression, end: Expression) -> None:
        """Cells of weights, of which only those have exponents that plain numbers would not do for."""
        code = self.code
        with code.loop("x", begin, end) as x:
            e = code.let(EXPONENTS[x])
            self.put(x, Pair(select(equal(e, fill(0.0)), MEMORY[x], MANTISSAS[x]), e))
