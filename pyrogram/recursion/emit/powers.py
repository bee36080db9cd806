# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The powers of two of the words of a block (:mod:`.gauge`), which are found while its chart is filled.

After the cells that end at j, let M be the sum of the items of the longest span (i, j) that has a derivation. It tells
how much a word makes derivations smaller, on the mean. The power of the next word takes that back; and half of M, so
that errors do not add up.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..code.expressions import (
    Expression,
    Name,
    equal,
    exponent_of,
    fill,
    greatest,
    least,
    power_of_two,
    real,
    rounded,
    select,
    value,
)
from ..code.statements import Code
from ..rules.cells import CellClass
from .instances import the_cell
from .numbers import Numbers, any_of
from .tables import Tables
from .weights import GAUGE, MEMORY, WeightCells

EXPONENTS_OF_WORDS = Name("exponents.of.words", "int")  # at j the sum of those of the first j words
MOST_EXPONENT = Name("most.exponent", "lanes")
ALIVE = Name("alive", "lanes")  # one until a sentence ends, then zero
_M, _BEFORE, _WORDS = (Name(name, "lanes") for name in ("m.of.span", "before.span", "words.of.span"))
_I, _J, _N = Name("at.i", "int"), Name("at.j", "int"), Name("n", "int")


@dataclass
class Powers:
    """Code that finds the powers of a block's words from its chart."""

    tables: Tables
    code: Code

    def __post_init__(self) -> None:
        self.cells, self.first = self.tables.cells, self.tables.cells.first
        has_any = any(w.table == GAUGE for w in self.tables.weights)
        self._powers = Name(WeightCells(GAUGE, (None,)).name, "int") if has_any else None

    def begin(self, numbers: Numbers) -> None:
        """All powers are one."""
        self.code.set(ALIVE.name, fill(1.0))
        with self.code.loop("x", 0, _N + 1) as x:
            self.code.put(MEMORY, EXPONENTS_OF_WORDS + x, fill(0.0))
            if self._powers is not None:
                numbers.put(self._powers + x, numbers.one)

    def choose(self) -> None:
        """The power of the word after j, when all cells that end at j have been filled."""
        code = self.code
        code.set(ALIVE.name, ALIVE - MEMORY[Name("ends", "int") + _J])
        if self._powers is None:
            return
        with code.when(_J < _N):
            self._find_span()
            m, before = code.let(exponent_of(_M)), code.let(MEMORY[EXPONENTS_OF_WORDS + _J])
            e = (before - _BEFORE - m) / _WORDS - m * fill(0.5)
            e = rounded(least(greatest(e, fill(0.0) - MOST_EXPONENT), MOST_EXPONENT)) * ALIVE
            e = code.let(select(_M > fill(0.0), e, fill(0.0)))
            code.put(MEMORY, self._powers + _J + 1, power_of_two(e))
            code.put(MEMORY, EXPONENTS_OF_WORDS + _J + 1, before + e)

    def _find_span(self) -> None:
        """M of the longest span, the exponents of all words before it, and the number of its own."""
        code = self.code
        for name, number in ((_M, 0.0), (_BEFORE, 0.0), (_WORDS, 1.0)):
            code.set(name.name, fill(number))
        for cell in (c for c in self.cells.of("span") if c.width is None):
            code.set("at.i", self.first)
            with code.loop_while((_I <= _J - cell.least) & any_of(equal(_M, fill(0.0)))):
                self._look_at(cell, _I)
                code.set("at.i", _I + 1)
        for cell in (c for c in self.cells.of("span") if c.width is not None):
            with the_cell(code, cell, self.first):
                self._look_at(cell, _I)
        for cell in self.cells.of("point"):
            with the_cell(code, cell, self.first):
                self._look_at(cell, value(self.first))

    def _look_at(self, cell: CellClass, i: Expression) -> None:
        """The sum of the items of a cell, in lanes that have found no span."""
        code, sums = self.code, self.tables.sums
        sums.numbers.set("m.of.cell", sums.numbers.zero)
        for ref in {h.ref.table: h.ref for h in cell.heads}.values():
            sums.add_up("m.of.cell", [self.tables.whole(ref)])
        new, words = code.let(equal(_M, fill(0.0))), real(greatest(_J - i + self.first, 1))
        code.set(_BEFORE.name, select(new, MEMORY[EXPONENTS_OF_WORDS + i - self.first], _BEFORE))
        code.set(_WORDS.name, select(new, fill(words), _WORDS))
        code.set(_M.name, select(new, sums.numbers.get("m.of.cell"), _M))
