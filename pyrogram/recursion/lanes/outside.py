# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The outside pass: adjoints of log Z, and from them the posteriors of all weights.

Cells are visited in the reverse of the order in which the inside pass filled them. Every table has one of adjoints; a
sum hands its adjoint to each of its factors, times the others. The adjoint of a number with an exponent e is kept times
2**e, among the mantissas (:mod:`.numbers`); so are the posteriors of weights of which a part was formed with exponents.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ..machine.expressions import Expression, Name, any_lane, equal, fill, greatest, least, select
from ..rules.cells import renamed
from ..rules.domains import ZERO
from ..rules.language import Ref
from .blocks import Block
from .numbers import EXPONENTS, MANTISSAS, MARKED, Pair
from .passes import Pass, shifted
from .schedule import CellSum, ScheduledCell, ScheduledHead
from .tables import GAUGE, MEMORY, weight_cells

DONE = Name("done", "int")


class Outside(Pass):
    """Code that finds posteriors, after :class:`.Inside`."""

    def run(self) -> None:
        """Posteriors of all weights, after the inside pass."""
        code = self.code
        self._clear()
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
            with code.loop("at.j", end - 1, begin - 1, -2) as j:
                code.set(DONE.name, 0)
                last = code.set("last", greatest(j - 2, begin - 1))
                with code.when(j > begin), code.when(equal(MARKED, 0)):
                    self._plain(s, [0, -1])
                    code.set(DONE.name, 1)
                with code.when(equal(DONE, 0)), code.loop("at.j", j, last, -1):
                    self._cell(s)

    def _cell(self, s: ScheduledCell) -> None:
        if all(self.is_constant(h) for h in s.heads):
            return
        with self.code.when(MARKED > 0), self.code.apart():
            self._exact(s)
        with self.code.otherwise():
            self._plain(s, [0])

    # ------------------------------------------------------------------ plain numbers

    def _plain(self, s: ScheduledCell, columns: Sequence[int]) -> None:
        code = self.code
        block = self.block(s)
        adjoints: dict[tuple[int, int], Name] = {}
        for c in columns:
            self._open_cell(s, block, c, adjoints)
            if c == 0 and len(columns) == 2:  # the place of k that the next cell is: it is added to before it is read
                for x in s.sums:
                    self._push(block, s, adjoints[x.number, 0], [renamed(f, {"k": s.high}) for f in x.core])
        block.flush()
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
            if self.is_constant(step):
                continue
            g = self._bounded(block.total(shifted(step.ref, c)))
            inners = {x: self._sum_of(s, block, c, t.sum) for x, t in enumerate(step.terms) if t.sum is not None}
            if step.common:
                g = self._push_common(s, block, c, g, step, inners)
            for x, t in reversed(list(enumerate(step.terms))):
                outer = [shifted(f, c) for f in t.factors]
                self._push(block, s, g, outer, inners[x] if outer and t.sum is not None else None)
                if t.sum is not None:
                    part: list[Ref | Name] = [g, *outer]
                    found[t.sum.number] = code.let(block.product(part, found.get(t.sum.number)))

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
            if f.table == GAUGE:
                continue
            raw = self.code.let(block.product([g, *others]))
            if weight_cells(f) in self.tables.unique:
                place = self.tables.cell(f, adjoint=True)
                product = raw * block.value(f)
                self.code.put(MEMORY, place, product)
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

    # ------------------------------------------------------------------ with exponents

    def _exact(self, s: ScheduledCell) -> None:
        """The cell at hand with exponents; sums that were formed of plain numbers are gone through as such."""
        pairs, found, units = self.pairs(), dict[int, Name](), dict[int, Expression]()
        outer = {f for h in s.heads for fs in (h.common, *(t.factors for t in h.terms)) for f in fs}
        values = {f: self.pair_of(pairs)(f) for f in outer}  # before posteriors take their places
        for step in reversed(s.steps):
            if isinstance(step, CellSum):
                self._exact_sum(s, step, found[step.number], units[step.number])
            elif not self.is_constant(step):
                self._exact_head(s, step, values, found, units)

    def _exact_head(
        self, s: ScheduledCell, head: ScheduledHead, values: Mapping[Ref, Pair], found: dict[int, Name],
        units: dict[int, Expression],
    ) -> None:  # fmt: skip
        """From the adjoint of an item to those of its factors and, times 2**unit, of its sums."""
        code, pairs = self.code, self.pairs()
        unit = code.let(EXPONENTS[self.tables.cell(head.ref)])
        g = self._adjoint(head.ref, unit)
        shared: dict[Ref, Expression] = {}  # posteriors of common factors, of all terms
        for t in head.terms:
            factors = [*head.common, *t.factors]
            own = [values[f] for f in factors]
            inner = [self._value_of(s, t.sum)] if t.sum and factors else []
            product = pairs.product([*own, *inner])
            share = code.let(g * pairs.power(product.e - unit))
            for x, f in enumerate(factors):
                if f.is_item:
                    self._add_adjoint(s, f, share, [*own[:x], *own[x + 1 :], *inner])
                elif f in head.common:
                    p = share * product.m
                    shared[f] = code.let(shared[f] + p if f in shared else p)
                else:
                    self._add_posterior(f, share * product.m)
            if t.sum:
                number, outer = t.sum.number, pairs.product(own)
                if number not in units:
                    units[number] = self._unit_of(s, t.sum, unit)
                part = self._bounded(g * outer.m * pairs.power(outer.e - unit + units[number]))
                found[number] = code.let(found[number] + part if number in found else part)
        for f, p in shared.items():
            self._add_posterior(f, p)

    def _exact_sum(self, s: ScheduledCell, x: CellSum, g: Name, unit: Expression) -> None:
        """From the adjoint of a sum, times 2**unit, to those of its factors."""
        code = self.code
        for factors in reversed(x.ends):
            self._push_exactly(s, g, unit, factors)
        if s.cell.kind != "span":
            with self.places(s):
                self._push_exactly(s, g, unit, x.core)
            return
        with code.when(any_lane(EXPONENTS[self.plain_place(s, x)])), self.places(s):
            block = self.block(s)
            self._push(block, s, g, x.core)
            block.flush()
        with code.otherwise(), self.places(s):
            self._push_exactly(s, g, unit, x.core)

    def _push_exactly(self, s: ScheduledCell, g: Name, unit: Expression, factors: Sequence[Ref]) -> None:
        """The adjoint g of a product, times 2**unit, to each of its factors."""
        pairs = self.pairs()
        own = [*map(self.pair_of(pairs), factors)]
        product = pairs.product(own)
        share = self.code.let(g * pairs.power(product.e - unit))
        for x, f in enumerate(factors):
            if f.is_item:
                self._add_adjoint(s, f, share, [*own[:x], *own[x + 1 :]])
            else:
                self._add_posterior(f, share * product.m)

    def _add_adjoint(self, s: ScheduledCell, f: Ref, share: Expression, others: Sequence[Pair]) -> None:
        """To that of an item, times 2**its exponent.

        :param share: the adjoint of a product, times the power of two of the product.
        """
        if not self._is_dead(s, f):
            code, place = self.code, self.code.let(self.tables.cell(f, adjoint=True))
            for x in others:
                share = share * x.m
            code.put(MANTISSAS, place, MANTISSAS[place] + share)

    def _adjoint(self, ref: Ref, unit: Expression) -> Name:
        """That of an item to which nothing is added any more, times 2**unit."""
        total: Expression = fill(0.0)
        for side in self.tables.sides[ref.table]:
            place = self.code.let(self.tables.cell(ref, side, adjoint=True))
            total = total + (MEMORY[place] * self.pairs().power(unit) + MANTISSAS[place])
        return self._bounded(total)

    def _add_posterior(self, f: Ref, p: Expression) -> None:
        if f.table == GAUGE:
            return
        place = self.code.let(self.tables.cell(f, adjoint=True))
        if weight_cells(f) in self.tables.unique:
            self.code.put(MEMORY, place, p)
        else:
            self.code.put(MANTISSAS, place, MANTISSAS[place] + p)

    def _unit_of(self, s: ScheduledCell, x: CellSum, of_item: Name) -> Name:
        """The exponent of a sum, perhaps that of an item; 0 if it was formed of plain numbers."""
        found: Expression = of_item if self.is_item(s, x) else self._value_of(s, x).e
        if s.cell.kind == "span":
            found = select(EXPONENTS[self.plain_place(s, x)] > fill(0.0), fill(0.0), found)
        return self.code.let(found)

    def _value_of(self, s: ScheduledCell, x: CellSum) -> Pair:
        if s.cell.kind == "span":
            return self.pairs().at(self.sum_place(s, x, 0))
        return self.sum_with_exponents(s, x, self.pair_of)

    def _bounded(self, adjoint: Expression) -> Name:
        """Adjoints of what is zero can be of any size: they matter to nobody, and must not become infinite."""
        return self.code.let(least(adjoint, fill(self.range.of_sums[1])))

    # ------------------------------------------------------------------ Z

    def _open_goal(self) -> None:
        code = self.code
        with self.lengths() as ends:
            g = code.let(ends * Name("inverse", "lanes"))
            unit = code.let(MEMORY[Name("z.exponent", "int")])
            for s in self.goal:
                with code.when(MARKED > 0), code.apart():
                    self._goal_with_exponents(s, g, unit)
                with code.otherwise():
                    self._plain_goal(s, g)

    def _goal_with_exponents(self, s: ScheduledCell, g: Name, unit: Name) -> None:
        for t in s.heads[0].terms:
            pairs = self.pairs()
            outer = [*map(self.pair_of(pairs), t.factors)]
            inner = [self.sum_with_exponents(s, t.sum, self.pair_of)] if t.sum and t.factors else []
            product = pairs.product([*outer, *inner])
            share = self.code.let(g * pairs.power(product.e - unit))
            for x, f in enumerate(t.factors):
                if f.is_item:
                    self._add_adjoint(s, f, share, [*outer[:x], *outer[x + 1 :], *inner])
                else:
                    self._add_posterior(f, share * product.m)
            if t.sum is None:
                continue
            rest = pairs.product(outer)
            g_of_sum, unit_of_sum = self.code.let(g * rest.m), self.code.let(unit - rest.e)
            for factors in t.sum.ends:
                self._push_exactly(s, g_of_sum, unit_of_sum, factors)
            with self.places(s):
                self._push_exactly(s, g_of_sum, unit_of_sum, t.sum.core)

    def _plain_goal(self, s: ScheduledCell, g: Name) -> None:
        code = self.code
        (head,) = s.heads
        for t in head.terms:
            block = self.block(s)
            inner = self.sum_again(s, t.sum) if t.sum and t.factors else None
            self._push(block, s, g, t.factors, inner)
            share = code.let(block.product([g, *t.factors]))
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
            if w not in tables.unique and w.table != GAUGE:
                with tables.elements(code, w):
                    code.put(MEMORY, Name("element", "int") * tables.turns[w][0] + Name(f"d{w.name}", "int"), zero)

    def _multiply(self) -> None:
        """Posteriors of weights from their adjoints, and from the parts of them that are posteriors already."""
        code, tables = self.code, self.tables
        for w in tables.weights:
            if w not in tables.unique and w.table != GAUGE:
                with tables.elements(code, w):
                    element = code.let(Name("element", "int") * tables.turns[w][0])
                    place = code.let(element + Name(f"d{w.name}", "int"))
                    weight = code.let(element + Name(w.name, "int"))
                    with code.when(equal(MARKED, 0)):
                        code.put(MEMORY, place, MEMORY[place] * MEMORY[weight])
                    with code.otherwise():
                        x = code.let(MEMORY[weight])
                        own = select(x < fill(math.inf), MEMORY[place] * x, fill(0.0))
                        code.put(MEMORY, place, own + MANTISSAS[place])
