# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The values of all items of all sentences, and tables of what the splits of a width need.

The cells of one width stand side by side: ``(*symbols, left ends, B)``. A point has its position as its width and one
left end. The sum over k of X[i, k] * Y[k, j] for all i, at j = i + w, needs X at one left end and growing widths, and Y
at one right end and falling widths. Such tables, *rows* and *columns* (split first), grow by one split from a width to
the next; nothing is written in place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from ..rules.cells import Cells
from ..rules.language import Ref
from .semirings import Semiring
from .tables import Env, Tables, at, take

Slot = tuple[str, tuple[object, ...], int]  # an item, the symbols at which it is read, and what is added to widths


@dataclass
class Chart:
    """
    :param tables: what the chart is filled from.
    :param semiring: of its values.
    """

    tables: Tables
    semiring: Semiring
    cells: dict[str, dict[int, Tensor]] = field(default_factory=dict)
    _grown: dict[object, tuple[int, int, Tensor]] = field(default_factory=dict)
    _sizes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    _flat: dict[str, Tensor] = field(default_factory=dict)
    _ends: dict[str, tuple[Tensor, ...]] = field(default_factory=dict)

    @cached_property
    def positions(self) -> int:
        """How many positions there are."""
        return self.tables.n - self.program.first + 1

    @property
    def program(self) -> Cells:
        return self.tables.cells

    def full(self, item: str, width: int) -> Tensor:
        """Cells of one width, without proof."""
        return torch.full(self.shape(item, width), -torch.inf, dtype=self.tables.dtype, device=self.tables.device)

    def shape(self, item: str, width: int) -> tuple[int, ...]:
        """Of the cells of one width."""
        if item not in self._sizes:
            self._sizes[item] = tuple(map(self.tables.size, self.program.sizes[item]))
        left_ends = self.positions - width if self.program.arity[item] == 2 else 1
        return *self._sizes[item], left_ends, self.tables.batch

    def put(self, item: str, width: int, cells: Tensor) -> None:
        if width in self.cells.setdefault(item, {}):  # more rows of a list: tables have old values
            self._grown.clear()
        self.cells[item][width] = cells
        self._flat.pop(item, None)

    def get(self, item: str, width: int) -> Tensor:
        """Cells of one width; what has no proof is zero."""
        found = self.cells.get(item, {}).get(width)
        return self.full(item, width) if found is None else found

    # ------------------------------------------------------------------ splits

    def rows(self, slots: Sequence[Slot], low: int, count: int, start: int, m: int) -> Tensor:
        """Cells of widths low, low + 1, ... at the left ends from ``start`` on: (split, *slots, *variables, m, B)."""

        def new(width: int) -> Tensor:
            return self._stacked(slots, width, lambda cell: between(cell, start, m))

        key, high = ("row", *slots, start), low + count - 1
        old = self._grown.get(key)
        if old is None or low < old[0] or high > old[1] + 1:
            old = low, high, torch.stack([new(v) for v in range(low, high + 1)])
        elif high == old[1] + 1:
            old = old[0], high, torch.cat([old[2][..., :m, :], new(high)[None]])
        self._grown[key] = old
        table = old[2] if low == old[0] and high == old[1] else old[2][low - old[0] : high + 1 - old[0]]
        return table if table.shape[-2] == m else table[..., :m, :]

    def columns(self, slots: Sequence[Slot], low: int, count: int, end: int, m: int) -> Tensor:
        """Cells of widths ..., low + 1, low whose right ends are the last m but ``end``: shaped as rows."""

        def new(width: int) -> Tensor:
            return self._stacked(slots, width, lambda cell: between(cell, cell.shape[-2] - end - m, m))

        key, high = ("column", *slots, end), low + count - 1
        old = self._grown.get(key)
        if old is None or low < old[0] or high > old[1] + 1:
            old = low, high, torch.stack([new(v) for v in range(high, low - 1, -1)])
        elif high == old[1] + 1:
            old = old[0], high, torch.cat([new(high)[None], old[2][..., -m:, :]])
        self._grown[key] = old
        first = old[1] - high
        table = old[2] if low == old[0] and high == old[1] else old[2][first : first + count]
        return table if table.shape[-2] == m else table[..., -m:, :]

    def _stacked(self, slots: Sequence[Slot], width: int, cut: Callable[[Tensor], Tensor]) -> Tensor:
        found = [self.tables.pick(cut(self.get(item, width + shift)), 0, symbols) for item, symbols, shift in slots]
        return found[0] if len(found) == 1 else torch.stack(found)

    def ending(self, item: str, end: int, low: int, high: int) -> Tensor:
        """Spans (low .. high, end), when all spans are known: (k, *symbols, 1, B)."""
        if item not in self._ends:
            p = self.program.first + torch.arange(self.positions, device=self.tables.device)
            place = self._place(item, p[None, :, None], p[:, None, None])
            flat = self.flat(item)
            table = take(flat, place.clamp(0, len(flat) - 1))  # type: ignore[union-attr]
            self._ends[item] = table.unsqueeze(-2).unbind(0)
        first = self.program.first
        return self._ends[item][end - first][low - first : high + 1 - first]

    # ------------------------------------------------------------------ any index

    def flat(self, item: str) -> Tensor:
        """All cells that are known, by width and left end, and one without proof: (cells, *symbols, B)."""
        known = self.cells[item]
        if item not in self._flat:
            widths = range(min(known), max(known) + 1)
            cells = [self.get(item, v) for v in widths]
            beyond = torch.full_like(cells[0][..., :1, :], -torch.inf)  # read for all that is not known yet
            self._flat[item] = torch.cat([*cells, beyond], -2).movedim(-2, 0)
        return self._flat[item]

    def read(self, ref: Ref, env: Env) -> Tensor:
        """An item on a grid of positions, anything where there is no such item: (*grid, *variables, B)."""
        if ref.table not in self.cells:
            self.put(ref.table, 0, self.full(ref.table, 0))
        table = self.flat(ref.table)
        place = self._place(ref.table, *(at(x, env) for x in ref.positions))
        return self.tables.read(table, [(len(table), place)], ref.symbols, env)

    def _place(self, item: str, *positions: Tensor | int) -> Tensor | int:
        """Where an item lies among its known cells."""
        if not positions:
            return 0
        if len(positions) == 1:
            return positions[0] - min(self.cells[item])
        p, q = positions
        least = min(self.cells[item])
        v = q - p - least
        before = v * (self.positions - least) - v * (v - 1) // 2
        return before + p - self.program.first


def between(cells: Tensor, start: int, m: int) -> Tensor:
    """m left ends from ``start`` on."""
    return cells if cells.shape[-2] == m else cells[..., start : start + m, :]
