# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sums and products of logarithms in torch."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from string import ascii_letters

import torch
from torch import Tensor

from ..rules.language import Variable
from .tables import align

Part = tuple[Tensor, tuple[Variable, ...]]  # (*lead, *variables, left ends, B) and the variables


class Logarithms:
    """Log of a sum of exponentials. Where all is -inf, so is the sum, and every derivative is 0, never NaN.

    Factors have equally many leading axes, a number that the caller knows.

    :param looks: whether numbers may be looked at, which torch's transforms forbid. Then sums over symbols are products
        of matrices of numbers, each over the greatest of its cell, wherever nothing is lost by that.
    """

    def __init__(self, looks: bool = False) -> None:
        self.looks = looks

    def contraction(self, parts: Sequence[Part], wanted: tuple[Variable, ...], kept: int, lead: int) -> Tensor:
        """A product, summed over its leading axes and over all but the first ``kept`` variables."""
        if self.looks and len(parts) > 1 and len(wanted) > kept:
            found = self._of_numbers(parts, wanted, kept, lead)
            if found is not None:
                return found
        value = functools.reduce(operator.add, (align(x, variables, wanted) for x, variables in parts))
        dims = [*range(lead), *range(lead + kept, lead + len(wanted))]
        return self.total(value, dims) if dims else value

    @staticmethod
    def _of_numbers(parts: Sequence[Part], wanted: tuple[Variable, ...], kept: int, lead: int) -> Tensor | None:
        """The sum of products of numbers, of which none but zero is less than a float can be; None if one may be."""
        numbers, peaks, least = list[Part](), list[Tensor](), 0.0
        for value, variables in parts:
            axes = tuple(range(value.dim() - 2 - len(variables), value.dim() - 2))
            peak = value.detach().amax(axes, keepdim=True) if axes else value.detach()
            peak = peak.clamp_min(_lowest(value.dtype))
            least += _least(value.detach() - peak)
            numbers.append(((value - peak).exp(), variables))
            peaks.append(peak.squeeze(axes))
        scale = functools.reduce(operator.add, peaks)  # of each term of the leading sum, (*lead, left ends, B)
        top = scale.amax(tuple(range(lead)), keepdim=True) if lead else scale
        least += _least(scale - top)
        if not least > math.log(torch.finfo(top.dtype).tiny):
            return None
        if lead:
            numbers.append(((scale - top).exp(), ()))
            top = top.squeeze(tuple(range(lead)))
        total = _contraction(numbers, wanted, kept, lead)
        nothing = total.detach() == 0
        return (total + nothing).log().masked_fill(nothing, -torch.inf) + top

    def total(self, x: Tensor, dims: Sequence[int]) -> Tensor:
        """The sum over some dimensions."""
        if all(x.shape[d] == 1 for d in dims):
            return x.squeeze(tuple(dims))
        peak = x.detach().amax(tuple(dims), keepdim=True)
        total = (x - peak.clamp_min(torch.finfo(x.dtype).min)).exp().sum(tuple(dims))
        peak = peak.squeeze(tuple(dims))
        return (total + (peak == -torch.inf)).log() + peak

    def scattered(self, x: Tensor, owner: Tensor, count: int) -> Tensor:
        """Sums over the elements of the first dimension that have one owner, shape ``(count, ...)``."""
        fixed = x.detach()
        nothing = fixed.new_full((count, *x.shape[1:]), -torch.inf)
        index = owner.reshape(-1, *(1,) * (x.dim() - 1)).expand(x.shape)
        peak = nothing.scatter_reduce(0, index, fixed, "amax")
        powers = (x - peak.clamp_min(torch.finfo(x.dtype).min).index_select(0, owner)).exp()
        total = torch.zeros_like(nothing).index_add(0, owner, powers)
        return (total + (peak == -torch.inf)).log() + peak


def _least(logs: Tensor) -> float:
    """The least of some logarithms that is not that of zero."""
    return float(torch.where(logs > _lowest(logs.dtype) / 2, logs, 0.0).amin()) if logs.numel() else 0.0


def _lowest(dtype: torch.dtype) -> float:
    """Below all logarithms but that of zero, and in range even if some are added up."""
    return torch.finfo(dtype).min / 2**16


def _contraction(parts: Sequence[Part], wanted: tuple[Variable, ...], kept: int, lead: int) -> Tensor:
    """Einstein's sum of numbers, over the leading axes and all but the first ``kept`` variables."""
    letters = dict(zip([*range(lead), *wanted, "left", "B"], ascii_letters, strict=False))

    def term(axes: Sequence[object]) -> str:
        return "".join(letters[x] for x in axes)

    terms = [term([*range(lead), *variables, "left", "B"][-value.dim() :]) for value, variables in parts]
    known = [x for x in wanted[:kept] if any(x in variables for _, variables in parts)]
    found = torch.einsum(f"{','.join(terms)}->{term([*known, 'left', 'B'])}", *(value for value, _ in parts))
    return align(found, known, wanted[:kept])
