# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The values of all items of all sentences, filled width by width at the places of :mod:`.positions`.

The cells of one width stand side by side: ``(*symbols, left ends, B)``. A point has its position as its width and one
left end. All cells of an item stand in one row, too, which grows by a width at a time. Nothing is written in place.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..rules.cells import CellClass, Head, Term
from ..rules.domains import ZERO
from ..rules.language import Entry, InvalidRecursion, Link, Ref, Variable
from .positions import Grid, Places, Positions
from .semirings import Numbers
from .tables import Tables, align

Symbols = tuple[Variable, ...]
Part = tuple[Tensor, Symbols]  # (*summed positions, *variables, left ends, B) and the variables


class Chart:
    """
    :param tables: what it is filled from.
    :param semiring: of its cells.
    """

    def __init__(self, tables: Tables, semiring: Numbers, positions: Positions) -> None:
        self.tables, self.semiring, self.positions = tables, semiring, positions
        self.cells = defaultdict[str, dict[int, Tensor]](dict)  # by item and width
        self._rows: dict[str, tuple[int, Tensor]] = {}  # by item: number of widths, (cells, *symbols, B)
        self._tables = {name: semiring.of_log(w) for name, w in tables.weights.items()}
        self._weights: dict[tuple[int, int], dict[int, Tensor]] = {}  # by reference and places, then by width

    def fill(self) -> Tensor:
        """All cells: spans by width, points, the goal, whose values they are, shape ``(B,)``."""
        items = [f for c, _, t in self.tables.cells.terms if c.kind == "span" for f in t.all_factors if f.is_item]
        # Spans that read points are rare, and n times as long: each time one point more is right.
        passes = self.tables.n - self.tables.cells.first + 1 if any(len(f.positions) == 1 for f in items) else 1
        for cell in self.tables.cells.classes * passes:
            heads = [(head, self._chain(head)) for head in cell.heads]
            for w in self.positions.cells[id(cell)].grids:
                self._cell(cell, heads, w)
        return self.get(self.tables.cells.goal, 0)[0]

    def _chain(self, head: Head) -> int:
        """How often the rows of a list are gone through until nothing changes, each by itself at most, if they read the
        cell that they add to: ``X[i, j, D[u]] += unary[u] * X[i, j, E[u]]``; 0 if they do not.

        :raises InvalidRecursion: if a row needs itself.
        """
        keys = []  # symbols that the rows add to, and those that they read
        for f in self.positions.items_here[id(head)]:
            pairs = [(x, y) for x, y in zip(head.ref.symbols, f.symbols, strict=True) if isinstance(x, Entry)]
            pairs = [(x, y) for x, y in pairs if isinstance(y, Entry) and x.row == y.row]
            pairs = [(x, y) for x, y in pairs if x.row == pairs[0][0].row]
            sides = ([self.tables.lists[x.column].tolist() for x in entries] for entries in zip(*pairs, strict=True))
            keys.append([list(zip(*columns, strict=True)) for columns in sides])
        rounds, left = 0, {r for added, _ in keys for r in range(len(added))}
        while left:
            awaited = [{added[r] for r in left} for added, _ in keys]
            ready = {r for r in left if all(read[r] not in x for (_, read), x in zip(keys, awaited, strict=True))}
            if not ready:
                raise InvalidRecursion(f"{head.ref}: row {min(left)} of the list needs itself, by way of others or not")
            left -= ready
            rounds += 1
        return rounds

    def _cell(self, cell: CellClass, heads: Sequence[tuple[Head, int]], w: int) -> None:
        """All items of the cells of one width.

        :param heads: each with its chain of rows; where there is one, it is the last head of its item.
        """
        places, sums, totals = self.positions.cells[id(cell)], dict[Places, Tensor](), dict[str, Tensor]()
        for head, rounds in heads:
            table = head.ref.table
            before = [totals[table]] if table in totals else []
            for _ in range(rounds or 1):
                terms = [self._at_head(head, t, places, w, {} if rounds else sums) for t in head.terms]
                known = [*before, *(x for x in terms if x is not None)]
                if known:
                    total = known[0] if len(known) == 1 else self.semiring.total(torch.stack(known), (0,))
                    zero = self.semiring.zero  # all derivations of the cell are: derivatives below it are cut
                    self.cells[table][w] = totals[table] = torch.where(total.detach() == zero, zero, total)
                    if w < self._rows.get(table, (0,))[0]:  # it had another value before
                        self._rows[table] = w, self._rows[table][1][: self._before(table, w)]

    # ------------------------------------------------------------------ terms

    def _at_head(self, head: Head, term: Term, places: Places, w: int, sums: dict[Places, Tensor]) -> Tensor | None:
        """The value of a term at all symbols of its item: (*symbols, left ends, B); None where there is none."""
        grid, parts = places.grids[w], list[Part]()
        inside = self.tables.holds(term.guard, grid)
        if inside is False:
            return None
        if term.inner is not None:
            inner, summed = term.inner, self.positions.sums[id(term)]
            if w not in summed.grids or (within := self.tables.holds(summed.bounds, summed.grids[w])) is False:
                return None
            if summed not in sums:
                factors = [self._factor(f, summed, w) for f in inner.factors]
                sums[summed] = self._product(factors, within, inner.free, inner.symbols, summed.grids[w].shape[:-1])
            parts.append((sums[summed], inner.free))
        parts += [self._factor(f, places, w) for f in term.factors]
        kept, shape = self.positions.variables[id(head.ref)], self.shape(head.ref.table, w)
        value = self._product(parts, inside, kept, term.symbols)
        if head.ref.symbols != kept:  # but entries of lists, constants, words or the same twice
            owner = self.tables.flat_symbols(shape[:-2], head.ref.symbols, kept, grid)
            value, owner = (x.expand(*owner.shape[:-2], *shape[-2:]).reshape(-1, *shape[-2:]) for x in (value, owner))
            value = self.semiring.scattered(value, owner, math.prod(shape[:-2])).reshape(shape)
        return value if value.shape == shape else value.expand(shape)

    def _product(
        self, parts: list[Part], inside: Tensor | bool, kept: Symbols, summed: Symbols, counts: Sequence[int] = ()
    ) -> Tensor:
        """A product where something holds, summed over so many positions and over symbols: (*kept, left ends, B)."""
        lead, wanted = len(counts), (*kept, *summed)
        parts = parts or [(self.tables.blank.new_full([1] * (lead + 2), self.semiring.one), ())]
        factors = [align(x, variables, wanted) for x, variables in parts]
        if factors[0].shape[:lead] != counts:  # so that terms that do not differ are counted
            factors[0] = factors[0].expand(*counts, *factors[0].shape[lead:])
        if isinstance(inside, Tensor):
            inside = inside.reshape(*inside.shape[:lead], *[1] * len(wanted), *inside.shape[lead:])
            factors = [torch.where(inside, x, self.semiring.zero) for x in factors]
        return self.semiring.contraction(factors, len(kept), lead)

    def _factor(self, f: Ref, places: Places, w: int) -> Part:
        """A factor, (*summed positions, *variables, left ends, B)."""
        key = id(f), id(places)
        if not f.is_item and key not in self._weights:
            self._weights[key] = self._weight(f, places)
        value = self._item(f, places.grids[w]) if f.is_item else self._weights[key][w]
        return value, self.positions.variables[id(f)]

    def _weight(self, f: Ref, places: Places) -> dict[int, Tensor]:
        """A weight at all widths, read at once."""
        t, (grid, counts) = self.tables, places.joined
        table, grids = self._tables[f.table], places.grids.items()
        ends = zip(f.positions, table.shape, strict=False)
        weight = t.read(table, [t.at(x, grid).clip(0, extent - 1) for x, extent in ends], f, grid)
        if f.positions and len(grid.values) > 1:  # what is beyond the end of a sentence may be no number
            last = t.everywhere(np.maximum.reduce(list(grid.values.values())))
            weight = torch.where(last <= t.lengths, weight, self.semiring.zero)
        if weight.shape[-2] == 1:  # the same everywhere
            return {w: weight.reshape(*[1] * (len(g.shape) - 1), *weight.shape) for w, g in grids}
        by_width = zip(grids, weight.movedim(-2, 0).split(counts), strict=True)
        return {w: x.unflatten(0, g.shape).movedim(len(g.shape) - 1, -2) for (w, g), x in by_width}

    # ------------------------------------------------------------------ cells

    def shape(self, item: str, width: int) -> tuple[int, ...]:
        """Of the cells of one width."""
        left_ends = self._before(item, width + 1) - self._before(item, width)
        return *map(self.tables.size, self.tables.cells.sizes[item]), left_ends, self.tables.batch

    def get(self, item: str, width: int) -> Tensor:
        """Cells of one width; what has no proof is zero."""
        if width in self.cells[item]:
            return self.cells[item][width]
        return self.tables.blank.new_full(self.shape(item, width), self.semiring.zero)

    def logs(self) -> Tensor:
        """Of all cells, in one row, without a gradient."""
        cells = [x.detach().flatten() for by_width in self.cells.values() for x in by_width.values()]
        return torch.cat(cells).log()

    def _item(self, ref: Ref, grid: Grid) -> Tensor:
        """An item on a grid, anything where there is no such item: (*summed positions, *variables, left ends, B)."""
        index, width = grid.known.get(id(ref)) or self._index(ref, grid)
        if not isinstance(index, Tensor):
            grid.known[id(ref)] = index, width
        count, *rows = self._rows.get(ref.table, (0,))
        if count <= width:
            rows += [self.get(ref.table, w).movedim(-2, 0) for w in range(count, width + 1)]
            self._rows[ref.table] = width + 1, torch.cat(rows)
        return self.tables.read(self._rows[ref.table][1], [index], ref, grid)

    def _before(self, item: str, width: Any) -> Any:
        """How many cells of lesser widths there are."""
        n, first = self.tables.n, self.tables.cells.first
        return width * (n - first + 1) - width * (width - 1) // 2 if self.tables.cells.arity[item] == 2 else width

    def _index(self, ref: Ref, grid: Grid) -> tuple[Any, int]:
        """Where an item lies in its row, and the greatest width that is read."""
        first, n, arity = self.tables.cells.first, self.tables.n, len(ref.positions)
        p, q = (self.tables.at(x, grid) for x in (ZERO, ZERO, *ref.positions)[-2:])
        most = [0, n, n - first][arity]
        if isinstance(p, Tensor) or isinstance(q, Tensor):  # which nobody may look at
            p, q = self.tables.everywhere(p), self.tables.everywhere(q)
            if isinstance(ref.positions[0], Link):  # what comes later has not been filled
                most = int(grid.values["j"].max()) - 1
        else:
            most = int((q - p).clip(0, most).max())
        index = self._before(ref.table, q - p) + (p - first if arity == 2 else 0)
        return index.clip(0, self._before(ref.table, most + 1) - 1), most
