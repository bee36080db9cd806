# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Weights, words and lists of sentences in torch, read at many positions at once.

Tables have the batch last, ``(*positions, *symbols, B)``, or 1 for B where all sentences share them. What is read on a
grid of positions has the shape ``(*grid, *variables, B)``.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..emit.layout import Layout
from ..rules.cells import Cells, symbols_in
from ..rules.language import Bound, Constant, Entry, InvalidRecursion, Place, Position, Ref, Size, Variable, Word

Numbers = Any  # a numpy array


@dataclass(frozen=True)
class Grid:
    """Positions by name, at many places at once: those of a sum, then the left ends of cells.

    :param values: by name, each of ``dims`` dimensions; n, the length, is not among them.
    """

    values: Mapping[str, Numbers]
    dims: int


class Tables:
    """What a recursion is run on; see :meth:`.TorchEngine.log_partition`."""

    def __init__(
        self,
        cells: Cells,
        weights: Mapping[str, Tensor],
        lengths: Tensor,
        words: Mapping[str, Tensor],
        sizes: Mapping[str, int],
        lists: Mapping[str, Tensor],
    ) -> None:
        self.cells, self.lengths, self.sizes, self.lists = cells, lengths, sizes, lists
        self.device = lengths.device
        self.words = {name: w.clamp_min(0) for name, w in words.items()}
        self.weights, most = dict[str, Tensor](), list[int]()
        for w in Layout(cells).weights:
            table = weights[w.name]
            self.weights[w.name] = (table if table.dim() > w.num_axes else table[None]).movedim(0, -1)
            most += [s - 1 - last for s, last in zip(self.weights[w.name].shape, w.last, strict=False)]
        # Of the longest sentence that there is room for.
        self.n = min(most) if most else max([0, *(w.shape[-1] for w in words.values())]) or int(lengths.max())
        self.dtype = next((w.dtype for w in self.weights.values()), torch.get_default_dtype())

    def size(self, size: Size) -> int:
        return size if isinstance(size, int) else self.sizes[size]

    # ------------------------------------------------------------------ positions

    def at(self, x: Position, grid: Grid) -> Numbers | Tensor:
        """A position: an array, or a tensor ``(*grid, B)`` if it is counted from the end."""
        if x.name in grid.values:
            return grid.values[x.name] + x.offset
        if x.name == "n":
            return (self.lengths + x.offset).reshape(*[1] * grid.dims, -1)
        return np.full([1] * grid.dims, x.offset)

    def everywhere(self, x: Numbers | Tensor) -> Tensor:
        """The same of every sentence: ``(*grid, 1)``; a tensor as it is."""
        return x if isinstance(x, Tensor) else torch.from_numpy(x)[..., None].to(self.device)

    def holds(self, bounds: Sequence[Bound], grid: Grid) -> Tensor | bool:
        """Where all bounds x - y <= most hold, ``(*grid, B)`` or 1 for B; or whether they do everywhere, or nowhere."""
        known, by_length = np.full([1] * grid.dims, True), list[Tensor]()
        for b in bounds:
            x, y = (self.at(Position(name), grid) for name in (b.x, b.y))
            if "n" in (b.x, b.y):
                by_length.append(self.everywhere(x) - self.everywhere(y) <= b.most)
            else:
                known = known & (x - y <= b.most)
        if not known.any() or (not by_length and known.all()):
            return bool(known.any())
        return functools.reduce(operator.and_, by_length, self.everywhere(known))

    # ------------------------------------------------------------------ reading

    def read(self, table: Tensor, places: Sequence[Numbers | Tensor], ref: Ref, grid: Grid) -> Tensor:
        """A table ``(*places, *symbols, B)`` at places, clipped to it, and at the symbols of a reference."""
        words = [x for x in ref.symbols if isinstance(x, Word)]
        start, end = len(places), len(places) + len(words)
        axes = [a for a, x in enumerate(ref.symbols, start) if isinstance(x, Word)]
        table, places = table.movedim(axes, list(range(start, end))), [*places, *(self.word(x, grid) for x in words)]
        symbols, variables = tuple(x for x in ref.symbols if not isinstance(x, Word)), symbols_in([ref])
        if symbols != variables:
            index = self.flat_symbols(table.shape[end:-1], symbols, variables, grid)
            picked = table.flatten(end, -2).index_select(end, index.flatten())
            table = picked.reshape(*table.shape[:end], *index.shape[:-2], table.shape[-1])
        if not places:
            return table.reshape(*[1] * grid.dims, *table.shape)
        index = torch.zeros([], dtype=torch.long, device=self.device)
        for extent, place in zip(table.shape, places, strict=False):
            index = index * extent + self.everywhere(place).clamp(0, extent - 1)
        return take(table.flatten(0, end - 1), index)

    def flat_symbols(
        self, extents: Sequence[int], symbols: Sequence[object], variables: Sequence[Variable], grid: Grid
    ) -> Tensor:
        """Numbers of a table's elements, for all values of variables: (*variables, left ends or 1, B or 1)."""
        index = torch.zeros([1] * (len(variables) + 2), dtype=torch.long, device=self.device)
        for extent, x in zip(extents, symbols, strict=True):
            row = x.row if isinstance(x, Entry) else x
            if isinstance(row, Variable):
                numbers = self.lists[x.column] if isinstance(x, Entry) else torch.arange(self.size(row.size))
                value = numbers.to(self.device).reshape([-1 if v == row else 1 for v in (*variables, None, None)])
            elif isinstance(x, Word):
                value = self.word(x, grid)
            else:
                assert isinstance(x, Constant)
                value = torch.tensor(x.value)
            index = index * extent + value
        return index.expand(*(self.size(v.size) for v in variables), -1, -1)

    def word(self, x: Word, grid: Grid) -> Tensor:
        """The word at a position, shape ``(*grid, B)``."""
        place = self.everywhere(self.at(x.position, grid))
        if isinstance(x, Place):
            return place
        if x.words not in self.words:
            raise InvalidRecursion(f"words {x.words} are missing")
        words = self.words[x.words]
        return take(words.T, (place - 1).clamp(0, words.shape[1] - 1))


def take(table: Tensor, index: Tensor) -> Tensor:
    """Rows of a table (P, *symbols, B): shape ``(*grid, *symbols, B)`` for an index ``(*grid, 1 or B)``."""
    grid, payload, batch = index.shape[:-1], table.shape[1:-1], table.shape[-1]
    if index.shape[-1] == 1:
        return table.index_select(0, index.flatten()).reshape(*grid, *payload, batch)
    if batch > 1:
        index = index * batch + torch.arange(batch, device=index.device)
    rows = table.movedim(-1, 1).flatten(0, 1).index_select(0, index.flatten())
    return rows.reshape(*index.shape, *payload).movedim(len(grid), -1)


def align(x: Tensor, have: Sequence[Variable], want: Sequence[Variable]) -> Tensor:
    """A tensor (..., *have, left, B) as (..., *want, left, B), of extent 1 where a variable is missing."""
    if have == want:
        return x
    lead = x.dim() - len(have) - 2
    order = [have.index(v) for v in want if v in have]
    if order != sorted(order):
        x = x.permute(*range(lead), *(lead + a for a in order), -2, -1)
    for a, v in enumerate(want):
        if v not in have:
            x = x.unsqueeze(lead + a)
    return x
