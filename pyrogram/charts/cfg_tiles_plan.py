# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The rules of a context-free grammar in small dense pieces: the lists that :mod:`.cfg_tiles` runs through.

A symbol can only span certain numbers of words: a preterminal one, others at least two, the start symbol of many
grammars only the whole sentence. So pairs of right sides fall into classes by the widths of both. Pairs of a class
stand in *blocks* of up to four left times four right symbols; a few blocks make a *piece*, whose products stay in the
first-level cache until all rules have read them; parents with about the same pairs in a piece stand together in
*groups* of up to four.
"""

from itertools import count
from typing import Any, NamedTuple

import numpy as np

from .cfg_rules import Matches, RuleTable
from .lanes_tiles import MOST

_NEVER = 2**30  # words: more than any sentence has
# Products of a piece: few where many parents read them, for all others what costs little memory.
_SHARED, _ALONE = 64, 256
# How many times the work that must be done may be done to do it in larger tiles.
_WASTE = 1.5


class TilePlan(NamedTuple):
    """Lists of the work for a span. Weights are in the order of ``source``, an event, R for one, R + 1 for zero.

    ``pieces`` (K, 10): [first block, end, first group, end, low and high of left, low and high of right, top, cells of
    its products];
    ``blocks`` (B, 12): [lefts, rights, 4 left symbols, 4 right symbols, first product, 0], at most four of each;
    ``groups`` (G, 8): [parents, 4 of them, first entry, end, first weight];
    ``entries`` (E,): the product of each entry, which has as many weights as its group has parents. Products are
    counted in cells: each has one for each of four spans.
    ``unary`` (U, 5): [parent, child, low and high of child, top], weights after those of the entries;
    ``multi``: symbols that match more than one word; ``low``, ``high`` (S,): least and greatest numbers of words of
    all. What is ``top`` matters to the whole sentence only.
    """

    S: int
    start: int
    num_products: int
    num_weights: int
    pieces: Any
    blocks: Any
    groups: Any
    entries: Any
    unary: Any
    multi: Any
    source: Any
    low: Any
    high: Any


def tile_plan_of(rules: RuleTable, matches: Matches) -> TilePlan:
    """The plan for all sentences of ``matches``."""
    S, R = rules.num_symbols, rules.num_events
    low, high = np.full(S, _NEVER), np.zeros(S, np.int64)
    width = matches.table[:, 1] - matches.table[:, 0]
    np.minimum.at(low, matches.table[:, 2], width)
    np.maximum.at(high, matches.table[:, 2], width)
    multi = np.nonzero(high > 1)[0]
    low, high = _widths(rules, low, high)
    child = np.zeros(S, np.bool_)
    child[rules.binary[:, 1:3].reshape(-1)] = True
    child[rules.unary[:, 1]] = True
    top = (~child).astype(np.int64)
    pairs, own = rules.pairs
    pair_top = np.ones(len(pairs), np.int64)
    np.minimum.at(pair_top, own, top[rules.binary[:, 0]])
    B, C = pairs.T
    kinds = np.stack([low[B], high[B], low[C], high[C], pair_top], 1)
    possible = (low[B] < _NEVER) & (low[C] < _NEVER)
    lists = _Lists(rules)
    for kind in np.unique(kinds[possible], axis=0):
        lists.add_class(np.nonzero(possible & (kinds == kind).all(1))[0], kind)
    unary = [[a, b, low[b], high[b], top[a]] for a, b, _ in rules.unary.tolist() if low[b] < _NEVER]
    source = np.array(lists.source + rules.unary[low[rules.unary[:, 1]] < _NEVER, 2].tolist(), np.int64)
    source[source == -1] = R
    source[source == -2] = R + 1
    return TilePlan(
        S, rules.start, lists.num_products, len(source), _table(lists.pieces, 10), _table(lists.blocks, 12),
        _table(lists.groups, 8), np.array(lists.entries, np.int64), _table(unary, 5), multi.astype(np.int64), source,
        low, high,
    )  # fmt: skip


class _Lists:
    """A plan in the making."""

    def __init__(self, rules: RuleTable):
        self._rules = rules
        self._of_pair = np.argsort(rules.pairs[1], kind="stable")  # binary rules by pair
        self._first = np.searchsorted(rules.pairs[1][self._of_pair], np.arange(len(rules.pairs[0]) + 1))
        self.pieces: list[Any] = []
        self.blocks: list[Any] = []
        self.groups: list[Any] = []
        self.entries: list[int] = []
        self.source: list[int] = []
        self.num_products = 0

    def add_class(self, chosen: Any, kind: Any) -> None:
        """Pairs that can span the same numbers of words."""
        num_rules = int((self._first[chosen + 1] - self._first[chosen]).sum())
        most = _SHARED if num_rules > 2 * len(chosen) else _ALONE
        place: dict[int, int] = {}
        first, used = len(self.blocks), 0
        for lefts, rights, inside in _blocks(self._rules.pairs[0][chosen], chosen):
            size = len(lefts) * len(rights)
            if used + size > most and used:
                self._add_piece(first, place, used, kind)
                first, place, used = len(self.blocks), {}, 0
            self.blocks.append([len(lefts), len(rights), *_padded(lefts), *_padded(rights), MOST * used, 0])
            place.update({pair: MOST * (used + k) for k, pair in inside})
            used += size
            self.num_products = max(self.num_products, used)
        self._add_piece(first, place, used, kind)

    def _add_piece(self, first_block: int, place: dict[int, int], used: int, kind: Any) -> None:
        """The rules of some pairs, whose products are at given places."""
        first_group = len(self.groups)
        own = np.concatenate([self._of_pair[self._first[p] : self._first[p + 1]] for p in place])
        at = np.concatenate([np.full(self._first[p + 1] - self._first[p], where) for p, where in place.items()])
        parent, event = self._rules.binary[own, 0], self._rules.binary[own, 3]
        parents = np.unique(parent)
        for some in np.array_split(parents, -(-len(parents) // MOST)):
            members = [np.nonzero(parent == a)[0] for a in some]
            members = [m[np.argsort(at[m], kind="stable")] for m in members]
            # A pair may have several rules of one parent.
            keys = [at[m] * len(own) + _repeats(at[m]) for m in members]
            union = np.unique(np.concatenate(keys))
            if len(some) * len(union) <= _WASTE * sum(len(m) for m in members):
                self._add_group(some, union, keys, [event[m] for m in members], len(own))
            else:
                for a, m, k in zip(some, members, keys, strict=True):
                    self._add_group([a], k, [k], [event[m]], len(own))
        self.pieces.append([first_block, len(self.blocks), first_group, len(self.groups), *kind, MOST * used])

    def _add_group(self, parents: Any, union: Any, keys: Any, events: Any, scale: int) -> None:
        table = np.full((len(union), len(parents)), -2)
        for column, (k, event) in enumerate(zip(keys, events, strict=True)):
            table[np.searchsorted(union, k), column] = event
        first = len(self.entries)
        self.groups.append([len(parents), *_padded(parents), first, first + len(union), len(self.source)])
        self.entries += (union // scale).tolist()
        self.source += table.reshape(-1).tolist()


def _blocks(pairs: Any, numbers: Any) -> Any:
    """Blocks of left times right symbols: both, and [place in the block, number] of the pairs that exist.

    :param pairs: shape (P, 2).
    :param numbers: shape (P,), what the pairs are called.
    """
    names = {(b, c): k for (b, c), k in zip(pairs.tolist(), numbers.tolist(), strict=True)}
    every = np.unique(pairs[:, 0])
    for some in np.array_split(every, -(-len(every) // MOST)):
        own = [pairs[pairs[:, 0] == b, 1] for b in some]
        rights = np.unique(np.concatenate(own))
        if len(some) * len(rights) <= _WASTE * sum(len(c) for c in own):
            lists = [(some.tolist(), rights)]
        else:
            lists = [([b], c) for b, c in zip(some.tolist(), own, strict=True)]
        for lefts, those in lists:
            for part in np.array_split(those, -(-len(those) // MOST)):
                grid = [(b, c) for b in lefts for c in part.tolist()]
                yield lefts, part.tolist(), [(k, names[pair]) for k, pair in enumerate(grid) if pair in names]


def _padded(symbols: Any) -> list[int]:
    return [*(int(a) for a in symbols), *[0] * (MOST - len(symbols))]


def _widths(rules: RuleTable, low: Any, high: Any) -> tuple[Any, Any]:
    """The least and the greatest number of words of each symbol, from those of its matches."""
    low, high = low.copy(), high.copy()
    parent, left, right, _ = rules.binary.T
    for turn in count():
        before = low.copy(), high.copy()
        possible = (low[left] < _NEVER) & (low[right] < _NEVER)
        np.minimum.at(low, parent, np.minimum(low[left] + low[right], _NEVER))
        np.maximum.at(high, parent, np.where(possible, np.minimum(high[left] + high[right], _NEVER), 0))
        np.minimum.at(low, rules.unary[:, 0], low[rules.unary[:, 1]])
        np.maximum.at(high, rules.unary[:, 0], high[rules.unary[:, 1]])
        if all((a == b).all() for a, b in zip(before, (low, high), strict=True)):
            break
        if turn > rules.num_symbols:  # what still grows does so without end
            high[high > before[1]] = _NEVER
    return low, high


def _repeats(sorted_values: Any) -> Any:
    """0, 1, ... for equal neighbours."""
    first = np.searchsorted(sorted_values, sorted_values)
    return np.arange(len(sorted_values)) - first


def _table(rows: list[Any], width: int) -> Any:
    return np.array(rows, np.int64).reshape(-1, width)
