# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The values of all items of all sentences.

The cells of one width stand side by side: ``(*symbols, left ends, B)``. A point has its position as its width and one
left end. Nothing is written in place.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from ..rules.cells import Cells
from ..rules.language import Ref
from .semirings import Logarithms
from .tables import Env, Tables, at


@dataclass
class Chart:
    """
    :param tables: what the chart is filled from.
    :param semiring: sums and products of its values.
    """

    tables: Tables
    semiring: Logarithms
    cells: dict[str, dict[int, Tensor]] = field(default_factory=dict)
    _by_width: dict[tuple[str, bool], Tensor] = field(default_factory=dict)
    _sizes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    _flat: dict[str, Tensor] = field(default_factory=dict)

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
        self.cells.setdefault(item, {})[width] = cells
        for key in ((item, False), (item, True)):
            if len(self._by_width.get(key, ())) > width:  # more rows of a list
                self._by_width[key] = self._by_width[key][:width]
        self._flat.pop(item, None)

    def get(self, item: str, width: int) -> Tensor:
        """Cells of one width; what has no proof is zero."""
        found = self.cells.get(item, {}).get(width)
        return self.full(item, width) if found is None else found

    def by_width(self, item: str, low: int, high: int, by_right_end: bool = False) -> Tensor:
        """Cells of some widths, (width, *symbols, ends, B): at each end spans that begin there, or that end there."""
        key, more = (item, by_right_end), []
        known = self._by_width.get(key)
        for width in range(0 if known is None else len(known), high + 1):
            cells = self.get(item, width)
            missing = self.shape(item, 0)[-2] - cells.shape[-2]
            pads = (0, 0, missing, 0) if by_right_end else (0, 0, 0, missing)
            more.append(torch.nn.functional.pad(cells, pads, value=-torch.inf) if missing else cells)
        if more:
            known = self._by_width[key] = torch.cat([*([] if known is None else [known]), torch.stack(more)])
        assert known is not None
        return known[low : high + 1]

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
