# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Dirichlets of different sizes, packed one after the other: the prior of a :class:`~pyrogram.grammar.PackedBlock`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyro.distributions as dist
import torch
from pyro.distributions import TorchDistribution
from torch import Tensor
from torch.distributions import constraints
from torch.distributions.kl import register_kl

from pyrogram.grammar import Block, PackedBlock

from .ragged import RaggedSimplex, packed, ragged_simplex


class PackedDirichlet(TorchDistribution):
    """Independent Dirichlets of sizes s_1, .., s_K in a single dimension of R = sum of sizes.

    A value is a tensor of probabilities, shape ``(R,)``: the first s_1 sum to one, and so do the next s_2, and so on.
    A multinomial of a single event has probability one. ``log_prob`` is the sum of the K log densities, each with
    respect to all probabilities but the last, as torch's ``Dirichlet`` has it.

    :param concentration: positive, shape ``(*batch, R)``.
    :param sizes: the number of events of each multinomial.
    :raises ValueError: if sizes do not sum to R or, with validation, if a concentration is not positive.
    """

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    has_rsample = True

    def __init__(self, concentration: Tensor, sizes: Sequence[int], *, validate_args: bool | None = None):
        self.sizes = tuple(sizes)
        if concentration.shape[-1:] != (sum(self.sizes),) or min(self.sizes, default=0) < 1:
            raise ValueError(
                f"sizes must be positive and sum to the last dimension of concentration, of shape "
                f"{tuple(concentration.shape)}, but there are {len(self.sizes)} that sum to {sum(self.sizes)}"
            )
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args=validate_args)

    @property
    def block(self) -> PackedBlock:
        """The multinomials."""
        return packed(self.sizes)

    @property
    def support(self) -> RaggedSimplex:
        """Probabilities that sum to one in each multinomial."""
        return ragged_simplex(self.sizes)

    def expand(self, batch_shape: Any, _instance: Any = None) -> PackedDirichlet:
        """The same distribution in a larger batch."""
        new: PackedDirichlet = self._get_checked_instance(PackedDirichlet, _instance)
        new.sizes = self.sizes
        new.concentration = self.concentration.expand(torch.Size(batch_shape) + self.event_shape)
        super(PackedDirichlet, new).__init__(torch.Size(batch_shape), self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draws with a gradient, shape ``(*sample_shape, *batch_shape, R)``; never zero, however small the α.

        Gamma(α) is Gamma(α + 1) times a uniform number to the power of 1 / α, whose logarithm is finite.
        """
        alpha = self.concentration.expand(self._extended_shape(torch.Size(sample_shape)))
        tiny = torch.finfo(alpha.dtype).tiny
        uniform = torch.rand_like(alpha).clamp_min(tiny)
        log_gamma = torch._standard_gamma(alpha + 1).clamp_min(tiny).log() + uniform.log() / alpha
        value: Tensor = torch.distributions.transform_to(self.support)(log_gamma)
        return value.clamp_min(tiny)

    def log_prob(self, value: Tensor) -> Tensor:
        """The joint log density of all multinomials, in nats."""
        if self._validate_args:
            self._validate_sample(value)
        alpha = self.concentration
        kernel = torch.xlogy(alpha - 1, value).sum(-1)
        return kernel + torch.lgamma(self.block.sums(alpha)).sum(-1) - torch.lgamma(alpha).sum(-1)

    @property
    def mean(self) -> Tensor:
        """α over its multinomial's sum."""
        return self.concentration / self.block.totals(self.concentration)

    @property
    def variance(self) -> Tensor:
        """Of every probability by itself."""
        mean = self.mean
        return mean * (1 - mean) / (self.block.totals(self.concentration) + 1)

    @property
    def mode(self) -> Tensor:
        """(α - 1) over its multinomial's sum, where no α is below 1; elsewhere negative values count as 0."""
        return self.block.normalize((self.concentration - 1).clamp_min(0))

    def entropy(self) -> Tensor:
        """The sum of the multinomials' differential entropies, in nats, shape ``batch_shape``."""
        alpha, totals = self.concentration, self.block.sums(self.concentration)
        normaliser = torch.lgamma(alpha).sum(-1) - torch.lgamma(totals).sum(-1)
        return normaliser - ((alpha - 1) * expected_log(self.block, alpha)).sum(-1)


#: Distributions that are Dirichlets.
DIRICHLETS = (dist.Dirichlet, PackedDirichlet)


def dirichlet_prior(block: Block, concentration: Tensor | float) -> TorchDistribution:
    """A Dirichlet for each multinomial of a block, as one event of the block's shape.

    >>> block = pyrogram.DMV(num_tags=3).blocks["attach"]
    >>> attach = pyro.sample("attach", dirichlet_prior(block, 0.25))
    >>> attach.shape, bool(torch.allclose(attach.sum(-1), torch.ones(3, 2)))
    (torch.Size([3, 2, 3]), True)

    :param concentration: α of every event, shape ``(*batch, *block.shape)``. A tensor of any other shape is a batch of
        numbers (of plates or vectorised particles), each of which makes all Dirichlets of its prior symmetric: it is
        the α of each outcome, where events stand for several (:class:`.PackedBlock`). Expand what only the events or
        only the multinomials share, as in ``alpha.expand(block.shape)``.
    """
    if not isinstance(concentration, Tensor):
        concentration = torch.tensor(concentration, dtype=torch.get_default_dtype())
    alpha = concentration
    if alpha.shape[-len(block.shape) :] != block.shape:
        alpha = alpha.reshape(*alpha.shape, *(1 for _ in block.shape)).expand(*alpha.shape, *block.shape)
        if isinstance(block, PackedBlock) and block.lumped is not None:
            alpha = alpha * block.outcomes.to(alpha)
    if not isinstance(block, PackedBlock):
        return dist.Dirichlet(alpha).to_event(block.batch_dim)  # type: ignore[no-any-return]
    prior = PackedDirichlet(alpha, block.sizes)
    return prior.to_event(block.batch_dim) if block.batch_dim else prior


def block_of(prior: Any) -> Block:
    """The multinomials of a Dirichlet, which may be packed."""
    return prior.block if isinstance(prior, PackedDirichlet) else Block(prior.concentration.shape)


def expected_log(block: Block, concentration: Tensor) -> Tensor:
    """E[log w] of the weights of a block under Dirichlets; exp of it is sub-normalised."""
    return torch.digamma(concentration) - block.broadcast(torch.digamma(block.sums(concentration)))


@register_kl(PackedDirichlet, PackedDirichlet)
def _kl(p: PackedDirichlet, q: PackedDirichlet) -> Tensor:
    """The sum of the multinomials' divergences."""
    if p.sizes != q.sizes:
        raise NotImplementedError(f"p and q are over multinomials of different sizes, {p.sizes} and {q.sizes}")
    a, b = p.concentration, q.concentration
    normaliser = torch.lgamma(p.block.sums(a)).sum(-1) - torch.lgamma(q.block.sums(b)).sum(-1)
    return normaliser + (torch.lgamma(b) - torch.lgamma(a) + (a - b) * expected_log(p.block, a)).sum(-1)
