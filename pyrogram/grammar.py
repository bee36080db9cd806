# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The interface between grammars, distributions and inference.

A probabilistic grammar (Cohen, Gimpel and Smith 2008, Eq. 1) gives a derivation y of a sentence x the weight
``prod_k prod_i w[k, i] ** f[k, i](x, y)``: K multinomials, the k-th with its own events, and f counting them.
Multinomials of one kind (all stop decisions, say) form a *block*, one tensor of weights.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from pyro.distributions import TorchDistribution

Weights = dict[str, Tensor]


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

    def totals(self, values: Tensor) -> Tensor:
        """Sum over the events of each multinomial; broadcasts against ``values``, shape ``(..., *shape)``."""
        return values.sum(-1, keepdim=True)

    def normalize(self, values: Tensor) -> Tensor:
        """Divide by the totals; a multinomial whose events are all zero becomes uniform."""
        totals = self.totals(values)
        return torch.where(totals > 0, values / totals.clamp_min(torch.finfo(values.dtype).tiny), self.uniform(values))

    def uniform(self, like: Tensor) -> Tensor:
        """The uniform multinomials, in the dtype and on the device of ``like``."""
        return like.new_ones(self.shape) / self.totals(like.new_ones(self.shape))


class Grammar(ABC):
    """Blocks of multinomials and a chart. Subclass it, and every prior and every inference serves you.

    Words are integers, shape ``(*batch, n)``, padded with -1 on the right. Weights are one tensor per block,
    shape ``(*batch, *block.shape)``, non-negative, normalised or not.
    """

    @property
    @abstractmethod
    def blocks(self) -> Mapping[str, Block]:
        """Name to block, in the order in which events are generated."""

    @property
    @abstractmethod
    def num_words(self) -> int:
        """Size of the alphabet: words are 0 .. num_words - 1."""

    @abstractmethod
    def log_partition(self, log_weights: Mapping[str, Tensor], words: Tensor) -> Tensor:
        """log Z = log sum over derivations of the weight, in nats, shape ``batch``; differentiable."""

    @abstractmethod
    def expected_counts(self, log_weights: Mapping[str, Tensor], words: Tensor) -> tuple[Tensor, Weights]:
        """log Z per sentence, shape ``(N,)``, and the expected counts *summed over all sentences*.

        :param log_weights: one tensor of shape ``block.shape`` per block (one grammar for all sentences).
        :param words: shape ``(N, n)``.
        """

    @abstractmethod
    def derivation(
        self,
        weights: Mapping[str, Tensor] | None,
        words: Tensor,
        *,
        log_weights: Mapping[str, Tensor] | None = None,
    ) -> TorchDistribution:
        """p(y | x, w), the distribution over the derivations of ``words``."""

    @abstractmethod
    def sample(self, weights: Mapping[str, Tensor], sample_shape: torch.Size, max_length: int) -> Tensor:
        """Ancestral draws of sentences; see :class:`pyrogram.distributions.Sentence`."""

    @abstractmethod
    def initial_weights(self, words: Tensor, method: str = "harmonic", **options: Any) -> Weights:
        """Named starting points for inference, normalised."""
