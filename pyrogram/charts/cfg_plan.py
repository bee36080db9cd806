# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""In which order a context-free grammar's rules are applied to a span: the lists that :mod:`.cfg_lanes` runs through.

A symbol can only span certain numbers of words: a preterminal one, others at least two, the start symbol of many
grammars only the whole sentence. So pairs of right sides fall into *classes* by the widths of both; a span visits the
classes that fit its width. Within a class, pairs with the same left symbol stand in blocks of four, two or one, which
share what they load, and parents with about the same pairs in groups of four.
"""

from itertools import count
from typing import Any, NamedTuple

import numpy as np

from .cfg_rules import Matches, RuleTable

_NEVER = 2**30
_GROUP = 4


class Plan(NamedTuple):
    """Lists of the work for a span. Weights are in the order of ``source``, an event, R for one, R + 1 for zero.

    ``blocks`` (K, 12): [left, first pair, size, 4 right symbols, low and high of left, low and high of right, top];
    ``groups`` (G, 11): [size, 4 parents, first entry, end, first weight, least width, greatest width, top];
    ``entries`` (E,): the pair of each entry, which has as many weights as its group has parents;
    ``unary`` (U, 5): [parent, child, low and high of child, top], weights after those of the entries;
    ``multi``: symbols that match more than one word; ``low``, ``high`` (S,): least and greatest numbers of words of
    all. What is ``top`` matters to the whole sentence only.
    """

    S: int
    start: int
    num_pairs: int
    num_weights: int
    blocks: Any
    groups: Any
    entries: Any
    unary: Any
    multi: Any
    source: Any
    low: Any
    high: Any


def plan_of(rules: RuleTable, matches: Matches) -> Plan:
    """The plan for a batch, kept with the rules as long as symbols match the same numbers of words."""
    low, high = np.full(rules.num_symbols, _NEVER), np.zeros(rules.num_symbols, np.int64)
    width = matches.table[:, 1] - matches.table[:, 0]
    np.minimum.at(low, matches.table[:, 2], width)
    np.maximum.at(high, matches.table[:, 2], width)
    plans: dict[bytes, Plan] = rules.__dict__.setdefault("plans", {})
    key = low.tobytes() + high.tobytes()
    if key not in plans:
        if len(plans) > 64:
            plans.clear()
        plans[key] = _make(rules, low, high)
    return plans[key]


def _make(rules: RuleTable, low: Any, high: Any) -> Plan:
    S, R = rules.num_symbols, rules.num_events
    multi = np.nonzero(high > 1)[0]
    low, high = _widths(rules, low, high)
    child = np.zeros(S, np.bool_)
    child[rules.binary[:, 1:3].reshape(-1)] = True
    child[rules.unary[:, 1]] = True
    top = (~child).astype(np.int64)
    pairs, own = rules.pairs
    B, C = pairs.T
    pair_top = np.ones(len(pairs), np.int64)
    np.minimum.at(pair_top, own, top[rules.binary[:, 0]])
    possible = (low[B] < _NEVER) & (low[C] < _NEVER)
    kinds = np.stack([low[B], high[B], low[C], high[C], pair_top], 1)
    rank = np.lexsort((C, B, *kinds.T[::-1]))
    rank = rank[possible[rank]]
    blocks, classes, start = [], [], 0
    while start < len(rank):
        kind, size = kinds[rank[start]], 1
        end = start + _same(kinds[rank[start:]], kind)
        classes.append((start, end, kind))
        while start < end:
            left = B[rank[start]]
            run = min(4, _same(B[rank[start:end], None], left))
            size = 4 if run == 4 else 2 if run >= 2 else 1
            rights = [C[rank[min(start + t, end - 1)]] for t in range(4)]
            blocks.append([left, start, size, *rights, *kind])
            start += size
    place = np.full(len(pairs), -1)
    place[rank] = np.arange(len(rank))
    groups, entries, source = _group(rules, place[own], classes)
    unary = [[a, b, low[b], high[b], top[a]] for a, b, _ in rules.unary.tolist() if low[b] < _NEVER]
    kept = low[rules.unary[:, 1]] < _NEVER
    source += rules.unary[kept, 2].tolist()
    found = np.array(source, np.int64)
    found[found == -1] = R
    found[found == -2] = R + 1
    return Plan(
        S, rules.start, len(rank), len(found), _table(blocks, 12), _table(groups, 11), np.array(entries, np.int64),
        _table(unary, 5), multi.astype(np.int64), found, low, high,
    )  # fmt: skip


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


def _same(rows: Any, value: Any) -> int:
    """How many of the first rows are equal to a value."""
    differs = (rows != value).any(-1)
    return int(differs.argmax()) if differs.any() else len(rows)


def _group(rules: RuleTable, place: Any, classes: list[Any]) -> tuple[list[Any], list[int], list[int]]:
    """Parents of each class in groups of four where that wastes little, else alone."""
    groups: list[Any] = []
    entries: list[int] = []
    source: list[int] = []
    parent, event = rules.binary[:, 0], rules.binary[:, 3]
    for start, end, kind in classes:
        own = np.nonzero((place >= start) & (place < end))[0]
        own = own[np.lexsort((place[own], parent[own]))]
        parents = np.unique(parent[own])
        for at in range(0, len(parents), _GROUP):
            some = parents[at : at + _GROUP]
            members = [own[parent[own] == a] for a in some]
            keys = [place[m] * len(own) + _repeats(place[m]) for m in members]
            union = np.unique(np.concatenate(keys))
            if _GROUP * len(union) > 1.5 * sum(len(m) for m in members):
                sets: list[Any] = [([a], [m], [k], k) for a, m, k in zip(some, members, keys, strict=True)]
            else:
                sets = [(some, members, keys, union)]
            for those, rows, own_keys, all_keys in sets:
                size = 1 if len(those) == 1 else _GROUP
                table = np.full((len(all_keys), size), -2)
                for column, (m, k) in enumerate(zip(rows, own_keys, strict=True)):
                    table[np.searchsorted(all_keys, k), column] = event[m]
                padded = [*those, *[rules.num_symbols] * (4 - len(those))]
                first = len(entries)
                least, most = kind[0] + kind[2], kind[1] + kind[3]
                groups.append([size, *padded, first, first + len(all_keys), len(source), least, most, kind[4]])
                entries += (all_keys // len(own)).tolist()
                source += table.reshape(-1).tolist()
    return groups, entries, source


def _repeats(sorted_values: Any) -> Any:
    """0, 1, ... for equal neighbours."""
    first = np.searchsorted(sorted_values, sorted_values)
    return np.arange(len(sorted_values)) - first


def _table(rows: list[Any], width: int) -> Any:
    return np.array(rows, np.int64).reshape(-1, width)
