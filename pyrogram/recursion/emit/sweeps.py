# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sweeps of collapsed inference: one batch after another, each from the counts of all other sentences.

A batch's sentences see each other as they were before it. A block of its sentences is done in lanes: the weights of a
sentence are ratios of counts without its own, made once for every event that can occur in it
(:mod:`~pyrogram.recursion.emit.sentence_events`), and go into its lane from there. No arc or rule takes a logarithm
or a division. With one lane a block is a sentence, and numbers are gone through one by one.

Weights may be *tied*: several events are one entry of a multinomial, which is what is counted. Then places of the
numbers of a sentence are those of entries, and some of those of repeated tables are the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..code.expressions import (
    Array,
    Element,
    Expression,
    Name,
    Number,
    greatest,
    lane,
    least,
    value,
    vector_of,
)
from ..rules.lowering import lower
from ..rules.recursions import Recursion
from .driver import Blocks
from .elements import STARTS
from .logarithms import gather
from .logs import LOG_Z
from .replacements import ALPHA, COUNTS
from .sentence_events import CELL
from .sentence_layout import ENDS, SentenceLayout

NUMBERS = Array("numbers", "element")
PLACES = Array("places", "int32")
SWEEP: list[Array | Name] = [
    Array("lengths", "int"),
    Array("order", "int"),
    Name("count", "int"),
    Name("batch_size", "int"),
    NUMBERS,
    COUNTS,
    ALPHA,
    PLACES,
    Array("sentence_sizes", "int"),
    LOG_Z,
    STARTS,
]
"""Parameters of all sweeps."""
TILTS, NATS = Array("tilts", "real"), Array("nats", "real")  # factors of all sentences' numbers, and their logs
ELEMENTS = Array("elements", "int32")  # of the numbers that are kept, the places among all of a sentence


class Weighing(NamedTuple):
    """The kinds of weights that a sweep is compiled for.

    :param given: tables of weights that are no events.
    :param rows: tables of events in which every event is a row.
    :param repeated: tables in which several events of a sentence may be one entry.
    :param owned: whether several rows may be one multinomial.
    :param tied: whether entries have other numbers than events.
    :param tilted: whether events have factors that are not counted.
    :param listed: whether numbers of a sentence are left out.
    """

    given: frozenset[str] = frozenset()
    rows: frozenset[str] = frozenset()
    repeated: frozenset[str] = frozenset()
    owned: bool = False
    tied: bool = False
    tilted: bool = False
    listed: bool = False

    def __str__(self) -> str:
        kinds = [name for name in ("owned", "tied", "tilted", "listed") if getattr(self, name)]
        sets = [f"{name} {sorted(getattr(self, name))}" for name in ("given", "rows", "repeated")]
        return ", ".join([*sets, *kinds])

    def layout(self, recursion: Recursion) -> SentenceLayout:
        """Where the numbers of a sentence lie."""
        return SentenceLayout(lower(recursion), self.given, self.rows, self.repeated, self.owned, self.listed)

    @property
    def parameters(self) -> list[Array | Name]:
        """Of sweeps with such weights, beside those of all."""
        return [*([TILTS, NATS] if self.tilted else []), *([ELEMENTS] if self.listed else [])]


class Sweeps(Blocks):
    """Code that goes through batches of sentences, in float64.

    :param lanes: eight, or one. A sentence's numbers are in cells of eight: lanes, or a vector.
    """

    def __init__(self, recursion: Recursion, weighing: Weighing, lanes: int) -> None:
        self.weighing, self.tied = weighing, weighing.tied
        self.layout = weighing.layout(recursion)
        super().__init__(recursion, lanes, "float64", self.layout, logs=False)

    def batches(self) -> Iterator[tuple[Expression, Expression]]:
        """Every batch, as the places in ``order`` from which and up to which it goes."""
        code, count, size = self.code, Name("count", "int"), Name("batch_size", "int")
        batch = code.set("batch", 0)
        with code.loop_while(batch < count):
            end = code.set("batch.end", least(batch + size, count))
            yield batch, end
            code.set("batch", batch + size)

    def blocks_of(self, low: Expression, high: Expression) -> Iterator[Expression]:
        """The blocks of a batch, each as the place of its first sentence in ``order``."""
        code, order = self.code, Array("order", "int")
        begin = code.set("begin.of", low)
        with code.loop_while(begin < high):
            here = code.set("here", least(self.lanes, high - begin))
            n = code.set("n", 0)
            shortest = code.set("shortest", 2**62)
            with code.loop("lane", 0, here) as x:
                length = code.let(Array("lengths", "int")[order[begin + x]])
                code.set("n", greatest(n, length))
                code.set("shortest", least(shortest, length))
            self.look_at_lengths(here, shortest)
            yield begin
            code.set("begin.of", begin + self.lanes)

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

    def put_numbers(self, cell: Expression, numbers: Expression) -> None:
        """Write a cell of the numbers that are kept to their places among all of the sentence at hand."""
        code, first = self.code, Name("first", "int")
        if not self.weighing.listed:
            self.put_cell(self.cell(NUMBERS, first, cell), numbers)
            return
        numbers = code.let(numbers)
        for x in range(CELL):
            rank = code.let(cell * CELL + x)
            self.put_number(code.let(first + ELEMENTS[Name("sentence", "int") + rank]), lane(numbers, x), rank)

    def put_number(self, place: Expression, number: Expression, rank: Expression) -> None:
        """Write a number to its place in ``numbers``.

        :param rank: its place among those that are kept of the sentence at hand.
        """
        self.code.put(NUMBERS, place, number)

    def clear(self, array: Array, first: Expression) -> None:
        """Zero for all numbers of the sentence at hand, and for padding."""
        for cell in self.cells_of(value(0), Name("numbers_of", "int") + (CELL if self.weighing.listed else 0)):
            self.put_cell(self.cell(array, first, cell), vector_of(0.0))

    def weigh(self, sentence_counts: Array | None, kept: Array | None = None) -> None:
        """Numbers of the sentences of a block: of multinomials one over the sums of their counts plus α, of events
        their weights. These are multiplied by their factors, if they have some.

        :param sentence_counts: are taken out of those of the corpus.
        :param kept: an array like it that is free: counts of repeated events wait there while a sentence's own are
            taken out of the corpus, which has to be one after the other. They come back unrounded.
        """
        code = self.code
        with self.elements.each_lane():
            start, first = Name("sentence", "int"), Name("first", "int")
            direct, events, end = ENDS
            if self.weighing.listed:
                self.clear(NUMBERS, first)

            def pseudo(cell: Expression, sentence_counts: Array | None) -> Expression:
                at = code.let(start + cell * CELL)
                counts = gather(COUNTS, PLACES, at)
                if sentence_counts is not None:
                    counts = counts - self.cell(sentence_counts, start, cell)
                return code.let(greatest(vector_of(0.0), counts) + gather(ALPHA, PLACES, at))

            def weigh_events(low: Expression, high: Expression, sentence_counts: Array | None) -> None:
                for cell in self.cells_of(low, high):
                    number = pseudo(cell, sentence_counts)
                    if self.weighing.tilted:
                        number = number * self.cell(TILTS, start, cell)
                    self.put_numbers(cell, number)

            weigh_events(value(0), direct, sentence_counts)
            if self.weighing.repeated:
                low, high = code.let(start + direct), code.let(start + events)
                if kept is not None and sentence_counts is not None:
                    with code.loop("number", low, high) as i:
                        code.put(kept, i, COUNTS[PLACES[i]])
                    with code.loop("number", low, high) as i:
                        code.add(COUNTS, PLACES[i], -sentence_counts[i])
                weigh_events(direct, events, None)
                if kept is not None:
                    with code.loop("number", low, high) as i:
                        code.put(COUNTS, PLACES[i], kept[i])
            for cell in self.cells_of(events, end):
                self.put_numbers(cell, vector_of(1.0) / pseudo(cell, sentence_counts))
            for owner, at, length in self.multinomials():
                inverse = code.let(NUMBERS[first + owner])
                for e in self.each(length):
                    code.put(NUMBERS, first + at + e, NUMBERS[first + at + e] * inverse)

    def multinomials(self) -> Iterator[tuple[Expression, Expression, Expression]]:
        """The rows of the sentence at hand: the number of their multinomial, where events begin, how many they are."""
        for w in self.layout.events:
            length = self.layout.extents(w)[-1]
            with self.code.loop("multinomial", 0, Name(f"count.{w.name}", "int")) as row:
                at = self.code.let(Name(f"part.{w.name}", "int") + row * length)
                yield self.code.let(self.layout.owner(w.name, row)), at, length

    def each(self, length: Expression, first: int | Expression = 0) -> Iterator[Expression]:
        """The events of a row from the first on: a loop, or one after the other if their number is known."""
        if isinstance(length, Number):
            yield from map(value, range(int(length.number)))
            return
        with self.code.loop("event", first, length) as x:
            yield x
