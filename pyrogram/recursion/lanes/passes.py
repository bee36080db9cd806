# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What the inside and the outside pass share: classes of cells, blocks of code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ..machine.expressions import Expression, Name, any_lane, equal, greatest, value
from ..machine.statements import Code
from ..rules.bounds import Bounds
from ..rules.cells import Cells, J, renamed
from ..rules.language import Position, Ref
from .blocks import Block
from .numbers import Number, Numbers
from .schedule import CellSum, K, ScheduledCell, ScheduledHead
from .tables import GAUGE, MEMORY, Tables


@dataclass
class Options:
    """Which passes are applied.

    :param pair: two columns at a time.
    :param columns: columns that are filled together, times the length; 0 for as many as fit into a cache of 32 KB with
        their adjoints.
    """

    pair: bool = True
    columns: int = 0


@dataclass
class Pass:
    """Code of a pass over the cells. The variable ``n`` is the length of the longest sentence."""

    tables: Tables
    code: Code
    numbers: Numbers
    options: Options

    def __post_init__(self) -> None:
        self.cells: Cells = self.tables.cells
        spans = [s for s in self.tables.scheduled if s.cell.kind == "span"]
        self.fixed = [s for s in spans if s.cell.width is not None]
        self.rest = next((s for s in spans if s.cell.width is None), None)
        self.points = [s for s in self.tables.scheduled if s.cell.kind == "point"]
        self.goal = [s for s in self.tables.scheduled if s.cell.kind == "goal"]
        self.first = self.cells.first
        self.n = Name("n", "int")

    def set_width(self) -> Name:
        """How many columns are filled together: whole pairs."""
        tables = sum("column" in sides for sides in self.tables.sides.values())
        pairs = value(self.options.columns or 256 // max(1, tables)) // greatest(self.n, 1) // 2
        return self.code.set("width", greatest(1, pairs) * 2 if self.rest is not None else value(1))

    def in_pairs(self, s: ScheduledCell) -> bool:
        """Whether two columns can be filled in one loop: if their ranges differ by one k at the end."""
        return self.options.pair and s.low.name != "j" and (s.high.name == "j" or not s.sums)

    def sum_place(self, s: ScheduledCell, x: CellSum, c: int) -> Expression:
        """Where the inside pass leaves a sum of cell (i, j + c) for the outside pass."""
        index = Name("at.i", "int") * Name("pitch", "int") + (Name("at.j", "int") + c)
        return Name(f"sum.{self.tables.scheduled.index(s)}.{x.number}", "int") + index

    def sum_again(self, s: ScheduledCell, x: CellSum) -> Number:
        """The value of a sum of a point or of the goal, formed once more."""
        numbers, name = self.numbers, f"again{x.number}"
        numbers.set(name, numbers.zero)
        for factors in x.ends:
            numbers.set(name, self.block(s).product(factors, numbers.get(name)))
        with self.places(s):
            numbers.set(name, self.block(s).product(x.core, numbers.get(name)))
        return numbers.get(name)

    def block(self, s: ScheduledCell, numbers: Numbers | None = None) -> Block:
        """Code for a cell of a class."""
        limits = self.cells.limits(s.cell)
        if s.sums:
            limits += [*(s.low <= K).bounds, *(K <= s.high + 1).bounds]

        def distinct(a: tuple[Position, ...], b: tuple[Position, ...]) -> bool:
            equal = [bound for x, y in zip(a, b, strict=True) for bound in (*(x <= y).bounds, *(y <= x).bounds)]
            return not Bounds(["i", "j", "k"], [*limits, *equal]).possible

        return Block(self.tables, self.code, distinct, numbers or self.numbers)

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


def shifted(f: Ref, c: int) -> Ref:
    """The reference for the column c steps from j."""
    return renamed(f, {"j": J + c}) if c else f
