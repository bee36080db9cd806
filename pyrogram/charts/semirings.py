# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Semirings for charts whose cells are tensors.

A cell has shape ``(K, ...)``: K ranks first (1 unless the k best are kept), then whatever the chart puts
side by side. Multiplying by a plain score is ``+`` in all of them, so a chart needs three operations:
``one``, ``plus``, and ``dot``, the sum of products over the splits of a span.
"""

from abc import ABC, abstractmethod

import torch
from torch import Tensor


class Semiring(ABC):
    """What a chart asks of a semiring; ``left[p], right[p]`` are the ranks of the factors of product p."""

    ranks: int
    left: Tensor
    right: Tensor

    @abstractmethod
    def one(self, cells: Tensor) -> Tensor:
        """The neutral element of products, shape ``(K, *cells.shape)``."""

    @abstractmethod
    def plus(self, a: Tensor, b: Tensor) -> Tensor:
        """Sum of two cells."""

    @abstractmethod
    def dot(self, a: Tensor, b: Tensor) -> Tensor:
        """Sum over s of the products of ``a[s]`` and ``b[s]``."""


class LogSemiring(Semiring):
    """(log-sum-exp, +): the total weight. Differentiable any number of times."""

    ranks = 1

    def __init__(self, device: torch.device | None = None) -> None:
        self.left = self.right = torch.zeros(1, dtype=torch.long, device=device)

    def one(self, cells: Tensor) -> Tensor:
        return torch.zeros_like(cells)[None]

    def plus(self, a: Tensor, b: Tensor) -> Tensor:
        return log_sum_exp(torch.stack([a, b]))

    def dot(self, a: Tensor, b: Tensor) -> Tensor:
        return log_sum_exp(a + b)


class KBestSemiring(Semiring):
    """The k largest scores, best first, -inf where there are fewer; k = 1 is (max, +)."""

    def __init__(self, k: int, device: torch.device | None = None) -> None:
        self.ranks = k
        # The product of ranks i and j (from 0) is beaten by (i + 1)(j + 1) - 1 others: the rest are enough.
        pairs = [(i, j) for i in range(k) for j in range(k // (i + 1))]
        self.left, self.right = torch.tensor(pairs, dtype=torch.long, device=device).unbind(1)

    def one(self, cells: Tensor) -> Tensor:
        rest = cells.new_full((self.ranks - 1, *cells.shape), -torch.inf)
        return torch.cat([torch.zeros_like(cells)[None], rest])

    def plus(self, a: Tensor, b: Tensor) -> Tensor:
        return self._best(torch.cat([a, b]))

    def dot(self, a: Tensor, b: Tensor) -> Tensor:
        if self.ranks == 1:
            return (a + b).amax(0)
        return self._best((a[:, self.left] + b[:, self.right]).flatten(0, 1))

    def _best(self, scores: Tensor) -> Tensor:
        return scores.topk(self.ranks, dim=0).values


def log_sum_exp(x: Tensor) -> Tensor:
    """Over the first dimension; where all is -inf the value is -inf and every derivative is 0, never NaN."""
    peak = x.detach().amax(0)
    empty = peak == -torch.inf
    total = (x - peak.clamp_min(torch.finfo(x.dtype).min)).exp().sum(0)
    return (total + empty).log() + peak
