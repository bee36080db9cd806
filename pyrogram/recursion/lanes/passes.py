# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What the inside and the outside pass share: classes of cells, blocks of code, marks, sums with exponents."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ..machine.expressions import Expression, Name, any_lane, equal, fill, greatest, select
from ..machine.statements import Code
from ..rules.bounds import Bounds
from ..rules.cells import Cells, J, renamed
from ..rules.language import Position, Ref
from .arithmetic import Arithmetic
from .blocks import Block
from .numbers import EXPONENTS, MANTISSAS, MARKED, Pair, Pairs, Range
from .schedule import CellSum, K, ScheduledCell, ScheduledHead
from .tables import GAUGE, MEMORY, Tables

PairOf = Callable[[Pairs], Callable[[Ref], Pair]]
ARE_PLAIN = Name("are.plain", "lanes")  # 1 if sums that have just been formed of plain numbers may be so once more


@dataclass
class Options:
    """Which passes are applied.

    :param fuse: one loop for all sums of a cell, or one for each.
    :param pair: two columns at a time.
    :param columns: columns that are filled together, times the length; 0 for as many as fit into a cache of 32 KB with
        their adjoints.
    """

    fuse: bool = True
    pair: bool = True
    columns: int = 0


@dataclass
class Pass:
    """Code of a pass over the cells. The variable ``n`` is the length of the longest sentence."""

    tables: Tables
    code: Code
    range: Range
    options: Options
    numbers: Arithmetic

    def __post_init__(self) -> None:
        self.cells: Cells = self.tables.cells
        spans = [s for s in self.tables.scheduled if s.cell.kind == "span"]
        self.fixed = [s for s in spans if s.cell.width is not None]
        self.rest = next((s for s in spans if s.cell.width is None), None)
        self.points = [s for s in self.tables.scheduled if s.cell.kind == "point"]
        self.goal = [s for s in self.tables.scheduled if s.cell.kind == "goal"]
        self.first = self.cells.first
        self.n = Name("n", "int")

    def in_pairs(self, s: ScheduledCell) -> bool:
        """Whether two columns can be filled in one loop: if their ranges differ by one k at the end."""
        return self.options.pair and s.low.name != "j" and (s.high.name == "j" or not s.sums)

    def sum_place(self, s: ScheduledCell, x: CellSum, c: int) -> Expression:
        """Where the inside pass leaves a sum of cell (i, j + c) for the outside pass."""
        index = Name("at.i", "int") * Name("pitch", "int") + (Name("at.j", "int") + c)
        return Name(f"sum.{self.tables.scheduled.index(s)}.{x.number}", "int") + index

    def plain_place(self, s: ScheduledCell, x: CellSum) -> Expression:
        """Where it says, among exponents, that a sum of the cell at hand was formed of plain numbers."""
        index = Name("at.i", "int") * Name("pitch", "int") + Name("at.j", "int")
        return Name(f"is.plain.{self.tables.scheduled.index(s)}.{x.number}", "int") + index

    @staticmethod
    def is_item(s: ScheduledCell, x: CellSum) -> bool:
        """Whether a sum is the value of an item."""
        terms = [(h, t) for h in s.heads for t in h.terms if t.sum is x]
        return not x.factored and all(len(h.terms) == 1 and not h.common for h, _ in terms)

    def sum_again(self, s: ScheduledCell, x: CellSum) -> Name:
        """The value of a sum of a point or of the goal, formed once more."""
        code = self.code
        name = f"again{x.number}"
        code.set(name, fill(0.0))
        for factors in x.ends:
            code.set(name, self.block(s).product(factors, Name(name, "lanes")))
        with self.places(s):
            code.set(name, self.block(s).product(x.core, Name(name, "lanes")))
        return Name(name, "lanes")

    def block(self, s: ScheduledCell) -> Block:
        """Code for a cell of a class."""
        limits = self.cells.limits(s.cell)
        if s.sums:
            limits += [*(s.low <= K).bounds, *(K <= s.high + 1).bounds]

        def distinct(a: tuple[Position, ...], b: tuple[Position, ...]) -> bool:
            equal = [bound for x, y in zip(a, b, strict=True) for bound in (*(x <= y).bounds, *(y <= x).bounds)]
            return not Bounds(["i", "j", "k"], [*limits, *equal]).possible

        return Block(self.tables, self.code, distinct, self.numbers)

    @staticmethod
    def is_constant(head: ScheduledHead) -> bool:
        """Whether an item is one, or a sum of ones, without weights."""
        return all(t.sum is None and all(f.table == GAUGE for f in t.factors) for t in head.terms)

    # ------------------------------------------------------------------ where

    @contextmanager
    def at_width(self, s: ScheduledCell, j: Expression) -> Iterator[None]:
        """The span of a fixed width that ends at j, if there is one."""
        assert s.cell.width is not None
        i = self.code.set("at.i", j - s.cell.width)
        with self.code.when(i >= self.first):
            yield

    @contextmanager
    def at_point(self, s: ScheduledCell, j: Expression) -> Iterator[None]:
        """The point j, if it is in the class."""
        with self.code.when(equal(j, s.cell.least) if s.cell.width is not None else j >= s.cell.least):
            yield

    @contextmanager
    def places(self, s: ScheduledCell) -> Iterator[None]:
        """The common range of the sums of a cell."""
        with self.code.loop("at.k", self.tables.at(s.low), self.tables.at(s.high) + 1):
            yield

    @contextmanager
    def lengths(self) -> Iterator[Name]:
        """The lengths of sentences; 1 in the lanes that have it."""
        with self.code.loop("at.n", 1, self.n + 1) as m:
            ends = self.code.let(MEMORY[Name("ends", "int") + m])
            with self.code.when(any_lane(ends)):
                yield ends

    # ------------------------------------------------------------------ numbers with exponents

    def pairs(self) -> Pairs:
        """Code with numbers m * 2**e at the positions at hand."""
        return Pairs(self.code, self.range)

    def pair_of(self, pairs: Pairs) -> Callable[[Ref], Pair]:
        """The values of items and of weights; these have exponents only where plain numbers will not do."""

        def found(f: Ref) -> Pair:
            cell = self.code.let(self.tables.cell(f))
            if f.is_item:
                return pairs.at(cell)
            e = self.code.let(EXPONENTS[cell])
            return pairs.of(select(equal(e, fill(0.0)), MEMORY[cell], MANTISSAS[cell]), e)

        return found

    def plain_pair_of(self, pairs: Pairs) -> Callable[[Ref], Pair]:
        """The same where nothing has an exponent."""
        return lambda f: pairs.of(MEMORY[self.tables.cell(f)])

    def mark(self) -> None:
        """From here on cells have exponents, and those that have none yet get them."""
        code, pairs = self.code, self.pairs()
        code.set(ARE_PLAIN.name, fill(1.0))
        with code.when(equal(MARKED, 0)):
            code.set(MARKED.name, 1)
            above = code.set("above", fill(0.0))
            with code.loop("x", 0, Name("items.end", "int")) as x:
                found = pairs.of(MEMORY[x])
                code.set(above.name, greatest(above, found.e - fill(self.range.most)))
                pairs.store(MEMORY, [x], found)
            # The sums so far are of plain numbers, unless some of these are no longer plain.
            code.set(ARE_PLAIN.name, select(any_lane(greatest(above, fill(0.0))), fill(0.0), fill(1.0)))
            with code.loop("x", Name("items.end", "int"), Name("plain.end", "int")) as x:
                code.put(EXPONENTS, x, ARE_PLAIN)

    def sum_with_exponents(self, s: ScheduledCell, x: CellSum, pair_of: PairOf) -> Pair:
        """A sum, aligned by its greatest term."""

        def terms(visit: Callable[[Pair], None]) -> None:
            pairs = self.pairs()
            for factors in x.ends:
                visit(pairs.product([*map(pair_of(pairs), factors)]))
            with self.places(s):
                visit(pairs.product([*map(pair_of(pairs), x.core)]))

        return self.pairs().total(terms, f"sum{x.number}")

    def head_with_exponents(self, head: ScheduledHead, sums: dict[int, Pair], pair_of: PairOf) -> Pair:
        """An item from sums."""
        pairs = self.pairs()
        terms = [
            pairs.product([*map(pair_of(pairs), t.factors), *([sums[t.sum.number]] if t.sum else [])])
            for t in head.terms
        ]

        def each(visit: Callable[[Pair], None]) -> None:
            for t in terms:
                visit(t)

        found = pairs.total(each, "head") if len(terms) > 1 else terms[0] if terms else pairs.of(fill(0.0))
        found = pairs.product([*map(pair_of(pairs), head.common), found])
        return pairs.of(found.m, found.e)


def shifted(f: Ref, c: int) -> Ref:
    """The reference for the column c steps from j."""
    return renamed(f, {"j": J + c}) if c else f
