# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What distributions over structures of given sentences have in common: all that follows from events and log Z."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from pyrogram.checks import broadcast_shapes, check_shape, check_size

from .charted import ChartDistribution, conditional, copied, expected_score, traceable


class StructuredDistribution(ChartDistribution):
    """Structures with p(structure) in proportion to exp(score), the sum of the scores of its events.

    Events are elements of tables of scores.
    """

    @property
    @abstractmethod
    def _scores(self) -> Mapping[str, Tensor]:
        """Tables of scores that are given, by the names of the events."""

    @abstractmethod
    def _dims(self, name: str) -> int:
        """How many dimensions of a table of scores are not the batch's."""

    @abstractmethod
    def _events(self, value: Tensor) -> dict[str, Tensor]:
        """The events of structures, in the order of the scores, ``(*batch, k)``.

        They are numbers of the elements of tables of scores in C order; -1 stands for none.
        """

    @abstractmethod
    def _sample(self, count: int) -> Tensor:
        """Structures (count, *batch_shape, *event_shape)."""

    @abstractmethod
    def _top_k(self, k: int) -> tuple[Tensor, Tensor]:
        """The best structures (k, *batch_shape, *event_shape) and their scores (k, *batch_shape), without a graph."""

    def _posteriors(self) -> tuple[Tensor, ...]:
        """log Z, and its gradients by the scores of every sentence, in their order, in the own batch shape."""
        posterior: tuple[Tensor, ...] = self._posterior()
        return posterior

    # ------------------------------------------------------------------ probabilities

    def log_prob(self, value: Tensor) -> Tensor:
        """log p(structure), in nats.

        :param value: shape ``(*sample, *batch, *event_shape)``, integers (floats with integral values will do).
        """
        if self._validate_args:
            self._validate_sample(value)
        return conditional(self._score(value), self.log_partition)

    def _score(self, value: Tensor) -> Tensor:
        """The sum of the scores of the events of structures."""
        scores, events = self._scores, self._events(value.long())
        totals = [total_score(scores[name].flatten(-self._dims(name)), index) for name, index in events.items()]
        return sum(totals[1:], totals[0])

    def counts(self, value: Tensor) -> dict[str, Tensor]:
        """The events of given structures, as numbers in the shapes of the scores: the gradients of their scores."""
        if self._validate_args:
            self._validate_sample(value)
        return self._indicators(value.long())

    def _indicators(self, value: Tensor) -> dict[str, Tensor]:
        """:meth:`counts` of what need not be a structure."""
        tables = self._scores
        return {
            name: counted(events, tuple(tables[name].shape[-self._dims(name) :]), tables[name].dtype)
            for name, events in self._events(value).items()
        }

    def expected_counts(self) -> dict[str, Tensor]:
        """The gradient of log Z: the posterior of every event, ``(*batch_shape, *)`` by table of scores."""
        log_z, *posteriors = self._posteriors()
        # Copies, so that a caller may change them in place.
        return {
            name: copied(p).expand(*self.batch_shape, *p.shape[log_z.dim() :])
            for name, p in zip(self._scores, posteriors, strict=True)
        }

    def entropy(self) -> Tensor:
        """Entropy in nats, shape ``batch_shape``; 0 where no structure is possible."""
        log_z, *posteriors = self._posteriors()
        total = log_z
        for (name, scores), posterior in zip(self._scores.items(), posteriors, strict=True):
            total = total - expected_score(posterior, scores, self._dims(name))
        return torch.where(log_z == -torch.inf, 0.0, total - self._expected_log_factors()).expand(self.batch_shape)

    def _expected_log_factors(self) -> Tensor | float:
        """The expected log of factors that are no scores, where it is no minus infinity."""
        return 0.0

    @traceable
    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Independent structures, exact, shape ``(*sample_shape, *batch_shape, *event_shape)``.

        :raises ValueError: if a sentence has no possible structure.
        """
        sample_shape = check_shape("sample_shape", sample_shape)
        with torch.no_grad():
            structures = self._sample(sample_shape.numel())
        return structures.reshape(*sample_shape, *self.batch_shape, *self.event_shape)

    # ------------------------------------------------------------------ decoding

    @traceable
    def top_k(self, k: int) -> tuple[Tensor, Tensor]:
        """The k most probable structures, best first: ``(k, *batch_shape, *event_shape)`` and log probabilities.

        Where there are fewer than k possible structures, they are -1 and log probabilities -inf.
        """
        structures, scores = self._top_k(check_size("k", k))
        with torch.no_grad():
            log_z = self.log_partition
        return structures, torch.where(scores == -torch.inf, scores, scores - log_z)

    @traceable
    def argmax(self) -> Tensor:
        """The most probable structure (Viterbi), shape ``(*batch_shape, *event_shape)``; -1 where none is possible."""
        return self._top_k(1)[0][0]  # without log Z

    @property
    def mode(self) -> Tensor:
        """The most probable structure."""
        return self.argmax()


def divergence(p: StructuredDistribution, q: StructuredDistribution) -> Tensor:
    """KL(p || q) = E_p[score_p - score_q] - log Z_p + log Z_q; +inf where p allows what q forbids.

    Both are over the same structures, which have events in the same tables.
    """
    total = q.log_partition - p.log_partition
    for (name, scores), posterior in zip(p._scores.items(), p._posteriors()[1:], strict=True):
        total = total + expected_score(posterior, scores - q._scores[name], p._dims(name))
    return torch.where(q.log_partition == -torch.inf, torch.inf, total)


def total_score(scores: Tensor, events: Tensor) -> Tensor:
    """The sum of the scores of events, in nats, shape ``batch``. Batch dimensions broadcast.

    :param scores: shape ``(*batch, E)``.
    :param events: numbers of scores, shape ``(*batch, k)``; -1 for none.
    """
    batch = broadcast_shapes(scores.shape[:-1], events.shape[:-1])
    events = events.expand(*batch, -1)
    picked = scores.expand(*batch, -1).gather(-1, events.clamp_min(0))
    return torch.where(events >= 0, picked, 0.0).sum(-1)


def counted(events: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """How often each element of a table of this shape is among the events ``(*batch, k)``, ``(*batch, *shape)``."""
    zeros = torch.zeros(*events.shape[:-1], torch.Size(shape).numel(), dtype=dtype, device=events.device)
    counts: Tensor = zeros.scatter_add(-1, events.clamp_min(0), (events >= 0).to(dtype)).unflatten(-1, shape)
    return counts
