# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Observed trees with latent annotations in logarithms, by plain torch: any device, any derivative, any scale.

Nodes of one height are done at once. Memory is K**3 numbers a node.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from .annotation_rules import AnnotationRules, Forest, Places, places_of

_MOST = 2**22  # numbers of nodes that are done at once, where derivatives can be summed


def log_partition(log_weights: Tensor, rules: AnnotationRules, trees: Forest, model: Any) -> Tensor:
    """log Z of each tree, shape ``(B,)``; -inf where there is no derivation.

    :param log_weights: shape ``(W, R)``.
    :param model: the grammar of each tree, shape ``(B,)``.
    """
    at, step = places_of(rules, trees)
    at = at + np.repeat(model, trees.lengths) * rules.num_events
    return of_roots(inside(log_weights.reshape(-1), Places(at, step), rules, trees), trees)


def of_roots(log_inside: Tensor, trees: Forest) -> Tensor:
    """log Z of each tree from what is below its nodes."""
    nothing = log_inside.new_full((1,), -torch.inf)
    is_tree = trees.lengths > 0
    return torch.cat([log_inside[:, 0], nothing])[torch.from_numpy(np.where(is_tree, trees.start[:-1], -1))]


def inside(
    log_weights: Tensor, places: Places, rules: AnnotationRules, trees: Forest, of_nodes: Tensor | None = None
) -> Tensor:
    """Logs of the weight below each node, shape ``(M, K)``.

    :param log_weights: of any numbers, where ``places`` say.
    :param of_nodes: log weights of the subtypes of nodes, shape ``(M, K)``.
    """
    K, device = rules.width, log_weights.device
    padded = torch.cat([log_weights, log_weights.new_full((1,), -torch.inf)])
    heights = trees.heights()
    order = np.argsort(heights, kind="stable")
    rows = np.zeros(len(order) + 1, np.int64)  # of nodes among those that are done; the first is what is no child
    rows[order] = 1 + np.arange(len(order))
    row = torch.from_numpy(rows).to(device)
    done = log_weights.new_full((1, K), -torch.inf)
    done[0, 0] = 0.0
    for nodes in np.split(order, np.flatnonzero(np.diff(heights[order])) + 1) if len(order) else ():
        weights = padded[torch.from_numpy(_events(nodes, places, rules, trees)).to(device)]
        left, right = (done[row[torch.from_numpy(child[nodes]).to(device)]] for child in (trees.left, trees.right))
        sums = _log_sum((weights + left[:, None, :, None] + right[:, None, None, :]).flatten(2))
        done = torch.cat([done, sums if of_nodes is None else sums + of_nodes[nodes]])
    return done[row[:-1]]


def _events(nodes: Any, places: Places, rules: AnnotationRules, trees: Forest) -> Any:
    """Where the weights of some nodes are, shape ``(len(nodes), K, K, K)``; -1 where there is none."""
    r, K = trees.rule[nodes], rules.width
    sizes = rules.subtypes[rules.parent[r]], rules.left_subtypes[r], rules.right_subtypes[r]
    KA, KB, KC, at, step = (x[:, None, None, None] for x in (*sizes, places.at[nodes], places.step[r]))
    a, b, c = np.ogrid[:K, :K, :K]
    return np.where((a < KA) & (b < KB) & (c < KC), at + a * step + b * KC + c, -1)


def _log_sum(terms: Tensor) -> Tensor:
    """logsumexp over the last dimension; the gradient of nothing but -inf is zero."""
    greatest = terms.detach().amax(-1)
    possible = greatest > -torch.inf
    greatest = torch.where(possible, greatest, 0.0)
    total = (terms - greatest[..., None]).exp().sum(-1)
    return torch.where(possible, torch.where(possible, total, 1.0).log() + greatest, -torch.inf)


class InLogs(NamedTuple):
    """What :func:`posteriors` finds of some trees."""

    counts: Any
    """In the shape of the weights."""
    nodes: Any
    log_z: Any
    """(len(chosen),)"""
    log_inside: Any
    """(len(nodes), K)"""
    marginals: Any
    """p(subtype of each node | tree), times the weight of its tree, shape ``(len(nodes), K)``."""


def posteriors(
    log_weights: Any, places: Places, rules: AnnotationRules, trees: Forest, chosen: Any, tree_weights: Any
) -> InLogs:
    """Sums and posteriors of some trees, zero where log Z is no number; arrays.

    :param tree_weights: what each tree counts, shape ``(B,)``.
    """
    found, total = [], np.zeros(log_weights.size)
    after = np.cumsum(trees.lengths[chosen] * rules.width**3)
    for part in np.split(chosen, np.flatnonzero(np.diff(after // _MOST)) + 1):
        some, nodes = trees.some(part)
        with torch.inference_mode(False), torch.enable_grad():
            leaf = torch.from_numpy(np.array(log_weights, np.float64).reshape(-1)).requires_grad_()
            of_nodes = torch.zeros(len(nodes), rules.width, dtype=torch.float64, requires_grad=True)
            log_inside = inside(leaf, Places(places.at[nodes], places.step), rules, some, of_nodes)
            log_z = of_roots(log_inside, some)
            counted = torch.where(log_z.isfinite(), log_z, 0.0 * log_inside.nan_to_num().sum())
            scale = torch.from_numpy(np.asarray(tree_weights[part], np.float64))
            counts, marginals = torch.autograd.grad((counted * scale).sum(), (leaf, of_nodes))
        total += counts.numpy()
        found.append([nodes, *(x.detach().numpy() for x in (log_z, log_inside, marginals))])
    return InLogs(total.reshape(log_weights.shape), *(np.concatenate(parts) for parts in zip(*found, strict=True)))
