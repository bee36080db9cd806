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
from pyrogram.distributions.constraints import LeftmostDerivations
from pyrogram.sweeps import Field, Own, Weights
from pyrogram.sweeps_checks import check_own, check_sentences, check_trees, check_weights

from .compiled_sweeps import CompiledSweeps

if TYPE_CHECKING:
    from .cfg import CFG

BLOCK = "rules"


class CFGSweeps(CompiledSweeps):
    """Sweeps of a :class:`.CFG`; words must lie on the CPU.

    Own counts are the ``values`` of the events that can occur in each sentence, see
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

    # ------------------------------------------------------------------ expected counts

    def expect(self, weights: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, Own]:
        check_weights(weights, self.blocks)
        w = weights[BLOCK].detach().to(torch.float64)
        out = torch.zeros(self._layout.num_own, dtype=torch.float64)
        found = chart.expect(*self._tables, w.contiguous().numpy(), out.numpy())
        log_z, entropies, failed = (torch.from_numpy(x) for x in found)
        fixed = Field({BLOCK: torch.zeros_like(w)}, {}, {BLOCK: w})
        if failed.any():
            most = max(1, self.CHUNK // self._size)
            self._plain(fixed, torch.zeros_like(out), out, failed.nonzero()[:, 0], most, log_z, entropies)
        return log_z, entropies, {"values": out}

    def collapsed_vb(
        self, field: Field, own: Own, order: Tensor, batch_size: int, *, spare: Own | None = None
    ) -> tuple[Tensor, Own]:
        self._check_vb(field, own, order, batch_size, spare)
        values = own["values"]
        out = torch.empty_like(values) if spare is None else spare["values"]
        if BLOCK in field.weights:  # nothing depends on the counts
            log_z, entropies, found = self.expect(field.weights)
            field.counts[BLOCK].copy_(self.total(found)[BLOCK])
            return entropies, found
        counts, alpha = self._vector(field.counts), self._vector(field.alpha)
        arrays = counts.numpy(), alpha.numpy(), values.numpy(), out.numpy()
        found_arrays = chart.collapsed_vb(*self._tables, *arrays, order.numpy(), batch_size)
        log_z, entropies, failed = (torch.from_numpy(x) for x in found_arrays)
        field.counts[BLOCK].copy_(counts)
        if failed.any():
            self._plain(field, values, out, failed.nonzero()[:, 0], 1, log_z, entropies)
        return entropies, {"values": out}

    def total(self, own: Own) -> Weights:
        self._check_own(own)
        return {BLOCK: torch.from_numpy(total(self._layout, own["values"].numpy(), self._size))}

    def of_sentences(self, own: Own, sentences: Tensor) -> Weights:
        self._check_own(own)
        check_sentences("sentences", sentences, len(self.words))
        return {BLOCK: self._dense_own(own["values"], sentences)}

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

    def _check_own(self, own: Own) -> None:
        check_own(own, self._layout.num_own)

    def _packed(self, counts: Weights, k: int, sentence: int) -> Tensor:
        return counts[BLOCK][k, self._events(sentence)]

    def _is_compiled(self, field: Field) -> bool:
        return BLOCK not in field.weights

    def _run_hastings(
        self, field: Field, trees: Tensor, order: Tensor, batch_size: int, seed: int, temperature: float
    ) -> tuple[Any, Any]:
        counts, alpha = self._vector(field.counts), self._vector(field.alpha)
        arrays = counts.numpy(), alpha.numpy(), trees.numpy(), order.numpy()
        found = tree_chart.hastings(*self._tables, self.grammar.table, *arrays, batch_size, seed, temperature)
        field.counts[BLOCK].copy_(counts)
        return found

    def _vector(self, values: Mapping[str, Tensor]) -> Tensor:
        """A copy in float64."""
        return values[BLOCK].detach().to("cpu", torch.float64).clone()
