# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Derivatives of log Z, and of its gradient, by torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def derivatives(
    outputs: Callable[..., Sequence[Tensor]], inputs: Sequence[Tensor], gradients: Sequence[Tensor]
) -> tuple[Tensor, ...]:
    """The gradients by the inputs of a function, in the directions of the gradients by its outputs.

    With a graph where gradients are enabled: a backward pass calls this.
    """
    graph = torch.is_grad_enabled()
    with torch.enable_grad():
        # Views, for one input may depend on another.
        leaves = [t.view_as(t) if graph and t.requires_grad else t.detach().requires_grad_() for t in inputs]
        by_input = gradients_by(leaves, outputs(*leaves), gradients, graph)
        # An input that no sentence meets has a gradient of zero, which is to hang on the graph as the others do.
        anchor = torch.stack([0 * g.sum() for g in gradients]).sum()
        return tuple(g if g.requires_grad or not graph else g + anchor for g in by_input)


def gradients_by(
    inputs: Sequence[Tensor], outputs: Sequence[Tensor], gradients: Sequence[Tensor], graph: bool
) -> tuple[Tensor, ...]:
    """As ``torch.autograd.grad``, but an output may depend on no input."""
    pairs = [(y, g) for y, g in zip(outputs, gradients, strict=True) if y.requires_grad]
    options = {"create_graph": graph, "allow_unused": True, "materialize_grads": True}
    return torch.autograd.grad([y for y, _ in pairs], inputs, [g for _, g in pairs], **options)
