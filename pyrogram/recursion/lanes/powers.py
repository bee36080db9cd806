# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The powers of two of the words of a block (:mod:`.gauge`)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..machine.expressions import Expression, Name, exponent_of, fill, greatest, least, power_of_two, real, rounded
from .elements import Elements
from .gauge import Growth
from .numbers import Range
from .tables import GAUGE, MEMORY


@dataclass
class Powers:
    """Code that finds the powers of a block's words from its weights.

    :param elements: of the weights.
    """

    elements: Elements
    range: Range
    growth: Growth

    def run(self) -> None:
        """The powers, and the sum of their exponents in the cell ``gauge``."""
        code, tables, n = self.elements.code, self.elements.tables, Name("n", "int")
        zero = fill(0.0)
        own = [w for w in tables.weights if w.table == GAUGE]
        code.put(MEMORY, Name("gauge", "int"), zero)
        place = Name(own[0].name if own else "gauge.sums", "int")
        with code.loop("x", 0, n + 1) as x:
            code.put(MEMORY, place + x, fill(-self.growth.derivations / math.log(2.0)))
        for table, uses in self.growth.weights.items() if own else ():
            if abs(uses) > 0.05:
                self._of_table(table, uses, place)
        bits = fill(self.range.bits // 8)
        alive, wanted, total = (Name(x, "lanes") for x in ("alive", "wanted.of.gauge", "total.of.gauge"))
        for name in (alive, wanted, total):
            code.set(name.name, zero)
        with code.loop("x", n, 0, -1) as x:
            code.set(alive.name, alive + MEMORY[Name("ends", "int") + x])
            code.put(MEMORY, Name("alive.at", "int") + x, alive)
            code.set(wanted.name, wanted + least(greatest(MEMORY[place + x], zero - bits), bits) * alive)
            e = code.let(rounded(wanted - total))  # so that what rounding loses does not add up
            code.put(MEMORY, place + x, power_of_two(e))
            code.set(total.name, total + e)
        if own:
            code.put(MEMORY, Name("gauge", "int"), total)

    def _of_table(self, table: str, uses: float, place: Expression) -> None:
        """Take off the logarithm of the mean of the weights at each word, their last position, times their uses."""
        code, n, elements = self.elements.code, Name("n", "int"), self.elements
        cells = [w for w in elements.regions if w.table == table and w.num_axes and "all" not in w.indices]
        if not cells:
            return
        sums = Name("gauge.sums", "int")
        with code.loop("x", 0, n + 1) as x:
            code.put(MEMORY, sums + x, fill(0.0))
        number = 0
        for w in cells:
            number += 1
            for region in elements.regions[w]:
                with elements.loops(region, n):
                    at = code.let(sums + Name(f"at.axis{w.num_axes - 1}", "int"))
                    code.put(MEMORY, at, MEMORY[at] + MEMORY[elements.place(w, region)])
        several = max(w.num_axes for w in cells) > 1
        count = real(n * number if several else number)
        code.set("log.of.count", exponent_of(fill(count)))
        with code.loop("x", 0, n + 1) as x:
            mean = exponent_of(MEMORY[sums + x]) - Name("log.of.count", "lanes")
            code.put(MEMORY, place + x, MEMORY[place + x] - mean * fill(uses))
