# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Log Z and expected counts by torch, without a graph: in logarithms, wherever the tensors are."""

from __future__ import annotations

import torch
from torch import Tensor

from ..tensors.engine import SumsInTorch
from ..tensors.given import Given


def log_counts_in_torch(
    engine: SumsInTorch, given: Given, *, counts: bool = True, scale: Tensor | None = None, by_sentence: bool = False
) -> tuple[Tensor, dict[str, Tensor]]:
    """Log Z, shape ``(B,)``, and expected counts in the shapes of the weights; NaN where log Z is.

    :param scale: what the counts of each sentence are multiplied by, shape ``(B,)``.
    :param by_sentence: counts of shape ``(B, ..)`` also of tables that sentences share.
    """
    B, dtype = len(given.lengths), given.dtype
    with torch.inference_mode(False), torch.enable_grad():
        tables = [w.detach().to(dtype) for w in given.weights.values()]
        wide = [w.expand(B, *w.shape[1:]) if by_sentence else w for w in tables]
        few = given.with_copies().with_weights([w.clone().requires_grad_(counts) for w in wide])
        log_z = engine.log_partition(few.weights, few.lengths, few.words, few.sizes, few.list_tensors())
        if not counts:
            return log_z, {}
        leaves = list(few.weights.values())
        if not log_z.requires_grad:  # it depends on no weight
            return log_z, {name: torch.zeros_like(w) for name, w in few.weights.items()}
        total = (log_z if scale is None else log_z * scale.detach()).sum()
        found = torch.autograd.grad(total, leaves, allow_unused=True, materialize_grads=True)
    unknown = log_z.detach().isnan()
    by_name = dict(zip(few.weights, found, strict=True))
    for name, table in by_name.items():
        if len(table) == B:
            by_name[name] = table.masked_fill(unknown.reshape(-1, *[1] * (table.dim() - 1)), torch.nan)
    return log_z.detach(), by_name
