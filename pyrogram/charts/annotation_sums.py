# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sums over the subtypes of forests: log Z, posteriors, expected counts.

An inside vector is over the subtypes of a node. It is divided by its sum, whose logarithm is kept; outside vectors are
adjoints of log Z. What underflows matters only if it meets what is huge: a tree is to be done in logarithms
(:mod:`.annotation_torch`) if the sum of all adjoints that it has met is above :data:`GREATEST`, or if log Z is no
number.

Time O(K**3) for each rule of a node. Counts of a corpus are summed rule by rule once all trees are done: the order of
the sum does not depend on threads, and memory is nodes times K besides the weights and the counts.
"""

# mypy: disable-error-code="no-untyped-def"
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from pyrogram.charts.runtime.compiling import kernel
from pyrogram.charts.runtime.lanes import add_up, fill, fma, load, store
from pyrogram.charts.runtime.threads import run_workers, take

from . import annotation_torch
from .annotation_rules import AnnotationRules, Forest, Places, places_of

# A flushed quantity changes a posterior by at most tiny * GREATEST, far below the rounding error.
GREATEST = 2.0**900


class Sums(NamedTuple):
    """What is found for each node, and one more row that stands for a child that is none: one subtype, of weight 1.

    A row has room for K subtypes, in cells of eight.
    """

    inside: Any  # (M + 1, 8 W): zero from K on
    log_scale: Any  # (M + 1,): what inside vectors were divided by, all in all
    scale: Any  # (M,): and at this node
    outside: Any  # (M, 8 W): divided by scale; anything from K on
    factor: Any  # by branch: between the scales of its children and of the node
    posterior: Any  # by branch: of the rule with these children

    @property
    def log_inside(self) -> Any:
        """Logs of the weight below each node, shape ``(M + 1, 8 W)``; the last row is of what is no child."""
        with np.errstate(divide="ignore"):
            return np.log(self.inside) + self.log_scale[:, None]


class Scratch(NamedTuple):
    """Of the rule at hand: the outer product of the children's inside vectors, and its adjoint."""

    product: Any  # zero behind the last one
    adjoint: Any
    nobody: Any  # the adjoint of a child that is none


def make_sums(num_nodes: int, num_branches: int, width: int) -> Sums:
    """Room for a forest."""
    width = -(-width // 8) * 8
    inside, log_scale = np.zeros((num_nodes + 1, width)), np.zeros(num_nodes + 1)
    inside[-1, 0] = 1.0
    outside, scale = np.zeros((num_nodes, width)), np.ones(num_nodes)
    return Sums(inside, log_scale, scale, outside, np.zeros(num_branches), np.zeros(num_branches))


def make_scratch(width: int) -> Scratch:
    """Room for one rule."""
    return Scratch(np.zeros(width**2 + 16), np.zeros(width**2 + 16), np.zeros(width + 8))


@njit(nogil=True)
def below(r, tables):
    """Numbers of subtypes of the left and the right child of a rule, 1 where there is none."""
    KB = tables.subtypes[tables.left[r]] if tables.left[r] >= 0 else 1
    return KB, (tables.subtypes[tables.right[r]] if tables.right[r] >= 0 else 1)


@njit(nogil=True)
def sum_forest(lo, hi, grammar, weights, shift, s, scratch):
    """Fill the sums of the nodes lo .. hi - 1, of which the first one is the root; returns log Z and the bound.

    :param grammar: a forest, :class:`.Tables` and :class:`.Places`.
    :param weights: where places say; numbers, no logarithms. Eights are read from anywhere.
    :param shift: the log of what the weights of each rule were divided by.
    """
    _inside(lo, hi, grammar, weights, shift, s, scratch)
    bound = np.inf
    if s.log_scale[lo] > -np.inf:
        bound = _outside(lo, hi, grammar, weights, s, scratch)
    return s.log_scale[lo], bound


@njit(nogil=True, error_model="numpy")
def _inside(lo, hi, grammar, weights, shift, s, scratch):
    forest, tables, places = grammar
    zero = fill(weights, 0.0)
    for v in range(hi - 1, lo - 1, -1):
        x, end = forest.first[v], forest.first[v + 1]
        K, row, reference = tables.subtypes[tables.parent[forest.rule[x]]], s.inside[v], -np.inf
        row[:] = 0.0
        for y in range(x, end):
            s.factor[y] = s.log_scale[forest.left[y]] + s.log_scale[forest.right[y]] + shift[forest.rule[y]]
            reference = max(reference, s.factor[y])
        while x < end and reference > -np.inf:
            r = forest.rule[x]
            KB, KC = below(r, tables)
            eights = (KB * KC + 7) // 8
            for i in range(eights):
                store(scratch.product, i, zero)
            while x < end and forest.rule[x] == r:
                s.factor[x] = np.exp(s.factor[x] - reference)
                _multiply(s.factor[x], s.inside[forest.left[x]], s.inside[forest.right[x]], KB, KC, scratch.product)
                x += 1
            for a in range(K):
                table, total = weights[places.at[x - 1] + a * places.step[r] :], zero
                for i in range(eights):
                    total = fma(load(table, i), load(scratch.product, i), total)
                row[a] += add_up(total)
        scale = row.sum()
        if 0.0 < scale < np.inf:
            row /= scale
            s.scale[v] = scale
            s.log_scale[v] = reference + np.log(scale)
        else:
            row[:] = 0.0
            s.log_scale[v] = -np.inf


@njit(nogil=True)
def _multiply(factor, left, right, KB, KC, product):
    """Add the outer product of the children's inside vectors; the padding of rows is zero, and adds nothing."""
    for b in range(KB):
        value, row = fill(product, factor * left[b]), product[b * KC :]
        for i in range((KC + 7) // 8):
            store(row, i, fma(value, load(right, i), load(row, i)))


@njit(nogil=True, error_model="numpy")
def _outside(lo, hi, grammar, weights, s, scratch):
    """Adjoints of the vectors before they are divided by their sums; returns the sum of all adjoints."""
    forest, tables, places = grammar
    bound = zero = fill(weights, 0.0)
    s.outside[lo:hi] = 0.0
    s.outside[lo, 0] = 1.0
    for v in range(lo, hi):
        x, end = forest.first[v], forest.first[v + 1]
        row, K = s.outside[v], tables.subtypes[tables.parent[forest.rule[x]]]
        row /= s.scale[v]
        while x < end and s.log_scale[v] > -np.inf:
            r, at = forest.rule[x], places.at[x]
            KB, KC = below(r, tables)
            eights = (KB * KC + 7) // 8
            store(scratch.adjoint, eights, zero)  # read with the last row
            for i in range(eights):
                total = zero
                for a in range(K):
                    total = fma(fill(row, row[a]), load(weights[at + a * places.step[r] :], i), total)
                store(scratch.adjoint, i, total)
                bound = bound + total
            while x < end and forest.rule[x] == r:
                s.posterior[x] = s.factor[x] * _hand_down(x, KB, KC, forest, s, scratch)
                x += 1
    return add_up(bound)


@njit(nogil=True)
def _hand_down(x, KB, KC, forest, s, scratch):
    """From the adjoint of a product to those of the children; returns adjoint times product."""
    u, v = forest.left[x], forest.right[x]
    left, right, posterior = s.inside[u], s.inside[v], 0.0
    for_left = s.outside[u] if u >= 0 else scratch.nobody
    for_right = s.outside[v] if v >= 0 else scratch.nobody
    for b in range(KB):
        row, total = scratch.adjoint[b * KC :], fill(left, 0.0)
        value = fill(left, s.factor[x] * left[b])
        for i in range((KC + 7) // 8):
            g = load(row, i)
            total = fma(g, load(right, i), total)
            store(for_right, i, fma(g, value, load(for_right, i)))
        for_left[b] += s.factor[x] * add_up(total)
        posterior += left[b] * add_up(total)
    return posterior


@njit(nogil=True)
def add_nodes(members, forest, tables, s, scratch, tree_weights, table):
    """Sum what the weights of a rule are multiplied by to be expected counts, into a table.

    :param members: nodes of trees that have this rule.
    :param tree_weights: what each node counts.
    """
    r = forest.rule[members[0]]
    KB, KC = below(r, tables)
    K, eights = tables.subtypes[tables.parent[r]], (KB * KC + 7) // 8
    table[: K * KB * KC + 8] = 0.0
    for v in members:
        if tables.left[r] < 0:
            for a in range(K):
                table[a] += tree_weights[v] * s.outside[v, a]
            continue
        scratch.product[: 8 * eights] = 0.0
        _multiply(tree_weights[v], s.inside[forest.left[v]], s.inside[forest.right[v]], KB, KC, scratch.product)
        for a in range(K):
            value, row = fill(table, s.outside[v, a]), table[a * KB * KC :]
            for i in range(eights):
                store(row, i, fma(value, load(scratch.product, i), load(row, i)))


def without_greatest(rules: AnnotationRules, log_weights: Any) -> tuple[Any, Any]:
    """Weights, those of a rule divided by the greatest of them, and its log, shape ``(W, R0)``.

    The weights have shape ``(W, R + 8)``, for eights are read from anywhere.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        shift = rules.reduced(np.maximum, log_weights)
        shift = np.where(shift == -np.inf, 0.0, shift)
        weights = np.zeros((len(log_weights), rules.num_events + 8))
        np.exp(log_weights - rules.spread(shift), out=weights[:, :-8])
    return weights, shift


def sum_trees(
    forest: Forest, rules: AnnotationRules, places: Places, weights: Any, shift: Any, model: Any
) -> tuple[Sums, Any, Any]:
    """Sums of all nodes, log Z of each tree, -inf where there is none, and its bound."""
    sums = make_sums(len(forest.first) - 1, len(forest.rule), rules.width)
    log_z, bounds = np.full(len(model), -np.inf), np.zeros(len(model))

    def work(turns: Any) -> None:
        grammar = forest, rules.tables, places
        _sum_trees(turns, grammar, weights, shift, model, (sums, make_scratch(rules.width)), (log_z, bounds))

    run_workers(work, cost=4.0 * len(forest.rule) * rules.width**3)
    return sums, log_z, bounds


class Posteriors:
    """log Z of each tree, shape ``(B,)``, and what is made of its posteriors.

    :param log_weights: float, shape ``(W, R)``: W grammars.
    :param model: the grammar of each tree, shape ``(B,)``.
    """

    def __init__(self, log_weights: Any, rules: AnnotationRules, trees: Forest, model: Any):
        self.log_weights, self.rules, self.trees, self.model = log_weights, rules, trees, model
        self.rows = np.repeat(model, trees.lengths)  # the grammar of each node
        self.places = places_of(rules, trees)
        self.weights, shift = without_greatest(rules, log_weights)
        self.sums, log_z, bounds = sum_trees(trees, rules, self.places, self.weights, shift, model)
        self.log_z = log_z
        self.in_logs = np.flatnonzero(~(np.isfinite(log_z) & (bounds <= GREATEST)) & (trees.lengths > 0))
        """The trees that are done in logarithms."""
        if len(self.in_logs):
            self._logs = self._posteriors_in_logs(np.ones(len(model)))
            log_z[self.in_logs] = self._logs.log_z
            self.sums.outside[self._logs.nodes] = 0.0

    def _posteriors_in_logs(self, tree_weights: Any) -> annotation_torch.InLogs:
        places = Places(self.places.at + self.rows * self.rules.num_events, self.places.step)
        return annotation_torch.posteriors(self.log_weights, places, self.rules, self.trees, self.in_logs, tree_weights)

    def log_inside(self) -> Any:
        """:attr:`Sums.log_inside`."""
        inside = self.sums.log_inside
        if len(self.in_logs):
            inside[self._logs.nodes, : self.rules.width] = self._logs.log_inside
        return inside

    def node_marginals(self) -> Any:
        """p(subtype of each node | tree), shape ``(M, K)``."""
        marginals = (self.sums.inside[:-1] * self.sums.outside * self.sums.scale[:, None])[:, : self.rules.width]
        if len(self.in_logs):
            marginals[self._logs.nodes] = self._logs.marginals
        return marginals

    def counts(self, tree_weights: Any = None) -> Any:
        """Expected counts summed over the trees of each grammar, shape ``(W, R)``.

        :param tree_weights: what each tree counts, shape ``(B,)``; 1 by default.
        """
        out, rows, width = np.zeros(self.log_weights.shape), self.rows, self.rules.width
        tree_weights = np.ones(len(self.model)) if tree_weights is None else tree_weights
        by_node = np.repeat(tree_weights, self.trees.lengths)
        groups = grouped(rows * len(self.rules.parent) + self.trees.rule)[:2]
        grammar = self.trees, self.rules.tables, self.places

        def work(turns: Any) -> None:
            own = make_scratch(width), by_node, np.empty(width**3 + 8)
            _count(turns, groups, grammar, self.weights, rows, self.sums, own, out)

        run_workers(work, cost=4.0 * len(rows) * width**3)
        if len(self.in_logs):
            out += self._posteriors_in_logs(tree_weights).counts
        return out


def grouped(keys: Any) -> tuple[Any, Any, Any]:
    """Equal keys together: an order, where groups begin and end in it (G + 1), and the key of each."""
    order = np.argsort(keys, kind="stable")
    unique, first = np.unique(keys[order], return_index=True)
    return order, np.append(first, len(order)), unique


@kernel
def _sum_trees(turns, grammar, weights, shift, model, work, results):
    trees = grammar[0]
    (s, scratch), (log_z, bounds) = work, results
    for _ in range(len(model)):
        b = take(turns)
        if b >= len(model):
            break
        lo, hi, row = trees.start[b], trees.start[b + 1], model[b]
        if lo < hi:
            log_z[b], bounds[b] = sum_forest(lo, hi, grammar, weights[row], shift[row], s, scratch)


@kernel
def _count(turns, groups, grammar, weights, rows, s, work, out):
    trees, tables, places = grammar
    order, bounds = groups
    scratch, by_node, table = work
    for _ in range(len(bounds) - 1):
        g = take(turns)
        if g >= len(bounds) - 1:
            break
        members = order[bounds[g] : bounds[g + 1]]
        v = members[0]
        add_nodes(members, trees, tables, s, scratch, by_node, table)
        r, mine, numbers = trees.rule[v], out[rows[v]], weights[rows[v]]
        for a in range(tables.subtypes[tables.parent[r]]):
            o, n = places.at[v] + a * places.step[r], tables.cells[r]
            for i in range(n):
                mine[o + i] = table[a * n + i] * numbers[o + i]
