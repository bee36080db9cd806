# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Lists of rules whose rows read their own cell, for the torch back end: stages of rows that can be done at once.

Before, with rows u = 0, 1, 2 that make symbols 1, 2, 0 of symbols 0, 1, 3:
    X[i, j, D[u]] += unary[u] * X[i, j, E[u]]
After: one such head for rows 0 and 2 less what waits for others, and so on, each a list of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from .cells import Head, Inner, Term
from .language import Entry, InvalidRecursion, Ref, Variable


def in_stages(heads: Sequence[Head], lists: Mapping[str, list[int]]) -> tuple[list[Head], dict[str, list[int]]]:
    """Rows of a list that read their own cell, one head for each stage: a stage reads what those before it give.

    :returns: the heads, and new lists of rows that they speak of.
    """
    found: list[Head] = []
    more: dict[str, list[int]] = {}
    for head in heads:
        row = own_row(head)
        if row is None:
            found.append(head)
            continue
        for stage, rows in enumerate(_stages(head, lists)):
            name = f"{row.name}:{head.ref}:{stage}"
            more |= {f"{column}:{name}": [x[r] for r in rows] for column, x in lists.items() if len(x) > max(rows)}
            more[name] = rows
            found.append(_restricted(head, row, name, len(rows)))
    return found, more


def own_row(head: Head) -> Variable | None:
    """The row of a list that gives the order within a cell: X[i, j, D[u]] += unary[u] * X[i, j, E[u]]."""
    rows = {x.row for x in head.ref.symbols if isinstance(x, Entry)}
    for term in head.terms:
        for f in term.all_factors:
            shared = rows & {x.row for x in f.symbols if isinstance(x, Entry)}
            if f.table == head.ref.table and shared:
                return shared.pop()
    return None


def _stages(head: Head, lists: Mapping[str, list[int]]) -> list[list[int]]:
    """Rows in groups: each after all that make what it reads.

    :raises InvalidRecursion: if a row needs itself.
    """
    row = own_row(head)
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
        return replace(t, factors=tuple(map(ref, t.factors)), inner=inner, symbols=names(t.symbols))

    return Head(ref(head.ref), [term(t) for t in head.terms])
