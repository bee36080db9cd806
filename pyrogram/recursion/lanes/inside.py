# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The inside pass, for the sentences of a block at once: the chart, and Z.

Some columns are filled together, row by row, so that they and a row of each table stay in the nearest cache, and in
pairs, so that a row that is loaded serves two cells. A cell is formed of plain numbers first; where that may not do, it
is formed with exponents (:mod:`.numbers`).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..machine.expressions import Expression, Name, any_lane, equal, fill, greatest, least, negated, select, value
from ..rules.cells import renamed
from ..rules.language import Ref
from .blocks import Block
from .numbers import EXPONENTS, MARKED, Pair, all_of, any_of, is_beyond, is_within
from .passes import ARE_PLAIN, PairOf, Pass, shifted
from .schedule import CellSum, ScheduledCell, ScheduledHead
from .tables import MEMORY

DONE = Name("done", "int")


class Inside(Pass):
    """Code that fills the chart."""

    def run(self) -> None:
        """Fill the chart and Z."""
        code = self.code
        if self.numbers.in_logs:
            code.set(MARKED.name, 0)
        at_once = greatest(1, value(self.options.columns or self._columns()) // greatest(self.n, 1))
        width = code.set("width", at_once if self.rest is not None else value(1))
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

    def _columns(self) -> int:
        return 256 // max(1, sum("column" in sides for sides in self.tables.sides.values()))

    def _rest(self, s: ScheduledCell, end: Expression) -> None:
        code = self.code
        with code.loop("at.i", end - 1 - s.cell.least, self.first - 1, -1) as i:
            begin = code.set("begin", greatest(Name("start", "int"), i + s.cell.least))
            if not self.in_pairs(s):
                with code.loop("at.j", begin, end):
                    self._cell(s)
                return
            with code.loop("at.j", begin, end, 2) as j:
                code.set(DONE.name, 0)
                last = code.set("last", least(j + 2, end))
                with code.when(j + 1 < end), code.when(equal(MARKED, 0)):
                    self._plain(s, [0, 1])
                with code.when(equal(DONE, 0)), code.loop("at.j", j, last):
                    self._cell(s)

    def _cell(self, s: ScheduledCell) -> None:
        """A cell of plain numbers, if that does, else with exponents."""
        code = self.code
        if self.numbers.in_logs:
            self._plain(s, [0])
            return
        totals = self._plain(s, [0])
        with code.when(equal(DONE, 0)), code.apart(MARKED.name):
            self._exact(s, totals)

    def _plain(self, s: ScheduledCell, columns: Sequence[int]) -> dict[int, Name]:
        """Cells (i, j + c) for the columns c: common ranges of their sums first, then one after the other.

        Sets ``done`` to whether that does: all numbers are within their ranges, and the block has none with exponents.

        :returns: the sums of the first column.
        """
        code = self.code
        for x in s.sums:
            for c in columns:
                code.set(f"S{x.number}.{c}", fill(self.numbers.zero))
        for group in [s.sums] if self.options.fuse else [[x] for x in s.sums]:
            if group:
                with self.places(s):
                    block = self.block(s)
                    for x in group:
                        for c in columns:
                            name = f"S{x.number}.{c}"
                            total = block.product([shifted(f, c) for f in x.core], Name(name, "lanes"))
                            code.set(name, total)
        block = self.block(s)
        totals: dict[int, Name] = {}
        values: list[tuple[Name, tuple[float, float]]] = []
        for c in columns:
            if c:  # the places of k that the second column has and the first one has not
                for x in s.sums:
                    factors = [renamed(shifted(f, c), {"k": s.high + 1}) for f in x.core]
                    code.set(f"S{x.number}.{c}", block.product(factors, Name(f"S{x.number}.{c}", "lanes")))
            sums = self._close_cell(s, block, c, values)
            totals = totals or sums
        if self.numbers.in_logs:
            code.set(DONE.name, 1)
            return totals
        self._test(values)
        return totals

    def _test(self, values: Sequence[tuple[Name, tuple[float, float]]]) -> None:
        """Whether numbers are within their ranges: of the narrowest one first, as they are if there are no zeros."""
        code, done = self.code, 1 - MARKED
        if not values:
            code.set(DONE.name, done)
            return
        low, high = max(x for _, (x, _) in values), min(x for _, (_, x) in values)
        bottom, top = values[0][0], values[0][0]
        for x, _ in values[1:]:
            bottom, top = code.let(least(bottom, x)), code.let(greatest(top, x))
        code.set(DONE.name, select(all_of(is_within(bottom, (low, high), zero=False) & (top <= fill(high))), done, 0))
        with code.when(equal(DONE, 0)):
            test = is_beyond(*values[0])
            for x, limits in values[1:]:
                test = test | is_beyond(x, limits)
            code.set(DONE.name, select(any_of(test), 0, done))

    def _close_cell(
        self, s: ScheduledCell, block: Block, c: int, values: list[tuple[Name, tuple[float, float]]]
    ) -> dict[int, Name]:
        """The sums of a cell, as names, and its items, which are written.

        :param values: is added the numbers with their ranges.
        """
        code = self.code
        sums: dict[int, Name] = {}
        for step in s.steps:
            if isinstance(step, CellSum):
                total: Expression = Name(f"S{step.number}.{c}", "lanes")
                for factors in step.ends:
                    total = code.let(block.product([shifted(f, c) for f in factors], total))
                found = sums[step.number] = code.let(total)
                if not self.is_item(s, step):
                    values.append((found, self.range.of_sums))
                    if s.cell.kind == "span":
                        code.put(MEMORY, self.sum_place(s, step, c), found)
                continue
            head = self._plain_head(step, sums, block, c)
            block.store(shifted(step.ref, c), head)
            if not self.is_constant(step):
                values.append((head, self.range.of_items))
        return sums

    def _plain_head(self, head: ScheduledHead, sums: dict[int, Name], block: Block, c: int) -> Name:
        result: Expression | None = None
        for t in head.terms:
            parts: list[Ref | Name] = [shifted(f, c) for f in t.factors]
            parts += [sums[t.sum.number]] if t.sum else []
            if parts:
                result = self.code.let(block.product(parts, result))
            else:
                one = fill(self.numbers.one)
                result = one if result is None else self.numbers.plus(result, one)
        if result is None:  # an item that these cells never prove
            result = fill(self.numbers.zero)
        common: list[Ref | Name] = [shifted(f, c) for f in head.common]
        found = block.product([*common, self.code.let(result)]) if common else result
        return self.code.let(found)

    # ------------------------------------------------------------------ with exponents

    def _exact(self, s: ScheduledCell, totals: dict[int, Name]) -> None:
        """The cell at hand with exponents; sums within their range are taken as they are.

        :param totals: the sums as plain numbers.
        """
        pairs = self.pairs()
        self.mark()
        sums: dict[int, Pair] = {}
        for step in s.steps:
            if isinstance(step, CellSum):
                found = sums[step.number] = self._exact_sum(s, step, totals[step.number])
                if s.cell.kind == "span":
                    pairs.store(MEMORY, [self.sum_place(s, step, 0)], found)
                continue
            found = self.head_with_exponents(step, sums, self.pair_of)
            places = [self.tables.cell(step.ref, side) for side in self.tables.sides[step.ref.table]]
            pairs.store(MEMORY, places, found)

    def _exact_sum(self, s: ScheduledCell, x: CellSum, plain: Name) -> Pair:
        """A sum: as it is, if it is within its range in all lanes."""
        code, pairs = self.code, self.pairs()
        m, e = (Name(f"exact{x.number}.{part}", "lanes") for part in "me")
        zero = fill(0.0)
        ended = equal(MEMORY[Name("alive.at", "int") + Name("at.j", "int")], zero) & equal(plain, zero)
        with code.when(negated(all_of(is_within(plain, self.range.of_sums, zero=False) | ended))):
            if s.cell.kind == "span":
                code.put(EXPONENTS, self.plain_place(s, x), fill(0.0))
            found = self.sum_with_exponents(s, x, self.pair_of)
            code.set(m.name, found.m)
            code.set(e.name, found.e)
        with code.otherwise():
            found = pairs.of(plain)
            code.set(m.name, found.m)
            code.set(e.name, found.e)
            if s.cell.kind == "span":
                code.put(EXPONENTS, self.plain_place(s, x), ARE_PLAIN)
        return Pair(m, e)

    # ------------------------------------------------------------------ Z

    def _close(self) -> None:
        """Z of every lane, where its sentence ends."""
        code, zero = self.code, fill(0.0)
        code.set("z.sum", fill(self.numbers.zero))
        code.set("z.exponent.of", zero)
        with self.lengths() as ends:
            for s in self.goal:
                goal = self._goal_value(s)
                if self.numbers.in_logs:
                    code.set("z.sum", select(ends > zero, goal, Name("z.sum", "lanes")))
                    continue
                here = ends > zero
                code.set("goal.m", goal)
                code.set("goal.e", zero)
                test = select(is_within(goal, self.range.of_sums, zero=False), zero, ends)
                with code.when(equal(MARKED, 0)), code.when(any_lane(test)), code.apart(MARKED.name):
                    found = self._goal_with_exponents(s, self.plain_pair_of)
                    with code.when(any_of((found.m > zero) & (test > zero))):  # else it is zero, or no number
                        self.mark()
                with code.when(MARKED > 0), code.apart("goal.m", "goal.e"):
                    found = self._goal_with_exponents(s, self.pair_of)
                    code.set("goal.m", found.m)
                    code.set("goal.e", found.e)
                for name, part in (("z.sum", "goal.m"), ("z.exponent.of", "goal.e")):
                    code.set(name, select(here, Name(part, "lanes"), Name(name, "lanes")))
        code.put(MEMORY, Name("z", "int"), Name("z.sum", "lanes"))
        code.put(MEMORY, Name("z.exponent", "int"), Name("z.exponent.of", "lanes"))

    def _goal_with_exponents(self, s: ScheduledCell, pair_of: PairOf) -> Pair:
        sums = {x.number: self.sum_with_exponents(s, x, pair_of) for x in s.sums}
        return self.head_with_exponents(s.heads[0], sums, pair_of)

    def _goal_value(self, s: ScheduledCell) -> Name:
        code = self.code
        for x in s.sums:
            code.set(f"S{x.number}.0", fill(self.numbers.zero))
            for factors in x.ends:
                block = self.block(s)
                code.set(f"S{x.number}.0", block.product(factors, Name(f"S{x.number}.0", "lanes")))
            with self.places(s):
                block = self.block(s)
                code.set(f"S{x.number}.0", block.product(x.core, Name(f"S{x.number}.0", "lanes")))
        sums = {x.number: Name(f"S{x.number}.0", "lanes") for x in s.sums}
        (head,) = s.heads
        return self._plain_head(head, sums, self.block(s), 0)
