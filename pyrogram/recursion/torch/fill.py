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
from collections.abc import Sequence
from functools import reduce

import numpy as np
import torch
from torch import Tensor

from ..rules.cells import CellClass, Head, Inner, Term, symbols_in
from ..rules.language import Bound, Entry, InvalidRecursion, Position, Ref, Variable
from ..rules.lowering import items_here
from .chart import Chart
from .semirings import Logarithms
from .tables import Grid, Tables, align

Part = tuple[Tensor, tuple[Variable, ...]]  # (*summed positions, *variables, left ends, B) and the variables


class Filler:
    """Fills a chart."""

    def __init__(self, tables: Tables, semiring: Logarithms) -> None:
        self.tables, self.semiring, self.chart = tables, semiring, Chart(tables)
        self.cells, self.first, self.n = tables.cells, tables.cells.first, tables.n

    def fill(self) -> Tensor:
        """All cells: spans by width, points, the goal, whose values they are, shape ``(B,)``."""
        spans, points = range(self.n - self.first + 1), range(self.first, self.n + 1)
        widths = {"span": spans, "point": points, "goal": range(1)}
        items = [f for c, _, t in self.cells.terms if c.kind == "span" for f in t.all_factors if f.is_item]
        # Spans that read points are rare, and n times as long: each time one point more is right.
        for cell in self.cells.classes * (len(spans) if any(len(f.positions) == 1 for f in items) else 1):
            heads = [(head, self._chain(cell, head)) for head in cell.heads]
            for w in widths[cell.kind]:
                if w == cell.width or (cell.width is None and w >= cell.least):
                    self._cell(cell, heads, w)
        return self.chart.get(self.cells.goal, 0)[0]

    def _chain(self, cell: CellClass, head: Head) -> int:
        """How often the rows of a list are gone through until nothing changes, each by itself at most, if they read the
        cell that they add to: ``X[i, j, D[u]] += unary[u] * X[i, j, E[u]]``; 0 if they do not.

        :raises InvalidRecursion: if a row needs itself.
        """
        keys = []  # symbols that the rows add to, and those that they read
        for f in (f for t in head.terms for f in items_here(cell, t.rule, self.first, self.cells.domains)):
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
        i = np.arange(self.n - self.first + 1 - w if cell.kind == "span" else 1) + self.first
        values = {"span": {"i": i, "j": i + w}, "point": {"j": np.array([w])}, "goal": {}}[cell.kind]
        grid, sums, totals = Grid(values, 1), dict[Inner, Tensor | None](), dict[str, Tensor]()
        for head, rounds in heads:
            table = head.ref.table
            before = [totals[table]] if table in totals else []
            for _ in range(rounds or 1):
                terms = [self._at_head(head, t, w, grid, {} if rounds else sums) for t in head.terms]
                known = [*before, *(x for x in terms if x is not None)]
                if known:
                    totals[table] = known[0] if len(known) == 1 else self.semiring.total(torch.stack(known), (0,))
                    self.chart.put(table, w, totals[table])

    # ------------------------------------------------------------------ terms

    def _at_head(self, head: Head, term: Term, w: int, grid: Grid, sums: dict[Inner, Tensor | None]) -> Tensor | None:
        """The value of a term at all symbols of its item: (*symbols, left ends, B); None where there is none."""
        inside, parts = self.tables.holds(term.guard, grid), list[Part]()
        if inside is False:
            return None
        if term.inner is not None:
            if term.inner not in sums:
                sums[term.inner] = self._sum(term.inner, grid)
            value = sums[term.inner]
            if value is None:
                return None
            parts.append((value, term.inner.free))
        parts += [self._factor(f, grid) for f in term.factors]
        kept, shape = symbols_in([head.ref]), self.chart.shape(head.ref.table, w)
        value = self._product(parts, inside, (*kept, *term.symbols), len(kept), 0)
        if head.ref.symbols != kept:  # but entries of lists, constants, words or the same twice
            owner = self.tables.flat_symbols(shape[:-2], head.ref.symbols, kept, grid)
            value, owner = (x.expand(*owner.shape[:-2], *shape[-2:]).reshape(-1, *shape[-2:]) for x in (value, owner))
            value = self.semiring.scattered(value, owner, math.prod(shape[:-2])).reshape(shape)
        return value.expand(shape)

    def _sum(self, inner: Inner, cell: Grid) -> Tensor | None:
        """An inner sum, (*free symbols, left ends, B); None of nothing."""
        lead, bounds, counts = len(inner.loops), list[Bound](), list[int]()
        values = {name: v.reshape(*[1] * lead, -1) for name, v in cell.values.items()}
        for a, loop in enumerate(inner.loops):
            # The lengths of sentences are in between.
            shortest, longest = (Grid({**values, "n": np.full([1] * (lead + 1), n)}, lead + 1) for n in (1, self.n))
            low = reduce(np.maximum, [self.tables.at(x, shortest) for x in loop.low])
            high = reduce(np.minimum, [self.tables.at(x, longest) for x in loop.high])
            counts.append(int((high - low).max()) + 1)
            if counts[a] <= 0:
                return None
            k = Position(loop.name)
            values[loop.name] = low + np.arange(counts[a]).reshape([-1 if d == a else 1 for d in range(lead + 1)])
            bounds += [b for x in loop.low for b in (x <= k).bounds] + [b for x in loop.high for b in (k <= x).bounds]
        grid = Grid(values, lead + 1)
        inside = self.tables.holds(bounds, grid)
        if inside is False:
            return None
        (x, variables), *others = [self._factor(f, grid) for f in inner.factors] or [self._one(lead)]
        every = x.expand(*counts, *x.shape[lead:])  # so that terms that do not differ are counted
        return self._product(
            [(every, variables), *others], inside, (*inner.free, *inner.symbols), len(inner.free), lead
        )

    def _product(
        self, parts: Sequence[Part], inside: Tensor | bool, wanted: tuple[Variable, ...], kept: int, lead: int
    ) -> Tensor:
        """A product where something holds, (*lead, left ends, B), summed over all but the first ``kept`` variables."""
        masked = [(_masked(inside, x, lead), variables) for x, variables in parts or [self._one(lead)]]
        factors = [align(x, variables, wanted) for x, variables in masked]
        return self.semiring.contraction(factors, kept, lead)

    def _factor(self, f: Ref, grid: Grid) -> Part:
        """A factor, (*summed positions, *variables, left ends, B)."""
        if f.is_item:
            return self.chart.read(f, grid).movedim(grid.dims - 1, -2), symbols_in([f])
        t = self.tables
        weight = t.read(t.weights[f.table], [t.at(x, grid) for x in f.positions], f, grid).movedim(grid.dims - 1, -2)
        # What is beyond the end of a sentence may be no number, and no factor of what is beyond it.
        within = t.holds([Bound(name, "n", 0) for name in grid.values if f.positions], grid)
        return _masked(within, weight, grid.dims - 1), symbols_in([f])

    def _one(self, lead: int) -> Part:
        return torch.zeros([1] * (lead + 2), dtype=self.tables.dtype, device=self.tables.device), ()


def _masked(inside: Tensor | bool, x: Tensor, lead: int) -> Tensor:
    """Numbers (*summed positions, *variables, left ends, B) where something holds, else -inf, without a gradient."""
    if isinstance(inside, bool):
        return x
    inside = inside.reshape(*inside.shape[:lead], *[1] * (x.dim() - lead - 2), *inside.shape[lead:])
    return torch.where(inside, x, -torch.inf)
