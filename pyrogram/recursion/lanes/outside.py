# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The outside pass: adjoints of log Z, and from them the posteriors of all weights.

Cells are visited in the reverse of the order in which the inside pass filled them. Every table has one of adjoints; a
sum hands its adjoint to each of its factors, times the others.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..machine.expressions import Expression, Name, any_lane, fill, greatest, least, select
from ..rules.cells import renamed
from ..rules.domains import ZERO
from ..rules.language import Ref
from .blocks import Block
from .passes import Pass, shifted
from .schedule import CellSum, ScheduledCell, ScheduledHead
from .tables import MEMORY, weight_cells


class Outside(Pass):
    """Code that finds posteriors, after :class:`.Inside`."""

    def run(self) -> None:
        """Posteriors of all weights, after the inside pass."""
        code = self.code
        self._clear()
        code.set("bound.sum", MEMORY[Name("bound", "int")])
        z = code.let(MEMORY[Name("z", "int")])
        code.set("inverse", select(z > fill(0.0), fill(1.0) / z, fill(0.0)))  # no NaN from lanes without a sentence
        self._open_goal()
        width = Name("width", "int")
        code.set("start", self.first + (self.n - self.first) // width * width)
        with code.loop_while(Name("start", "int") >= self.first):
            end = code.set("end", least(Name("start", "int") + width, self.n + 1))
            with code.loop("at.j", end - 1, Name("start", "int") - 1, -1) as j:
                for s in reversed(self.points):
                    with self.at_point(s, j):
                        self._outside_cells(s, [0])
            if self.rest is not None:
                self._outside_rest(self.rest, end)
            with code.loop("at.j", end - 1, Name("start", "int") - 1, -1) as j:
                for s in reversed(self.fixed):
                    with self.at_width(s, j):
                        self._outside_cells(s, [0])
            code.set("start", Name("start", "int") - width)
        self._multiply()
        code.put(MEMORY, Name("bound", "int"), Name("bound.sum", "lanes"))

    def _outside_rest(self, s: ScheduledCell, end: Expression) -> None:
        code, start = self.code, Name("start", "int")
        with code.loop("at.i", self.first, end - s.cell.least) as i:
            begin = code.set("begin", greatest(start, i + s.cell.least))
            if not self.in_pairs(s):
                with code.loop("at.j", end - 1, begin - 1, -1):
                    self._outside_cells(s, [0])
                return
            with code.loop("at.j", end - 1, begin, -2):
                self._outside_cells(s, [0, -1])
            with code.loop("at.j", begin, begin + (end - begin) % 2):
                self._outside_cells(s, [0])

    def _outside_cells(self, s: ScheduledCell, columns: Sequence[int]) -> None:
        code = self.code
        block = self.block(s)
        adjoints: dict[tuple[int, int], Name] = {}
        for c in columns:
            self._open_cell(s, block, c, adjoints)
            if c == 0 and len(columns) == 2:  # the place of k that the next cell is: it is added to before it is read
                for x in s.sums:
                    self._push(block, s, adjoints[x.number, 0], [renamed(f, {"k": s.high}) for f in x.core])
        block.flush()
        block.close()
        high = self.tables.at(s.high) + (1 if len(columns) == 1 else 0)
        for group in [s.sums] if self.options.fuse else [[x] for x in s.sums]:
            if group:
                with code.loop("at.k", self.tables.at(s.low), high):
                    inner = self.block(s)
                    for x in group:
                        for c in columns:
                            self._push(inner, s, adjoints[x.number, c], [shifted(f, c) for f in x.core])
                    inner.flush()

    def _open_cell(self, s: ScheduledCell, block: Block, c: int, adjoints: dict[tuple[int, int], Name]) -> None:
        """From the adjoints of a cell's heads to those of their factors, and of the cell's sums."""
        code = self.code
        found: dict[int, Expression] = {}
        for step in reversed(s.steps):
            if isinstance(step, CellSum):
                total = adjoints[step.number, c] = code.let(found[step.number])
                for factors in reversed(step.ends):
                    self._push(block, s, total, [shifted(f, c) for f in factors])
                continue
            if self._is_constant(s, step):
                continue
            g = block.total(shifted(step.ref, c))
            block.met.append(g)
            if self.columns is not None and self.rest is None:  # a product may be flushed before its column is scaled
                block.met.append(code.let(g * self._factor(c)))
            inners = {x: self._sum_of(s, block, c, t.sum) for x, t in enumerate(step.terms) if t.sum is not None}
            if step.common:
                g = self._push_common(s, block, c, g, step, inners)
            for x, t in reversed(list(enumerate(step.terms))):
                outer = [shifted(f, c) for f in t.factors]
                share = code.let(g * self._factor(c)) if self.brings(t) else g
                self._push(block, s, share, outer, inners[x] if outer and t.sum is not None else None)
                if t.sum is not None:
                    part: list[Ref | Name] = [share, *outer]
                    found[t.sum.number] = code.let(block.product(part, found.get(t.sum.number)))

    def _factor(self, c: int) -> Expression:
        """That of column j + c."""
        return MEMORY[Name("factors", "int") + (Name("at.j", "int") + c)]

    def _sum_of(self, s: ScheduledCell, block: Block, c: int, total: CellSum) -> Name | None:
        """The value of a sum, where some factor needs it."""
        if not total.factored:
            return None
        if s.cell.kind != "span":
            return self.sum_again(s, total)
        key = f"S{total.number}.{c}"
        if key not in block.values:
            block.values[key] = self.code.let(MEMORY[self.sum_place(s, total, c)])
        return block.values[key]

    def _push_common(
        self, s: ScheduledCell, block: Block, c: int, g: Name, head: ScheduledHead, inners: dict[int, Name | None]
    ) -> Name:
        """The adjoint of a head to its common factors; returns that of the sum of its terms."""
        total: Expression | None = None
        for x, t in enumerate(head.terms):
            inner = inners.get(x)
            parts: list[Ref | Name] = [*(shifted(f, c) for f in t.factors), *([inner] if inner is not None else [])]
            parts += [self.code.let(self._factor(c))] if self.brings(t) else []
            total = self.code.let(block.product(parts, total))
        assert total is not None
        common = [shifted(f, c) for f in head.common]
        values = [block.value(f) for f in common]  # before posteriors take their places
        self._push(block, s, g, common, self.code.let(total))
        return self.code.let(block.product([g, *values]))

    def _push(self, block: Block, s: ScheduledCell, g: Name, factors: Sequence[Ref], inner: Name | None = None) -> None:
        """The adjoint g of a product, to each of its factors."""
        for x, f in enumerate(factors):
            others: list[Ref | Name] = [*factors[:x], *factors[x + 1 :], *([inner] if inner is not None else [])]
            if f.is_item:
                if not self._is_dead(s, f):
                    block.add(f, g, others)
                continue
            raw = self.code.let(block.product([g, *others]))
            block.met.append(raw)
            if weight_cells(f) in self.tables.unique:
                place = self.tables.cell(f, adjoint=True)
                product = raw * block.value(f)
                self.code.put(MEMORY, place, product)
            else:
                block.add(f, raw, [])

    def _is_constant(self, s: ScheduledCell, head: ScheduledHead) -> bool:
        return all(not t.factors and t.sum is None for t in head.terms)

    def _is_dead(self, s: ScheduledCell, f: Ref) -> bool:
        """Whether a factor is an axiom without weights, whose adjoint nobody reads."""
        a, b = (ZERO, *f.positions)[-2:]
        if len(f.positions) != 2 or a.name != b.name:
            return False
        for other in self.fixed:
            if other.cell.width == b.offset - a.offset:
                heads = [h for h in other.heads if h.ref.table == f.table]
                return all(self._is_constant(other, h) for h in heads)
        return False

    def _open_goal(self) -> None:
        code = self.code
        with code.loop("at.n", 1, self.n + 1) as m:
            ends = code.let(MEMORY[Name("ends", "int") + m])
            with code.when(any_lane(ends)):
                g = code.let(ends * Name("inverse", "lanes"))
                for s in self.goal:
                    (head,) = s.heads
                    for t in head.terms:
                        block = self.block(s)
                        inner = self.sum_again(s, t.sum) if t.sum and t.factors else None
                        self._push(block, s, g, t.factors, inner)
                        share = code.let(block.product([g, *t.factors]))
                        block.flush()
                        block.close()
                        if t.sum is None:
                            continue
                        for ends_factors in t.sum.ends:
                            block = self.block(s)
                            self._push(block, s, share, ends_factors)
                            block.flush()
                            block.close()
                        with code.loop("at.k", self.tables.at(s.low), self.tables.at(s.high) + 1):
                            block = self.block(s)
                            self._push(block, s, share, t.sum.core)
                            block.flush()
                            block.close()

    def _clear(self) -> None:
        """Zero for all adjoints that are sums."""
        code, tables, pitch = self.code, self.tables, Name("pitch", "int")
        zero = fill(0.0)
        rows = [t for t, sides in tables.sides.items() if "row" in sides and self.cells.arity[t] == 2]
        columns = [t for t, sides in tables.sides.items() if "column" in sides]
        with code.loop("x", 0, self.n + 1) as x:
            with code.loop("y", 0, x + 1) as y:
                for t in columns:
                    code.put(MEMORY, Name(f"d{t}.column", "int") + (x * pitch + y), zero)
            with code.loop("y", x, self.n + 1) as y:
                for t in rows:
                    code.put(MEMORY, Name(f"d{t}.row", "int") + (x * pitch + y), zero)
            for t in tables.sides:
                if self.cells.arity[t] == 1:
                    code.put(MEMORY, Name(f"d{t}.row", "int") + x, zero)
        for w in tables.weights:
            if w not in tables.unique:
                with tables.elements(code, w):
                    code.put(MEMORY, Name("element", "int") * tables.turns[w][0] + Name(f"d{w.name}", "int"), zero)

    def _multiply(self) -> None:
        """Posteriors of weights from their adjoints."""
        code, tables = self.code, self.tables
        for w in tables.weights:
            if w not in tables.unique:
                with tables.elements(code, w):
                    element = code.let(Name("element", "int") * tables.turns[w][0])
                    place = code.let(element + Name(f"d{w.name}", "int"))
                    weight = MEMORY[element + Name(w.name, "int")]
                    code.put(MEMORY, place, MEMORY[place] * weight)
