# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Labels of the parts of a structure that are independent of each other, given the structure."""

from __future__ import annotations

import torch
from torch import Tensor


def best_labellings(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k best ways to give one label to each part of a structure, best first.

    The k best of the parts up to one are among the k best of those before it, with its k best labels.

    :param scores: shape ``(*batch, parts, L)``.
    :returns: their scores, ``(*batch, k)``, -inf where there are fewer, and labels, ``(*batch, k, parts)``.
    """
    num_parts = scores.shape[-2]
    values, names = scores.topk(min(k, scores.shape[-1]), -1)
    total = scores.new_zeros(*scores.shape[:-2], 1)
    labels = names.new_zeros(*scores.shape[:-2], 1, 0)
    for part in range(num_parts):
        sums = (total[..., :, None] + values[..., part, None, :]).flatten(-2)
        total, chosen = sums.topk(min(k, sums.shape[-1]), -1)
        before, label = chosen // values.shape[-1], chosen % values.shape[-1]
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
