# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Weights of a block from their logarithms: plain numbers, and those that are small or large with an exponent."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from ..code.expressions import (
    Expression,
    Name,
    exponent_of,
    fill,
    fma,
    greatest,
    least,
    power_of_two,
    rounded,
    select,
    spread,
)
from ..code.statements import Code
from .elements import Elements
from .limits import Extremes
from .names import N
from .numbers import EXPONENTS, MANTISSAS, MARKED, Range, any_of
from .weights import MEMORY


@dataclass
class Exponentials:
    """Code that makes numbers of the weights of a block.

    :param elements: of the weights.
    :param dtype: of lanes, ``float64`` or ``float32``.
    :param extremes: of the weights, which are found on the way.
    """

    elements: Elements
    dtype: str
    range: Range
    extremes: Extremes

    def run(self, logs: bool) -> None:
        """All weights of the block.

        :param logs: whether they are logarithms.
        """
        self.elements.code.set(MARKED.name, 0)
        if logs:
            self._each(self._raise)
        else:
            self._each(self._see)
            low, high = map(fill, self.range.of_weights)
            with self.elements.code.when(any_of((self.extremes.least < low) | (self.extremes.greatest > high))):
                self._each(self._take_apart)

    def _each(self, work: Callable[[Name], None]) -> None:
        """Do something for every weight of the block."""
        for w, region in self.elements.all_regions():
            with self.elements.loops(region, N):
                work(self.elements.code.let(self.elements.place(w, region)))

    def _see(self, place: Name) -> None:
        """A plain number."""
        self.extremes.include(self.elements.code, MEMORY[place])

    def _raise(self, place: Name) -> None:
        """exp(x) is exp(r) * 2**k."""
        code, bits = self.elements.code, fill(self.range.bits)
        x = code.let(MEMORY[place])
        k, number = reduced_exp(code, x, self.dtype)
        number = code.let(number)
        plain = number * power_of_two(least(greatest(k, fill(0.0) - bits), bits))
        plain = code.let(select(k < fill(0.0) - bits, fill(0.0), plain))
        code.put(MEMORY, place, plain)
        self._see(place)
        low, high = (fill(math.log2(y)) for y in self.range.of_weights)
        rare = code.when(any_of((k > high) | ((k < low) & (x > fill(-math.inf)))))
        with rare, code.apart(MARKED.name):
            code.put(MEMORY, place, select(k > bits, fill(math.inf), MEMORY[place]))
            apart = ((k < low) | (k > high)) & (x > fill(-math.inf)) & (x < fill(math.inf))
            self._keep(place, apart, number, k)

    def _take_apart(self, place: Name) -> None:
        """A number that is too small or too large gets an exponent."""
        code, bits = self.elements.code, fill(self.range.bits)
        x = code.let(MEMORY[place])
        low, high = map(fill, self.range.of_weights)
        apart = ((x < low) & (x > fill(0.0))) | ((x > high) & (x < fill(math.inf)))
        e = code.let(least(greatest(exponent_of(x), fill(0.0) - bits), bits))
        self._keep(place, apart, x * power_of_two(fill(0.0) - e), e)

    def _keep(self, place: Name, apart: Expression, m: Expression, e: Expression) -> None:
        """m * 2**e of the lanes that need it."""
        code = self.elements.code
        with code.when(any_of(apart)):
            code.put(MANTISSAS, place, m)
            code.put(EXPONENTS, place, select(apart, e, fill(0.0)))
            code.set(MARKED.name, 1)


def reduced_exp(code: Code, x: Expression, dtype: str) -> tuple[Name, Expression]:
    """k and exp(r), where exp(x) = 2**k exp(r), in every lane, or of a vector; r is at most log(2) / 2 from zero.

    By Taylor's polynomial, whose first dropped term is below half a unit in the last place. Of x without digits behind
    the point r is zero.
    """

    def one(number: float) -> Expression:
        return spread(number, x.type)

    double = dtype == "float64"
    high, low = (0.693145751953125, 1.42860682030941723212e-6) if double else (0.693359375, -2.12194440e-4)
    most = 1e13 if double else 1e7
    k = code.let(rounded(x * one(1 / math.log(2))))
    r = code.let(fma(k, one(-high), x))
    r = code.let(fma(k, one(-low), r))
    r = code.let(select((x > one(most)) | (x < one(-most)), one(0.0), r))
    degree = 13 if double else 7
    total: Expression = one(1 / math.factorial(degree))
    for d in range(degree - 1, -1, -1):
        total = fma(total, r, one(1 / math.factorial(d)))
    return k, total
