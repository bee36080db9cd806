# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Parses from the chart of an annotated grammar: max-rule, Viterbi over annotations, and draws.

A parse is a row of base rules in leftmost order; the subtypes that Viterbi and sampling go through are forgotten.
"""

# mypy: disable-error-code="no-untyped-def"
import numpy as np
from numba import njit

from pyrogram.charts.runtime.random_numbers import uniform

from .annotation_chart import add_rule, subtypes_below


@njit(nogil=True)
def _rules_at(i, k, words, chart, t):
    """The anchored rules of a cell, those of words first, unary rules last, each after those of its child.

    Yields the rule, the slots of its parent and of its children, -1 where there is none, and the factor between their
    scales.
    """
    n = len(words)
    cell = i * (n + 1) + k
    if chart.count[cell] == 0:
        return
    if k - i == 1:
        for x in range(t.lexical_start[words[i]], t.lexical_start[words[i] + 1]):
            w = chart.slot[cell, t.parent[t.lexical[x]]]
            if w >= 0:
                yield t.lexical[x], w, -1, -1, np.exp(-chart.log_scale[cell])
    for j in range(i + 1, k):
        left, right = i * (n + 1) + j, j * (n + 1) + k
        if chart.count[left] == 0 or chart.count[right] == 0:
            continue
        factor = np.exp(chart.log_scale[left] + chart.log_scale[right] - chart.log_scale[cell])
        for u in range(chart.first[left], chart.first[left] + chart.count[left]):
            for p in range(t.pair_start[chart.symbol[u]], t.pair_start[chart.symbol[u] + 1]):
                v = chart.slot[right, t.pair_right[p]]
                if v < 0:
                    continue
                for z in range(t.rule_start[p], t.rule_start[p + 1]):
                    w = chart.slot[cell, t.parent[t.pair_rules[z]]]
                    if w >= 0:
                        yield t.pair_rules[z], w, u, v, factor
    for r in t.unary:
        w, u = chart.slot[cell, t.parent[r]], chart.slot[cell, t.left[r]]
        if w >= 0 and u >= 0:
            yield r, w, u, -1, 1.0


@njit(nogil=True)
def _write(root, chosen, t, parse):
    """Write the rules of a parse in leftmost order.

    :param chosen: by slot and subtype: the rule, the left child's slot and subtype, the right child's.
    """
    stack = np.zeros((len(chosen) + 2, 2), np.int64)
    stack[0, 0] = root
    top, length = 1, 0
    while top > 0:
        r, u, b, v, c = chosen[stack[top - 1, 0], stack[top - 1, 1]]
        parse[length] = r
        length += 1
        top = _push(u, b, v, c, stack, top - 1)


@njit(nogil=True)
def _push(u, b, v, c, stack, top):
    """Put children and their subtypes on the stack, the left one on top; returns the new height."""
    for child, subtype in ((v, c), (u, b)):
        if child >= 0:
            stack[top, 0], stack[top, 1] = child, subtype
            top += 1
    return top


@njit(nogil=True, fastmath={"reassoc", "contract"})
def max_rule(words, chart, out, real, product, t, parse):
    """The parse with the greatest product, or sum, of posteriors of its anchored rules (Petrov and Klein 2007).

    :returns: the log of the product, or the sum; -inf if there is no parse.
    """
    n = len(words)
    best = np.full(len(chart.symbol) + 1, -np.inf)
    best[-1] = 0.0  # of the child that a rule has not
    chosen = np.zeros((len(chart.symbol), 1, 5), np.int64)
    sums = np.empty((len(t.parent), t.width, t.width))  # of binary rules, over the subtypes of the parent
    stamp = np.full(len(t.parent), -1, np.int64)
    for size in range(1, n + 1):
        for i in range(n - size + 1):
            for r, w, u, v, factor in _rules_at(i, i + size, words, chart, t):
                below = best[u] + best[v]
                if below == -np.inf:
                    continue
                KB, KC = subtypes_below(r, t)
                if stamp[r] != w:
                    stamp[r] = w
                    sums[r, :KB, :KC] = 0.0
                    add_rule(r, KB, KC, out[w], real, t, sums[r])
                posterior = 0.0
                for b in range(KB):
                    y = 0.0
                    for c in range(KC):
                        y += sums[r, b, c] * chart.inside[v, c]
                    posterior += y * chart.inside[u, b]
                posterior *= factor
                if not posterior > 0.0:
                    continue
                score = below + (np.log(posterior) if product else posterior)
                if score > best[w]:
                    best[w] = score
                    chosen[w, 0, 0], chosen[w, 0, 1], chosen[w, 0, 3] = r, u, v
    root = chart.slot[n, t.start]
    if root < 0 or best[root] == -np.inf:
        return -np.inf
    _write(root, chosen, t, parse)
    return best[root]


@njit(nogil=True)
def viterbi(words, chart, log_real, t, parse):
    """The base rules of the most probable annotated parse; returns its log weight, -inf if there is none."""
    n, slots = len(words), len(chart.symbol)
    best = np.full((slots + 1, t.width), -np.inf)
    best[-1] = 0.0
    chosen = np.zeros((slots, t.width, 5), np.int64)
    for size in range(1, n + 1):
        for i in range(n - size + 1):
            for r, w, u, v, _ in _rules_at(i, i + size, words, chart, t):
                KB, KC = subtypes_below(r, t)
                for a in range(t.subtypes[t.parent[r]]):
                    o = t.offset[r] + a * t.stride[t.parent[r]]
                    for b in range(KB):
                        for c in range(KC):
                            score = log_real[o + b * KC + c] + best[u, b] + best[v, c]
                            if score > best[w, a]:
                                best[w, a] = score
                                chosen[w, a, 0], chosen[w, a, 1], chosen[w, a, 2] = r, u, b
                                chosen[w, a, 3], chosen[w, a, 4] = v, c
    root = chart.slot[n, t.start]
    if root < 0 or best[root, 0] == -np.inf:
        return -np.inf
    _write(root, chosen, t, parse)
    return best[root, 0]


@njit(nogil=True)
def draw(words, chart, real, state, t, parse):
    """A parse drawn from the posterior of annotated parses, if there is one."""
    root = chart.slot[len(words), t.start]
    stack = np.zeros((len(chart.symbol) + 2, 2), np.int64)
    stack[0, 0] = root
    top, length = 1 if root >= 0 else 0, 0
    while top > 0:
        r, u, b, v, c = _draw_rule(words, chart, real, uniform(state), t, stack[top - 1, 0], stack[top - 1, 1])
        parse[length] = r
        length += 1
        top = _push(u, b, v, c, stack, top - 1)


@njit(nogil=True)
def _draw_rule(words, chart, real, x, t, slot, a):
    """A rule with its children, see :func:`_write`, in proportion to their weight.

    The weights add up to the inside value; rounding may leave a little, and then the last rule is taken.
    """
    i, k = divmod(chart.cell[slot], len(words) + 1)
    rest = x * chart.inside[slot, a]
    last = (-1, -1, 0, -1, 0)
    for r, w, u, v, factor in _rules_at(i, k, words, chart, t):
        if w != slot:
            continue
        KB, KC = subtypes_below(r, t)
        o = t.offset[r] + a * t.stride[t.parent[r]]
        for b in range(KB):
            for c in range(KC):
                weight = factor * real[o + b * KC + c] * chart.inside[u, b] * chart.inside[v, c]
                if weight > 0.0:
                    last = (r, u, b, v, c)
                    rest -= weight
                    if rest < 0:
                        return last
    return last
