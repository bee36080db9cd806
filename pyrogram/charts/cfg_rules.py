# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Rules of a context-free grammar and their lexical matches as arrays: what the charts for grammars read.

A chart knows *symbols* and *events*. Each binary or unary rule and each match bears an event, whose weight it has, or
-1: weight one and no event, for symbols that only exist because longer right sides are split in two. A derivation is
the sequence of its events from the top down and from left to right (a leftmost derivation in the rules of the user).
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from pyrogram.printable import plural


@dataclass(frozen=True, eq=False)
class RuleTable:
    """The rules that are not lexical.

    :param num_symbols: symbols are 0 .. num_symbols - 1.
    :param start: the symbol of a whole sentence.
    :param num_events: R, events are 0 .. R - 1.
    :param binary: shape (Nb, 4), int64: [parent, left, right, event].
    :param unary: shape (Nu, 3), int64: [parent, child, event], each after all unary rules of its child.
    """

    num_symbols: int
    start: int
    num_events: int
    binary: Any
    unary: Any

    def __post_init__(self) -> None:
        for name, width in (("binary", 4), ("unary", 3)):
            table = np.ascontiguousarray(getattr(self, name), np.int64).reshape(-1, width)
            object.__setattr__(self, name, table)
            _check(table[:, :-1], 0, self.num_symbols, f"symbols of {name} rules")
            _check(table[:, -1], -1, self.num_events, f"events of {name} rules")
        _check(np.array([self.start]), 0, self.num_symbols, "the start symbol")
        finished = np.full(self.num_symbols, -1)
        finished[self.unary[:, 0]] = np.arange(len(self.unary))
        late = np.nonzero(finished[self.unary[:, 1]] >= np.arange(len(self.unary)))[0]
        if len(late):
            raise ValueError(
                f"unary rule {late[0]} must come after all unary rules of its child, {self.unary[late[0]]}"
            )


@dataclass(frozen=True, eq=False)
class Matches:
    """Where the lexical rules of B sentences match.

    :param lengths: shape (B,), numbers of words n, at least 1.
    :param offsets: shape (B + 1,); the matches of sentence b are rows ``offsets[b]:offsets[b + 1]`` of the table.
    :param table: shape (M, 4), int64: [i, k, symbol, event], 0 <= i < k <= n: the symbol spans words i .. k - 1.
    :param forbidden: shape (B, N, N), bool, with N greater than all lengths: [i, k] is true where no symbol that has
        events may span words i .. k - 1; None: nothing is forbidden.
    """

    lengths: Any
    offsets: Any
    table: Any
    forbidden: Any = None

    def __post_init__(self) -> None:
        for name in ("lengths", "offsets", "table"):
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name), np.int64))
        object.__setattr__(self, "table", self.table.reshape(-1, 4))
        sizes = np.diff(self.offsets)
        if len(sizes) != len(self.lengths) or self.offsets[0] != 0 or self.offsets[-1] != len(self.table):
            raise ValueError(
                f"offsets of {plural(len(self.lengths), 'sentence')} must run from 0 to "
                f"{plural(len(self.table), 'match')}"
            )
        if (sizes < 0).any() or (self.lengths < 1).any():
            raise ValueError("offsets must not decrease and sentences must have at least one word")
        i, k = self.table[:, 0], self.table[:, 1]
        if len(self.table) and (i.min() < 0 or (i >= k).any() or (k > self.lengths[self.sentence]).any()):
            raise ValueError("a match must span words i .. k - 1 of its sentence with 0 <= i < k <= n")

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def max_length(self) -> int:
        """The greatest number of words."""
        return int(self.lengths.max(initial=1))

    @cached_property
    def sentence(self) -> Any:
        """The sentence of each match, shape (M,)."""
        return np.repeat(np.arange(len(self.lengths)), np.diff(self.offsets))

    def of(self, sentences: Any) -> "Matches":
        """The matches of some sentences, in that order."""
        sentences = np.asarray(sentences, np.int64)
        starts, sizes = self.offsets[sentences], np.diff(self.offsets)[sentences]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        rows = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], sizes)
        forbidden = None if self.forbidden is None else self.forbidden[sentences]
        return Matches(self.lengths[sentences], offsets, self.table[rows], forbidden)

    def check(self, rules: RuleTable) -> None:
        """
        :raises ValueError: if a symbol or an event is not one of the grammar's; compiled code does not look.
        """
        _check(self.table[:, 2], 0, rules.num_symbols, "symbols of matches")
        _check(self.table[:, 3], -1, rules.num_events, "events of matches")


@lru_cache(maxsize=1024)
def longest(rules: RuleTable, n: int, with_silent: bool = False) -> int:
    """The number of events that no derivation of at most n words exceeds, 2n - 1 in Chomsky normal form.

    :param with_silent: count rules without an event, too.
    """
    impossible = -(10**9)
    most = np.full((n + 1, rules.num_symbols), 1)  # any symbol may match any words
    most[0] = impossible
    parent, left, right, event = rules.binary.T
    for m in range(1, n + 1):
        for j in range(1, m):
            np.maximum.at(most[m], parent, most[j][left] + most[m - j][right] + (with_silent | (event >= 0)))
        for above, child, unary_event in rules.unary:
            most[m][above] = max(most[m][above], most[m][child] + (with_silent or unary_event >= 0))
    return int(most[1:, rules.start].max())


def _check(values: Any, low: int, end: int, what: str) -> None:
    if values.size and (values.min() < low or values.max() >= end):
        raise ValueError(f"{what} must lie in {low} .. {end - 1}, not {values.min()} .. {values.max()}")
