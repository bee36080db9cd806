# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Attachments of large vocabularies: only pairs of words that were seen have an event of their own.

A *row* is a head and a direction, 2 h + direction. It has the children that were seen, in increasing order, and after
them, unless these are all V words, one event for all other words in equal parts. Where the choice of a child depends on
valence, each row has S multinomials with the same events, one after the other.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numba import njit

from .runtime.compiling import kernel

Numbers = Any  # a numpy array

CELLS = 2**24  # pairs that are looked at at a time


@dataclass(frozen=True)
class Attachments:
    """Which events there are, and the number of each; those of the root, one for each word, come before them.

    :param num_tags: V.
    :param num_valences: of children, S; 1 if their choice does not depend on valence.
    :param pairs: the pairs that were seen, increasing: (2 h + direction) V + child, int64.
    """

    num_tags: int
    num_valences: int
    pairs: Numbers

    @cached_property
    def children(self) -> Numbers:
        """Of each pair, int32."""
        return (self.pairs % self.num_tags).astype(np.int32)

    @cached_property
    def starts(self) -> Numbers:
        """The first pair of each row, and the number of all, shape ``(2 V + 1,)``."""
        rows = np.arange(2 * self.num_tags + 1, dtype=np.int64)
        return np.searchsorted(self.pairs, rows * self.num_tags)

    @cached_property
    def sizes(self) -> Numbers:
        """How many events each row has at one valence, shape ``(2 V,)``."""
        seen = np.diff(self.starts)
        return seen + (seen < self.num_tags)

    @cached_property
    def firsts(self) -> Numbers:
        """The first event of each row, and the number of all, shape ``(2 V + 1,)``."""
        return self.num_valences * np.concatenate([[0], np.cumsum(self.sizes)])

    @cached_property
    def outcomes(self) -> Numbers:
        """How many children each event stands for, shape ``(R,)``, float64."""
        outcomes, seen = np.ones(self.firsts[-1]), np.diff(self.starts)
        rest = self.num_tags - seen[seen < self.num_tags]
        for v in range(self.num_valences):
            outcomes[(self.firsts[:-1] + v * self.sizes + seen)[seen < self.num_tags]] = rest
        return outcomes

    @property
    def owners(self) -> Numbers:
        """The multinomial of each event, S row + valence."""
        return np.repeat(np.arange(len(self.sizes) * self.num_valences), np.repeat(self.sizes, self.num_valences))

    @property
    def children_of_events(self) -> Numbers:
        """The child of each event, -1 for all other words, shape ``(R,)``, int64."""
        children = np.full(self.firsts[-1], -1, np.int64)
        row = np.repeat(np.arange(2 * self.num_tags), np.diff(self.starts))
        for v in range(self.num_valences):
            place = np.arange(len(self.pairs)) - self.starts[row]
            children[self.firsts[row] + v * self.sizes[row] + place] = self.children
        return children

    def numbers(self, dense: Numbers) -> Numbers:
        """The events of elements of the table (V, 2[, S], V); of pairs that were not seen, that of all other words.

        :param dense: indices into it, flattened, int64.
        """
        events = np.empty(dense.size, np.int64)
        flat = np.ascontiguousarray(dense.reshape(-1))
        V, S = self.num_tags, self.num_valences
        _number_all(flat, V, S, self.starts, self.children, self.firsts, self.sizes, events)
        return events.reshape(dense.shape)

    def elements(self) -> tuple[Numbers, Numbers]:
        """The event of each element of the table (V, 2[, S], V), and its part of it; of small vocabularies."""
        event = self.numbers(np.arange(2 * self.num_tags * self.num_valences * self.num_tags))
        return event, 1 / self.outcomes[event]


def seen_pairs(words: Numbers, num_tags: int) -> Numbers:
    """The pairs of words that occur within a sentence, as :class:`Attachments` takes them.

    :param words: shape ``(N, n)``, int64, padded with -1.
    """
    seen: Numbers = np.empty(0, np.int64)
    lengths = (words >= 0).sum(1)
    of_sentences = np.cumsum(lengths * (lengths - 1))
    begin, done = 0, 0
    while begin < len(words):
        end = max(begin + 1, int(np.searchsorted(of_sentences, done + CELLS, side="right")))
        pairs = np.empty(int(of_sentences[end - 1]) - done, np.int64)
        _list_pairs(words[begin:end], lengths[begin:end], num_tags, pairs)
        pairs = np.concatenate([seen, pairs])
        pairs.sort()  # in numpy, much quicker than unique
        seen = pairs[np.append(True, pairs[1:] != pairs[:-1])] if len(pairs) else pairs
        begin, done = end, int(of_sentences[end - 1])
    return seen


@kernel
def _list_pairs(words, lengths, V, pairs):
    size = 0
    for b in range(len(words)):
        for i in range(lengths[b]):
            for j in range(lengths[b]):
                if i != j:
                    pairs[size] = (words[b, i] * 2 + (1 if j > i else 0)) * V + words[b, j]
                    size += 1


@njit(nogil=True)
def _place(children, start, end, child):
    """Where a child is, or would be, among those of a row."""
    while start < end:
        middle = (start + end) // 2
        if children[middle] < child:
            start = middle + 1
        else:
            end = middle
    return start


@kernel
def _number_all(dense, V, S, starts, children, firsts, sizes, events):
    for x in range(len(dense)):
        row, child = dense[x] // V // S, dense[x] % V
        start, end = starts[row], starts[row + 1]
        place = _place(children, start, end, child)
        seen = place < end and children[place] == child
        events[x] = firsts[row] + dense[x] // V % S * sizes[row] + (place if seen else end) - start


@njit(nogil=True)
def other_child(children, start, end, u):
    """The u-th word, from 0, that is not among the children of a row."""
    low, high = start, end
    while low < high:
        middle = (low + high) // 2
        if children[middle] - (middle - start) <= u:
            low = middle + 1
        else:
            high = middle
    return u + low - start
