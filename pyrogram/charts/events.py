# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The events of structures, as numbers of the elements of tables of scores in C order; -1 stands for none."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from .checks import broadcast_shapes


def total_score(scores: Float[Tensor, "*#batch E"], events: Int[Tensor, "*#batch k"]) -> Float[Tensor, "*#batch"]:
    """The sum of the scores of events, in nats. Batch dimensions broadcast."""
    batch = broadcast_shapes(scores.shape[:-1], events.shape[:-1])
    events = events.expand(*batch, -1)
    picked = scores.expand(*batch, -1).gather(-1, events.clamp_min(0))
    return torch.where(events >= 0, picked, 0.0).sum(-1)


def counted(events: Int[Tensor, "*batch k"], shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """How often each element of a table of this shape is among the events, ``(*batch, *shape)``."""
    zeros = torch.zeros(*events.shape[:-1], torch.Size(shape).numel(), dtype=dtype, device=events.device)
    counts: Tensor = zeros.scatter_add(-1, events.clamp_min(0), (events >= 0).to(dtype)).unflatten(-1, shape)
    return counts
