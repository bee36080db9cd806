# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Weights as they are given into lanes, and posteriors out of them.

A weight that no word is an index of, ``arc[i, j]``, is at one place of every sentence's table: it goes into all lanes
of its cell at once. Others, ``attach[w[i], 1, w[j]]``, are looked up for one sentence after the other.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import ClassVar

from ..code.expressions import (
    Expression,
    Name,
    fill,
    greatest,
    lane,
    least,
    real,
    select,
    total_of,
    value,
    with_lane,
)
from ..code.statements import Code
from ..rules.language import Position, Ref, Variable
from ..rules.lowering import lower
from ..rules.recursions import Recursion
from .grids import first_of, last_of, place
from .layout import Layout
from .names import AT_N, BEGIN, HERE, LENGTHS, ORDER, RAGGED, B, N
from .powers import with_gauge
from .regions import Region, by_axes, regions_of
from .tables import Tables
from .weights import MEMORY, NUMBERS, WeightCells, is_gauge

_LENGTHS = Name("lengths.of.lanes", "lanes")


@dataclass
class Elements:
    """Code that goes through the weights of a block of sentences.

    :param recursion: the rules.
    :param lanes: W.
    :param layout: where weights lie.
    :param shared: whether all sentences share the weights that know no position, as numbers.
    :param in_logs: whether numbers are logarithms, and the greatest is the sum; then words have no powers of two.
    """

    recursion: Recursion
    lanes: int
    layout: Layout
    shared: bool = False
    in_logs: bool = False
    code: Code = field(default_factory=Code)
    tables_type: ClassVar[type[Tables]] = Tables

    def __post_init__(self) -> None:
        cells = lower(self.recursion, for_blocks=True)
        self.cells = cells if self.in_logs else with_gauge(cells)
        self.tables = self.tables_type(self.cells, self.layout, self.lanes, self.shared, self.in_logs, self.code)
        self.regions = {w: list(regions_of(self.cells, w)) for w in self.tables.in_lanes if not is_gauge(w.table)}

    @contextmanager
    def each_lane(self) -> Iterator[Name]:
        code = self.code
        with code.loop("lane", 0, HERE) as x:
            b = code.set(B.name, ORDER[BEGIN + x])
            code.set(AT_N.name, LENGTHS[b])
            self.layout.enter(code, x)
            yield x

    def find_sentences(self) -> None:
        """The sentence of each lane, and its length; lanes without one have the last one, without a share in it."""
        code = self.code
        code.set(_LENGTHS.name, fill(0.0))
        for x in range(self.lanes):
            at = BEGIN + least(x, HERE - 1)
            b = code.set(f"b.{x}", ORDER[at])
            code.set(_LENGTHS.name, with_lane(_LENGTHS, x, real(LENGTHS[b])))

    def feed(self, region: Region, cell: Expression, table: str, nothing: float) -> None:
        """Numbers of all elements of a region into cells.

        :param cell: at the axes at hand.
        :param table: ``weight``, or another table for each weight.
        :param nothing: of elements that a sentence does not have.
        """
        code, f = self.code, by_axes(region.ref)
        if self.layout.has_one_place(f):
            ends = (
                place(Position(x.name, -end.offset)) for x in region.loops for end in x.high if end.name in ("", "n")
            )
            with self.loops(region, N):
                lanes: Expression = fill(nothing)
                for x in self._unrolled_lanes():
                    lanes = code.let(with_lane(lanes, x, self.number(f, table, nothing)))
                has_it = fill(real(functools.reduce(greatest, ends, value(1)))) <= _LENGTHS
                code.put(MEMORY, cell, select(has_it, lanes, fill(nothing)))
            return
        with code.when(RAGGED > 0), self.loops(region, N):
            code.put(MEMORY, cell, fill(nothing))
        with self.in_lanes(region) as here:
            code.put(NUMBERS, cell * self.lanes + here, self.number(f, table, nothing))

    def source(self, f: Ref) -> str:
        """Of a weight that is found here, see :class:`.Table`."""
        return self.cells.recursion.tables[f.table].source

    def number(self, f: Ref, table: str, nothing: float) -> Expression:
        """An element of a table of the sentence ``b``, or whether what a weight says holds: one, or ``nothing``."""
        if not (source := self.source(f)):
            return self.layout.weight(f, f"{table}.{f.table}")
        one = 0.0 if nothing < 0 or table != "weight" else 1.0
        return select(self.layout.says(f, source), one, nothing)

    def drain(self) -> None:
        """Add the posteriors of all elements to the output, also of numbers that all sentences share."""
        numbers = [(w, Region(self.tables.plain(w), ())) for w in self.tables.numbers if w in self.tables.counted]
        for w, region in (*self.all_regions(), *numbers):
            if w in self.tables.counted:
                self._drain(region, self.place(w, region, adjoint=True))

    def _drain(self, region: Region, cell: Expression) -> None:
        code, f = self.code, by_axes(region.ref)
        if not self.layout.has_one_place(f):
            with self.in_lanes(region) as here:
                self.add(f, NUMBERS[cell * self.lanes + here])
            return
        with self.loops(region, N):
            posteriors = code.let(MEMORY[cell])
            with code.when(Name(f"out.{f.table}.b", "int") > 0):
                for x in self._unrolled_lanes():
                    self.add(f, lane(posteriors, x))
            with code.otherwise():  # all sentences share it
                code.set(B.name, 0)
                self.add(f, total_of(posteriors))

    def _unrolled_lanes(self) -> Iterator[int]:
        """All lanes, each with its sentence, in code for each of them."""
        for x in range(self.lanes):
            self.code.set(B.name, Name(f"b.{x}", "int"))
            yield x

    def add(self, f: Ref, number: Expression) -> None:
        """Add a number to an element of the output."""
        target = self.layout.output(f)
        self.code.add(target.array, target.index, number)

    def place(self, w: WeightCells, region: Region, adjoint: bool = False) -> Expression:
        """The cell of a weight, or of its posterior, at the axes at hand."""
        return self.tables.weight(by_axes(region.ref), adjoint).index({})

    def all_regions(self) -> Iterator[tuple[WeightCells, Region]]:
        """The regions of all tables in lanes."""
        return ((w, region) for w, regions in self.regions.items() for region in regions)

    @contextmanager
    def in_lanes(self, region: Region) -> Iterator[Name]:
        """Loops over the elements of a region, in one lane after the other."""
        with self.each_lane() as x, self.loops(region, None):
            yield x

    @contextmanager
    def loops(self, region: Region, n: Expression | None) -> Iterator[None]:
        """Loops over the elements of a region; ``n`` for the length, or that of the lane at hand."""
        if n is not None:
            self.code.set(AT_N.name, n)
        with ExitStack() as stack:
            for loop in region.loops:
                stack.enter_context(self.code.loop(f"at.{loop.name}", first_of(loop), last_of(loop) + 1))
            for x in region.ref.symbols:
                if isinstance(x, Variable):
                    stack.enter_context(self.code.loop(f"sym.{x.name}", 0, self.layout.size(x.size)))
            yield
