# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The events that can occur in each sentence: where sentence counts lie, and weights that differ by sentence.

Some axes of a weight are words in all rules, two of ``attach[w[i], 0, w[j]]``. A sentence has u distinct words, so its
part of the table has the shape (u, 2, u). A constant that stands in such an axis, as in ``attach[0, 1, w[j]]``, counts
as a word that all sentences have: these come first. The parts of all tables follow one another; then come the
multinomials, one number for each, which are sums over the last axes. Events and multinomials are each padded to whole
cells of lanes:

    root (u)  attach (u, 2, u)  stop (u, 2, 2, 2)  padding  |  root ()  attach (u, 2)  stop (u, 2, 2)  padding

The *corpus* has one vector like it, with all V words, and two more numbers at its end: one that all padding belongs
to, and one for nothing, whose weight is zero.

What a weight by position is differs from sentence to sentence, the word of ``word[t, a]`` say: its part has the shape
(n + 1, size of a), and the event of each element is given. Where the rows of a table are not its multinomials, as in a
list of rules, its last axis has one element, so that every event is a row.

Weights that are no events, evidence on arcs say, are *given*: tables of each sentence, as everywhere else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..machine.expressions import Array, Element, Expression, Name, value, within
from ..machine.statements import Code
from ..rules.cells import Cells
from ..rules.language import Constant, Ref, Word
from .layout import Layout, WeightTable

Numbers = Any  # a numpy array

CELL = 8  # numbers


@dataclass(frozen=True)
class WordAxes:
    """Which axes of each weight are words, or constants beside words, wherever a rule speaks of it.

    :param axes: by table.
    :param constants: that stand in them, increasing.
    """

    axes: dict[str, tuple[bool, ...]]
    constants: tuple[int, ...]

    @staticmethod
    def of(cells: Cells) -> WordAxes:
        """Those of a recursion."""
        seen: dict[str, list[list[object]]] = {}
        for f in (f for rule in cells.recursion.rules for f in rule.weights):
            columns = seen.setdefault(f.table, [[] for _ in f.symbols])
            for column, x in zip(columns, f.symbols, strict=True):
                column.append(x)

        def is_word(column: list[object]) -> bool:
            return any(isinstance(x, Word) for x in column) and all(isinstance(x, (Word, Constant)) for x in column)

        found = {name: tuple(map(is_word, columns)) for name, columns in seen.items()}
        values = {
            x.value
            for name, columns in seen.items()
            for column, by_word in zip(columns, found[name], strict=True)
            for x in column
            if by_word and isinstance(x, Constant)
        }
        return WordAxes(found, tuple(sorted(values)))


class FewEvents(NamedTuple):
    """A table few of whose elements are events.

    :param numbers: from indices into the table, flattened, to events, -1 for none.
    :param rows: of each event, the number of its row, in the order of the table's rows.
    """

    numbers: Callable[[Numbers], Numbers]
    rows: Numbers


@dataclass(frozen=True)
class SentenceEvents:
    """Where the numbers of each sentence lie.

    :param words: shape ``(N, n)``, padded with -1.
    :param local: the number of each word among the distinct ones of its sentence, shape ``(N, n)``.
    :param kinds: the distinct words of each sentence in the order of these numbers, shape ``(N, u or more)``.
    :param distinct: u of each sentence, shape ``(N,)``.
    :param starts: where the numbers of each sentence begin; sentences of equal length lie side by side.
    :param sizes: how many they are, padding included.
    :param places: to which number of the corpus each belongs, of all sentences, int32.
    :param multinomials: of each event of the corpus, the number of its multinomial there, int32.
    :param num_numbers: of the corpus.
    """

    words: Numbers
    lengths: Numbers
    local: Numbers
    kinds: Numbers
    distinct: Numbers
    starts: Numbers
    sizes: Numbers
    places: Numbers
    multinomials: Numbers
    num_numbers: int

    @staticmethod
    def of(
        cells: Cells,
        shapes: Mapping[str, tuple[int, ...]],
        words: Numbers,
        located: Mapping[str, Numbers] | None = None,
        few: Mapping[str, FewEvents] | None = None,
    ) -> SentenceEvents:
        """
        :param shapes: of the weights that are events, in the order that they have in the corpus, which may have further
            ones; a last axis more than a table has is one of one element.
        :param located: the events of the corpus that weights by position are, -1 for nothing, shape
            ``(N, n + 1, ..., *sizes)``.
        :param few: tables few of whose elements are events, of those that are no weights by position.
        :raises ValueError: if the corpus has more numbers than 32 bits can count.
        """
        located, few, word_axes = located or {}, few or {}, WordAxes.of(cells)
        weights = {w.name: w for w in Layout(cells).weights if w.name in {*shapes, *located}}
        sizes_of = {n: len(few[n].rows) if n in few else math.prod(s) for n, s in shapes.items()}
        num_events = sum(sizes_of.values())
        num_numbers = num_events + sum(math.prod(s[:-1]) for s in shapes.values()) + 2
        if num_numbers >= 2**31:
            raise ValueError(f"a grammar of {num_events} events is too large for sweeps: at most 2**31")
        first_event, first_sum = _firsts(shapes, sizes_of)
        rows = {n: few[n].rows if n in few else np.arange(math.prod(s)) // s[-1] for n, s in shapes.items()}
        multinomials = np.concatenate([first_sum[n] + own for n, own in rows.items()]).astype(np.int32)
        of_numbers = np.append(multinomials, num_numbers - 2)  # the last one, of nothing
        real = words >= 0
        lengths = real.sum(1)
        local, distinct, kinds = _local_words(words, real, word_axes.constants)

        def parts_of(these: Numbers, u: int, n: int) -> Iterator[tuple[Numbers, Numbers]]:
            """Numbers of the events and of the multinomials of sentences, shape ``(S, numbers)``, table by table."""
            for name, w in weights.items():
                if name in located:
                    within_sentences = (these, *[slice(n + 1)] * w.num_positions)
                    here = located[name][within_sentences].reshape(len(these), -1)
                    yield np.where(here < 0, num_numbers - 1, here), of_numbers[here]
                    continue
                shape, by_word = shapes[name], (*word_axes.axes[name], False)[: len(shapes[name])]
                index = _index(shape, by_word, kinds[these, :u])
                if name in few:
                    index = few[name].numbers(index)
                index = np.where(index < 0, num_numbers - 1, first_event[name] + index)
                yield index, first_sum[name] + _index(shape[:-1], by_word[:-1], kinds[these, :u])

        alike = np.stack([distinct, lengths if located else distinct], 1)
        groups = [np.flatnonzero((alike == own).all(1)) for own in np.unique(alike, axis=0)]
        found = []
        sizes = np.zeros(len(words), np.int64)
        for these in groups:
            parts = list(parts_of(these, int(distinct[these[0]]), int(lengths[these[0]])))
            whole = [_whole_cells(np.concatenate(numbers, 1), num_numbers - 2) for numbers in zip(*parts, strict=True)]
            found.append(np.concatenate(whole, 1))
            sizes[these] = found[-1].shape[1]
        order = np.argsort(lengths, kind="stable")
        starts = np.zeros(len(words), np.int64)
        starts[order] = np.cumsum(sizes[order]) - sizes[order]
        places = np.empty(int(sizes.sum()), np.int32)
        for these, numbers in zip(groups, found, strict=True):
            places[starts[these, None] + np.arange(numbers.shape[1])] = numbers
        words, local = np.ascontiguousarray(words), np.ascontiguousarray(local)
        return SentenceEvents(words, lengths, local, kinds, distinct, starts, sizes, places, multinomials, num_numbers)

    @property
    def num_events(self) -> int:
        """Of the corpus."""
        return len(self.multinomials)


def _local_words(words: Numbers, real: Numbers, constants: Sequence[int]) -> tuple[Numbers, Numbers, Numbers]:
    """Numbers of words among the distinct ones of their sentences; how many these are; and the words themselves.

    :param constants: come first in every sentence.
    """
    N, n = words.shape
    C = len(constants)
    others = np.where(real & ~np.isin(words, constants), words, -1)
    in_order = np.sort(others, 1)
    first = np.ones((N, n), np.bool_)
    first[:, 1:] = in_order[:, 1:] != in_order[:, :-1]
    first &= in_order >= 0
    kinds = np.full((N, C + n), np.iinfo(np.int64).max)
    kinds[:, :C] = constants
    sentence, _ = np.nonzero(first)
    kinds[sentence, C + np.cumsum(first, 1)[first] - 1] = in_order[first]
    local = np.full((N, n), C)
    for x in range(n):  # how many of the other distinct words are less than each
        local += words > kinds[:, C + x, None]
    for x, constant in enumerate(constants):
        local[words == constant] = x
    local[~real] = 0
    return local, C + first.sum(1), kinds


def _whole_cells(numbers: Numbers, padding: int) -> Numbers:
    """Rows of numbers, padded to whole cells."""
    room = -numbers.shape[1] % CELL
    return np.pad(numbers, ((0, 0), (0, room)), constant_values=padding)


def _firsts(shapes: Mapping[str, tuple[int, ...]], sizes: Mapping[str, int]) -> tuple[dict[str, int], dict[str, int]]:
    """By table, the first of its events and of its multinomials in the corpus.

    :param sizes: how many events each table has.
    """
    first_event, first_sum = {}, {}
    events, sums = 0, sum(sizes.values())
    for name, shape in shapes.items():
        first_event[name], first_sum[name] = events, sums
        events, sums = events + sizes[name], sums + math.prod(shape[:-1])
    return first_event, first_sum


def _index(shape: tuple[int, ...], by_word: tuple[bool, ...], kinds: Numbers) -> Numbers:
    """The numbers of the elements of some sentences' parts of a table, shape ``(S, elements)``."""
    index = np.zeros((len(kinds), 1), np.int64)
    for size, w in zip(shape, by_word, strict=True):
        along = kinds if w else np.broadcast_to(np.arange(size), (len(kinds), size))
        index = (index[:, :, None] * size + along[:, None, :]).reshape(len(kinds), -1)
    return index


@dataclass
class SentenceLayout(Layout):
    """Names and addresses of numbers by sentence, ``numbers`` of the lane at hand and ``out`` of the sentence.

    :meth:`enter` has to be called wherever a sentence is chosen: it sets the variables that follow from u.

    :param rows: tables of events in which every event is a row.
    """

    rows: frozenset[str] = frozenset()

    def parameters(self) -> list[Array | Name]:
        found = [p for p in super().parameters() if not p.name.startswith("weight.") or self._is_given(p.name)]
        found += [self._extent(w, a) for w in self.events for a in range(w.num_axes)]
        return [*found, Array("distinct", "int"), Array("sentence_starts", "int"), Name("room", "int")]

    def _is_given(self, parameter: str) -> bool:
        """Whether a parameter is a table that is given, or one of its strides."""
        return any(f"{parameter}.".startswith(f"weight.{name}.") for name in self.given)

    @cached_property
    def _word_axes(self) -> WordAxes:
        return WordAxes.of(self.cells)

    def _extent(self, w: WeightTable, axis: int) -> Name:
        return Name(f"extent.{w.name}.{axis}", "int")

    def extents(self, w: WeightTable) -> list[Expression]:
        """The shape of the sentence's part of a table, with an axis of one element where every event is a row."""
        found: list[Expression] = [Name("positions", "int")] * w.num_positions
        for axis, (size, by_word) in enumerate(zip(w.sizes, self._word_axes.axes[w.name], strict=True)):
            known = value(size) if isinstance(size, int) else self._extent(w, w.num_positions + axis)
            found.append(Name("u", "int") if by_word else known)
        return [*found, value(1)] if w.name in self.rows else found

    def enter(self, code: Code, lane: Expression) -> None:
        """Set variables for the sentence ``b`` in a lane: where parts of tables begin, and their sums."""
        b = Name("b", "int")
        code.set("u", Array("distinct", "int")[b])
        code.set("positions", Array("lengths", "int")[b] + 1)
        first = code.set("first", lane * Name("room", "int"))
        code.set("sentence", Array("sentence_starts", "int")[b])
        at: Expression = value(0)
        for w in (w for w in self.weights if w.name in self.given):  # derivations have no numbers of these
            code.set(f"trace.{w.name}", -1)
            for axis in range(w.num_axes):
                code.set(f"trace.{w.name}.{axis}", 0)
        for w in self.events:
            code.set(f"part.{w.name}", at)
            code.set(f"trace.{w.name}", at)
            stride: Expression = value(1)
            for axis, extent in reversed(list(enumerate(self.extents(w)))):
                code.set(f"trace.{w.name}.{axis}", stride)
                stride = code.let(stride * extent)
            at = code.let(at + stride)
        code.set("event_cells", (at + (CELL - 1)) // CELL)
        at = code.let(Name("event_cells", "int") * CELL)
        for w in self.events:
            code.set(f"sums.{w.name}", at)
            count: Expression = value(1)
            for extent in self.extents(w)[:-1]:
                count = count * extent
            code.set(f"count.{w.name}", count)
            at = code.let(at + Name(f"count.{w.name}", "int"))
        code.set("cells_of", (at + (CELL - 1)) // CELL)
        code.set("first_cell", first // CELL)

    def value(self, ref: Ref) -> Expression:
        """The number of an event times that of its multinomial; or a weight that is given."""
        if ref.table in self.given:
            return super().weight(ref)
        row = Name(f"sums.{ref.table}", "int") + self._index(ref, slice(-1))
        return self.weight(ref) * Array("numbers", "element")[Name("first", "int") + row]

    def axis_values(self, ref: Ref) -> list[Expression]:
        found = super().axis_values(ref)
        for axis, (x, by_word) in enumerate(zip(ref.symbols, self._word_axes.axes[ref.table], strict=True)):
            if by_word and isinstance(x, Constant):
                found[len(ref.positions) + axis] = value(self._word_axes.constants.index(x.value))
        return found

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
            return Array("out", "element")[Name("sentence", "int") + index]
        return Array("numbers", "element")[Name("first", "int") + index]
