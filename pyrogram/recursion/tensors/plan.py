# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""How the torch back end reads the cells of a class: which terms are slices of tables, and which need a grid.

Before:
    IR[i, j] += arc[i, j] * sum(k = i .. j - 1: RC[i, k] * LC[k + 1, j])
After:
    rows of RC times columns of LC, k from i to j - 1; no condition is left to check
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from ..rules.bounds import UNBOUNDED, Bounds
from ..rules.cells import CellClass, Cells, Head, Inner, Kind, Loop, Term, names_in
from ..rules.domains import ZERO, N
from ..rules.language import Bound, Position, Ref, Variable, Word
from .lists import own_row
from .tables import variables_of

I, J = Position("i"), Position("j")
_WIDE = 10**4  # a width greater than any offset


class Place(NamedTuple):
    """A position relative to the cell: i + offset, j + offset, or that of a summed k."""

    base: str
    offset: int

    def at(self, w: int) -> int:
        """Its distance from i, at width w."""
        return self.offset + w if self.base == "j" else self.offset


@dataclass
class Factor:
    """An item or a weight, its variables, and where its positions are: None for all that is no slice."""

    ref: Ref
    variables: tuple[Variable, ...]
    places: tuple[Place, ...] | None
    looped: bool


@dataclass
class Sum:
    """An inner sum of a class.

    :param wanted: its symbols: first the free ones, then those that are summed.
    :param low: the summed position of a sliced sum begins at the greatest of these.
    :param high: and ends at the least of these.
    :param bounds: what must hold where the sum is taken on a grid.
    """

    inner: Inner
    factors: list[Factor]
    sliced: bool
    wanted: tuple[Variable, ...]
    low: tuple[Place, ...]
    high: tuple[Place, ...]
    bounds: list[Bound]
    number: int = -1

    @property
    def loop(self) -> str | None:
        return self.inner.loops[0].name if self.inner.loops else None

    def range(self, w: int) -> tuple[int, int]:
        """The first and the last summed position, from i; (0, 0) for a sum over symbols alone."""
        if not self.sliced or not self.low:
            return 0, 0
        if len(self.low) == len(self.high) == 1:
            return self.low[0].at(w), self.high[0].at(w)
        return max(x.at(w) for x in self.low), min(x.at(w) for x in self.high)

    def reach(self, w: int) -> tuple[int, int]:
        """A range that has those of all cells that are no wider."""
        return (min(x.at(w) for x in self.low), max(x.at(w) for x in self.high)) if self.sliced and self.low else (0, 0)

    def alike(self) -> object:
        """Equal for sums that may be stacked: a product of a row and a column of items, with as many splits."""
        if not self.sliced or self.wanted or len(self.low) != 1 or len(self.high) != 1 or len(self.factors) != 2:
            return None
        if self.pair is None:
            return None
        (row, _), (_, column) = (x.places or () for x in self.pair)
        low, high = self.low[0], self.high[0]
        return low.base, high.base, high.offset - low.offset, row.offset, column.offset

    @cached_property
    def pair(self) -> tuple[Factor, Factor] | None:
        """The factor in rows, a span (i, k), and that in columns, a span (k, j)."""
        sides: list[Factor | None] = [None, None]
        for f in self.factors:
            if f.ref.is_item and f.places is not None and len(f.places) == 2:
                side = [x.base == "k" for x in reversed(f.places)]
                if True in side:
                    sides[side.index(True)] = f
        row, column = sides
        return None if row is None or column is None else (row, column)


@dataclass
class TermPlan:
    """A term, the widths at which it is one, and bounds on the positions of its cell that the class does not imply."""

    sum: Sum | None
    factors: list[Factor]
    wanted: tuple[Variable, ...]  # of the head, then those that are summed
    num_kept: int
    widths: tuple[int, int]
    conditions: list[Bound]


@dataclass
class HeadPlan:
    """An item of the cell; ``plain`` if its symbols are its variables."""

    symbols: tuple[object, ...]
    plain: bool
    terms: list[TermPlan]


@dataclass
class Level:
    """Items that need only those of earlier levels; by table, with the sums that they need."""

    sums: list[list[Sum]]
    tables: dict[str, list[HeadPlan]]


@dataclass
class ClassPlan:
    """The cells of a class, level by level; then heads that read their own table, one after the other."""

    cells: Cells
    cell: CellClass
    levels: list[Level]

    def covers(self, width: int) -> bool:
        return width == self.cell.width or (self.cell.width is None and width >= self.cell.least)


def plan(cells: Cells, cell: CellClass, heads: Sequence[Head]) -> ClassPlan:
    """Plan the cells of a class.

    :param heads: those of the class, or what :func:`.in_stages` makes of them.
    """
    sums: dict[Inner, tuple[Sum, int]] = {}
    levels: list[Level] = []
    level_of: dict[str, int] = {}
    for name, group in _by_table(cells, cell, heads):
        made = [HeadPlan(h.ref.symbols, _plain(h), []) for h in group]
        level = 0
        for head, head_plan in zip(group, made, strict=True):
            for term in head.terms:
                found = _term(cells, cell, head, term)
                level = max(level, _after(found.factors, cell, found.sum, level_of))
                if found.sum is not None:
                    new = found.sum, _after(found.sum.factors, cell, found.sum, level_of)
                    found.sum, own = sums.setdefault(found.sum.inner, new)
                    level = max(level, own)
                head_plan.terms.append(found)
        level_of[name] = level
        levels += [Level([], {}) for _ in range(level + 1 - len(levels))]
        levels[level].tables[name] = made
    alike: dict[object, list[Sum]] = {}
    for number, (x, level) in enumerate(sums.values()):
        x.number, key = number, x.alike()
        group_of = alike.setdefault((level, number if key is None else key), [])
        if not group_of:
            levels[level].sums.append(group_of)
        group_of.append(x)
    return ClassPlan(cells, cell, levels)


def _by_table(cells: Cells, cell: CellClass, heads: Sequence[Head]) -> list[tuple[str, list[Head]]]:
    """Heads of one table together; those that read their own table, each for itself, after them."""
    tables = dict.fromkeys(h.ref.table for h in heads)
    found: list[tuple[str, list[Head]]] = []
    for name in tables:
        own = [h for h in heads if h.ref.table == name]
        plain = [h for h in own if own_row(cells, cell, h) is None]
        found += [(name, plain)] if plain else []
        found += [(name, [h]) for h in own if own_row(cells, cell, h) is not None]
    return found


def _plain(head: Head) -> bool:
    return head.ref.symbols == variables_of(head.ref.symbols)


def _after(factors: Sequence[Factor], cell: CellClass, of: Sum | None, level_of: Mapping[str, int]) -> int:
    """The first level at which all factors are known."""
    w = _WIDE if cell.width is None else cell.width
    known = 0
    for f in factors:
        if f.ref.is_item and f.ref.table in level_of:
            least, greatest = (0, 0), w
            if f.places and not (f.looped and of is not None and not of.sliced):  # on a grid, k is anywhere
                # k may be as large as any of its bounds allows, if the others are larger in small cells.
                least = of.reach(w) if of is not None and f.looped else (0, 0)
                p, q = (Place("i", 0), *f.places)[-2:]
                greatest = (least[1] + q.offset if q.base == "k" else q.at(w)) - (
                    least[0] + p.offset if p.base == "k" else p.at(w)
                )
            if greatest >= w:
                known = max(known, level_of[f.ref.table] + 1)
    return known


def _term(cells: Cells, cell: CellClass, head: Head, term: Term) -> TermPlan:
    found = None
    if term.inner is not None:
        inner = term.inner
        factors = [_factor(f, cell.kind, inner.loops) for f in inner.factors]
        low, high = (
            [place(x, cell.kind, ()) for loop in inner.loops for x in getattr(loop, side)] for side in ("low", "high")
        )
        sliced = len(inner.loops) <= 1 and None not in low + high and all(f.places is not None for f in factors)
        wanted = (*inner.free, *inner.symbols)
        found = Sum(inner, factors, sliced, wanted, _known(low), _known(high), _of_loops(inner.loops))
    variables = variables_of(head.ref.symbols)
    outer = [_factor(f, cell.kind, ()) for f in term.factors]
    widths, conditions = _conditions(cells, cell, term)
    return TermPlan(found, outer, (*variables, *term.symbols), len(variables), widths, conditions)


def _known(places: Sequence[Place | None]) -> tuple[Place, ...]:
    return tuple(x for x in places if x is not None)


def _factor(f: Ref, kind: Kind, loops: Sequence[Loop]) -> Factor:
    names = {loop.name for loop in loops}
    words = [x.position for x in f.symbols if isinstance(x, Word)]
    looped = bool(names & names_in(f))
    if not f.is_item:
        here = {"span": {"", "i", "j"}, "point": {"", "j"}, "goal": {""}}[kind] | names
        fits = all(x.name in here for x in (*f.positions, *words))
        return Factor(f, variables_of(f.symbols), () if fits else None, looped)
    places = [place(x, kind, tuple(names)) for x in f.positions]
    bases = [x.base for x in places if x is not None]
    fits = len(bases) == len(places) and not words and not (kind == "span" and len(bases) == 1)
    fits &= bases not in (["j", "k"], ["k", "i"], ["k", "k"]) or (kind == "point" and bases == ["k", "i"])
    return Factor(f, variables_of(f.symbols), _known(places) if fits else None, looped)


def place(x: Position, kind: Kind, loops: Sequence[str]) -> Place | None:
    """Where a position is, from the cell; None if that depends on the sentence's length or is not a distance."""
    if x.name and x.name in loops:
        return Place("k", x.offset)
    if x.name == "j" and kind != "goal":
        return Place("j", x.offset)
    if x.name == {"span": "i", "point": ""}.get(kind):
        return Place("i", x.offset)
    return None


def _conditions(cells: Cells, cell: CellClass, term: Term) -> tuple[tuple[int, int], list[Bound]]:
    """The least and the greatest width of a term, and what its guard asks of the cell's positions beyond that."""
    other = I if cell.kind == "span" else ZERO
    least, greatest = cell.least, UNBOUNDED if cell.width is None else cell.width
    known = [*(ZERO + 1 <= N).bounds]
    for x in cell.positions:
        known += [*(ZERO + cells.first <= x).bounds, *(x <= N).bounds]
    if cell.kind != "goal":
        for b in term.guard:
            if (b.x, b.y) == (other.name, "j"):
                least = max(least, -b.most)
            if (b.x, b.y) == ("j", other.name):
                greatest = min(greatest, b.most)
        known += [*(other + least <= J).bounds, *(J <= other + greatest).bounds]
    names = [x.name for x in cell.positions]
    left: list[Bound] = []
    for b in term.guard:
        if Bounds(names, [*known, *left]).most(Position(b.x), Position(b.y)) > b.most:
            left.append(b)
    return (least, greatest), left


def _of_loops(loops: Sequence[Loop]) -> list[Bound]:
    """What holds for summed positions."""
    found: list[Bound] = []
    for loop in loops:
        x = Position(loop.name)
        found += [b for low in loop.low for b in (low <= x).bounds]
        found += [b for high in loop.high for b in (x <= high).bounds]
    return found
