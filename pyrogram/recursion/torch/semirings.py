# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sums and products in torch: of plain numbers where these are in range, of logarithms everywhere."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


class Numbers:
    """Plain numbers, without any exponentials but of the weights; in float64.

    They are right if every weight and every cell but zero is within 2^-E .. 2^E, with p E <= 800 for rules of p
    factors: nothing overflows, and no product vanishes unless a factor is zero. The derivative of log Z by a cell is at
    most one over it, and cut at zero; so gradients are right, too, and derivatives up to the fifth.
    """

    zero, one = 0.0, 1.0
    of_log: Any = torch.exp  # a weight from its logarithm

    def contraction(self, factors: Sequence[Tensor], kept: int, lead: int) -> Tensor:
        """A product, summed over its leading axes and over all but the first ``kept`` variables.

        :param factors: each (*leading axes, *variables, left ends, B), of extent 1 along axes that it does not have.
        """
        axes = list(range(factors[0].dim()))
        dims = axes[:lead] + axes[lead + kept : -2]
        if len(factors) > 1 and len(dims) > lead:
            return torch.einsum(*(x for y in factors for x in (y, axes)), [a for a in axes if a not in dims])
        return self.total(functools.reduce(operator.mul, factors), dims)

    def total(self, x: Tensor, dims: Sequence[int]) -> Tensor:
        """The sum over some dimensions."""
        return x.sum(tuple(dims)) if dims else x

    def scattered(self, x: Tensor, owner: Tensor, count: int) -> Tensor:
        """Sums over the elements of the first dimension that have one owner, shape ``(count, ...)``.

        :param owner: in the shape of ``x``.
        """
        return x.new_zeros(count, *x.shape[1:]).scatter_add(0, owner, x)


def in_range(logs: Tensor, factors: int) -> bool:
    """Whether numbers with these logarithms are in range, in rules of so many factors."""
    # A factor of exp(-1e6) is zero: there would have to be thousands of others to make up for it.
    most = min(200, 800 // factors) * math.log(2)
    return bool((torch.where(logs < -1e6, 0.0, logs).abs() <= most).all())


class Logarithms(Numbers):
    """Log of a sum of exponentials. Where all is -inf, so is the sum, and every derivative is 0, never NaN.

    :param looks: whether numbers may be looked at, which torch's transforms forbid. Then sums over symbols are products
        of matrices of numbers, each over the greatest of its cell, wherever nothing is lost by that.
    """

    zero, one = -torch.inf, 0.0
    of_log: Any = torch.positive

    def __init__(self, looks: bool = False) -> None:
        self.looks = looks

    def contraction(self, factors: Sequence[Tensor], kept: int, lead: int) -> Tensor:
        dims = *range(lead), *range(lead + kept, factors[0].dim() - 2)
        if self.looks and len(factors) > 1 and len(dims) > lead:
            if (total := self._of_numbers(factors, dims, lead)) is not None:
                return total
        return self.total(functools.reduce(operator.add, factors), dims)

    @staticmethod
    def _of_numbers(factors: Sequence[Tensor], dims: Sequence[int], lead: int) -> Tensor | None:
        """The sum of products of numbers, of which none but zero is less than a float can be; None if one may be."""
        axes = list(range(factors[0].dim()))
        lowest = torch.finfo(factors[0].dtype).min / 2**16  # in range even if some are added up
        peaks = [x.detach().amax(axes[lead:-2], keepdim=True).clamp_min(lowest) for x in factors]
        scale = functools.reduce(operator.add, peaks)  # of each term of the leading sum
        top = scale.amax(axes[:lead], keepdim=True) if lead else scale
        logs = [x - peak for x, peak in zip(factors, [peaks[0] + (top - scale), *peaks[1:]], strict=True)]
        least = sum(float(torch.where(x > lowest / 2, x, 0.0).detach().amin()) for x in logs)  # but for that of zero
        if not least > math.log(torch.finfo(top.dtype).tiny):
            return None
        total = torch.einsum(*(x for y in logs for x in (y.exp(), axes)), [a for a in axes if a not in dims])
        nothing = total.detach() == 0
        return (total + nothing).log().masked_fill(nothing, -torch.inf) + top.squeeze(tuple(dims))

    def total(self, x: Tensor, dims: Sequence[int]) -> Tensor:
        dims = tuple(dims)
        if all(x.shape[d] == 1 for d in dims):
            return x.squeeze(dims)
        peak = x.detach().amax(dims, keepdim=True)
        total = (x - peak.clamp_min(torch.finfo(x.dtype).min)).exp().sum(dims)
        peak = peak.squeeze(dims)
        return (total + (peak == -torch.inf)).log() + peak

    def scattered(self, x: Tensor, owner: Tensor, count: int) -> Tensor:
        nothing = x.detach().new_full((count, *x.shape[1:]), -torch.inf)
        peak = nothing.scatter_reduce(0, owner, x.detach(), "amax")
        powers = (x - peak.clamp_min(torch.finfo(x.dtype).min).gather(0, owner)).exp()
        total = torch.zeros_like(nothing).scatter_add(0, owner, powers)
        return (total + (peak == -torch.inf)).log() + peak
