# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""How small and how large items may be, if plain numbers are to lose nothing (:mod:`.numbers`)."""

from __future__ import annotations

import math

from ..code.expressions import Expression, Name, Type, fill, greatest, least, power_of_two, select, spread
from ..code.statements import Code
from .numbers import MOST_ADJOINT, Range


class Extremes:
    """The least and the greatest number of a kind in a block, and those that there may be.

    :param kind: such as ``item``.
    :param type: of the numbers: lanes, or a vector.
    """

    def __init__(self, kind: str, type: Type = "lanes") -> None:
        self.type = type
        self.least, self.greatest = Name(f"least.{kind}", type), Name(f"greatest.{kind}", type)
        self.low, self.high = Name(f"low.{kind}", "lanes"), Name(f"high.{kind}", "lanes")

    def begin(self, code: Code) -> None:
        """There are no numbers yet."""
        for name in (self.least, self.greatest):
            code.set(name.name, spread(1.0, name.type))

    def include(self, code: Code, x: Expression) -> None:
        """One more number; zero and NaN are neither small nor large."""
        x = code.let(spread(x, self.type))
        code.set(self.least.name, least(select(x > spread(0.0, x.type), x, spread(math.inf, x.type)), self.least))
        code.set(self.greatest.name, greatest(x, self.greatest))

    @property
    def outside(self) -> Expression:
        """The lanes, or the places of a vector, in which one is outside its range."""
        return (self.least < spread(self.low, self.type)) | (self.greatest > spread(self.high, self.type))


ITEM, GOAL = Extremes("item"), Extremes("goal")
_ROOM = 12.0  # bits by which an item may be less large than small: products are added up


def set_limits(code: Code, range: Range, items: int, weights: int, of_goal: int, bits: Expression) -> None:
    """How far from one items, sums and Z may be: no product of the factors of a rule may leave the range.

    An adjoint times an item is at most one; so what an adjoint times some factors of a rule may lose is below
    ``2**-(bits / 4)`` of a posterior, if the exponents of an item and of the weights are ``3 / 4 * bits`` at most.

    :param items: the most that are factors of one rule.
    :param weights: the same; of a rule for the goal, ``of_goal``.
    :param bits: the exponents of all weights are between these, either way.
    """
    most = fill(range.bits)
    rest = most - bits * fill(float(weights))
    of_item = least(rest * fill(1.0 / max(1, items)), rest - fill(0.25 * range.bits))
    of_z = fill(0.7 * range.bits) - bits * fill(float(of_goal))
    for kind, limit in ((ITEM, of_item), (GOAL, of_z)):
        limit = code.let(least(greatest(limit, fill(0.0) - most), most))
        code.set(kind.low.name, power_of_two(fill(0.0) - limit))
        code.set(kind.high.name, power_of_two(greatest(limit - fill(_ROOM), fill(0.0) - limit)))
        if kind is ITEM:
            code.set(MOST_ADJOINT.name, power_of_two(limit))
