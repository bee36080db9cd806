# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The cells of a class, filled width by width in torch; see :mod:`.engine`.

Before:
    IR[i, j] += arc[i, j] * sum(k = i .. j - 1: RC[i, k] * LC[k + 1, j])
After, for all i at once:
    IR[w] = arc at width w * sum(v = 0 .. w - 1: RC[v] from the left * LC[w - v - 1] to the right)

A position is *near* if its distance from i, or from k, follows from the width. Sums with a position that is not near,
or over several, are taken on a grid of all positions, and masked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..rules.cells import CellClass, Head, Inner, Kind, Loop, Term, names_in
from ..rules.language import Bound, Position, Ref, Variable, Word
from .chart import Chart, between
from .lists import own_row
from .semirings import Part
from .tables import Env, align, variables_of

Heads = tuple[CellClass, Sequence[Head]]
"""A class of cells with its heads, or with what :func:`.in_stages` makes of them."""


class Near(NamedTuple):
    """A position of which the distance from the cell is known: i + offset, j + offset, or that of a summed k."""

    base: str
    offset: int

    def at(self, w: int, k: int = 0) -> int:
        """Its distance from i, at width w."""
        return self.offset + {"i": 0, "j": w, "k": k}[self.base]


def fill(chart: Chart, classes: Sequence[Heads]) -> None:
    """All cells: spans by width, points, the goal."""
    first, n = chart.program.first, chart.tables.n
    for kind, widths in (("span", range(n - first + 1)), ("point", range(first, n + 1)), ("goal", range(1))):
        _fill_kind(chart, classes, kind, widths)


def fill_point_by_point(chart: Chart, classes: Sequence[Heads]) -> Chart:
    """All cells where spans read points, a rare case: all spans again for each point, which takes n times as long."""
    first, n = chart.program.first, chart.tables.n
    items = [name for name, arity in chart.program.arity.items() if arity == 1 and name in chart.program.domains]
    known = {name: {j: chart.full(name, j) for j in range(first, n + 1)} for name in items}
    for last in range(first, n + 1):
        chart = Chart(chart.tables, chart.semiring, {name: dict(x) for name, x in known.items()})
        _fill_kind(chart, classes, "span", range(n - first + 1))
        for name in items:
            chart.cells[name].pop(last, None)
        _fill_kind(chart, classes, "point", range(last, last + 1))
        for name in items:
            known[name][last] = chart.get(name, last)
    _fill_kind(chart, classes, "goal", range(1))
    return chart


def _fill_kind(chart: Chart, classes: Sequence[Heads], kind: str, widths: range) -> None:
    """Cells of one kind."""
    for cell, heads in classes:
        if cell.kind == kind:
            own = [w for w in widths if w == cell.width or (cell.width is None and w >= cell.least)]
            filler = Filler(chart, cell, heads, own)
            for w in own:
                filler.fill(w)


class Filler:
    """Fills the cells of a class.

    :param heads: those of the class, or what :func:`.in_stages` makes of them.
    :param widths: those that will be asked for, one after the other.
    """

    def __init__(self, chart: Chart, cell: CellClass, heads: Sequence[Head], widths: Sequence[int]) -> None:
        self.semiring, self.chart, self.tables = chart.semiring, chart, chart.tables
        self.kind: Kind = cell.kind
        self.first, self.widths = chart.program.first, widths
        self._leftmost = self.first if cell.kind == "span" else 0  # the first i
        cells, by_table = chart.program, dict.fromkeys(h.ref.table for h in heads)
        # Heads that read their own table come one after the other, after the other heads of it.
        self._groups: list[list[Head]] = []
        for name in by_table:
            own = [h for h in heads if h.ref.table == name]
            plain = [h for h in own if own_row(cells, cell, h) is None]
            self._groups += [plain] if plain else []
            self._groups += [[h] for h in own if own_row(cells, cell, h) is not None]
        self._weights: dict[Ref, Sequence[Tensor]] = {}  # one for each width
        self._sums: dict[Inner, Tensor | None] = {}

    def fill(self, w: int) -> None:
        """All items of the cells of one width."""
        self._sums = {}
        for heads in self._groups:
            table = heads[0].ref.table
            known = self.chart.cells.get(table, {}).get(w)
            parts = [] if known is None else [known]
            for head in heads:
                for term in head.terms:
                    value = self._term(head, term, w)
                    if value is not None:
                        parts.append(self._dense(head, value, w))
            if len(parts) > 1:
                parts = [self.semiring.total(torch.stack(parts), (0,))]
            self.chart.put(table, w, parts[0] if parts else self.chart.full(table, w))

    # ------------------------------------------------------------------ terms

    def _term(self, head: Head, term: Term, w: int) -> Tensor | None:
        """The value of a term, (*variables of the head, left ends, B); None where there is none."""
        inside = self._inside(term.guard, w)
        if inside is False:
            return None
        parts: list[Part] = []
        if term.inner is not None:
            if term.inner not in self._sums:
                self._sums[term.inner] = self._sum(term.inner, w)
            value = self._sums[term.inner]
            if value is None:
                return None
            parts.append((value, term.inner.free))
        parts += [(self._factor(f, w), variables_of(f.symbols)) for f in term.factors]
        kept = variables_of(head.ref.symbols)
        value = self.semiring.contraction(parts or [self._one(1, 1)], (*kept, *term.symbols), len(kept), 0)
        return torch.where(inside, value, -torch.inf) if isinstance(inside, Tensor) else value

    def _inside(self, guard: Sequence[Bound], w: int) -> Tensor | bool:
        """Where bounds hold, (left ends, B), or whether they do everywhere or nowhere."""
        i = np.arange(self._lefts(w)) + self._leftmost
        at = {"": 0 * i, "i": i, "j": i + w}
        of_lengths = [b for b in guard if "n" in (b.x, b.y)]
        holds = np.all([at[b.x] - at[b.y] <= b.most for b in guard if b not in of_lengths] or [i >= 0], 0)
        if of_lengths and holds.any():
            found = self.tables.holds(guard, self._positions(w))
            return True if found is None else found
        return bool(holds[0]) if (holds == holds[0]).all() else torch.from_numpy(holds)[:, None].to(self.tables.device)

    def _one(self, *shape: int) -> Part:
        return torch.zeros(shape, dtype=self.tables.dtype, device=self.tables.device), ()

    def _dense(self, head: Head, value: Tensor, w: int) -> Tensor:
        """The value of a head at all symbols of its item: (*symbols, left ends, B)."""
        shape = self.chart.shape(head.ref.table, w)
        if head.ref.symbols != variables_of(head.ref.symbols):
            value = self._scattered(head, shape[:-2], value, w)
        return value if value.shape == shape else value.expand(shape)

    def _scattered(self, head: Head, sizes: Sequence[int], value: Tensor, w: int) -> Tensor:
        """The value of a head whose symbols are entries of lists, constants, words or the same twice."""
        t, symbols, variables = self.tables, list(head.ref.symbols), variables_of(head.ref.symbols)
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

    # ------------------------------------------------------------------ sums

    def _sum(self, inner: Inner, w: int) -> Tensor | None:
        """An inner sum, (*free symbols, left ends, B); None of nothing."""
        ends = [x for loop in inner.loops for side in (loop.low, loop.high) for x in map(self._near, side)]
        if len(inner.loops) > 1 or None in ends or not all(self._is_near(f, inner.loops) for f in inner.factors):
            return self._sum_on_grid(inner, w)
        places: range | None = None
        for loop in inner.loops:
            low, high = ([x.at(w) for x in map(self._near, side) if x is not None] for side in (loop.low, loop.high))
            places = range(max(low), min(high) + 1)
            if not places:
                return None
        parts = [(self._factor(f, w, inner.loops, places), variables_of(f.symbols)) for f in inner.factors]
        return self._contraction(inner, parts or [self._one(1 if places is None else len(places), 1, 1)])

    def _contraction(self, inner: Inner, parts: Sequence[Part]) -> Tensor:
        return self.semiring.contraction(parts, (*inner.free, *inner.symbols), len(inner.free), len(inner.loops))

    def _sum_on_grid(self, inner: Inner, w: int) -> Tensor:
        """An inner sum over all values of its positions, where what must not be is masked."""
        loops, t = inner.loops, self.tables
        lead = len(loops)
        env: dict[str, Tensor | int] = {
            name: v.reshape((1,) * lead + tuple(v.shape)) if isinstance(v, Tensor) else v
            for name, v in self._positions(w).items()
        }
        for a, loop in enumerate(loops):
            k = torch.arange(t.n + 1, device=t.device)
            env[loop.name] = k.reshape([-1 if d == a else 1 for d in range(lead + 2)])
        parts = [(self._read(f, env, lead), variables_of(f.symbols)) for f in inner.factors]
        parts = parts or [self._one(*(1,) * (lead + 2))]
        inside = t.holds(_bounds_of(loops), env) if lead else None
        if inside is not None:
            value, variables = parts[0]
            inside = inside.reshape(*inside.shape[:lead], *(1,) * len(variables), *inside.shape[lead:])
            parts[0] = torch.where(inside, value, -torch.inf), variables
        return self._contraction(inner, parts)

    # ------------------------------------------------------------------ factors

    def _near(self, x: Position, loops: Sequence[Loop] = ()) -> Near | None:
        """Where a position is, from the cell; None if that depends on the sentence's length or is not a distance."""
        if any(x.name == loop.name for loop in loops):
            return Near("k", x.offset)
        if x.name == "j" and self.kind != "goal":
            return Near("j", x.offset)
        return Near("i", x.offset) if x.name == {"span": "i", "point": ""}.get(self.kind) else None

    def _is_near(self, f: Ref, loops: Sequence[Loop] = ()) -> bool:
        """Whether a factor is read in slices of tables: its positions are near, and grow along with i."""
        words = [x.position for x in f.symbols if isinstance(x, Word)]
        if not f.is_item:
            here = {"span": {"", "i", "j"}, "point": {"", "j"}, "goal": {""}}[self.kind]
            return {x.name for x in (*f.positions, *words)} <= here | {loop.name for loop in loops}
        places = [self._near(x, loops) for x in f.positions]
        bases = [x.base for x in places if x is not None]
        if len(bases) < len(places) or words or (self.kind == "span" and len(bases) == 1):
            return False
        return bases not in (["j", "k"], ["k", "i"], ["k", "k"]) or (self.kind == "point" and bases == ["k", "i"])

    def _factor(self, f: Ref, w: int, loops: Sequence[Loop] = (), places: range | None = None) -> Tensor:
        """A factor, (*variables, left ends, B), with splits before if it has the summed position.

        :param places: of the summed position, from i.
        """
        if not self._is_near(f, loops):
            return self._read(f, self._positions(w), 0)
        looped = {loop.name for loop in loops} & names_in(f)
        if f.is_item:
            return self._cells(f, w, loops, places if looped else None)
        if not names_in(f):
            return self.tables.weight(f, {}).movedim(0, -2)
        if looped:
            assert places is not None
            i = torch.arange(self._lefts(w), device=self.tables.device) + self._leftmost
            k = torch.arange(places.start, places.stop, device=self.tables.device)[:, None] + i
            env: Env = {"i": i[None, :, None], "j": i[None, :, None] + w, loops[0].name: k[..., None]}
            return self._read(f, env, 1)
        if f not in self._weights:  # read once for all widths
            v = torch.tensor(self.widths, device=self.tables.device)[:, None, None]
            lefts = max(map(self._lefts, self.widths))
            i = torch.arange(lefts, device=self.tables.device)[None, :, None] + self._leftmost
            self._weights[f] = self._read(f, {"i": i, "j": i + v}, 1).unbind(0)
        found = self._weights[f]
        return between(found[w - self.widths[0] if len(found) > 1 else 0], 0, self._lefts(w))

    def _cells(self, f: Ref, w: int, loops: Sequence[Loop], places: range | None) -> Tensor:
        """An item in slices of its cells; for each summed place they have one width."""
        near = [x for x in (self._near(x, loops) for x in f.positions) if x is not None]
        p, q = near if len(near) == 2 else (None, near[0] if near else Near("i", 0))

        def width(k: int) -> int:  # of a point, its position
            return q.at(w, k) - (0 if p is None else p.at(w, k))

        by_right_end = p is not None and p.base == "k"
        end = None if p is None else q.at(w) if by_right_end else p.at(w)
        start = 0 if end is None else end - (self.first if self.kind == "point" else 0)
        if places is None:
            table = self.chart.get(f.table, width(0))
        elif by_right_end:
            table = self.chart.by_width(f.table, width(places[-1]), width(places[0]), by_right_end).flip(0)
        else:
            table = self.chart.by_width(f.table, width(places[0]), width(places[-1]))
        return self.tables.pick(between(table, start, self._lefts(w)), 0 if places is None else 1, f.symbols)

    def _read(self, f: Ref, env: Env, lead: int) -> Tensor:
        """A factor at any positions, (*lead, *variables, left ends, B)."""
        found = self.chart.read(f, env) if f.is_item else self.tables.weight(f, env)
        return found.movedim(lead, -2)

    def _lefts(self, w: int) -> int:
        """How many cells stand side by side."""
        return self.chart.positions - w if self.kind == "span" else 1

    def _positions(self, w: int) -> Env:
        """The positions of the cells, (left ends, B)."""
        lengths = self.tables.lengths[None, :]
        if self.kind == "goal":
            return {"n": lengths}
        if self.kind == "point":
            return {"j": w, "n": lengths}
        i = self.first + torch.arange(self._lefts(w), device=self.tables.device)[:, None]
        return {"i": i, "j": i + w, "n": lengths}


def _bounds_of(loops: Sequence[Loop]) -> list[Bound]:
    """What holds for summed positions."""
    found: list[Bound] = []
    for loop in loops:
        x = Position(loop.name)
        found += [b for low in loop.low for b in (low <= x).bounds]
        found += [b for high in loop.high for b in (x <= high).bounds]
    return found
