# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What the inside and the outside pass share: classes of cells, blocks of code, sums."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ..machine.expressions import Expression, Name, equal, fill
from ..machine.statements import Code
from ..rules.bounds import Bounds
from ..rules.cells import Cells, J, renamed
from ..rules.language import Position, Ref
from .arithmetic import Arithmetic
from .blocks import Block
from .scaling import Columns
from .schedule import CellSum, K, ScheduledCell, ScheduledTerm
from .tables import Tables


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
    columns: Columns | None
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

    def brings(self, t: ScheduledTerm) -> bool:
        """Whether a rule brings the factor of its column."""
        return self.columns is not None and id(t.source) in self.columns.bringing

    def in_pairs(self, s: ScheduledCell) -> bool:
        """Whether two columns can be filled in one loop: if their ranges differ by one k at the end."""
        return self.options.pair and s.low.name != "j" and (s.high.name == "j" or not s.sums)

    def sum_place(self, s: ScheduledCell, x: CellSum, c: int) -> Expression:
        """Where the inside pass leaves a sum of cell (i, j + c) for the outside pass."""
        index = Name("at.i", "int") * Name("pitch", "int") + (Name("at.j", "int") + c)
        return Name(f"sum.{self.tables.scheduled.index(s)}.{x.number}", "int") + index

    def sum_again(self, s: ScheduledCell, x: CellSum) -> Name:
        """The value of a sum of a point or of the goal, formed once more."""
        code = self.code
        name = f"again{x.number}"
        code.set(name, fill(0.0))
        for factors in x.ends:
            code.set(name, self.block(s).product(factors, Name(name, "lanes")))
        with code.loop("at.k", self.tables.at(s.low), self.tables.at(s.high) + 1):
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


def shifted(f: Ref, c: int) -> Ref:
    """The reference for the column c steps from j."""
    return renamed(f, {"j": J + c}) if c else f
