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

from pyrogram.runtime.compiling import kernel

Numbers = Any  # a numpy array

CELLS = 2**22  # pairs that are looked at at a time


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

    def first_events(self, pairs: Numbers) -> Numbers:
        """The events of pairs (2 h + direction) V + child, int64, at valence 0; that of -1 is none.

        Pairs that were not seen have the event of all other words.
        """
        events = np.empty(pairs.size, np.int64)
        _find_all(
            np.ascontiguousarray(pairs.reshape(-1)), self.num_tags, self.starts, self.children, self.firsts, events
        )
        return events.reshape(pairs.shape)

    def numbers(self, dense: Numbers) -> Numbers:
        """The same of elements of the table (V, 2[, S], V), indices into it, flattened."""
        multinomial, child = np.divmod(dense, self.num_tags)
        row, valence = np.divmod(multinomial, self.num_valences)
        return self.first_events(row * self.num_tags + child) + valence * self.sizes[row]

    def elements(self) -> tuple[Numbers, Numbers]:
        """The event of each element of the table (V, 2[, S], V), and its part of it; of small vocabularies."""
        event = self.numbers(np.arange(2 * self.num_tags * self.num_valences * self.num_tags))
        return event, 1 / self.outcomes[event]


def seen_pairs(words: Numbers, num_tags: int) -> Numbers:
    """The pairs of words that occur within a sentence, as :class:`Attachments` takes them.

    :param words: shape ``(N, n)``, int64, padded with -1.
    """
    seen: Numbers = np.empty(0, np.int64)
    place, size = np.arange(words.shape[1]), max(1, CELLS // words.shape[1] ** 2)
    for begin in range(0, len(words), size):
        head, child = words[begin : begin + size, :, None], words[begin : begin + size, None]
        is_pair = (head >= 0) & (child >= 0) & (place != place[:, None])
        of_some = ((head * 2 + (place > place[:, None])) * num_tags + child)[is_pair]
        pairs = np.concatenate([seen, of_some])
        pairs.sort()  # in numpy, much quicker than unique
        seen = pairs[np.append(True, pairs[1:] != pairs[:-1])] if len(pairs) else pairs
    return seen


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
def _find_all(pairs, V, starts, children, firsts, events):
    for x in range(len(pairs)):
        if pairs[x] < 0:
            events[x] = -1
            continue
        row = pairs[x] // V
        start, end = starts[row], starts[row + 1]
        place = _place(children, start, end, pairs[x] - row * V)
        if place == end or children[place] != pairs[x] - row * V:
            place = end
        events[x] = firsts[row] + place - start
