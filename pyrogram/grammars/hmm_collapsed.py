# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Collapsed inference for hidden Markov models: compiled sweeps on the CPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from pyrogram.charts import hmm_sweeps as chart
from pyrogram.charts import hmm_sweeps_states as state_chart
from pyrogram.charts.trees import lengths_of
from pyrogram.collapsed import CollapsedUpdates, CorpusCounts, SentenceCounts, Weights
from pyrogram.collapsed_checks import check_sentence_counts, check_sentences, check_trees, check_weights
from pyrogram.distributions.state_sequence import States

from .compiled_collapsed import CompiledUpdates
from .hmm_page_sweeps import HMMPageUpdates

if TYPE_CHECKING:
    from .hmm import HMM

_FAR = 1e300  # below zero, for counts that shall not count


class HMMUpdates(CompiledUpdates):
    """Sweeps of an :class:`.HMM`; words must lie on the CPU.

    Sentence counts are the ``values`` of the first state, the transitions, and the states of the distinct words of each
    sentence. A sentence for which numbers leave the range of real space is done in plain torch, at the end of the
    sweep.
    """

    grammar: HMM

    def __init__(self, grammar: HMM, words: Tensor) -> None:
        super().__init__(grammar, words)
        self._layout = chart.make_layout(self.words.numpy(), grammar.num_states)
        self.num_own = int(self._layout.size)

    def by_page(self) -> CollapsedUpdates:
        return HMMPageUpdates(self.grammar, self.words, HMMPageUpdates.plan(self.grammar, self.words))

    # ------------------------------------------------------------------ expected counts

    def expected_counts(self, weights: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, SentenceCounts]:
        check_weights(weights, self.blocks)
        zeros = {n: torch.zeros(b.shape, dtype=torch.float64) for n, b in self.blocks.items()}
        own = torch.zeros(self._layout.size, dtype=torch.float64)
        fixed = CorpusCounts(zeros, {}, {n: weights[n].detach().to(torch.float64) for n in self.blocks})
        order = torch.argsort((self.words >= 0).sum(1), stable=True)
        return self._sweep(fixed, own, torch.zeros_like(own), order, max(len(self.words), 1))

    def _sweep(
        self, corpus: CorpusCounts, own: Tensor, out: Tensor, order: Tensor, batch_size: int
    ) -> tuple[Tensor, Tensor, SentenceCounts]:
        log_z, entropies = (torch.zeros(len(self.words), dtype=torch.float64) for _ in range(2))
        if not self._is_compiled(corpus):
            self._plain(corpus, own, out, order, batch_size, log_z, entropies)
            return log_z, entropies, {"values": out}
        tables = self._tables(corpus)
        found = chart.collapsed_vb(self._layout, tables, own.numpy(), out.numpy(), order.numpy(), batch_size)
        log_z, entropies, failed = (torch.from_numpy(x) for x in found)
        self._write(tables, corpus, self.total({"values": out}) if corpus.weights else {})
        if failed.any():
            self._plain(corpus, own, out, failed.nonzero()[:, 0], 1, log_z, entropies)
        return log_z, entropies, {"values": out}

    def total(self, sentence_counts: SentenceCounts) -> Weights:
        self._check_sentence_counts(sentence_counts)
        found = chart.total(self._layout, sentence_counts["values"].numpy(), self.grammar.num_words)
        return {name: torch.from_numpy(table) for name, table in zip(self.blocks, found, strict=True)}

    def dense_counts(self, sentence_counts: SentenceCounts, sentences: Tensor) -> Weights:
        self._check_sentence_counts(sentence_counts)
        check_sentences("sentences", sentences, len(self.words))
        K, B = self.grammar.num_states, len(sentences)
        dense = {n: sentence_counts["values"].new_zeros(B, *block.shape) for n, block in self.blocks.items()}
        for k, i in enumerate(sentences.tolist()):
            initial, transition, emission = chart.unpack(sentence_counts["values"][self._own(i)].numpy(), K)
            dense["initial"][k] = torch.from_numpy(initial)
            dense["transition"][k] = torch.from_numpy(transition)
            dense["emission"][k][:, self._distinct(i)] = torch.from_numpy(emission)
        return dense

    def _own(self, sentence: int) -> slice:
        return slice(int(self._layout.starts[sentence]), int(self._layout.starts[sentence + 1]))

    def _distinct(self, sentence: int) -> Tensor:
        starts = self._layout.word_starts
        return torch.from_numpy(self._layout.distinct[starts[sentence] : starts[sentence + 1]])

    # ------------------------------------------------------------------ derivations

    def _check_trees(self, trees: Tensor) -> None:
        check_trees(trees, self.words.shape)
        if not bool(States(lengths_of(self.words), self.grammar.num_states).check(trees).all()):
            raise ValueError(f"trees must be states, 0 to {self.grammar.num_states - 1} for every word, and then -1")

    def _check_sentence_counts(self, sentence_counts: SentenceCounts) -> None:
        check_sentence_counts(sentence_counts, self._layout.size)

    def _packed(self, counts: Weights, k: int, sentence: int) -> Tensor:
        initial, transition, emission = (counts[n][k].to("cpu", torch.float64) for n in self.blocks)
        emitted = emission[:, self._distinct(sentence)]
        return torch.from_numpy(chart.pack(initial.numpy(), transition.numpy(), emitted.numpy()))

    def _is_compiled(self, corpus: CorpusCounts) -> bool:
        return all(len(group) == 1 for group in corpus.groups())  # the kernels take blocks for independent

    def _run_hastings(
        self, corpus: CorpusCounts, trees: Tensor, order: Tensor, batch_size: int, seed: int, temperature: float
    ) -> tuple[Any, Any]:
        tables = self._tables(corpus)
        found: tuple[Any, Any] = state_chart.hastings(
            self._layout, tables, trees.numpy(), order.numpy(), batch_size, seed, temperature
        )
        self._write(tables, corpus, self.counts(trees) if corpus.weights else {})
        return found

    def counts(self, trees: Tensor) -> Weights:
        self._check_trees(trees)
        K, V, real = self.grammar.num_states, self.grammar.num_words, trees >= 0
        later = torch.nn.functional.pad(trees[:, 1:], (0, 1), value=-1)
        moved = (trees * (K + 1) + torch.where(later < 0, K, later))[real]
        emitted = (trees * V + self.words)[real]
        return {
            "initial": torch.bincount(trees[:, 0], minlength=K).double(),
            "transition": torch.bincount(moved, minlength=K * (K + 1)).double().reshape(K, K + 1),
            "emission": torch.bincount(emitted, minlength=K * V).double().reshape(K, V),
        }

    def parts(self, trees: Tensor) -> Tensor:
        return self.add_parts(None, trees)

    def add_parts(self, total: Tensor | None, trees: Tensor) -> Tensor:
        if total is None:
            total = torch.zeros(*trees.shape, self.grammar.num_states, dtype=torch.float32)
        sentence, word = (trees >= 0).nonzero(as_tuple=True)
        total[sentence, word, trees[sentence, word]] += 1
        return total

    # ------------------------------------------------------------------ tables

    def _tables(self, corpus: CorpusCounts) -> chart.Tables:
        """f and α; where weights are given, they stand in place of α, their sum is one, and f is far below zero."""
        K, P = self.grammar.num_states, self._layout.P
        f, alpha, sums = {}, {}, np.stack([np.zeros((3, P)), np.ones((3, P))])
        for k, name in enumerate(self.blocks):
            given = name in corpus.weights
            a = (corpus.weights if given else corpus.concentration)[name].detach().to("cpu", torch.float64)
            counts = torch.full_like(a, -_FAR) if given else corpus.counts[name].detach().to("cpu", torch.float64)
            f[name], alpha[name] = counts.numpy(), a.expand(self.blocks[name].shape).numpy()
            size = 1 if name == "initial" else K
            sums[0, k, :size] = -_FAR if given else f[name].sum(-1)
            sums[1, k, :size] = 1.0 if given else alpha[name].sum(-1)
        return chart.Tables(chart.pack(*f.values()), chart.pack(*alpha.values()), *sums.reshape(2, -1))

    def _write(self, tables: chart.Tables, corpus: CorpusCounts, of_fixed: Mapping[str, Any]) -> None:
        found = chart.unpack(tables.f, self.grammar.num_states)
        for name, table in zip(self.blocks, found, strict=True):
            corpus.counts[name].copy_(
                of_fixed[name] if name in corpus.weights else torch.from_numpy(table).clamp_min(0)
            )
