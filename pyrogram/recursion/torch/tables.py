# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Weights, words and lists of sentences in torch, read at many positions at once.

Tables have the batch last, ``(*positions, *symbols, B)``, or 1 for B where all sentences share them. What is read on a
grid of positions has the shape ``(*summed positions, *variables, left ends, B)``.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..emit.layout import WeightTable
from ..rules.cells import Cells, symbols_in
from ..rules.language import Bound, Constant, Entry, InvalidRecursion, Link, Place, Position, Ref, Size, Variable, Word
from .positions import Array, Grid


class Tables:
    """What a recursion is run on; see :meth:`.TorchEngine.log_partition`.

    :param used: the weights that it reads.
    """

    def __init__(
        self,
        cells: Cells,
        used: Sequence[WeightTable],
        weights: Mapping[str, Tensor],
        lengths: Tensor,
        words: Mapping[str, Tensor],
        sizes: Mapping[str, int],
        lists: Mapping[str, Tensor],
    ) -> None:
        self.cells, self.lengths, self.sizes, self.lists = cells, lengths, sizes, lists
        self.device, self.batch = lengths.device, len(lengths)
        links = cells.recursion.linked
        self.words = {name: w if name in links else w.clamp_min(0) for name, w in words.items()}
        self.weights, most = dict[str, Tensor](), list[int]()
        for w in used:
            table = weights[w.name]
            self.weights[w.name] = (table if table.dim() > w.num_axes else table[None]).movedim(0, -1)
            most += [s - 1 - last for s, last in zip(self.weights[w.name].shape, w.last, strict=False)]
        # Of the longest sentence that there is room for.
        self.n = min(most) if most else max([0, *(w.shape[-1] for w in words.values())]) or int(lengths.max())
        dtype = next((w.dtype for w in self.weights.values()), torch.get_default_dtype())
        self.blank = torch.zeros([], dtype=dtype, device=self.device)
        self._picks: dict[int, Tensor] = {}  # by reference

    def size(self, size: Size) -> int:
        return size if isinstance(size, int) else self.sizes[size]

    # ------------------------------------------------------------------ positions

    def at(self, x: Position, grid: Grid) -> Array | Tensor:
        """A position: an array, or a tensor ``(*grid, B)`` if it is counted from the end or a link."""
        if x.name == "n":
            return (self.lengths + x.offset).reshape(*[1] * len(grid.shape), -1)
        if isinstance(link := grid.values[x.name], Link):
            return self.word(Word(link.links, link.at), grid) + x.offset
        return grid.values[x.name] + x.offset

    def everywhere(self, x: Array | Tensor) -> Tensor:
        """The same of every sentence: ``(*grid, 1)``; a tensor as it is."""
        return x if isinstance(x, Tensor) else torch.from_numpy(x[..., None]).to(self.device)

    def holds(self, bounds: Sequence[Bound], grid: Grid) -> Tensor | bool:
        """Where all bounds x - y <= most hold, ``(*grid, B)`` or 1 for B; or whether they do everywhere, or nowhere."""
        if id(bounds) in grid.known:
            return bool(grid.known[id(bounds)])
        known, by_length = np.full([1] * len(grid.shape), True), list[Tensor]()
        for b in bounds:
            x, y = self.at(Position(b.x), grid), self.at(Position(b.y, b.most), grid)
            if isinstance(x, Tensor) or isinstance(y, Tensor):
                by_length.append(self.everywhere(x) <= self.everywhere(y))
            else:
                known = known & (x <= y)
        if known.any() and (by_length or not known.all()):
            return functools.reduce(operator.and_, by_length, self.everywhere(known))
        grid.known[id(bounds)] = known.any()
        return bool(known.any())

    # ------------------------------------------------------------------ reading

    def read(self, table: Tensor, places: Sequence[Array | Tensor], ref: Ref, grid: Grid) -> Tensor:
        """A table ``(*places, *symbols, B)`` at places within it and at the symbols of a reference."""
        words = {a: x for a, x in enumerate(ref.symbols, len(places)) if isinstance(x, Word)}
        axes = range(len(places), end := len(places) + len(words))
        table = table.movedim(list(words), list(axes)) if words else table
        for a, x in zip(axes, words.values(), strict=True):
            places = [*places, self.word(x, grid).clamp(0, table.shape[a] - 1)]
        if not places:
            table = self.pick(table, 0, ref, grid)
            return table.reshape(*[1] * (len(grid.shape) - 1), *table.shape[:-1], 1, table.shape[-1])
        if any(isinstance(x, Tensor) for x in places):
            places = [self.everywhere(x) for x in places]
        index: Any = 0
        for extent, place in zip(table.shape, places, strict=False):
            index = index * extent + place
        rows = self.pick(take(table.flatten(0, end - 1), self.everywhere(index)), len(grid.shape), ref, grid)
        return rows.movedim(len(grid.shape) - 1, -2) if table.dim() > end + 1 else rows

    def pick(self, table: Tensor, axis: int, ref: Ref, grid: Grid) -> Tensor:
        """A table whose axes from ``axis`` on are the symbols of a reference but words: with its variables instead."""
        symbols, variables = tuple(x for x in ref.symbols if not isinstance(x, Word)), symbols_in([ref])
        if symbols == variables:
            return table
        end = axis + len(symbols)
        if id(ref) not in self._picks:
            self._picks[id(ref)] = self.flat_symbols(table.shape[axis:end], symbols, variables, grid)
        index = self._picks[id(ref)]
        picked = table.flatten(axis, end - 1).index_select(axis, index.flatten())
        return picked.reshape(*table.shape[:axis], *index.shape[:-2], *table.shape[end:])

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
    index = index * batch + torch.arange(batch, device=index.device)
    rows = table.movedim(-1, 1).flatten(0, 1).index_select(0, index.flatten())
    return rows.reshape(*index.shape, *payload).movedim(len(grid), -1)


def align(x: Tensor, have: Sequence[Variable], want: Sequence[Variable]) -> Tensor:
    """A tensor (..., *have, left, B) as (..., *want, left, B), of extent 1 where a variable is missing."""
    if have == want:
        return x
    lead, names = x.dim() - len(have) - 2, [*have, *(v for v in want if v not in have)]
    x = x.reshape(*x.shape[:-2], *[1] * (len(names) - len(have)), *x.shape[-2:])
    return x.permute(*range(lead), *(lead + names.index(v) for v in want), -2, -1)
