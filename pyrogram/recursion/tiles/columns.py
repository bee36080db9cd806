# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Which rules bring the factor of a column, so that long sentences neither overflow nor vanish.

As in :mod:`~pyrogram.recursion.lanes.scaling`, column j may be multiplied by a factor if every derivation then has it
exactly once. There axioms alone bring factors; here every rule does whose items leave the last column of its head out,
which is how chains advance: ``F[j, x] += F[j - 1, y] * ...`` brings the factor of j, and
``X[j - 1, j, A] += word[A, w[j]]`` does.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

from ..lanes.scaling import columns_of, follow
from ..rules.bounds import Bounds
from ..rules.cells import CellClass, Cells, Term
from ..rules.domains import constraints
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
        parts = [columns_of(f, first, offsets) for f in term.rule.items]
        parts = [(low, high) for low, high in parts if not bounds.equal(high + 1, low)]
        if follow(bounds, start, end, parts):
            continue
        if cell.kind == "goal" or not follow(bounds, start, end - 1, parts):
            return None
        found.add(id(term))
    return frozenset(found)
