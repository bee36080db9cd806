# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Labels of the parts of a structure that are independent of each other, given the structure."""

from __future__ import annotations

import torch
from torch import Tensor


def log_sum(scores: Tensor) -> Tensor:
    """The log of the sum over the last dimension, whose gradient is zero where all are -inf."""
    possible = (scores > -torch.inf).any(-1)
    return torch.where(possible, torch.where(possible[..., None], scores, 0.0).logsumexp(-1), -torch.inf)


def best_labellings(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k best ways to give one label to each part of a structure, best first.

    The k best of the parts up to one are among the k best of those before it, with its k best labels.

    :param scores: shape ``(*batch, parts, L)``.
    :returns: their scores, ``(*batch, k)``, -inf where there are fewer, and labels, ``(*batch, k, parts)``.
    """
    parts = scores.shape[-2]
    own, names = scores.topk(min(k, scores.shape[-1]), -1)
    total = scores.new_zeros(*scores.shape[:-2], 1)
    labels = names.new_zeros(*scores.shape[:-2], 1, 0)
    for part in range(parts):
        every = (total[..., :, None] + own[..., part, None, :]).flatten(-2)
        total, chosen = every.topk(min(k, every.shape[-1]), -1)
        before, label = chosen // own.shape[-1], chosen % own.shape[-1]
        labels = torch.cat(
            [
                labels.gather(-2, before[..., None].expand(*before.shape, part)),
                names[..., part, :].gather(-1, label)[..., None],
            ],
            -1,
        )
    missing = k - total.shape[-1]
    total = torch.nn.functional.pad(total, (0, missing), value=-torch.inf)
    return total, torch.nn.functional.pad(labels, (0, 0, 0, missing))
