# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Latent annotations of observed trees in log space: what real space failed on, and draws.

All of it is exact at any scale of the weights, and O(K**3) a node.
"""

# mypy: disable-error-code="no-untyped-def"
from typing import Any

import numpy as np
from numba import njit

from pyrogram.charts.runtime.compiling import kernel
from pyrogram.charts.runtime.random_numbers import seed_stream, uniform
from pyrogram.charts.runtime.threads import run_workers, take

from .annotation_rules import AnnotationRules, LinkedTrees


def log_posteriors(log_weights: Any, rules: AnnotationRules, trees: LinkedTrees, b: int, marginals: Any) -> float:
    """log Z of one tree; writes p(subtype of each of its nodes | tree)."""
    return float(_tree(log_weights, rules, trees, b, marginals, np.zeros(0), 0.0))


def add_counts(log_weights: Any, rules: AnnotationRules, trees: LinkedTrees, b: int, weight: float, out: Any) -> None:
    """Add the expected counts of one tree, times a weight, to ``out`` (R,)."""
    _tree(log_weights, rules, trees, b, np.zeros((len(trees.rule), rules.width)), out, weight)


def _tree(
    log_weights: Any, rules: AnnotationRules, trees: LinkedTrees, b: int, marginals: Any, out: Any, weight: float
) -> Any:
    begin, end = int(trees.start[b]), int(trees.start[b + 1])
    weights = np.ascontiguousarray(log_weights, np.float64)
    return _log_posteriors(begin, end, trees, rules.tables, weights, marginals, out, weight)


def sample(log_weights: Any, rules: AnnotationRules, trees: LinkedTrees, own: Any, num_samples: int, seed: int) -> Any:
    """Independent draws of subtypes, shape ``(S, M)``; -1 for trees without a derivation.

    :param log_weights: shape ``(W, R)``.
    :param own: the grammar of each tree, shape ``(B,)``.
    """
    M, B = len(trees.rule), len(own)
    out = np.full((num_samples, M), -1, np.int64)
    weights = np.ascontiguousarray(log_weights, np.float64)

    def work(turns: Any) -> None:
        _sample_trees(turns, trees, rules.tables, weights, own, seed, out)

    run_workers(work, cost=40.0 * M * rules.width**3 + 20.0 * num_samples * M * rules.width**2 + B)
    return out


@njit(nogil=True)
def _plus(x, y):
    """log(exp(x) + exp(y))."""
    if x < y:
        x, y = y, x
    return x if y == -np.inf else x + np.log1p(np.exp(y - x))


@njit(nogil=True)
def _log_inside(begin, end, trees, tables, weights, log_in):
    """log_in (end - begin, K): log of the weight below each node."""
    _, rule, left, right = trees
    parent, rule_left, rule_right, offset, stride, subtypes = tables
    log_in[:] = -np.inf
    for v in range(end - 1, begin - 1, -1):
        r = rule[v]
        A = parent[r]
        l, q = left[v], right[v]
        KB = subtypes[rule_left[r]] if l >= 0 else 1
        KC = subtypes[rule_right[r]] if q >= 0 else 1
        for a in range(subtypes[A]):
            o = offset[r] + a * stride[A]
            greatest = -np.inf
            for step in range(2):  # the greatest term, then the sum
                total = 0.0
                for b in range(KB):
                    x = log_in[l - begin, b] if l >= 0 else 0.0
                    if x == -np.inf:
                        continue
                    for c in range(KC):
                        y = x + weights[o + b * KC + c] + (log_in[q - begin, c] if q >= 0 else 0.0)
                        if step == 0:
                            greatest = max(greatest, y)
                        else:
                            total += np.exp(y - greatest)
                if greatest == -np.inf:
                    break
                if step == 1:
                    log_in[v - begin, a] = greatest + np.log(total)


@kernel
def _log_posteriors(
    begin,
    end,
    trees,
    tables,
    weights,
    marginals,
    out,
    weight,
):
    _, rule, left, right = trees
    parent, rule_left, rule_right, offset, stride, subtypes = tables
    log_in = np.empty((end - begin, marginals.shape[1]))
    log_out = np.full((end - begin, marginals.shape[1]), -np.inf)
    _log_inside(begin, end, trees, tables, weights, log_in)
    z = log_in[0, 0]
    marginals[begin:end] = 0.0
    if not np.isfinite(z):
        return z
    log_out[0, 0] = -z
    for v in range(begin, end):
        r = rule[v]
        A = parent[r]
        l, q = left[v], right[v]
        for a in range(subtypes[A]):
            x = log_out[v - begin, a]
            if x == -np.inf:
                continue
            marginals[v, a] = np.exp(x + log_in[v - begin, a])
            o = offset[r] + a * stride[A]
            for b in range(subtypes[rule_left[r]] if l >= 0 else 1):
                of_left = log_in[l - begin, b] if l >= 0 else 0.0
                KC = subtypes[rule_right[r]] if q >= 0 else 1
                for c in range(KC):
                    of_right = log_in[q - begin, c] if q >= 0 else 0.0
                    y = x + weights[o + b * KC + c]
                    if l >= 0:
                        log_out[l - begin, b] = _plus(log_out[l - begin, b], y + of_right)
                    if q >= 0:
                        log_out[q - begin, c] = _plus(log_out[q - begin, c], y + of_left)
                    if weight != 0.0:
                        out[o + b * KC + c] += weight * np.exp(y + of_left + of_right)
    return z


@kernel
def _sample_trees(
    turns,
    trees,
    tables,
    log_weights,
    own,
    seed,
    out,
):
    start, rule, left, right = trees
    parent, rule_left, rule_right, offset, stride, subtypes = tables
    width = 0
    for A in range(len(subtypes)):
        width = max(width, subtypes[A])
    state = np.zeros(1, np.uint64)
    for _ in range(len(own)):
        tree = take(turns)
        if tree >= len(own):
            break
        begin, end = start[tree], start[tree + 1]
        if begin == end:
            continue
        weights = log_weights[own[tree]]
        log_in = np.empty((end - begin, width))
        _log_inside(begin, end, trees, tables, weights, log_in)
        if log_in[0, 0] == -np.inf:
            continue
        seed_stream(state, seed, tree)
        for s in range(len(out)):
            out[s, begin] = 0
            for v in range(begin, end):
                r, a = rule[v], out[s, v]
                l, q = left[v], right[v]
                if l < 0:
                    continue
                o = offset[r] + a * stride[parent[r]]
                KC = subtypes[rule_right[r]] if q >= 0 else 1
                KB = subtypes[rule_left[r]]
                b, c = _draw(
                    uniform(state), o, weights, log_in, l - begin, q - begin if q >= 0 else -1, v - begin, a, KB, KC
                )
                out[s, l] = b
                if q >= 0:
                    out[s, q] = c


@njit(nogil=True)
def node_tables(begin, end, trees, tables, places, weights, width, out):
    """Write the expected counts of each node of a tree, a table (K_A, K_B, K_C) from ``places[v]`` on.

    :returns: log Z and the expected log weight; if log Z is -inf, the counts are zero.
    """
    _, rule, left, right = trees
    parent, rule_left, rule_right, offset, stride, subtypes = tables
    log_in = np.empty((end - begin, width))
    log_out = np.full((end - begin, width), -np.inf)
    _log_inside(begin, end, trees, tables, weights, log_in)
    z, expected = log_in[0, 0], 0.0
    if z == -np.inf:
        out[places[begin] : places[end]] = 0.0
        return z, expected
    log_out[0, 0] = -z
    for v in range(begin, end):
        r = rule[v]
        l, q = left[v], right[v]
        y = places[v]
        KB = subtypes[rule_left[r]] if l >= 0 else 1
        KC = subtypes[rule_right[r]] if q >= 0 else 1
        for a in range(subtypes[parent[r]]):
            o = offset[r] + a * stride[parent[r]]
            for b in range(KB):
                of_left = log_in[l - begin, b] if l >= 0 else 0.0
                for c in range(KC):
                    of_right = log_in[q - begin, c] if q >= 0 else 0.0
                    w = weights[o + b * KC + c]
                    x = log_out[v - begin, a] + w
                    if l >= 0:
                        log_out[l - begin, b] = _plus(log_out[l - begin, b], x + of_right)
                    if q >= 0:
                        log_out[q - begin, c] = _plus(log_out[q - begin, c], x + of_left)
                    value = np.exp(x + of_left + of_right)
                    out[y] = value
                    y += 1
                    if value > 0.0:
                        expected += value * w
    return z, expected


@njit(nogil=True)
def _draw(u, o, weights, log_in, l, q, v, a, KB, KC):
    """Subtypes of the children, in proportion to their weight."""
    last_b, last_c = 0, 0
    for b in range(KB):
        if log_in[l, b] == -np.inf:
            continue
        for c in range(KC):
            x = weights[o + b * KC + c] + log_in[l, b] + (log_in[q, c] if q >= 0 else 0.0)
            if x == -np.inf:
                continue
            u -= np.exp(x - log_in[v, a])
            last_b, last_c = b, c
            if u < 0:
                return b, c
    return last_b, last_c  # rounding left a little of u
