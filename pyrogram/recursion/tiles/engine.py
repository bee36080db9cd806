# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A recursion with symbols in lanes that runs."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ..calling.layout import Layout
from ..calling.sentence_events import CELL
from ..lanes.engine import LINE, LONG, LanesEngine, Numbers, areas_of
from ..lanes.sweep_engine import SweepEngine
from ..machine.statements import Function
from ..rules.cells import CellClass, Cells, Term, symbols_in
from ..rules.language import InvalidRecursion, Ref, Size, Word, _positions
from ..rules.lowering import lower, may_be_here
from ..rules.recursions import Recursion
from . import descents, driver, sweeps
from .tables import TileTables

WORTH = 6e5  # operations from which on a sentence may be done alone: fewer are not worth the time of compiling that
LARGE = 2**24  # bytes of a chart of a block, far more than the caches have


class TilesEngine(LanesEngine):
    """As :class:`.LanesEngine`.

    :param logs: whether weights are logarithms; where they are not, all sentences share them.
    :param shared: whether all sentences share the weights of :func:`plain_tables`. These are then no logarithms, except
        for best derivations, which take logarithms alone. None: if all weights are shared.
    """

    def __init__(
        self,
        recursion: Recursion,
        dtype: str = "float64",
        logs: bool = True,
        weights: str = "",
        given: frozenset[str] = frozenset(),
        shared: bool | None = None,
        width: int | None = None,
    ) -> None:
        super().__init__(recursion, dtype, logs, weights, given, width)
        self.shared = not logs if shared is None else shared
        self._most_alone: dict[tuple[int, ...], float] = {}  # by length and sizes

    @property
    def _kind(self) -> str:
        numbers = " with numbers" if self.shared else ""
        return f"tiles of {'logs' if self.logs else 'reals'}{numbers}{self._given}"

    def _of_width(self, width: int) -> LanesEngine:
        options = self._name, self.logs, self._weights.name, self.layout.given, self.shared
        return TilesEngine(self.recursion, *options, width)

    def _as_long_as(self, n: int, sizes: Mapping[str, int]) -> float:
        """Charts of blocks that are far larger than the caches take more than twice as long as others.

        A sentence alone has vectors of symbols, but for best derivations.
        """
        key = n, *sizes.values()
        if key not in self._most_alone:
            items = self.cells.sizes.items()
            cells = sum(2 * _product(own, sizes) * n ** self.cells.arity[name] for name, own in items)
            most = 6.0 if cells * LINE > LARGE else 2.5
            self._most_alone[key] = most if self._operations(n, sizes) >= WORTH else 0.0
        return self._most_alone[key]

    @functools.cached_property
    def _sums(self) -> list[tuple[tuple[Size, ...], int]]:
        """Of every sum of products its symbols, and how many positions its terms have."""
        found = []
        for cell in self.cells.classes:
            cells = max(0, len(cell.positions) - (cell.width is not None))
            for term in (t for h in cell.heads for t in h.terms):
                inner = term.inner
                if inner is not None:
                    found.append((tuple(x.size for x in (*inner.free, *inner.symbols)), cells + len(inner.loops)))
                found.append((tuple(x.size for x in symbols_in(term.factors)), cells))
        return found

    def _operations(self, n: int, sizes: Mapping[str, int]) -> float:
        """About their number for a sentence of n words, inside and outside."""
        return sum(6.0 * _product(own, sizes) * float(n) ** p / math.factorial(p) for own, p in self._sums)

    def _cost(self, n: int, sizes: Mapping[str, int]) -> float:
        return self._operations(n, sizes)

    def _functions_of(self, name: str) -> list[Callable[[Recursion], Function]]:
        kind = self.width, self._name, None, self.shared
        counts = self.width, self._name, Layout(lower(self.recursion), self.layout.given), self.shared
        make: dict[str, Callable[[Recursion], Function]] = {
            "lanes": lambda recursion: driver.TileLogCounts(recursion, *counts).function(self.logs),
            "tangents": lambda recursion: driver.TileTangents(recursion, *counts).function(self.logs),
            "draw": lambda recursion: descents.IndependentTileDraws(recursion, *kind).function(self.logs),
            "best": lambda recursion: descents.BestTileDerivation(recursion, *kind).function(),
        }
        own = self.width, self.shared, None, self.layout.given, areas_of(name)
        return [make[name], lambda recursion: driver.size(recursion, *own)]


def _product(own: Sequence[Size], sizes: Mapping[str, int]) -> int:
    """The number of all symbols together."""
    return math.prod(s if isinstance(s, int) else sizes[s] for s in own)


class TilesSweepEngine(SweepEngine):
    """As :class:`.SweepEngine`, where items have symbols."""

    _kind = "sweeps in tiles"

    @staticmethod
    def _as_long_as(n: Numbers) -> Numbers:
        return np.where(n >= LONG, 1.5, 0.0)

    def _functions_of(self, name: str, lanes: int) -> list[Function]:
        make = {"collapsed_vb": sweeps.collapsed_vb, "hastings": sweeps.hastings}[name]
        return [
            make(self.recursion, self.weighing, lanes),
            driver.size(self.recursion, lanes, False, self._layout),
        ]


def plain_tables(recursion: Recursion) -> frozenset[str]:
    """Weights that know neither positions nor words, in any rule; none, if another weight does in some rules only."""
    cells = lower(recursion, widen=True)
    tables = TileTables(cells, Layout(cells), CELL, shared=True)
    numbers, others = ({w.table for w in found} for found in (tables.numbers, tables.in_lanes))
    return frozenset() if numbers & others else frozenset(numbers)


def fits_tiles(recursion: Recursion) -> bool:
    """Whether a recursion can be run in tiles: rules that say the same of all sentences of a block, whatever their
    lengths; no item at a word; and rows of lists that read their own cell in no inner sum.
    """
    try:
        cells = lower(recursion, widen=True)
    except InvalidRecursion:
        return False
    return all(_fits(cells, c, h.ref, t) for c in cells.classes for h in c.heads for t in h.terms)


def _fits(cells: Cells, cell: CellClass, head: Ref, term: Term) -> bool:
    if term.inner is not None and not term.inner.factors:
        return False
    if any(isinstance(x, Word) and x.words for f in (head, *term.rule.items) for x in f.symbols):
        return False
    if cell.kind == "goal":
        return all(f.positions for f in term.rule.items)
    used = [x.name for f in term.all_factors for x in _positions(f)]
    used += [x for b in term.guard for x in (b.x, b.y)]
    used += [x.name for loop in term.loops for x in (*loop.low, *loop.high)]
    if "n" in used:
        return False
    same = [f for f in term.rule.items if f.table == head.table]
    reads_own = any(may_be_here(cell, term.rule, f, cells.first, cells.domains) for f in same)
    return not (reads_own and term.inner is not None)
