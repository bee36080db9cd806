# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The best annotated trees of forests, and draws, from log weights.

Each node keeps the k best of each of its subtypes, in time O(K**3 k**2) for each branch; a draw takes O(K**2) for each
branch of the nodes that it comes to.
"""

# mypy: disable-error-code="no-untyped-def"
from typing import Any

import numpy as np
from numba import njit

from pyrogram.charts.runtime.compiling import kernel
from pyrogram.charts.runtime.random_numbers import seed_stream, uniform
from pyrogram.charts.runtime.threads import run_workers, take

from .annotation_rules import Forest, Places, Tables
from .annotation_sums import below


def top_k(log_weights: Any, places: Places, tables: Tables, forest: Forest, model: Any, k: int) -> tuple[Any, Any]:
    """The k best annotated trees in leftmost order, from each tree's first node on; fewer are padded with -1.

    :param log_weights: shape ``(W, number)``, where ``places`` say.
    :param model: the grammar of each tree, shape ``(B,)``.
    :returns: branches and subtypes, shape ``(2, k, M)``, and log weights ``(k, B)``, -inf if there are fewer.
    """
    M, B = len(forest.first) - 1, len(model)
    out, scores = np.full((2, k, M), -1, np.int64), np.full((k, B), -np.inf)
    weights = np.ascontiguousarray(log_weights, np.float64)

    def work(turns: Any) -> None:
        _best_trees(turns, (forest, tables, places), weights, model, out, scores)

    run_workers(work, cost=20.0 * len(forest.rule) * int(tables.subtypes.max()) ** 3 * k**2)
    return out, scores


def sample(
    log_weights: Any, log_inside: Any, places: Places, tables: Tables, forest: Forest, model: Any, num: int, seed: int
) -> Any:
    """Independent draws, in the shape of :func:`top_k`'s.

    :param log_inside: logs of the weight below each node, shape ``(M + 1, K)``; the last row is zero.
    """
    M, K = len(forest.first) - 1, int(tables.subtypes.max())
    out = np.full((2, num, M), -1, np.int64)
    weights = np.ascontiguousarray(log_weights, np.float64)

    def work(turns: Any) -> None:
        _sample_trees(turns, (forest, tables, places), weights, log_inside, model, seed, out)

    run_workers(work, cost=20.0 * num * M * K**2)
    return out


@njit(nogil=True)
def _push(stack, top, node, subtype, rank):
    """Put a child on the stack, if there is one; returns the new height."""
    if node < 0:
        return top
    stack[top, 0], stack[top, 1], stack[top, 2] = node, subtype, rank
    return top + 1


@kernel
def _best_trees(turns, grammar, log_weights, model, out, scores):
    forest, tables, places = grammar
    k, K = scores.shape[0], tables.subtypes.max()
    for _ in range(len(model)):
        tree = take(turns)
        if tree >= len(model):
            break
        begin, n = forest.start[tree], forest.start[tree + 1] - forest.start[tree]
        if n == 0:
            continue
        weights = log_weights[model[tree]]
        best = np.full((n + 1, K, k), -np.inf)
        best[-1, 0, 0] = 0.0  # of what is no child
        back = np.zeros((n, K, k, 5), np.int64)  # branch, subtypes of children, which of the k best of each
        for v in range(n - 1, -1, -1):
            for x in range(forest.first[begin + v], forest.first[begin + v + 1]):
                r = forest.rule[x]
                KB, KC = below(r, tables)
                left = best[forest.left[x] - begin if forest.left[x] >= 0 else -1]
                right = best[forest.right[x] - begin if forest.right[x] >= 0 else -1]
                for a in range(tables.subtypes[tables.parent[r]]):
                    o = places.at[x] + a * places.step[r]
                    here, way = best[v, a], back[v, a]
                    for b in range(KB):
                        for c in range(KC):
                            w = weights[o + b * KC + c]
                            for i in range(k):
                                for j in range(k):
                                    y = w + left[b, i] + right[c, j]
                                    if not y > here[k - 1]:
                                        break
                                    p = k - 1
                                    while p > 0 and y > here[p - 1]:
                                        here[p], way[p] = here[p - 1], way[p - 1]
                                        p -= 1
                                    here[p] = y
                                    way[p, 0], way[p, 1], way[p, 2], way[p, 3], way[p, 4] = x, b, c, i, j
        stack = np.empty((n + 1, 3), np.int64)
        for s in range(k):
            scores[s, tree] = best[0, 0, s]
            top, at = _push(stack, 0, begin if best[0, 0, s] > -np.inf else -1, 0, s), begin
            while top > 0:
                top -= 1
                v, a, rank = stack[top]
                x, b, c, i, j = back[v - begin, a, rank]
                out[0, s, at], out[1, s, at] = x, a
                at += 1
                top = _push(stack, top, forest.right[x], c, j)
                top = _push(stack, top, forest.left[x], b, i)


@kernel
def _sample_trees(turns, grammar, log_weights, log_inside, model, seed, out):
    forest, tables, places = grammar
    state = np.zeros(1, np.uint64)
    stack = np.empty((np.diff(forest.start).max() + 1 if len(model) else 1, 3), np.int64)
    for _ in range(len(model)):
        tree = take(turns)
        if tree >= len(model):
            break
        begin = forest.start[tree]
        if begin == forest.start[tree + 1] or log_inside[begin, 0] == -np.inf:
            continue
        seed_stream(state, seed, tree)
        for s in range(out.shape[1]):
            top, at = _push(stack, 0, begin, 0, 0), begin
            while top > 0:
                top -= 1
                v, a = stack[top, 0], stack[top, 1]
                x, b, c = _draw(v, a, state, grammar, log_weights[model[tree]], log_inside)
                out[0, s, at], out[1, s, at] = x, a
                at += 1
                top = _push(stack, top, forest.right[x], c, 0)
                top = _push(stack, top, forest.left[x], b, 0)


@njit(nogil=True)
def _draw(v, a, state, grammar, weights, log_inside):
    """A branch of a node and the subtypes of its children, in proportion to their weight."""
    forest, tables, places = grammar
    last = (forest.first[v], 0, 0)
    if forest.first[v] + 1 == forest.first[v + 1] and forest.left[forest.first[v]] < 0:
        return last  # there is no other
    rest = uniform(state)
    for x in range(forest.first[v], forest.first[v + 1]):
        KB, KC = below(forest.rule[x], tables)
        o = places.at[x] + a * places.step[forest.rule[x]]
        for b in range(KB):
            for c in range(KC):
                term = weights[o + b * KC + c] + log_inside[forest.left[x], b] + log_inside[forest.right[x], c]
                if term == -np.inf:
                    continue
                rest -= np.exp(term - log_inside[v, a])
                last = (x, b, c)
                if rest < 0:
                    return last
    return last  # rounding may leave a little for the last of them
