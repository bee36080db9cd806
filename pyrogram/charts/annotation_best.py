# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The k best annotations of observed trees, from log weights: each node keeps the k best of each of its subtypes.

Time O(K**3 k**2) a node.
"""

# mypy: disable-error-code="no-untyped-def"
from typing import Any

import numpy as np

from pyrogram.charts.runtime.compiling import kernel
from pyrogram.charts.runtime.threads import run_workers, take

from .annotation_log import children, places_of
from .annotation_rules import AnnotationRules, LinkedTrees


def top_k(log_weights: Any, rules: AnnotationRules, trees: LinkedTrees, model: Any, k: int) -> tuple[Any, Any]:
    """The k best annotations, shape ``(k, M)``, and their scores ``(k, B)``; -1 and -inf if there are fewer."""
    M, B = len(trees.rule), len(model)
    out, scores = np.full((k, M), -1, np.int64), np.full((k, B), -np.inf)
    weights = np.ascontiguousarray(log_weights, np.float64)

    def work(turns: Any) -> None:
        _best_trees(turns, trees, rules.tables, places_of(rules, trees), weights, model, out, scores)

    run_workers(work, cost=20.0 * M * rules.width**3 * k**2)
    return out, scores


@kernel
def _best_trees(turns, trees, tables, places, log_weights, model, out, scores):
    k, K = len(out), tables.subtypes.max()
    for _ in range(len(model)):
        tree = take(turns)
        if tree >= len(model):
            break
        begin, end = trees.start[tree], trees.start[tree + 1]
        n = end - begin
        if n == 0:
            continue
        weights = log_weights[model[tree]]
        best = np.full((n + 1, K, k), -np.inf)
        best[-1, 0, 0] = 0.0  # of what is no child
        back = np.zeros((n, K, k, 4), np.int64)  # b, c, and which of the child's k best
        for v in range(end - 1, begin - 1, -1):
            r = trees.rule[v]
            KB, KC, l, q = children(v, begin, trees, tables)
            left, right = best[l], best[q]
            for a in range(tables.subtypes[tables.parent[r]]):
                o = places.at[v] + a * places.step[r]
                here, way = best[v - begin, a], back[v - begin, a]
                for b in range(KB):
                    for c in range(KC):
                        w = weights[o + b * KC + c]
                        for i in range(k):
                            for j in range(k):
                                y = w + left[b, i] + right[c, j]
                                if not y > here[k - 1]:
                                    break
                                p = k - 1
                                while p > 0 and y > here[p - 1]:
                                    here[p], way[p] = here[p - 1], way[p - 1]
                                    p -= 1
                                here[p] = y
                                way[p, 0], way[p, 1], way[p, 2], way[p, 3] = b, c, i, j
        rank = np.zeros(n + 1, np.int64)
        for s in range(k):
            scores[s, tree] = best[0, 0, s]
            if best[0, 0, s] == -np.inf:
                continue
            rank[0], out[s, begin] = s, 0
            for v in range(begin, end):
                _, _, l, q = children(v, begin, trees, tables)
                chosen = back[v - begin, out[s, v], rank[v - begin]]
                rank[l], rank[q] = chosen[2], chosen[3]
                if trees.left[v] >= 0:
                    out[s, trees.left[v]] = chosen[0]
                if trees.right[v] >= 0:
                    out[s, trees.right[v]] = chosen[1]
