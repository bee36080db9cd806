# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Gaussians of many vectors at once, with a covariance matrix or with variances alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyro.distributions as dist
import torch
from pyro.distributions import TorchDistribution
from torch import Tensor

from pyrogram.checks import broadcast_shapes


@dataclass(frozen=True, eq=False)
class Gaussian:
    """Parameters of N(loc, covariance), one for each vector of a family; exactly one of the last two is given.

    They broadcast: one matrix or one number serves all vectors. The tensors are kept as they are given, so that a loop
    recognises a ``pyro.param`` among them by identity.

    :param loc: means, shape ``(*batch, length)``.
    :param covariance: positive definite, shape ``(*batch, length, length)``.
    :param variance: positive, shape ``(*batch, length)``: a diagonal covariance.
    :raises ValueError: if both covariance and variance are given, or neither, or if shapes do not fit together.
    """

    loc: Tensor
    covariance: Tensor | None = None
    variance: Tensor | None = None

    def __post_init__(self) -> None:
        if (self.covariance is None) == (self.variance is None):
            raise ValueError("a Gaussian needs either covariance or variance, not both or neither")
        _ = self.shape

    @property
    def shape(self) -> torch.Size:
        """``(*batch, length)``, as loc and covariance or variance broadcast."""
        loc = tuple(self.loc.shape)
        if self.covariance is None:
            assert self.variance is not None
            return _broadcast(loc, "variance", self.variance.shape, self.variance.shape)
        shape = self.covariance.shape
        if len(shape) < 2 or shape[-1] != shape[-2]:
            raise ValueError(f"covariance must have shape (..., N, N), not {tuple(shape)}")
        return _broadcast(loc, "covariance", shape, shape[:-1])

    def distribution(self, shape: Sequence[int] | None = None) -> TorchDistribution:
        """As a Pyro distribution whose dimensions are all dimensions of one event.

        :param shape: of a value; loc and covariance are broadcast to it, and dimensions that they have beyond it are
            batch dimensions. :attr:`shape` by default.
        :raises ValueError: if they do not broadcast to ``shape``.
        """
        event = self.shape if shape is None else torch.Size(shape)
        try:
            full = broadcast_shapes(self.shape, event)
        except RuntimeError:
            full = torch.Size()
        if full[len(full) - len(event) :] != event or not event:
            raise ValueError(f"a Gaussian of shape {tuple(self.shape)} does not broadcast to {tuple(event)}")
        if self.covariance is not None:
            loc = self.loc.expand(broadcast_shapes(self.loc.shape, full[-1:]))
            normal: TorchDistribution = dist.MultivariateNormal(loc, self.covariance).expand(full[:-1])
            result: TorchDistribution = normal.to_event(len(event) - 1)
            return result
        assert self.variance is not None
        result = dist.Normal(self.loc, self.variance.sqrt()).expand(full).to_event(len(event))
        return result


def _broadcast(loc: tuple[int, ...], name: str, actual: torch.Size, vectors: torch.Size) -> torch.Size:
    try:
        shape = broadcast_shapes(loc, vectors)
        # A covariance says how long vectors are.
        if name != "covariance" or shape[-1:] == vectors[-1:]:
            return shape
    except RuntimeError:
        pass
    raise ValueError(f"loc of shape {loc} and {name} of shape {tuple(actual)} do not fit together")
