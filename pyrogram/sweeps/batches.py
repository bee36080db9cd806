# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sweeps of collapsed inference: one batch after another, each from the counts of all other sentences.

A batch's sentences see each other as they were before it. A block of its sentences is done in lanes: the weights of a
sentence are ratios of counts without its own, made once for every event that can occur in it
(:mod:`~pyrogram.sweeps.events`), and go into its lane from there. No arc or rule takes a logarithm
or a division. With one lane a block is a sentence, and numbers are gone through one by one.

Where elements of a sentence are listed, several may have one number, which is what is counted: where weights are tied,
say, or where an event is at several positions.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyrogram.recursion.code.expressions import (
    VECTOR,
    Array,
    Element,
    Expression,
    Name,
    fill,
    greatest,
    least,
    value,
    vector_of,
    with_lane,
)
from pyrogram.recursion.emit.driver import LOG_Z, OF_NUMBERS, Blocks
from pyrogram.recursion.emit.names import BEGIN, COUNT, HERE, LENGTHS, ORDER, RAGGED, B, N
from pyrogram.recursion.rules.lowering import lower
from pyrogram.recursion.rules.recursions import Recursion

from .events import CELL
from .layout import ENTRIES_END, FIRST, NUMBERS, NUMBERS_END, SENTENCE, SentenceLayout
from .replacements import ALPHA, COUNTS


def list_parameters(name: str) -> tuple[Array, Array, Array]:
    """Lists of all sentences, see :class:`.Lists`."""
    return Array(f"{name}.values", "int32"), Array(f"{name}.starts", "int"), Array(f"{name}.counts", "int")


PLACES = Array("places.values", "int32")
WEIGHTS = Array("weights", "element")  # of the numbers of the sentences of a block, where elements are listed
TILTS = Array("tilts", "real")  # factors of events
SWEEP: list[Array | Name] = [
    LENGTHS,
    ORDER,
    COUNT,
    Name("batch_size", "int"),
    NUMBERS,
    COUNTS,
    ALPHA,
    *list_parameters("places"),
    *list_parameters("owners"),
    *list_parameters("rows"),
    LOG_Z,
]
"""Parameters of all sweeps."""
LISTED: list[Array | Name] = [WEIGHTS, TILTS, *list_parameters("elements")]
"""And of those whose elements are listed."""


class Sweeps(Blocks):
    """Code that goes through batches of sentences, in float64.

    :param constants: tables of weights that are no events.
    :param listed: whether the elements of sentences are listed, see :mod:`.events`.
    :param lanes: eight, or one. A sentence's numbers are in cells of eight: lanes, or a vector.
    """

    def __init__(self, recursion: Recursion, constants: frozenset[str], listed: bool, lanes: int) -> None:
        self.listed, self.layout = listed, SentenceLayout(lower(recursion), constants, listed)
        super().__init__(recursion, lanes, "float64", self.layout, shared=bool(recursion.linked), logs=False)

    def sweep_parameters(self) -> list[Array | Name]:
        """Those that sweeps have in common."""
        return [*self.layout.parameters(), *SWEEP, *self.memory, *(LISTED if self.listed else [])]

    @property
    def weights(self) -> Array:
        """The weights of the numbers of the sentence at hand, which begin where its elements do."""
        return WEIGHTS if self.listed else NUMBERS

    def batches(self) -> Iterator[tuple[Expression, Expression]]:
        """Every batch, as the places in ``order`` from which and up to which it goes."""
        code, size = self.code, Name("batch_size", "int")
        batch = code.set("batch", 0)
        with code.loop_while(batch < COUNT):
            end = code.set("batch.end", least(batch + size, COUNT))
            yield batch, end
            code.set("batch", batch + size)

    def blocks_of(self, low: Expression, high: Expression) -> Iterator[Expression]:
        """The blocks of a batch, each as the place of its first sentence in ``order``."""
        code = self.code
        begin = code.set(BEGIN.name, low)
        with code.loop_while(begin < high):
            here = code.set(HERE.name, least(self.lanes, high - begin))
            code.set(RAGGED.name, int(self.lanes > 1))
            n = code.set(N.name, 0)
            with code.loop("lane", 0, here) as x:
                code.set(N.name, greatest(n, LENGTHS[ORDER[begin + x]]))
            yield begin
            code.set(BEGIN.name, begin + self.lanes)

    def cells_of(self, low: Expression, high: Expression) -> Iterator[Expression]:
        """The cells that hold some numbers of a sentence."""
        with self.code.loop("cell", low // CELL, high // CELL) as cell:
            yield cell

    def cell(self, array: Array, first: Expression, cell: Expression) -> Element:
        """A cell of an array of numbers, as a vector.

        :param first: where those of the sentence begin.
        """
        return Array(array.name, "vector")[self.code.let(first + cell * CELL)]

    def put_cell(self, place: Element, number: Expression) -> None:
        """Write a cell."""
        self.code.put(place.array, place.index, number)

    def clear(self, array: Array, first: Expression, end: Expression) -> None:
        """Zero for all numbers of the sentence at hand up to an end, and for padding."""
        for cell in self.cells_of(value(0), end):
            self.put_cell(self.cell(array, first, cell), vector_of(0.0))

    def weigh(self, sentence_counts: Array | None) -> None:
        """Numbers of the sentences of a block: of multinomials one over the sums of their counts plus α, of entries
        their weights; and the weights of elements, which have the factors of their events.

        :param sentence_counts: are taken out of those of the corpus.
        """
        code, weights = self.code, self.weights

        def pseudo(cell: Expression) -> Expression:
            at = code.let(SENTENCE + cell * CELL)
            counts = gather(COUNTS, PLACES, at)
            if sentence_counts is not None:
                counts = counts - self.cell(sentence_counts, SENTENCE, cell)
            return code.let(greatest(vector_of(0.0), counts) + gather(ALPHA, PLACES, at))

        in_place = self.elements.tables.in_place
        with self.elements.each_lane():
            for cell in self.cells_of(ENTRIES_END, NUMBERS_END):
                self.put_cell(self.cell(weights, FIRST, cell), vector_of(1.0) / pseudo(cell))
            owners, starts, _ = list_parameters("owners")
            start = code.let(starts[B])
            for cell in self.cells_of(value(0), ENTRIES_END):
                inverse = gather(weights, owners, code.let(start + cell * CELL), FIRST)
                self.put_cell(self.cell(weights, FIRST, cell), pseudo(cell) * inverse)
            if self.listed:
                self.clear(NUMBERS, FIRST, Name("elements.end", "int"))
                for element, number, event in self.elements_listed():
                    self.put_element(code.let(FIRST + element), weights[FIRST + number] * TILTS[event], event)
            if in_place:  # nobody else sees them
                OF_NUMBERS.begin(code)
                with code.loop("x", 0, Name("elements.end", "int")) as x:
                    OF_NUMBERS.include(code, fill(NUMBERS[FIRST + x]))

    def put_element(self, place: Expression, weight: Expression, event: Expression) -> None:
        """Write the weight of an element that is listed.

        :param event: which it is.
        """
        self.code.put(NUMBERS, place, weight)

    def rows(self) -> Iterator[tuple[Expression, Expression, Expression]]:
        """The rows of the sentence at hand: where they begin and end, and the number of their multinomial."""
        return self._lines("rows")

    def elements_listed(self) -> Iterator[tuple[Expression, Expression, Expression]]:
        """The elements of the sentence at hand, their numbers, and the events that they are."""
        return self._lines("elements")

    def _lines(self, name: str) -> Iterator[tuple[Expression, Expression, Expression]]:
        """The lines of a list of the sentence at hand, each of which has three columns."""
        code = self.code
        lines, starts, counts = list_parameters(name)
        start = code.let(starts[B])
        with code.loop(f"{name}.line", start, start + counts[B]) as line:
            first = code.let(line * 3)
            yield code.let(lines[first]), code.let(lines[first + 1]), code.let(lines[first + 2])


def gather(numbers: Array, places: Array, first: Expression, start: Expression | None = None) -> Expression:
    """A vector of ``numbers[places[first]], ..., numbers[places[first + 7]]``.

    :param start: what the places count from; None: the first number.
    """
    vector = vector_of(0.0)
    for lane in range(VECTOR):
        place: Expression = places[first + lane]
        vector = with_lane(vector, lane, numbers[place if start is None else start + place])
    return vector
