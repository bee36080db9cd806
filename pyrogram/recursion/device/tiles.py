# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Kernels where items have symbols: the code of tiles for one lane.

Numbers that all sentences share are not in the memory of a thread, which would be a copy for each: they are one array
of the device. The threads of a warp read the same number of it at the same time, which is one access.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from ..calling.layout import Layout
from ..lanes.gauge import with_gauge
from ..machine.expressions import Array, Expression
from ..machine.kernels import Kernel
from ..machine.statements import Code, Function
from ..rules.language import Size
from ..rules.lowering import lower
from ..rules.recursions import Recursion
from ..tiles.descents import BestTileDerivation, IndependentTileDraws
from ..tiles.driver import TileBlocks, TileLogCounts
from ..tiles.elements import TileElements
from ..tiles.grids import TILE
from ..tiles.tables import TileTables
from .threads import ByThread, Threads, kernel

NUMBERS = Array("numbers", "element")


class ThreadTables(TileTables):
    """The memory of a thread."""

    SHARED: ClassVar[Array] = NUMBERS

    @property
    def is_alone(self) -> bool:
        """It is not: vectors are the threads of a warp."""
        return False

    def tile(self) -> tuple[int, int]:
        return 4, 4

    def place_numbers(self, code: Code, end: Expression) -> Expression:
        """Numbers are elsewhere."""
        found: Expression | int = 0
        for w in self.numbers:
            found = code.set(w.name, found) + self.block(self.sizes(w))
        return end


class ThreadTiles(ByThread, TileElements):
    """Code that goes through the weights of one sentence."""

    tables_type: ClassVar[type[TileTables]] = ThreadTables


class TileThreads(Threads, TileBlocks):
    """Code for the sentences of a thread."""

    elements_type = ThreadTiles

    def __init__(self, recursion: Recursion, dtype: str, shared: bool) -> None:
        TileBlocks.__init__(self, recursion, 1, dtype, Layout(lower(recursion)), shared)

    def _begin(self) -> None:
        """Numbers are where they are given."""
        self._measure()

    def clear_weights(self) -> None:
        """Nothing: memory is zero at first, and again after a sentence that has left anything else behind."""


class _Counts(TileThreads, TileLogCounts):
    pass


class _Draws(TileThreads, IndependentTileDraws):
    pass


class _Best(TileThreads, BestTileDerivation):
    pass


def log_counts(recursion: Recursion, dtype: str, shared: bool) -> Kernel:
    """``lanes``: log Z and posteriors; weights are logarithms, but for numbers.

    :param shared: whether all sentences share the weights that know no position, as numbers.
    """
    return kernel(_with_numbers(_Counts(recursion, dtype, shared).function(logs=True), shared))


def draw(recursion: Recursion, dtype: str, shared: bool) -> Kernel:
    """``draw``: independent derivations of each sentence, in proportion to their weights; and log Z."""
    return kernel(_with_numbers(_Draws(recursion, dtype, shared).function(logs=True), shared))


def best(recursion: Recursion, dtype: str, shared: bool) -> Kernel:
    """``best``: the derivation of greatest weight of each sentence, and its logarithm; weights are logarithms."""
    return kernel(_with_numbers(_Best(recursion, dtype, shared).function(), shared))


def _with_numbers(f: Function, shared: bool) -> Function:
    return Function(f.name, [*f.parameters, NUMBERS], f.body) if shared else f


def size(recursion: Recursion, shared: bool) -> Function:
    """``size``: the number of cells that a thread needs."""
    code, cells = Code(), with_gauge(lower(recursion, widen=True))
    layout = Layout(lower(recursion))
    code.give(ThreadTables(cells, layout, 1, shared).place(code))
    return Function("size", layout.parameters(), code.body, "int")


def numbers_of(recursion: Recursion, weights: Mapping[str, Tensor], sizes: Mapping[str, int], raised: bool) -> Tensor:
    """Log weights that all sentences share, ``(1, *axes)``, as kernels find them: tables one after the other, padded
    with zeros to whole tiles.

    :param raised: whether they are exponentiated.
    """
    cells = lower(recursion, widen=True)
    tables = ThreadTables(cells, Layout(lower(recursion)), 1, shared=True)
    found = []

    def whole(s: Size) -> int:
        return -(-(s if isinstance(s, int) else sizes[s]) // TILE) * TILE

    for w in tables.numbers:
        table = weights[w.table][0]
        chosen = table[tuple(slice(None) if x == "all" else x for x in w.indices)]
        padding = [x for size, s in zip(chosen.shape, tables.sizes(w), strict=True) for x in (whole(s) - size, 0)][::-1]
        found.append(torch.nn.functional.pad(chosen.exp() if raised else chosen, padding).flatten())
    return torch.cat(found)
