# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Derivations of sentences, of some of which the derivation is known."""

from __future__ import annotations

from copy import copy
from typing import Any

import torch
from pyro.distributions import TorchDistribution
from torch import Tensor
from torch.distributions.kl import kl_divergence, register_kl

from pyrogram.checks import broadcast_shapes, check_shape
from pyrogram.grammar import Weights


class KnownDerivation(TorchDistribution):
    """p(y | x, known, w): where a derivation is known, all mass is on it.

    ``log_prob`` is conditional on the words and on what is known, in nats; the joint is ``log_prob + log_partition``.

    :param others: the distribution over derivations of the same sentences, as if none were known; its values are rows.
    :param known: the known ones, shape ``(*batch, L)``, rows of -1 where unknown.
    :param is_valid: whether each is a derivation of its words that agrees with other evidence, shape ``batch``; where
        it is not, log Z is -inf.
    """

    arg_constraints: dict[str, Any] = {}

    def __init__(self, others: Any, known: Tensor, is_valid: Tensor) -> None:
        self.others, L = others, others.event_shape[0]
        self.known = torch.nn.functional.pad(known, (0, L - known.shape[-1]), value=-1)
        self.is_known, self.is_valid = (self.known >= 0).any(-1), is_valid
        batch = broadcast_shapes(others.batch_shape, known.shape[:-1])
        super().__init__(batch, others.event_shape, validate_args=False)

    @property
    def grammar(self) -> Any:
        """The grammar."""
        return self.others.grammar

    @property
    def support(self) -> Any:
        """Derivations of the words."""
        return self.others.support

    def expand(self, batch_shape: Any, _instance: Any = None) -> KnownDerivation:
        """The same distribution in a larger batch."""
        return KnownDerivation(self.others.expand(torch.Size(batch_shape)), self.known, self.is_valid)

    def _chosen(self, known: Any, other: Tensor, event_dim: int = 0) -> Tensor:
        """What belongs to known derivations where there is one, and else what belongs to the others."""
        mask = self.is_known.reshape(*self.is_known.shape, *(1,) * event_dim)
        return torch.where(mask, known, other)

    @property
    def log_partition(self) -> Tensor:
        """log Z in nats, shape ``batch_shape``: where the derivation is known, its log weight."""
        log_z = self.others.log_partition
        weight = torch.where(self.is_valid, self.others._log_weight(self.known), -torch.inf)
        return self._chosen(weight, log_z).expand(self.batch_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        """log p(y | x, known, w), in nats: of a sentence whose derivation is known, 0 or -inf."""
        same = (value.long() == self.known).all(-1) & self.is_valid
        others = self.others.log_prob(value)
        return self._chosen(torch.where(same, 0.0, -torch.inf).to(others), others)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Independent derivations, exact, shape ``(*sample_shape, *batch_shape, L)``.

        :raises ValueError: if a sentence has no derivation that agrees.
        """
        wrong = (self.is_known & ~self.is_valid).flatten().nonzero()
        if len(wrong):
            raise ValueError(f"sentence {int(wrong[0])} has a known derivation that is none of its own to sample")
        drawn = self.others.expand(self.batch_shape).sample(check_shape("sample_shape", sample_shape))
        return self._chosen(self.known, drawn, 1)

    def expected_counts(self) -> Weights:
        """E[f | x, known, w] of every event, shape ``(*batch_shape, *block.shape)`` by block."""
        expected, known_counts = self.others.expected_counts(), self.others._indicators(self.known)
        dims = {name: len(block.shape) for name, block in self.grammar.blocks.items()}
        valid = {n: self.is_valid.reshape(*self.is_valid.shape, *(1,) * d) for n, d in dims.items()}
        counts = {n: self._chosen(torch.where(valid[n], known_counts[n], 0.0), c, dims[n]) for n, c in expected.items()}
        return {n: c.expand(*self.batch_shape, *c.shape[c.dim() - dims[n] :]) for n, c in counts.items()}

    def counts(self, value: Tensor) -> Weights:
        """f(x, y): how often each event is in given derivations, shape ``(*value.shape[:-1], *block.shape)``."""
        counts: Weights = self.others.counts(value)
        return counts

    def parts(self, value: Tensor) -> Tensor:
        """What derivations are made of, in the shape of :meth:`marginals`."""
        parts: Tensor = self.others.parts(value)
        return parts

    def marginals(self) -> Tensor:
        """Posteriors of what derivations are made of, as the distribution has them that knows of none."""
        others = self.others.marginals()
        fits = self.is_known & self.is_valid
        parts = self.parts(torch.where(fits[..., None], self.known, self.others.argmax()))
        return self._chosen(parts, others, others.dim() - len(self.batch_shape))

    def entropy(self) -> Tensor:
        """Entropy in nats, shape ``batch_shape``; 0 where the derivation is known."""
        return self._chosen(0.0, self.others.entropy()).expand(self.batch_shape)

    def top_k(self, k: int) -> tuple[Tensor, Tensor]:
        """The k most probable derivations, best first, and log probabilities; -1 and -inf where there are fewer."""
        rows, log_probs = self.others.expand(self.batch_shape).top_k(k)
        first = (torch.arange(k, device=rows.device) == 0).reshape(k, *(1,) * len(self.batch_shape)) & self.is_valid
        known = torch.where(first[..., None], self.known, -1)
        return self._chosen(known, rows, 1), self._chosen(torch.where(first, 0.0, -torch.inf).to(log_probs), log_probs)

    def argmax(self) -> Tensor:
        """The most probable derivation (Viterbi), shape ``(*batch_shape, L)``; -1 where none is."""
        return self.top_k(1)[0][0]

    @property
    def mode(self) -> Tensor:
        """The most probable derivation."""
        return self.argmax()

    def mbr(self, *criterion: Any) -> Tensor:
        """The derivation of least expected loss (minimum Bayes risk), shape ``(*batch_shape, L)``; -1 where none is."""
        known = torch.where(self.is_valid[..., None], self.known, -1)
        return self._chosen(known, self.others.expand(self.batch_shape).mbr(*criterion), 1)


@register_kl(KnownDerivation, KnownDerivation)
@register_kl(KnownDerivation, TorchDistribution)
@register_kl(TorchDistribution, KnownDerivation)
def _kl(p: Any, q: Any) -> Tensor:
    """KL(p || q): of a known derivation -log q of it; from what is no known derivation to one +inf, or 0."""
    total: Tensor = kl_divergence(*(x.others if isinstance(x, KnownDerivation) else x for x in (p, q)))
    if isinstance(q, KnownDerivation):
        alone = p.top_k(2)[1][1] == -torch.inf  # p has one derivation at most
        is_same = alone & (_unchecked(p).log_prob(q.known) > -torch.inf)
        total = torch.where(q.is_known, torch.where(is_same & q.is_valid, 0.0, torch.inf).to(total), total)
    if isinstance(p, KnownDerivation):
        total = torch.where(
            p.is_known, torch.where(p.is_valid, -_unchecked(q).log_prob(p.known), torch.inf).to(total), total
        )
    return total


def _unchecked(law: Any) -> Any:
    """The same law, which takes rows of padding for values: those of sentences whose derivations are not known."""
    unchecked = copy(law)
    unchecked._validate_args = False
    if isinstance(law, KnownDerivation):
        unchecked.others = _unchecked(law.others)
    return unchecked
