# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The cells of a class, filled width by width in torch; see :mod:`.engine`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from ..rules.cells import names_in
from ..rules.language import Variable, Word
from .chart import Chart, between
from .plan import ClassPlan, Factor, HeadPlan, Place, Sum, TermPlan
from .semirings import Part
from .tables import Env, align, variables_of

_START = Place("i", 0)


def fill(chart: Chart, plans: Sequence[ClassPlan]) -> None:
    """All cells: spans by width, points, the goal."""
    first, n = chart.program.first, chart.tables.n
    for kind, widths in (("span", range(n - first + 1)), ("point", range(first, n + 1)), ("goal", range(1))):
        _fill_kind(chart, plans, kind, widths)


def fill_point_by_point(chart: Chart, plans: Sequence[ClassPlan]) -> Chart:
    """All cells where spans read points, a rare case: all spans again for each point, which takes n times as long."""
    first, n = chart.program.first, chart.tables.n
    items = [name for name, arity in chart.program.arity.items() if arity == 1 and name in chart.program.domains]
    known = {name: {j: chart.full(name, j) for j in range(first, n + 1)} for name in items}
    for last in range(first, n + 1):
        chart = Chart(chart.tables, chart.semiring, {name: dict(x) for name, x in known.items()})
        _fill_kind(chart, plans, "span", range(n - first + 1))
        for name in items:
            chart.cells[name].pop(last, None)
        _fill_kind(chart, plans, "point", range(last, last + 1))
        for name in items:
            known[name][last] = chart.get(name, last)
    _fill_kind(chart, plans, "goal", range(1))
    return chart


def _fill_kind(chart: Chart, plans: Sequence[ClassPlan], kind: str, widths: range) -> None:
    """Cells of one kind."""
    for plan in plans:
        own = [w for w in widths if plan.cell.kind == kind and plan.covers(w)]
        filler = Filler(chart, plan, own)
        for w in own:
            filler.fill(w)


class Filler:
    """Fills the cells of a class.

    :param widths: those that will be asked for, one after the other.
    """

    def __init__(self, chart: Chart, plan: ClassPlan, widths: Sequence[int]) -> None:
        self.semiring, self.chart, self.tables = chart.semiring, chart, chart.tables
        self.plan, self.widths = plan, widths
        self.kind, self.first = plan.cell.kind, plan.cells.first
        self._weights: dict[int, Sequence[Tensor]] = {}  # by factor: one for each width
        self._sums: dict[int, Tensor] = {}

    def fill(self, w: int) -> None:
        """All items of the cells of one width."""
        self._sums = {}
        for level in self.plan.levels:
            for group in level.sums:
                self._add_sums(group, w)
            found: dict[str, list[Tensor]] = {}
            for table, heads in level.tables.items():
                known = self.chart.cells.get(table, {}).get(w)
                parts = [] if known is None else [known]
                for head in heads:
                    for term in head.terms:
                        value = self._term(term, w)
                        if value is not None:
                            parts.append(self._dense(table, head, value, w))
                found[table] = parts or [self.chart.full(table, w)]
            for table, cells in self._added(found).items():
                self.chart.put(table, w, cells)

    def _added(self, found: Mapping[str, list[Tensor]]) -> dict[str, Tensor]:
        """The sums of the terms of each table, those of alike tables at once."""
        alike: dict[tuple[int, torch.Size], list[str]] = {}
        for table, parts in found.items():
            alike.setdefault((len(parts), parts[0].shape), []).append(table)
        made: dict[str, Tensor] = {}
        for (count, shape), tables in alike.items():
            if count == 1:
                made |= {table: found[table][0] for table in tables}
            elif len(tables) == 1:
                made[tables[0]] = self.semiring.total(torch.stack(found[tables[0]]), (0,))
            else:
                both = torch.stack([found[table][a] for a in range(count) for table in tables])
                total = self.semiring.total(both.reshape(count, len(tables), *shape), (0,))
                made |= dict(zip(tables, total.unbind(0), strict=True))
        return made

    # ------------------------------------------------------------------ terms

    def _term(self, plan: TermPlan, w: int) -> Tensor | None:
        """The value of a term, (*variables of the head, left ends, B); None where there is none."""
        if not plan.widths[0] <= w <= plan.widths[1]:
            return None
        parts: list[Part] = []
        if plan.sum is not None:
            value = self._sums.get(plan.sum.number)
            if value is None:
                return None
            parts.append((value, plan.sum.inner.free))
        parts += [(self._factor(f, w, None), f.variables) for f in plan.factors]
        if not parts:
            parts.append(self._one(1, 1))
        value = self.semiring.contraction(parts, plan.wanted, plan.num_kept, 0)
        inside = self.tables.holds(plan.conditions, self._positions(w)) if plan.conditions else None
        return value if inside is None else torch.where(inside, value, -torch.inf)

    def _one(self, *shape: int) -> Part:
        return torch.zeros(shape, dtype=self.tables.dtype, device=self.tables.device), ()

    def _dense(self, table: str, head: HeadPlan, value: Tensor, w: int) -> Tensor:
        """The value of a head at all symbols of its item: (*symbols, left ends, B)."""
        shape = self.chart.shape(table, w)
        if not head.plain:
            value = self._scattered(head, shape[:-2], value, w)
        return value if value.shape == shape else value.expand(shape)

    def _scattered(self, head: HeadPlan, sizes: Sequence[int], value: Tensor, w: int) -> Tensor:
        """The value of a head whose symbols are entries of lists, constants, words or the same twice."""
        t, symbols, variables = self.tables, list(head.symbols), variables_of(head.symbols)
        for a, x in enumerate(symbols):
            if isinstance(x, Word):  # an axis more, where one value only is possible
                word = t.word(x, self._positions(w))
                own = torch.arange(sizes[a], device=t.device)[:, None, None] == word
                value = torch.where(own.reshape(-1, *(1,) * len(variables), *own.shape[1:]), value, -torch.inf)
                symbols[a] = extra = Variable(f"{a}:{x}", sizes[a])
                variables = (extra, *variables)
        value = align(value, variables, variables_of(symbols))
        extents = [t.size(v.size) for v in variables_of(symbols)]
        owner = t.flat_symbols(sizes, symbols).flatten()
        value = value.expand(*extents, *value.shape[-2:]).reshape(-1, *value.shape[-2:])
        return self.semiring.scattered(value, owner, math.prod(sizes)).reshape(*sizes, *value.shape[-2:])

    # ------------------------------------------------------------------ sums by slices

    def _add_sums(self, group: Sequence[Sum], w: int) -> None:
        low, high = group[0].range(w)
        if high < low:
            return
        if len(group) > 1:
            self._stacked_sums(group, w)
        elif group[0].sliced:
            x = group[0]
            parts = [(self._factor(f, w, x), f.variables) for f in x.factors] or [self._one(high - low + 1, 1, 1)]
            self._sums[x.number] = self._contraction(x, parts)
        else:
            self._sums[group[0].number] = self._sum_on_grid(group[0], w)

    def _contraction(self, x: Sum, parts: Sequence[Part]) -> Tensor:
        return self.semiring.contraction(parts, x.wanted, len(x.inner.free), len(x.inner.loops))

    def _stacked_sums(self, group: Sequence[Sum], w: int) -> None:
        """Sums of alike products, stacked."""
        rows, columns = [], []
        for x in group:
            low, high = x.range(w)
            assert x.pair is not None
            row, column = x.pair
            (i, k), (l, j) = row.places or (), column.places or ()
            rows.append((row.ref, low + k.offset - i.at(w)))
            columns.append((column.ref, j.at(w) - high - l.offset))
        count, m = high - low + 1, self.chart.positions - w
        of, least = rows[0][1], columns[0][1]
        left = self.chart.rows([(f.table, f.symbols, v - of) for f, v in rows], of, count, i.offset, m)
        right = self.chart.columns([(f.table, f.symbols, v - least) for f, v in columns], least, count, -j.offset, m)
        for x, total in zip(group, self.semiring.total(left + right, (0,)).unbind(0), strict=True):
            self._sums[x.number] = total

    # ------------------------------------------------------------------ factors

    def _factor(self, f: Factor, w: int, of: Sum | None) -> Tensor:
        """A factor, (*variables, left ends, B), with splits before if it has the summed position."""
        ref, places = f.ref, f.places
        if places is None:
            env = self._positions(w)
            found = self.chart.read(ref, env) if ref.is_item else self.tables.weight(ref, env)
            return found.movedim(0, -2)
        if not ref.is_item:
            if id(f) not in self._weights:
                self._weights[id(f)] = self._weight(f, of)
            return self._weights[id(f)][w - self.widths[0]]
        chart, m, slot = self.chart, self._lefts(w), (ref.table, ref.symbols, 0)
        low, high = of.range(w) if of is not None and f.looped else (0, 0)
        p, q = places if len(places) == 2 else (_START, *places) if places else (_START, _START)
        if p.base == "k" and self.kind == "point":
            return self.tables.pick(chart.ending(ref.table, q.at(w), low + p.offset, high + p.offset), 1, ref.symbols)
        if p.base == "k":
            return chart.columns([slot], q.at(w) - high - p.offset, high - low + 1, -q.offset, m)
        start = p.at(w) - (self.first if self.kind == "point" and len(places) == 2 else 0)
        if q.base == "k":
            return chart.rows([slot], low + q.offset - p.at(w), high - low + 1, start, m)
        cells = chart.get(ref.table, q.at(w) - p.at(w))
        return self.tables.pick(between(cells, start, m), 0, ref.symbols)

    def _weight(self, f: Factor, of: Sum | None) -> Sequence[Tensor]:
        """A weight for each width, read once for all."""
        if not names_in(f.ref):
            return [self.tables.weight(f.ref, {}).movedim(0, -2)] * len(self.widths)
        env, shapes = self._grid(of if f.looped else None)
        parts = self.tables.weight(f.ref, env).split([k * m for k, m in shapes])
        if of is not None and f.looped:
            parts = [x.unflatten(0, shape) for x, shape in zip(parts, shapes, strict=True)]
            return [x.movedim(1, -2) for x in parts] if f.variables else parts
        return [x.movedim(0, -2) for x in parts] if f.variables else parts

    def _grid(self, of: Sum | None) -> tuple[Env, list[tuple[int, int]]]:
        """The positions of the cells of all widths in one row, with those of a loop; and the shapes of its parts."""
        loop = None if of is None else of.loop
        key = self.kind, self.first, tuple(self.widths), None if of is None else (of.low, of.high)
        if key not in self.tables.grids:
            parts: list[Tensor] = []
            shapes = []
            for w in self.widths:
                low, high = (0, 0) if of is None else of.range(w)
                shapes.append((max(0, high - low + 1), self._lefts(w)))
                i = torch.arange(shapes[-1][1], device=self.tables.device) + (self.first if self.kind == "span" else 0)
                k = i + torch.arange(low, low + shapes[-1][0], device=self.tables.device)[:, None]
                parts.append(torch.stack([i.expand(k.shape), (i + w).expand(k.shape), k]).flatten(1))
            self.tables.grids[key] = torch.cat(parts, 1)[..., None], shapes
        grid, shapes = self.tables.grids[key]
        i, j, k = grid.unbind(0)
        return {"i": i, "j": j} | ({} if loop is None else {loop: k}), shapes

    def _lefts(self, w: int) -> int:
        """How many cells stand side by side."""
        return self.chart.positions - w if self.kind == "span" else 1

    # ------------------------------------------------------------------ sums on a grid

    def _positions(self, w: int) -> Env:
        """The positions of the cells, (left ends, B)."""
        lengths = self.tables.lengths[None, :]
        if self.kind == "goal":
            return {"n": lengths}
        if self.kind == "point":
            return {"j": w, "n": lengths}
        i = self.first + torch.arange(self._lefts(w), device=self.tables.device)[:, None]
        return {"i": i, "j": i + w, "n": lengths}

    def _sum_on_grid(self, x: Sum, w: int) -> Tensor:
        """An inner sum over all values of its positions, where what must not be is masked."""
        loops, t = x.inner.loops, self.tables
        lead = len(loops)
        env: dict[str, Tensor | int] = {
            name: v.reshape((1,) * lead + tuple(v.shape)) if isinstance(v, Tensor) else v
            for name, v in self._positions(w).items()
        }
        for a, loop in enumerate(loops):
            k = torch.arange(t.n + 1, device=t.device)
            env[loop.name] = k.reshape([-1 if d == a else 1 for d in range(lead + 2)])
        parts = []
        for f in x.factors:
            value = self.chart.read(f.ref, env) if f.ref.is_item else t.weight(f.ref, env)
            parts.append((value.movedim(lead, -2), f.variables))
        parts = parts or [self._one(*(1,) * (lead + 2))]
        inside = t.holds(x.bounds, env) if lead else None
        if inside is not None:
            value, variables = parts[0]
            inside = inside.reshape(*inside.shape[:lead], *(1,) * len(variables), *inside.shape[lead:])
            parts[0] = torch.where(inside, value, -torch.inf), variables
        return self._contraction(x, parts)
