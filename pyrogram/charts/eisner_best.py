# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The k best projective trees of one sentence, exactly, in log space and float64.

Every cell of the recursion of :mod:`.eisner_lanes` keeps its k best derivations (Huang and Chiang 2005,
algorithm 1, with the cube (r + 1)(r' + 1) <= k of useful pairs). Ties are broken by the smaller split. For k = 1 the
same recursion goes without lists, ten times faster.
"""

# mypy: disable-error-code="no-untyped-def"
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from .eisner_sample import LEFT_ARC, LEFT_TREE, RIGHT_ARC, RIGHT_TREE


class BestChart(NamedTuple):
    """``score`` [kind, i, j, rank] in nats; ``split``, ``rank_a``, ``rank_b``: how it was made."""

    score: Any
    split: Any
    rank_a: Any
    rank_b: Any


def make_best_chart(n: int, k: int) -> BestChart:
    """Allocate for sentences of up to n words."""
    shape = (4, n + 2, n + 1, k)
    return BestChart(np.full(shape, -np.inf), *(np.zeros(shape, np.int64) for _ in range(3)))


@njit(nogil=True)
def _insert(c, kind, i, j, value, split, a, b):
    """Put a derivation into the cell's list, best first; False if it is not among the k best."""
    scores = c.score[kind, i, j]
    r = len(scores) - 1
    if not value > scores[r]:
        return False
    while r > 0 and value > scores[r - 1]:
        scores[r] = scores[r - 1]
        c.split[kind, i, j, r] = c.split[kind, i, j, r - 1]
        c.rank_a[kind, i, j, r] = c.rank_a[kind, i, j, r - 1]
        c.rank_b[kind, i, j, r] = c.rank_b[kind, i, j, r - 1]
        r -= 1
    scores[r] = value
    c.split[kind, i, j, r] = split
    c.rank_a[kind, i, j, r] = a
    c.rank_b[kind, i, j, r] = b
    return True


@njit(nogil=True)
def _combine(c, kind, i, j, split, constant, left, right):
    """Offer the pairs of the lists ``left`` and ``right`` to a cell."""
    k = len(left)
    for a in range(k):
        if left[a] == -np.inf:
            break
        for b in range(k // (a + 1)):
            if right[b] == -np.inf or not _insert(c, kind, i, j, left[a] + right[b] + constant, split, a, b):
                break


@njit(nogil=True)
def _stop(stops, h, direction, valence):
    return stops[h, direction, valence] if len(stops) > 0 and h > 0 else 0.0


@njit(nogil=True)
def fill_best(c, arcs, stops, n, multiroot):
    """Fill the cells; ``stops`` may have length 0. The sentence's trees are RIGHT_TREE(0, n), root included."""
    score = c.score
    score[:, : n + 1, : n + 1] = -np.inf
    last = arcs.shape[2] - 1
    for j in range(n + 1):
        score[RIGHT_TREE, j, j, 0] = 0.0
        score[LEFT_TREE, j, j, 0] = 0.0
        for i in range(j - 1, -1, -1):
            if i == 0 and not multiroot:
                continue
            for k in range(i, j):
                arc = arcs[i, j, 0 if k == i else last] + _stop(stops, j, 0, 0 if k + 1 == j else 1)
                _combine(c, RIGHT_ARC, i, j, k, arc, score[RIGHT_TREE, i, k], score[LEFT_TREE, k + 1, j])
                if i > 0:
                    arc = arcs[j, i, 0 if k + 1 == j else last] + _stop(stops, i, 1, 0 if k == i else 1)
                    _combine(c, LEFT_ARC, i, j, k, arc, score[RIGHT_TREE, i, k], score[LEFT_TREE, k + 1, j])
            for k in range(i + 1, j + 1):
                stop = _stop(stops, k, 1, 0 if k == j else 1)
                _combine(c, RIGHT_TREE, i, j, k, stop, score[RIGHT_ARC, i, k], score[RIGHT_TREE, k, j])
            for k in range(i if i > 0 else j, j):
                stop = _stop(stops, k, 0, 0 if k == i else 1)
                _combine(c, LEFT_TREE, i, j, k, stop, score[LEFT_TREE, i, k], score[LEFT_ARC, k, j])
    if not multiroot:
        for r in range(1, n + 1):
            root = arcs[0, r, 0] + _stop(stops, r, 0, 0 if r == 1 else 1) + _stop(stops, r, 1, 0 if r == n else 1)
            _combine(c, RIGHT_TREE, 0, n, r, root, score[LEFT_TREE, 1, r], score[RIGHT_TREE, r, n])


@njit(nogil=True)
def fill_first(c, arcs, stops, n, multiroot):
    """What :func:`fill_best` does for k = 1, without lists."""
    score, split = c.score, c.split
    last = arcs.shape[2] - 1
    for j in range(n + 1):
        score[RIGHT_TREE, j, j, 0] = 0.0
        score[LEFT_TREE, j, j, 0] = 0.0
        for i in range(j - 1, -1 if multiroot else 0, -1):
            right, left = -np.inf, -np.inf
            right_split, left_split = i, i
            right_arc, left_arc = arcs[i, j, last] + _stop(stops, j, 0, 1), arcs[j, i, last] + _stop(stops, i, 1, 1)
            for k in range(i, j):
                both = score[RIGHT_TREE, i, k, 0] + score[LEFT_TREE, k + 1, j, 0]
                if k == i or k + 1 == j:
                    to_right = both + (arcs[i, j, 0 if k == i else last] + _stop(stops, j, 0, 0 if k + 1 == j else 1))
                    to_left = both + (arcs[j, i, 0 if k + 1 == j else last] + _stop(stops, i, 1, 0 if k == i else 1))
                else:
                    to_right, to_left = both + right_arc, both + left_arc
                if to_right > right:
                    right, right_split = to_right, k
                if to_left > left:
                    left, left_split = to_left, k
            score[RIGHT_ARC, i, j, 0], split[RIGHT_ARC, i, j, 0] = right, right_split
            score[LEFT_ARC, i, j, 0], split[LEFT_ARC, i, j, 0] = left, left_split
            right, left = -np.inf, -np.inf
            right_split, left_split = i, i
            for k in range(i + 1, j + 1):
                value = score[RIGHT_ARC, i, k, 0] + score[RIGHT_TREE, k, j, 0] + _stop(stops, k, 1, 0 if k == j else 1)
                if value > right:
                    right, right_split = value, k
            for k in range(i if i > 0 else j, j):
                value = score[LEFT_TREE, i, k, 0] + score[LEFT_ARC, k, j, 0] + _stop(stops, k, 0, 0 if k == i else 1)
                if value > left:
                    left, left_split = value, k
            score[RIGHT_TREE, i, j, 0], split[RIGHT_TREE, i, j, 0] = right, right_split
            score[LEFT_TREE, i, j, 0], split[LEFT_TREE, i, j, 0] = left, left_split
    if not multiroot:
        best = -np.inf
        for r in range(1, n + 1):
            root = arcs[0, r, 0] + _stop(stops, r, 0, 0 if r == 1 else 1) + _stop(stops, r, 1, 0 if r == n else 1)
            value = score[LEFT_TREE, 1, r, 0] + score[RIGHT_TREE, r, n, 0] + root
            if value > best:
                best = value
                split[RIGHT_TREE, 0, n, 0] = r
        score[RIGHT_TREE, 0, n, 0] = best


@njit(nogil=True)
def read_best(c, n, multiroot, rank, agenda, heads):
    """Write the tree of the given rank into ``heads``; ``agenda`` (2n + 2, 4) is scratch."""
    agenda[0] = (RIGHT_TREE, 0, n, rank)
    size = 1
    while size > 0:
        size -= 1
        kind, i, j, r = agenda[size, 0], agenda[size, 1], agenda[size, 2], agenda[size, 3]
        if i == j:
            continue
        k, a, b = c.split[kind, i, j, r], c.rank_a[kind, i, j, r], c.rank_b[kind, i, j, r]
        if kind == RIGHT_TREE and i == 0 and not multiroot:
            heads[k - 1] = 0
            agenda[size] = (LEFT_TREE, 1, k, a)
            agenda[size + 1] = (RIGHT_TREE, k, n, b)
        elif kind == RIGHT_TREE:
            agenda[size] = (RIGHT_ARC, i, k, a)
            agenda[size + 1] = (RIGHT_TREE, k, j, b)
        elif kind == LEFT_TREE:
            agenda[size] = (LEFT_TREE, i, k, a)
            agenda[size + 1] = (LEFT_ARC, k, j, b)
        else:
            if kind == RIGHT_ARC:
                heads[j - 1] = i
            else:
                heads[i - 1] = j
            agenda[size] = (RIGHT_TREE, i, k, a)
            agenda[size + 1] = (LEFT_TREE, k + 1, j, b)
        size += 2
