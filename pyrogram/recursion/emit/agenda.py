# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The way down from the goal: the items of a derivation that have still to be proved, the leftmost first.

An entry is the number of an item, its positions i and j, and its symbols; and what else a pass wants to know of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from ..code.expressions import Array, Expression, Name, equal
from ..code.statements import Code
from ..rules.cells import CellClass, Cells
from ..rules.language import Position, Ref, Variable
from .rows import CHAINS

AGENDA = Array("agenda", "int")
WAY_DOWN = AGENDA, CHAINS  # the parameters of a function that goes down
FURTHER = "further"  # the prefix of variables for further numbers of the item at hand
_POSITIONS = 3  # of an entry: the item, i and j


def here(axis: int) -> Variable:
    """A symbol of the item at hand."""
    return Variable(f"here.{axis}", 1)


@dataclass
class Agenda:
    """Code for a stack of items.

    :param at: a position as a number.
    :param symbol: a symbol as a number.
    :param extra: how many further numbers an entry has.
    """

    cells: Cells
    code: Code
    at: Callable[[Position], Expression]
    symbol: Callable[[object], Expression]
    extra: int = 0

    def __post_init__(self) -> None:
        self._numbers = {name: x for x, name in enumerate(self.cells.sizes)}
        symbols = max((len(s) for s in self.cells.sizes.values()), default=0)
        further = [f"{FURTHER}.{x}" for x in range(self.extra)]
        self._variables = ["at.i", "at.j", *further, *(f"sym.{here(a).name}" for a in range(symbols))]
        self._width = 1 + len(self._variables)

    def run(self, step: Callable[[str], None], *further: Expression) -> None:
        """All items from the goal down, one after the other.

        :param step: code for an item of a table. Its positions are in ``at.i`` and ``at.j``, its symbols in those of
            :func:`here`, its further numbers in ``further.0`` and so on.
        :param further: numbers of the goal.
        """
        code = self.code
        top = code.set("depth", 1)
        code.put(AGENDA, 0, self._numbers[self.cells.goal])
        for x, own in enumerate(further):
            code.put(AGENDA, _POSITIONS + x, own)
        with code.loop_while(top > 0):
            code.set("depth", top - 1)
            start = code.set("entry", top * self._width)
            item = code.set("item", AGENDA[start])
            for x, name in enumerate(self._variables, 1):
                code.set(name, AGENDA[start + x])
            for table, number in self._numbers.items():
                with code.when(equal(item, number)):
                    step(table)

    def push(self, items: Sequence[Ref], further: Sequence[Sequence[Expression | int]] = ()) -> None:
        """Items that are proved next, the first one first."""
        code, top = self.code, Name("depth", "int")
        for f, own in reversed(list(zip(items, further or [()] * len(items), strict=True))):
            entry = code.set("entry", top * self._width)
            code.put(AGENDA, entry, self._numbers[f.table])
            at = [self.at(x) for x in f.positions]
            code.put(AGENDA, entry + 1, at[0] if len(at) == 2 else 0)
            code.put(AGENDA, entry + 2, at[-1] if at else 0)
            for x, number in enumerate([*own, *(self.symbol(s) for s in f.symbols)]):
                code.put(AGENDA, entry + (_POSITIONS + x), number)
            code.set("depth", top + 1)


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
    width = _POSITIONS + extra + max(map(len, cells.sizes.values()), default=0)
    most = max(len(rule.items) for rule in cells.recursion.rules)
    kinds = {cells.arity[name] for name in cells.sizes} - {0}
    entries: int = most * pitch ** max(len(kinds), 1) * sum(symbols) + 2
    return entries * width
