# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Derivatives of log Z and of posteriors in one direction of the log weights: a Hessian times a vector.

Every number has a tangent. The passes are those of log Z and posteriors, over such numbers (Griewank and Walther 2008,
*Evaluating derivatives*, section 3.1): where posteriors were, their tangents come out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..code.expressions import Array, Expression, Name, equal, fill, greatest, least, select, value
from ..code.statements import Code
from ..rules.language import Ref
from .driver import LogCounts
from .grids import Factor, Held
from .names import SPOILT, B, Z
from .numbers import MOST_ADJOINT, Number, Numbers
from .sums import Sums
from .weights import MEMORY, NUMBERS

TANGENTS = Name("end.of.numbers", "int")  # cells of tangents begin here, and those of directions as many cells further
_ROOM = 2.0**30  # how many times an adjoint its tangent may be, in directions of at most one


@dataclass(frozen=True)
class Dual:
    """A number and its derivative."""

    x: Number
    d: Number


class DualNumbers(Numbers):
    """Numbers with tangents.

    :param base: of the numbers, and of the tangents.
    """

    def __init__(self, code: Code, base: Numbers) -> None:
        super().__init__(code)
        self.base, self.in_range = base, base.in_range
        self.zero, self.one = Dual(base.zero, base.zero), Dual(base.one, base.zero)

    def of(self, x: Expression) -> Dual:
        return Dual(self.base.of(x), self.base.zero)

    def value(self, x: Dual) -> Expression:
        return self.base.value(x.x)

    def is_zero(self, x: Dual) -> Expression:
        return self.base.is_zero(x.x)

    def load(self, cell: Expression) -> Dual:
        cell = self.code.let(cell)
        return Dual(self.base.load(cell), self.base.load(cell + TANGENTS))

    def put(self, cell: Expression, x: Dual) -> None:
        cell = self.code.let(cell)
        self.base.put(cell, x.x)
        self.base.put(cell + TANGENTS, x.d)

    def put_posterior(self, cell: Expression, weight: Dual, count: Dual) -> None:
        cell, product = self.code.let(cell), self.times(weight, count)
        nothing = self.code.let(self.is_zero(weight) | self.is_zero(count))
        self.base.put_posterior(cell, weight.x, count.x)
        self.base.put_posterior(cell + TANGENTS, self.base.select(nothing, self.base.zero, product.d), self.base.one)

    def let(self, x: Dual) -> Dual:
        return Dual(self.base.let(x.x), self.base.let(x.d))

    def set(self, name: str, x: Dual) -> Dual:
        x = self.let(x)  # both may speak of the variable
        return Dual(self.base.set(name, x.x), self.base.set(f"{name}.d", x.d))

    def get(self, name: str) -> Dual:
        return Dual(self.base.get(name), self.base.get(f"{name}.d"))

    def times(self, a: Dual, b: Dual) -> Dual:
        base = self.base
        return self.let(Dual(base.times(a.x, b.x), base.add_product(base.times(a.d, b.x), a.x, b.d)))

    def plus(self, a: Dual, b: Dual) -> Dual:
        return Dual(self.base.plus(a.x, b.x), self.base.plus(a.d, b.d))

    def add_product(self, total: Dual, a: Dual, b: Dual) -> Dual:
        base = self.base
        d = base.add_product(base.add_product(total.d, a.d, b.x), a.x, b.d)
        return self.let(Dual(base.add_product(total.x, a.x, b.x), d))

    def bounded(self, adjoint: Dual) -> Dual:
        if not self.in_range:
            return Dual(self.base.bounded(adjoint.x), self.base.bounded(adjoint.d))
        most, d = MOST_ADJOINT * fill(_ROOM), self.code.let(adjoint.d)
        bounded = least(greatest(d, fill(0.0) - most), most)
        return Dual(self.base.bounded(adjoint.x), select(equal(d, d), bounded, d))  # NaN stays

    def select(self, test: Expression, a: Dual, b: Dual) -> Dual:
        return Dual(self.base.select(test, a.x, b.x), self.base.select(test, a.d, b.d))

    def inverse(self, x: Dual) -> Dual:
        inverse = self.base.let(self.base.inverse(x.x))
        ratio = self.base.let(self.base.times(inverse, x.d))
        minus = self.base.of(fill(-1.0))
        return Dual(inverse, self.base.times(self.base.times(inverse, minus), ratio))

    def put_z(self, x: Dual) -> None:
        """As of others; and the derivative of log Z."""
        x = self.let(x)
        self.base.put_z(x.x)
        ratio = self.base.times(self.base.let(self.base.inverse(x.x)), x.d)
        derivative = select(self.base.is_zero(x.x), fill(0.0), self.base.value(ratio))
        self.code.put(MEMORY, Z + TANGENTS, derivative)

    def z(self) -> Dual:
        z = self.base.let(self.base.z())
        return Dual(z, self.base.times(z, self.base.of(MEMORY[Z + TANGENTS])))

    def take_weights(self, begin: Expression, end: Expression) -> None:
        """Cells of weights, and of their tangents: the direction of the logarithm times the weight."""
        self.base.take_weights(begin, end)
        with self.code.loop("x", begin, end) as x:
            weight = self.base.let(self.base.load(x))
            nothing, direction = self.base.is_zero(weight), self.base.of(MEMORY[x + TANGENTS * 2])
            product = self.base.times(weight, direction)
            self.base.put(x + TANGENTS, self.base.select(nothing, self.base.zero, product))


@dataclass
class DualSums(Sums):
    """Sums of products of numbers with tangents, of which those that all sentences share have tangents, too.

    :param lanes: W.
    """

    lanes: int = 1

    def value(self, f: Factor, steps: Mapping[str, int]) -> Number:
        if isinstance(f, Held) or f.numbers is None:
            return super().value(f, steps)
        index, of = self.code.let(f.index(steps)), self.numbers.of  # a number without tangent
        return Dual(of(fill(f.numbers[index])).x, of(fill(f.numbers[index + TANGENTS * self.lanes])).x)


class Tangents(LogCounts):
    """Code for ``tangents``: derivatives of log Z and of posteriors."""

    name = "tangents"
    areas = 3

    def numbers_of(self, base: Numbers) -> Numbers:
        return DualNumbers(self.code, base)

    def sums_of(self, numbers: Numbers) -> Sums:
        sums = super().sums_of(numbers)
        return DualSums(sums.code, sums.layout, numbers, self.lanes)

    def take_number(self, ref: Ref, place: Expression) -> None:
        super().take_number(ref, place)
        weight = self.code.let(self.elements.tables.SHARED[place])
        tangent = select(equal(weight, 0.0), 0.0, weight * self.elements.number(ref, "direction", 0.0))
        self.code.put(self.elements.tables.SHARED, place + TANGENTS * self.lanes, tangent)

    def parameters(self) -> list[Array | Name]:
        directions = [p for w in self.elements.layout.weights for p in w.parameters("direction", "element", "b")]
        return [*super().parameters(), Array("tangent", "real"), *directions]

    def feed_reals(self) -> None:
        super().feed_reals()
        for w, region in self.elements.all_regions():
            self.elements.feed(region, self.elements.place(w, region) + TANGENTS * 2, "direction", 0.0)

    def put_log_z(self) -> None:
        super().put_log_z()
        code = self.code
        with self.elements.each_lane() as lane:
            tangent = code.let(NUMBERS[(Z + TANGENTS) * self.lanes + lane])
            code.put(Array("tangent", "real"), B, tangent)
            code.set(SPOILT.name, select(self.fits(tangent), SPOILT, 1))

    def drain(self) -> None:
        """Tangents go out where posteriors do."""
        self._move(TANGENTS)
        super().drain()
        self._move(value(0) - TANGENTS)

    def _move(self, by: Expression) -> None:
        for w in filter(self.elements.tables.is_counted, self.elements.tables.weights):
            self.code.set(f"d{w.name}", Name(f"d{w.name}", "int") + by)
