# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A plan for spans without symbols: their sums are formed once each, all in one loop over one range.

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

from ..rules.cells import CellClass, Cells, Inner, Loop, names_in, renamed
from ..rules.language import Position, Ref

K = Position("k")


@dataclass
class CellSum:
    """A sum of a cell over ``k``: the terms of the common range, and those of the ends of its own.

    :param core: the factors at k.
    :param ends: the factors at each place that is not in the common range.
    """

    number: int
    core: tuple[Ref, ...]
    ends: list[tuple[Ref, ...]] = field(default_factory=list)


@dataclass
class PlannedHead:
    """An item at the cell: the sum of terms.

    :param terms: of each its factors, and the sum that they multiply, if there is one.
    """

    ref: Ref
    terms: list[tuple[tuple[Ref, ...], CellSum | None]]


@dataclass
class Plan:
    """Cells as a sequence of steps: sums are closed just before their first use.

    :param range: of k, common to all sums; empty if there are none.
    """

    steps: list[CellSum | PlannedHead] = field(default_factory=list)
    range: Loop = Loop("k", (Position(""),), (Position("", -1),))

    @property
    def sums(self) -> list[CellSum]:
        return [s for s in self.steps if isinstance(s, CellSum)]

    @property
    def kept(self) -> list[CellSum]:
        """Sums that some term multiplies by further factors: their values are needed afterwards."""
        terms = [term for s in self.steps if isinstance(s, PlannedHead) for term in s.terms]
        return [s for s in self.sums if any(x is s and factors for factors, x in terms)]


def plan_of(cells: Cells, cell: CellClass) -> Plan | None:
    """A plan for spans; None if their items have symbols, or their sums have no common range."""
    inners = [t.inner for h in cell.heads for t in h.terms if t.inner]
    simple = not any(cells.sizes[h.ref.table] for h in cell.heads)
    simple = simple and not any(t.guard or t.all_symbols for h in cell.heads for t in h.terms)
    if not simple or not all(map(_is_over_k, inners)) or not _has_common_range(cell):
        return None
    plan, sums = Plan(), dict[str, tuple[CellSum, Inner]]()
    aligned = iter(_aligned(cell))
    for head in cell.heads:
        terms: list[tuple[tuple[Ref, ...], CellSum | None]] = []
        for term in head.terms:
            shared = None
            if term.inner is not None:
                inner = next(aligned)
                if str(inner) not in sums:
                    # What all columns share is multiplied first.
                    shared = CellSum(len(sums), tuple(sorted(inner.factors, key=lambda f: "j" in names_in(f))))
                    sums[str(inner)] = shared, inner
                    plan.steps.append(shared)
                shared = sums[str(inner)][0]
            terms.append((term.factors, shared))
        plan.steps.append(PlannedHead(head.ref, terms))
    if sums:
        _split(plan, cell, list(sums.values()))
    return plan


def _is_over_k(inner: Inner) -> bool:
    """Whether a sum is over one position, from the first to the last of the span, or some steps from them."""
    if len(inner.loops) != 1 or not inner.factors:
        return False
    (loop,) = inner.loops
    return [x.name for x in (*loop.low, *loop.high)] == ["i", "j"]


def _has_common_range(cell: CellClass) -> bool:
    """Whether the sums of a cell have a common range, beside which no end is met twice or lies beyond its sum."""
    inners = _aligned(cell)
    if not inners:
        return True
    low, high = _common_range(cell, inners)
    return low.offset <= cell.least + high.offset + 1


def _aligned(cell: CellClass) -> list[Inner]:
    """The sums of a cell, each over k, which is counted from such a place that all end at the same k.

    So sums that are the same are found to be, and the common range is as wide as it can be. Ends that they do not share
    are at its beginning, where cells are old; those at its end have just been written.
    """
    inners = [_over_k(term.inner, 0) for head in cell.heads for term in head.terms if term.inner]
    highs = [_own_range(cell, inner)[1] for inner in inners]
    last = max((high.offset for high in highs), default=0)
    return [_over_k(inner, last - high.offset) for inner, high in zip(inners, highs, strict=True)]


def _over_k(inner: Inner, shift: int) -> Inner:
    """The sum with k - shift for its position."""
    (loop,) = inner.loops
    factors = tuple(renamed(f, {loop.name: K - shift}) for f in inner.factors)
    over_k = replace(loop, name="k", low=(loop.low[0] + shift,), high=(loop.high[0] + shift,))
    return replace(inner, loops=(over_k,), factors=factors)


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


def _split(plan: Plan, cell: CellClass, sums: list[tuple[CellSum, Inner]]) -> None:
    first, last = _common_range(cell, [inner for _, inner in sums])
    plan.range = Loop("k", (first,), (last,))
    for shared, inner in sums:
        (low,), (high,) = inner.loops[0].low, inner.loops[0].high
        places = [low + t for t in range(first.offset - low.offset)]
        places += [last + 1 + t for t in range(high.offset - last.offset)]
        shared.ends = [tuple(renamed(f, {"k": k}) for f in shared.core) for k in places]
