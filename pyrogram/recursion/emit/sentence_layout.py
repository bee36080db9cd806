# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Where compiled code finds the numbers of a sentence; :mod:`~pyrogram.recursion.emit.sentence_events` lays them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from ..code.expressions import Array, Element, Expression, Name, value, within
from ..code.statements import Code
from ..rules.language import Constant, Ref
from .layout import Layout, WeightTable
from .sentence_events import CELL, WordAxes, direct_first

OWNERS = Array("owners", "int32")
ENDS = [Name(f"{part}.end", "int") for part in ("direct", "events", "numbers")]
"""Where parts of the numbers that are kept of the sentence at hand end."""


@dataclass
class SentenceLayout(Layout):
    """Names and addresses of numbers by sentence, ``numbers`` of the lane at hand and ``out`` of the sentence.

    :meth:`enter` has to be called wherever a sentence is chosen: it sets the variables that follow from u.

    :param rows: tables of events in which every event is a row.
    :param repeated: see :class:`~pyrogram.recursion.emit.sentence_events.SentenceEvents`.
    :param owned: whether rows have owners.
    :param listed: whether numbers of a sentence are left out; all of them have a place while it is at hand.
    """

    rows: frozenset[str] = frozenset()
    repeated: frozenset[str] = frozenset()
    owned: bool = False
    listed: bool = False
    in_strides: ClassVar[bool] = False

    def parameters(self) -> list[Array | Name]:
        parameters = [p for p in super().parameters() if not p.name.startswith("weight.") or self._is_given(p.name)]
        parameters += [self._rows(w.name) for w in self.weights if w.name in self.given]
        parameters += [self._extent(w, a) for w in self.events for a in range(w.num_axes)]
        parameters += [Array("distinct", "int"), Array("sentence_starts", "int"), Name("room", "int")]
        parameters += [Array("part_ends", "int")] if self.listed else []
        return [*parameters, OWNERS, Array("row_starts", "int"), Array("owned", "int")] if self.owned else parameters

    def _is_given(self, parameter: str) -> bool:
        """Whether a parameter is a table that is given, or one of its strides."""
        return any(f"{parameter}.".startswith(f"weight.{name}.") for name in self.given)

    @cached_property
    def _word_axes(self) -> WordAxes:
        return WordAxes.of(self.cells)

    def _rows(self, table: str) -> Array:
        return Array(f"row.{table}", "int")

    def row(self, table: str) -> Expression:
        return Name(f"row.of.{table}", "int") if table in self.given else super().row(table)

    def _extent(self, w: WeightTable, axis: int) -> Name:
        return Name(f"extent.{w.name}.{axis}", "int")

    def extents(self, w: WeightTable) -> list[Expression]:
        """The shape of the sentence's part of a table, with an axis of one element where every event is a row."""
        shape: list[Expression] = [Name("positions", "int")] * w.num_positions
        for axis, (size, by_word) in enumerate(zip(w.sizes, self._word_axes.axes[w.name], strict=True)):
            known = value(size) if isinstance(size, int) else self._extent(w, w.num_positions + axis)
            shape.append(Name("u", "int") if by_word else known)
        return [*shape, value(1)] if w.name in self.rows else shape

    def enter(self, code: Code, lane: Expression) -> None:
        """Set variables for the sentence ``b`` in a lane: where parts of tables begin, and their sums."""
        b = Name("b", "int")
        code.set("u", Array("distinct", "int")[b])
        code.set("positions", Array("lengths", "int")[b] + 1)
        code.set("first", lane * Name("room", "int"))
        code.set("sentence", Array("sentence_starts", "int")[b])
        for w in (w for w in self.weights if w.name in self.given):  # derivations have no numbers of these
            code.set(f"row.of.{w.name}", self._rows(w.name)[b])
            code.set(f"trace.{w.name}", -1)
            for axis in range(w.num_axes):
                code.set(f"trace.{w.name}.{axis}", 0)
        at: Expression = value(0)
        tables = direct_first(self.events, self.repeated)
        for repeated in (False, True):
            for w in (w for w in tables if (w.name in self.repeated) == repeated):
                code.set(f"part.{w.name}", at)
                code.set(f"trace.{w.name}", at)
                stride: Expression = value(1)
                for axis, extent in reversed(list(enumerate(self.extents(w)))):
                    code.set(f"trace.{w.name}.{axis}", stride)
                    stride = code.let(stride * extent)
                at = code.let(at + stride)
            at = code.set("events_of" if repeated else "direct_of", (at + (CELL - 1)) // CELL * CELL)
        sums = code.set("sums", at)
        at = value(0)
        for w in tables:
            code.set(f"rows.{w.name}", at)
            count: Expression = value(1)
            for extent in self.extents(w)[:-1]:
                count = count * extent
            code.set(f"count.{w.name}", count)
            at = code.let(at + Name(f"count.{w.name}", "int"))
        if self.owned:
            code.set("row_start", Array("row_starts", "int")[b])
            at = Array("owned", "int")[b]
        code.set("numbers_of", (sums + at + (CELL - 1)) // CELL * CELL)
        for x, (end, dense) in enumerate(zip(ENDS, ("direct_of", "events_of", "numbers_of"), strict=True)):
            code.set(end.name, Array("part_ends", "int")[b * 3 + x] if self.listed else Name(dense, "int"))

    @property
    def out(self) -> tuple[Array, Expression]:
        """Where the new numbers of the sentence at hand go, and where these begin."""
        if self.listed:
            return Array("drained", "element"), Name("first", "int")
        return Array("out", "element"), Name("sentence", "int")

    def owner(self, table: str, row: Expression) -> Expression:
        """The number of a row's multinomial, among those of the sentence at hand."""
        at = Name(f"rows.{table}", "int") + row
        return Name("sums", "int") + (OWNERS[Name("row_start", "int") + at] if self.owned else at)

    def value(self, ref: Ref) -> Expression:
        """The weight of an event, or one that is given."""
        return super().weight(ref) if ref.table in self.given else self.weight(ref)

    def follow(self, ref: Ref, outward: bool) -> Expression:
        return super().follow(ref, outward) if ref.table in self.given else value(True)

    def start(self, ref: Ref, outward: bool) -> Expression:
        if ref.table in self.given:
            return super().start(ref, outward)
        return (self.out[1] if outward else Name("first", "int")) + Name(f"part.{ref.table}", "int")

    def begin(self, code: Code, ref: Ref) -> None:
        super().begin(code, ref)
        if ref.table in self.given:
            code.set(f"row.of.{ref.table}", 0)
        else:
            for name in ("sentence", "first", f"part.{ref.table}"):
                code.set(name, 0)

    def axis_values(self, ref: Ref) -> list[Expression]:
        indices = super().axis_values(ref)
        for axis, (x, by_word) in enumerate(zip(ref.symbols, self._word_axes.axes[ref.table], strict=True)):
            if by_word and isinstance(x, Constant):
                indices[len(ref.positions) + axis] = value(self._word_axes.constants.index(x.value))
        return indices

    def _index(self, ref: Ref, axes: slice = slice(None)) -> Expression:
        extents = self.extents(next(w for w in self.weights if w.name == ref.table))
        values = [*self.axis_values(ref), *([value(0)] if ref.table in self.rows else [])]
        index: Expression = value(0)
        for x, extent in list(zip(values, extents, strict=True))[axes]:
            index = index * extent + within(x, 0, extent)
        return index

    def weight(self, ref: Ref, table: str | None = None) -> Element:
        index = Name(f"part.{ref.table}", "int") + self._index(ref)
        if table is not None:
            array, first = self.out
            return array[first + index]
        return Array("numbers", "element")[Name("first", "int") + index]
