# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The memory of lanes, and weights as rules speak of them.

A weight has a table of cells for each way in which rules speak of it, indexed by its positions and those of its words:
``attach[w[i], 1, w[j]]`` is at (i, j) of the table ``attach[*, 1, *]``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..code.expressions import Array, Name
from ..rules.language import Constant, Position, Ref, Symbol, Word

MEMORY = Array("memory", "lanes")
NUMBERS = Array("memory", "element")  # the memory of lanes, number by number
VECTORS = Array("memory", "vector")
EXPONENTS_OF_WORDS = Name("exponents.of.words", "int")  # at j the sum of those of the powers of the first j words
GAUGE = "power of a word"  # a weight that no page gives, see :mod:`.powers`

Index = int | Literal["all"] | str | None
"""Of an axis of a weight: a constant, all symbols, None for a position, or ``w[*]`` for the word at a position."""


def is_gauge(table: str) -> bool:
    """Whether a table has powers of words; where positions are linked, for items of some links."""
    return table.startswith(GAUGE)


@dataclass(frozen=True)
class WeightCells:
    """The cells of a weight as some rules speak of it.

    :param table: of the recursion.
    :param indices: by axis of the table.
    """

    table: str
    indices: tuple[Index, ...]

    @property
    def num_axes(self) -> int:
        return sum(x is None or (isinstance(x, str) and x != "all") for x in self.indices)

    @property
    def name(self) -> str:
        return f"{self.table}[{', '.join('*' if x is None else str(x) for x in self.indices)}]"


def weight_cells(ref: Ref) -> WeightCells:
    """The table of cells that a weight is in."""
    positions = tuple(None if x.name else x.offset for x in ref.positions)
    return WeightCells(ref.table, positions + tuple(map(_index, ref.symbols)))


def _index(x: Symbol) -> Index:
    if isinstance(x, Constant):
        return x.value
    return f"{x.words}[*]" if isinstance(x, Word) else "all"


def axes(ref: Ref) -> tuple[Position, ...]:
    """The positions that a weight is indexed by."""
    words = tuple(x.position for x in ref.symbols if isinstance(x, Word))
    return tuple(x for x in ref.positions if x.name) + words
