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

Where several rows are one multinomial, of tied weights or of lists of rules, a sentence has a number for each of its
multinomials, and its rows say which is theirs, their *owner*. Where several events are one entry, their tables are
*repeated*: they come after the others, and begin with a cell:

    events of others  padding  |  repeated events  padding  |  multinomials  padding

Weights that are no events, evidence on arcs say, are *given*: tables of each sentence, as everywhere else.

Where there are weights by position, few of a sentence's numbers are in any derivation of it: of a thousand rules fifty,
say. Then the numbers that are kept are a *list*, with the place that each has among all of its sentence:

    [3, 17, 40] of others  padding  |  repeated events  padding  |  [2, 5] of multinomials  padding

Compiled code finds its way by :mod:`.sentence_layout`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..rules.cells import Cells
from ..rules.language import Constant, Word
from .layout import Layout, WeightTable

Numbers = Any  # a numpy array

CELL = 8  # numbers
_AT_ONCE = 2**10  # sentences whose numbers are made at a time


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

        by_table = {name: tuple(map(is_word, columns)) for name, columns in seen.items()}
        values = {
            x.value
            for name, columns in seen.items()
            for column, by_word in zip(columns, by_table[name], strict=True)
            for x in column
            if by_word and isinstance(x, Constant)
        }
        return WordAxes(by_table, tuple(sorted(values)))


class FewEvents(NamedTuple):
    """A table few of whose elements are events.

    :param numbers: from indices into the table, flattened, to events, -1 for none.
    :param rows: of each event, the number of its row, in the order of the table's rows.
    :param shape: of the table.
    """

    numbers: Callable[[Numbers], Numbers]
    rows: Numbers
    shape: tuple[int, ...]


@dataclass(frozen=True)
class SentenceEvents:
    """Where the numbers of each sentence lie.

    :param words: shape ``(N, n)``, padded with -1.
    :param local: the number of each word among the distinct ones of its sentence, shape ``(N, n)``.
    :param kinds: the distinct words of each sentence in the order of these numbers, shape ``(N, u or more)``.
    :param distinct: u of each sentence, shape ``(N,)``.
    :param starts: where the numbers of each sentence begin; sentences of equal length lie side by side.
    :param sizes: how many they are, padding included.
    :param ends: where those of its events that are not repeated end, of all its events, and all, shape ``(N, 3)``.
    :param rooms: how many there are if none is left out, and room for padding.
    :param places: to which number of the corpus each belongs, of all sentences, int32.
    :param multinomials: of each event of the corpus, the number of its multinomial there, int32.
    :param num_numbers: of the corpus.
    :param owners: which of the sentence's multinomials each row is, of all sentences, int32; None: every row is one.
    :param row_starts: where the rows of each sentence begin in ``owners``, shape ``(N,)``.
    :param owned: how many multinomials each sentence has, shape ``(N,)``.
    :param repeated: the tables in which several events of a sentence may be one entry.
    :param elements: the place of each number among all of its sentence, int32; None: none is left out.
    """

    words: Numbers
    lengths: Numbers
    local: Numbers
    kinds: Numbers
    distinct: Numbers
    starts: Numbers
    sizes: Numbers
    ends: Numbers
    rooms: Numbers
    places: Numbers
    multinomials: Numbers
    num_numbers: int
    owners: Numbers
    row_starts: Numbers
    owned: Numbers
    repeated: frozenset[str]
    elements: Numbers = None

    def __post_init__(self) -> None:
        for name, table in vars(self).items():  # compiled code reads them from their address on
            if isinstance(table, np.ndarray):
                object.__setattr__(self, name, np.ascontiguousarray(table))

    @staticmethod
    def of(
        cells: Cells,
        shapes: Mapping[str, tuple[int, ...]],
        words: Numbers,
        located: Mapping[str, Numbers] | None = None,
        few: Mapping[str, FewEvents] | None = None,
        renumbered: Numbers | None = None,
        repeated: frozenset[str] | None = None,
    ) -> SentenceEvents:
        """
        :param shapes: of the weights that are events, in the order that they have in the corpus, which may have further
            ones; a last axis more than a table has is one of one element.
        :param located: the events of the corpus that weights by position are, -1 for nothing, shape
            ``(N, n + 1, ..., *sizes)``.
        :param few: tables few of whose elements are events, of those that are no weights by position.
        :param renumbered: what is counted in the place of each number of the corpus; None: the same.
        :param repeated: see :func:`repeated_tables`; None: those of these sentences.
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
        multinomials = np.concatenate([first_sum[n] + row for n, row in rows.items()]).astype(np.int32)
        of_numbers = np.append(multinomials, num_numbers - 2)  # the last one, of nothing
        real = words >= 0
        lengths = real.sum(1)
        local, distinct, kinds = _local_words(words, real, word_axes.constants)
        counted = np.arange(num_numbers) if renumbered is None else renumbered
        if repeated is None:
            repeated = repeated_tables(cells, shapes, located, few, renumbered)
        weights = {w.name: w for w in direct_first(weights.values(), repeated)}

        def parts_of(these: Numbers, u: int, n: int) -> Iterator[tuple[str, Numbers, Numbers]]:
            """Numbers of the events and of their rows' multinomials, shape ``(S, numbers)``, table by table."""
            for name, w in weights.items():
                if name in located:
                    within_sentences = (these, *[slice(n + 1)] * w.num_positions)
                    here = located[name][within_sentences].reshape(len(these), -1)
                    yield name, np.where(here < 0, num_numbers - 1, here), of_numbers[here]
                    continue
                shape, by_word = shapes[name], (*word_axes.axes[name], False)[: len(shapes[name])]
                index = _index(shape, by_word, kinds[these, :u])
                if name in few:
                    index = few[name].numbers(index)
                index = np.where(index < 0, num_numbers - 1, first_event[name] + index)
                yield name, index, first_sum[name] + _index(shape[:-1], by_word[:-1], kinds[these, :u])

        alike = np.stack([distinct, lengths if located else distinct], 1)
        groups = []
        for kind in np.unique(alike, axis=0):
            group = np.flatnonzero((alike == kind).all(1))
            groups += np.split(group, range(_AT_ONCE, len(group), _AT_ONCE))
        numbers, owners = [], []
        is_owned = renumbered is not None or bool(located)
        sizes, num_rows, owned = (np.zeros(len(words), np.int64) for _ in range(3))
        ends = np.zeros((len(words), 3), np.int64)
        padding = num_numbers - 2
        for these in groups:
            tables = list(parts_of(these, int(distinct[these[0]]), int(lengths[these[0]])))
            events = [[x for name, x, _ in tables if (name in repeated) == late] for late in (False, True)]
            sums = np.concatenate([x for _, _, x in tables], 1)
            if is_owned:
                sums, owner = _distinct_rows(sums, counted, padding)
                owners.append(owner)
                num_rows[these], owned[these] = owner.shape[1], sums.shape[1]
            nothing = np.zeros((len(these), 0), np.int64)
            whole = [_whole_cells(np.concatenate([nothing, *section], 1), padding) for section in (*events, [sums])]
            numbers.append(np.concatenate(whole, 1))
            ends[these] = np.cumsum([section.shape[1] for section in whole])
            sizes[these] = ends[these, -1]
        order = np.argsort(lengths, kind="stable")
        starts, row_starts = _starts(sizes, order), _starts(num_rows, order)
        return SentenceEvents(
            *(words, lengths, local, kinds, distinct, starts, sizes, ends, sizes),
            places=_laid_out(groups, numbers, starts, sizes),
            multinomials=multinomials,
            num_numbers=num_numbers,
            owners=_laid_out(groups, owners, row_starts, num_rows) if is_owned else None,
            row_starts=row_starts,
            owned=owned,
            repeated=repeated,
        )

    def listed(self, used: Numbers | None = None) -> SentenceEvents:
        """Lists of the numbers that are used.

        :param used: whether each is, of all sentences; None: all are.
        """
        N, padding = len(self.words), self.num_numbers - 2
        order = np.argsort(self.starts, kind="stable")
        sentence = np.repeat(order, self.sizes[order])
        at_home = np.arange(len(sentence)) - self.starts[sentence]
        part = 3 * sentence + (at_home >= self.ends[sentence, 0]) + (at_home >= self.ends[sentence, 1])
        kept = np.arange(len(at_home)) if used is None else np.flatnonzero(used)
        elements = at_home if self.elements is None else self.elements
        counts = np.bincount(part[kept], minlength=3 * N).reshape(N, 3)
        ends = np.cumsum(-(-counts // CELL) * CELL, 1)
        starts = _starts(ends[:, -1], order)
        begins = starts[:, None] + np.pad(ends[:, :-1], ((0, 0), (1, 0)))  # of the parts
        before = np.cumsum(counts[order].reshape(-1)) - counts[order].reshape(-1)
        rank = np.arange(len(kept)) - np.repeat(before, counts[order].reshape(-1))
        at = begins.reshape(-1)[part[kept]] + rank
        rooms = self.sizes + CELL if self.elements is None else self.rooms
        new_places = np.full(int(ends[:, -1].sum()), padding, np.int32)
        new_elements = np.repeat(rooms[order] - CELL, ends[order, -1]).astype(np.int32)
        new_places[at], new_elements[at] = self.places[kept], elements[kept]
        return replace(
            self,
            starts=starts,
            sizes=ends[:, -1],
            ends=ends,
            rooms=rooms,
            places=new_places,
            elements=new_elements,
        )

    @staticmethod
    def joined(batches: Sequence[tuple[Numbers, SentenceEvents]]) -> SentenceEvents:
        """Those of some sentences after those of others.

        :param batches: numbers of sentences, and these.
        """
        (_, first), N = batches[0], sum(len(these) for these, _ in batches)
        fields: dict[str, Numbers] = {}
        for name in ("words", "lengths", "local", "kinds", "distinct", "sizes", "ends", "rooms", "owned"):
            table = getattr(first, name)
            fields[name] = np.empty((N, *table.shape[1:]), table.dtype)
            for these, events in batches:
                fields[name][these] = getattr(events, name)
        for name, beside in (("starts", "places"), ("row_starts", "owners")):
            fields[name], before = np.zeros(N, np.int64), 0
            for these, events in batches:
                fields[name][these] = getattr(events, name) + before
                before += len(getattr(events, beside))
        for name in ("places", "elements", "owners"):
            fields[name] = np.concatenate([getattr(events, name) for _, events in batches])
        return replace(first, **fields)

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


def direct_first(weights: Iterable[WeightTable], repeated: Container[str]) -> list[WeightTable]:
    """Tables in the order of their parts: those with repeated events come last."""
    return sorted(weights, key=lambda w: w.name in repeated)


def repeated_tables(
    cells: Cells,
    shapes: Mapping[str, tuple[int, ...]],
    located: Mapping[str, Numbers],
    few: Mapping[str, FewEvents],
    renumbered: Numbers | None,
) -> frozenset[str]:
    """The tables in which several events of a sentence may be one entry: by position, or all where weights are tied.

    What is no event is its own entry again and again, and never counted.
    """
    weights = {w.name for w in Layout(cells).weights if w.name in {*shapes, *located}}
    if few and renumbered is not None:
        return frozenset(weights)  # nothing says that the elements of a table of few events are different ones
    sizes_of = {n: len(few[n].rows) if n in few else math.prod(s) for n, s in shapes.items()}
    first_event, _ = _firsts(shapes, sizes_of)
    num_numbers = sum(sizes_of.values()) + sum(math.prod(s[:-1]) for s in shapes.values()) + 2
    counted = np.arange(num_numbers) if renumbered is None else renumbered
    direct = [counted[first_event[n] : first_event[n] + sizes_of[n]] for n in weights if n not in located]
    entries = np.concatenate([np.zeros(0, counted.dtype), *direct])
    entries = entries[entries != counted[-2]]
    by_position = [np.unique(counted[events[events >= 0]]) for events in located.values()]
    all_differ = len(np.unique(entries)) == len(entries)
    is_alone = not any(np.isin(events[events != counted[-2]], entries).any() for events in by_position)
    return frozenset(located) if all_differ and is_alone else frozenset(weights)


def _distinct_rows(rows: Numbers, counted: Numbers, padding: int) -> tuple[Numbers, Numbers]:
    """The multinomials of some sentences, and which of them each row is.

    :param rows: numbers of multinomials, shape ``(S, R)``; several may be counted as one.
    :returns: numbers of one of each, shape ``(S, M)``, padded; and ``(S, R)``.
    """
    S = len(rows)
    keys = counted[rows].astype(np.int64)
    alike = (keys == keys[:1]).all(0)  # rows that all sentences have
    shared, first = np.unique(keys[0, alike], return_index=True)
    place = np.full(len(counted), -1, np.int64)
    place[shared] = np.arange(len(shared))
    owner = place[keys]
    sentence, column = np.nonzero(owner < 0)
    others, at, inverse = np.unique(
        sentence * len(counted) + keys[sentence, column], return_index=True, return_inverse=True
    )
    of = others // len(counted)  # their sentences, in order
    rank = np.arange(len(others)) - np.searchsorted(of, of)
    owner[sentence, column] = len(shared) + rank[inverse]
    distinct_rows = np.full((S, len(shared) + int(rank.max(initial=-1)) + 1), padding)
    distinct_rows[:, : len(shared)] = rows[0, alike][first]
    distinct_rows[of, len(shared) + rank] = rows[sentence[at], column[at]]
    return distinct_rows, owner


def _starts(sizes: Numbers, order: Numbers) -> Numbers:
    """Where the numbers of each sentence begin, if sentences lie in this order."""
    starts = np.zeros(len(sizes), np.int64)
    starts[order] = np.cumsum(sizes[order]) - sizes[order]
    return starts


def _laid_out(groups: Sequence[Numbers], numbers: list[Numbers], starts: Numbers, sizes: Numbers) -> Numbers:
    """Numbers by sentence, one sentence after the other, int32.

    :param numbers: for each group of sentences, shape ``(S, numbers)``; taken out of the list, for they are many.
    """
    laid = np.empty(int(sizes.sum()), np.int32)
    for these in reversed(groups):
        block = numbers.pop()
        laid[starts[these, None] + np.arange(block.shape[1])] = block
    return laid


def _whole_cells(numbers: Numbers, padding: int) -> Numbers:
    """Rows of numbers, padded to whole cells, int32."""
    room = -numbers.shape[1] % CELL
    return np.pad(numbers.astype(np.int32), ((0, 0), (0, room)), constant_values=padding)


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
