# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Which rules bring the factor of a column, so that long sentences neither overflow nor vanish.

Column j may be multiplied by a factor f_j as soon as it is filled, if from then on every derivation has f_j exactly
once: Z is then off by the product of all factors, which is taken back at the end. A span (i, j) of an item X then has
the factors of the columns i + a .. j, where a is 0 or 1 and the same for all spans of X, and a point j those of all
columns up to j. In a rule the columns of the items must tile those of the head, or all of them but the last: then the
rule brings its factor. Axioms do, of trees of Eisner and Satta LC[j, j], where a is 1 for RC, IR and IL, 0 for LC;
``X[j - 1, j, A] += word[A, w[j]]`` does; and rules by which chains advance, ``F[j, x] += F[j - 1, y] * ...``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..rules.bounds import Bounds
from ..rules.cells import CellClass, Cells, Term
from ..rules.domains import ZERO, constraints
from ..rules.language import Position, Ref


@dataclass(frozen=True)
class Columns:
    """How a recursion is scaled.

    :param begin: the first column: that of the first word, also where positions are fence posts, if nothing brings 0.
    :param offsets: by span item, 0 or 1: its first column is that many after i.
    :param bringing: the ids of terms whose rule brings the factor of the column.
    """

    begin: int
    offsets: dict[str, int]
    bringing: frozenset[int]

    def has(self, cell: CellClass, table: str) -> bool:
        """Whether an item at a cell has the factor of its last column."""
        return cell.kind != "span" or cell.width is None or cell.width >= self.offsets[table]


def columns(cells: Cells) -> Columns | None:
    """How the recursion is scaled; None if it cannot be."""
    spans = sorted({h.ref.table for c in cells.of("span") for h in c.heads})
    terms = [(c, h.ref, t) for c in cells.classes for h in c.heads for t in h.terms]
    for begin in (cells.first, 1) if cells.first == 0 else (1,):
        for values in itertools.product((1, 0), repeat=len(spans)):
            offsets = dict(zip(spans, values, strict=True))
            found = _bringing(cells, terms, offsets, begin)
            if found is not None:
                return Columns(begin, offsets, found)
    return None


def _bringing(
    cells: Cells, terms: Iterable[tuple[CellClass, Ref, Term]], offsets: dict[str, int], begin: int
) -> frozenset[int] | None:
    found = set()
    for cell, head, term in terms:
        given = constraints(term.rule, cells.first, cells.domains)
        assert given is not None
        bounds = Bounds([*term.rule.positions, "i", "j"], given)
        first = Position("", begin)
        if cell.kind == "span":
            start, end = Position("i", offsets[head.table]), Position("j")
        else:
            start, end = first, Position("n" if cell.kind == "goal" else "j")
        parts = [_columns_of(f, first, offsets) for f in term.rule.items]
        parts = [(low, high) for low, high in parts if not bounds.equal(high + 1, low)]
        if _follow(bounds, start, end, parts):
            continue
        if cell.kind == "goal" or not _follow(bounds, start, end - 1, parts):
            return None
        found.add(id(term))
    return frozenset(found)


def _columns_of(ref: Ref, first: Position, offsets: dict[str, int]) -> tuple[Position, Position]:
    """The first and the last column of an item."""
    if len(ref.positions) == 2:
        return ref.positions[0] + offsets[ref.table], ref.positions[1]
    return first, ref.positions[0] if ref.positions else ZERO


def _follow(bounds: Bounds, start: Position, end: Position, parts: Sequence[tuple[Position, Position]]) -> bool:
    """Whether intervals, in some order, follow one another from start to end."""
    if not parts:
        return bounds.equal(start, end + 1)
    for x, (low, high) in enumerate(parts):
        if bounds.equal(low, start):
            return _follow(bounds, high + 1, end, [*parts[:x], *parts[x + 1 :]])
    return False
