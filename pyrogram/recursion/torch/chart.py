# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The values of all items of all sentences.

The cells of one width stand side by side: ``(*symbols, left ends, B)``. A point has its position as its width and one
left end. Nothing is written in place.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..rules.language import Ref
from .tables import Grid, Numbers, Tables


@dataclass
class Chart:
    """
    :param tables: what the chart is filled from.
    """

    tables: Tables
    cells: dict[str, dict[int, Tensor]] = field(default_factory=dict)
    _flat: dict[tuple[str, int, int], Tensor] = field(default_factory=dict)

    def full(self, item: str, width: int) -> Tensor:
        """Cells of one width, without proof."""
        return torch.full(self.shape(item, width), -torch.inf, dtype=self.tables.dtype, device=self.tables.device)

    def shape(self, item: str, width: int) -> tuple[int, ...]:
        """Of the cells of one width."""
        cells = self.tables.cells
        left_ends = self.tables.n - cells.first + 1 - width if cells.arity[item] == 2 else 1
        return *map(self.tables.size, cells.sizes[item]), left_ends, self.tables.batch

    def put(self, item: str, width: int, values: Tensor) -> None:
        self.cells.setdefault(item, {})[width] = values
        self._flat = {key: cells for key, cells in self._flat.items() if key[0] != item}

    def get(self, item: str, width: int) -> Tensor:
        """Cells of one width; what has no proof is zero."""
        found = self.cells.get(item, {}).get(width)
        return self.full(item, width) if found is None else found

    def read(self, ref: Ref, grid: Grid) -> Tensor:
        """An item on a grid of positions, anything where there is no such item: (*grid, *variables, B)."""
        item, tables = ref.table, self.tables
        if not ref.positions:
            return tables.read(self.get(item, 0)[..., 0, :], [], ref.symbols, grid)
        places = [tables.at(x, grid) for x in ref.positions]
        if any(isinstance(x, Tensor) for x in places):
            places = [tables.everywhere(x) for x in places]
        if len(places) == 1:
            low, table = self._between(item, places[0])
            return tables.read(table, [(len(table), places[0] - low)], ref.symbols, grid)
        p, q = places
        low, table = self._between(item, q - p)
        v, first = q - p - low, tables.cells.first
        before = v * (tables.n - first + 1 - low) - v * (v - 1) // 2
        return tables.read(table, [(len(table), before + p - first)], ref.symbols, grid)

    def _between(self, item: str, widths: Numbers | Tensor) -> tuple[int, Tensor]:
        """The least of some widths, and the cells of all from it to the greatest: by width and left end, (cells,
        *symbols, B).
        """
        first, n = self.tables.cells.first, self.tables.n
        least, most = (first, n) if self.tables.cells.arity[item] == 1 else (0, n - first)
        if not isinstance(widths, Tensor):  # which nobody may look at
            least, most = (int(x.clip(least, most)) for x in (widths.min(), widths.max()))
        key = item, least, most
        if key not in self._flat:
            self._flat[key] = torch.cat([self.get(item, x) for x in range(least, most + 1)], -2).movedim(-2, 0)
        return least, self._flat[key]
