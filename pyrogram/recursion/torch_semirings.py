# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sums over axes of log weights, for charts in torch: of their exponentials, or the greatest."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor


class Semiring(ABC):
    """What a chart asks for beside the addition of logarithms."""

    @abstractmethod
    def total(self, x: Tensor, dims: Sequence[int]) -> Tensor:
        """The sum over some dimensions."""

    @abstractmethod
    def scattered(self, x: Tensor, owner: Tensor, count: int) -> Tensor:
        """Sums over the elements of the first dimension that have one owner, shape ``(count, ...)``."""


class Logarithms(Semiring):
    """Log of a sum of exponentials. Where all is -inf, so is the sum, and every derivative is 0, never NaN."""

    def total(self, x: Tensor, dims: Sequence[int]) -> Tensor:
        if all(x.shape[d] == 1 for d in dims):
            return x.squeeze(tuple(dims))
        peak = x.detach().amax(tuple(dims), keepdim=True)
        total = (x - peak.clamp_min(torch.finfo(x.dtype).min)).exp().sum(tuple(dims))
        peak = peak.squeeze(tuple(dims))
        return (total + (peak == -torch.inf)).log() + peak

    def scattered(self, x: Tensor, owner: Tensor, count: int) -> Tensor:
        fixed = x.detach()
        nothing = fixed.new_full((count, *x.shape[1:]), -torch.inf)
        index = owner.reshape(-1, *(1,) * (x.dim() - 1)).expand(x.shape)
        peak = nothing.scatter_reduce(0, index, fixed, "amax")
        powers = (x - peak.clamp_min(torch.finfo(x.dtype).min).index_select(0, owner)).exp()
        total = torch.zeros_like(nothing).index_add(0, owner, powers)
        return (total + (peak == -torch.inf)).log() + peak


class Greatest(Semiring):
    """The greatest. The gradient of nothing but -inf is 0."""

    def total(self, x: Tensor, dims: Sequence[int]) -> Tensor:
        best = x.amax(tuple(dims))
        return best.masked_fill(best.detach() == -torch.inf, -torch.inf)

    def scattered(self, x: Tensor, owner: Tensor, count: int) -> Tensor:
        index = owner.reshape(-1, *(1,) * (x.dim() - 1)).expand(x.shape)
        best = x.new_full((count, *x.shape[1:]), -torch.inf).scatter_reduce(0, index, x, "amax")
        return best.masked_fill(best.detach() == -torch.inf, -torch.inf)

