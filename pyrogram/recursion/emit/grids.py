# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Cells in lanes: where those of a table, of its positions and of its symbols are."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..code.expressions import Array, Expression, Name, fill, greatest, least, value, within
from ..rules.cells import Loop
from ..rules.language import Constant, Entry, Place, Position, Symbol, Variable
from .names import AT_N, PITCH, B
from .numbers import Number
from .weights import MEMORY

NO_STEPS: Mapping[str, int] = {}
TILE = 4  # sums of neighbouring symbols that are formed at once


Key = tuple[str, tuple[tuple[str, int], ...]]


@dataclass(frozen=True)
class Grid:
    """Cells at the positions at hand, by symbols.

    :param start: the first cell of their table.
    :param positions: the first indices.
    :param symbols: the others.
    :param strides: of each of these.
    :param block: cells of all symbols together.
    :param numbers: the array that they are in, if they are numbers, the same in all lanes, and not cells.
    :param adjoint: whether they are adjoints.
    :param items: of how many items the greatest value is the product; 0 for a weight or an adjoint.
    """

    start: Expression
    positions: tuple[Position, ...]
    symbols: tuple[Symbol, ...]
    strides: tuple[Expression, ...]
    block: Expression
    numbers: Array | None = None
    adjoint: bool = False
    items: int = 0

    @property
    def variables(self) -> tuple[Variable, ...]:
        """Those of its symbols, each once."""
        symbols = [x.row if isinstance(x, Entry) else x for x in self.symbols]
        return tuple(dict.fromkeys(x for x in symbols if isinstance(x, Variable)))

    @property
    def rows(self) -> set[Variable]:
        """Variables that are rows of lists."""
        return {x.row for x in self.symbols if isinstance(x, Entry)}

    def key(self, steps: Mapping[str, int]) -> Key:
        """The same for the same cell, some steps from the indices at hand."""
        positions = [(p.name, p.offset + steps.get(f"at.{p.name}", 0)) for p in self.positions]
        return str(self.start), (*positions, *((str(x), _steps_of(x, steps)) for x in self.symbols))

    def index(self, steps: Mapping[str, int]) -> Expression:
        """The number of a cell, some steps from the indices at hand."""
        index = self.start
        if self.positions:
            first, *others = (within(place(p, steps), 0, PITCH) for p in self.positions)
            index = index + functools.reduce(lambda total, x: total * PITCH + x, others, first) * self.block
        for x, stride in zip(self.symbols, self.strides, strict=True):
            index = index + _symbol(x, steps) * stride
        return index

    def value(self, steps: Mapping[str, int]) -> Expression:
        """The plain number that it holds there, in lanes."""
        index = self.index(steps)
        return MEMORY[index] if self.numbers is None else fill(self.numbers[index])


@dataclass(frozen=True)
class Held:
    """A number in a variable.

    :param adjoint: whether it is an adjoint.
    :param items: of how many items the greatest value is the product.
    """

    name: str
    adjoint: bool = False
    items: int = 0


Factor = Grid | Held
Steps = dict[str, int]  # from the positions and the symbols at hand, by their variables
Known = dict[Key, Number]  # values that have been loaded


def place(x: Position, steps: Mapping[str, int] = NO_STEPS) -> Expression:
    """A position as a number."""
    return Name(f"at.{x.name}", "int") + (x.offset + steps.get(f"at.{x.name}", 0)) if x.name else value(x.offset)


def first_of(loop: Loop) -> Expression:
    """The first position of a loop."""
    return functools.reduce(greatest, [*map(place, loop.low), *_target(loop)])


def last_of(loop: Loop) -> Expression:
    """The last position of a loop."""
    last = functools.reduce(least, [*map(place, loop.high), *_target(loop)])
    if all(not x.name for x in loop.high):  # a position that shorter sentences do not have
        last = least(last, AT_N)
    return last


def _target(loop: Loop) -> list[Expression]:
    """The position that a link leads to, of the sentence at hand."""
    if loop.link is None:
        return []
    words, width = f"words.{loop.link.links}", Name(f"words.{loop.link.links}.b", "int")
    return [Array(words, "int")[B * width + within(place(loop.link.at) - 1, 0, width)]]


def _steps_of(x: Symbol, steps: Mapping[str, int]) -> int:
    """How many steps a symbol is from the one at hand."""
    if isinstance(x, Place):
        return steps.get(f"at.{x.position.name}", 0)
    row = x.row if isinstance(x, Entry) else x
    return steps.get(f"sym.{row.name}", 0) if isinstance(row, Variable) else 0


def _symbol(x: Symbol, steps: Mapping[str, int]) -> Expression:
    if isinstance(x, Variable):
        return Name(f"sym.{x.name}", "int") + steps.get(f"sym.{x.name}", 0)
    if isinstance(x, Entry):
        return Array(f"list.{x.column}", "int")[_symbol(x.row, steps)]
    if isinstance(x, Place):
        return place(x.position, steps)
    assert isinstance(x, Constant)
    return value(x.value)


def meets_items(factors: Sequence[Factor]) -> bool:
    """Whether the greatest value of a product is that of several items."""
    return sum(f.items for f in factors) > 1


def variables_of(factors: Sequence[Factor]) -> tuple[Variable, ...]:
    """The symbols of several, each once."""
    return tuple(dict.fromkeys(x for f in factors if isinstance(f, Grid) for x in f.variables))
