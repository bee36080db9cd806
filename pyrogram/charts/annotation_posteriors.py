# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The CPU engine for latent annotations of observed trees: log Z, expected counts, posteriors of nodes.

All derivations of a tree use the same base rules. So each rule's weights are divided by the greatest of them, exactly,
and trees are summed by :mod:`.annotation_lanes`; those that these numbers do not hold, by :mod:`.annotation_log`.

Time O(K**3) a node. Counts are summed rule by rule once all trees are done: the order of the sum does not depend on
threads, each rule's weights are read once, and memory is nodes times K besides the weights and the counts.
"""

# mypy: disable-error-code="no-untyped-def"
from typing import Any

import numpy as np

from pyrogram.charts.runtime.compiling import kernel
from pyrogram.charts.runtime.threads import run_workers, take

from .annotation_cells import event_at, events_of, grouped, make_cells
from .annotation_lanes import Totals, add_nodes, make_scratch, make_vectors, sum_tree, vectors_of
from .annotation_log import log_posteriors, places_of
from .annotation_rules import AnnotationRules, LinkedTrees


class Posteriors:
    """log Z of each tree, shape ``(B,)``, and what is made of its posteriors.

    :param log_weights: float, shape ``(W, R)``: W grammars.
    :param own: the grammar of each tree, shape ``(B,)``.
    """

    def __init__(self, log_weights: Any, rules: AnnotationRules, trees: LinkedTrees, model: Any):
        self.log_weights, self.rules, self.trees, self.model = log_weights, rules, trees, model
        self.cells, cost = make_cells(rules), 4.0 * len(trees.rule) * rules.width**3
        self.row = np.repeat(model, trees.lengths)
        self.groups = order, bounds, keys = grouped(self.row * len(rules.parent) + trees.rule)
        self.weights, greatest = np.empty((len(log_weights), 8 * self.cells.size)), np.zeros(len(keys))
        self.vectors = make_vectors(self.cells, len(trees.rule))
        self.log_z = np.full(len(model), -np.inf)
        is_subtype = np.arange(8 * self.cells.width) < rules.subtypes[:, None]
        totals = Totals(is_subtype.reshape(-1).astype(np.float64), np.zeros(is_subtype.size))

        def exponentiate(turns: Any) -> None:
            _exponentiate(turns, keys, log_weights, self.cells, self.weights, greatest)

        def sum_trees(turns: Any) -> None:
            scratch = make_scratch(self.cells)
            _sum_trees(turns, trees, self.cells, self.weights, model, totals, self.vectors, scratch, self.log_z)

        run_workers(exponentiate, cost=20.0 * log_weights.size)
        run_workers(sum_trees, cost=cost)
        shift = np.empty(len(order))
        shift[order] = np.repeat(greatest, np.diff(bounds))
        self.log_z += np.bincount(np.repeat(np.arange(len(model)), trees.lengths), shift, len(model))
        self.in_logs = np.flatnonzero(~np.isfinite(self.log_z) & (trees.lengths > 0))
        """The trees that are done in logarithms."""
        for b in self.in_logs:
            self.log_z[b] = self._log_posteriors(b)[0]

    def node_marginals(self) -> Any:
        """p(subtype of each node | tree), shape ``(M, K)``."""
        inside, above, scale = self.vectors
        marginals = (inside * above).reshape(len(scale), 8 * self.cells.width)[:, : self.rules.width] * scale[:, None]
        for b in self.in_logs:
            marginals[self.trees.start[b] : self.trees.start[b + 1]] = self._log_posteriors(b)[1]
        return marginals

    def counts(self, tree_weights: Any = None) -> Any:
        """Expected counts summed over the trees of each grammar, shape ``(W, R)``.

        :param tree_weights: what each tree counts, shape ``(B,)``; 1 by default.
        """
        out, vectors = np.zeros(self.log_weights.shape), self.vectors
        if tree_weights is not None:
            by_number = np.repeat(tree_weights, self.trees.lengths * (8 * self.cells.width))
            vectors = vectors._replace(above=vectors.above * by_number)

        def work(turns: Any) -> None:
            scratch = make_scratch(self.cells)
            _count_groups(turns, self.groups[:2], self.trees, self.cells, self.weights, vectors, self.row, scratch, out)

        run_workers(work, cost=4.0 * len(self.row) * self.rules.width**3)
        for b in self.in_logs:
            self._log_posteriors(b, 1.0 if tree_weights is None else float(tree_weights[b]), out[self.model[b]])
        return out

    def _log_posteriors(self, b: Any, scale: float = 0.0, out: Any = None) -> tuple[float, Any]:
        """log Z of a tree and the posteriors of its nodes; counts, times a scale, are added to ``out`` (R,)."""
        begin, end = self.trees.start[b], self.trees.start[b + 1]
        marginals = np.zeros((end - begin, self.rules.width))
        weights = np.ascontiguousarray(self.log_weights[self.model[b]], np.float64)
        trees = self.trees, self.rules.tables, places_of(self.rules, self.trees)
        out = np.zeros(0) if out is None else out
        return log_posteriors(begin, end, *trees, weights, scale, marginals, out)[0], marginals


@kernel
def _exponentiate(turns, keys, log_weights, cells, weights, greatest):
    """Weights of the rules that occur, divided by each rule's greatest, into cells; and the log of that."""
    R0 = len(cells.parent)
    for _ in range(len(keys)):
        g = take(turns)
        if g >= len(keys):
            break
        row, r = keys[g] // R0, keys[g] % R0
        best, num, K = -np.inf, events_of(r, cells), cells.subtypes[cells.parent[r]]
        for a in range(K):
            e, _ = event_at(r, a, cells)
            for x in range(num):
                best = max(best, float(log_weights[row, e + x]))
        if not best > -np.inf:
            best = 0.0
        greatest[g] = best
        weights[row, 8 * cells.start[r] : 8 * (cells.start[r] + cells.rows[r] * cells.each[r])] = 0.0
        for a in range(K):
            e, y = event_at(r, a, cells)
            for x in range(num):
                weights[row, y + x] = np.exp(log_weights[row, e + x] - best)


@kernel
def _sum_trees(turns, trees, cells, weights, model, totals, vectors, scratch, log_z):
    place = cells.start[trees.rule]
    for _ in range(len(model)):
        b = take(turns)
        if b >= len(model):
            break
        lo, hi = trees.start[b], trees.start[b + 1]
        if lo < hi:
            s = vectors_of(lo, hi, cells, vectors)
            log_z[b], _ = sum_tree(lo, hi, trees, cells, place, weights[model[b]], totals, s, scratch)


@kernel
def _count_groups(turns, groups, trees, cells, weights, vectors, row, scratch, out):
    order, bounds = groups
    for _ in range(len(bounds) - 1):
        g = take(turns)
        if g >= len(bounds) - 1:
            break
        members = order[bounds[g] : bounds[g + 1]]
        r, w = trees.rule[members[0]], row[members[0]]
        add_nodes(members, 0, trees, cells, vectors, scratch)
        for a in range(cells.subtypes[cells.parent[r]]):
            e, y = event_at(r, a, cells)
            for x in range(events_of(r, cells)):
                out[w, e + x] = scratch.table[y - 8 * cells.start[r] + x] * weights[w, y + x]
