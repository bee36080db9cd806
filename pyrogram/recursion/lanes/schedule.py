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

from ..rules.cells import CellClass, Cells, Inner, Term, renamed
from ..rules.domains import ZERO
from ..rules.language import InvalidRecursion, Position, Ref
from ..rules.lowering import lower
from ..rules.recursions import Recursion

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

    :param source: the term of the cell that it is.
    """

    factors: tuple[Ref, ...]
    sum: CellSum | None
    source: Term


@dataclass
class ScheduledHead:
    """An item at the cell: common factors, times the sum of terms."""

    ref: Ref
    terms: list[ScheduledTerm]
    common: tuple[Ref, ...] = ()


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
    if not any(term.inner for head in cell.heads for term in head.terms):
        return True
    first, last, least = {
        "span": ("i", "j", cell.least),
        "point": ("", "j", cell.least),
        "goal": ("", "n", 1),
    }[cell.kind]
    inners = _aligned(cell)
    if any(x.loops[0].low[0].name != first or x.loops[0].high[0].name != last for x in inners):
        return False
    low, high = _common_range(cell, inners)
    return low.offset <= least + high.offset + 1


def schedule(cell: CellClass) -> ScheduledCell:
    """Share equal sums, and split all of them into a common range and ends."""
    made = ScheduledCell(cell)
    found: dict[str, tuple[CellSum, Inner]] = {}
    inners = iter(_aligned(cell))
    for head in cell.heads:
        terms = []
        for term in head.terms:
            shared = None
            if term.inner is not None:
                inner = next(inners)
                if str(inner) not in found:
                    shared = CellSum(len(found), (), [])
                    found[str(inner)] = shared, inner
                    made.steps.append(shared)
                shared = found[str(inner)][0]
                shared.factored |= bool(term.factors)
            terms.append(ScheduledTerm(term.factors, shared, term))
        made.steps.append(ScheduledHead(head.ref, terms, _take_common(cell, terms)))
    if found:
        _split(made, cell, list(found.values()))
    return made


def _take_common(cell: CellClass, terms: Sequence[ScheduledTerm]) -> tuple[Ref, ...]:
    """Weights that are factors of all terms, which lose them: ``w * (a + b)`` has ``w`` in one place."""
    if len(terms) < 2 or cell.kind == "goal" or any(not term.source.rule.items for term in terms):
        return ()
    first, *others = terms
    common = tuple(f for f in first.factors if not f.is_item and all(f in term.factors for term in others))
    for term in terms:
        left = list(term.factors)
        for f in common:
            left.remove(f)
        term.factors = tuple(left)
    return common


def _aligned(cell: CellClass) -> list[Inner]:
    """The sums of a cell, each over k, which for spans is counted from such a place that all end at the same k.

    So sums that are the same are found to be, and the common range is as wide as it can be. Ends that they do not share
    are at its beginning, where cells are old; those at its end have just been written.
    """
    inners = [_over_k(term.inner, 0) for head in cell.heads for term in head.terms if term.inner]
    if cell.kind != "span":
        return inners
    highs = [_own_range(cell, inner)[1] for inner in inners]
    last = max((high.offset for high in highs), default=0)
    return [_over_k(inner, last - high.offset) for inner, high in zip(inners, highs, strict=True)]


def _over_k(inner: Inner, shift: int) -> Inner:
    """The sum with k - shift for its position."""
    (loop,) = inner.loops
    factors = tuple(renamed(f, {loop.name: K - shift}) for f in inner.factors)
    made = replace(loop, name="k", low=(loop.low[0] + shift,), high=(loop.high[0] + shift,))
    return replace(inner, loops=(made,), factors=factors)


def _own_range(cell: CellClass, inner: Inner) -> tuple[Position, Position]:
    """The range of a sum, without what reads this very cell: it comes after the cell is made."""
    (loop,) = inner.loops
    low, high = loop.low[0], loop.high[0]
    lows = [low, *(low + 1 for f in inner.factors if _is_here(cell, f, loop.name, low))]
    highs = [high, *(high - 1 for f in inner.factors if _is_here(cell, f, loop.name, high))]
    return max(lows, key=lambda x: x.offset), min(highs, key=lambda x: x.offset)


def _common_range(cell: CellClass, inners: Sequence[Inner]) -> tuple[Position, Position]:
    """The range that all sums have."""
    ranges = [_own_range(cell, inner) for inner in inners]
    return max((low for low, _ in ranges), key=lambda x: x.offset), min((h for _, h in ranges), key=lambda x: x.offset)


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
