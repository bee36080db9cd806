# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Which rules and matches some derivation of a sentence uses, whatever their weights are.

What a symbol can span is kept as bits, twice: for each first word and symbol the ends, and for each end and symbol the
first words. So whether a rule can be applied to a span, and where it can be split, is one operation for 64 splits.
"""

# mypy: disable-error-code="no-untyped-def"
from typing import Any

import numpy as np

from pyrogram.charts.runtime.compiling import borrowing, inlined, kernel

from .cfg_rules import Matches, RuleTable, grammar_of

_ROOM = 1 << 20  # events of some sentences


def possible(rules: RuleTable, matches: Matches, events: Any) -> tuple[Any, Any, Any]:
    """What occurs in some derivation of a sentence.

    :param events: shape (E,), the events of the rules, sorted.
    :returns: how many events of rules can occur in each sentence, shape (N,); where they are in ``events``, ascending
        in each sentence, int32; and whether each match can, shape (M,), in the order of ``matches.table``.
    """
    N, words = len(matches), matches.max_length // 64 + 1
    g = grammar_of(rules)
    tables = tuple(np.zeros((matches.max_length + 1, g.S, words), np.uint64) for _ in range(4))
    places = tuple(_places(events, own) for own in (g.event, g.unary[:, 2]))
    seen, sizes, used = np.zeros(len(events), np.bool_), np.zeros(N, np.int64), np.zeros(len(matches.table), np.bool_)
    found = np.zeros(max(_ROOM, len(events)), np.int32)
    parts, start = [found[:0]], 0
    while start < N:
        arrays = matches.lengths, matches.offsets, matches.table
        end = _mark_sentences(g, tables, places, *arrays, start, seen, sizes, found, used)
        parts.append(found[: sizes[start:end].sum()].copy())
        start = end
    return sizes, np.concatenate(parts), used


def _places(events: Any, own: Any) -> Any:
    """Where each of some events is in a sorted list, or -1."""
    return np.where(own >= 0, np.searchsorted(events, own), -1)


@kernel
def _mark_sentences(g, tables, places, lengths, offsets, table, start, seen, sizes, found, used):
    """As many sentences as there is room for; returns the next one."""
    size = 0
    for b in range(start, len(lengths)):
        if size + len(seen) > len(found):
            return b
        n = lengths[b]
        _fill(g, tables, n, table, offsets[b], offsets[b + 1])
        _open(g, tables, places, n, seen)
        for m in range(offsets[b], offsets[b + 1]):
            used[m] = _is_used(tables, table[m, 0], table[m, 1], table[m, 2])
        for e in range(len(seen)):
            if seen[e]:
                found[size] = e
                size += 1
                sizes[b] += 1
                seen[e] = False
    return len(lengths)


@inlined
def _has(bits, row, A, position):
    return (bits[row, A, position >> 6] >> np.uint64(position & 63)) & np.uint64(1) != np.uint64(0)


@inlined
def _put(bits, row, A, position):
    bits[row, A, position >> 6] |= np.uint64(1) << np.uint64(position & 63)


@inlined
def _is_used(tables, i, k, A):
    """Adjoints are not spread to both tables: what is a left symbol is in one, what is a right one in the other."""
    return _has(tables[2], i, A, k) or _has(tables[3], k, A, i)


@borrowing
def _fill(g, tables, n, table, first, end):
    """What each symbol can span, from the matches and from short to long spans."""
    ends, starts = tables[0], tables[1]
    for bits in tables:
        for i in range(n + 1):
            for A in range(g.S):
                for word in range(bits.shape[2]):
                    bits[i, A, word] = 0
    for m in range(first, end):
        _put(ends, table[m, 0], table[m, 2], table[m, 1])
        _put(starts, table[m, 1], table[m, 2], table[m, 0])
    for width in range(1, n + 1):
        for i in range(n - width + 1):
            k = i + width
            for A in range(g.S if width > 1 else 0):
                if not _has(ends, i, A, k) and _can_split(g, ends, starts, i, k, A):
                    _put(ends, i, A, k)
                    _put(starts, k, A, i)
            for u in range(len(g.unary)):
                if _has(ends, i, g.unary[u, 1], k):
                    _put(ends, i, g.unary[u, 0], k)
                    _put(starts, k, g.unary[u, 0], i)


@borrowing
def _can_split(g, ends, starts, i, k, A):
    """Whether some binary rule of A can be applied to a span."""
    for r in range(g.binary_of[A], g.binary_of[A + 1]):
        for word in range(i >> 6, (k >> 6) + 1):
            if ends[i, g.left[r], word] & starts[k, g.right[r], word]:
                return True
    return False


@borrowing
def _open(g, tables, places, n, seen):
    """What derivations of the sentence use, from long to short spans."""
    ends, starts = tables[0], tables[1]
    if _has(ends, 0, g.start, n):
        _put(tables[2], 0, g.start, n)
    for width in range(n, 0, -1):
        for i in range(n - width + 1):
            k = i + width
            for u in range(len(g.unary) - 1, -1, -1):
                child = g.unary[u, 1]
                if _has(ends, i, child, k) and _is_used(tables, i, k, g.unary[u, 0]):
                    _put(tables[2], i, child, k)
                    if places[1][u] >= 0:
                        seen[places[1][u]] = True
            for A in range(g.S if width > 1 else 0):
                if not _is_used(tables, i, k, A):
                    continue
                for r in range(g.binary_of[A], g.binary_of[A + 1]):
                    B, C = g.left[r], g.right[r]
                    for word in range(i >> 6, (k >> 6) + 1):
                        splits = ends[i, B, word] & starts[k, C, word]
                        if splits:
                            tables[2][i, B, word] |= splits
                            tables[3][k, C, word] |= splits
                            if places[0][r] >= 0:
                                seen[places[0][r]] = True
