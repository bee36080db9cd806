# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The cells of a chart, filled width by width in torch.

Before:
    IR[i, j] += arc[i, j] * sum(k = i .. j - 1: RC[i, k] * LC[k + 1, j])
After, for the spans of width w, with i = first .. n - w, and k = i + t, t = 0 .. w - 1, all at once:
    IR[i, i + w] = arc[i, i + w] * sum(t: RC[i, i + t] * LC[i + t + 1, i + w])
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import reduce

import numpy as np
import torch
from torch import Tensor

from ..rules.cells import CellClass, Cells, Head, Inner, Kind, Term
from ..rules.language import Entry, InvalidRecursion, Position, Ref, Variable, Word
from ..rules.lowering import items_here
from .chart import Chart
from .semirings import Logarithms, Part
from .tables import Grid, Tables, align, variables_of, where


class Filler:
    """Fills a chart.

    :param chains: by the class of cells and the table, see :func:`longest_chain`.
    """

    def __init__(self, tables: Tables, semiring: Logarithms, chains: Mapping[tuple[int, str], int]) -> None:
        self.tables, self.semiring, self.chart, self.chains = tables, semiring, Chart(tables), chains
        self.cells, self.first, self.n = tables.cells, tables.cells.first, tables.n

    def fill(self, spans_read_points: bool) -> Tensor:
        """All cells: spans by width, points, the goal, whose values they are, shape ``(B,)``.

        :param spans_read_points: a rare case, and n times as long: each time one point more is right.
        """
        for _ in range(self.n - self.first + 1 if spans_read_points else 1):
            self._kind("span", range(self.n - self.first + 1))
            self._kind("point", range(self.first, self.n + 1))
        self._kind("goal", range(1))
        return self.chart.get(self.cells.goal, 0)[0]

    def _kind(self, kind: Kind, widths: range) -> None:
        """Cells of one kind."""
        for cell in self.cells.of(kind):
            for w in widths:
                if w == cell.width or (cell.width is None and w >= cell.least):
                    self._cell(cell, w)

    def _cell(self, cell: CellClass, w: int) -> None:
        """All items of the cells of one width."""
        i = np.arange(self.n - self.first + 1 - w if cell.kind == "span" else 1) + self.first
        values = {"span": {"i": i, "j": i + w}, "point": {"j": np.array([w])}, "goal": {}}[cell.kind]
        grid, sums = Grid(values, 1), dict[Inner, Tensor | None]()
        for table in dict.fromkeys(h.ref.table for h in cell.heads):
            heads = [(h, t) for h in cell.heads if h.ref.table == table for t in h.terms]
            chained = {id(t): reads_itself(self.cells, cell, h.ref, t) for h, t in heads}
            first = [self._at_head(h, t, w, grid, sums) for h, t in heads if not chained[id(t)]]
            self._put(table, w, first)
            for _ in range(self.chains[id(cell), table]):
                more = [self._at_head(h, t, w, grid, {}) for h, t in heads if chained[id(t)]]
                self._put(table, w, [*first, *more])

    def _put(self, table: str, w: int, parts: Sequence[Tensor | None]) -> None:
        known = [x for x in parts if x is not None]
        if len(known) > 1:
            known = [self.semiring.total(torch.stack(known), (0,))]
        self.chart.put(table, w, known[0] if known else self.chart.full(table, w))

    # ------------------------------------------------------------------ terms

    def _at_head(self, head: Head, term: Term, w: int, grid: Grid, sums: dict[Inner, Tensor | None]) -> Tensor | None:
        """The value of a term at all symbols of its item: (*symbols, left ends, B); None where there is none."""
        value = self._term(head, term, grid, sums)
        if value is None:
            return None
        shape = self.chart.shape(head.ref.table, w)
        if head.ref.symbols != variables_of(head.ref.symbols):
            value = self._scattered(head, shape[:-2], value, grid)
        return value if value.shape == shape else value.expand(shape)

    def _term(self, head: Head, term: Term, grid: Grid, sums: dict[Inner, Tensor | None]) -> Tensor | None:
        """The value of a term, (*variables of the head, left ends, B)."""
        inside = self.tables.holds(term.guard, grid)
        if inside is False:
            return None
        parts: list[Part] = []
        if term.inner is not None:
            if term.inner not in sums:
                sums[term.inner] = self._sum(term.inner, grid)
            value = sums[term.inner]
            if value is None:
                return None
            parts.append((value, term.inner.free))
        parts += [self._factor(f, grid) for f in term.factors]
        kept = variables_of(head.ref.symbols)
        masked = [(_masked(inside, x, 0), v) for x, v in parts or [self._one(1, 1)]]
        return self.semiring.contraction(masked, (*kept, *term.symbols), len(kept), 0)

    def _scattered(self, head: Head, sizes: Sequence[int], value: Tensor, grid: Grid) -> Tensor:
        """The value of a head whose symbols are entries of lists, constants, words or the same twice."""
        t, symbols, variables = self.tables, list(head.ref.symbols), variables_of(head.ref.symbols)
        for a, x in enumerate(symbols):
            if isinstance(x, Word):  # an axis more, where one value only is possible
                own = torch.arange(sizes[a], device=t.device)[:, None, None] == t.word(x, grid)
                value = torch.where(own.reshape(-1, *(1,) * len(variables), *own.shape[1:]), value, -torch.inf)
                symbols[a] = extra = Variable(f"{a}:{x}", sizes[a])
                variables = (extra, *variables)
        value = align(value, variables, variables_of(symbols))
        extents = [t.size(v.size) for v in variables_of(symbols)]
        owner = t.flat_symbols(sizes, symbols).flatten()
        value = value.expand(*extents, *value.shape[-2:]).reshape(-1, *value.shape[-2:])
        return self.semiring.scattered(value, owner, math.prod(sizes)).reshape(*sizes, *value.shape[-2:])

    def _sum(self, inner: Inner, cell: Grid) -> Tensor | None:
        """An inner sum, (*free symbols, left ends, B); None of nothing."""
        lead, bounds = len(inner.loops), []
        values = {name: v.reshape(*[1] * lead, -1) for name, v in cell.values.items()}
        for a, loop in enumerate(inner.loops):
            grid = Grid(values, lead + 1)
            of_length = [x for x in loop.low if x.name == "n"]
            lows = [self.tables.at(x, grid) for x in loop.low if x not in of_length] or [np.full([1] * (lead + 1), 0)]
            highs = [self.tables.at(_at_most(x, self.n), grid) for x in loop.high]
            low, k = reduce(np.maximum, lows), Position(loop.name)
            count = int((reduce(np.minimum, highs) - low).max()) + 1
            if count <= 0:
                return None
            values[loop.name] = low + np.arange(count).reshape([-1 if d == a else 1 for d in range(lead + 1)])
            bounds += [b for x in of_length for b in (x <= k).bounds] + [b for x in loop.high for b in (k <= x).bounds]
        grid = Grid(values, lead + 1)
        inside = self.tables.holds(bounds, grid)
        if inside is False:
            return None
        counts = [values[loop.name].shape[a] for a, loop in enumerate(inner.loops)]
        parts = [self._factor(f, grid) for f in inner.factors]
        if any(all(x.shape[a] < count for x, _ in parts) for a, count in enumerate(counts)):
            parts.append(self._one(*counts, 1, 1))  # so that terms that do not differ are counted
        parts = parts or [self._one(1, 1)]
        # What is read beyond a range may be no number; a factor that does not know the range is read in it.
        knows = [x is parts[0][0] or max(x.shape[:lead], default=1) > 1 for x, _ in parts]
        masked = [(_masked(inside, x, lead) if own else x, v) for own, (x, v) in zip(knows, parts, strict=True)]
        return self.semiring.contraction(masked, (*inner.free, *inner.symbols), len(inner.free), lead)

    def _factor(self, f: Ref, grid: Grid) -> Part:
        """A factor, (*summed positions, *variables, left ends, B)."""
        found = self.chart.read(f, grid) if f.is_item else self.tables.weight(f, grid)
        return found.movedim(grid.dims - 1, -2), variables_of(f.symbols)

    def _one(self, *shape: int) -> Part:
        return torch.zeros(shape, dtype=self.tables.dtype, device=self.tables.device), ()


def _masked(inside: Tensor | bool, x: Tensor, lead: int) -> Tensor:
    """Numbers (*summed positions, *variables, left ends, B) where something holds, else -inf, without a gradient."""
    return x if inside is True else where(inside, x.movedim(-2, lead), lead + 1).movedim(lead, -2)


def _at_most(x: Position, n: int) -> Position:
    """The position in the longest sentence."""
    return Position("", n + x.offset) if x.name == "n" else x


def reads_itself(cells: Cells, cell: CellClass, head: Ref, term: Term) -> list[tuple[Ref, Variable]]:
    """The items that rows of a list read in the cell that they add to: ``X[i, j, D[u]] += unary[u] * X[i, j, E[u]]``.

    :returns: each with the variable of the rows.
    """
    rows = {x.row for x in head.symbols if isinstance(x, Entry)}
    found = []
    for f in items_here(cell, term.rule, cells.first, cells.domains):
        shared = [x.row for x in f.symbols if isinstance(x, Entry) and x.row in rows]
        if shared:
            found.append((f, shared[0]))
    return found


def longest_chain(cells: Cells, cell: CellClass, table: str, lists: Mapping[str, Sequence[int]]) -> int:
    """How often rows that read their own cell are gone through until nothing changes: each by itself, at most.

    :raises InvalidRecursion: if a row needs itself.
    """
    total = 0
    for head in (h for h in cell.heads if h.ref.table == table):
        own = [x for term in head.terms for x in reads_itself(cells, cell, head.ref, term)]
        if not own:
            continue
        row = own[0][1]
        keys = []
        for f, _ in own:
            pairs = zip(head.ref.symbols, f.symbols, strict=True)
            columns = [(lists[x.column], lists[y.column]) for x, y in pairs if _are_of(x, y, row)]
            keys.append(
                [(tuple(x[r] for x, _ in columns), tuple(y[r] for _, y in columns)) for r in range(len(columns[0][0]))]
            )
        left = set(range(len(keys[0])))
        while left:
            made = [{key[r][0] for r in left} for key in keys]
            ready = {r for r in left if all(key[r][1] not in m for key, m in zip(keys, made, strict=True))}
            if not ready:
                raise InvalidRecursion(f"{head.ref}: row {min(left)} of the list needs itself, by way of others or not")
            left -= ready
            total += 1
    return total


def _are_of(x: object, y: object, row: Variable) -> bool:
    """Whether two symbols are entries of one row."""
    return isinstance(x, Entry) and isinstance(y, Entry) and x.row == y.row == row
