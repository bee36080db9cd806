# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What is counted of each sentence: its numbers, which entries of multinomials they are, and where they lie.

Some axes of a weight are words in all rules, two of ``attach[w[i], 0, w[j]]``. A sentence has u distinct words, so its
part of the table has the shape (u, 2, u). A constant that stands in such an axis, as in ``attach[0, 1, w[j]]``, counts
as a word that all sentences have: these come first. What a weight by position is differs from sentence to sentence, the
word of ``word[t, a]`` say: its part has the shape (n + 1, size of a). The parts of all tables follow one another:

    root (u)  attach (u, 2, u)  stop (u, 2, 2, 2)

*One map* says which event of the grammar each of these *elements* is: :func:`events_of_elements`. Several may be the
same one, several events one entry of a multinomial, where weights are tied, and many none at all.

A sentence has a *number* for each entry, padded to whole cells of lanes, and then for each of the multinomials, which
are sums over *rows*, numbers that follow one another:

    entries  padding  |  multinomials  padding

In a corpus that is *direct* these are the elements as they lie. In others, whose elements are *listed*, numbers are the
entries that some derivation of the sentence has, those of a multinomial side by side; and a list says of each element
that some derivation has, of a thousand fifty, say, which number it is.

The *corpus* has numbers, too: of all entries, of all multinomials, and two more at its end, one that all padding
belongs to and what is no event but has weight one, and one for nothing, whose weight is zero.

Weights that are no events, evidence on arcs say, are *factors*: tables of each sentence, as everywhere else. Compiled
code finds its way by :mod:`.layout`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from pyrogram.event_map import TableEvents
from pyrogram.recursion.emit.layout import WeightTable
from pyrogram.recursion.emit.traces import Trace
from pyrogram.recursion.rules.cells import Cells
from pyrogram.recursion.rules.language import Constant, Word

Numbers = Any  # a numpy array

CELL = 8  # numbers
_AT_ONCE = 2**20  # elements of sentences that are looked at at a time


class SentenceTable(NamedTuple):
    """A table of weights of which many sentences may have the same one."""

    rows: Numbers
    """Shape ``(M, n + 1, ..., *sizes)``: positions, then symbols."""
    row: Numbers
    """Which of them each sentence has, int64, shape ``(N,)``."""

    @staticmethod
    def of(table: Numbers) -> SentenceTable:
        """A table of which each sentence has a row of its own."""
        return SentenceTable(table, np.arange(len(table)))


@dataclass(frozen=True)
class Corpus:
    """Sentences, and what is counted of them.

    :param words: shape ``(N, n)``, padded with -1.
    :param named: where sentences are other than these words, their lengths ``(N,)``, and words and links by name.
    :param tables: the events of weights without positions.
    :param entries: which number of the corpus each event is, of R events, then of :data:`~pyrogram.event_map.NEVER` and
        :data:`~pyrogram.event_map.ONE`, int32, shape ``(R + 2,)``.
    :param multinomials: of each number of the corpus that of its multinomial, int32. Numbers of multinomials count for
        nothing here; the last but one is padding's, its own multinomial, and that of the last one, nothing's.
    :param sizes: numbers of symbols, by the names of sizes.
    :param lists: columns of lists of rules.
    :param factors: of parts of derivations, weights that are no events.
    :param located: the events that weights by position are, shape ``(N, n + 1, ..., *sizes)``.
    :param nats: logs of factors of the R events, which multiply their weights and are not counted.
    :param positions: numbers of the positions of weights that a derivation has, by table: the first one, and strides
        by axis.
    :param is_direct: whether no element is another one's entry, or none, and no event has a factor.
    """

    words: Numbers
    tables: Mapping[str, TableEvents]
    entries: Numbers
    multinomials: Numbers
    sizes: Mapping[str, int] = field(default_factory=dict)
    lists: Mapping[str, Numbers] = field(default_factory=dict)
    factors: Mapping[str, SentenceTable] = field(default_factory=dict)
    located: Mapping[str, Numbers] = field(default_factory=dict)
    nats: Numbers | None = None
    positions: Trace = field(default_factory=dict)
    is_direct: bool = False
    named: tuple[Numbers, Mapping[str, Numbers]] | None = None

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of tables of weights that are events: positions, then symbols."""
        shapes = {name: table.shape for name, table in self.tables.items()}
        return shapes | {name: events.shape[1:] for name, events in self.located.items()}

    @cached_property
    def by_multinomial(self) -> Numbers:
        """The numbers of the corpus, those of a multinomial side by side."""
        return np.argsort(self.multinomials, kind="stable")


@dataclass(frozen=True)
class WordAxes:
    """Which axes of each weight are words, or constants beside words, wherever a rule speaks of it.

    :param axes: by table, of each axis the name of the words, empty if it has none.
    :param constants: that stand in them, increasing, by the name of the words.
    """

    axes: dict[str, tuple[str, ...]]
    constants: dict[str, tuple[int, ...]]

    @staticmethod
    def of(cells: Cells) -> WordAxes:
        """Those of a recursion."""
        seen: dict[str, list[list[object]]] = {}
        for f in (f for rule in cells.recursion.rules for f in rule.weights):
            columns = seen.setdefault(f.table, [[] for _ in f.symbols])
            for column, x in zip(columns, f.symbols, strict=True):
                column.append(x)

        def words_of(column: list[object]) -> str:
            names = {x.words for x in column if isinstance(x, Word)}
            if len(names) > 1:
                raise ValueError(f"an axis of a weight has words of one name in sweeps, but one has {sorted(names)}")
            return min(names) if names and all(isinstance(x, (Word, Constant)) for x in column) else ""

        by_table = {name: tuple(map(words_of, columns)) for name, columns in seen.items()}
        constants: dict[str, set[int]] = {name: set() for axes in by_table.values() for name in axes if name}
        for table, columns in seen.items():
            for column, name in zip(columns, by_table[table], strict=True):
                if name:
                    constants[name].update(x.value for x in column if isinstance(x, Constant))
        return WordAxes(by_table, {name: tuple(sorted(values)) for name, values in constants.items()})


class Lists(NamedTuple):
    """A list of each sentence, which some sentences may have in common.

    :param starts: where it begins in ``values``, int64, shape ``(N,)``.
    :param counts: how long it is, int64, shape ``(N,)``.
    :param values: int32, shape ``(all, ...)``.
    """

    starts: Numbers
    counts: Numbers
    values: Numbers

    @staticmethod
    def of(counts: Numbers, values: Numbers) -> Lists:
        """Those that lie one after the other; if they are all the same, there is one."""
        S, starts = len(counts), np.cumsum(counts) - counts
        if S > 1 and (counts == counts[0]).all():
            by_sentence = values.reshape(S, counts[0], *values.shape[1:])
            if (by_sentence == by_sentence[:1]).all():
                starts, values = np.zeros_like(starts), by_sentence[0]
        return Lists(starts, counts, np.ascontiguousarray(values, np.int32))

    @staticmethod
    def joined(parts: Sequence[Lists], order: Numbers) -> Lists:
        """Those of several parts of the sentences.

        :param order: the sentences, those of one part after those of another.
        """
        starts, counts = (np.zeros(len(order), np.int64) for _ in range(2))
        before = np.cumsum([0, *(len(part.values) for part in parts)])
        starts[order] = np.concatenate([part.starts + x for part, x in zip(parts, before, strict=False)])
        counts[order] = np.concatenate([part.counts for part in parts])
        return Lists(starts, counts, np.concatenate([part.values for part in parts]))


@dataclass(frozen=True)
class SentenceEvents:
    """The numbers of sentences.

    :param entry_ends: where those of entries end, padding included, int64, shape ``(N,)``.
    :param places: to which number of the corpus each number belongs.
    :param owners: of each number of an entry, and of padding, the number of its multinomial.
    :param rows: of each row where it begins and ends, and the number of its multinomial, shape ``(.., 3)``.
    :param elements: of each element that is listed its place among all of the sentence, its number, and the event that
        it is, of R + 2, shape ``(.., 3)``; empty, where elements are numbers.
    :param room: how many elements or numbers a sentence has at most, in whole cells.
    """

    entry_ends: Numbers
    places: Lists
    owners: Lists
    rows: Lists
    elements: Lists
    room: int

    @staticmethod
    def joined(parts: Sequence[SentenceEvents], order: Numbers) -> SentenceEvents:
        """Those of some sentences after those of others, see :meth:`Lists.joined`."""
        entry_ends = np.zeros(len(order), np.int64)
        entry_ends[order] = np.concatenate([part.entry_ends for part in parts])
        places, owners, rows, elements = (
            Lists.joined([getattr(part, name) for part in parts], order)
            for name in ("places", "owners", "rows", "elements")
        )
        return SentenceEvents(entry_ends, places, owners, rows, elements, max(part.room for part in parts))

    @staticmethod
    def direct(corpus: Corpus, entries: Numbers, elements: Numbers | None = None) -> SentenceEvents:
        """Those of sentences that have a number for each element.

        :param entries: the numbers of the corpus that elements are, shape ``(S, E)``.
        :param elements: a list for all sentences.
        """
        S, E = entries.shape
        table = np.zeros((0, 3), np.int32) if elements is None else elements
        lists = Lists(np.zeros(S, np.int64), np.full(S, len(table)), table)
        return SentenceEvents._of(corpus, S, np.repeat(np.arange(S), E), entries.reshape(-1), lists, E)

    @staticmethod
    def listed(corpus: Corpus, events: Numbers, used: Numbers) -> SentenceEvents:
        """Those of sentences some of whose elements are used.

        :param events: of all elements, shape ``(S, E)``.
        :param used: which of them are, shape ``(S, E)``.
        """
        S, E = events.shape
        sentence, element = np.nonzero(used)
        event, rank = events[sentence, element], np.argsort(corpus.by_multinomial)
        keys = sentence * len(rank) + rank[corpus.entries[event]]
        keys, number = np.unique(keys, return_inverse=True)
        of, entries = keys // len(rank), corpus.by_multinomial[keys % len(rank)]
        number = number - np.searchsorted(of, np.arange(S))[sentence]
        table = np.stack([element, number, event % len(corpus.entries)], 1)
        elements = Lists.of(np.bincount(sentence, minlength=S), table)
        return SentenceEvents._of(corpus, S, of, entries, elements, E)

    @staticmethod
    def _of(
        corpus: Corpus, S: int, sentence: Numbers, entries: Numbers, elements: Lists, num_elements: int
    ) -> SentenceEvents:
        """Entries, sentence after sentence, and the multinomials of their rows, as numbers.

        :param sentence: of each of the entries.
        """
        keys = sentence * len(corpus.multinomials) + corpus.multinomials[entries]
        is_first = np.append(True, keys[1:] != keys[:-1])[: len(keys)]
        begins = np.flatnonzero(is_first)
        sums, owner = np.unique(keys[begins], return_inverse=True)
        of_sums = sums // len(corpus.multinomials)
        counts, sum_counts = (np.bincount(x, minlength=S) for x in (sentence, of_sums))
        firsts, first_sums = np.cumsum(counts) - counts, np.cumsum(sum_counts) - sum_counts
        ends, sizes = _whole(counts), _whole(counts) + _whole(sum_counts)
        starts = np.cumsum(sizes) - sizes
        places = np.full(int(sizes.sum()), len(corpus.multinomials) - 2, np.int32)
        places[(starts - firsts)[sentence] + np.arange(len(entries))] = entries
        places[(starts + ends - first_sums)[of_sums] + np.arange(len(sums))] = sums % len(corpus.multinomials)
        of, row_ends = sentence[begins], np.append(begins[1:], len(keys))[: len(begins)]
        multinomial = owner + (ends - first_sums)[of]
        first_owners = np.cumsum(ends) - ends
        owners = np.repeat(ends, ends).astype(np.int32)  # padding has the first multinomial
        owners[(first_owners - firsts)[sentence] + np.arange(len(entries))] = np.repeat(multinomial, row_ends - begins)
        rows = np.stack([begins - firsts[of], row_ends - firsts[of], multinomial], 1)
        return SentenceEvents(
            ends,
            Lists(starts, sizes, places),
            Lists.of(ends, owners),
            Lists.of(np.bincount(of, minlength=S), rows),
            elements,
            max(int(sizes.max(initial=0)), int(_whole(num_elements))),
        )


def _whole(counts: Numbers) -> Numbers:
    """So many numbers in whole cells, padding included."""
    return -(-counts // CELL) * CELL


class SentenceWords(NamedTuple):
    """The distinct words of sentences.

    :param distinct: u of each sentence, shape ``(N,)``.
    :param local: the number of each word among the distinct ones of its sentence, shape ``(N, n)``.
    :param kinds: the distinct words of each sentence in the order of these numbers, shape ``(N, u or more)``.
    """

    distinct: Numbers
    local: Numbers
    kinds: Numbers

    @staticmethod
    def of(words: Numbers, constants: Sequence[int]) -> SentenceWords:
        """
        :param words: shape ``(N, n)``, padded with -1.
        :param constants: words that come first in every sentence.
        """
        N, n = words.shape
        C, real = len(constants), words >= 0
        others = np.where(real & ~np.isin(words, constants), words, -1)
        order = np.argsort(others, 1)
        in_order = np.take_along_axis(others, order, 1)
        first = np.ones((N, n), np.bool_)
        first[:, 1:] = in_order[:, 1:] != in_order[:, :-1]
        first &= in_order >= 0
        kinds = np.full((N, C + n), np.iinfo(np.int64).max)
        kinds[:, :C] = constants
        sentence, _ = np.nonzero(first)
        kinds[sentence, C + np.cumsum(first, 1)[first] - 1] = in_order[first]
        local = np.empty((N, n), np.int64)
        np.put_along_axis(local, order, C - 1 + np.cumsum(first, 1), 1)
        for x, constant in enumerate(constants):
            local[words == constant] = x
        local[~real] = 0
        return SentenceWords(C + first.sum(1), local, kinds)

    def some(self, these: Numbers) -> SentenceWords:
        """Those of some sentences."""
        return SentenceWords(*(array[these] for array in self))


def events_of_elements(
    weights: Sequence[WeightTable],
    axes: WordAxes,
    corpus: Corpus,
    lengths: Numbers,
    words: Mapping[str, SentenceWords],
) -> Iterator[tuple[Numbers, Numbers]]:
    """Sentences whose tables have one shape, and the event that each of their elements is, int32, shape ``(S, E)``.

    :param weights: the tables.
    :param lengths: of the sentences, shape ``(N,)``.
    :param words: by name.
    """

    def events(these: Numbers) -> Numbers:
        S, n = len(these), int(lengths[these[0]])
        kinds = {name: w.kinds[these, : w.distinct[these[0]]] for name, w in words.items()}
        parts = [np.zeros((S, 0), np.int32)]
        for w in weights:
            if w.name in corpus.located:
                within_sentences = (these, *[slice(n + 1)] * w.num_positions)
                part = corpus.located[w.name][within_sentences]
            else:
                table = corpus.tables[w.name]
                part = table.event(_index(table.shape, axes.axes[w.name], kinds, S))
            parts.append(part.reshape(S, -1).astype(np.int32))
        return np.concatenate(parts, 1)

    if not len(lengths):
        yield np.zeros(0, np.int64), np.zeros((0, 0), np.int32)
    alike = np.stack([np.zeros_like(lengths), *(w.distinct for w in words.values())], 1)
    if corpus.located:
        alike[:, 0] = lengths
    for shape in np.unique(alike, axis=0):
        group = np.flatnonzero((alike == shape).all(1))
        size = max(CELL, _AT_ONCE // max(1, events(group[:1]).size))
        for start in range(0, len(group), size):
            yield group[start : start + size], events(group[start : start + size])


def _index(shape: tuple[int, ...], by_word: tuple[str, ...], kinds: Mapping[str, Numbers], S: int) -> Numbers:
    """The numbers of the elements of some sentences' parts of a table, shape ``(S, elements)``."""
    index = np.zeros((S, 1), np.int64)
    for size, w in zip(shape, by_word, strict=True):
        along = kinds[w] if w else np.broadcast_to(np.arange(size), (S, size))
        index = (index[:, :, None] * size + along[:, None, :]).reshape(S, -1)
    return index
