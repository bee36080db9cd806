# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The interface between grammars, distributions and inference.

A probabilistic grammar (Cohen, Gimpel and Smith 2008, Eq. 1) gives a derivation y of a sentence x the weight
``prod_k prod_i w[k, i] ** f[k, i](x, y)``: K multinomials, the k-th with its own events, and f counting them.
Multinomials of one kind (all stop decisions, say) form a *block*, one tensor of weights.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
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

    A subclass must say its ``blocks``, ``num_words``, ``log_partition`` and ``derivation``; ``sample``, if sentences
    can be drawn. The rest follows, but may be done faster or better. Check it by :mod:`pyrogram.testing`.

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

    def expected_counts(self, log_weights: Mapping[str, Tensor], words: Tensor) -> tuple[Tensor, Weights]:
        """log Z per sentence, shape ``(N,)``, and the expected counts *summed over all sentences*.

        :param log_weights: one tensor of shape ``block.shape`` per block (one grammar for all sentences).
        :param words: shape ``(N, n)``.
        """
        with torch.enable_grad():
            leaves = {name: w.detach().requires_grad_() for name, w in log_weights.items()}
            log_z = self.log_partition(leaves, words)
            gradients = torch.autograd.grad(log_z.sum(), list(leaves.values()), materialize_grads=True)
        return log_z.detach(), dict(zip(leaves, gradients, strict=True))

    @abstractmethod
    def derivation(
        self,
        weights: Mapping[str, Tensor] | None,
        words: Tensor,
        *,
        log_weights: Mapping[str, Tensor] | None = None,
    ) -> TorchDistribution:
        """p(y | x, w), the distribution over the derivations of ``words``."""

    def sample(self, weights: Mapping[str, Tensor], sample_shape: torch.Size, max_length: int) -> Tensor:
        """Ancestral draws of sentences of at most ``max_length`` words, drawn again if longer.

        :param weights: normalised; their batch dimensions are the last ones of ``sample_shape``.
        :returns: words, shape ``(*sample_shape, max_length)``, padded with -1.
        """
        raise NotImplementedError(f"{type(self).__name__} cannot draw sentences")

    @property
    def initialisers(self) -> Mapping[str, Callable[..., Weights]]:
        """Starting points by name: functions of this grammar, words and options, to normalised weights."""
        return {"random": random_weights, "uniform": uniform_weights}

    def initial_weights(self, words: Tensor, method: str = "random", **options: Any) -> Weights:
        """Where inference starts: normalised weights, by one of :attr:`initialisers`.

        :param words: shape ``(N, n)``.
        """
        if method not in self.initialisers:
            raise ValueError(f"there is no initialiser {method!r}; choose one of {sorted(self.initialisers)}")
        return self.initialisers[method](self, words, **options)


def uniform_weights(grammar: Grammar, words: Tensor) -> Weights:
    """Every multinomial uniform."""
    like = torch.ones((), dtype=torch.get_default_dtype(), device=words.device)
    return {name: block.uniform(like) for name, block in grammar.blocks.items()}


def random_weights(grammar: Grammar, words: Tensor, *, concentration: float = 1.0, seed: int | None = None) -> Weights:
    """Every multinomial drawn from a symmetric Dirichlet.

    :param concentration: of the Dirichlet; 1 is uniform over the simplex.
    :param seed: a whole number for a reproducible draw, or None for torch's global generator.
    """
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    drawn = {}
    for name, block in grammar.blocks.items():
        alpha = torch.full(block.shape, concentration, dtype=torch.float64)
        gammas = torch._standard_gamma(alpha, generator=generator)
        drawn[name] = block.normalize(gammas.clamp_min(1e-300)).to(words.device, torch.get_default_dtype())
    return drawn
