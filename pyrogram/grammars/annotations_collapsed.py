# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sweeps in collapsed space over trees with latent annotations, compiled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from pyrogram.charts import annotation_sweeps as chart
from pyrogram.collapsed import (
    CollapsedUpdates,
    CorpusCounts,
    SentenceCounts,
    Weights,
    check_sentence_counts,
    check_sentences,
    check_weights,
)
from pyrogram.sentences import Sentences

if TYPE_CHECKING:
    from .annotations import LatentAnnotations

#: Sentence counts of more numbers than that are kept in float32; they are taken out just as they were put in.
GREATEST_DOUBLE = 2**26


class AnnotationUpdates(CollapsedUpdates):
    """:class:`CollapsedUpdates` for :class:`LatentAnnotations` on the CPU; counts are tables by rule of a tree.

    :param grammar: the grammar.
    :param words: trees as base rules, shape ``(N, L)``, padded with -1.
    """

    def __init__(self, grammar: LatentAnnotations, words: Tensor | Sentences) -> None:
        super().__init__(grammar, words)
        self.layout = chart.make_layout(grammar.rules, grammar.trees(self.words))
        self.num_own = int(self.layout.size)
        self._dtype = torch.float64 if self.layout.size <= GREATEST_DOUBLE else torch.float32

    def expected_counts(self, weights: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, SentenceCounts]:
        check_weights(weights, self.blocks)
        w = weights["rules"].detach().to("cpu", torch.float64)
        values = self._empty().zero_()
        log_z, entropies = chart.expect(self.layout, w.numpy(), values.numpy())
        return torch.from_numpy(log_z), torch.from_numpy(entropies), {"values": values}

    def total(self, sentence_counts: SentenceCounts) -> Weights:
        self._check_sentence_counts(sentence_counts)
        everything = np.arange(len(self.words))
        return {"rules": torch.from_numpy(chart.total(self.layout, sentence_counts["values"].numpy(), everything))}

    def dense_counts(self, sentence_counts: SentenceCounts, sentences: Tensor) -> Weights:
        self._check_sentence_counts(sentence_counts)
        check_sentences("sentences", sentences, len(self.words))
        values = sentence_counts["values"].numpy()
        counts = [chart.total(self.layout, values, np.array([b])) for b in sentences.tolist()]
        return {"rules": torch.from_numpy(np.stack(counts))}

    def _collapsed_vb(
        self,
        corpus: CorpusCounts,
        sentence_counts: SentenceCounts,
        order: Tensor,
        batch_size: int,
    ) -> tuple[Tensor, SentenceCounts]:
        if "rules" in corpus.weights:  # weights that are not integrated out do not depend on other trees
            _, entropies, fresh = self.expected_counts(corpus.weights)
            corpus.counts["rules"].copy_(self.total(fresh)["rules"])
            return entropies, fresh
        counts, alpha = corpus.counts["rules"].numpy(), corpus.concentration["rules"].double().expand(self._size)
        values = self._empty()
        arrays = sentence_counts["values"].numpy(), values.numpy(), order.numpy()
        _, entropies = chart.collapsed_vb(self.layout, counts, alpha.numpy(), *arrays, batch_size)
        return torch.from_numpy(entropies), {"values": values}

    def counts(self, trees: Tensor) -> Weights:
        zeros = torch.zeros(self._size, dtype=torch.float64)
        derivation: Any = self.grammar.derivation(None, self.words, log_weights={"rules": zeros})
        events = derivation.events(trees)
        return {"rules": torch.bincount(events[events >= 0], minlength=self._size).double()}

    def _check_sentence_counts(self, sentence_counts: SentenceCounts) -> None:
        check_sentence_counts(sentence_counts, self.layout.size, self._dtype)

    def _empty(self) -> Tensor:
        return torch.empty(self.layout.size, dtype=self._dtype)
