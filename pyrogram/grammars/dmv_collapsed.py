# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Collapsed inference for the DMV: compiled sweeps on the CPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from pyrogram.charts import dmv_sweeps as chart
from pyrogram.charts import dmv_sweeps_trees as tree_chart
from pyrogram.charts.trees import check_heads, lengths_of
from pyrogram.collapsed import CorpusCounts, SentenceCounts, Weights
from pyrogram.collapsed_checks import check_sentence_counts, check_sentences, check_trees, check_weights

from .compiled_collapsed import CompiledUpdates

if TYPE_CHECKING:
    from .dmv import DMV

_FAR = 1e300  # below zero, for counts that shall not count


class DMVUpdates(CompiledUpdates):
    """Sweeps of the :class:`.DMV`, eight sentences at a time in lanes; words must lie on the CPU.

    Sentence counts are the ``values`` of all events over the distinct tags of each sentence. A sentence for which
    numbers leave the range in which real space can be trusted is done in plain torch, at the end of the sweep.
    """

    grammar: DMV

    def __init__(self, grammar: DMV, words: Tensor) -> None:
        super().__init__(grammar, words)
        self._valences = 2 if grammar.valence_attach else 1
        self._layout = chart.make_layout(self.words.numpy(), grammar.num_tags, self._valences)
        self.num_own = len(self._layout.places)
        self._ends = [1, 1 + 2 * self._valences * grammar.num_tags]  # where the multinomials of a block end

    # ------------------------------------------------------------------ expected counts

    def expected_counts(self, weights: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, SentenceCounts]:
        check_weights(weights, self.blocks)
        zeros = {n: torch.zeros(b.shape, dtype=torch.float64) for n, b in self.blocks.items()}
        own = torch.zeros(len(self._layout.places), dtype=torch.float64)
        fixed = CorpusCounts(zeros, {}, {n: weights[n].to(torch.float64) for n in self.blocks})
        return self._sweep(fixed, own, torch.empty_like(own), torch.arange(len(self.words)), chart.LANES)

    def _sweep(
        self, corpus: CorpusCounts, own: Tensor, out: Tensor, order: Tensor, batch_size: int
    ) -> tuple[Tensor, Tensor, SentenceCounts]:
        log_z, entropies = (torch.zeros(len(self.words), dtype=torch.float64) for _ in range(2))
        if not self._is_compiled(corpus):
            self._plain(corpus, own, out, order, batch_size, log_z, entropies)
            return log_z, entropies, {"values": out}
        counts, alpha = self._shared(corpus)
        arrays = own.numpy(), out.numpy(), order.numpy()
        found = chart.collapsed_vb(self._layout, counts, alpha, *arrays, batch_size)
        log_z, entropies, failed = (torch.from_numpy(x) for x in found)
        self._write(counts, corpus)
        if corpus.weights:
            new = self.total({"values": out})
            for name in corpus.weights:
                corpus.counts[name].copy_(new[name])
        if failed.any():
            self._plain(corpus, own, out, failed.nonzero()[:, 0], 1, log_z, entropies)
        return log_z, entropies, {"values": out}

    def total(self, sentence_counts: SentenceCounts) -> Weights:
        self._check_sentence_counts(sentence_counts)
        table = chart.total(self._layout, sentence_counts["values"].numpy())
        return self._by_block(torch.from_numpy(table[: self._layout.num_events]))

    def dense_counts(self, sentence_counts: SentenceCounts, sentences: Tensor) -> Weights:
        self._check_sentence_counts(sentence_counts)
        check_sentences("sentences", sentences, len(self.words))
        return self._by_block(self._dense_own(sentence_counts["values"], sentences))

    def _dense_own(self, own: Tensor, sentences: Tensor) -> Tensor:
        tables = own.new_zeros(len(sentences), self._layout.num_events + self._layout.num_sums + 1)
        for k, i in enumerate(sentences.tolist()):
            tables[k, self._places(i)] = own[self._own(i)]
        return tables[:, : self._layout.num_events]

    def _own(self, sentence: int) -> slice:
        start = int(self._layout.starts[sentence])
        return slice(start, start + int(self._layout.sizes[sentence]))

    def _places(self, sentence: int) -> Tensor:
        return torch.from_numpy(self._layout.places[self._own(sentence)]).long()

    # ------------------------------------------------------------------ trees

    def counts(self, trees: Tensor) -> Weights:
        self._check_trees(trees)
        table = tree_chart.count(self._layout, trees.numpy())
        return self._by_block(torch.from_numpy(table[: self._layout.num_events]))

    def _check_trees(self, trees: Tensor) -> None:
        check_trees(trees, self.words.shape)
        check_heads(trees, lengths_of(self.words))

    def _check_sentence_counts(self, sentence_counts: SentenceCounts) -> None:
        check_sentence_counts(sentence_counts, len(self._layout.places))

    def _packed(self, counts: Weights, k: int, sentence: int) -> Tensor:
        table = self._table({name: c[k] for name, c in counts.items()})
        return torch.from_numpy(table)[self._places(sentence)]

    def _is_compiled(self, corpus: CorpusCounts) -> bool:
        return all(len(group) == 1 for group in corpus.groups())  # the kernels take blocks for independent

    def _run_hastings(
        self, corpus: CorpusCounts, trees: Tensor, order: Tensor, batch_size: int, seed: int, temperature: float
    ) -> tuple[Any, Any]:
        counts, alpha = self._shared(corpus)
        arrays = trees.numpy(), order.numpy()
        found = tree_chart.hastings(self._layout, counts, alpha, *arrays, batch_size, seed, temperature)
        self._write(counts, corpus)
        if corpus.weights:
            new = self.counts(trees)
            for name in corpus.weights:
                corpus.counts[name].copy_(new[name])
        return found

    def parts(self, trees: Tensor) -> Tensor:
        return self.add_parts(None, trees)

    def add_parts(self, total: Tensor | None, trees: Tensor) -> Tensor:
        N, n = trees.shape
        if total is None:
            total = torch.zeros(N, n + 1, n + 1, dtype=torch.float32)
        sentence, word = (trees >= 0).nonzero(as_tuple=True)
        total[sentence, trees[sentence, word], word + 1] += 1
        return total

    # ------------------------------------------------------------------ tables

    def _shared(self, corpus: CorpusCounts) -> tuple[Any, Any]:
        """Tables of f and of α; where weights are given, they stand in place of α, and f is far below zero."""
        counts, alpha = self._table(corpus.counts), self._table({**corpus.concentration, **corpus.weights})
        sums = np.split(alpha[self._layout.num_events : -1], self._ends)
        alpha[-1] = 1.0  # the padding
        for name, events, of_counts, of_alpha in zip(
            self.blocks,
            self._slices.values(),
            np.split(counts[self._layout.num_events : -1], self._ends),
            sums,
            strict=True,
        ):
            if name in corpus.weights:
                counts[events], of_counts[:], of_alpha[:] = -_FAR, -_FAR, 1.0
        return counts, alpha

    def _write(self, counts: Any, corpus: CorpusCounts) -> None:
        for name, found in self._by_block(torch.from_numpy(counts[: self._layout.num_events])).items():
            if name in corpus.concentration:
                corpus.counts[name].copy_(found.clamp_min(0))

    def _table(self, values: Mapping[str, Tensor]) -> Any:
        """Values of all events, their sums by multinomial, and a zero."""
        blocks = [values[name].detach().to("cpu", torch.float64) for name in self.blocks]
        parts = [b.reshape(-1) for b in blocks] + [b.sum(-1).reshape(-1) for b in blocks]
        return torch.cat([*parts, torch.zeros(1, dtype=torch.float64)]).numpy()
