# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The outside pass: adjoints of log Z, and from them the posteriors of all weights.

Cells are visited in the reverse of the order in which the inside pass filled them. Every table has one of adjoints; a
sum hands its adjoint to each of its factors, times the others, which are multiplied first: if one of them is zero, an
adjoint may be too large for the rest.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..machine.expressions import Expression, Name, equal, fill, greatest, least, select
from ..rules.cells import renamed
from ..rules.domains import ZERO
from ..rules.language import Ref
from .blocks import Block
from .numbers import Number
from .passes import Pass, shifted
from .schedule import CellSum, ScheduledCell, ScheduledHead
from .tables import GAUGE, weight_cells


class Outside(Pass):
    """Code that finds posteriors, after :class:`.Inside`."""

    def run(self) -> None:
        """Posteriors of all weights, after the inside pass."""
        code = self.code
        self._clear()
        numbers = self.numbers
        numbers.set("inverse", numbers.inverse(numbers.let(numbers.z())))  # no NaN from lanes without a sentence
        self._open_goal()
        width = self.set_width()
        code.set("start", self.first + (self.n - self.first) // width * width)
        with code.loop_while(Name("start", "int") >= self.first):
            end = code.set("end", least(Name("start", "int") + width, self.n + 1))
            with code.loop("at.j", end - 1, Name("start", "int") - 1, -1) as j:
                for s in reversed(self.points):
                    with self.at_point(s, j):
                        self._cell(s)
            if self.rest is not None:
                self._rest(self.rest, end)
            with code.loop("at.j", end - 1, Name("start", "int") - 1, -1) as j:
                for s in reversed(self.fixed):
                    with self.at_width(s, j):
                        self._cell(s)
            code.set("start", Name("start", "int") - width)
        self._multiply()

    def _rest(self, s: ScheduledCell, end: Expression) -> None:
        code = self.code
        with code.loop("at.i", self.first, end - s.cell.least) as i:
            begin = code.set("begin", greatest(Name("start", "int"), i + s.cell.least))
            if not self.in_pairs(s):
                with code.loop("at.j", end - 1, begin - 1, -1):
                    self._cell(s)
                return
            # The same columns are pairs in blocks of any length: the order of additions depends on no other sentence.
            last = Name("start", "int") + (end - Name("start", "int") - 1) // 2 * 2 + 1
            with code.loop("right", last, begin - 1, -2) as right:
                j = code.set("at.j", select(right < end, right, right - 1))
                with code.when((j > begin) & equal(j, right)):
                    self._open(s, [0, -1])
                with code.otherwise(), code.when(j >= begin):
                    self._open(s, [0])

    def _cell(self, s: ScheduledCell) -> None:
        if not all(self.is_constant(h) for h in s.heads):
            self._open(s, [0])

    def _open(self, s: ScheduledCell, columns: Sequence[int]) -> None:
        """From the adjoints of the cells (i, j + c), for the columns c, to those of all that they are made of."""
        code = self.code
        block = self.block(s)
        adjoints: dict[tuple[int, int], Number] = {}
        for c in columns:
            self._open_cell(s, block, c, adjoints)
            if c == 0 and len(columns) == 2:  # the place of k that the next cell is: it is added to before it is read
                for x in s.sums:
                    self._push(block, s, adjoints[x.number, 0], [renamed(f, {"k": s.high}) for f in x.core])
        block.flush()
        high = self.tables.at(s.high) + (1 if len(columns) == 1 else 0)
        if s.sums:
            with code.loop("at.k", self.tables.at(s.low), high):
                inner = self.block(s)
                for x in s.sums:
                    for c in columns:
                        self._push(inner, s, adjoints[x.number, c], [shifted(f, c) for f in x.core])
                inner.flush()

    def _open_cell(self, s: ScheduledCell, block: Block, c: int, adjoints: dict[tuple[int, int], Number]) -> None:
        """From the adjoints of a cell's heads to those of their factors, and of the cell's sums."""
        numbers, found = self.numbers, dict[int, Number]()
        for step in reversed(s.steps):
            if isinstance(step, CellSum):
                total = adjoints[step.number, c] = numbers.let(found[step.number])
                for factors in reversed(step.ends):
                    self._push(block, s, total, [shifted(f, c) for f in factors])
                continue
            if self.is_constant(step):
                continue
            g = numbers.let(numbers.bounded(block.total(shifted(step.ref, c))))
            inners = {x: self._sum_of(s, block, c, t.sum) for x, t in enumerate(step.terms) if t.sum is not None}
            if step.common:
                g = self._push_common(s, block, c, g, step, inners)
            for x, t in reversed(list(enumerate(step.terms))):
                outer = [shifted(f, c) for f in t.factors]
                self._push(block, s, g, outer, inners[x] if outer and t.sum is not None else None)
                if t.sum is not None:
                    part: list[Ref | Number] = [*outer, g]
                    found[t.sum.number] = numbers.let(block.product(part, found.get(t.sum.number)))

    def _sum_of(self, s: ScheduledCell, block: Block, c: int, total: CellSum) -> Number | None:
        """The value of a sum, where some factor needs it."""
        if not total.factored:
            return None
        if s.cell.kind != "span":
            return self.sum_again(s, total)
        key = f"S{total.number}.{c}"
        if key not in block.values:
            block.values[key] = self.numbers.let(self.numbers.load(self.sum_place(s, total, c)))
        return block.values[key]

    def _push_common(
        self, s: ScheduledCell, block: Block, c: int, g: Number, head: ScheduledHead, inners: dict[int, Number | None]
    ) -> Number:
        """The adjoint of a head to its common factors; returns that of the sum of its terms."""
        total: Number | None = None
        for x, t in enumerate(head.terms):
            inner = inners.get(x)
            parts: list[Ref | Number] = [*(shifted(f, c) for f in t.factors), *([inner] if inner is not None else [])]
            total = self.numbers.let(block.product(parts, total))
        assert total is not None
        common = [shifted(f, c) for f in head.common]
        values = [block.value(f) for f in common]  # before posteriors take their places
        self._push(block, s, g, common, total)
        return self.numbers.let(block.product([*values, g]))

    def _push(
        self, block: Block, s: ScheduledCell, g: Number, factors: Sequence[Ref], inner: Number | None = None
    ) -> None:
        """The adjoint g of a product, to each of its factors."""
        for x, f in enumerate(factors):
            others: list[Ref | Number] = [*factors[:x], *factors[x + 1 :], *([inner] if inner is not None else [])]
            if f.is_item:
                if not self._is_dead(s, f):
                    block.add(f, g, others)
                continue
            if f.table == GAUGE:
                continue
            raw = self.numbers.let(block.product([*others, g]))
            if weight_cells(f) in self.tables.unique:
                self.numbers.put_posterior(self.tables.cell(f, adjoint=True), block.value(f), raw)
            else:
                block.add(f, raw, [])

    def _is_dead(self, s: ScheduledCell, f: Ref) -> bool:
        """Whether a factor is an axiom without weights, whose adjoint nobody reads."""
        a, b = (ZERO, *f.positions)[-2:]
        if len(f.positions) != 2 or a.name != b.name:
            return False
        for other in self.fixed:
            if other.cell.width == b.offset - a.offset:
                heads = [h for h in other.heads if h.ref.table == f.table]
                return all(self.is_constant(h) for h in heads)
        return False

    # ------------------------------------------------------------------ Z

    def _open_goal(self) -> None:
        numbers = self.numbers
        with self.lengths() as ends:
            g = numbers.let(numbers.select(ends > fill(0.0), numbers.get("inverse"), numbers.zero))
            for s in self.goal:
                self._goal(s, g)

    def _goal(self, s: ScheduledCell, g: Number) -> None:
        (head,) = s.heads
        for t in head.terms:
            block = self.block(s)
            inner = self.sum_again(s, t.sum) if t.sum and t.factors else None
            self._push(block, s, g, t.factors, inner)
            share = self.numbers.let(block.product([*t.factors, g]))
            block.flush()
            if t.sum is None:
                continue
            for ends_factors in t.sum.ends:
                block = self.block(s)
                self._push(block, s, share, ends_factors)
                block.flush()
            with self.places(s):
                block = self.block(s)
                self._push(block, s, share, t.sum.core)
                block.flush()

    def _clear(self) -> None:
        """Zero for all adjoints that are sums."""
        code, tables, pitch = self.code, self.tables, Name("pitch", "int")
        numbers, zero = self.numbers, self.numbers.zero
        rows = [t for t, sides in tables.sides.items() if "row" in sides and self.cells.arity[t] == 2]
        columns = [t for t, sides in tables.sides.items() if "column" in sides]
        with code.loop("x", 0, self.n + 1) as x:
            with code.loop("y", 0, x + 1) as y:
                for t in columns:
                    numbers.put_adjoint(Name(f"d{t}.column", "int") + (x * pitch + y), zero)
            with code.loop("y", x, self.n + 1) as y:
                for t in rows:
                    numbers.put_adjoint(Name(f"d{t}.row", "int") + (x * pitch + y), zero)
            for t in tables.sides:
                if self.cells.arity[t] == 1:
                    numbers.put_adjoint(Name(f"d{t}.row", "int") + x, zero)
        for w in tables.weights:
            if w not in tables.unique and w.table != GAUGE:
                with tables.elements(code, w):
                    numbers.put_adjoint(Name("element", "int") * tables.turns[w][0] + Name(f"d{w.name}", "int"), zero)

    def _multiply(self) -> None:
        """Posteriors of weights from their adjoints."""
        code, tables, numbers = self.code, self.tables, self.numbers
        for w in tables.weights:
            if w not in tables.unique and w.table != GAUGE:
                with tables.elements(code, w):
                    element = code.let(Name("element", "int") * tables.turns[w][0])
                    place = code.let(element + Name(f"d{w.name}", "int"))
                    of = code.let(element + Name(w.name, "int"))
                    numbers.put_posterior(place, numbers.let(numbers.load(of)), numbers.load_adjoint(place, of))
