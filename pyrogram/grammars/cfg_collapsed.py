# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Collapsed inference for context-free grammars: compiled sweeps on the CPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from pyrogram.charts import cfg_sweeps as chart
from pyrogram.charts import cfg_sweeps_trees as tree_chart
from pyrogram.charts.cfg_rules import longest
from pyrogram.charts.cfg_sweeps_layout import make_layout, total
from pyrogram.collapsed import CollapsedUpdates, CorpusCounts, SentenceCounts, Weights
from pyrogram.collapsed_checks import check_sentence_counts, check_sentences, check_trees, check_weights
from pyrogram.distributions.constraints import LeftmostDerivations

from .cfg_page_sweeps import CFGPageUpdates
from .compiled_collapsed import CompiledUpdates

if TYPE_CHECKING:
    from .cfg import CFG

BLOCK = "rules"


class CFGUpdates(CompiledUpdates):
    """Sweeps of a :class:`.CFG`; words must lie on the CPU.

    Sentence counts are the ``values`` of the events that can occur in each sentence, see
    :mod:`pyrogram.charts.cfg_sweeps_layout`. A sentence for which numbers leave the range of real space is done in
    plain torch, at the end of the sweep.
    """

    grammar: CFG

    def __init__(self, grammar: CFG, words: Tensor) -> None:
        super().__init__(grammar, words)
        self._matches = grammar.matches(self.words)
        owner = grammar.blocks[BLOCK].owner.numpy()
        self._tables = make_layout(grammar.table, self._matches, owner)
        self._layout = self._tables[0]
        self.num_own = int(self._layout.num_own)

    def by_page(self) -> CollapsedUpdates | None:
        plan = CFGPageUpdates.plan(self.grammar, self.words, self._matches)
        return None if plan is None else CFGPageUpdates(self.grammar, self.words, plan)

    # ------------------------------------------------------------------ expected counts

    def expected_counts(self, weights: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, SentenceCounts]:
        check_weights(weights, self.blocks)
        w = weights[BLOCK].detach().to(torch.float64)
        out = torch.zeros(self._layout.num_own, dtype=torch.float64)
        found = chart.expect(*self._tables, w.contiguous().numpy(), out.numpy())
        log_z, entropies, failed = (torch.from_numpy(x) for x in found)
        fixed = CorpusCounts({BLOCK: torch.zeros_like(w)}, {}, {BLOCK: w})
        if failed.any():
            most = max(1, self.CHUNK // self._size)
            self._plain(fixed, torch.zeros_like(out), out, failed.nonzero()[:, 0], most, log_z, entropies)
        return log_z, entropies, {"values": out}

    def collapsed_vb(
        self,
        corpus: CorpusCounts,
        sentence_counts: SentenceCounts,
        order: Tensor,
        batch_size: int,
        *,
        buffer: SentenceCounts | None = None,
    ) -> tuple[Tensor, SentenceCounts]:
        self._check_vb(corpus, sentence_counts, order, batch_size, buffer)
        values = sentence_counts["values"]
        out = torch.empty_like(values) if buffer is None else buffer["values"]
        if BLOCK in corpus.weights:  # nothing depends on the counts
            log_z, entropies, found = self.expected_counts(corpus.weights)
            corpus.counts[BLOCK].copy_(self.total(found)[BLOCK])
            return entropies, found
        counts, alpha = self._vector(corpus.counts), self._vector(corpus.concentration)
        arrays = counts.numpy(), alpha.numpy(), values.numpy(), out.numpy()
        found_arrays = chart.collapsed_vb(*self._tables, *arrays, order.numpy(), batch_size)
        log_z, entropies, failed = (torch.from_numpy(x) for x in found_arrays)
        corpus.counts[BLOCK].copy_(counts)
        if failed.any():
            self._plain(corpus, values, out, failed.nonzero()[:, 0], 1, log_z, entropies)
        return entropies, {"values": out}

    def total(self, sentence_counts: SentenceCounts) -> Weights:
        self._check_sentence_counts(sentence_counts)
        return {BLOCK: torch.from_numpy(total(self._layout, sentence_counts["values"].numpy(), self._size))}

    def dense_counts(self, sentence_counts: SentenceCounts, sentences: Tensor) -> Weights:
        self._check_sentence_counts(sentence_counts)
        check_sentences("sentences", sentences, len(self.words))
        return {BLOCK: self._dense_own(sentence_counts["values"], sentences)}

    def _dense_own(self, own: Tensor, sentences: Tensor) -> Tensor:
        dense = own.new_zeros(len(sentences), self._size)
        for k, i in enumerate(sentences.tolist()):
            dense[k, self._events(i)] = own[self._own(i)]
        return dense

    def _own(self, sentence: int) -> slice:
        return self._layout.own(sentence)

    def _events(self, sentence: int) -> Tensor:
        return torch.from_numpy(self._layout.events_of(sentence))

    # ------------------------------------------------------------------ derivations

    def counts(self, trees: Tensor) -> Weights:
        self._check_trees(trees)
        return {BLOCK: torch.bincount(trees[trees >= 0], minlength=self._size).to(torch.float64)}

    def _check_trees(self, trees: Tensor) -> None:
        check_trees(trees, (len(self.words), longest(self.grammar.table, self.words.shape[-1])))
        if not bool(LeftmostDerivations(self.grammar.flat, self.words).check(trees).all()):
            raise ValueError("trees must be leftmost derivations of the sentences, padded with -1, but some are not")

    def _check_sentence_counts(self, sentence_counts: SentenceCounts) -> None:
        check_sentence_counts(sentence_counts, self._layout.num_own)

    def _packed(self, counts: Weights, k: int, sentence: int) -> Tensor:
        return counts[BLOCK][k, self._events(sentence)]

    def _is_compiled(self, corpus: CorpusCounts) -> bool:
        return BLOCK not in corpus.weights

    def _run_hastings(
        self, corpus: CorpusCounts, trees: Tensor, order: Tensor, batch_size: int, seed: int, temperature: float
    ) -> tuple[Any, Any]:
        counts, alpha = self._vector(corpus.counts), self._vector(corpus.concentration)
        arrays = counts.numpy(), alpha.numpy(), trees.numpy(), order.numpy()
        found = tree_chart.hastings(*self._tables, self.grammar.table, *arrays, batch_size, seed, temperature)
        corpus.counts[BLOCK].copy_(counts)
        return found

    def _vector(self, values: Mapping[str, Tensor]) -> Tensor:
        """A copy in float64."""
        return values[BLOCK].detach().to("cpu", torch.float64).clone()
