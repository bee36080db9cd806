# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The powers of two of the words of a block (:mod:`.gauge`)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from ..code.expressions import Expression, Name, fill, greatest, least, log, power_of_two, real, rounded, value
from ..rules.language import Variable
from .elements import Elements
from .gauge import Growth
from .numbers import Range, log2_of
from .weights import GAUGE, MEMORY, WeightCells, scratch_of

_SUM = Name("sum.of.weights", "lanes")
DRIFT = Name("drift", "lanes")  # by word, the logarithm to base 2 of what the powers of earlier blocks left of Z
_FEW = 0.05  # uses a word that do not count


@dataclass
class Powers:
    """Code that finds the powers of a block's words from its weights.

    :param elements: of the weights.
    :param logs: by table, logarithms to base 2, in lanes, of the means of weights that lie elsewhere.
    """

    elements: Elements
    range: Range
    growth: Growth
    logs: Mapping[str, Expression] = field(default_factory=dict)

    def __post_init__(self) -> None:
        gauge = [w for w in self.elements.tables.weights if w.table == GAUGE]
        self._place = Name(gauge[0].name, "int") if gauge else None
        #: By table, the weights whose means count: those at words, or all if none is.
        self._used: dict[str, list[WeightCells]] = {}
        for table, uses in self.growth.weights.items() if gauge else ():
            cells = [w for w in self.elements.regions if w.table == table]
            if abs(uses) > _FEW and table not in self.logs:
                self._used[table] = [w for w in cells if w.num_axes] or cells

    def begin(self) -> None:
        """No weight was seen."""
        with self.elements.code.loop("x", 0, Name("n", "int") + 1) as x:
            for start in (place for table in self._used for place in scratch_of(table)):
                self.elements.code.put(MEMORY, start + x, fill(0.0))

    def see(self, w: WeightCells, x: Expression) -> None:
        """A weight, at the axes at hand."""
        if w not in self._used.get(w.table, ()):
            return
        if not w.num_axes:
            self.elements.code.set(_SUM.name, _SUM + x)
            return
        sums, counts = scratch_of(w.table)
        word = Name(f"at.axis{w.num_axes - 1}", "int")
        self.elements.code.add(MEMORY, sums + word, x)
        if w.num_axes > 2:
            self.elements.code.add(MEMORY, counts + word, fill(1.0))

    @contextmanager
    def sum_of(self, w: WeightCells) -> Iterator[None]:
        """Weights of a table are seen. The sum of those without positions is a variable: to add in memory is slow."""
        code, counts = self.elements.code, not w.num_axes and w in self._used.get(w.table, ())
        if counts:
            code.set(_SUM.name, fill(0.0))
        yield
        if counts:
            code.add(MEMORY, scratch_of(w.table)[0], _SUM)

    def run(self) -> None:
        """The powers, and the sum of their exponents in the cell ``gauge``, when all weights were seen."""
        code, n, bits, zero = self.elements.code, Name("n", "int"), fill(self.range.bits // 8), fill(0.0)
        alive, wanted, total = (Name(x, "lanes") for x in ("alive", "wanted.of.gauge", "total.of.gauge"))
        for name in (alive, wanted, total):
            code.set(name.name, zero)
        every: Expression = fill(self._derivations()) + DRIFT
        for table, mean in self.logs.items():
            every = every + mean * fill(self.growth.weights.get(table, 0.0))
        for table, cells in self._used.items():
            if not any(w.num_axes for w in cells):
                every = every + self._mean(table, value(0)) * fill(self.growth.weights[table])
        constant = code.let(every)
        with code.loop("x", n, 0, -1) as x:
            code.set(alive.name, alive + MEMORY[Name("ends", "int") + x])
            if self._place is not None:
                gained: Expression = constant
                for table, cells in self._used.items():
                    if any(w.num_axes for w in cells):
                        gained = gained + self._mean(table, x) * fill(self.growth.weights[table])
                code.set(wanted.name, wanted + least(greatest(zero - gained, zero - bits), bits) * alive)
                e = code.let(rounded(wanted - total))  # so that what rounding loses does not add up
                code.put(MEMORY, self._place + x, power_of_two(e))
                code.set(total.name, total + e)
        code.put(MEMORY, Name("gauge", "int"), total)

    def _derivations(self) -> Expression:
        """The logarithm to base 2 of how many times as many derivations there are with a word more."""
        gained: Expression = value(self.growth.derivations / math.log(2.0))
        for size, power in self.growth.sizes.items():
            if abs(power) > _FEW:
                gained = gained + log(real(self.elements.layout.size(size))) * (power / math.log(2.0))
        return gained

    def _mean(self, table: str, word: Expression) -> Expression:
        """The logarithm of the mean of the weights at a word."""
        code, (sums, counts) = self.elements.code, scratch_of(table)
        count: Expression = greatest(MEMORY[counts + word], fill(1.0))
        if all(w.num_axes <= 2 for w in self._used[table]):
            count = fill(real(self._number_of(self._used[table])))
        return code.let(log2_of(code, code.let(MEMORY[sums + word] / count), self.range.bits))

    def _number_of(self, cells: Iterable[WeightCells]) -> Expression:
        """About how many weights there are at a word, of tables over at most two positions."""
        number = value(0)
        for w in cells:
            at_word: Expression = Name("n", "int") if w.num_axes == 2 else value(1)
            for x in {x for region in self.elements.regions[w] for x in region.ref.symbols if isinstance(x, Variable)}:
                at_word = at_word * self.elements.layout.size(x.size)
            number = number + at_word
        return number
