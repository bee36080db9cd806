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

from .annotation_rules import AnnotationRules, LinkedTrees


def top_k(log_weights: Any, rules: AnnotationRules, trees: LinkedTrees, own: Any, k: int) -> tuple[Any, Any]:
    """The k best annotations, shape ``(k, M)``, and their scores ``(k, B)``; -1 and -inf if there are fewer."""
    M, B = len(trees.rule), len(own)
    out, scores = np.full((k, M), -1, np.int64), np.full((k, B), -np.inf)
    weights = np.ascontiguousarray(log_weights, np.float64)

    def work(turns: Any) -> None:
        _best_trees(turns, trees, rules.tables, weights, own, out, scores)

    run_workers(work, cost=20.0 * M * rules.width**3 * k**2)
    return out, scores


@kernel
def _best_trees(
    turns,
    trees,
    tables,
    log_weights,
    own,
    out,
    scores,
):
    start, rule, left, right = trees
    parent, rule_left, rule_right, offset, stride, subtypes = tables
    k = len(out)
    width = 0
    for A in range(len(subtypes)):
        width = max(width, subtypes[A])
    for _ in range(len(own)):
        tree = take(turns)
        if tree >= len(own):
            break
        begin, end = start[tree], start[tree + 1]
        n = end - begin
        if n == 0:
            continue
        weights = log_weights[own[tree]]
        best = np.full((n, width, k), -np.inf)
        back = np.zeros((n, width, k, 4), np.int64)  # b, c, and which of the child's k best
        for v in range(end - 1, begin - 1, -1):
            r = rule[v]
            A = parent[r]
            l, q = left[v], right[v]
            KB = subtypes[rule_left[r]] if l >= 0 else 1
            KC = subtypes[rule_right[r]] if q >= 0 else 1
            for a in range(subtypes[A]):
                o = offset[r] + a * stride[A]
                own_best, own_back = best[v - begin, a], back[v - begin, a]
                for b in range(KB):
                    for c in range(KC):
                        w = weights[o + b * KC + c]
                        for i in range(k if l >= 0 else 1):
                            x = w + (best[l - begin, b, i] if l >= 0 else 0.0)
                            for j in range(k if q >= 0 else 1):
                                y = x + (best[q - begin, c, j] if q >= 0 else 0.0)
                                if not y > own_best[k - 1]:
                                    break
                                p = k - 1
                                while p > 0 and y > own_best[p - 1]:
                                    own_best[p] = own_best[p - 1]
                                    own_back[p] = own_back[p - 1]
                                    p -= 1
                                own_best[p] = y
                                own_back[p, 0], own_back[p, 1], own_back[p, 2], own_back[p, 3] = b, c, i, j
        rank = np.zeros(n, np.int64)
        for s in range(k):
            scores[s, tree] = best[0, 0, s]
            if best[0, 0, s] == -np.inf:
                continue
            rank[0], out[s, begin] = s, 0
            for v in range(begin, end):
                l, q = left[v], right[v]
                chosen = back[v - begin, out[s, v], rank[v - begin]]
                if l >= 0:
                    out[s, l], rank[l - begin] = chosen[0], chosen[2]
                if q >= 0:
                    out[s, q], rank[q - begin] = chosen[1], chosen[3]
