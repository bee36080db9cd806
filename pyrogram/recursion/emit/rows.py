# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Which rows of a list prove an item: chains of rows, by which compiled code goes down from goals.

For ``X[i, j, A[r]] += ...`` there is a chain for each symbol x: its first row with A[r] = x, and from each row the next
one. They are in ascending order; -1 is their end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..code.expressions import Array, Expression, Name, value
from ..code.statements import Code
from ..rules.cells import Cells
from ..rules.language import Entry, Size
from .layout import Layout

Numbers = Any  # a numpy array
CHAINS = Array("chains", "int")


def _columns(cells: Cells) -> dict[tuple[str, Size], Size]:
    """Columns by which heads have their rows, with the numbers of the heads' symbols; the numbers of rows.

    One column may be of two items that have different numbers of symbols.
    """
    columns: dict[tuple[str, Size], Size] = {}
    for head in (h for c in cells.classes for h in c.heads):
        bound = set()
        for x, size in zip(head.ref.symbols, cells.sizes[head.ref.table], strict=True):
            if isinstance(x, Entry) and x.row not in bound:
                bound.add(x.row)
                columns[x.column, size] = x.row.size
    return columns


def chains_of(cells: Cells, sizes: Mapping[str, int], lists: Mapping[str, Numbers]) -> Numbers:
    """All chains, column by column: the first row of each symbol, then of each row the next one.

    :param sizes: numbers of symbols, by their names.
    :param lists: columns of lists of rules.
    """
    chains = [np.zeros(0, np.int64)]
    for column, size in _columns(cells):
        entries = np.asarray(lists[column])
        order = np.argsort(entries, kind="stable")
        symbols = entries[order]
        first, following = np.full(size if isinstance(size, int) else sizes[size], -1), np.full(len(entries), -1)
        first[symbols[::-1]] = order[::-1]  # of equal ones the last assignment, the first row
        alike = symbols[1:] == symbols[:-1]
        following[order[:-1][alike]] = order[1:][alike]
        chains += [first, following]
    return np.concatenate(chains)


def place_chains(layout: Layout, code: Code) -> None:
    """Set variables for the beginning of each column's first rows, and of its next rows."""
    total: Expression = value(0)
    for (column, size), rows in _columns(layout.cells).items():
        code.set(f"first.{column}.{size}", total)
        following = code.set(f"next.{column}.{size}", total + layout.size(size))
        total = following + layout.size(rows)


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
