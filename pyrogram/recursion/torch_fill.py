# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The cells of a class, filled width by width in torch; see :mod:`.torch_engine`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from .cells import Head, Inner, names_in
from .language import Bound, Entry, Position, Ref, Variable, Word
from .torch_chart import Chart
from .torch_plan import ClassPlan, TermPlan
from .torch_semirings import Semiring
from .torch_tables import Env, Tables, align, at, variables_of

Part = tuple[Tensor, tuple[Variable, ...]]  # (..., *variables, left ends, B) and the variables


@dataclass
class Run:
    """One filling of a chart."""

    semiring: Semiring
    tables: Tables
    chart: Chart

    def fill(self, plans: Sequence[ClassPlan], widths: Sequence[int]) -> None:
        """All cells of some widths, in order."""
        for plan in plans:
            own = [w for w in widths if plan.covers(w)]
            if own:
                filler = Filler(self, plan, own)
                for w in own:
                    filler.fill(w)


class Filler:
    """Fills the cells of a class.

    :param widths: those that will be asked for.
    """

    def __init__(self, run: Run, plan: ClassPlan, widths: Sequence[int]) -> None:
        lists = {name: column.tolist() for name, column in run.tables.lists.items()} if plan.follows_lists else {}
        self.plan, more = plan.in_stages(lists)
        added = {name: torch.tensor(rows, device=run.tables.device) for name, rows in more.items()}
        self.tables = replace(run.tables, lists=run.tables.lists | added)
        self.chart = replace(run.chart, tables=self.tables)
        self.semiring, self.widths = run.semiring, widths
        self.kind, self.first = plan.cell.kind, run.tables.cells.first
        self._weights: dict[tuple[Ref, str | None], Callable[[int], Tensor]] = {}
        self._sums: dict[Inner, Tensor] = {}

    def fill(self, w: int) -> None:
        """All items of the cells of one width."""
        self._sums = {}
        found: list[Tensor] = []
        heads = self.plan.heads
        for number, (head, terms) in enumerate(heads):
            for term in terms:
                value = self._term(head, term, w)
                if value is not None:
                    found.append(self._dense(head, value, w))
            table = head.ref.table
            last = number + 1 == len(heads) or heads[number + 1][0].ref.table != table
            if found and (last or self.plan.follows_lists):
                found = [found[0] if len(found) == 1 else self.semiring.total(torch.stack(found), [0])]
                self.chart.put(table, w, found[0])
            if last:
                found = []

    # ------------------------------------------------------------------ terms

    def _term(self, head: Head, plan: TermPlan, w: int) -> Tensor | None:
        """The value of a term, (*variables of the head, left ends, B); None where there is none."""
        env = self._positions(w)
        conditions = [b for b in plan.conditions if not _is_known(b, env)]
        if any(_is_known(b, env) and not _holds(b, env) for b in plan.conditions):
            return None
        term = plan.term
        parts: list[Part] = []
        if term.inner is not None:
            value = self._sliced_sum(plan, w) if plan.sliced else self._sum_on_grid(plan, w)
            if value is None:
                return None
            parts.append((value, term.inner.free))
        parts += [self._factor(f, plan, w) for f in term.factors]
        wanted = (*variables_of(head.ref.symbols), *term.symbols)
        value = product(parts, wanted) if parts else self._one(len(wanted))
        if term.symbols:
            value = self.semiring.total(value, range(len(wanted) - len(term.symbols), len(wanted)))
        if conditions:
            inside = self.tables.holds(conditions, env)
            value = torch.where(inside, value, -torch.inf)
        return value

    def _one(self, num_axes: int) -> Tensor:
        return torch.zeros([1] * (num_axes + 2), dtype=self.tables.dtype, device=self.tables.device)

    def _dense(self, head: Head, value: Tensor, w: int) -> Tensor:
        """The value of a head at all symbols of its item: (*symbols, left ends, B)."""
        t = self.tables
        shape = self.chart.shape(head.ref.table, w)
        symbols = list(head.ref.symbols)
        for a, x in enumerate(symbols):
            if isinstance(x, Word):  # possible for one value only
                word = t.word(x, self._positions(w))
                own = torch.arange(shape[a], device=t.device)[:, None, None] == word
                value = torch.where(own.reshape(-1, *(1,) * (value.dim() - 2), *own.shape[1:]), value, -torch.inf)
                symbols = [Variable(f"{x}", shape[a]) if y == x else y for y in symbols]
        if any(isinstance(x, Word) for x in head.ref.symbols):
            words = tuple(v for v in variables_of(symbols) if v not in variables_of(head.ref.symbols))
            value = align(value, (*reversed(words), *variables_of(head.ref.symbols)), variables_of(symbols))
        variables = variables_of(symbols)
        if tuple(symbols) != variables:
            extents = [t.size(v.size) for v in variables]
            owner = t.flat_symbols(shape[: len(symbols)], symbols).flatten()
            value = value.expand(*extents, *value.shape[-2:]).flatten(0, len(extents) - 1) if extents else value[None]
            count = 1
            for extent in shape[: len(symbols)]:
                count *= extent
            value = self.semiring.scattered(value, owner, count).reshape(*shape[: len(symbols)], *value.shape[-2:])
        return value if value.shape == shape else value.expand(shape)

    # ------------------------------------------------------------------ sums by slices

    def _sliced_sum(self, plan: TermPlan, w: int) -> Tensor | None:
        inner = plan.term.inner
        assert inner is not None
        if inner not in self._sums:
            if plan.loop is not None and _is_empty(plan.range(w)):
                return None
            peers = self._peers(plan, w)
            if len(peers) > 1:
                self._stacked_sums(peers, w)
            else:
                wanted = (*inner.free, *inner.symbols)
                value = product([self._factor(f, plan, w) for f in inner.factors], wanted)
                lead = value.dim() - 2 - len(wanted)
                dims = [*range(lead), *range(lead + len(inner.free), lead + len(wanted))]
                self._sums[inner] = self.semiring.total(value, dims)
        return self._sums[inner]

    def _peers(self, plan: TermPlan, w: int) -> list[TermPlan]:
        """Sums of the cell with equally many splits, whose items are all known."""
        if plan.stack is None:
            return [plan]
        found = {plan.term.inner: plan}
        low, high = plan.range(w)
        for other in self.plan.terms:
            if other.stack is None or other.term.inner in self._sums or other.term.inner in found:
                continue
            low_, high_ = other.range(w)
            aligned = all(
                other.place(a.positions[x]).offset == plan.place(b.positions[x]).offset
                for x, (a, b) in enumerate(zip(other.stack, plan.stack, strict=True))
            )
            if high_ - low_ == high - low and aligned and self._is_ready(other, w):
                found[other.term.inner] = other
        return list(found.values())

    def _is_ready(self, plan: TermPlan, w: int) -> bool:
        low, high = plan.range(w)
        assert plan.stack is not None
        row, column = plan.stack
        greatest = high + row.positions[1].offset - plan.place(row.positions[0]).at(w)
        widest = plan.place(column.positions[1]).at(w) - low - column.positions[0].offset
        here = {head.ref.table for head, _ in self.plan.heads}
        return all(
            width < w or f.table not in here or w in self.chart.cells.get(f.table, {})
            for f, width in ((row, greatest), (column, widest))
        )

    def _stacked_sums(self, peers: list[TermPlan], w: int) -> None:
        m = self.chart.positions - w
        rows, columns = [], []
        for p in peers:
            assert p.stack is not None
            row, column = p.stack
            low, high = p.range(w)
            rows.append((row.table, low + row.positions[1].offset - p.place(row.positions[0]).at(w)))
            columns.append((column.table, p.place(column.positions[1]).at(w) - high - column.positions[0].offset))
        start, end = p.place(row.positions[0]).offset, -p.place(column.positions[1]).offset
        left = self.chart.rows([(x, (), v - rows[0][1]) for x, v in rows], rows[0][1], high - low + 1, start, m)
        least = columns[0][1]
        right = self.chart.columns([(x, (), v - least) for x, v in columns], least, high - low + 1, end, m)
        for p, total in zip(peers, self.semiring.total(left + right, [0]).unbind(0), strict=True):
            assert p.term.inner is not None
            self._sums[p.term.inner] = total

    # ------------------------------------------------------------------ factors

    def _factor(self, f: Ref, plan: TermPlan, w: int) -> Part:
        """A factor of a term: (*variables, left ends, B), with splits before if it has the summed position."""
        variables = variables_of(f.symbols)
        if not f.is_item:
            key = f, plan.loop if plan.loop in names_in(f) else None
            if key not in self._weights:
                self._weights[key] = self._weight(f, plan)
            return self._weights[key](w), variables
        if not plan.sliced:
            env = self._positions(w)
            return self.chart.read(f.table, f.positions, f.symbols, env).movedim(0, -2), variables
        return self._slice(f, plan, w), variables

    def _slice(self, f: Ref, plan: TermPlan, w: int) -> Tensor:
        """An item at the cells' own positions, or with all splits before."""
        chart, m, slot = self.chart, self._lefts(w), (f.table, f.symbols, 0)
        p, q = (plan.place(x) for x in (f.positions if len(f.positions) == 2 else (Position(""), *f.positions)))
        low, high = plan.range(w) if plan.loop is not None and plan.loop in names_in(f) else (0, 0)
        if p.base == "k" and self.kind == "point":
            found = chart.ending(f.table, q.at(w), low + p.offset, high + p.offset)
            return self.tables.pick(found, 1, f.symbols)
        if p.base == "k":
            return chart.columns([slot], q.at(w) - high - p.offset, high - low + 1, -q.offset, m)
        start = p.at(w) - (self.first if self.kind == "point" and len(f.positions) == 2 else 0)
        if q.base == "k":
            return chart.rows([slot], low + q.offset - p.at(w), high - low + 1, start, m)
        cells = chart.get(f.table, q.at(w) - p.at(w))[..., start : start + m, :]
        return self.tables.pick(cells, 0, f.symbols)

    def _lefts(self, w: int) -> int:
        """How many cells stand side by side."""
        return self.chart.positions - w if self.kind == "span" else 1

    def _weight(self, f: Ref, plan: TermPlan) -> Callable[[int], Tensor]:
        """A weight as a function of the width, read once for all widths."""
        names = names_in(f) - {""}
        t, first, N, device = self.tables, self.first, self.chart.positions, self.tables.device
        if not plan.sliced:
            return lambda w: t.weight(f, self._positions(w)).movedim(0, -2)
        if plan.loop in names:
            return self._weight_of_splits(f, plan)
        widths = torch.tensor(list(self.widths), device=device)
        if not names:
            found = t.weight(f, {}).movedim(0, -2)
            return lambda w: found
        if self.kind == "point":
            each = t.weight(f, {"j": widths[:, None, None]}).movedim(1, -2).unbind(0)
            return lambda w: each[w - self.widths[0]]
        i = first + torch.arange(N, device=device)[:, None]
        if len(names) == 1:
            one = t.weight(f, {"i": i, "j": i}).movedim(0, -2)
            if "i" in names:
                return lambda w: one[..., : N - w, :]
            return lambda w: one[..., w:, :]
        many = t.weight(f, {"i": i[None], "j": i + widths[:, None, None]}).movedim(1, -2).unbind(0)
        return lambda w: many[w - self.widths[0]][..., : N - w, :]

    def _weight_of_splits(self, f: Ref, plan: TermPlan) -> Callable[[int], Tensor]:
        assert plan.loop is not None
        env: dict[str, list[Tensor]] = {"i": [], "j": [], plan.loop: []}
        shapes = []
        for w in self.widths:
            low, high = plan.range(w)
            shapes.append((max(0, high - low + 1), self._lefts(w)))
            i = torch.arange(shapes[-1][1], device=self.tables.device) + (self.first if self.kind == "span" else 0)
            k = torch.arange(low, low + shapes[-1][0], device=self.tables.device)[:, None]
            for name, x in (("i", i), ("j", i + w), (plan.loop, i + k)):
                env[name].append(x.expand(shapes[-1]).flatten())
        all_splits = self.tables.weight(f, {name: torch.cat(x)[:, None] for name, x in env.items()})
        parts = all_splits.split([k * m for k, m in shapes])
        each = [x.reshape(*shape, *x.shape[1:]).movedim(1, -2) for x, shape in zip(parts, shapes, strict=True)]
        return lambda w: each[w - self.widths[0]]

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

    def _sum_on_grid(self, plan: TermPlan, w: int) -> Tensor:
        """An inner sum over all values of its positions, where what must not be is masked."""
        inner, t = plan.term.inner, self.tables
        assert inner is not None
        lead = len(inner.loops)
        env = {
            name: x.reshape((1,) * lead + tuple(x.shape)) if isinstance(x, Tensor) else x
            for name, x in self._positions(w).items()
        }
        k = torch.arange(t.n + 1, device=t.device)
        for a, loop in enumerate(inner.loops):
            env[loop.name] = k.reshape([-1 if d == a else 1 for d in range(lead + 2)])
        wanted = (*inner.free, *inner.symbols)
        parts = []
        for f in inner.factors:
            if f.is_item:
                value = self.chart.read(f.table, f.positions, f.symbols, env)
            else:
                value = t.weight(f, env)
            parts.append((value.movedim(lead, -2), variables_of(f.symbols)))
        value = product(parts, wanted)
        inside = t.holds(plan.bounds, env) if lead else None
        if inside is not None:
            value = torch.where(inside.reshape(*inside.shape[:lead], *(1,) * len(wanted), *inside.shape[lead:]), value, -torch.inf)
        dims = [*range(lead), *range(lead + len(inner.free), lead + len(wanted))]
        return self.semiring.total(value, dims)


def product(parts: Sequence[Part], wanted: Sequence[Variable]) -> Tensor:
    """A product of factors, with all the axes that are wanted."""
    total: Tensor | None = None
    for value, variables in parts:
        value = align(value, variables, wanted)
        total = value if total is None else total + value
    assert total is not None
    return total


def _is_empty(limits: tuple[int, int]) -> bool:
    return limits[1] < limits[0]


def _is_known(b: Bound, env: Env) -> bool:
    return not isinstance(at(Position(b.x), env) - at(Position(b.y), env), Tensor)


def _holds(b: Bound, env: Env) -> bool:
    return bool(at(Position(b.x), env) - at(Position(b.y), env) <= b.most)
