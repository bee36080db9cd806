# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Where compiled code finds what is counted of a sentence; :mod:`~pyrogram.sweeps.events` lays it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from pyrogram.recursion.code.expressions import Array, Element, Expression, Name, value, within
from pyrogram.recursion.code.statements import Code
from pyrogram.recursion.emit.layout import Layout, WeightTable
from pyrogram.recursion.emit.names import LENGTHS, B
from pyrogram.recursion.rules.language import Constant, Ref, Word

from .events import CELL, WordAxes

NUMBERS, OUT = Array("numbers", "element"), Array("out", "element")
ROOM = Name("room", "int")
FIRST, SENTENCE = Name("first", "int"), Name("sentence", "int")
"""Where the elements of the lane at hand begin in ``numbers``, and the numbers of its sentence among those of all."""
ENTRIES_END, NUMBERS_END = Name("entries.end", "int"), Name("numbers.end", "int")
"""Where the numbers of the sentence at hand end that are entries, and all."""


@dataclass
class SentenceLayout(Layout):
    """Names and addresses of elements by sentence, ``numbers`` of the lane at hand and posteriors of the sentence.

    :meth:`enter` has to be called wherever a sentence is chosen: it sets the variables that follow from u.

    :param listed: whether elements are listed: their posteriors are those of the lane at hand. Else they are numbers.
    """

    listed: bool = False

    def parameters(self) -> list[Array | Name]:
        parameters = [p for p in super().parameters() if not p.name.startswith("weight.") or self._is_constant(p.name)]
        parameters += [self._rows(w.name) for w in self.weights if w.name in self.constants]
        parameters += [self._extent(w, a) for w in self.events for a in range(w.num_axes)]
        for name in self.kinds_of_words:
            parameters += [
                Array(f"distinct.{name}", "int"),
                Array(f"kinds.{name}", "int"),
                Name(f"kinds.{name}.b", "int"),
            ]
        return [*parameters, Array("entry_ends", "int"), ROOM]

    def _is_constant(self, parameter: str) -> bool:
        """Whether a parameter is a table of constants, or one of its strides."""
        return any(f"{parameter}.".startswith(f"weight.{name}.") for name in self.constants)

    @cached_property
    def _word_axes(self) -> WordAxes:
        return WordAxes.of(self.cells)

    @cached_property
    def kinds_of_words(self) -> list[str]:
        """Names of words, which links are not."""
        return sorted({*self.words} - self.cells.recursion.linked)

    def _rows(self, table: str) -> Array:
        return Array(f"row.{table}", "int")

    def has_one_place(self, ref: Ref) -> bool:
        return False

    def word(self, x: Word) -> Expression:
        return Array(f"kinds.{x.words}", "int")[B * Name(f"kinds.{x.words}.b", "int") + self.symbol(x)]

    def row(self, table: str) -> Expression:
        return Name(f"row.of.{table}", "int") if table in self.constants else super().row(table)

    def _extent(self, w: WeightTable, axis: int) -> Name:
        return Name(f"extent.{w.name}.{axis}", "int")

    def _extents(self, w: WeightTable) -> list[Expression]:
        """The shape of the sentence's part of a table."""
        shape: list[Expression] = [Name("positions", "int")] * w.num_positions
        for axis, (size, by_word) in enumerate(zip(w.sizes, self._word_axes.axes[w.name], strict=True)):
            known = value(size) if isinstance(size, int) else self._extent(w, w.num_positions + axis)
            shape.append(Name(f"u.{by_word}", "int") if by_word else known)
        return shape

    def enter(self, code: Code, lane: Expression) -> None:
        """Set variables for the sentence ``b`` in a lane: where parts of tables begin, and their numbers."""
        for name in self.kinds_of_words:
            code.set(f"u.{name}", Array(f"distinct.{name}", "int")[B])
        code.set("positions", LENGTHS[B] + 1)
        code.set(FIRST.name, lane * ROOM)
        code.set(SENTENCE.name, Array("places.starts", "int")[B])
        code.set(ENTRIES_END.name, Array("entry_ends", "int")[B])
        code.set(NUMBERS_END.name, Array("places.counts", "int")[B])
        for w in (w for w in self.weights if w.name in self.constants):  # derivations have no numbers of these
            code.set(f"row.of.{w.name}", self._rows(w.name)[B])
            code.set(f"trace.{w.name}", -1)
            for axis in range(w.num_axes):
                code.set(f"trace.{w.name}.{axis}", 0)
        at: Expression = value(0)
        for w in self.events:
            code.set(f"part.{w.name}", at)
            code.set(f"trace.{w.name}", at)
            stride: Expression = value(1)
            for axis, extent in reversed(list(enumerate(self._extents(w)))):
                code.set(f"trace.{w.name}.{axis}", stride)
                stride = code.let(stride * extent)
            at = code.let(at + stride)
        code.set("elements.end", (at + (CELL - 1)) // CELL * CELL)

    def axis_values(self, ref: Ref) -> list[Expression]:
        indices = super().axis_values(ref)
        for axis, (x, by_word) in enumerate(zip(ref.symbols, self._word_axes.axes[ref.table], strict=True)):
            if by_word and isinstance(x, Constant):
                indices[len(ref.positions) + axis] = value(self._word_axes.constants[by_word].index(x.value))
        return indices

    def weight(self, ref: Ref, table: str | None = None) -> Element:
        """The weight of an event, or a constant."""
        return super().weight(ref, table) if ref.table in self.constants else NUMBERS[FIRST + self._place(ref)]

    def strides(self, ref: Ref, prefix: str) -> list[Expression]:
        return super().strides(ref, prefix if ref.table in self.constants else "trace")

    @property
    def posteriors(self) -> tuple[Array, Expression]:
        """Where the posteriors of the elements of the sentence at hand go, and where these begin."""
        return (Array("drained", "element"), FIRST) if self.listed else (OUT, SENTENCE)

    def output(self, ref: Ref) -> Element:
        array, first = self.posteriors
        return array[first + self._place(ref)]

    def _place(self, ref: Ref) -> Expression:
        """The number of an element among those of its sentence."""
        extents = self._extents(next(w for w in self.weights if w.name == ref.table))
        index: Expression = value(0)
        for x, extent in zip(self.axis_values(ref), extents, strict=True):
            index = index * extent + within(x, 0, extent)
        return Name(f"part.{ref.table}", "int") + index
