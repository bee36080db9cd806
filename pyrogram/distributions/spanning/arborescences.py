# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The best spanning trees: Chu and Liu (1965) and Edmonds (1967), with one root exactly, and k of them.

Where there must be one root, an arc from ROOT is worse than any other, so that the best tree has no more roots than it
must have: the reweighting of Stanojevic and Cohen (2021), with an infinite weight. Among arcs from ROOT scores decide.

The k best are found by partition (Lawler 1972): of the trees that share the first heads of the best one, and differ
from it in the next, the best is found in the same way, and so on.
"""

# mypy: disable-error-code="no-untyped-def"
from typing import Any

import numpy as np
from numba import njit

from pyrogram.runtime.compiling import borrowing, kernel
from pyrogram.runtime.threads import run_workers, take


def best(scores: Any, lengths: Any, multiroot: bool, k: int) -> tuple[Any, Any]:
    """Scores of the k best trees, best first, shape ``(k, B)``, and their heads, ``(k, B, n)``.

    Where there are fewer, scores are -inf and heads -1. O(k n^3) time and O(k n^2) memory, for k = 1 O(n^2).

    :param scores: float64, shape ``(B, n+1, n+1)`` [head, dependent].
    """
    B, N = scores.shape[:2]
    heads, best_scores = np.full((k, B, N - 1), -1), np.full((k, B), -np.inf)

    def work(turns: Any) -> None:
        _best_all(turns, scores, lengths, multiroot, heads, best_scores)

    run_workers(work, cost=10.0 * B * N**2 * (1 + (k - 1) * N))
    return best_scores, heads


@kernel
def _best_all(turns, scores, lengths, multiroot, heads, best_scores):
    N = scores.shape[1]
    k = len(best_scores)
    most = 1 + (k - 1) * (N - 1)  # each tree that is taken leaves a part for each word at most
    trees = np.zeros((most, N), np.int64)
    worth = np.zeros(most)
    shared = np.zeros(most, np.int64)  # how many of a part's words have a head that is given
    excluded = np.zeros((most, N), np.bool_)  # heads that the next word must not have
    table, tree = np.zeros((N, N)), np.zeros(N, np.int64)
    for _ in range(len(lengths)):
        b = take(turns)
        if b >= len(lengths):
            break
        n, of_sentence = lengths[b], scores[b]
        num_parts = 0
        _restrict(of_sentence, n, tree, 0, excluded[0], table)
        if _best_tree(table, n, multiroot, tree):
            trees[0], shared[0], num_parts = tree, 0, 1
            worth[0] = _score(of_sentence, n, tree)
            excluded[0] = False
        for i in range(k):
            if num_parts == 0:
                break
            part = worth[:num_parts].argmax()
            if worth[part] == -np.inf:
                break
            best_scores[i, b] = worth[part]
            heads[i, b, :n] = trees[part, 1 : n + 1]
            worth[part] = -np.inf
            if i == k - 1:
                break
            for d in range(shared[part] + 1, n + 1):
                new = excluded[num_parts]
                new[:] = False
                if d == shared[part] + 1:
                    new[:] = excluded[part]
                new[trees[part, d]] = True
                _restrict(of_sentence, n, trees[part], d - 1, new, table)
                if _best_tree(table, n, multiroot, tree):
                    trees[num_parts], shared[num_parts] = tree, d - 1
                    worth[num_parts] = _score(of_sentence, n, tree)
                    num_parts += 1


@borrowing
def _restrict(scores, n, tree, shared, excluded, table):
    """Scores of the trees that share the heads of the first words, and do not give the next one those excluded."""
    for d in range(1, n + 1):
        for h in range(n + 1):
            there = tree[d] == h if d <= shared else d > shared + 1 or not excluded[h]
            table[h, d] = scores[h, d] if there and h != d else -np.inf


@borrowing
def _score(scores, n, tree):
    total = 0.0
    for d in range(1, n + 1):
        total += scores[tree[d], d]
    return total


@njit(nogil=True)
def _best_tree(table, n, multiroot, tree):
    """The best tree, and whether there is one; O(n^2). ``table`` is overwritten.

    A path grows from a word backwards along the best arcs, until it comes to ROOT, or to itself: then its cycle becomes
    one node, a *knot*, the score of an arc into which is less by that of the arc that it replaces.
    """
    # Scores of arcs into a node stand in the column of one of its words. Nodes are words, and then knots.
    column = np.arange(2 * n + 1)
    knot = np.zeros(2 * n + 1, np.int64)  # that a node is in, or 0
    node = np.arange(n + 1)  # of each word, the outermost
    into = np.empty((n + 1, n + 1), np.int64)  # the word that an arc goes to
    into[:] = np.arange(n + 1)
    head, dependent = np.zeros(2 * n + 1, np.int64), np.zeros(2 * n + 1, np.int64)  # the best arc into a node
    done = np.zeros(2 * n + 1, np.bool_)
    done[0] = True
    path, nodes = np.zeros(2 * n + 1, np.int64), n
    for first in range(1, n + 1):
        x = node[first]
        length = 0
        while not done[x]:
            path[length] = x
            length += 1
            c, h = column[x], -1
            for g in range(n, -1, -1):
                if node[g] != x and table[g, c] > -np.inf:
                    if h < 0 or (table[g, c] > table[h, c] and (g > 0 or multiroot)):
                        h = g
            if h < 0:
                return False
            head[x], dependent[x] = h, into[h, c]
            x = node[h]
            begin = length - 1
            while begin >= 0 and path[begin] != x:
                begin -= 1
            if begin >= 0:  # a cycle, whose last node is in column c
                nodes += 1
                column[nodes] = c
                for i in range(length - 1, begin - 1, -1):
                    y = path[i]
                    knot[y] = nodes
                    place, replaced = column[y], table[head[y], column[y]]
                    for g in range(n + 1):
                        value = table[g, place] - replaced
                        if place == c or value > table[g, c]:
                            table[g, c], into[g, c] = value, into[g, place]
                for g in range(n + 1):
                    if knot[node[g]] == nodes:
                        node[g] = nodes
                x, length = nodes, begin
        for i in range(length):
            done[path[i]] = True
    return _unknot(n, nodes, knot, head, dependent, tree) == 1 or multiroot


@borrowing
def _unknot(n, nodes, knot, head, dependent, tree):
    """Heads from the best arcs into nodes; the number of roots.

    Into a knot one arc goes, which replaces the one of the cycle that has the same dependent.
    """
    for x in range(nodes, n, -1):
        y = dependent[x]
        while knot[y] != x:
            y = knot[y]
        head[y], dependent[y] = head[x], dependent[x]
    roots = 0
    for d in range(1, n + 1):
        tree[d] = head[d]
        roots += head[d] == 0
    return roots
