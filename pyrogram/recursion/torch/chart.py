# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The values of all items of all sentences.

The cells of one width stand side by side: ``(*symbols, left ends, B)``. A point has its position as its width and one
left end. Nothing is written in place.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..rules.domains import ZERO
from ..rules.language import Ref
from .tables import Grid, Tables


@dataclass
class Chart:
    """
    :param tables: what the chart is filled from.
    """

    tables: Tables
    _cells: dict[str, dict[int, Tensor]] = field(default_factory=lambda: defaultdict(dict))
    _flat: dict[str, dict[tuple[int, int], Tensor]] = field(default_factory=lambda: defaultdict(dict))

    def shape(self, item: str, width: int) -> tuple[int, ...]:
        """Of the cells of one width."""
        cells = self.tables.cells
        left_ends = self.tables.n - cells.first + 1 - width if cells.arity[item] == 2 else 1
        return *map(self.tables.size, cells.sizes[item]), left_ends, len(self.tables.lengths)

    def put(self, item: str, width: int, values: Tensor) -> None:
        self._cells[item][width] = values
        self._flat[item].clear()

    def get(self, item: str, width: int) -> Tensor:
        """Cells of one width; what has no proof is zero."""
        if width in self._cells[item]:
            return self._cells[item][width]
        return torch.full(self.shape(item, width), -torch.inf, dtype=self.tables.dtype, device=self.tables.device)

    def read(self, ref: Ref, grid: Grid) -> Tensor:
        """An item on a grid of positions, anything where there is no such item: (*grid, *variables, B)."""
        flat, tables = self._flat[ref.table], self.tables
        first, n, arity = tables.cells.first, tables.n, len(ref.positions)
        least, most = [(0, 0), (first, n), (0, n - first)][arity]
        p, q = (tables.at(x, grid) for x in (ZERO, ZERO, *ref.positions)[-2:])
        if isinstance(p, Tensor) or isinstance(q, Tensor):  # which nobody may look at
            p, q = tables.everywhere(p), tables.everywhere(q)
        else:
            least, most = (int(x.clip(least, most)) for x in ((q - p).min(), (q - p).max()))
        if (least, most) not in flat:  # by width and left end, (cells, *symbols, B)
            flat[least, most] = torch.cat([self.get(ref.table, x) for x in range(least, most + 1)], -2).movedim(-2, 0)
        row = q - p - least
        if arity == 2:
            row = row * (n - first + 1 - least) - row * (row - 1) // 2 + p - first
        return tables.read(flat[least, most], [row], ref, grid)
