# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Weights, words and lists of sentences in torch, read at many positions at once.

Tables have the batch last, ``(*positions, *symbols, B)``, or 1 for B where all sentences share them. What is read on a
grid of positions has the shape ``(*grid, *variables, B)``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..emit.layout import Layout
from ..rules.cells import Cells
from ..rules.language import Bound, Constant, Entry, InvalidRecursion, Place, Position, Ref, Size, Variable, Word

Numbers = Any  # a numpy array


@dataclass(frozen=True)
class Grid:
    """Positions by name, at many places at once: those of a sum, then the left ends of cells.

    :param values: by name, each of ``dims`` dimensions; n, the length, is not among them.
    :param words: those that have been read at them.
    """

    values: Mapping[str, Numbers]
    dims: int
    words: dict[Word, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Tables:
    """What a recursion is run on; see :meth:`.TorchEngine.log_partition`.

    :param n: of the longest sentence that there is room for.
    """

    cells: Cells
    weights: dict[str, Tensor]
    lengths: Tensor
    words: dict[str, Tensor]
    sizes: dict[str, int]
    lists: dict[str, Tensor]
    n: int
    dtype: torch.dtype

    @staticmethod
    def of(
        cells: Cells,
        weights: Mapping[str, Tensor],
        lengths: Tensor,
        words: Mapping[str, Tensor],
        sizes: Mapping[str, int],
        lists: Mapping[str, Tensor],
    ) -> Tables:
        made, most = dict[str, Tensor](), list[int]()
        for w in Layout(cells).weights:
            table = weights[w.name]
            made[w.name] = (table if table.dim() > w.num_axes else table[None]).movedim(0, -1)
            most += [s - 1 - last for s, last in zip(made[w.name].shape, w.last, strict=False)]
        n = min(most) if most else max([0, *(w.shape[-1] for w in words.values())]) or int(lengths.max())
        dtype = next(iter(made.values())).dtype if made else torch.get_default_dtype()
        real = {name: w.clamp_min(0) for name, w in words.items()}
        return Tables(cells, made, lengths, real, dict(sizes), dict(lists), n, dtype)

    @property
    def batch(self) -> int:
        return len(self.lengths)

    @property
    def device(self) -> torch.device:
        return self.lengths.device

    def size(self, size: Size) -> int:
        return size if isinstance(size, int) else self.sizes[size]

    # ------------------------------------------------------------------ symbols

    def pick(self, table: Tensor, axis: int, symbols: Sequence[object]) -> Tensor:
        """A table whose axes from ``axis`` on are symbols, with an axis for each variable among the indices instead."""
        variables = variables_of(symbols)
        if tuple(symbols) == variables:
            return table
        shape = [self.size(v.size) for v in variables]
        index = self.flat_symbols(table.shape[axis : axis + len(symbols)], symbols).flatten()
        picked = table.flatten(axis, axis + len(symbols) - 1).index_select(axis, index)
        return picked.reshape(*table.shape[:axis], *shape, *table.shape[axis + len(symbols) :])

    def flat_symbols(self, extents: Sequence[int], symbols: Sequence[object]) -> Tensor:
        """Numbers of a table's elements, for all values of the variables among the symbols."""
        variables = variables_of(symbols)
        index = torch.zeros([1] * len(variables), dtype=torch.long, device=self.device)
        for extent, x in zip(extents, symbols, strict=True):
            if isinstance(x, Constant):
                value: Tensor | int = x.value
            else:
                row = x.row if isinstance(x, Entry) else x
                assert isinstance(row, Variable)
                numbers = torch.arange(self.size(row.size), device=self.device)
                if isinstance(x, Entry):
                    numbers = self.lists[x.column].to(self.device)
                value = numbers.reshape([-1 if v == row else 1 for v in variables])
            index = index * extent + value
        return index.expand([self.size(v.size) for v in variables])

    # ------------------------------------------------------------------ positions

    def at(self, x: Position, grid: Grid) -> Numbers | Tensor:
        """A position: an array, or a tensor ``(*grid, B)`` if it is counted from the end."""
        if x.name == "n":
            return (self.lengths + x.offset).reshape(*[1] * grid.dims, -1)
        return grid.values[x.name] + x.offset if x.name else np.full([1] * grid.dims, x.offset)

    def everywhere(self, x: Numbers | Tensor) -> Tensor:
        """The same of every sentence: ``(*grid, 1)``; a tensor as it is."""
        return x if isinstance(x, Tensor) else torch.from_numpy(x)[..., None].to(self.device)

    def holds(self, bounds: Sequence[Bound], grid: Grid) -> Tensor | bool:
        """Where all bounds x - y <= most hold, ``(*grid, B)`` or 1 for B; or whether they do everywhere, or nowhere."""
        known, by_length = np.full([1] * grid.dims, True), dict[Bound, Tensor]()
        for b in bounds:
            x, y = (self.at(Position(name), grid) for name in (b.x, b.y))
            if "n" in (b.x, b.y):
                by_length[b] = self.everywhere(x) - self.everywhere(y) <= b.most
            else:
                known = known & (x - y <= b.most)
        if not known.any() or (not by_length and known.all()):
            return bool(known.any())
        found = self.everywhere(known)
        for inside in by_length.values():
            found = found & inside
        return found

    # ------------------------------------------------------------------ reading

    def weight(self, ref: Ref, grid: Grid) -> Tensor:
        """A weight; by position, -inf without a gradient in cells beyond the end of a sentence."""
        table = self.weights[ref.table]
        places = [(size, self.at(x, grid)) for size, x in zip(table.shape, ref.positions, strict=False)]
        found = self.read(table, places, ref.symbols, grid)
        inside = self.holds([Bound(name, "n", 0) for name in grid.values if ref.positions], grid)
        return where(inside, found, grid.dims)

    def read(
        self, table: Tensor, places: list[tuple[int, Numbers | Tensor]], symbols: Sequence[object], grid: Grid
    ) -> Tensor:
        """A table ``(*places, *symbols, B)`` at places and symbols; words are places, too.

        :param places: each with how many there are; what is beyond them is anything.
        """
        words = [a for a, x in enumerate(symbols) if isinstance(x, Word)]
        table = table.movedim([len(places) + a for a in words], list(range(len(places), len(places) + len(words))))
        for a in words:
            x = symbols[a]
            assert isinstance(x, Word)
            places = [*places, (table.shape[len(places)], self.word(x, grid))]
        table = self.pick(table, len(places), [x for x in symbols if not isinstance(x, Word)])
        if not places:
            return table.reshape(*[1] * grid.dims, *table.shape)
        index: Any = 0
        for extent, place in places:
            if isinstance(place, Tensor):
                index = self.everywhere(index) if isinstance(index, np.ndarray) else index
                index = index * extent + place.clamp(0, extent - 1)
            else:
                place = place.clip(0, extent - 1)
                index = index * extent + (self.everywhere(place) if isinstance(index, Tensor) else place)
        return take(table.flatten(0, len(places) - 1), self.everywhere(index))

    def word(self, x: Word, grid: Grid) -> Tensor:
        """The word at a position, shape ``(*grid, B)``."""
        if x in grid.words:
            return grid.words[x]
        place = self.everywhere(self.at(x.position, grid))
        if not isinstance(x, Place):
            if x.words not in self.words:
                raise InvalidRecursion(f"words {x.words} are missing")
            words = self.words[x.words]
            place = take(words.T, (place - 1).clamp(0, words.shape[1] - 1))
        return grid.words.setdefault(x, place)


def take(table: Tensor, index: Tensor) -> Tensor:
    """Rows of a table (P, *symbols, B): shape ``(*grid, *symbols, B)`` for an index ``(*grid, 1 or B)``."""
    grid, payload, batch = index.shape[:-1], table.shape[1:-1], table.shape[-1]
    if index.shape[-1] == 1:
        return table.index_select(0, index.flatten()).reshape(*grid, *payload, batch)
    if batch > 1:
        index = index * batch + torch.arange(batch, device=index.device)
    rows = table.movedim(-1, 1).flatten(0, 1).index_select(0, index.flatten())
    return rows.reshape(*index.shape, *payload).movedim(len(grid), -1)


def where(inside: Tensor | bool, x: Tensor, dims: int) -> Tensor:
    """Numbers ``(*grid, *variables, B)`` where something holds, -inf elsewhere, without a gradient."""
    if isinstance(inside, bool):
        return x if inside else torch.full_like(x, -torch.inf)
    return torch.where(inside.reshape(*inside.shape[:dims], *[1] * (x.dim() - dims - 1), -1), x, -torch.inf)


def variables_of(symbols: Sequence[object]) -> tuple[Variable, ...]:
    """The variables among indices, each once; rows of lists are variables."""
    rows = [x.row if isinstance(x, Entry) else x for x in symbols]
    return tuple(dict.fromkeys(x for x in rows if isinstance(x, Variable)))


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
