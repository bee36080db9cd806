# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The k best projective trees of one sentence with sibling scores, exactly, in log space and float64.

Every cell of the recursion of :mod:`.sibling_lanes` keeps its k best derivations, as in :mod:`.eisner_best`. For k = 1
the same recursion goes without lists.
"""

# mypy: disable-error-code="no-untyped-def"
import numpy as np
from numba import njit

from .eisner_best import BestChart, _combine
from .sibling_log import event, stop
from .sibling_sample import BETWEEN, LEFT_ARC, LEFT_TREE, RIGHT_ARC, RIGHT_TREE


def make_best_chart(n: int, k: int) -> BestChart:
    """Allocate for sentences of up to n words; RIGHT_ARC(j, j) and LEFT_ARC(j, j) are a head without children."""
    shape = (5, n + 2, n + 1, k)
    return BestChart(np.full(shape, -np.inf), *(np.zeros(shape, np.int64) for _ in range(3)))


@njit(nogil=True)
def fill_best(c, s, n, multiroot):
    """Fill the cells. The sentence's trees are RIGHT_TREE(0, n), root included."""
    score = c.score
    score[:, : n + 1, : n + 1] = -np.inf
    for j in range(n + 1):
        score[RIGHT_TREE, j, j, 0] = stop(s, j, 1, j)
        score[LEFT_TREE, j, j, 0] = stop(s, j, 0, j)
        score[RIGHT_ARC, j, j, 0] = 0.0
        score[LEFT_ARC, j, j, 0] = 0.0
        for i in range(j - 1, -1, -1):
            if i == 0 and not multiroot:
                continue
            _combine(c, RIGHT_ARC, i, j, i, event(s, i, j, i), score[RIGHT_ARC, i, i], score[LEFT_TREE, i + 1, j])
            for r in range(i + 1, j):
                _combine(c, RIGHT_ARC, i, j, r, event(s, i, j, r), score[RIGHT_ARC, i, r], score[BETWEEN, r, j])
            for m in range(i + 1, j + 1):
                _combine(c, RIGHT_TREE, i, j, m, stop(s, i, 1, m), score[RIGHT_ARC, i, m], score[RIGHT_TREE, m, j])
            if i == 0:
                continue
            for k in range(i, j):
                _combine(c, BETWEEN, i, j, k, 0.0, score[RIGHT_TREE, i, k], score[LEFT_TREE, k + 1, j])
            for r in range(i + 1, j):
                _combine(c, LEFT_ARC, i, j, r, event(s, j, i, r), score[BETWEEN, i, r], score[LEFT_ARC, r, j])
            _combine(c, LEFT_ARC, i, j, j, event(s, j, i, j), score[RIGHT_TREE, i, j - 1], score[LEFT_ARC, j, j])
            for m in range(i, j):
                _combine(c, LEFT_TREE, i, j, m, stop(s, j, 0, m), score[LEFT_TREE, i, m], score[LEFT_ARC, m, j])
    if not multiroot:
        for r in range(1, n + 1):
            _combine(c, RIGHT_TREE, 0, n, r, event(s, 0, r, 0), score[LEFT_TREE, 1, r], score[RIGHT_TREE, r, n])


@njit(nogil=True)
def fill_first(c, s, n, multiroot):
    """What :func:`fill_best` does for k = 1, without lists."""
    score, split = c.score[:, :, :, 0], c.split[:, :, :, 0]
    for j in range(n + 1):
        score[RIGHT_TREE, j, j] = stop(s, j, 1, j)
        score[LEFT_TREE, j, j] = stop(s, j, 0, j)
        for i in range(j - 1, -1 if multiroot else 0, -1):
            _first_arcs(score, split, s, i, j)
            _first_trees(score, split, s, i, j)
    if not multiroot:
        best = -np.inf
        for r in range(1, n + 1):
            value = score[LEFT_TREE, 1, r] + score[RIGHT_TREE, r, n] + event(s, 0, r, 0)
            if value > best:
                best = value
                split[RIGHT_TREE, 0, n] = r
        score[RIGHT_TREE, 0, n] = best


@njit(nogil=True)
def _first_arcs(score, split, s, i, j):
    best, where = score[LEFT_TREE, i + 1, j] + event(s, i, j, i), i
    for r in range(i + 1, j):
        value = score[RIGHT_ARC, i, r] + score[BETWEEN, r, j] + event(s, i, j, r)
        if value > best:
            best, where = value, r
    score[RIGHT_ARC, i, j], split[RIGHT_ARC, i, j] = best, where
    if i == 0:
        return
    best, where = -np.inf, i
    for k in range(i, j):
        value = score[RIGHT_TREE, i, k] + score[LEFT_TREE, k + 1, j]
        if value > best:
            best, where = value, k
    score[BETWEEN, i, j], split[BETWEEN, i, j] = best, where
    best, where = score[RIGHT_TREE, i, j - 1] + event(s, j, i, j), j
    for r in range(i + 1, j):
        value = score[BETWEEN, i, r] + score[LEFT_ARC, r, j] + event(s, j, i, r)
        if value > best:
            best, where = value, r
    score[LEFT_ARC, i, j], split[LEFT_ARC, i, j] = best, where


@njit(nogil=True)
def _first_trees(score, split, s, i, j):
    best, where = -np.inf, i
    for m in range(i + 1, j + 1):
        value = score[RIGHT_ARC, i, m] + score[RIGHT_TREE, m, j] + stop(s, i, 1, m)
        if value > best:
            best, where = value, m
    score[RIGHT_TREE, i, j], split[RIGHT_TREE, i, j] = best, where
    if i == 0:
        return
    best, where = -np.inf, i
    for m in range(i, j):
        value = score[LEFT_TREE, i, m] + score[LEFT_ARC, m, j] + stop(s, j, 0, m)
        if value > best:
            best, where = value, m
    score[LEFT_TREE, i, j], split[LEFT_TREE, i, j] = best, where


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
        elif kind == BETWEEN:
            agenda[size] = (RIGHT_TREE, i, k, a)
            agenda[size + 1] = (LEFT_TREE, k + 1, j, b)
        elif kind == RIGHT_ARC:
            heads[j - 1] = i
            agenda[size] = (RIGHT_ARC, i, k, a)
            agenda[size + 1] = (BETWEEN, k, j, b) if k > i else (LEFT_TREE, i + 1, j, b)
        else:
            heads[i - 1] = j
            agenda[size] = (BETWEEN, i, k, a) if k < j else (RIGHT_TREE, i, j - 1, a)
            agenda[size + 1] = (LEFT_ARC, k, j, b)
        size += 2
