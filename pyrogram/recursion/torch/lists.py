# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Lists of rules whose rows read their own cell, for the torch back end: stages of rows that can be done at once.

Before, with rows u = 0, 1, 2 that make symbols 1, 2, 0 of symbols 0, 1, 3:
    X[i, j, D[u]] += unary[u] * X[i, j, E[u]]
After: one such head for rows 0 and 2 less what waits for others, and so on, each a list of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ..rules.cells import CellClass, Cells, Head, Inner, Term
from ..rules.language import Entry, InvalidRecursion, Ref, Variable
from ..rules.lowering import may_be_here


def in_stages(cells: Cells, cell: CellClass, lists: Mapping[str, list[int]]) -> tuple[list[Head], dict[str, list[int]]]:
    """Rows of a list that read their own cell, one head for each stage: a stage reads what those before it give.

    :returns: the heads, and new lists of rows that they speak of.
    """
    found: list[Head] = []
    more: dict[str, list[int]] = {}
    for head in cell.heads:
        own = list(_own_factors(cells, cell, head))
        if not own:
            found.append(head)
            continue
        row = own[0][0]
        for stage, rows in enumerate(_stages(head, row, [f for _, f in own], lists)):
            name = f"{row.name}:{head.ref}:{stage}"
            more |= {f"{column}:{name}": [x[r] for r in rows] for column, x in lists.items() if len(x) > max(rows)}
            more[name] = rows
            found.append(_restricted(head, row, name, len(rows)))
    return found, more


def own_row(cells: Cells, cell: CellClass, head: Head) -> Variable | None:
    """The row of a list that gives the order within a cell: X[i, j, D[u]] += unary[u] * X[i, j, E[u]]."""
    return next((row for row, _ in _own_factors(cells, cell, head)), None)


def _own_factors(cells: Cells, cell: CellClass, head: Head) -> Iterator[tuple[Variable, Ref]]:
    """Items that rows of a list read in the cell that they add to."""
    rows = {x.row for x in head.ref.symbols if isinstance(x, Entry)}
    for term in head.terms:
        for f in term.all_factors:
            shared = [x.row for x in f.symbols if isinstance(x, Entry) and x.row in rows]
            if f.table == head.ref.table and shared and may_be_here(cell, term.rule, f, cells.first, cells.domains):
                yield shared[0], f


def _stages(head: Head, row: Variable, own: Sequence[Ref], lists: Mapping[str, list[int]]) -> list[list[int]]:
    """Rows in groups: each after all that make what it reads.

    :raises InvalidRecursion: if a row needs itself.
    """
    pairs = [
        [
            (lists[x.column], lists[y.column])
            for x, y in zip(head.ref.symbols, f.symbols, strict=True)
            if _has(x, y, row)
        ]
        for f in own
    ]
    left = set(range(len(pairs[0][0][0])))
    stages = []
    while left:
        made = [{tuple(x[r] for x, _ in pair) for r in left} for pair in pairs]
        stage = [
            r for r in sorted(left) if all(tuple(y[r] for _, y in p) not in m for p, m in zip(pairs, made, strict=True))
        ]
        if not stage:
            raise InvalidRecursion(f"{head.ref}: row {min(left)} of the list needs itself, by way of others or not")
        stages.append(stage)
        left -= set(stage)
    return stages


def _has(x: object, y: object, row: Variable) -> bool:
    """Whether two symbols are entries of one row."""
    return isinstance(x, Entry) and isinstance(y, Entry) and x.row == y.row == row


def _restricted(head: Head, row: Variable, name: str, count: int) -> Head:
    """The head for some rows of a list only."""
    chosen = Variable(f"{row.name}'", count)

    def ref(r: Ref) -> Ref:
        def symbol(x: object) -> object:
            if x == row:
                return Entry(name, chosen)
            return Entry(f"{x.column}:{name}", chosen) if isinstance(x, Entry) and x.row == row else x

        return replace(r, symbols=tuple(map(symbol, r.symbols)))

    def names(found: tuple[Variable, ...]) -> tuple[Variable, ...]:
        return tuple(chosen if v == row else v for v in found)

    def term(t: Term) -> Term:
        inner = t.inner and Inner(
            t.inner.loops, names(t.inner.symbols), tuple(map(ref, t.inner.factors)), names(t.inner.free)
        )
        return replace(t, factors=tuple(map(ref, t.factors)), inner=inner, symbols=names(t.symbols))

    return Head(ref(head.ref), [term(t) for t in head.terms])
