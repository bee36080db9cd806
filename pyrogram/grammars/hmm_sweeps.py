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
from pyrogram.distributions.sentence import check_words
from pyrogram.sweeps import Field, Own, Weights

from .compiled_sweeps import CompiledSweeps

if TYPE_CHECKING:
    from .hmm import HMM

_FAR = 1e300  # below zero, for counts that shall not count


class HMMSweeps(CompiledSweeps):
    """Sweeps of an :class:`.HMM`; words must lie on the CPU.

    Own counts are the ``values`` of the first state, the transitions, and the states of the distinct words of each
    sentence. A sentence for which numbers leave the range of real space is done in plain torch, at the end of the
    sweep.
    """

    grammar: HMM

    def __init__(self, grammar: HMM, words: Tensor) -> None:
        super().__init__(grammar, words)
        check_words(words, grammar.num_words)
        self._layout = chart.make_layout(self.words.numpy(), grammar.num_states)

    # ------------------------------------------------------------------ expected counts

    def expect(self, weights: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, Own]:
        zeros = {n: torch.zeros(b.shape, dtype=torch.float64) for n, b in self.blocks.items()}
        own = torch.zeros(int(self._layout.starts[-1]), dtype=torch.float64)
        fixed = Field(zeros, {}, {n: weights[n].detach().to(torch.float64) for n in self.blocks})
        return self._sweep(fixed, own, torch.zeros_like(own), torch.arange(len(self.words)), max(len(self.words), 1))

    def collapsed_vb(
        self, field: Field, own: Own, order: Tensor, batch_size: int, *, spare: Own | None = None
    ) -> tuple[Tensor, Own]:
        out = torch.empty_like(own["values"]) if spare is None else spare["values"]
        return self._sweep(field, own["values"], out, order, batch_size)[1:]

    def _sweep(
        self, field: Field, own: Tensor, out: Tensor, order: Tensor, batch_size: int
    ) -> tuple[Tensor, Tensor, Own]:
        log_z, entropies = (torch.zeros(len(self.words), dtype=torch.float64) for _ in range(2))
        if not self._is_compiled(field):
            self._plain(field, own, out, order, batch_size, log_z, entropies)
            return log_z, entropies, {"values": out}
        tables = self._tables(field)
        found = chart.collapsed_vb(self._layout, tables, own.numpy(), out.numpy(), order.numpy(), batch_size)
        log_z, entropies, failed = (torch.from_numpy(x) for x in found)
        self._write(tables, field, self.total({"values": out}) if field.weights else {})
        if failed.any():
            self._plain(field, own, out, failed.nonzero()[:, 0], 1, log_z, entropies)
        return log_z, entropies, {"values": out}

    def total(self, own: Own) -> Weights:
        initial, transition, emission = chart.total(self._layout, own["values"].numpy(), self.grammar.num_words)
        found = initial, transition, np.ascontiguousarray(emission.T)
        return {name: torch.from_numpy(table) for name, table in zip(self.blocks, found, strict=True)}

    def of_sentences(self, own: Own, sentences: Tensor) -> Weights:
        K, B = self.grammar.num_states, len(sentences)
        dense = {n: own["values"].new_zeros(B, *block.shape) for n, block in self.blocks.items()}
        for k, i in enumerate(sentences.tolist()):
            initial, transition, emission = own["values"][self._own(i)].split_with_sizes(
                [K, K * (K + 1), K * len(self._distinct(i))]
            )
            dense["initial"][k] = initial
            dense["transition"][k] = transition.reshape(K, K + 1)
            dense["emission"][k][:, self._distinct(i)] = emission.reshape(-1, K).T
        return dense

    def _own(self, sentence: int) -> slice:
        return slice(int(self._layout.starts[sentence]), int(self._layout.starts[sentence + 1]))

    def _distinct(self, sentence: int) -> Tensor:
        starts = self._layout.word_starts
        return torch.from_numpy(self._layout.distinct[starts[sentence] : starts[sentence + 1]])

    # ------------------------------------------------------------------ derivations

    def _packed(self, counts: Weights, k: int, sentence: int) -> Tensor:
        emitted = counts["emission"][k].T[self._distinct(sentence)]
        return torch.cat((counts["initial"][k], counts["transition"][k].reshape(-1), emitted.reshape(-1)))

    def _is_compiled(self, field: Field) -> bool:
        return all(len(group) == 1 for group in field.groups())  # the kernels take blocks for independent

    def _run_hastings(
        self, field: Field, trees: Tensor, order: Tensor, batch_size: int, seed: int, temperature: float
    ) -> tuple[Any, Any]:
        tables = self._tables(field)
        found: tuple[Any, Any] = state_chart.hastings(
            self._layout, tables, trees.numpy(), order.numpy(), batch_size, seed, temperature
        )
        self._write(tables, field, self.counts(trees) if field.weights else {})
        return found

    # ------------------------------------------------------------------ tables

    def _tables(self, field: Field) -> chart.Tables:
        """f beside α; where weights are given, they stand in place of α, their sum is one, and f is far below zero."""
        pairs, sums = [], []
        for name in self.blocks:
            given = name in field.weights
            alpha = (field.weights if given else field.alpha)[name].detach().to("cpu", torch.float64)
            f = torch.full_like(alpha, -_FAR) if given else field.counts[name].detach().to("cpu", torch.float64)
            total = torch.ones_like(alpha.sum(-1)) if given else alpha.sum(-1)
            sums.append(torch.stack([torch.full_like(total, -_FAR) if given else f.sum(-1), total]).numpy())
            pair = torch.stack([f, alpha])
            pairs.append(np.ascontiguousarray((pair.mT if name == "emission" else pair).numpy()))
        return chart.Tables(pairs[0], pairs[1], pairs[2], sums[0], sums[1], sums[2])

    def _write(self, tables: chart.Tables, field: Field, of_fixed: Mapping[str, Any]) -> None:
        found = tables.initial[0], tables.transition[0], np.ascontiguousarray(tables.emission[0].T)
        for name, table in zip(self.blocks, found, strict=True):
            field.counts[name].copy_(of_fixed[name] if name in field.weights else torch.from_numpy(table).clamp_min(0))
