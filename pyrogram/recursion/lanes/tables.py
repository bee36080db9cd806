# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Where cells, adjoints and weights lie in the memory of lanes.

An item is kept by rows (i, j), by columns (j, i), or both, as sums over k read it: neighbours in k are then neighbours
in memory. A table by columns needs the lower triangle of a square, one by rows the upper: they share one, the columns a
row below. A weight has a table for each way in which rules speak of it, indexed by its positions and those of its
words: ``attach[w[i], 1, w[j]]`` is at (i, j) of the table ``attach[*, 1, *]``. Tables that differ only in constant
symbols, ``arc[*, *, 0]`` and ``arc[*, *, 1]``, take turns, as the numbers that they are filled with do.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from ..machine.expressions import Array, Expression, Name, value, within
from ..machine.statements import Code
from ..rules.bounds import Bounds
from ..rules.cells import Cells, renamed
from ..rules.domains import constraints
from ..rules.language import Bound, Constant, Position, Ref, Symbol, Word
from .schedule import ScheduledCell, ScheduledHead, schedule

MEMORY = Array("memory", "lanes")
GAUGE = "power of a word"  # a weight that no page gives, see :mod:`.gauge`
Side = str  # "row" or "column"


Index = int | Literal["all"] | None
"""Of an axis of a weight: a constant, all symbols, or None for a position or the word at a position."""


@dataclass(frozen=True)
class WeightCells:
    """The lanes of a weight as some rules speak of it.

    :param table: of the recursion.
    :param indices: by axis of the table.
    """

    table: str
    indices: tuple[Index, ...]

    @property
    def num_axes(self) -> int:
        return self.indices.count(None)

    @property
    def name(self) -> str:
        return f"{self.table}[{', '.join('*' if x is None else str(x) for x in self.indices)}]"


def weight_cells(ref: Ref) -> WeightCells:
    """The table of lanes that a weight is in."""
    positions = tuple(None if x.name else x.offset for x in ref.positions)
    return WeightCells(ref.table, positions + tuple(map(_index, ref.symbols)))


def _index(x: Symbol) -> Index:
    if isinstance(x, Constant):
        return x.value
    return None if isinstance(x, Word) else "all"


def axes(ref: Ref) -> tuple[Position, ...]:
    """The positions that a weight is indexed by."""
    words = tuple(x.position for x in ref.symbols if isinstance(x, Word))
    return tuple(x for x in ref.positions if x.name) + words


def scratch_of(table: str) -> tuple[Name, Name]:
    """Where the weights of a table at each word are added up, and counted."""
    return Name(f"sums of {table}", "int"), Name(f"counts of {table}", "int")


Instances = tuple[Ref, tuple[str, ...], list[Bound]]
"""A weight with the names of positions, and what holds for them."""


def _differ(one: Instances, other: Instances) -> bool:
    """Whether no two instances speak of the same element of a weight."""
    (f, names, given), (g, other_names, others) = one, other
    primed = {x: Position(f"{x}'") for x in other_names}
    given = list(given)
    for b in others:
        at, elsewhere = (primed.get(x, Position(x)).name for x in (b.x, b.y))
        given.append(Bound(at, elsewhere, b.most))
    for here, there in zip(axes(f), axes(renamed(g, primed)), strict=True):
        given += [*(here <= there).bounds, *(there <= here).bounds]
    return not Bounds([*names, *(x.name for x in primed.values())], given).possible


@dataclass
class Tables:
    """The layout of a recursion without symbols in items."""

    cells: Cells
    scheduled: list[ScheduledCell] = field(init=False)
    sides: dict[str, list[Side]] = field(init=False)
    weights: dict[WeightCells, list[Ref]] = field(init=False)

    def __post_init__(self) -> None:
        self.scheduled = [schedule(c) for c in self.cells.classes]
        self.sides = self._sides()
        self.weights = {}
        for ref in self._refs():
            if not ref.is_item:
                known = self.weights.setdefault(weight_cells(ref), [])
                if ref not in known:
                    known.append(ref)
        self.families: dict[tuple[str, tuple[Index, ...]], list[WeightCells]] = {}
        """Tables that take turns, by their table and its positions."""
        for w in self.weights:
            self.families.setdefault((w.table, w.indices[: self.cells.arity[w.table]]), []).append(w)
        self.turns = {w: self._turns(w) for w in self.weights}
        """How many tables take turns with one, and which turn it has."""
        unique = {key for key in self.weights if self._is_unique(key)}
        self.unique = {w for family in self.families.values() for w in family if unique.issuperset(family)}
        """Weights each element of which stands in one place of one cell: their posteriors are not sums, and take their
        place."""

    def _turns(self, w: WeightCells) -> tuple[int, int]:
        sizes = self.cells.recursion.tables[w.table].sizes
        count, turn = 1, 0
        for x, size in zip(w.indices[len(w.indices) - len(sizes) :], sizes, strict=True):
            if isinstance(x, int) and isinstance(size, int):
                count, turn = count * size, turn * size + x
            else:  # words: a table of its own
                return 1, 0
        return count, turn

    def _is_unique(self, key: WeightCells) -> bool:
        found: list[tuple[Instances, ScheduledHead | None]] = []  # with the head whose common factor it is
        for scheduled in self.scheduled:
            cell = scheduled.cell
            here = {x.name for x in cell.positions}
            for head, planned in zip(cell.heads, scheduled.heads, strict=True):
                for term in head.terms:
                    inner = term.inner.factors if term.inner else ()
                    for f in (f for f in term.all_factors if not f.is_item and weight_cells(f) == key):
                        summed = {loop.name for loop in term.loops} if f in inner else set()
                        if cell.kind == "goal" or not here | summed <= {x.name for x in axes(f)}:
                            return False  # it is evaluated again and again
                        # A factor of a sum is evaluated wherever its cells are, and be the sum empty.
                        limits = self.cells.limits(cell)
                        if f in inner:
                            limits = list(constraints(term.rule, self.cells.first, self.cells.domains) or [])
                        names = (*dict.fromkeys((*term.rule.positions, "i", "j")),)
                        found.append(((f, names, limits), planned if f in planned.common else None))
        for x, (instances, head_of) in enumerate(found):
            for other, other_head in found[:x]:
                if (head_of is None or head_of is not other_head) and not _differ(instances, other):
                    return False
        return True

    def _refs(self) -> Iterator[Ref]:
        for s in self.scheduled:
            for step in s.sums:
                for factors in (step.core, *step.ends):
                    yield from factors
            for head in s.heads:
                yield head.ref
                yield from head.common
                for t in head.terms:
                    yield from t.factors

    def _sides(self) -> dict[str, list[Side]]:
        found: dict[str, set[Side]] = {}
        for s in self.scheduled:
            for total in s.sums:
                for f in total.core:
                    if f.is_item and len(f.positions) == 2:
                        if f.positions[0].name == "k" and s.cell.kind == "span":
                            found.setdefault(f.table, set()).add("column")
                        if f.positions[1].name == "k" and s.cell.kind == "span":
                            found.setdefault(f.table, set()).add("row")
        for s in self.scheduled:
            for head in s.heads:
                found.setdefault(head.ref.table, {"row"})
        return {table: sorted(sides, reverse=True) for table, sides in found.items()}

    # ------------------------------------------------------------------ places

    def place(self, code: Code) -> Expression:
        """Set a variable for the beginning of each table; returns the number of cells of all."""
        pitch = Name("pitch", "int")
        square = code.set("square", pitch * (pitch + 1))
        total: Expression = value(0)
        total = self._place_items(code, "", total, square)
        for c, s in enumerate(self.scheduled):
            for x in s.sums if s.cell.kind == "span" else ():
                if x.factored:
                    code.set(f"sum.{c}.{x.number}", total)
                    total = code.set("total", total + square)
        total = self._place_items(code, "d", total, square)
        code.set("weights.begin", total)
        for family in self.families.values():
            together = [w for w in family if self.turns[w][0] > 1]
            for group in ([together] if together else []) + [[w] for w in family if w not in together]:
                total = self._place_weights(code, group, total)
        code.set("weights.end", total)
        scratch = [x.name for table in dict.fromkeys(w.table for w in self.weights) for x in scratch_of(table)]
        for name in ("ends", *scratch):
            code.set(name, total)
            total = code.set("total", total + pitch)
        for name in ("z", "z.exponent", "gauge"):
            code.set(name, total)
            total = total + 1
        return code.set("total", total)

    def _place_items(self, code: Code, prefix: str, total: Expression, square: Expression) -> Expression:
        pitch = Name("pitch", "int")
        rows = [t for t, sides in self.sides.items() if "row" in sides and self.cells.arity[t] == 2]
        columns = [t for t, sides in self.sides.items() if "column" in sides]
        for x in range(max(len(rows), len(columns))):
            if x < len(rows):
                code.set(f"{prefix}{rows[x]}.row", total)
            if x < len(columns):
                code.set(f"{prefix}{columns[x]}.column", total + pitch)
            total = code.set("total", total + square)
        for t in self.sides:
            if self.cells.arity[t] == 1:
                code.set(f"{prefix}{t}.row", total)
                total = code.set("total", total + pitch)
        return total

    def _place_weights(self, code: Code, group: list[WeightCells], total: Expression) -> Expression:
        """Tables that take turns, and their adjoints: in the same place, if they are no sums."""
        size: Expression = value(self.turns[group[0]][0])
        for _ in range(group[0].num_axes):
            size = size * Name("pitch", "int")
        adjoints = total if group[0] in self.unique else total + size
        for w in group:
            code.set(w.name, total + self.turns[w][1])
            code.set(f"d{w.name}", adjoints + self.turns[w][1])
        return code.set("total", adjoints + size)

    def at(self, x: Position) -> Expression:
        """A position as a number."""
        return Name(f"at.{x.name}", "int") + x.offset if x.name else value(x.offset)

    def cell(self, ref: Ref, side: Side | None = None, adjoint: bool = False) -> Expression:
        """The number of an item's cell, or of a weight's."""
        prefix, pitch = "d" if adjoint else "", Name("pitch", "int")
        if not ref.is_item:
            index: Expression = value(0)
            for x in axes(ref):
                index = index * pitch + within(self.at(x), 0, pitch)
            w = weight_cells(ref)
            return Name(f"{prefix}{w.name}", "int") + index * self.turns[w][0]
        side = side or self.side(ref)
        start = Name(f"{prefix}{ref.table}.{side}", "int")
        if len(ref.positions) == 1:
            return start + within(self.at(ref.positions[0]), 0, pitch)
        low, high = map(self.at, ref.positions)
        i = within(low, 0, pitch)
        j = within(high, low, pitch)  # a table by rows and one by columns share a square
        return start + (j * pitch + i if side == "column" else i * pitch + j)

    def side(self, ref: Ref) -> Side:
        """Where a factor is read, and its adjoint written."""
        sides = self.sides[ref.table]
        if len(sides) == 1:
            return sides[0]
        a, b = ref.positions
        if a.name == "k":
            return "column"
        if b.name == "k":
            return "row"
        return "row" if a.name == "i" and not a.offset else "column"

    @contextmanager
    def elements(self, code: Code, w: WeightCells) -> Iterator[None]:
        """Loops over the elements of a table of weights within a sentence; their number is in ``element``."""
        with self._nest(code, w.num_axes, value(0), 0):
            yield

    @contextmanager
    def _nest(self, code: Code, depth: int, index: Expression, level: int) -> Iterator[None]:
        if depth == 0:
            code.set("element", index)
            yield
            return
        with (
            code.loop(f"axis.{level}", 0, Name("n", "int") + 1) as x,
            self._nest(code, depth - 1, index * Name("pitch", "int") + x, level + 1),
        ):
            yield
