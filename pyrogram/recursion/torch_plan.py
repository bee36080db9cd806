# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""How the torch back end reads the cells of a class: which terms are slices of tables, and which need a grid.

Before:
    IR[i, j] += arc[i, j] * sum(k = i .. j - 1: RC[i, k] * LC[k + 1, j])
After:
    rows of RC times columns of LC, k from i to j - 1; no condition is left to check
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from .bounds import Bounds
from .cells import CellClass, Cells, Head, Inner, Kind, Loop, Term
from .domains import N, ZERO, constraints
from .language import Bound, Entry, InvalidRecursion, Position, Ref, Variable, Word
from .torch_tables import variables_of

I, J = Position("i"), Position("j")


class Place(NamedTuple):
    """A position relative to the cell: i + offset, j + offset, or k + offset."""

    base: str
    offset: int

    def at(self, w: int) -> int:
        """Its distance from i, at width w."""
        return self.offset + (w if self.base == "j" else 0)


@dataclass
class TermPlan:
    """A term of the cells of a class.

    :param sliced: whether all items are slices of tables; else they are read on a grid.
    :param low: the summed position of a sliced term begins at the greatest of these.
    :param high: and ends at the least of these.
    :param conditions: bounds on the positions of the cell that its class does not imply.
    """

    term: Term
    kind: Kind
    sliced: bool
    low: tuple[Place, ...]
    high: tuple[Place, ...]
    conditions: list[Bound]
    bounds: list[Bound]

    @property
    def loop(self) -> str | None:
        return self.term.loops[0].name if self.term.loops else None

    def place(self, x: Position) -> Place:
        found = place(x, self.kind, self.loop)
        assert found is not None
        return found

    def range(self, w: int) -> tuple[int, int]:
        """The first and the last summed position, from i."""
        return max(x.at(w) for x in self.low), min(x.at(w) for x in self.high)

    @cached_property
    def stack(self) -> tuple[Ref, Ref] | None:
        """The items in rows and in columns, if the sum is a product of one each without symbols."""
        if not self.sliced or self.loop is None or self.term.inner is None or self.kind != "span":
            return None
        factors = self.term.inner.factors
        if len(factors) != 2 or not all(f.is_item and not f.symbols for f in factors):
            return None
        rows = [f for f in factors if f.positions[1].name == self.loop]
        columns = [f for f in factors if f.positions[0].name == self.loop]
        return (rows[0], columns[0]) if len(rows) == len(columns) == 1 else None


def place(x: Position, kind: Kind, loop: str | None) -> Place | None:
    """Where a position is, from the cell; None if that depends on the sentence's length or is not a distance."""
    if x.name and x.name == loop:
        return Place("k", x.offset)
    if x.name == "j" and kind != "goal":
        return Place("j", x.offset)
    if x.name == {"span": "i", "point": ""}.get(kind):
        return Place("i", x.offset)
    return None


@dataclass
class ClassPlan:
    """The terms of the cells of a class, by head."""

    cells: Cells
    cell: CellClass
    heads: list[tuple[Head, list[TermPlan]]] = field(default_factory=list)

    @staticmethod
    def of(cells: Cells, cell: CellClass, heads: Sequence[Head] | None = None) -> ClassPlan:
        heads = cell.heads if heads is None else heads
        return ClassPlan(cells, cell, [(h, [_plan(cells, cell, t) for t in h.terms]) for h in heads])

    @property
    def terms(self) -> list[TermPlan]:
        return [t for _, terms in self.heads for t in terms]

    @property
    def follows_lists(self) -> bool:
        """Whether rows of a list read their own cell."""
        return any(_own_row(head) is not None for head, _ in self.heads)

    def covers(self, width: int) -> bool:
        return width == self.cell.width or (self.cell.width is None and width >= self.cell.least)

    def in_stages(self, lists: dict[str, list[int]]) -> tuple[ClassPlan, dict[str, list[int]]]:
        """Rules of a list that read their own cell, one head for each stage: a stage reads what those before it give.

        :returns: the plan, and new lists of rows that it speaks of.
        """
        heads: list[Head] = []
        more: dict[str, list[int]] = {}
        for head, _ in self.heads:
            row = _own_row(head)
            if row is None:
                heads.append(head)
                continue
            for stage, rows in enumerate(_stages(head, lists)):
                name = f"{row.name}:{head.ref}:{stage}"
                more |= {f"{column}:{name}": [values[r] for r in rows] for column, values in lists.items()}
                more[name] = rows
                heads.append(_restricted(head, row, name, len(rows)))
        heads.sort(key=lambda h: [x.ref.table for x in self.cell.heads].index(h.ref.table))
        return ClassPlan.of(self.cells, self.cell, heads), more


def _plan(cells: Cells, cell: CellClass, term: Term) -> TermPlan:
    loops = term.loops
    name = loops[0].name if loops else None
    low, high = (tuple(place(x, cell.kind, None) for loop in loops for x in getattr(loop, side)) for side in ("low", "high"))
    sliced = cell.kind != "goal" and len(loops) <= 1 and None not in low + high
    for f in term.all_factors:
        found = [place(x, cell.kind, name) for x in f.positions]
        if f.is_item:
            sliced &= None not in found and not (cell.kind == "span" and len(found) == 1)
            sliced &= [x.base for x in found if x] not in (["j", "k"], ["k", "i"], ["k", "k"])
            sliced &= not any(isinstance(x, Word) for x in f.symbols)
        else:
            words = (x.position for x in f.symbols if isinstance(x, Word))
            sliced &= all(x.name != "n" for x in (*f.positions, *words))
    return TermPlan(
        term,
        cell.kind,
        sliced,
        tuple(x for x in low if x),
        tuple(x for x in high if x),
        _conditions(cells, cell, term, ()),
        _conditions(cells, cell, term, [loop.name for loop in loops]),
    )


def _conditions(cells: Cells, cell: CellClass, term: Term, loops: Sequence[str]) -> list[Bound]:
    """What the rule asks of the positions of the cell and of some loops, beyond what holds for all cells of the class."""
    here = list(cell.positions)
    usual = [*(ZERO + 1 <= N).bounds]
    for a, b in zip([ZERO + cells.first, *here], [*here, N], strict=True):
        usual += (a <= b).bounds
    if cell.kind != "goal":
        other = I if cell.kind == "span" else ZERO
        usual += (other + cell.least <= J).bounds
    names = [*(x.name for x in here), *loops]
    given = Bounds([*term.rule.positions, *names], constraints(term.rule, cells.first, cells.domains) or [])
    implied = Bounds(names, usual)
    pairs = [(Position(x), Position(y)) for x in ("", "n", *names) for y in ("", "n", *names)]
    return [Bound(x.name, y.name, given.most(x, y)) for x, y in pairs if given.most(x, y) < implied.most(x, y)]


# ---------------------------------------------------------------------- lists whose rows read their own cell


def _own_row(head: Head) -> Variable | None:
    """The row of a list that gives the order within a cell: X[i, j, D[u]] += unary[u] * X[i, j, E[u]]."""
    rows = {x.row for x in head.ref.symbols if isinstance(x, Entry)}
    for term in head.terms:
        for f in term.all_factors:
            shared = rows & {x.row for x in f.symbols if isinstance(x, Entry)}
            if f.table == head.ref.table and shared:
                return shared.pop()
    return None


def _stages(head: Head, lists: dict[str, list[int]]) -> list[list[int]]:
    """Rows in groups: each after all that make what it reads.

    :raises InvalidRecursion: if a row needs itself.
    """
    row = _own_row(head)
    assert row is not None
    own = next(f for t in head.terms for f in t.all_factors if f.table == head.ref.table)
    pairs = [
        (lists[x.column], lists[y.column])
        for x, y in zip(head.ref.symbols, own.symbols, strict=True)
        if isinstance(x, Entry) and isinstance(y, Entry)
    ]
    made = [tuple(x[r] for x, _ in pairs) for r in range(len(pairs[0][0]))]
    read = [tuple(y[r] for _, y in pairs) for r in range(len(made))]
    left, stages = set(range(len(made))), []
    while left:
        waiting = {made[r] for r in left}
        stage = [r for r in sorted(left) if read[r] not in waiting]
        if not stage:
            raise InvalidRecursion(f"{head.ref}: row {min(left)} of the list needs itself by way of other rows")
        stages.append(stage)
        left -= set(stage)
    return stages


def _restricted(head: Head, row: Variable, name: str, count: int) -> Head:
    """The head for some rows of a list only."""
    chosen = Variable(f"{row.name}'", count)

    def ref(r: Ref) -> Ref:
        def symbol(x: object) -> object:
            if x == row:
                return Entry(name, chosen)
            return Entry(f"{x.column}:{name}", chosen) if isinstance(x, Entry) and x.row == row else x

        return replace(r, symbols=tuple(map(symbol, r.symbols)))

    def term(t: Term) -> Term:
        names = lambda found: tuple(chosen if v == row else v for v in found)  # noqa: E731
        inner = t.inner and Inner(
            t.inner.loops, names(t.inner.symbols), tuple(map(ref, t.inner.factors)), names(t.inner.free)
        )
        return Term(tuple(map(ref, t.factors)), inner, names(t.symbols), t.rule)

    return Head(ref(head.ref), [term(t) for t in head.terms])
