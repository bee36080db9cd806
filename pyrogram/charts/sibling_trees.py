# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The second-order events of dependency trees: nearest siblings, last children, and what a tree scores by them.

A head's children on one side are read from the nearest one outwards. A child's *sibling* is the child before it, the
nearest between it and the head; the head itself stands for none. After its *last* child the head stops; the head
itself stands for a side without children.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


def siblings_of(heads: Int[Tensor, "*batch n"]) -> Int[Tensor, "*batch n"]:
    """The sibling of each word, or its head if it is the first child on its side; anything in the padding."""
    c = torch.arange(1, heads.shape[-1] + 1, device=heads.device)
    h, r = heads[..., :, None], c
    same_head = heads[..., None, :] == h
    right = c > heads
    inner = torch.where(right[..., None], (h < r) & (r < c[:, None]), (c[:, None] < r) & (r < h))
    sibling = torch.where(same_head & inner, r, h)
    return torch.where(right, sibling.amax(-1), sibling.amin(-1))


def last_children(heads: Int[Tensor, "*batch n"]) -> Int[Tensor, "*batch n+1 2"]:
    """The outermost child of each position on its left and on its right, or the position itself if it has none."""
    n = heads.shape[-1]
    h = torch.arange(n + 1, device=heads.device)[:, None]
    c = torch.arange(1, n + 1, device=heads.device)
    child = torch.where(heads[..., None, :] == h, c, h)
    return torch.stack([child.amin(-1).minimum(h[:, 0]), child.amax(-1).maximum(h[:, 0])], -1)


def tree_scores(
    heads: Int[Tensor, "*#batch n"],
    arc_scores: Float[Tensor, "*#batch n+1 n+1"],
    sibling_scores: Float[Tensor, "*#batch n+1 n+1 n+1"],
    stop_scores: Float[Tensor, "*#batch n+1 2 n+1"] | None = None,
) -> Float[Tensor, "*#batch"]:
    """Score of each tree: its arcs, siblings and stops, padding left out. Batch dimensions broadcast.

    :param heads: trees, padded with -1.
    :param sibling_scores: [head, dependent, the dependent's sibling, or the head].
    :param stop_scores: [head, direction, last child, or the head]; the wall's are not read.
    """
    n = heads.shape[-1]
    N = n + 1
    real = heads >= 0
    pair = heads.clamp_min(0) * N + torch.arange(1, N, device=heads.device)
    score = _picked(arc_scores.flatten(-2), pair, real) + _picked(
        sibling_scores.flatten(-3), pair * N + siblings_of(heads).clamp_min(0), real
    )
    if stop_scores is not None:
        side = torch.arange(2 * N, device=heads.device)[2:]  # of words alone
        last = last_children(heads)[..., 1:, :].flatten(-2)
        score = score + _picked(stop_scores.flatten(-3), side * N + last, real.repeat_interleave(2, -1))
    return score


def _picked(scores: Float[Tensor, "*#batch E"], index: Tensor, real: Bool[Tensor, "*#batch k"]) -> Tensor:
    """The sum of the scores at the indices (*#batch k) that are real."""
    batch = torch.broadcast_shapes(scores.shape[:-1], index.shape[:-1])
    picked = scores.expand(*batch, -1).gather(-1, index.expand(*batch, -1))
    return torch.where(real, picked, 0.0).sum(-1)
