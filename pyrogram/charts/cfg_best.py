# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The k best derivations of one sentence under a context-free grammar, by weight or by expected gain.

Cells are those of :mod:`.cfg_log`; each has a list of its K best scores, best first, with what they are made of. Equal
scores come in the order in which they are found: matches, binary rules, unary rules.
"""

# mypy: disable-error-code="no-untyped-def"
import numpy as np
from numba import njit

from .cfg_log import weight_of

# What is maximised: the weight, expected right labelled spans, or expected right anchored rules.
WEIGHT, SPANS, RULES = range(3)


@njit(nogil=True, forceinline=True)
def _gain(mode, weight, event, x, log_z):
    """The score of a rule; ``x`` is the log posterior of its parent's cell (SPANS) or of itself (RULES) times Z."""
    if mode == WEIGHT or weight == -np.inf:
        return weight
    return np.exp(x - log_z) if event >= 0 else 0.0


@njit(nogil=True)
def _insert(scores, back, start, K, score, kind, rule, split, first, second):
    """Put a candidate into the list of a cell, after what is as good."""
    if not score > scores[start + K - 1]:
        return False
    place = K - 1
    while place > 0 and score > scores[start + place - 1]:
        scores[start + place] = scores[start + place - 1]
        back[start + place] = back[start + place - 1]
        place -= 1
    scores[start + place] = score
    new = back[start + place]
    new[0], new[1], new[2], new[3], new[4] = kind, rule, split, first, second
    return True


@njit(nogil=True)
def fill_best(g, weights, n, table, mode, K, chart, outer, log_z, scores, back):
    """Fill the lists ``scores`` (cells * K,) and ``back`` (cells * K, 5); the charts are for expected gains."""
    N, S = n + 1, g.S
    scores[: N * N * S * K] = -np.inf
    x = 0.0
    for m in range(len(table)):
        cell = (table[m, 0] * N + table[m, 1]) * S + table[m, 2]
        w = weight_of(weights, table[m, 3])
        if mode != WEIGHT:
            x = outer[cell] + (chart[cell] if mode == SPANS else w)
        gain = _gain(mode, w, table[m, 3], x, log_z)
        _insert(scores, back, cell * K, K, gain, 0, m, 0, 0, 0)
    for width in range(1, n + 1):
        for i in range(n - width + 1):
            k = i + width
            here = (i * N + k) * S
            if width > 1:
                for r in range(len(g.parent)):
                    _binary(g, weights, n, i, k, r, mode, K, chart, outer, log_z, scores, back)
            for u in range(len(g.unary)):
                cell, child = here + g.unary[u, 0], here + g.unary[u, 1]
                if scores[child * K] == -np.inf:
                    continue
                w = weight_of(weights, g.unary[u, 2])
                if mode != WEIGHT:
                    x = outer[cell] + (chart[cell] if mode == SPANS else w + chart[child])
                gain = _gain(mode, w, g.unary[u, 2], x, log_z)
                for rank in range(K):
                    if not _insert(scores, back, cell * K, K, gain + scores[child * K + rank], 2, u, 0, rank, 0):
                        break


@njit(nogil=True)
def _binary(g, weights, n, i, k, r, mode, K, chart, outer, log_z, scores, back):
    """Offer all derivations of a span that begin with a binary rule."""
    N, S = n + 1, g.S
    w = weight_of(weights, g.event[r])
    if w == -np.inf:
        return
    cell = (i * N + k) * S + g.parent[r]
    gain = w
    for j in range(i + 1, k):
        left, right = (i * N + j) * S + g.left[r], (j * N + k) * S + g.right[r]
        if scores[left * K] == -np.inf or scores[right * K] == -np.inf:
            continue
        if mode != WEIGHT:
            x = outer[cell] + (chart[cell] if mode == SPANS else w + chart[left] + chart[right])
            gain = _gain(mode, w, g.event[r], x, log_z)
        for first in range(K):
            base = gain + scores[left * K + first]
            # Ranks (a, b) are beaten by (a + 1)(b + 1) - 1 others.
            for second in range(K // (first + 1)):
                score = base + scores[right * K + second]
                if not _insert(scores, back, cell * K, K, score, 1, r, j, first, second):
                    break


@njit(nogil=True)
def read_best(g, n, table, K, rank, back, stack, ids):
    """The derivation of some rank of the whole sentence, as event ids padded with -1; ``stack`` is (n + 2, 4)."""
    N, S = n + 1, g.S
    ids[:] = -1
    stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = 0, n, g.start, rank
    size, done = 1, 0
    while size > 0:
        size -= 1
        i, k, A, own = stack[size, 0], stack[size, 1], stack[size, 2], stack[size, 3]
        kind, rule, j, first, second = back[((i * N + k) * S + A) * K + own]
        if kind == 0:
            event = table[rule, 3]
        elif kind == 1:
            event = g.event[rule]
            stack[size, 0], stack[size, 1], stack[size, 2], stack[size, 3] = j, k, g.right[rule], second
            size += 1
            stack[size, 0], stack[size, 1], stack[size, 2], stack[size, 3] = i, j, g.left[rule], first
            size += 1
        else:
            event = g.unary[rule, 2]
            stack[size, 0], stack[size, 1], stack[size, 2], stack[size, 3] = i, k, g.unary[rule, 1], first
            size += 1
        if event >= 0:
            ids[done] = event
            done += 1
