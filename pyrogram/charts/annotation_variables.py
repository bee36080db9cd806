# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Mean field over the subtype of every single node in collapsed space (Wang and Blunsom 2013, section 3.4).

q is a product over nodes. The expected count of A[a] -> B[b] C[c] at a node is q(a) q(b) q(c), a product over the node
and its children. To update a node, its own rule and its parent's, with all that they count, are taken out.
"""

# mypy: disable-error-code="no-untyped-def"
from typing import Any

import numpy as np
from numba import njit

from pyrogram.charts.runtime.compiling import kernel

from .annotation_cells import Layout
from .annotation_rules import AnnotationRules, LinkedTrees


def expected_counts(rules: AnnotationRules, trees: LinkedTrees, q: Any) -> Any:
    """Expected counts of all events, shape ``(R,)``.

    :param q: p(subtype) of each node, shape ``(M, K)``.
    """
    out = np.zeros(rules.num_events)
    _count(trees, rules.tables, q, out)
    return out


def sweep(layout: Layout, counts: Any, alpha: Any, totals: Any, q: Any, geometric: bool) -> None:
    """Update the q of every node in leftmost order, one tree after the other.

    :param counts: expected counts under ``q``, shape ``(R,)``, changed.
    :param alpha: concentrations, shape ``(R,)``.
    :param totals: of counts plus alpha in each multinomial, changed.
    :param q: shape ``(M, K)``, changed.
    :param geometric: average logarithms over the neighbours' subtypes, not the weights themselves.
    """
    rules, trees = layout.rules, layout.trees
    _sweep(trees, rules.tables, layout.multinomial, counts, alpha, totals, q, rules.width, geometric)


def entropy(q: Any) -> float:
    """The sum of the entropies of all nodes, in nats."""
    positive = q[q > 0]
    return float(-(positive * np.log(positive)).sum())


@kernel
def _count(trees, tables, q, out):
    totals, multinomial = np.zeros(1), np.full(len(tables.subtypes), -1, np.int64)
    for v in range(len(trees.rule)):
        _add(v, 1.0, trees, tables, multinomial, q, out, totals)


@njit(nogil=True)
def _add(v, sign, trees, tables, multinomial, q, counts, totals):
    """Add what the rule at a node counts, or take it out."""
    _, rule, left, right, _ = trees
    parent, rule_left, rule_right, offset, stride, subtypes = tables
    r = rule[v]
    A = parent[r]
    l, t = left[v], right[v]
    KB = subtypes[rule_left[r]] if l >= 0 else 1
    KC = subtypes[rule_right[r]] if t >= 0 else 1
    for a in range(subtypes[A]):
        x = sign * q[v, a]
        if multinomial[A] >= 0:
            totals[multinomial[A] + a] += x
        o = offset[r] + a * stride[A]
        for b in range(KB):
            y = x * q[l, b] if l >= 0 else x
            for c in range(KC):
                counts[o + b * KC + c] += y * q[t, c] if t >= 0 else y


@kernel
def _sweep(
    trees,
    tables,
    multinomial,
    counts,
    alpha,
    totals,
    q,
    width,
    geometric,
):
    rule, above = trees.rule, trees.above
    parent, subtypes = tables.parent, tables.subtypes
    weight = np.empty(width)
    for v in range(len(rule)):
        r = rule[v]
        A = parent[r]
        if subtypes[A] == 1:
            continue
        p = above[v]
        _add(v, -1.0, trees, tables, multinomial, q, counts, totals)
        _add(p, -1.0, trees, tables, multinomial, q, counts, totals)
        own, up = _own_average(v, trees, tables, counts, alpha, q, width, geometric), weight
        _parent_average(v, p, trees, tables, counts, alpha, q, geometric, up)
        greatest = -np.inf
        for a in range(subtypes[A]):
            # Parents' totals do not depend on a.
            weight[a] = own[a] + up[a] - np.log(totals[multinomial[A] + a])
            greatest = max(greatest, weight[a])
        total = 0.0
        for a in range(subtypes[A]):
            weight[a] = np.exp(weight[a] - greatest)
            total += weight[a]
        for a in range(subtypes[A]):
            q[v, a] = weight[a] / total
        _add(v, 1.0, trees, tables, multinomial, q, counts, totals)
        _add(p, 1.0, trees, tables, multinomial, q, counts, totals)


@njit(nogil=True)
def _own_average(v, trees, tables, counts, alpha, q, width, geometric):
    """For each a, log of what the rule at the node weighs on average over its children's subtypes."""
    _, rule, left, right, _ = trees
    parent, rule_left, rule_right, offset, stride, subtypes = tables
    r = rule[v]
    l, t = left[v], right[v]
    KB = subtypes[rule_left[r]] if l >= 0 else 1
    KC = subtypes[rule_right[r]] if t >= 0 else 1
    out = np.empty(width)
    for a in range(subtypes[parent[r]]):
        o = offset[r] + a * stride[parent[r]]
        total = 0.0
        for b in range(KB):
            x = q[l, b] if l >= 0 else 1.0
            for c in range(KC):
                y = x * q[t, c] if t >= 0 else x
                pseudo = max(counts[o + b * KC + c], 0.0) + alpha[o + b * KC + c]
                if y > 0.0:
                    total += y * np.log(pseudo) if geometric else y * pseudo
        out[a] = total if geometric else np.log(total)
    return out


@njit(nogil=True)
def _parent_average(v, p, trees, tables, counts, alpha, q, geometric, out):
    """For each subtype of v, log of what the rule at its parent p weighs on average over p and the sibling."""
    _, rule, left, right, _ = trees
    parent, rule_left, rule_right, offset, stride, subtypes = tables
    r = rule[p]
    l, t = left[p], right[p]
    KB = subtypes[rule_left[r]]
    KC = subtypes[rule_right[r]] if t >= 0 else 1
    first = l == v
    for own in range(KB if first else KC):
        total = 0.0
        for a in range(subtypes[parent[r]]):
            o = offset[r] + a * stride[parent[r]]
            for other in range(KC if first else KB):
                e = o + own * KC + other if first else o + other * KC + own
                y = q[p, a]
                if t >= 0:
                    y *= q[t, other] if first else q[l, other]
                if y > 0.0:
                    pseudo = max(counts[e], 0.0) + alpha[e]
                    total += y * np.log(pseudo) if geometric else y * pseudo
        out[own] = total if geometric else np.log(total)
