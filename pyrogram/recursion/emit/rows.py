# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Which rows of a list prove an item: chains of rows, which compiled code makes before it goes down from goals.

For ``X[i, j, A[r]] += ...`` there is a chain for each symbol x: its first row with A[r] = x, and from each row the next
one. They are in ascending order; -1 is their end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from ..code.expressions import Array, Expression, Name, value
from ..code.statements import Code, Function
from ..rules.cells import Cells
from ..rules.language import Entry, Size
from .layout import Layout

CHAINS = Array("chains", "int")


def _columns(cells: Cells) -> dict[tuple[str, Size], Size]:
    """Columns by which heads have their rows, with the numbers of the heads' symbols; the numbers of rows.

    One column may be of two items that have different numbers of symbols.
    """
    found: dict[tuple[str, Size], Size] = {}
    for head in (h for c in cells.classes for h in c.heads):
        bound = set()
        for x, size in zip(head.ref.symbols, cells.sizes[head.ref.table], strict=True):
            if isinstance(x, Entry) and x.row not in bound:
                bound.add(x.row)
                found[x.column, size] = x.row.size
    return found


def size_of_chains(cells: Cells, sizes: Mapping[str, int]) -> int:
    """How many numbers all chains take.

    :param sizes: numbers of symbols, by their names.
    """
    both = [s for (_, size), rows in _columns(cells).items() for s in (size, rows)]
    return sum(s if isinstance(s, int) else sizes[s] for s in both)


def place_chains(layout: Layout, code: Code) -> list[tuple[str, Size, Size, Expression, Expression]]:
    """Set variables for the beginning of each chain's table; returns columns, the sizes of symbols and of rows, and
    where first rows and next rows lie.
    """
    total: Expression = value(0)
    found: list[tuple[str, Size, Size, Expression, Expression]] = []
    for (column, size), rows in _columns(layout.cells).items():
        first = code.set(f"first.{column}.{size}", total)
        following = code.set(f"next.{column}.{size}", total + layout.size(size))
        total = following + layout.size(rows)
        found.append((column, size, rows, first, following))
    return found


def make_chains(layout: Layout, code: Code) -> None:
    """Code that chains the rows of all lists."""
    for column, size, rows, first, following in place_chains(layout, code):
        with code.loop("x", 0, layout.size(size)) as x:
            code.put(CHAINS, first + x, -1)
        with code.loop("x", layout.size(rows) - 1, -1, -1) as x:
            symbol = code.let(first + Array(f"list.{column}", "int")[x])
            code.put(CHAINS, following + x, CHAINS[symbol])
            code.put(CHAINS, symbol, x)


def chains(layout: Layout) -> Function:
    """``chains``: all chains, in an array that others are called with."""
    code = Code()
    make_chains(layout, code)
    return Function("chains", [*layout.parameters(), CHAINS], code.body)


@contextmanager
def chain(code: Code, x: Entry, size: Size, symbol: Expression) -> Iterator[None]:
    """A loop over the rows of a column that have a symbol.

    :param size: the number of symbols of the item that it belongs to.
    """
    row = Name(f"sym.{x.row.name}", "int")
    code.set(row.name, CHAINS[Name(f"first.{x.column}.{size}", "int") + symbol])
    with code.loop_while(row >= 0):
        yield
        code.set(row.name, CHAINS[Name(f"next.{x.column}.{size}", "int") + row])
