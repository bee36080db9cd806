# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The CPU engine for latent annotations of observed trees, in scaled real space.

All derivations of a tree use the same base rules. So each rule's weights are divided by the greatest of them, exactly,
and each node's inside vector by its greatest element. Outside vectors are adjoints: inside times outside is the
posterior. What underflows has size *tiny* and matters only if what it meets is huge; a tree in which an adjoint or a
scale is (``GREATEST``) is done again in log space, as is one whose log Z is not finite.

Time O(K**3) a node. Counts are summed rule by rule once all trees are done: the order of the sum does not depend on
threads, each rule's weights are read once, and memory is nodes times K besides the weights and the counts.
"""

# mypy: disable-error-code="no-untyped-def"
from typing import Any

import numpy as np
from numba import njit

from pyrogram.charts.runtime.compiling import kernel
from pyrogram.charts.runtime.threads import run_workers, take

from .annotation_log import add_counts, log_posteriors
from .annotation_rules import AnnotationRules, LinkedTrees

# A flushed quantity changes a posterior by at most tiny * GREATEST, far below the rounding error.
GREATEST = 2.0**900


class Posteriors:
    """log Z of each tree, and inside and outside vectors of each node, shape ``(M, K)``.

    :param log_weights: float, shape ``(W, R)``: W grammars.
    :param own: the grammar of each tree, shape ``(B,)``.
    """

    def __init__(self, log_weights: Any, rules: AnnotationRules, trees: LinkedTrees, own: Any):
        M, B = len(trees.rule), len(own)
        self.rules, self.trees, self.own = rules, trees, own
        self.row = np.repeat(own, trees.lengths)
        self.groups = grouped(self.row * len(rules.parent) + trees.rule)
        self.real, self.shift = _exponentiated(log_weights, rules, trees, self.row, self.groups)
        self.inside, self.outside = np.zeros((M, rules.width)), np.zeros((M, rules.width))
        self.scale = np.full(M, np.inf)
        self.log_z = np.full(B, -np.inf)
        failed = np.zeros(B, np.bool_)
        out = self.inside, self.outside, self.scale, self.log_z, failed

        def work(turns: Any) -> None:
            _do_trees(turns, trees, rules.tables, self.real, own, self.shift, *out)

        run_workers(work, cost=4.0 * M * rules.width**3)
        self.log_weights, self.failed = log_weights, failed.nonzero()[0]
        for b in self.failed:
            nodes = slice(trees.start[b], trees.start[b + 1])
            self.log_z[b] = log_posteriors(log_weights[own[b]], rules, trees, int(b), self.inside)
            self.outside[nodes], self.scale[nodes] = 1.0, np.inf  # so that they count nothing in real space

    def node_marginals(self) -> Any:
        """p(subtype of each node | tree), shape ``(M, K)``."""
        return self.inside * self.outside

    def counts(self, tree_weights: Any = None) -> Any:
        """Expected counts summed over the trees of each grammar, shape ``(W, R)``.

        :param tree_weights: what each tree counts, shape ``(B,)``; 1 by default.
        """
        order, bounds, _ = self.groups
        out = np.zeros(self.real.shape)
        factor = 1.0 / self.scale
        if tree_weights is not None:
            factor = factor * np.repeat(tree_weights, self.trees.lengths)
        vectors = self.inside, self.outside, factor, self.row

        def work(turns: Any) -> None:
            _count_groups(turns, order, bounds, self.trees, self.rules.tables, self.real, *vectors, out)

        run_workers(work, cost=4.0 * len(order) * self.rules.width**3)
        for b in self.failed:
            weight = 1.0 if tree_weights is None else float(tree_weights[b])
            add_counts(self.log_weights[self.own[b]], self.rules, self.trees, int(b), weight, out[self.own[b]])
        return out


def grouped(keys: Any) -> tuple[Any, Any, Any]:
    """Equal keys together: an order, where groups begin and end in it (G + 1), and the key of each."""
    order = np.argsort(keys, kind="stable")
    found, first = np.unique(keys[order], return_index=True)
    return order, np.append(first, len(order)), found


def _exponentiated(log_weights: Any, rules: AnnotationRules, trees: LinkedTrees, row: Any, groups: Any) -> Any:
    """Weights of the rules that occur, divided by each rule's greatest, and the log of that at each node."""
    order, bounds, keys = groups
    real = np.empty(log_weights.shape)
    greatest = np.zeros(len(keys))
    cells = rules.left_subtypes * rules.right_subtypes

    def work(turns: Any) -> None:
        _exponentiate(turns, keys, log_weights, rules.tables, cells, *out)

    out = real, greatest
    run_workers(work, cost=20.0 * log_weights.size)
    shift = np.empty(len(order))
    shift[order] = np.repeat(greatest, np.diff(bounds))
    return real, shift


@kernel
def _exponentiate(turns, keys, log_weights, tables, cells, real, greatest):
    parent, _, _, offset, stride, subtypes = tables
    R0 = len(parent)
    for _ in range(len(keys)):
        g = take(turns)
        if g >= len(keys):
            break
        row, r = keys[g] // R0, keys[g] % R0
        best = -np.inf
        for a in range(subtypes[parent[r]]):
            o = offset[r] + a * stride[parent[r]]
            for x in range(cells[r]):
                best = max(best, float(log_weights[row, o + x]))
        if not best > -np.inf:
            best = 0.0
        greatest[g] = best
        for a in range(subtypes[parent[r]]):
            o = offset[r] + a * stride[parent[r]]
            for x in range(cells[r]):
                real[row, o + x] = np.exp(log_weights[row, o + x] - best)


@kernel
def _do_trees(
    turns,
    trees,
    tables,
    real,
    own,
    shift,
    inside,
    outside,
    scale,
    log_z,
    failed,
):
    for _ in range(len(own)):
        b = take(turns)
        if b >= len(own):
            break
        begin, end = trees.start[b], trees.start[b + 1]
        if begin == end:
            continue
        good = inside_tree(begin, end, trees, tables, real[own[b]], inside, scale)
        if good:
            greatest = outside_tree(begin, end, trees, tables, real[own[b]], inside, scale, outside)
            total = 0.0
            for v in range(begin, end):
                total += np.log(scale[v]) + shift[v]
            log_z[b] = total
            good = greatest <= GREATEST and np.isfinite(total)  # written so that NaN fails
        failed[b] = not good


@njit(nogil=True, fastmath={"reassoc", "contract"})
def inside_tree(begin, end, trees, tables, real, inside, scale):
    """Inside vectors, each divided by its greatest element, ``scale``; False where one is zero."""
    _, rule, left, right = trees
    parent, rule_left, rule_right, offset, stride, subtypes = tables
    for v in range(end - 1, begin - 1, -1):
        r = rule[v]
        A = parent[r]
        l, q = left[v], right[v]
        greatest = 0.0
        for a in range(subtypes[A]):
            o = offset[r] + a * stride[A]
            s = 0.0
            if l < 0:
                s = real[o]
            elif q < 0:
                for b in range(subtypes[rule_left[r]]):
                    s += real[o + b] * inside[l, b]
            else:
                KC = subtypes[rule_right[r]]
                for b in range(subtypes[rule_left[r]]):
                    t = 0.0
                    for c in range(KC):
                        t += real[o + b * KC + c] * inside[q, c]
                    s += t * inside[l, b]
            inside[v, a] = s
            greatest = max(greatest, s)
        if not greatest > 0.0:
            return False
        for a in range(subtypes[A]):
            inside[v, a] /= greatest
        scale[v] = greatest
    return True


@njit(nogil=True, fastmath={"reassoc", "contract"})
def outside_tree(begin, end, trees, tables, real, inside, scale, outside):
    """Adjoints of log Z with respect to inside vectors; returns the greatest of them and of the scales' inverses."""
    _, rule, left, right = trees
    parent, rule_left, rule_right, offset, stride, subtypes = tables
    outside[begin, 0] = 1.0
    greatest = 1.0
    for v in range(begin, end):
        r = rule[v]
        A = parent[r]
        l, q = left[v], right[v]
        factor = 1.0 / scale[v]
        greatest = max(greatest, factor)
        if l < 0:
            continue
        KB = subtypes[rule_left[r]]
        for b in range(KB):
            outside[l, b] = 0.0
        if q >= 0:
            KC = subtypes[rule_right[r]]
            for c in range(KC):
                outside[q, c] = 0.0
        for a in range(subtypes[A]):
            x = outside[v, a] * factor
            o = offset[r] + a * stride[A]
            if q < 0:
                for b in range(KB):
                    outside[l, b] += x * real[o + b]
            else:
                for b in range(KB):
                    y = x * inside[l, b]
                    t = 0.0
                    for c in range(KC):
                        t += real[o + b * KC + c] * inside[q, c]
                        outside[q, c] += y * real[o + b * KC + c]
                    outside[l, b] += x * t
        for b in range(KB):
            greatest = max(greatest, outside[l, b])
        if q >= 0:
            for c in range(KC):
                greatest = max(greatest, outside[q, c])
    return greatest


@kernel
def _count_groups(
    turns,
    order,
    bounds,
    trees,
    tables,
    real,
    inside,
    outside,
    factor,
    row,
    out,
):
    for _ in range(len(bounds) - 1):
        g = take(turns)
        if g >= len(bounds) - 1:
            break
        first = order[bounds[g]]
        r = trees.rule[first]
        members = order[bounds[g] : bounds[g + 1]]
        count_rule(members, r, trees.left, trees.right, tables, inside, outside, factor, out[row[first]])
        parent, rule_left, rule_right, offset, stride, subtypes = tables
        o, A = offset[r], parent[r]
        KB = subtypes[rule_left[r]] if rule_left[r] >= 0 else 1
        KC = subtypes[rule_right[r]] if rule_right[r] >= 0 else 1
        for a in range(subtypes[A]):
            for x in range(KB * KC):
                out[row[first], o + a * stride[A] + x] *= real[row[first], o + a * stride[A] + x]


@njit(nogil=True, fastmath={"reassoc", "contract"})
def count_rule(members, r, left, right, tables, inside, outside, factor, out):
    """Add up, over nodes of one rule, what its weights must be multiplied by to be expected counts."""
    parent, rule_left, rule_right, offset, stride, subtypes = tables
    A = parent[r]
    for v in members:
        l, q = left[v], right[v]
        for a in range(subtypes[A]):
            x = outside[v, a] * factor[v]
            o = offset[r] + a * stride[A]
            if l < 0:
                out[o] += x
            elif q < 0:
                for b in range(subtypes[rule_left[r]]):
                    out[o + b] += x * inside[l, b]
            else:
                KC = subtypes[rule_right[r]]
                for b in range(subtypes[rule_left[r]]):
                    y = x * inside[l, b]
                    for c in range(KC):
                        out[o + b * KC + c] += y * inside[q, c]
