# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Trees drawn from a grammar with latent annotations, from the root downwards."""

# mypy: disable-error-code="no-untyped-def"
from typing import Any

import numpy as np
import torch

from pyrogram.charts.checks import TooLongError
from pyrogram.charts.runtime.compiling import kernel
from pyrogram.charts.runtime.random_numbers import seed_stream, uniform
from pyrogram.printable import plural

from . import leftmost
from .annotation_rules import AnnotationRules

TRIES = 10_000


def ancestral(
    weights: Any, rules: AnnotationRules, own: Any, max_length: int, seed: int, tries: int = TRIES
) -> tuple[Any, Any]:
    """Base rules and subtypes of trees of at most ``max_length`` nodes, shape ``(S, max_length)``, padded with -1.

    :param weights: normalised, shape ``(W, R)``.
    :param own: the grammar of each draw, shape ``(S,)``.
    :param tries: how often a tree is drawn again.
    :raises TooLongError: if so many in a row were too large.
    """
    trees, subtypes = (np.full((len(own), max_length), -1, np.int64) for _ in range(2))
    first = np.searchsorted(rules.parent, np.arange(len(rules.subtypes) + 1))
    weights = np.ascontiguousarray(weights, np.float64)
    good = _grow_all(weights, own, first, rules.start, seed, rules.tables, trees, subtypes, tries)
    if not good:
        raise TooLongError(
            f"{plural(tries, 'sampled tree')} in a row had more than {plural(max_length, 'node')}; "
            "raise max_length, make rules that end a tree likelier, or say too_long='truncate'"
        )
    return trees, subtypes


def truncated(weights: Any, rules: AnnotationRules, own: Any, max_length: int) -> tuple[Any, Any]:
    """Like :func:`ancestral`, but where an event would make a tree too large, the one that ends it soonest is taken.

    Nodes are the words of a context-free grammar over pairs of a symbol and a subtype: the rule A[a] -> B[b] C[c] is
    written as A[a] -> node B[b] C[c].
    """
    flat, base, subtype = _flat(rules)
    table, grammar = torch.from_numpy(np.ascontiguousarray(weights, np.float64)), torch.from_numpy(own)
    events = leftmost.ancestral(table, grammar, flat, max_length, cut=True)[1].numpy()
    trees, subtypes = (np.full((len(own), max_length), -1, np.int64) for _ in range(2))
    width = events.shape[1]
    trees[:, :width] = np.where(events >= 0, base[events], -1)
    subtypes[:, :width] = np.where(events >= 0, subtype[events], -1)
    return trees, subtypes


def _flat(rules: AnnotationRules) -> tuple[leftmost.FlatRules, Any, Any]:
    """The grammar over pairs, and the base rule and the parent's subtype of each event."""
    first = np.cumsum(rules.subtypes) - rules.subtypes
    lhs, base, subtype = (np.zeros(rules.num_events, np.int64) for _ in range(3))
    right: list[list[int]] = [[] for _ in range(rules.num_events)]
    for r, parent in enumerate(rules.parent):
        grid = rules.events(r)
        for (a, b, c), event in np.ndenumerate(grid):
            lhs[event], base[event], subtype[event] = first[parent] + a, r, a
            children = ((rules.left[r], b), (rules.right[r], c))
            right[event] = [-1, *(int(first[child]) + x for child, x in children if child >= 0)]
    return leftmost.FlatRules.of(lhs, right, int(first[rules.start])), base, subtype


@kernel
def _grow_all(weights, own, first, start, seed, tables, trees, annotations, tries):
    _, left, right, offset, stride, subtypes = tables
    n = trees.shape[1]
    state = np.zeros(1, np.uint64)
    wanted = np.empty((n + 2, 2), np.int64)  # symbol and subtype of what is still to be spelt out
    for s in range(len(own)):
        w = weights[own[s]]
        seed_stream(state, seed, s)
        good = False
        for _ in range(tries):
            trees[s], annotations[s] = -1, -1
            top, i = 1, 0
            wanted[0, 0], wanted[0, 1] = start, 0
            while 0 < top <= n - i:
                top -= 1
                A, a = wanted[top, 0], wanted[top, 1]
                u = uniform(state)
                rule, found = -1, 0
                for r in range(first[A], first[A + 1]):
                    cells = (subtypes[left[r]] if left[r] >= 0 else 1) * (subtypes[right[r]] if right[r] >= 0 else 1)
                    for x in range(cells):
                        p = w[offset[r] + a * stride[A] + x]
                        if p > 0.0:
                            rule, found = r, x
                            u -= p
                            if u < 0:
                                break
                    if u < 0:
                        break
                trees[s, i], annotations[s, i] = rule, a
                i += 1
                KC = subtypes[right[rule]] if right[rule] >= 0 else 1
                if right[rule] >= 0:
                    wanted[top, 0], wanted[top, 1] = right[rule], found % KC
                    top += 1
                if left[rule] >= 0:
                    wanted[top, 0], wanted[top, 1] = left[rule], found // KC
                    top += 1
            if top == 0:
                good = True
                break
        if not good:
            return False
    return True
