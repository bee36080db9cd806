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
from .tables import Grid, Tables


@dataclass
class Chart:
    """
    :param tables: what the chart is filled from.
    """

    tables: Tables
    cells: dict[str, dict[int, Tensor]] = field(default_factory=dict)
    _flat: dict[str, Tensor] = field(default_factory=dict)

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
        self._flat.pop(item, None)

    def get(self, item: str, width: int) -> Tensor:
        """Cells of one width; what has no proof is zero."""
        found = self.cells.get(item, {}).get(width)
        return self.full(item, width) if found is None else found

    def read(self, ref: Ref, grid: Grid) -> Tensor:
        """An item on a grid of positions, anything where there is no such item: (*grid, *variables, B)."""
        item = ref.table
        if item not in self.cells:
            self.put(item, 0, self.full(item, 0))
        known = self.cells[item]
        if item not in self._flat:  # all cells that are known, by width and left end, and one without proof
            values = [self.get(item, v) for v in range(min(known), max(known) + 1)]
            beyond = torch.full_like(values[0][..., :1, :], -torch.inf)  # is read for all that is not known yet
            self._flat[item] = torch.cat([*values, beyond], -2).movedim(-2, 0)
        places = [self.tables.at(x, grid) for x in ref.positions]
        table, first, least = self._flat[item], self.tables.cells.first, min(known)
        if not places:
            return self.tables.read(table[0], [], ref.symbols, grid)
        if len(places) == 1:
            return self.tables.read(table, [(len(table), places[0] - least)], ref.symbols, grid)
        p, q = places
        if isinstance(p, Tensor) or isinstance(q, Tensor):
            p, q = self.tables.everywhere(p), self.tables.everywhere(q)
        v = q - p - least
        before = v * (self.tables.n - first + 1 - least) - v * (v - 1) // 2
        return self.tables.read(table, [(len(table), before + p - first)], ref.symbols, grid)
