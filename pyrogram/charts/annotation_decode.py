# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Parses from the chart of an annotated grammar: max-rule, Viterbi over annotations, and draws.

A parse is a row of base rules in leftmost order; the subtypes that Viterbi and sampling go through are forgotten.
"""

# mypy: disable-error-code="no-untyped-def"
import numpy as np
from numba import njit

from pyrogram.charts.runtime.random_numbers import uniform

from .annotation_chart import add_rule


@njit(nogil=True, fastmath={"reassoc", "contract"})
def max_rule(words, chart, out, real, product, t, parse):
    """The parse with the greatest product, or sum, of posteriors of its anchored rules (Petrov and Klein 2007).

    :returns: the log of the product, or the sum; -inf if there is no parse.
    """
    n = len(words)
    best = np.full(len(chart.symbol), -np.inf)
    back = np.full((len(chart.symbol), 2), -1, np.int64)  # rule, split
    place = np.full(len(t.parent), -1, np.int64)  # of the binary rules' sums
    for p in range(len(t.pair_rules)):
        place[t.pair_rules[p]] = p
    sums = np.empty((len(t.pair_rules), t.width, t.width))
    stamp = np.full(len(t.pair_rules), -1, np.int64)
    for size in range(1, n + 1):
        for i in range(n - size + 1):
            k = i + size
            cell = i * (n + 1) + k
            if chart.count[cell] == 0:
                continue
            if size == 1:
                for x in range(t.lexical_start[words[i]], t.lexical_start[words[i] + 1]):
                    r = t.lexical[x]
                    A = t.parent[r]
                    v = chart.slot[cell, A]
                    if v >= 0:
                        q = 0.0
                        for a in range(t.subtypes[A]):
                            q += out[v, a] * real[t.offset[r] + a * t.stride[A]]
                        _better(v, _gain(q * np.exp(-chart.log_scale[cell]), product), r, -1, best, back)
            for j in range(i + 1, k):
                left, right = i * (n + 1) + j, j * (n + 1) + k
                if chart.count[left] == 0 or chart.count[right] == 0:
                    continue
                factor = np.exp(chart.log_scale[left] + chart.log_scale[right] - chart.log_scale[cell])
                for u in range(chart.first[left], chart.first[left] + chart.count[left]):
                    B = chart.symbol[u]
                    if best[u] == -np.inf:
                        continue
                    for p in range(t.pair_start[B], t.pair_start[B + 1]):
                        C = t.pair_right[p]
                        v = chart.slot[right, C]
                        if v < 0 or best[v] == -np.inf:
                            continue
                        for z in range(t.rule_start[p], t.rule_start[p + 1]):
                            r = t.pair_rules[z]
                            w = chart.slot[cell, t.parent[r]]
                            if w < 0:
                                continue
                            s = place[r]
                            if stamp[s] != cell:
                                stamp[s] = cell
                                sums[s, : t.subtypes[B], : t.subtypes[C]] = 0.0
                                add_rule(r, out[w], real, t, sums[s])
                            q = 0.0
                            for b in range(t.subtypes[B]):
                                y = 0.0
                                for c in range(t.subtypes[C]):
                                    y += sums[s, b, c] * chart.inside[v, c]
                                q += y * chart.inside[u, b]
                            gain = _gain(factor * q, product)
                            _better(w, gain + best[u] + best[v], r, j, best, back)
            for r in t.unary:
                u, v = chart.slot[cell, t.parent[r]], chart.slot[cell, t.left[r]]
                if u >= 0 and v >= 0 and best[v] > -np.inf:
                    q = 0.0
                    for a in range(t.subtypes[t.parent[r]]):
                        o = t.offset[r] + a * t.stride[t.parent[r]]
                        for b in range(t.subtypes[t.left[r]]):
                            q += out[u, a] * real[o + b] * chart.inside[v, b]
                    _better(u, _gain(q, product) + best[v], r, -1, best, back)
    root = chart.slot[n, t.start]
    if root < 0 or best[root] == -np.inf:
        return -np.inf
    _trace(n, chart, back, root, t, parse)
    return best[root]


@njit(nogil=True)
def _gain(posterior, product):
    if not product:
        return posterior if posterior > 0.0 else -np.inf
    return np.log(posterior) if posterior > 0.0 else -np.inf


@njit(nogil=True)
def _better(slot, score, rule, split, best, back):
    if score > best[slot]:
        best[slot] = score
        back[slot, 0], back[slot, 1] = rule, split


@njit(nogil=True)
def _trace(n, chart, back, root, t, parse):
    """Write the rules of the best parse in leftmost order."""
    stack = np.empty((2 * n + len(t.unary) + 2, 3), np.int64)
    stack[0, 0], stack[0, 1], stack[0, 2] = root, 0, n
    top, length = 1, 0
    while top > 0:
        top -= 1
        u, i, k = stack[top]
        r, j = back[u, 0], back[u, 1]
        parse[length] = r
        length += 1
        if t.left[r] < 0:
            continue
        if t.right[r] < 0:
            stack[top, 0] = chart.slot[i * (n + 1) + k, t.left[r]]
            top += 1
            continue
        stack[top, 0], stack[top, 1], stack[top, 2] = chart.slot[j * (n + 1) + k, t.right[r]], j, k
        stack[top + 1, 0], stack[top + 1, 1], stack[top + 1, 2] = chart.slot[i * (n + 1) + j, t.left[r]], i, j
        top += 2


@njit(nogil=True)
def viterbi(words, chart, log_real, t, parse):
    """The base rules of the most probable annotated parse; returns its log weight, -inf if there is none."""
    n, slots = len(words), len(chart.symbol)
    best = np.full((slots, t.width), -np.inf)
    back = np.full((slots, t.width, 4), -1, np.int64)  # rule, split, b, c
    for size in range(1, n + 1):
        for i in range(n - size + 1):
            k = i + size
            cell = i * (n + 1) + k
            if chart.count[cell] == 0:
                continue
            if size == 1:
                for x in range(t.lexical_start[words[i]], t.lexical_start[words[i] + 1]):
                    r = t.lexical[x]
                    v = chart.slot[cell, t.parent[r]]
                    if v >= 0:
                        for a in range(t.subtypes[t.parent[r]]):
                            score = log_real[t.offset[r] + a * t.stride[t.parent[r]]]
                            if score > best[v, a]:
                                best[v, a], back[v, a, 0] = score, r
            for j in range(i + 1, k):
                left, right = i * (n + 1) + j, j * (n + 1) + k
                for u in range(chart.first[left], chart.first[left] + chart.count[left]):
                    B = chart.symbol[u]
                    for p in range(t.pair_start[B], t.pair_start[B + 1]):
                        v = chart.slot[right, t.pair_right[p]]
                        if v < 0:
                            continue
                        for z in range(t.rule_start[p], t.rule_start[p + 1]):
                            r = t.pair_rules[z]
                            w = chart.slot[cell, t.parent[r]]
                            if w >= 0:
                                _best_children(r, w, u, v, j, log_real, t, best, back)
            for r in t.unary:
                u, v = chart.slot[cell, t.parent[r]], chart.slot[cell, t.left[r]]
                if u < 0 or v < 0:
                    continue
                for a in range(t.subtypes[t.parent[r]]):
                    o = t.offset[r] + a * t.stride[t.parent[r]]
                    for b in range(t.subtypes[t.left[r]]):
                        score = log_real[o + b] + best[v, b]
                        if score > best[u, a]:
                            best[u, a] = score
                            back[u, a, 0], back[u, a, 1], back[u, a, 2] = r, -1, b
    root = chart.slot[n, t.start]
    if root < 0 or best[root, 0] == -np.inf:
        return -np.inf
    stack = np.empty((2 * n + len(t.unary) + 2, 4), np.int64)
    stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = root, 0, 0, n
    top, length = 1, 0
    while top > 0:
        top -= 1
        u, a, i, k = stack[top]
        r, j, b, c = back[u, a]
        parse[length] = r
        length += 1
        top = _push(r, i, j, k, b, c, n, chart.slot, t, stack, top)
    return best[root, 0]


@njit(nogil=True)
def _best_children(r, w, u, v, j, log_real, t, best, back):
    KC = t.subtypes[t.right[r]]
    for a in range(t.subtypes[t.parent[r]]):
        o = t.offset[r] + a * t.stride[t.parent[r]]
        for b in range(t.subtypes[t.left[r]]):
            for c in range(KC):
                score = log_real[o + b * KC + c] + best[u, b] + best[v, c]
                if score > best[w, a]:
                    best[w, a] = score
                    back[w, a, 0], back[w, a, 1], back[w, a, 2], back[w, a, 3] = r, j, b, c


@njit(nogil=True)
def _push(r, i, j, k, b, c, n, slot, t, stack, top):
    """Put the children of a node on the stack, the left one on top; returns the new height."""
    if t.left[r] < 0:
        return top
    if t.right[r] < 0:
        stack[top, 0], stack[top, 1], stack[top, 2], stack[top, 3] = slot[i * (n + 1) + k, t.left[r]], b, i, k
        return top + 1
    stack[top, 0], stack[top, 1], stack[top, 2], stack[top, 3] = slot[j * (n + 1) + k, t.right[r]], c, j, k
    top += 1
    stack[top, 0], stack[top, 1], stack[top, 2], stack[top, 3] = slot[i * (n + 1) + j, t.left[r]], b, i, j
    return top + 1


@njit(nogil=True)
def draw(words, chart, real, state, t, parse):
    """A parse drawn from the posterior of annotated parses; returns 0, or -inf if there is none."""
    n = len(words)
    root = chart.slot[n, t.start]
    if root < 0:
        return -np.inf
    stack = np.empty((2 * n + len(t.unary) + 2, 4), np.int64)
    stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = root, 0, 0, n
    top, length = 1, 0
    while top > 0:
        top -= 1
        u, a, i, k = stack[top]
        # The terms add up to the cell's inside value; rounding may leave a little, and then the last term is taken.
        r, j, b, c = _draw_rule(words, chart, real, uniform(state), t, u, a, i, k)
        parse[length] = r
        length += 1
        top = _push(r, i, j, k, b, c, n, chart.slot, t, stack, top)
    return 0.0


@njit(nogil=True)
def _draw_rule(words, chart, real, x, t, u, a, i, k):
    n, A = len(words), chart.symbol[u]
    cell = i * (n + 1) + k
    rest = x * chart.inside[u, a]
    found = (-1, -1, 0, 0)
    if k - i == 1:
        scale = np.exp(-chart.log_scale[cell])
        for y in range(t.lexical_start[words[i]], t.lexical_start[words[i] + 1]):
            r = t.lexical[y]
            weight = real[t.offset[r] + a * t.stride[A]] * scale
            if t.parent[r] == A and weight > 0.0:
                found = (r, -1, 0, 0)
                rest -= weight
                if rest < 0:
                    return found
    for r in t.unary:
        v = chart.slot[cell, t.left[r]]
        if t.parent[r] != A or v < 0:
            continue
        for b in range(t.subtypes[t.left[r]]):
            weight = real[t.offset[r] + a * t.stride[A] + b] * chart.inside[v, b]
            if weight > 0.0:
                found = (r, -1, b, 0)
                rest -= weight
                if rest < 0:
                    return found
    for j in range(i + 1, k):
        left, right = i * (n + 1) + j, j * (n + 1) + k
        if chart.count[left] == 0 or chart.count[right] == 0:
            continue
        factor = np.exp(chart.log_scale[left] + chart.log_scale[right] - chart.log_scale[cell])
        for s in range(chart.first[left], chart.first[left] + chart.count[left]):
            B = chart.symbol[s]
            for p in range(t.pair_start[B], t.pair_start[B + 1]):
                v = chart.slot[right, t.pair_right[p]]
                if v < 0:
                    continue
                for z in range(t.rule_start[p], t.rule_start[p + 1]):
                    r = t.pair_rules[z]
                    if t.parent[r] != A:
                        continue
                    KC = t.subtypes[t.right[r]]
                    for b in range(t.subtypes[B]):
                        for c in range(KC):
                            weight = real[t.offset[r] + a * t.stride[A] + b * KC + c]
                            weight *= factor * chart.inside[s, b] * chart.inside[v, c]
                            if weight > 0.0:
                                found = (r, j, b, c)
                                rest -= weight
                                if rest < 0:
                                    return found
    return found
