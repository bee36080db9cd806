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
from ..rules.cells import names_in, renamed
from ..rules.language import Ref
from .blocks import Block
from .passes import Pass, shifted
from .schedule import CellSum, ScheduledCell
from .tables import MEMORY, axes

SCALED_FROM = 12  # columns that may grow or shrink out of range; shorter charts need no scaling


class Inside(Pass):
    """Code that fills the chart."""

    def run(self) -> None:
        """Fill the chart and Z."""
        code = self.code
        code.set("bound.sum", fill(0.0))
        for name in ("exponent", "grown"):
            code.put(MEMORY, Name(name, "int"), fill(0.0))
        code.set("alive", fill(0.0))
        code.set("steepest", fill(0.0))
        with code.loop("x", 0, self.n + 1) as x:
            code.set("alive", Name("alive", "lanes") + MEMORY[Name("ends", "int") + x])
        at_once = greatest(1, value(self.options.columns or self._columns()) // greatest(self.n, 1))
        width = code.set("width", at_once if self.rest is not None else value(1))
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
            if self.columns is not None:
                self._scale(end - 1)
            code.set("start", Name("start", "int") + width)
        self._close()
        code.add(MEMORY, Name("grown", "int"), Name("steepest", "lanes"))
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
        """Multiply a column by the power of two that brings its cells near one, if there are so many columns."""
        code, alive = self.code, Name("alive", "lanes")
        assert self.columns is not None
        with code.loop("x", greatest(Name("start", "int") - 1, 0), column) as x:  # they have no such column
            code.set("alive", alive - MEMORY[Name("ends", "int") + x])
        j = code.set("at.j", column)
        with code.when((self.n > SCALED_FROM) & (j >= self.columns.begin)):
            e = code.let((self._exponent_of_chain() if self.rest is None else self._mean_exponent(self.rest)) * alive)
            f = code.let(power_of_two(e))
            code.add(MEMORY, Name("exponent", "int"), e)
            self._record(e)
            code.put(MEMORY, Name("factors", "int") + j, f)
            for s in self.fixed:
                with self.at_width(s, j):
                    self._scale_cells(s, f)
            if self.rest is not None:
                with code.loop("at.i", self.first, j - self.rest.cell.least + 1):
                    self._scale_cells(self.rest, f)
            for s in self.points:
                with self.at_point(s, j):
                    self._scale_cells(s, f)

    def _mean_exponent(self, rest: ScheduledCell) -> Expression:
        """By which spans are multiplied: minus the mean of those of their cells."""
        code = self.code
        code.set("exponents", fill(0.0))
        with code.loop("at.i", self.first, Name("at.j", "int") - rest.cell.least + 1):
            e = exponent_of(self._total([rest]))
            # Clamped, so that one cell does not decide.
            e = least(greatest(e, fill(-24.0)), fill(24.0))
            code.set("exponents", Name("exponents", "lanes") + e)
        mean = real(-1.0) / real(greatest(Name("at.j", "int"), 1))
        return rounded(Name("exponents", "lanes") * fill(mean))

    def _exponent_of_chain(self) -> Expression:
        """By which points are multiplied where there are no spans but of fixed widths."""
        code = self.code
        code.set("column.total", fill(0.0))
        for s in self.points:
            with self.at_point(s, Name("at.j", "int")):
                code.set("column.total", Name("column.total", "lanes") + self._total([s]))
        return fill(0.0) - exponent_of(code.let(Name("column.total", "lanes")))

    def _total(self, cells: Sequence[ScheduledCell]) -> Expression:
        """The sum of the items at hand."""
        refs = [h.ref for s in cells for h in s.heads]
        total: Expression = MEMORY[self.tables.cell(refs[0])]
        for ref in refs[1:]:
            total = total + MEMORY[self.tables.cell(ref)]
        return total

    def _record(self, exponent: Expression) -> None:
        """Count how much derivations may have grown by the factor of a column, in bits.

        By no more than the factor times the greatest weights that bring it; but what is flushed to zero in its own
        column meets the factor without them, once: the steepest one. Of spans these weights are taken to be one.
        """
        code, alive = self.code, Name("alive", "lanes")
        most: Expression = fill(0.0)
        if self.rest is None:
            code.set("steepest", greatest(Name("steepest", "lanes"), exponent))
            most = code.let(exponent_of(self._brought()) + fill(1.0))
        code.add(MEMORY, Name("grown", "int"), greatest(exponent + most, fill(0.0)) * alive)

    def _brought(self) -> Expression:
        """The greatest product of the weights that know positions in a rule that brings the factor of the column."""
        code = self.code
        code.set("brought", fill(0.0))
        for s in [*self.fixed, *self.points]:
            products = dict.fromkeys(
                tuple(f for f in t.source.all_factors if not f.is_item and axes(f) and names_in(f) <= {"i", "j"})
                for h in s.heads for t in h.terms if self.brings(t)
            )  # fmt: skip
            if products:
                at = Name("at.j", "int")
                with self.at_width(s, at) if s.cell.kind == "span" else self.at_point(s, at):
                    for refs in products:
                        product: Expression = fill(1.0)
                        for f in refs:
                            product = product * MEMORY[self.tables.cell(f)]
                        code.set("brought", greatest(Name("brought", "lanes"), code.let(product)))
        return Name("brought", "lanes")

    def _scale_cells(self, s: ScheduledCell, f: Expression) -> None:
        """Multiply the items at hand, and the sums that are kept for the outside pass."""
        assert self.columns is not None
        places = [self.tables.cell(h.ref, side) for h in s.heads if self.columns.has(s.cell, h.ref.table)
                  for side in self.tables.sides[h.ref.table]]  # fmt: skip
        if s.cell.kind == "span":
            places += [self.sum_place(s, one, 0) for one in s.sums if one.factored and one.has_column]
        for found in places:
            place = self.code.let(found)
            scaled = self.code.let(MEMORY[place] * f)
            self.code.put(MEMORY, place, scaled)
            if self.rest is None and s.cell.kind == "span":  # it is not what the column is brought to one by
                self.code.set("bound.sum", Name("bound.sum", "lanes") + scaled)

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
