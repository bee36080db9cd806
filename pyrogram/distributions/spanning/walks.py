# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Draws of spanning trees: loop-erased random walks (Wilson 1996), without an end where cycles have all the weight.

From a word the walk goes to a head, in proportion to the arc's weight, until it meets the tree; without its loops it
becomes a branch. If the tree may have one root only, that is drawn first, from its marginal (Colbourn et al. 1996;
Zmigrod et al. 2021), and is what all walks lead to.

How many steps that takes is independent of the tree that is drawn, for the loops are (Propp and Wilson 1998). So a tree
that is not finished in time may be drawn anew in another way. That way goes from a word to its head as the walk without
loops does: to h in proportion to the weight of the arc times the probability that a walk from h meets the tree before
the words that it has left behind. These probabilities are found by the elimination of :mod:`.elimination`, in
logarithms.
"""

# mypy: disable-error-code="no-untyped-def"
from typing import Any

import numpy as np
from numba import njit

from pyrogram.runtime.compiling import borrowing, kernel
from pyrogram.runtime.random_numbers import choose, seed_stream, uniform
from pyrogram.runtime.threads import run_workers, take

_FREE, _TREE, _PATH = 0, 1, 2


def draw(scores: Any, lengths: Any, multiroot: bool, roots: Any, number: int, seed: int) -> Any:
    """Heads of trees, shape ``(number, B, n)``; -1 in the padding, and where there is no tree.

    O(n^2) time a sentence, and O(n) a step of a walk; O(n^4) at most.

    :param scores: float64, shape ``(B, n+1, n+1)`` [head, dependent].
    :param roots: the probabilities that words are the root, shape ``(B, n+1)``, all 0 where there is no tree.
    """
    B, N = scores.shape[:2]
    heads, steps = np.full((number, B, N - 1), -1), most_steps(lengths)

    def work(turns: Any) -> None:
        _draw_all(turns, scores, lengths, multiroot, roots, seed, steps, heads)

    run_workers(work, cost=float(B * N * (100 * N + 50 * number * N)))
    return heads


def most_steps(lengths: Any) -> Any:
    """How many steps the walks of one tree may take: as many as cost about what the other way does at most."""
    return lengths**3 + 100


@kernel
def _draw_all(turns, scores, lengths, multiroot, roots, seed, steps, heads):
    N = scores.shape[1]
    cumulative = np.zeros((N, N))
    tree = np.zeros(N, np.int64)
    state = np.zeros(1, np.uint64)
    for _ in range(len(lengths)):
        b = take(turns)
        if b >= len(lengths):
            break
        n = lengths[b]
        if not roots[b].any():
            continue
        seed_stream(state, seed, b)
        _accumulate(scores[b], n, 0 if multiroot else 1, cumulative)
        for i in range(len(heads)):
            root = 0 if multiroot else choose(roots[b], n + 1, state)
            if not _walk(n, root, cumulative, steps[b], state, tree):
                _draw_by_escapes(scores[b], n, root, state, tree)
            heads[i, b, :n] = tree[1 : n + 1]


@borrowing
def _accumulate(scores, n, begin, cumulative):
    """Sums of the weights of a word's first heads, a row for each word; heads begin with ROOT, 0, or with word 1."""
    for d in range(1, n + 1):
        peak = -np.inf
        for h in range(begin, n + 1):
            if h != d:
                peak = max(peak, scores[h, d])
        total = 0.0
        for h in range(n + 1):
            if h >= begin and h != d and scores[h, d] > -np.inf:
                total += np.exp(scores[h, d] - peak)
            cumulative[d, h] = total


@njit(nogil=True)
def _walk(n, root, cumulative, steps, state, heads):
    """Wilson's algorithm: whether it was finished within so many steps."""
    in_tree = np.zeros(n + 1, np.bool_)
    in_tree[root] = True
    heads[root] = 0
    for first in range(1, n + 1):
        d = first
        while not in_tree[d]:
            if steps <= 0 or not cumulative[d, n] > 0:
                return False
            steps -= 1
            # A word that is met again gets another head, which erases the loop.
            goal = uniform(state) * cumulative[d, n]
            low, high = 0, n
            while low < high:
                middle = (low + high) >> 1
                if cumulative[d, middle] > goal:
                    high = middle
                else:
                    low = middle + 1
            heads[d] = low
            d = low
        d = first
        while not in_tree[d]:
            in_tree[d] = True
            d = heads[d]
    return True


@njit(nogil=True)
def _draw_by_escapes(scores, n, root, state, heads):
    """A tree in O(n^4) time at most, whatever the scores."""
    kind = np.full(n + 1, _FREE)
    if root > 0:
        kind[0] = -1  # not to be met again
    kind[root] = _TREE
    heads[root] = 0
    terms = np.zeros(n + 1)
    for first in range(1, n + 1):
        d = first
        while kind[d] != _TREE:
            kind[d] = _PATH
            escapes = _log_escapes(scores, n, kind)
            best = -np.inf
            for h in range(n + 1):
                terms[h] = escapes[h] + scores[h, d] if h != d and escapes[h] > -np.inf else -np.inf
                best = max(best, terms[h])
            for h in range(n + 1):
                terms[h] = np.exp(terms[h] - best)
            heads[d] = choose(terms, n + 1, state)
            d = heads[d]
        d = first
        while kind[d] == _PATH:
            kind[d] = _TREE
            d = heads[d]


@njit(nogil=True)
def _log_escapes(scores, n, kind):
    """The log probabilities that a walk from a position meets the tree before the path."""
    order = np.empty(n + 1, np.int64)  # tree and path, which stay, and then all free words
    size = 0
    for wanted in (_TREE, _PATH, _FREE):
        first = size
        for h in range(n + 1):
            if kind[h] == wanted:
                order[size] = h
                size += 1
    table = scores.copy()
    escapes = np.full(n + 1, -np.inf)
    escapes[kind == _TREE] = 0.0
    for i in range(size - 1, first - 1, -1):
        k, total = order[i], -np.inf
        for h in order[:i]:
            total = _add(total, table[h, k])
        for h in order[:i]:
            if table[h, k] > -np.inf:
                table[h, k] -= total
                for d in order[first:i]:
                    table[h, d] = _add(table[h, d], table[h, k] + table[k, d])
    for i in range(first, size):
        k = order[i]
        for h in order[:i]:
            escapes[k] = _add(escapes[k], table[h, k] + escapes[h])
    return escapes


@borrowing
def _add(a, b):
    """log(exp(a) + exp(b))."""
    if a < b:
        a, b = b, a
    return a if b == -np.inf else a + np.log1p(np.exp(b - a))
