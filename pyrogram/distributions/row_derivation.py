# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Derivations as rows of events: what leftmost derivations of rules and derivations of recursions have in common."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor

from pyrogram.charts.checks import broadcast_shapes, check_shape, check_size
from pyrogram.event_map import by_block, joined
from pyrogram.grammar import Weights

from .charted import ChartDistribution, traceable

MOST_ENUMERATED = 10_000


class RowDerivation(ChartDistribution):
    """p(y | x, w); a value is a row of events, shape ``(L,)``, padded with -1 on the right."""

    arg_constraints: dict[str, Any] = {}
    has_enumerate_support = True
    grammar: Any
    words: Tensor
    _own_batch: torch.Size

    @property
    @abstractmethod
    def log_weights(self) -> Any:
        """Log weights by block, or of the only one."""

    @abstractmethod
    def _draw(self, batch: torch.Size, number: int) -> Tensor:
        """Derivations of each of the B sentences of a batch, shape ``(number, B, at most L)``."""

    @abstractmethod
    def _best(self, k: int) -> tuple[Tensor, Tensor]:
        """Log weights of the k best of the own batch, with factors, ``(k, B)``; rows ``(k, B, at most L)``."""

    @abstractmethod
    def _listed(self, words: Tensor) -> Tensor:
        """All derivations of one sentence, shape ``(T, at most L)``.

        :param words: shape ``(1, n)``.
        :raises NotImplementedError: if rows do not tell derivations apart.
        """

    @property
    def _logs(self) -> Tensor:
        """Log weights of all events, shape ``(*batch, R)``."""
        logs = self.log_weights
        return logs if isinstance(logs, Tensor) else joined(logs, self.grammar.blocks)

    # ------------------------------------------------------------------ values

    def _score_of(self, value: Tensor) -> Tensor:
        """The log weight of derivations, without factors of evidence."""
        ids, logs = value.long(), self._logs
        index = ids.clamp_min(0)
        if logs.dim() == 1:
            picked = logs[index]
        else:
            batch = broadcast_shapes(logs.shape[:-1], ids.shape[:-1])
            picked = logs.expand(*batch, logs.shape[-1]).gather(-1, index.expand(*batch, ids.shape[-1]))
        return torch.where(ids >= 0, picked, torch.zeros_like(picked)).sum(-1)

    def _counts_of(self, value: Tensor) -> Weights:
        """How often each event is in rows, by block; whether they are derivations is no matter."""
        ids, logs = value.long(), self._logs
        counts = torch.zeros(*ids.shape[:-1], logs.shape[-1], dtype=logs.dtype, device=ids.device)
        counts.scatter_add_(-1, ids.clamp_min(0), (ids >= 0).to(logs.dtype))
        return by_block(counts, self.grammar.blocks)

    def _padded(self, rows: Tensor) -> Tensor:
        """In the width of this distribution's values."""
        return torch.nn.functional.pad(rows.to(self.words.device), (0, self.event_shape[0] - rows.shape[-1]), value=-1)

    def _wide(self, rows: Tensor, front: tuple[int, ...]) -> Tensor:
        """Derivations ``(*front, B, L)`` of the own batch, as a copy in the shape of the whole."""
        extra = (1,) * (len(self.batch_shape) - len(self._own_batch))
        rows = self._padded(rows).reshape(*front, *extra, *self._own_batch, self.event_shape[0])
        return rows.expand(*front, *self.batch_shape, -1).clone()

    @traceable
    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Independent derivations, exact, shape ``(*sample_shape, *batch_shape, L)``.

        :raises ValueError: if a sentence has no derivation.
        """
        sample_shape = check_shape("sample_shape", sample_shape)
        leading = self.batch_shape[: len(self.batch_shape) - len(self._own_batch)]
        # A plate in front only asks for more draws; a dimension of size one that was expanded for more sentences.
        simple = self.batch_shape[len(leading) :] == self._own_batch
        batch = self._own_batch if simple else self.batch_shape
        number = (sample_shape + leading).numel() if simple else sample_shape.numel()
        with torch.no_grad():
            rows = self._draw(batch, number)
        return self._padded(rows).reshape(*sample_shape, *self.batch_shape, *self.event_shape)

    # ------------------------------------------------------------------ decoding

    @traceable
    def top_k(self, k: int) -> tuple[Tensor, Tensor]:
        """The k most probable derivations, best first: ``(k, *batch_shape, L)`` and log probabilities.

        Where there are fewer than k, derivations are -1 and log probabilities -inf.
        """
        k = check_size("k", k)
        with torch.no_grad():
            scores, rows = self._best(k)
            log_z = self.log_partition
            front = (1,) * (len(self.batch_shape) - len(self._own_batch))
            scores = scores.to(log_z.device, log_z.dtype).reshape(k, *front, *self._own_batch)
            scores = scores.expand(k, *self.batch_shape)
            return self._wide(rows, (k,)), torch.where(scores == -torch.inf, scores, scores - log_z)

    @traceable
    def argmax(self) -> Tensor:
        """The most probable derivation (Viterbi), shape ``(*batch_shape, L)``."""
        with torch.no_grad():  # without log Z
            return self._wide(self._best(1)[1], (1,))[0]

    @property
    def mode(self) -> Tensor:
        """The most probable derivation."""
        return self.argmax()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All derivations, those of weight zero too, shape ``(T, *batch_shape, L)``, or ``(T, 1, .., 1, L)``.

        :raises NotImplementedError: for more than 10,000 derivations, if not all sentences are the same, or if two
            derivations have the same events in the same order.
        """
        sentences = self.words.reshape(-1, self.words.shape[-1])
        if len(sentences) == 0 or not bool((sentences == sentences[0]).all()):
            raise NotImplementedError("different sentences have no common support to enumerate")
        ones = {n: torch.zeros(b.shape, dtype=torch.float64) for n, b in self.grammar.blocks.items()}
        number = float(self.grammar.log_partition(ones, sentences[:1].cpu())[0])
        if number > math.log(MOST_ENUMERATED):
            raise NotImplementedError(
                f"there are too many derivations to enumerate, about {math.exp(min(number, 600)):.3g}; "
                f"the limit is {MOST_ENUMERATED}"
            )
        rows = self._padded(self._listed(sentences[:1]))
        rows = rows.reshape(len(rows), *(1,) * len(self.batch_shape), self.event_shape[0])
        return rows.expand(-1, *self.batch_shape, -1) if expand else rows
