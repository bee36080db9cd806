# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Derivatives of log Z, and of its gradient, by torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def derivatives(
    log_z: Callable[..., Tensor],
    tables: Sequence[Tensor],
    gradients: Sequence[Tensor | None],
    scale: Tensor | None = None,
) -> tuple[Tensor, ...]:
    """The gradients by the tables, and by the scale, of log Z, or of log Z and its gradients by the tables.

    With a graph where gradients are enabled: a backward pass calls this.

    :param log_z: from the tables, shape ``(B,)``.
    :param gradients: of log Z, and of its gradients by the tables, which may be left out; None for zero.
    :param scale: what the log Z of each sentence is multiplied by in the gradients by the tables.
    """
    graph, inputs = torch.is_grad_enabled(), [*tables] if scale is None else [*tables, scale]

    def gradient(outputs: Sequence[Tensor], directions: Sequence[Tensor], by: int, graph: bool) -> list[Tensor]:
        pairs = [(y, g) for y, g in zip(outputs, directions, strict=True) if y.requires_grad]
        if not pairs:
            return [torch.zeros_like(t) for t in leaves[:by]]
        ys, gs = zip(*pairs, strict=True)
        gradients = torch.autograd.grad(
            ys, leaves[:by], gs, create_graph=graph, allow_unused=True, materialize_grads=True
        )
        return list(gradients)

    with torch.enable_grad():
        # Views, for a scale may depend on the tables.
        leaves = [t.view_as(t) if graph and t.requires_grad else t.detach().requires_grad_() for t in inputs]
        outputs = [log_z(*leaves[: len(tables)])]
        if len(gradients) > 1:
            ones = torch.ones_like(outputs[0]) if scale is None else leaves[-1]
            outputs += gradient(outputs, [ones], len(tables), True)
        directed = [(y, g) for y, g in zip(outputs, gradients, strict=False) if g is not None]
        gradients = gradient([y for y, _ in directed], [g for _, g in directed], len(leaves), graph)
        # A table that no sentence meets has a gradient of zero, which is to hang on the graph as the others do.
        anchor = torch.stack([0 * g.sum() for _, g in directed]).sum()
        return tuple(g if g.requires_grad or not graph else g + anchor for g in gradients)
