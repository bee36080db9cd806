# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sweeps of collapsed variational Bayes over trees with latent annotations, tree by tree.

Weights are pseudo-counts over their totals, and differ by tree. A tree's *own* counts are a table for each distinct
rule that it has, one after the other, a row for each subtype of the parent; its nodes that have the same rule are a
*group*. Only the events of its own rules are looked at: O(K**3) a node.
"""

# mypy: disable-error-code="no-untyped-def"
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from pyrogram.charts.runtime.compiling import kernel
from pyrogram.charts.runtime.lanes import add_up, fill, fma, load, store

from . import annotation_torch
from .annotation_rules import AnnotationRules, Forest, Places
from .annotation_sums import GREATEST, add_nodes, grouped, make_scratch, make_sums, sum_forest
from .lanes_log import log


class Groups(NamedTuple):
    """The groups of all trees, one tree after the other."""

    start: Any
    """The groups of a tree, shape ``(B + 1,)``."""
    begin: Any
    """Where the own counts of a tree begin, shape ``(B + 1,)``."""
    rule: Any
    """(G,)"""
    place: Any
    """The first number of each group's table among the own counts of its tree, shape ``(G,)``."""
    members: Any
    """Nodes, group by group."""
    first: Any
    """The members of a group, shape ``(G + 1,)``."""


class Layout(NamedTuple):
    """Where own counts lie."""

    rules: AnnotationRules
    trees: Forest
    groups: Groups
    places: Places
    """By node, among the own counts of its tree."""

    @property
    def size(self) -> int:
        """Numbers in the own counts of all trees."""
        return int(self.groups.begin[-1])


class Corpus(NamedTuple):
    """Numbers of all trees: by event, and by multinomial."""

    counts: Any
    alpha: Any
    count_totals: Any
    alpha_totals: Any


def make_layout(rules: AnnotationRules, trees: Forest) -> Layout:
    """Where the own counts of trees lie."""
    of_tree = np.repeat(np.arange(len(trees.lengths)), trees.lengths)
    members, first, keys = grouped(of_tree * len(rules.parent) + trees.rule)
    rule = keys % len(rules.parent)
    end = np.concatenate([[0], np.cumsum((rules.subtypes[rules.parent] * rules.cells)[rule])])
    start = np.searchsorted(keys // len(rules.parent), np.arange(len(trees.lengths) + 1))
    place = end[:-1] - np.repeat(end[start[:-1]], np.diff(start))
    at = np.empty(len(members), np.int64)
    at[members] = np.repeat(place, np.diff(first))
    return Layout(rules, trees, Groups(start, end[start], rule, place, members, first), Places(at, rules.cells))


def total(layout: Layout, tree_counts: Any, chosen: Any) -> Any:
    """Counts of some trees, shape ``(R,)``."""
    out = np.zeros(layout.rules.num_events)
    _add_trees(layout.rules.tables, layout.groups, chosen, tree_counts, out)
    return out


def expect(layout: Layout, weights: Any, out: Any) -> tuple[Any, Any]:
    """Write own counts under given weights, shape ``(R,)``, over zeros; returns log Z and entropy of each tree.

    They are concentrations whose totals are one, and no tree has counts before all are done.
    """
    num = len(layout.rules.sizes)
    corpus = Corpus(np.zeros_like(weights), weights, np.zeros(num), np.ones(num))
    order = np.arange(len(layout.trees.lengths))
    return _run(layout, corpus, out, out, order, len(order))


def collapsed_vb(
    layout: Layout, counts: Any, alpha: Any, tree_counts: Any, out: Any, order: Any, batch_size: int
) -> tuple[Any, Any]:
    """One sweep; see :meth:`pyrogram.collapsed.CollapsedUpdates.collapsed_vb`.

    :param counts: shape ``(R,)``, changed.
    :param alpha: shape ``(R,)``.
    :returns: log Z and entropy of each tree, -inf if it has no derivation.
    """
    sizes = layout.rules.sizes
    starts = np.cumsum(sizes) - sizes
    totals = (np.add.reduceat(x, starts) if len(sizes) else np.zeros(0) for x in (counts, alpha))
    results = _run(layout, Corpus(counts, np.ascontiguousarray(alpha), *totals), tree_counts, out, order, batch_size)
    np.maximum(counts, 0.0, out=counts)
    return results


class Work(NamedTuple):
    """Memory for the tree at hand."""

    weights: Any  # as its own counts lie
    taken: Any  # by multinomial, of the tree's own counts
    table: Any  # of a group
    shift: Any  # by rule: weights are not divided
    ones: Any  # by node


def _run(layout: Layout, corpus: Corpus, tree_counts: Any, out: Any, order: Any, batch_size: int) -> tuple[Any, Any]:
    rules, trees, groups, places = layout
    log_z, entropies = (np.full(len(trees.lengths), -np.inf) for _ in range(2))
    room = int(np.diff(groups.begin).max(initial=0)) + 8  # eights are read from anywhere
    vectors = make_sums(len(trees.rule), len(trees.rule), rules.width), make_scratch(rules.width)
    taken, shift = np.zeros(len(rules.sizes)), np.zeros(len(rules.parent))
    work = Work(np.zeros(room), taken, np.zeros(rules.width**3 + 8), shift, np.ones(len(trees.rule)))
    grammar = trees, rules.tables, rules.first_multinomial, groups, places
    at, batch_size = 0, max(batch_size, 1)
    while at < len(order):
        at = _sweep(at, grammar, vectors, work, corpus, tree_counts, out, order, batch_size, (log_z, entropies))
        for b in order[at : at + batch_size]:  # a batch with a tree that is to be done in logarithms
            lo, hi = groups.begin[b], groups.begin[b + 1]
            if log_z[b] == -np.inf and lo < hi:
                _weigh(b, grammar, work, corpus, tree_counts[lo:hi])
                log_z[b], entropies[b] = _in_logs(layout, b, work.weights[: hi - lo], out[lo:hi])
        _replace(order[at : at + batch_size], grammar, corpus, tree_counts, out)
        at += batch_size
    return log_z, entropies


def _in_logs(layout: Layout, b: Any, weights: Any, out: Any) -> tuple[float, float]:
    """Write the counts of a tree; returns log Z and entropy."""
    with np.errstate(divide="ignore"):
        logs = np.log(weights)
    all_ones = np.ones(len(layout.trees.lengths))
    found = annotation_torch.posteriors(logs, layout.places, layout.rules, layout.trees, np.array([b]), all_ones)
    out[:] = found.counts
    log_z = float(found.log_z[0])
    return log_z, log_z - float(found.counts @ np.where(found.counts > 0, logs, 0.0))


@kernel
def _sweep(at, grammar, vectors, work, corpus, tree_counts, out, order, batch_size, results):
    """Do one batch after the other, from a place on; returns where one begins of which a tree could not be done."""
    trees, _, _, groups, _ = grammar
    log_z, entropies = results
    for first in range(at, len(order), batch_size):
        batch, done = order[first : first + batch_size], True
        for b in batch:
            if trees.start[b] < trees.start[b + 1]:
                lo, hi = groups.begin[b], groups.begin[b + 1]
                _weigh(b, grammar, work, corpus, tree_counts[lo:hi])
                log_z[b], entropies[b] = _do_tree(b, grammar, vectors, work, out[lo:hi])
                done = done and log_z[b] > -np.inf
        if not done:
            return first
        _replace(batch, grammar, corpus, tree_counts, out)
    return len(order)


@njit(nogil=True)
def _do_tree(b, grammar, vectors, work, out):
    """Write the counts of a tree; returns log Z, -inf where numbers do not hold it, and entropy."""
    trees, tables, _, groups, places = grammar
    sums, scratch = vectors
    lo, hi = trees.start[b], trees.start[b + 1]
    log_z, bound = sum_forest(lo, hi, (trees, tables, places), work.weights, work.shift, sums, scratch)
    if not (bound <= GREATEST and log_z < np.inf):
        return -np.inf, -np.inf
    score = fill(work.table, 0.0)
    for g in range(groups.start[b], groups.start[b + 1]):
        members, at = groups.members[groups.first[g] : groups.first[g + 1]], groups.place[g]
        add_nodes(members, trees, tables, sums, scratch, work.ones, work.table)
        r, weights = groups.rule[g], work.weights[at:]
        num = tables.subtypes[tables.parent[r]] * tables.cells[r]
        for i in range((num + 7) // 8):  # what is behind the table is zero
            weight = load(weights, i)
            x = load(work.table, i) * weight
            store(work.table, i, x)
            score = fma(x, log(weight), score)
        for i in range(num):
            out[at + i] = work.table[i]
    return log_z, log_z - add_up(score)


@kernel
def _weigh(b, grammar, work, corpus, tree_counts):
    """Weights of a tree's rules: the counts of all others, max(f - counts, 0) + alpha, over their totals."""
    _, tables, first, groups, _ = grammar
    work.taken[:] = 0.0
    for g in range(groups.start[b], groups.start[b + 1]):
        r, y = groups.rule[g], groups.place[g]
        A, n = tables.parent[r], tables.cells[r]
        for a in range(tables.subtypes[A]):
            e, end = tables.offset[r] + a * tables.stride[A], y + n
            own, weights = tree_counts[y:end], work.weights[y:end]
            work.taken[first[A] + a] += _take_out(own, corpus.counts[e:], corpus.alpha[e:], weights)
            y = end
    for g in range(groups.start[b], groups.start[b + 1]):
        r, y = groups.rule[g], groups.place[g]
        A, n = tables.parent[r], tables.cells[r]
        for m in range(first[A], first[A] + tables.subtypes[A]):
            rest = max(corpus.count_totals[m] - work.taken[m], 0.0) + corpus.alpha_totals[m]
            inverse = 1.0 / rest
            for i in range(y, y + n):
                work.weights[i] *= inverse
            y += n


@njit(nogil=True, fastmath={"reassoc"})
def _take_out(own, counts, alpha, weights):
    """Pseudo-counts without a tree's own counts; returns the sum of these."""
    taken = 0.0
    for i in range(len(own)):
        weights[i] = max(counts[i] - own[i], 0.0) + alpha[i]
        taken += own[i]
    return taken


@kernel
def _replace(batch, grammar, corpus, tree_counts, out):
    """Take the counts of trees out of the shared ones and put the new ones in.

    What rounding leaves of nothing may be below it; whoever reads it sees to that.
    """
    _, tables, first, groups, _ = grammar
    for b in batch:
        for g in range(groups.start[b], groups.start[b + 1]):
            r, y = groups.rule[g], groups.begin[b] + groups.place[g]
            A, n = tables.parent[r], tables.cells[r]
            for a in range(tables.subtypes[A]):
                e, end = tables.offset[r] + a * tables.stride[A], y + n
                change = _exchange(tree_counts[y:end], out[y:end], corpus.counts[e:])
                corpus.count_totals[first[A] + a] += change
                y = end


@njit(nogil=True, fastmath={"reassoc"})
def _exchange(old, new, counts):
    """Take old counts out and put new ones in; returns the change of their sum."""
    change = 0.0
    for i in range(len(old)):
        x = new[i] - old[i]
        counts[i] += x
        change += x
    return change


@kernel
def _add_trees(tables, groups, chosen, tree_counts, out):
    for b in chosen:
        for g in range(groups.start[b], groups.start[b + 1]):
            r, y = groups.rule[g], groups.begin[b] + groups.place[g]
            A, n = tables.parent[r], tables.cells[r]
            for a in range(tables.subtypes[A]):
                e = tables.offset[r] + a * tables.stride[A]
                for i in range(n):
                    out[e + i] += tree_counts[y + i]
                y += n
