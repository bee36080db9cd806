# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The second-order events of dependency trees: nearest siblings and last children.

A head's children on one side are read from the nearest one outwards. A child's *sibling* is the child before it, the
nearest between it and the head; the head itself stands for none. After its *last* child the head stops; the head
itself stands for a side without children.
"""

import torch
from jaxtyping import Int
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
