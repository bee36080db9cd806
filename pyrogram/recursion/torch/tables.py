# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Weights, words and lists of sentences in torch, read at many indices at once.

Numbers have the batch last. A weight that is read on a grid of positions has the shape ``(*grid, *symbols, B)``, or 1
for B where all sentences share it. What a sentence must not read, beyond its end, is -inf and has no gradient.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..emit.layout import Layout
from ..rules.cells import Cells
from ..rules.language import Bound, Constant, Entry, InvalidRecursion, Place, Position, Ref, Size, Variable, Word
from .readable import readable

Env = Mapping[str, Tensor | int]
"""Values of positions by name, of one number of dimensions, (*grid, B): the last is 1 for all but the length."""


@dataclass(frozen=True)
class Tables:
    """What a recursion is run on; see :meth:`.TorchEngine.log_partition`."""

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
        used = {w.name: w for w in Layout(cells).weights}
        made: dict[str, Tensor] = {}
        for name, w in used.items():
            table = weights[name]
            made[name] = table if table.dim() > w.num_axes else table[None]
        most = [s - 1 - last for n, w in used.items() for s, last in zip(made[n].shape[1:], w.last, strict=False)]
        n = min(most) if most else max([0, *(w.shape[-1] for w in words.values())]) or int(lengths.max())
        made = {name: _of_positions(table, used[name].num_positions, n + 1) for name, table in made.items()}
        made = {name: table.movedim(0, -1) for name, table in readable(cells, made, lengths).items()}
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
        if not symbols:
            return table
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

    # ------------------------------------------------------------------ reading

    def weight(self, ref: Ref, env: Env) -> Tensor:
        """A weight on a grid of positions: shape ``(*grid, *variables, B)``."""
        positions = [(self.n + 1, at(x, env)) for x in ref.positions]
        return self.read(self.weights[ref.table], positions, ref.symbols, env)

    def read(
        self, table: Tensor, places: list[tuple[int, Tensor | int]], symbols: Sequence[object], env: Env
    ) -> Tensor:
        """A table (*places, *symbols, B) at places and symbols; words are places, too."""
        words = [a for a, x in enumerate(symbols) if isinstance(x, Word)]
        table = table.movedim([len(places) + a for a in words], list(range(len(places), len(places) + len(words))))
        for a in words:
            x = symbols[a]
            assert isinstance(x, Word)
            places = [*places, (table.shape[len(places)], self.word(x, env))]
        table = self.pick(table, len(places), [x for x in symbols if not isinstance(x, Word)])
        if not places:
            return table.reshape(*(1,) * (_dims(env) - 1), *table.shape)
        index: Tensor | int = 0
        for extent, place in places:
            place = place.clamp(0, extent - 1) if isinstance(place, Tensor) else min(max(place, 0), extent - 1)
            index = index * extent + place
        if isinstance(index, int):
            index = torch.full([1] * _dims(env), index, device=self.device)
        return take(table.flatten(0, len(places) - 1), index)

    def word(self, x: Word, env: Env) -> Tensor:
        """The word at a position, shape ``(*grid, B)``."""
        if isinstance(x, Place):
            place = at(x.position, env)
            return torch.full([1] * _dims(env), place, device=self.device) if isinstance(place, int) else place
        if x.words not in self.words:
            raise InvalidRecursion(f"words {x.words} are missing")
        words = self.words[x.words]
        place = at(x.position, env)
        if isinstance(place, int):
            place = torch.full([1] * _dims(env), place, device=self.device)
        return take(words.T, (place - 1).clamp(0, words.shape[1] - 1))

    def holds(self, bounds: Sequence[Bound], env: Env) -> Tensor | None:
        """Where all bounds x - y <= most hold, shape ``(*grid, B)``; None if they hold everywhere."""
        found: Tensor | None = None
        for b in bounds:
            inside = at(Position(b.x), env) - at(Position(b.y), env) <= b.most
            if not isinstance(inside, Tensor):
                if inside:
                    continue
                inside = torch.zeros([1] * _dims(env), dtype=torch.bool, device=self.device)
            found = inside if found is None else found & inside
        return found


def _of_positions(table: Tensor, count: int, positions: int) -> Tensor:
    """A table (B, *positions, *symbols) with so many of each position: others are not read, -inf if not there."""
    missing = [positions - size for size in table.shape[1 : 1 + count]]
    if not any(missing):
        return table
    pads = [0, 0] * (table.dim() - 1 - count)
    for x in reversed(missing):
        pads += [0, x]
    return torch.nn.functional.pad(table, pads, value=-torch.inf)


def take(table: Tensor, index: Tensor) -> Tensor:
    """Rows of a table (P, *symbols, B): shape ``(*grid, *symbols, B)`` for an index ``(*grid, 1 or B)``."""
    grid, payload, batch = index.shape[:-1], table.shape[1:-1], table.shape[-1]
    if index.shape[-1] == 1:
        return table.index_select(0, index.flatten()).reshape(*grid, *payload, batch)
    if batch > 1:
        index = index * batch + torch.arange(batch, device=index.device)
    rows = table.movedim(-1, 1).flatten(0, 1).index_select(0, index.flatten())
    return rows.reshape(*index.shape, *payload).movedim(len(grid), -1)


def at(x: Position, env: Env) -> Tensor | int:
    """The value of a position."""
    return env[x.name] + x.offset if x.name else x.offset


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


def _dims(env: Env) -> int:
    return next((x.dim() for x in env.values() if isinstance(x, Tensor)), 2)
