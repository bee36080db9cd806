# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The multinomials of the DMV that occur in each sentence: weights that differ from sentence to sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pyrogram.charts import dmv_rows, projective
from pyrogram.charts.checks import checked_words
from pyrogram.charts.trees import lengths_of
from pyrogram.grammar import SentenceMultinomials, Weights

if TYPE_CHECKING:
    from .dmv import DMV


class DMVSentenceMultinomials(SentenceMultinomials):
    """Rows of the :class:`.DMV`: ROOT's, and for each distinct tag of a sentence those of this head.

    A *pair* is a sentence and one of its distinct tags. The p-th pair, by sentence and then by tag, has the rows
    ``2 p + direction`` of ``attach``, or ``4 p + 2 direction + valence`` if the grammar has ``valence_attach``, and
    ``4 p + 2 direction + valence`` of ``stop``; sentence l has row l of ``root``.

    On the CPU one compiled pass serves all sentences, in float64 whatever the dtype of the rows; what it cannot be
    trusted with, and everything on other devices, goes through the scores of arcs. There too memory is linear in the
    pairs. Time is O(n^3) a sentence.

    :param words: shape ``(N, n)``, padded with -1 on the right.
    :raises ValueError: if a sentence is not one or more tags and then padding.
    """

    def __init__(self, grammar: DMV, words: Tensor) -> None:
        words = checked_words(words, grammar.num_words)
        if words.dim() != 2:
            raise ValueError(f"words must have shape (N, n), one row for each sentence, not {tuple(words.shape)}")
        real = words >= 0
        own = torch.arange(len(words), device=words.device)
        keys, pair = torch.unique((own[:, None] * grammar.num_words + words)[real], return_inverse=True)
        sentence, tag = keys // grammar.num_words, keys % grammar.num_words

        def of_head(multinomials: int) -> tuple[Tensor, Tensor]:
            which = torch.arange(multinomials, device=words.device)
            return sentence.repeat_interleave(multinomials), (tag[:, None] * multinomials + which).flatten()

        self._valences = 2 if grammar.valence_attach else 1
        pairs = {"root": (own, torch.zeros_like(own)), "attach": of_head(2 * self._valences), "stop": of_head(4)}
        super().__init__(grammar, words, pairs)
        self._starts = torch.searchsorted(sentence, torch.arange(len(words) + 1, device=words.device))
        self._pairs = torch.full_like(words, -1).masked_scatter(real, pair)

    def expected_counts(
        self, log_weights: Mapping[str, Tensor], sentences: Tensor | None = None, out: Weights | None = None
    ) -> tuple[Tensor, Weights]:
        self._check(log_weights, sentences, out)
        doubles = out is None or all(rows.dtype == torch.float64 for rows in out.values())
        if not doubles or any(projective.choose_engine(r.detach(), None) != "compiled" for r in log_weights.values()):
            return super().expected_counts(log_weights, sentences, out)
        tables = self._tables(log_weights)
        places = self._starts, self._pairs, self.words
        into = None if out is None else self._tables(out)
        log_z, found, failed = dmv_rows.expected_counts(*tables, *places, sentences, into)
        counts = {name: c.reshape(log_weights[name].shape) for name, c in zip(self.grammar.blocks, found, strict=True)}
        if len(failed):
            self._count({name: rows.double() for name, rows in log_weights.items()}, failed, log_z, counts)
        log_z = log_z.to(log_weights["root"].dtype)
        return log_z, {name: c.to(log_weights[name].dtype) for name, c in counts.items()} if out is None else out

    def _tables(self, log_weights: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Rows in the shapes that the chart takes."""
        V = self.grammar.num_words
        return (
            log_weights["root"],
            log_weights["attach"].reshape(-1, 2, self._valences, V),
            log_weights["stop"].reshape(-1, 2, 2, 2),
        )

    def _numbers(self) -> int:
        return 10 * (self.words.shape[1] + 1) ** 2

    def _chunk_counts(
        self, log_weights: Mapping[str, Tensor], index: Mapping[str, Tensor], sentences: Tensor
    ) -> tuple[Tensor, Weights]:
        with torch.enable_grad():
            leaves = {name: rows.clone().requires_grad_() for name, rows in log_weights.items()}
            words = self.words[sentences]
            wanted = index["stop"][::4] // 4  # the pairs of these sentences
            pairs = torch.searchsorted(wanted, self._pairs[sentences])
            arcs, stops = dmv_rows.scores(*self._tables(leaves), pairs, words)
            log_z = projective.log_partition(arcs, stops, lengths_of(words))
            gradients = torch.autograd.grad(log_z.sum(), list(leaves.values()))
        return log_z.detach(), dict(zip(leaves, gradients, strict=True))
