# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The sums of a cell: each formed once, all over one range.

Before, for plain projective trees, spans of width 1 and more:

    IR[i, j] += arc[i, j] * sum(k = i .. j - 1: RC[i, k] * LC[k + 1, j])
    IL[i, j] += arc[j, i] * sum(k = i .. j - 1: RC[i, k] * LC[k + 1, j])
    RC[i, j] += sum(k = i + 1 .. j: IR[i, k] * RC[k, j])
    LC[i, j] += sum(k = i .. j - 1: LC[i, k] * IL[k, j])

After: k = i + 1 .. j - 1 for all three sums, and beside it the terms of their ends:

    S0 = RC[i, i] * LC[i + 1, j] + sum(RC[i, k] * LC[k + 1, j]);  IR[i, j] = arc[i, j] * S0;  IL[i, j] = arc[j, i] * S0
    S1 = sum(IR[i, k] * RC[k, j]) + IR[i, j] * RC[j, j];          RC[i, j] = S1
    S2 = LC[i, i] * IL[i, j] + sum(LC[i, k] * IL[k, j]);          LC[i, j] = S2
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ..rules.cells import CellClass, Cells, Inner, lower, renamed
from ..rules.domains import ZERO
from ..rules.language import InvalidRecursion, Position, Recursion, Ref

K = Position("k")


@dataclass
class CellSum:
    """A sum of a cell over ``k``: the terms of the common range, and those of the ends of its own.

    :param core: the factors at k.
    :param ends: the factors at each place that is not in the common range.
    :param factored: whether some term multiplies it by further factors, so that its value is needed afterwards.
    """

    number: int
    core: tuple[Ref, ...]
    ends: list[tuple[Ref, ...]]
    factored: bool = False


@dataclass
class ScheduledTerm:
    """Factors, times a sum.

    :param is_axiom: whether its rule has no items.
    """

    factors: tuple[Ref, ...]
    sum: CellSum | None
    is_axiom: bool = False


@dataclass
class ScheduledHead:
    """An item at the cell, and the terms that it is the sum of."""

    ref: Ref
    terms: list[ScheduledTerm]


@dataclass
class ScheduledCell:
    """A class of cells as a sequence of steps: sums are closed just before their first use.

    :param low: the first k of the common range of all sums.
    :param high: its last k.
    """

    cell: CellClass
    steps: list[CellSum | ScheduledHead] = field(default_factory=list)
    low: Position = ZERO
    high: Position = ZERO

    @property
    def sums(self) -> list[CellSum]:
        return [s for s in self.steps if isinstance(s, CellSum)]

    @property
    def heads(self) -> list[ScheduledHead]:
        return [s for s in self.steps if isinstance(s, ScheduledHead)]


def fits_lanes(recursion: Recursion) -> bool:
    """Whether a recursion can be run in lanes: it is simple, and has an order when items begin with zeros."""
    try:
        return is_simple(lower(recursion, widen=True))
    except InvalidRecursion:
        return False


def is_simple(cells: Cells) -> bool:
    """Whether the recursion is of this kind: items without symbols, sums over one position with one range, and rules
    that hold in all cells of a class.
    """
    if any(cells.sizes.values()):
        return False
    for cell in cells.classes:
        for head in cell.heads:
            for term in head.terms:
                loops = term.loops
                if (
                    term.guard
                    or (term.inner and not term.inner.factors)
                    or term.all_symbols
                    or len(loops) > 1
                    or any(len(x.low) > 1 or len(x.high) > 1 for x in loops)
                ):
                    return False
                if cell.kind == "goal" and any(not f.positions for f in term.rule.items):
                    return False
        if not _has_common_range(cell):
            return False
    return True


def _has_common_range(cell: CellClass) -> bool:
    """Whether the sums of a cell have a common range, beside which no end is met twice or lies beyond its sum."""
    inners = [term.inner for head in cell.heads for term in head.terms if term.inner]
    if not inners:
        return True
    first, last, least = {
        "span": ("i", "j", cell.least),
        "point": ("", "j", cell.least),
        "goal": ("", "n", 1),
    }[cell.kind]
    if any(x.loops[0].low[0].name != first or x.loops[0].high[0].name != last for x in inners):
        return False
    low, high = _common_range(cell, inners)
    return low.offset <= least + high.offset + 1


def schedule(cell: CellClass) -> ScheduledCell:
    """Share equal sums, and split all of them into a common range and ends."""
    made = ScheduledCell(cell)
    found: dict[str, tuple[CellSum, Inner]] = {}
    for head in cell.heads:
        terms = []
        for term in head.terms:
            shared = None
            if term.inner is not None:
                key = str(_canonical(term.inner))
                if key not in found:
                    shared = CellSum(len(found), (), [])
                    found[key] = shared, _canonical(term.inner)
                    made.steps.append(shared)
                shared = found[key][0]
                shared.factored |= bool(term.factors)
            terms.append(ScheduledTerm(term.factors, shared, not term.rule.items))
        made.steps.append(ScheduledHead(head.ref, terms))
    if found:
        _split(made, cell, list(found.values()))
    return made


def _canonical(inner: Inner) -> Inner:
    """The sum with k for its position."""
    (loop,) = inner.loops
    names = {loop.name: K}
    factors = tuple(renamed(f, names) for f in inner.factors)
    return replace(inner, loops=(replace(loop, name="k"),), factors=factors)


def _common_range(cell: CellClass, inners: Sequence[Inner]) -> tuple[Position, Position]:
    """The range that all sums have, without what reads this very cell: it comes after the cell is made."""
    lows, highs = [], []
    for inner in inners:
        (loop,) = inner.loops
        low, high = loop.low[0], loop.high[0]
        lows += [low, *(low + 1 for f in inner.factors if _is_here(cell, f, loop.name, low))]
        highs += [high, *(high - 1 for f in inner.factors if _is_here(cell, f, loop.name, high))]
    return max(lows, key=lambda x: x.offset), min(highs, key=lambda x: x.offset)


def _is_here(cell: CellClass, f: Ref, name: str, k: Position) -> bool:
    return f.is_item and renamed(f, {name: k}).positions == cell.positions


def _split(made: ScheduledCell, cell: CellClass, found: list[tuple[CellSum, Inner]]) -> None:
    lows = [inner.loops[0].low[0] for _, inner in found]
    highs = [inner.loops[0].high[0] for _, inner in found]
    made.low, made.high = _common_range(cell, [inner for _, inner in found])
    for (shared, inner), low, high in zip(found, lows, highs, strict=True):
        shared.core = inner.factors
        places = [low + t for t in range(made.low.offset - low.offset)]
        places += [made.high + 1 + t for t in range(high.offset - made.high.offset)]
        shared.ends = [tuple(renamed(f, {"k": k}) for f in inner.factors) for k in places]
