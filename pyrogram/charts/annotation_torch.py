# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""log Z of observed trees with latent annotations by plain torch: any device, any derivative, for few trees.

Nodes of one height are done at once, in log space. Memory is K**3 numbers a node.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from .annotation_rules import AnnotationRules, LinkedTrees


def log_partition(log_weights: Tensor, rules: AnnotationRules, trees: LinkedTrees, model: Any) -> Tensor:
    """log Z of each tree, shape ``(B,)``; -inf where there is no derivation.

    :param log_weights: shape ``(W, R)``.
    :param model: the grammar of each tree, shape ``(B,)``.
    """
    W, R = log_weights.shape
    device = log_weights.device
    padded = torch.cat([log_weights, log_weights.new_full((W, 1), -torch.inf)], -1)
    row = np.repeat(model, trees.lengths)
    heights = trees.heights()
    order = np.argsort(heights, kind="stable")
    place = np.empty_like(order)  # of a node in the order in which they are done; the last row is what is no child
    place[order] = np.arange(len(order))
    K = rules.width
    events = _events(rules, np.unique(trees.rule)) if len(order) else np.zeros((0, K, K, K), np.int64)
    index_of = np.searchsorted(np.unique(trees.rule), trees.rule)
    nothing = log_weights.new_full((1, K), -torch.inf)
    nothing[0, 0] = 0.0
    done = [nothing]
    for height in range(int(heights.max(initial=-1)) + 1):
        nodes = order[np.searchsorted(heights[order], [height])[0] : np.searchsorted(heights[order], [height + 1])[0]]
        index = torch.from_numpy(events[index_of[nodes]]).to(device)
        w = padded[torch.from_numpy(row[nodes]).to(device)[:, None, None, None], index]
        below = torch.cat(done)
        left, right = (
            torch.from_numpy(np.where(child[nodes] >= 0, place[child[nodes]] + 1, 0)).to(device)
            for child in (trees.left, trees.right)
        )
        terms = w + below[left][:, None, :, None] + below[right][:, None, None, :]
        done = [below, _log_sum(terms.flatten(2))]
    inside = torch.cat(done)
    root = torch.from_numpy(np.append(place, -1)[np.minimum(trees.start[:-1], len(place))] + 1).to(device)
    is_tree = torch.from_numpy(trees.lengths > 0).to(device)
    return torch.where(is_tree, inside[root, 0], -torch.inf)


def _events(rules: AnnotationRules, wanted: Any) -> Any:
    """Positions of the events of some rules, shape ``(len(wanted), K, K, K)``; R where there is none."""
    K = rules.width
    out = np.full((len(wanted), K, K, K), rules.num_events, np.int64)
    for i, r in enumerate(wanted):
        events = rules.events(r)
        a, b, c = events.shape
        out[i, :a, :b, :c] = events
    return out


def _log_sum(terms: Tensor) -> Tensor:
    """logsumexp over the last dimension; the gradient of nothing but -inf is zero."""
    greatest = terms.detach().amax(-1)
    possible = greatest > -torch.inf
    greatest = torch.where(possible, greatest, 0.0)
    total = (terms - greatest[..., None]).exp().sum(-1)
    return torch.where(possible, torch.where(possible, total, 1.0).log() + greatest, -torch.inf)
