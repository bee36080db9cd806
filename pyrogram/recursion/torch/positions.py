# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Where cells and the terms of their sums are: what follows from the rules and from the greatest length alone.

Before:
    IR[i, j] += arc[i, j] * sum(k = i .. j - 1: RC[i, k] * LC[k + 1, j])
After, for the spans of width w, with i = first .. n - w, and k = i + t, t = 0 .. w - 1, all at once:
    IR[i, i + w] = arc[i, i + w] * sum(t: RC[i, i + t] * LC[i + t + 1, i + w])
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import Any

import numpy as np

from ..rules.cells import CellClass, Cells, Inner, Loop, symbols_in
from ..rules.language import Link, Position, Ref
from ..rules.lowering import items_here

Array = Any  # a numpy array


@dataclass(eq=False)
class Grid:
    """Positions by name, at many places at once: those of a sum, then the left ends of cells.

    :param values: by name, to be broadcast to ``shape``; zero is among them, and n, the length, is not.
        Of a link it is the link.
    """

    values: Mapping[str, Array]
    shape: tuple[int, ...]
    known: dict[int, Any] = field(default_factory=dict)  # once, by id: where items are, which bounds hold


class Places:
    """Where the cells of a class are, or the terms of a sum that they have.

    :param n: the greatest length.
    """

    def __init__(self, cell: CellClass, loops: Sequence[Loop], first: int, n: int) -> None:
        self.grids: dict[int, Grid] = {}  # by width, without those where there is nothing
        bounds = [b for x in loops for low in x.low for b in (low <= Position(x.name)).bounds]
        self.bounds = (*bounds, *(b for x in loops for high in x.high for b in (Position(x.name) <= high).bounds))
        dims = len(loops) + 1
        for w in {"span": range(n - first + 1), "point": range(first, n + 1), "goal": range(1)}[cell.kind]:
            if w != cell.width and (cell.width is not None or w < cell.least):
                continue
            i, counts = np.arange(n - first + 1 - w if cell.kind == "span" else 1) + first, list[int]()
            values: dict[str, Any] = {"span": {"i": i, "j": i + w}, "point": {"j": np.array([w])}, "goal": {}}[
                cell.kind
            ]
            values = {x: v.reshape(*[1] * len(loops), -1) for x, v in (values | {"": np.array([0])}).items()}
            for a, loop in enumerate(loops):  # as many values of a summed position for each cell
                shortest, longest = values | {"n": 1}, values | {"n": n}  # the lengths of sentences are between
                low = reduce(np.maximum, [shortest[x.name] + x.offset for x in loop.low])
                high = reduce(np.minimum, [longest[x.name] + x.offset for x in loop.high])
                counts.append(max(0, int(np.max(high - low, initial=-1)) + 1))
                if loop.link is not None:  # one, which sentences tell
                    counts[a], values[loop.name] = min(counts[a], 1), loop.link
                    continue
                values[loop.name] = low + np.arange(counts[a]).reshape([-1 if d == a else 1 for d in range(dims)])
            if all(counts):
                self.grids[w] = Grid(values, (*counts, len(i)))

    @cached_property
    def joined(self) -> tuple[Grid, list[int]]:
        """The places of all widths in one row, and how many each has."""
        grids = list(self.grids.values())
        names = [x for x, v in grids[0].values.items() if not isinstance(v, Link)]  # which no weight speaks of
        flat = {x: [np.broadcast_to(g.values[x], g.shape).ravel() for g in grids] for x in names}
        counts = [int(np.prod(g.shape)) for g in grids]
        return Grid({x: np.concatenate(v) for x, v in flat.items()}, (sum(counts),)), counts


class Positions:
    """Of all cells and sums, where the longest sentence has ``n`` words; by the ids of what the recursion keeps."""

    def __init__(self, cells: Cells, n: int) -> None:
        self.variables = {id(f): symbols_in([f]) for _, h, t in cells.terms for f in (h.ref, *t.all_factors)}
        self.cells = {id(c): Places(c, (), cells.first, n) for c in cells.classes}
        self.sums: dict[int, Places] = {}  # by term; of sums of one cell that are equal, one
        self.items_here = defaultdict[int, list[Ref]](list)  # by head
        equal: dict[tuple[int, Inner], Places] = {}
        for c, h, t in cells.terms:
            self.items_here[id(h)] += items_here(c, t.rule, cells.first, cells.domains)
            if t.inner is not None:
                key = id(c), t.inner
                self.sums[id(t)] = equal[key] = equal.get(key) or Places(c, t.inner.loops, cells.first, n)
