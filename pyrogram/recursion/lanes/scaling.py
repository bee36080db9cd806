# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Which cells carry the factor of a column, so that long sentences neither overflow nor vanish.

Column j may be multiplied by a factor f_j as soon as it is filled, if from then on every derivation has f_j exactly
once: Z is then off by the product of all factors, which is taken back at the end. A span (i, j) of an item X then has
the factors of the columns i + a .. j, where a is 0 or 1 and the same for all spans of X, and a point j those of all
columns up to j. In a rule the columns of the factors must tile those of the head; an axiom carries what is missing.
Trees of Eisner and Satta: a is 1 for RC, IR and IL, 0 for LC, so LC[j, j] carries f_j.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from ..rules.bounds import Bounds
from ..rules.cells import CellClass, Cells, Term
from ..rules.domains import ZERO, constraints
from ..rules.language import Position, Ref


def carriers(cells: Cells) -> dict[str, int] | None:
    """By span item, the offset a of its first column; None if the recursion cannot be scaled by columns."""
    spans = sorted({h.ref.table for c in cells.of("span") for h in c.heads})
    terms = [(c, h.ref, t) for c in cells.classes for h in c.heads for t in h.terms]
    for values in itertools.product((1, 0), repeat=len(spans)):
        offsets = dict(zip(spans, values, strict=True))
        if all(_tiles(cells, c, head, t, offsets) for c, head, t in terms):
            return offsets
    return None


def is_carrier(offsets: dict[str, int] | None, cell: CellClass, table: str) -> bool:
    """Whether an axiom at a cell has been multiplied by its column's factor, which its weights have not."""
    if offsets is None or cell.kind != "span":
        return offsets is not None
    return cell.width is not None and cell.width >= offsets[table]


def _tiles(cells: Cells, cell: CellClass, head: Ref, term: Term, offsets: dict[str, int]) -> bool:
    """Whether the columns of a rule's items are those of its head."""
    rule = term.rule
    given = constraints(rule, cells.first, cells.domains)
    assert given is not None
    bounds = Bounds([*rule.positions, "i", "j"], given)
    first = Position("", cells.first)
    if cell.kind == "goal":
        start, end = first, Position("n")
    elif cell.kind == "point":
        start, end = first, Position("j")
    else:
        start, end = Position("i", offsets[head.table]), Position("j")
    parts = [columns_of(f, first, offsets) for f in rule.items]
    parts = [(low, high) for low, high in parts if not bounds.equal(high + 1, low)]
    if not rule.items:  # an axiom carries at most the factor of its own column
        return bounds.equal(start, end + 1) or bounds.equal(start, end)
    return follow(bounds, start, end, parts)


def columns_of(ref: Ref, first: Position, offsets: dict[str, int]) -> tuple[Position, Position]:
    """The first and the last column of an item."""
    if len(ref.positions) == 2:
        return ref.positions[0] + offsets[ref.table], ref.positions[1]
    return first, ref.positions[0] if ref.positions else ZERO


def follow(bounds: Bounds, start: Position, end: Position, parts: Sequence[tuple[Position, Position]]) -> bool:
    """Whether intervals, in some order, follow one another from start to end."""
    if not parts:
        return bounds.equal(start, end + 1)
    for x, (low, high) in enumerate(parts):
        if bounds.equal(low, start):
            return follow(bounds, high + 1, end, [*parts[:x], *parts[x + 1 :]])
    return False
