# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A recursion with symbols in lanes that runs."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from ..calling.layout import Layout
from ..calling.sentence_events import CELL
from ..calling.sentences import Sentences
from ..lanes.engine import LONG, LanesEngine, Numbers
from ..lanes.sweep_engine import SweepEngine
from ..machine.statements import Function
from ..rules.cells import CellClass, Cells, Term
from ..rules.language import InvalidRecursion, Ref, Word, _positions
from ..rules.lowering import lower, may_be_here
from ..rules.recursions import Recursion
from . import descents, driver, sweeps
from .tables import TileTables


class TilesEngine(LanesEngine):
    """As :class:`.LanesEngine`.

    :param logs: whether weights are logarithms; where they are not, all sentences share them.
    :param shared: whether all sentences share the weights of :func:`plain_tables`. These are then no logarithms, except
        for best derivations, which take logarithms alone. None: if all weights are shared.
    """

    does_alone = False

    def __init__(
        self,
        recursion: Recursion,
        dtype: str = "float64",
        logs: bool = True,
        weights: str = "",
        given: frozenset[str] = frozenset(),
        shared: bool | None = None,
    ) -> None:
        super().__init__(recursion, dtype, logs, weights, given)
        self.shared = not logs if shared is None else shared

    @property
    def _kind(self) -> str:
        numbers = " with numbers" if self.shared else ""
        return f"tiles of {'logs' if self.logs else 'reals'}{numbers}{self._given}"

    @functools.cached_property
    def _rules(self) -> list[tuple[list[int | str], int]]:
        """Of every rule the sizes of its symbols, and how many positions it has."""
        return [([x.size for x in rule.variables], len(rule.positions)) for rule in self.recursion.rules]

    def _cost(self, given: Sentences) -> float:
        found = 0.0
        for sizes, positions in self._rules:
            symbols = math.prod(s if isinstance(s, int) else given.sizes[s] for s in sizes)
            found += 2.0 * symbols * float(given.pitch) ** positions
        return found

    def _functions_of(self, name: str) -> list[Callable[[Recursion], Function]]:
        kind = self.width, self._name, None, self.shared
        counts = self.width, self._name, Layout(lower(self.recursion), self.layout.given), self.shared
        make: dict[str, Callable[[Recursion], Function]] = {
            "lanes": lambda recursion: driver.TileLogCounts(recursion, *counts).function(self.logs),
            "draw": lambda recursion: descents.IndependentTileDraws(recursion, *kind).function(self.logs),
            "best": lambda recursion: descents.BestTileDerivation(recursion, *kind).function(),
        }
        return [make[name], lambda recursion: driver.size(recursion, self.width, self.shared, given=self.layout.given)]


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
    if any(isinstance(x, Word) for f in (head, *term.rule.items) for x in f.symbols):
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
