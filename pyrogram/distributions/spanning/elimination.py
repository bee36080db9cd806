# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The matrix-tree theorem without subtraction, in torch: any device, any number of derivatives, torch's transforms.

The total weight of all spanning trees is a determinant (Koo et al. 2007; Smith and Smith 2007; McDonald and Satta
2007). Its pivots are found as Grassmann, Taksar and Heyman (1985) find those of a Markov chain, by additions of
positive numbers alone. With weights a[h, d] of arcs, words are eliminated from the last to the first: word k has

    s[k] = sum over h < k of a[h, k],    and then    a[h, d] += a[h, k] a[k, d] / s[k]  for all h, d < k,

the arcs from h to d by way of k. Z is the product of all s[k]. ROOT is head 0, and stays. As nothing is subtracted,
nothing cancels, whatever the scores, and logarithms do.

Trees with one root are those of weight t when every arc from ROOT has the weight t times its own: the coefficient of t
in Z. For an infinitesimal t a sum is its term of lowest order. Arcs between words have order 0 and remain so. An arc
from ROOT has order 1, until it leads by way of a word that has no other head left, and is *bound* to it: then s[k] has
order 1, too, and the new arc from ROOT has order 0. So ROOT has two rows, of either order, and the order of Z is the
number of words that are bound: where that is not 1, no tree has one root.
"""

from __future__ import annotations

import torch
from torch import Tensor

from pyrogram.recursion.torch.semirings import Logarithms

_sum = Logarithms().total


def log_partition(scores: Tensor, lengths: Tensor, multiroot: bool) -> Tensor:
    """Log Z, shape ``(B,)``; -inf, with derivatives zero, where there is no tree.

    O(n^3) time, in n operations; with derivatives O(n^3) memory, too.

    :param scores: shape ``(B, n+1, n+1)`` [head, dependent].
    """
    N = scores.shape[-1]
    position = torch.arange(N, device=scores.device)
    real = position <= lengths[:, None]
    possible = real[:, :, None] & real[:, None, :] & (position[:, None] != position)
    scores = scores.masked_fill(~possible, -torch.inf)[..., 1:]
    real, out_of_root, words = real[:, 1:], scores[:, 0], scores[:, 1:]
    # What stands in the padding hangs on ROOT by arcs of order 0 and weight 1.
    if multiroot:
        order_0, order_1 = out_of_root.masked_fill(~real, 0.0), torch.full_like(out_of_root, -torch.inf)
    else:
        order_0, order_1 = torch.full_like(out_of_root, -torch.inf).masked_fill(~real, 0.0), out_of_root
    arcs = torch.cat([order_0[:, None], words], 1)  # of order 0; row h is head h
    # Every word has one head, so its arcs may have a common factor, here their greatest.
    peak = torch.maximum(arcs.detach().amax(1), order_1.detach())
    peak = peak.masked_fill(peak == -torch.inf, 0.0)
    arcs, order_1, log_z = arcs - peak[:, None], order_1 - peak, peak.sum(-1)
    num_bound = torch.zeros_like(lengths)
    for k in range(N - 1, 0, -1):  # word k is column k - 1
        column, row = arcs[:, :k, k - 1], arcs[:, k, : k - 1]
        total = _sum(column, (1,))
        is_bound = total.detach() == -torch.inf
        num_bound = num_bound + is_bound
        log_z = log_z + torch.where(is_bound, order_1[:, k - 1], total)
        total = total.masked_fill(is_bound, 0.0)
        shares = torch.cat([column[:, :1].masked_fill(is_bound[:, None], 0.0), column[:, 1:]], 1) - total[:, None]
        share_of_order_1 = (
            order_1[:, k - 1] - total
        )  # of a word that is bound it counts nothing, beside that of order 0
        arcs = _sum(torch.stack([arcs[:, :k, : k - 1], shares[:, :, None] + row[:, None]]), (0,))
        order_1 = _sum(torch.stack([order_1[:, : k - 1], share_of_order_1[:, None] + row]), (0,))
    impossible = log_z.detach() == -torch.inf
    if not multiroot:
        impossible = impossible | (num_bound > 1)
    return log_z.masked_fill(impossible, -torch.inf)
