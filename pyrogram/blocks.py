# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Blocks: multinomials of one kind, whose weights are one tensor."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

__all__ = ["Block", "PackedBlock"]


@dataclass(frozen=True)
class Block:
    """One family of multinomials of equal size: the last dimension of ``shape`` holds the events.

    :param shape: shape of the block's weights; ``shape[:-1]`` indexes the multinomials.
    """

    shape: torch.Size

    @property
    def batch_dim(self) -> int:
        """Number of dimensions that index multinomials: what ``Dirichlet(...).to_event`` needs."""
        return len(self.shape) - 1

    def sums(self, values: Tensor) -> Tensor:
        """Sum over the events of each multinomial: ``(..., *shape)`` to ``(..., *multinomials)``."""
        return values.sum(-1)

    def broadcast(self, values: Tensor) -> Tensor:
        """A value of each multinomial for all its events, in a shape that broadcasts against ``(..., *shape)``."""
        return values.unsqueeze(-1)

    def totals(self, values: Tensor) -> Tensor:
        """Sum over the events of each multinomial; broadcasts against ``values``, shape ``(..., *shape)``."""
        return self.broadcast(self.sums(values))

    def normalize(self, values: Tensor) -> Tensor:
        """Divide by the totals; a multinomial with a total of zero, or too small to divide by, becomes uniform."""
        totals, tiny = self.totals(values), torch.finfo(values.dtype).tiny
        return torch.where(totals >= tiny, values / totals.clamp_min(tiny), self.uniform(values))

    def uniform(self, like: Tensor) -> Tensor:
        """The multinomials of equal outcomes, in the dtype and on the device of ``like``."""
        outcomes = like.new_ones(self.shape) * self.outcomes.to(like)
        return outcomes / self.totals(outcomes)

    @property
    def outcomes(self) -> Tensor:
        """How many outcomes each event stands for, one if it is none of several: broadcasts to ``shape``."""
        return torch.ones(())

    def softmax(self, values: Tensor) -> Tensor:
        """Weights of each multinomial from real numbers, shape ``(..., *shape)``: exp, divided by the totals."""
        return values.softmax(-1)

    def log_softmax(self, values: Tensor) -> Tensor:
        """Logarithms of :meth:`softmax`."""
        return values.log_softmax(-1)

    def logsumexp(self, values: Tensor) -> Tensor:
        """Log of the sum of exp over the events of each multinomial: ``(..., *shape)`` to ``(..., *multinomials)``."""
        return values.logsumexp(-1)


@dataclass(frozen=True)
class PackedBlock(Block):
    """Multinomials of different sizes, one after the other in the last dimension: the rules of a grammar, by left side.

    :param shape: ``(R,)``, the number of events of all multinomials; ``(K, R)`` of K such families.
    :param sizes: the number of events of each; they sum to R.
    :param lumped: how many outcomes each event stands for, shape ``(R,)``, float64; None: one each. A Dirichlet with
        parameter α for each outcome has the parameter α times this number for the event.
    """

    sizes: tuple[int, ...]
    lumped: Tensor | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if tuple(self.shape[-1:]) != (sum(self.sizes),) or min(self.sizes, default=0) < 1:
            raise ValueError(
                f"sizes must be positive and sum to shape (..., R) = {tuple(self.shape)}, not {self.sizes}"
            )

    @cached_property
    def owner(self) -> Tensor:
        """The multinomial of each event, shape ``(R,)``."""
        return torch.arange(len(self.sizes)).repeat_interleave(torch.tensor(self.sizes))

    @property
    def outcomes(self) -> Tensor:
        return super().outcomes if self.lumped is None else self.lumped

    def sums(self, values: Tensor) -> Tensor:
        empty = values.new_zeros(*values.shape[:-1], len(self.sizes))
        return empty.index_add(-1, self.owner.to(values.device), values)

    def broadcast(self, values: Tensor) -> Tensor:
        return values.index_select(-1, self.owner.to(values.device))

    def softmax(self, values: Tensor) -> Tensor:
        exp = (values - self.broadcast(self._greatest(values))).exp()
        return exp / self.totals(exp)

    def log_softmax(self, values: Tensor) -> Tensor:
        return values - self.broadcast(self.logsumexp(values))

    def logsumexp(self, values: Tensor) -> Tensor:
        greatest = self._greatest(values)
        sums = self.sums((values - self.broadcast(greatest)).exp())
        nothing = sums == 0  # its logarithm has no gradient, not an infinite one
        return torch.where(nothing, -torch.inf, torch.where(nothing, 1.0, sums).log() + greatest)

    def _greatest(self, values: Tensor) -> Tensor:
        """The greatest number of each multinomial, a constant for autograd; 0 where all are minus infinity."""
        owner = self.owner.to(values.device).expand(values.shape)
        lowest = values.new_full((*values.shape[:-1], len(self.sizes)), -torch.inf)
        greatest = lowest.scatter_reduce(-1, owner, values.detach(), "amax")
        return greatest.masked_fill(greatest == -torch.inf, 0.0)
