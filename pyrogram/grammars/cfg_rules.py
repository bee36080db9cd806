# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Rules of a context-free grammar and their lexical matches as arrays: what its page is made of.

There are *symbols* and *events*. Each binary or unary rule and each match bears an event, whose weight it has, or -1:
weight one and no event, for symbols that only exist because longer right sides are split in two. A derivation is the
sequence of its events from the top down and from left to right (a leftmost derivation in the rules of the user).

Long rules are cut into binary ones here, and only here: a suffix of two or more symbols of a right side becomes a
symbol of its own with a single rule of weight one and no event. So does a terminal that stands among others that are
not all terminals. Right sides of terminals alone are matched directly, by a trie.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from graphlib import CycleError, TopologicalSorter
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


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

    def of(self, sentences: Any) -> Matches:
        """The matches of some sentences, in that order."""
        sentences = np.asarray(sentences, np.int64)
        starts, sizes = self.offsets[sentences], np.diff(self.offsets)[sentences]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        rows = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], sizes)
        forbidden = None if self.forbidden is None else self.forbidden[sentences]
        return Matches(self.lengths[sentences], offsets, self.table[rows], forbidden)


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


def rule_table(
    lhs: Sequence[int], rhs: Sequence[tuple[int, ...]], start: int, names: Sequence[str]
) -> tuple[RuleTable, Trie]:
    """Binary and unary rules of a grammar, and its lexical rules as a trie.

    Symbols below ``len(names)`` are the grammar's own, the others auxiliary.

    :param lhs: by event, the nonterminal on the left.
    :param rhs: by event, the right side: nonterminals as they are, terminal w as -1 - w.
    :param start: the nonterminal of a sentence.
    :param names: of the nonterminals.
    :raises ValueError: if unary rules form a cycle.
    """
    symbols: dict[tuple[int, ...], int] = {}  # auxiliary symbols by what they stand for
    binary: list[tuple[int, int, int, int]] = []
    unary: list[tuple[int, int, int]] = []
    trie = Trie(num_words=1 - min((min(r) for r in rhs), default=0))

    def symbol(part: tuple[int, ...]) -> int:
        """The symbol that spans a part of a right side; its rule is added when it is first needed."""
        new: list[tuple[int, int]] = []  # symbols that are made of another one and what is left of the part
        while part not in symbols and (len(part) > 1 or part[0] < 0):
            known = symbols[part] = len(names) + len(symbols)
            if len(part) == 1:
                trie.add((-1 - part[0],), known, -1)
                break
            new.append((known, symbol(part[:1])))
            part = part[1:]
        last = symbols.get(part, part[0])
        for known, left in reversed(new):
            binary.append((known, left, last, -1))
            last = known
        return last

    for event, (parent, right) in enumerate(zip(lhs, rhs, strict=True)):
        if max(right) < 0:
            trie.add([-1 - s for s in right], parent, event)
        elif len(right) == 1:
            unary.append((parent, right[0], event))
        else:
            binary.append((parent, symbol(right[:1]), symbol(right[1:]), event))
    table = RuleTable(
        num_symbols=len(names) + len(symbols),
        start=start,
        num_events=len(rhs),
        binary=np.array(binary, np.int64).reshape(-1, 4),
        unary=_sorted_unary(unary, names),
    )
    trie.freeze()
    return table, trie


def _sorted_unary(unary: Sequence[tuple[int, int, int]], names: Sequence[str]) -> Ints:
    """Unary rules such that a rule comes after all unary rules of its child."""
    children: dict[int, set[int]] = {}
    for parent, child, _ in unary:
        children.setdefault(parent, set()).add(child)
    try:
        order = {s: i for i, s in enumerate(TopologicalSorter(children).static_order())}
    except CycleError as error:
        cycle = " -> ".join(names[s] for s in reversed(error.args[1]))
        raise ValueError(
            f"the unary rules {cycle} form a cycle, so that sentences have infinitely many derivations; remove one"
        ) from None
    return np.array(sorted(unary, key=lambda rule: order[rule[0]]), np.int64).reshape(-1, 3)


class Trie:
    """Strings of terminals, with the symbols that they may be and the events that this is.

    :param num_words: greater than all terminals.
    """

    def __init__(self, num_words: int):
        self.num_words = num_words
        self._children: dict[int, int] = {}
        self._entries: list[tuple[int, int, int]] = []
        self._size = 1

    def add(self, terminals: Sequence[int], symbol: int, event: int) -> None:
        node = 0
        for w in terminals:
            key = node * self.num_words + w
            child = self._children.get(key)
            if child is None:
                child = self._children[key] = self._size
                self._size += 1
            node = child
        self._entries.append((node, symbol, event))

    def freeze(self) -> None:
        """Sorted arrays in place of what was collected."""
        keys = np.fromiter(self._children.keys(), np.int64, len(self._children))
        children = np.fromiter(self._children.values(), np.int64, len(keys))
        order = np.argsort(keys)
        self.keys, self.children = keys[order], children[order]
        entries = np.array(self._entries, np.int64).reshape(-1, 3)
        entries = entries[np.argsort(entries[:, 0], kind="stable")]
        self.symbols, self.events = entries[:, 1].copy(), entries[:, 2].copy()
        self.first = np.searchsorted(entries[:, 0], np.arange(self._size + 1))
        del self._children, self._entries

    def matches(self, words: Ints) -> Matches:
        """All matches in sentences (B, n), padded with -1 on the right; shorter spans first, then from the left."""
        B = len(words)
        lengths = (words >= 0).sum(1)
        rows = np.concatenate([np.empty((0, 5), np.int64), *self._walk(words, lengths)])
        rows = rows[np.argsort(rows[:, 0], kind="stable")]
        offsets = np.searchsorted(rows[:, 0], np.arange(B + 1))
        return Matches(lengths=lengths, offsets=offsets, table=np.ascontiguousarray(rows[:, 1:]))

    def _walk(self, words: Ints, lengths: Ints) -> Iterator[Ints]:
        """Matches [sentence, i, k, symbol, event], all of one width at a time."""
        sentence, start = np.nonzero(words >= 0)
        node = np.zeros(len(sentence), np.int64)
        end = start.copy()
        while len(sentence) and len(self.keys):
            inside = end < lengths[sentence]
            sentence, start, end, node = sentence[inside], start[inside], end[inside], node[inside]
            word = words[sentence, end]
            key = node * self.num_words + word
            place = np.searchsorted(self.keys, key).clip(max=len(self.keys) - 1)
            known = (self.keys[place] == key) & (word < self.num_words)
            sentence, start, end, node = sentence[known], start[known], end[known] + 1, self.children[place[known]]
            count = self.first[node + 1] - self.first[node]
            owner = np.repeat(np.arange(len(node)), count)
            entry = np.arange(len(owner)) - np.repeat(count.cumsum() - count, count) + self.first[node][owner]
            yield np.stack([sentence[owner], start[owner], end[owner], self.symbols[entry], self.events[entry]], 1)
