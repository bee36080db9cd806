# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""How small and how large items may be, if plain numbers are to lose nothing (:mod:`.numbers`)."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..code.expressions import Expression, Name, Type, fill, greatest, least, like, power_of_two, select
from ..code.statements import Code
from ..rules.language import Ref
from .numbers import MOST_ADJOINT, Range


@dataclass(frozen=True)
class FactorCounts:
    """The products of a recursion, each by how many items and how many weights are its factors.

    :param goal: those that Z is the sum of.
    :param whole: others.
    """

    goal: frozenset[tuple[int, int]]
    whole: frozenset[tuple[int, int]]


def items_and_weights(factors: Sequence[Ref]) -> tuple[int, int]:
    """How many of each there are."""
    items = sum(f.is_item for f in factors)
    return items, len(factors) - items


@dataclass(frozen=True)
class Extremes:
    """The least and the greatest number of a kind in a block, and those that there may be.

    :param kind: such as ``item``.
    :param type: of the numbers: lanes, or a vector.
    """

    kind: str
    type: Type = "lanes"

    @property
    def least(self) -> Name:
        return Name(f"least.{self.kind}", self.type)

    @property
    def greatest(self) -> Name:
        return Name(f"greatest.{self.kind}", self.type)

    @property
    def low(self) -> Name:
        return Name(f"low.{self.kind}", "lanes")

    @property
    def high(self) -> Name:
        return Name(f"high.{self.kind}", "lanes")

    def begin(self, code: Code) -> None:
        """There are no numbers yet."""
        for name in (self.least, self.greatest):
            code.set(name.name, like(name, 1.0))

    def include(self, code: Code, x: Expression) -> None:
        """One more number; zero and NaN are neither small nor large."""
        x = code.let(x)
        code.set(self.least.name, least(select(x > like(x, 0.0), x, like(x, math.inf)), self.least))
        code.set(self.greatest.name, greatest(x, self.greatest))

    @property
    def outside(self) -> Expression:
        """The lanes in which one is outside its range."""
        return (self.least < self.low) | (self.greatest > self.high)


ITEM, GOAL = Extremes("item"), Extremes("goal")
_ROOM = 12.0  # bits by which an item may be less large than small: products are added up


def set_limits(code: Code, counts: FactorCounts, range: Range, bits: Expression) -> None:
    """How far from one items and sums may be: no product of the factors of a rule for an item may leave the range.

    Z is not a factor. What is lost of a product that has all items of a rule for it is far less than Z, if that is not
    small itself.

    An adjoint times an item is at most one; so what an adjoint times some factors of a rule may lose is below
    ``2**-(bits / 4)`` of a posterior, if the exponents of an item and of the weights are ``3 / 4 * bits`` at most.

    :param bits: the exponents of all weights are between these, either way.
    """

    def rest(weights: int, share: float = 1.0) -> Expression:
        return fill(share * range.bits) - bits * fill(float(weights))

    def least_of(exponents: list[Expression]) -> Name:
        most = fill(range.bits)
        return code.let(least(greatest(functools.reduce(least, exponents), fill(0.0) - most), most))

    whole = counts.whole | {(max(0, items - 1), weights) for items, weights in counts.goal}
    of_items = [rest(weights) * fill(1.0 / max(1, items)) for items, weights in sorted(whole)]
    item = least_of([*of_items, *(rest(weights, 0.75) for _, weights in sorted(whole))])
    limits = {ITEM: item, GOAL: least_of([rest(weights, 0.7) for _, weights in sorted(counts.goal)])}
    for kind, limit in limits.items():
        code.set(kind.low.name, power_of_two(fill(0.0) - limit))
        code.set(kind.high.name, power_of_two(greatest(limit - fill(_ROOM), fill(0.0) - limit)))
    code.set(MOST_ADJOINT.name, power_of_two(item))
