# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The way down from the goal: the items of a derivation that have still to be proved, the leftmost first.

An entry is the number of an item, its positions i and j, and its symbols; and what else a pass wants to know of it.
The code for it is :class:`.Descent`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from ..code.expressions import Array, Name, equal
from ..code.statements import Code
from ..rules.cells import CellClass, Cells
from ..rules.language import Variable
from .rows import CHAINS

AGENDA = Array("agenda", "int")
WAY_DOWN = AGENDA, CHAINS  # the parameters of a function that goes down
FURTHER = "further"  # the prefix of variables for further numbers of the item at hand
POSITIONS = 3  # of an entry: the item, i and j


def here(axis: int) -> Variable:
    """A symbol of the item at hand."""
    return Variable(f"here.{axis}", 1)


@contextmanager
def in_class(code: Code, cell: CellClass) -> Iterator[None]:
    """If the item at hand is in a class of cells."""
    if cell.kind == "goal":
        yield
        return
    i, j = Name("at.i", "int"), Name("at.j", "int")
    width = j - i if cell.kind == "span" else j
    with code.when(equal(width, cell.width) if cell.width is not None else width >= cell.least):
        yield


def size_of_agenda(cells: Cells, pitch: int, sizes: Mapping[str, int], extra: int = 0) -> int:
    """How many numbers an agenda takes.

    The way down from the goal meets each item once at most: of a column for each position, or of all columns where
    points and spans read one another.

    :param sizes: numbers of symbols, by their names.
    """
    symbols = [cells.num_symbols(name, sizes) for name in cells.sizes]
    width = POSITIONS + extra + max(map(len, cells.sizes.values()), default=0)
    most = max(len(rule.items) for rule in cells.recursion.rules)
    kinds = {cells.arity[name] for name in cells.sizes} - {0}
    entries: int = most * pitch ** max(len(kinds), 1) * sum(symbols) + 2
    return entries * width
