# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Latent annotations of observed trees in log space: what real space cannot hold, and draws.

All of it is exact at any scale of the weights, and O(K**3) a node.
"""

# mypy: disable-error-code="no-untyped-def"
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from pyrogram.charts.runtime.compiling import kernel
from pyrogram.charts.runtime.random_numbers import seed_stream, uniform
from pyrogram.charts.runtime.threads import run_workers, take

from .annotation_rules import AnnotationRules, LinkedTrees


class Places(NamedTuple):
    """Where weights and counts lie: those of the rule at node v, for a, from ``at[v] + a * step[rule[v]]`` on."""

    at: Any
    step: Any


def places_of(rules: AnnotationRules, trees: LinkedTrees) -> Places:
    """Those of events."""
    return Places(rules.offset[trees.rule], rules.stride[rules.parent])


def sample(
    log_weights: Any, rules: AnnotationRules, trees: LinkedTrees, model: Any, num_samples: int, seed: int
) -> Any:
    """Independent draws of subtypes, shape ``(S, M)``; -1 for trees without a derivation.

    :param log_weights: shape ``(W, R)``.
    :param model: the grammar of each tree, shape ``(B,)``.
    """
    M, B = len(trees.rule), len(model)
    out = np.full((num_samples, M), -1, np.int64)
    weights, places = np.ascontiguousarray(log_weights, np.float64), places_of(rules, trees)

    def work(turns: Any) -> None:
        _sample_trees(turns, trees, rules.tables, places, weights, model, seed, out)

    run_workers(work, cost=40.0 * M * rules.width**3 + 20.0 * num_samples * M * rules.width**2 + B)
    return out


@njit(nogil=True)
def _plus(x, y):
    """log(exp(x) + exp(y))."""
    if x < y:
        x, y = y, x
    return x if y == -np.inf else x + np.log1p(np.exp(y - x))


@njit(nogil=True)
def children(v, begin, trees, tables):
    """Numbers of subtypes of a node's children, and their rows in tables of a tree's nodes.

    What is no child has one, and the last row.
    """
    r, l, q = trees.rule[v], trees.left[v], trees.right[v]
    KB = tables.subtypes[tables.left[r]] if l >= 0 else 1
    KC = tables.subtypes[tables.right[r]] if q >= 0 else 1
    return KB, KC, l - begin if l >= 0 else -1, q - begin if q >= 0 else -1


@njit(nogil=True)
def _log_inside(begin, end, trees, tables, places, weights):
    """Logs of the weight below each node, shape (end - begin + 1, K); the last row is zeros, of what is no child."""
    log_in = np.full((end - begin + 1, tables.subtypes.max()), -np.inf)
    log_in[-1] = 0.0
    for v in range(end - 1, begin - 1, -1):
        r = trees.rule[v]
        KB, KC, l, q = children(v, begin, trees, tables)
        for a in range(tables.subtypes[tables.parent[r]]):
            o = places.at[v] + a * places.step[r]
            greatest = -np.inf
            for step in range(2):  # the greatest term, then the sum
                total = 0.0
                for b in range(KB):
                    if log_in[l, b] == -np.inf:
                        continue
                    for c in range(KC):
                        y = log_in[l, b] + weights[o + b * KC + c] + log_in[q, c]
                        if step == 0:
                            greatest = max(greatest, y)
                        else:
                            total += np.exp(y - greatest)
                if greatest == -np.inf:
                    break
                if step == 1:
                    log_in[v - begin, a] = greatest + np.log(total)
    return log_in


@kernel
def log_posteriors(begin, end, trees, tables, places, weights, scale, marginals, out):
    """log Z of a tree, and the expected log weight; if log Z is no number, it has no posteriors.

    :param scale: of the expected counts, which are added to ``out``; 0: they are not wanted.
    :param marginals: p(subtype of each node | tree) is written into it, shape (end - begin, K).
    """
    log_in = _log_inside(begin, end, trees, tables, places, weights)
    log_out = np.full_like(log_in, -np.inf)
    z, expected = log_in[0, 0], 0.0
    marginals[:] = 0.0
    if not np.isfinite(z):
        return z, expected
    log_out[0, 0] = -z
    for v in range(begin, end):
        r = trees.rule[v]
        KB, KC, l, q = children(v, begin, trees, tables)
        for a in range(tables.subtypes[tables.parent[r]]):
            x = log_out[v - begin, a]
            if x == -np.inf:
                continue
            marginals[v - begin, a] = np.exp(x + log_in[v - begin, a])
            o = places.at[v] + a * places.step[r]
            for b in range(KB):
                for c in range(KC):
                    w = weights[o + b * KC + c]
                    log_out[l, b] = _plus(log_out[l, b], x + w + log_in[q, c])
                    log_out[q, c] = _plus(log_out[q, c], x + w + log_in[l, b])
                    value = np.exp(x + w + log_in[l, b] + log_in[q, c])
                    if value > 0.0:
                        expected += value * w
                    if scale != 0.0:
                        out[o + b * KC + c] += scale * value
    return z, expected


@kernel
def _sample_trees(turns, trees, tables, places, log_weights, model, seed, out):
    state = np.zeros(1, np.uint64)
    for _ in range(len(model)):
        tree = take(turns)
        if tree >= len(model):
            break
        begin, end = trees.start[tree], trees.start[tree + 1]
        if begin == end:
            continue
        weights = log_weights[model[tree]]
        log_in = _log_inside(begin, end, trees, tables, places, weights)
        if log_in[0, 0] == -np.inf:
            continue
        seed_stream(state, seed, tree)
        for s in range(len(out)):
            out[s, begin] = 0
            for v in range(begin, end):
                if trees.left[v] < 0:
                    continue
                a = out[s, v]
                o = places.at[v] + a * places.step[trees.rule[v]]
                KB, KC, l, q = children(v, begin, trees, tables)
                b, c = _draw(uniform(state), weights[o : o + KB * KC], KC, log_in[v - begin, a], log_in[l], log_in[q])
                out[s, trees.left[v]] = b
                if trees.right[v] >= 0:
                    out[s, trees.right[v]] = c


@njit(nogil=True)
def _draw(rest, weights, KC, total, left, right):
    """Subtypes of the children, in proportion to their weight."""
    last = 0
    for i in range(len(weights)):
        x = weights[i] + left[i // KC] + right[i % KC]
        if x == -np.inf:
            continue
        rest -= np.exp(x - total)
        last = i
        if rest < 0:
            break
    return last // KC, last % KC  # rounding may leave a little for the last of them
