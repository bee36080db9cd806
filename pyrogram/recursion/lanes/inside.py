# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The inside pass, for the sentences of a block at once: the chart, and Z.

Some columns are filled together, row by row, so that they and a row of each table stay in the nearest cache, and in
pairs, so that a row that is loaded serves two cells. The last column of each group is multiplied by a power of two
(:mod:`.scaling`). Everything that is met, cells here and adjoints later, is summed up: what is flushed to zero cannot
have mattered as long as the sum is below a bound.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..machine.expressions import (
    Expression,
    Name,
    any_lane,
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
from ..rules.cells import renamed
from ..rules.language import Ref
from .blocks import Block
from .passes import Pass, shifted
from .schedule import CellSum, ScheduledCell
from .tables import MEMORY

SCALED_FROM = 12  # columns that may grow or shrink out of range; shorter charts need no scaling


class Inside(Pass):
    """Code that fills the chart."""

    def run(self) -> None:
        """Fill the chart and Z."""
        code = self.code
        code.set("bound.sum", fill(0.0))
        for name in ("exponent", "grown"):
            code.put(MEMORY, Name(name, "int"), fill(0.0))
        width = code.set("width", greatest(1, value(self.options.columns or self._columns()) // greatest(self.n, 1)))
        code.set("start", self.first)
        with code.loop_while(Name("start", "int") <= self.n):
            end = code.set("end", least(Name("start", "int") + width, self.n + 1))
            with code.loop("at.j", Name("start", "int"), end) as j:
                code.put(MEMORY, Name("factors", "int") + j, fill(1.0))
                for s in self.fixed:
                    with self.at_width(s, j):
                        self._inside_cells(s, [0])
            if self.rest is not None:
                self._inside_rest(self.rest, end)
            with code.loop("at.j", Name("start", "int"), end) as j:
                for s in self.points:
                    with self.at_point(s, j):
                        self._inside_cells(s, [0])
            if self.offsets is not None and self.rest is not None and not self.numbers.in_logs:
                with code.when(self.n > SCALED_FROM):
                    self._scale(end - 1)
            code.set("start", Name("start", "int") + width)
        self._close()
        code.put(MEMORY, Name("bound", "int"), Name("bound.sum", "lanes"))

    def _columns(self) -> int:
        return 256 // max(1, sum("column" in sides for sides in self.tables.sides.values()))

    def _inside_rest(self, s: ScheduledCell, end: Expression) -> None:
        code, start = self.code, Name("start", "int")
        with code.loop("at.i", end - 1 - s.cell.least, self.first - 1, -1) as i:
            begin = code.set("begin", greatest(start, i + s.cell.least))
            if not self.in_pairs(s):
                with code.loop("at.j", begin, end):
                    self._inside_cells(s, [0])
                return
            odd = code.set("odd", (end - begin) % 2)
            with code.loop("at.j", begin, begin + odd):
                self._inside_cells(s, [0])
            with code.loop("at.j", begin + odd, end, 2):
                self._inside_cells(s, [0, 1])

    def _inside_cells(self, s: ScheduledCell, columns: Sequence[int]) -> None:
        """Cells (i, j + c) for the columns c: common ranges of their sums first, then one after the other."""
        code = self.code
        for x in s.sums:
            for c in columns:
                code.set(f"S{x.number}.{c}", fill(self.numbers.zero))
        for group in [s.sums] if self.options.fuse else [[x] for x in s.sums]:
            if group:
                with code.loop("at.k", self.tables.at(s.low), self.tables.at(s.high) + 1):
                    block = self.block(s)
                    for x in group:
                        for c in columns:
                            name = f"S{x.number}.{c}"
                            total = block.product([shifted(f, c) for f in x.core], Name(name, "lanes"))
                            code.set(name, total)
        block = self.block(s)
        for c in columns:
            if c:  # the places of k that the second column has and the first one has not
                for x in s.sums:
                    factors = [renamed(shifted(f, c), {"k": s.high + 1}) for f in x.core]
                    code.set(f"S{x.number}.{c}", block.product(factors, Name(f"S{x.number}.{c}", "lanes")))
            self._close_cell(s, block, c)
        if not self.numbers.in_logs:
            block.close()

    def _close_cell(self, s: ScheduledCell, block: Block, c: int) -> None:
        code = self.code
        sums: dict[int, Name] = {}
        for step in s.steps:
            if isinstance(step, CellSum):
                total: Expression = Name(f"S{step.number}.{c}", "lanes")
                for factors in step.ends:
                    total = code.let(block.product([shifted(f, c) for f in factors], total))
                sums[step.number] = code.let(total)
                if step.factored and s.cell.kind == "span":
                    code.put(MEMORY, self.sum_place(s, step, c), sums[step.number])
            else:
                result: Expression | None = None
                for t in step.terms:
                    parts: list[Ref | Name] = [shifted(f, c) for f in t.factors]
                    parts += [sums[t.sum.number]] if t.sum else []
                    if parts:
                        result = code.let(block.product(parts, result))
                    else:
                        one = fill(self.numbers.one)
                        result = one if result is None else self.numbers.plus(result, one)
                if result is None:  # an item that these cells never prove
                    result = fill(self.numbers.zero)
                common: list[Ref | Name] = [shifted(f, c) for f in step.common]
                head = code.let(block.product([*common, code.let(result)]) if common else result)
                block.store(shifted(step.ref, c), head)
                block.met.append(head)

    def _scale(self, column: Expression) -> None:
        """Multiply a column by the power of two that brings the mean exponent of its cells to zero."""
        code, tables = self.code, self.tables
        assert self.offsets is not None and self.rest is not None
        j = code.set("at.j", column)
        heads = [h.ref for h in self.rest.heads]
        code.set("exponents", fill(0.0))
        with code.loop("at.i", self.first, j - self.rest.cell.least + 1):
            total: Expression | None = None
            for ref in heads:
                v = MEMORY[tables.cell(ref)]
                total = v if total is None else total + v
            assert total is not None
            # Clamped, so that one cell does not decide.
            e = least(greatest(exponent_of(total), fill(-24.0)), fill(24.0))
            code.set("exponents", Name("exponents", "lanes") + e)
        mean = real(-1.0) / real(greatest(j, 1))
        code.set("alive", fill(0.0))  # sentences that have ended have no such column
        with code.loop("x", j, self.n + 1) as x:
            code.set("alive", Name("alive", "lanes") + MEMORY[Name("ends", "int") + x])
        e = code.let(rounded(Name("exponents", "lanes") * fill(mean)) * Name("alive", "lanes"))
        f = code.let(power_of_two(e))
        code.add(MEMORY, Name("exponent", "int"), e)
        code.add(MEMORY, Name("grown", "int"), greatest(e, fill(0.0)))
        code.put(MEMORY, Name("factors", "int") + j, f)
        for s in self.fixed:
            assert s.cell.width is not None
            i = code.set("at.i", j - s.cell.width)
            with code.when(i >= self.first):
                for h in s.heads:
                    if s.cell.width >= self.offsets[h.ref.table]:
                        self._scale_cell(h.ref, f)
        with code.loop("at.i", self.first, j - self.rest.cell.least + 1):
            for h in self.rest.heads:
                self._scale_cell(h.ref, f)
            for one in self.rest.sums:
                if one.factored:
                    place = code.let(self.sum_place(self.rest, one, 0))
                    code.put(MEMORY, place, MEMORY[place] * f)
        for s in self.points:
            with self.at_point(s, j):
                for h in s.heads:
                    self._scale_cell(h.ref, f)

    def _scale_cell(self, ref: Ref, f: Expression) -> None:
        for side in self.tables.sides[ref.table]:
            place = self.code.let(self.tables.cell(ref, side))
            self.code.put(MEMORY, place, MEMORY[place] * f)

    def _close(self) -> None:
        """Z of every lane, where its sentence ends."""
        code = self.code
        code.set("z.sum", fill(self.numbers.zero))
        with code.loop("at.n", 1, self.n + 1) as m:
            ends = code.let(MEMORY[Name("ends", "int") + m])
            with code.when(any_lane(ends)):
                for s in self.goal:
                    self._goal_value(s)
                goal = Name("goal.value", "lanes")
                code.set("z.sum", select(ends > fill(0.0), goal, Name("z.sum", "lanes")))
        code.put(MEMORY, Name("z", "int"), Name("z.sum", "lanes"))

    def _goal_value(self, s: ScheduledCell) -> None:
        code = self.code
        for x in s.sums:
            code.set(f"S{x.number}.0", fill(self.numbers.zero))
            for factors in x.ends:
                block = self.block(s)
                code.set(f"S{x.number}.0", block.product(factors, Name(f"S{x.number}.0", "lanes")))
            with code.loop("at.k", self.tables.at(s.low), self.tables.at(s.high) + 1):
                block = self.block(s)
                code.set(f"S{x.number}.0", block.product(x.core, Name(f"S{x.number}.0", "lanes")))
        block = self.block(s)
        (head,) = s.heads
        one = fill(self.numbers.one)
        total: Expression | None = None
        for t in head.terms:
            parts: list[Ref | Name] = [*t.factors, *([Name(f"S{t.sum.number}.0", "lanes")] if t.sum else [])]
            if parts:
                total = block.product(parts, total)
            else:
                total = one if total is None else self.numbers.plus(total, one)
        assert total is not None
        code.set("goal.value", total)
