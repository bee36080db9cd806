# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Mean field over the subtype of every single node in collapsed space (Wang and Blunsom 2013, section 3.4).

q is a product over nodes. The expected count of A[a] -> B[b] C[c] at a node is q(a) q(b) q(c), a product over the node
and its children. To update a node, its own rule and its parent's, with all that they count, are taken out.
"""

# mypy: disable-error-code="no-untyped-def"
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from pyrogram.grammars.annotations_rules import AnnotationRules, Forest
from pyrogram.runtime.compiling import kernel


class Tables(NamedTuple):
    """:class:`.AnnotationRules` for compiled code."""

    parent: Any
    left: Any
    right: Any
    offset: Any
    stride: Any
    subtypes: Any


class Nodes:
    """The nodes of trees, M in all, whose subtypes have a q each, shape ``(M, K)``."""

    def __init__(self, rules: AnnotationRules, trees: Forest) -> None:
        self.rules, self.trees = rules, trees
        above = np.full(len(trees.rule), -1)
        for child in (trees.left, trees.right):
            parents = (child >= 0).nonzero()[0]
            above[child[parents]] = parents
        present = np.where(rules.stride > 0, rules.subtypes, 0)
        #: each node's parent, or -1; and by symbol A the number of the multinomial of (A, 0)
        self.above, self.first = above, np.cumsum(present) - present
        self.tables = Tables(rules.parent, rules.left, rules.right, rules.offset, rules.stride, rules.subtypes)

    def expected_counts(self, q: Any) -> Any:
        """Expected counts of all events, shape ``(R,)``."""
        out = np.zeros(self.rules.num_events)
        _count(self.trees, self.tables, q, out)
        return out

    def sweep(self, counts: Any, alpha: Any, totals: Any, q: Any) -> None:
        """Update the q of every node in leftmost order, one tree after the other.

        :param counts: expected counts under ``q``, shape ``(R,)``, changed.
        :param alpha: concentrations, shape ``(R,)``.
        :param totals: of counts plus alpha in each multinomial, changed.
        :param q: changed.
        """
        _sweep(self.trees, self.above, self.tables, self.first, counts, alpha, totals, q)


@kernel
def _count(trees, tables, q, out):
    for v in range(len(trees.rule)):
        _add_events(v, 1.0, trees, tables, q, out)


@njit(nogil=True)
def _add_events(v, sign, trees, tables, q, counts):
    """Add what the rule at a node counts, or take it out."""
    _, _, rule, left, right = trees
    parent, rule_left, rule_right, offset, stride, subtypes = tables
    r = rule[v]
    A = parent[r]
    l, t = left[v], right[v]
    KB = subtypes[rule_left[r]] if l >= 0 else 1
    KC = subtypes[rule_right[r]] if t >= 0 else 1
    for a in range(subtypes[A]):
        x = sign * q[v, a]
        o = offset[r] + a * stride[A]
        for b in range(KB):
            y = x * q[l, b] if l >= 0 else x
            for c in range(KC):
                counts[o + b * KC + c] += y * q[t, c] if t >= 0 else y


@njit(nogil=True)
def _add(v, sign, trees, tables, first, q, counts, totals):
    """The same, also in the totals."""
    A = tables.parent[trees.rule[v]]
    for a in range(tables.subtypes[A]):
        totals[first[A] + a] += sign * q[v, a]
    _add_events(v, sign, trees, tables, q, counts)


@kernel
def _sweep(trees, above, tables, first, counts, alpha, totals, q):
    weight = np.empty(q.shape[1])
    for v in range(len(trees.rule)):
        A = tables.parent[trees.rule[v]]
        K = tables.subtypes[A]
        if K == 1:
            continue
        p = above[v]
        _add(v, -1.0, trees, tables, first, q, counts, totals)
        _add(p, -1.0, trees, tables, first, q, counts, totals)
        _parent_average(v, p, trees, tables, counts, alpha, q, weight)
        below = _own_average(v, trees, tables, counts, alpha, q)
        greatest, total = weight[:K].max(), 0.0
        for a in range(K):
            # Parents' totals do not depend on a.
            weight[a] = weight[a] / greatest * below[a] / totals[first[A] + a]
            total += weight[a]
        for a in range(K):
            q[v, a] = weight[a] / total
        _add(v, 1.0, trees, tables, first, q, counts, totals)
        _add(p, 1.0, trees, tables, first, q, counts, totals)


@njit(nogil=True)
def _own_average(v, trees, tables, counts, alpha, q):
    """For each a, what the rule at the node weighs on average over its children's subtypes."""
    _, _, rule, left, right = trees
    parent, rule_left, rule_right, offset, stride, subtypes = tables
    r = rule[v]
    l, t = left[v], right[v]
    KB = subtypes[rule_left[r]] if l >= 0 else 1
    KC = subtypes[rule_right[r]] if t >= 0 else 1
    out = np.zeros(subtypes[parent[r]])
    for a in range(len(out)):
        o = offset[r] + a * stride[parent[r]]
        for b in range(KB):
            x = q[l, b] if l >= 0 else 1.0
            for c in range(KC):
                y = x * q[t, c] if t >= 0 else x
                out[a] += y * (max(counts[o + b * KC + c], 0.0) + alpha[o + b * KC + c])
    return out


@njit(nogil=True)
def _parent_average(v, p, trees, tables, counts, alpha, q, out):
    """For each subtype of v, what the rule at its parent p weighs on average over p and the sibling."""
    _, _, rule, left, right = trees
    parent, rule_left, rule_right, offset, stride, subtypes = tables
    r = rule[p]
    l, t = left[p], right[p]
    KB = subtypes[rule_left[r]]
    KC = subtypes[rule_right[r]] if t >= 0 else 1
    first = l == v
    for this in range(KB if first else KC):
        total = 0.0
        for a in range(subtypes[parent[r]]):
            o = offset[r] + a * stride[parent[r]]
            for other in range(KC if first else KB):
                e = o + this * KC + other if first else o + other * KC + this
                y = q[p, a]
                if t >= 0:
                    y *= q[t, other] if first else q[l, other]
                total += y * (max(counts[e], 0.0) + alpha[e])
        out[this] = total
