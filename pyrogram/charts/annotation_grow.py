# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Trees drawn from a grammar with latent annotations, from the root downwards."""

from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pyrogram.charts.checks import TooLongError
from pyrogram.printable import plural

from . import leftmost
from .annotation_rules import AnnotationRules


def ancestral(
    weights: Tensor, rules: AnnotationRules, model: Tensor, max_length: int, cut: bool, tries: int
) -> tuple[Tensor, Tensor]:
    """Base rules and subtypes of trees of at most ``max_length`` nodes, shape ``(S, max_length)``, padded with -1.

    Nodes are the words of a context-free grammar over pairs of a symbol and a subtype: the rule A[a] -> B[b] C[c] is
    written as A[a] -> node B[b] C[c].

    :param weights: normalised, shape ``(G, R)``.
    :param model: the grammar of each draw, shape ``(S,)``.
    :param cut: where an event would make a tree too large, take the one that ends it soonest.
    :param tries: how often a tree is drawn.
    :raises TooLongError: if so many in a row were too large.
    """
    flat, base, subtype = _flat(rules)
    try:
        events = leftmost.ancestral(weights, model, flat, max_length, cut, tries)[1].numpy()
    except TooLongError:
        raise TooLongError(
            f"{plural(tries, 'sampled tree')} in a row had more than {plural(max_length, 'node')}; "
            "raise max_length, make rules that end a tree likelier, or say too_long='truncate'"
        ) from None
    trees, subtypes = (np.full((len(model), max_length), -1, np.int64) for _ in range(2))
    width = events.shape[1]
    trees[:, :width] = np.where(events >= 0, base[events], -1)
    subtypes[:, :width] = np.where(events >= 0, subtype[events], -1)
    return torch.from_numpy(trees), torch.from_numpy(subtypes)


@lru_cache(maxsize=8)
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
