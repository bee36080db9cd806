# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Dirichlet priors given q, and a few steps of L-BFGS up an objective, whatever code computes it from parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.linalg import LinAlgError  # type: ignore[attr-defined]

from pyrogram.blocks import Block


def distinct(x: Tensor) -> Tensor:
    """A view with one of the numbers along each axis that repeats them, of extent 1; it expands to the same tensor."""
    return x[tuple(slice(None) if step else slice(1) for step in x.stride())]


def log_gamma(alpha: Tensor) -> Tensor:
    """log Γ of each concentration, in their shape; of a number that is repeated, as in symmetric priors, once."""
    return torch.lgamma(distinct(alpha)).expand(alpha.shape)


def expected_log_dirichlet(block: Block, prior: Tensor, expected_logs: Tensor) -> Tensor:
    """E_q[log p] of a Dirichlet site, float64: from its concentrations and E_q[log w], in nats."""
    alpha = prior.expand(expected_logs.shape)
    normaliser = torch.lgamma(block.sums(alpha)).sum() - log_gamma(alpha).sum()
    return (normaliser + ((alpha - 1) * expected_logs).sum()).to("cpu", torch.float64)


def maximise(
    parameters: Mapping[str, Tensor],
    objective: Callable[[], Tensor],
    steps: int = 10,
    value: Callable[[], Tensor] | None = None,
) -> bool:
    """A few steps of L-BFGS up an objective, kept only if it rises.

    :param parameters: unconstrained leaves, changed in place.
    :param value: the objective where they have come to, without a graph, if there is a better way to it.
    :returns: whether they were kept.
    """
    leaves = list(parameters.values())
    before = [p.detach().clone() for p in leaves]
    optimiser = torch.optim.LBFGS(leaves, max_iter=steps, line_search_fn="strong_wolfe")
    losses: list[float] = []

    def clear() -> None:  # what optimiser.zero_grad does, which takes as long as some operations
        for parameter in leaves:
            parameter.grad = None

    def closure() -> Tensor:
        clear()
        loss = -objective()
        if loss.requires_grad:
            loss.backward()
        losses.append(float(loss.detach()))
        return loss

    try:
        optimiser.step(closure)
        with torch.no_grad():
            risen = -float((value or objective)()) <= losses[0]
    except (ValueError, LinAlgError):  # a covariance that is no longer positive definite, say
        if not losses:
            raise
        risen = False
    clear()
    if not risen:
        with torch.no_grad():
            for parameter, old in zip(leaves, before, strict=True):
                parameter.copy_(old)
    return risen
