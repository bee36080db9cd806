# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The inside pass, for the sentences of a block at once: the chart, and Z.

Some columns are filled together, row by row, so that they and a row of each table stay in the nearest cache, and in
pairs, so that a row that is loaded serves two cells.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..machine.expressions import Expression, Name, fill, greatest, least
from ..rules.cells import renamed
from ..rules.language import Ref
from .blocks import Block
from .limits import ITEM, SUM
from .numbers import Number
from .passes import Pass, shifted
from .schedule import CellSum, ScheduledCell, ScheduledHead


class Inside(Pass):
    """Code that fills the chart."""

    def run(self) -> None:
        """Fill the chart and Z."""
        code = self.code
        if self.numbers.in_range:
            for kind in (ITEM, SUM):
                kind.begin(code)
        width = self.set_width()
        code.set("start", self.first)
        with code.loop_while(Name("start", "int") <= self.n):
            end = code.set("end", least(Name("start", "int") + width, self.n + 1))
            with code.loop("at.j", Name("start", "int"), end) as j:
                for s in self.fixed:
                    with self.at_width(s, j):
                        self._cell(s)
            if self.rest is not None:
                self._rest(self.rest, end)
            with code.loop("at.j", Name("start", "int"), end) as j:
                for s in self.points:
                    with self.at_point(s, j):
                        self._cell(s)
            code.set("start", Name("start", "int") + width)
        self._close()

    def _rest(self, s: ScheduledCell, end: Expression) -> None:
        code = self.code
        with code.loop("at.i", end - 1 - s.cell.least, self.first - 1, -1) as i:
            begin = code.set("begin", greatest(Name("start", "int"), i + s.cell.least))
            if not self.in_pairs(s):
                with code.loop("at.j", begin, end):
                    self._cell(s)
                return
            with code.loop("at.j", begin, end, 2) as j:
                with code.when(j + 1 < end):
                    self._fill(s, [0, 1])
                with code.otherwise():
                    self._fill(s, [0])

    def _cell(self, s: ScheduledCell) -> None:
        self._fill(s, [0])

    def _fill(self, s: ScheduledCell, columns: Sequence[int]) -> None:
        """Cells (i, j + c) for the columns c: common ranges of their sums first, then one after the other."""
        numbers = self.numbers
        for x in s.sums:
            for c in columns:
                numbers.set(f"S{x.number}.{c}", numbers.zero)
        for numbers in self.numbers.rounds() if s.sums else ():
            with self.places(s):
                block = self.block(s, numbers)
                for x in s.sums:
                    for c in columns:
                        name = f"S{x.number}.{c}"
                        total = block.product([shifted(f, c) for f in x.core], numbers.get(name))
                        numbers.set(name, total)
        block, numbers = self.block(s), self.numbers
        for c in columns:
            if c:  # the places of k that the second column has and the first one has not
                for x in s.sums:
                    factors = [renamed(shifted(f, c), {"k": s.high + 1}) for f in x.core]
                    name = f"S{x.number}.{c}"
                    numbers.set(name, block.product(factors, numbers.get(name)))
            self._close_cell(s, block, c)

    def _close_cell(self, s: ScheduledCell, block: Block, c: int) -> None:
        """The sums of a cell, and its items, which are written."""
        numbers, sums = self.numbers, dict[int, Number]()
        for step in s.steps:
            if isinstance(step, CellSum):
                total = numbers.get(f"S{step.number}.{c}")
                for factors in step.ends:
                    total = numbers.let(block.product([shifted(f, c) for f in factors], total))
                sums[step.number] = total = numbers.let(total)
                if numbers.in_range and step.factored:
                    SUM.include(self.code, numbers.value(total))
                if step.factored and s.cell.kind == "span":
                    numbers.put(self.sum_place(s, step, c), total)
                continue
            head = self._head(step, sums, block, c)
            block.store(shifted(step.ref, c), head)
            if numbers.in_range and not self.is_constant(step):
                ITEM.include(self.code, numbers.value(head))

    def _head(self, head: ScheduledHead, sums: dict[int, Number], block: Block, c: int) -> Number:
        numbers, result = self.numbers, None
        for t in head.terms:
            parts: list[Ref | Number] = [shifted(f, c) for f in t.factors]
            parts += [sums[t.sum.number]] if t.sum else []
            if parts:
                result = numbers.let(block.product(parts, result))
            else:
                result = numbers.one if result is None else numbers.plus(result, numbers.one)
        if result is None:  # an item that these cells never prove
            result = numbers.zero
        common: list[Ref | Number] = [shifted(f, c) for f in head.common]
        return numbers.let(block.product([*common, numbers.let(result)]) if common else result)

    # ------------------------------------------------------------------ Z

    def _close(self) -> None:
        """Z of every lane, where its sentence ends."""
        numbers = self.numbers
        numbers.set("z.sum", numbers.zero)
        with self.lengths() as ends:
            for s in self.goal:
                found = numbers.select(ends > fill(0.0), self._goal_value(s), numbers.get("z.sum"))
                numbers.set("z.sum", found)
        numbers.put_z(numbers.get("z.sum"))

    def _goal_value(self, s: ScheduledCell) -> Number:
        numbers = self.numbers
        for x in s.sums:
            name = f"S{x.number}.0"
            numbers.set(name, numbers.zero)
            for factors in x.ends:
                numbers.set(name, self.block(s).product(factors, numbers.get(name)))
            with self.places(s):
                numbers.set(name, self.block(s).product(x.core, numbers.get(name)))
        sums = {x.number: numbers.get(f"S{x.number}.0") for x in s.sums}
        (head,) = s.heads
        return self._head(head, sums, self.block(s), 0)
