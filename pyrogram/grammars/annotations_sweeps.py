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
from pyrogram.charts.annotation_numba import Posteriors
from pyrogram.sweeps import Field, Own, Sweeps, Weights

if TYPE_CHECKING:
    from .annotations import LatentAnnotations

#: Own counts of more numbers than that are kept in float32; they are taken out just as they were put in.
GREATEST_DOUBLE = 2**26


class AnnotationSweeps(Sweeps):
    """:class:`Sweeps` for :class:`LatentAnnotations` on the CPU; own counts are a table for each node.

    :param grammar: the grammar.
    :param words: trees as base rules, shape ``(N, L)``, padded with -1.
    """

    def __init__(self, grammar: LatentAnnotations, words: Tensor) -> None:
        super().__init__(grammar, words)
        self.layout = chart.make_layout(grammar.rules, grammar.trees(self.words))
        size = int(self.layout.begin[-1])
        self._dtype = np.float64 if size <= GREATEST_DOUBLE else np.float32

    def expect(self, weights: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, Own]:
        log_weights = np.log(np.maximum(weights["rules"].detach().double().cpu().numpy(), 1e-320))
        log_weights[weights["rules"].cpu().numpy() == 0] = -np.inf
        rules, trees = self.layout.rules, self.layout.trees
        posteriors = Posteriors(log_weights[None], rules, trees, np.zeros(len(self.words), np.int64))
        values = self._empty()
        vectors = posteriors.inside, posteriors.outside, posteriors.scale
        expected = chart.own_counts(self.layout, posteriors.real[0], *vectors, values)
        shifts = np.zeros(len(self.words))
        np.add.at(shifts, np.repeat(np.arange(len(self.words)), trees.lengths), posteriors.shift)
        expected += shifts  # the weights that posteriors has are divided by the greatest of each rule
        for b in posteriors.failed:
            expected[b] = chart.own_counts_by_logs(self.layout, log_weights, int(b), values)
        log_z = torch.from_numpy(posteriors.log_z)
        return log_z, log_z - torch.from_numpy(expected), {"values": torch.from_numpy(values)}

    def total(self, own: Own) -> Weights:
        return {"rules": torch.from_numpy(chart.total(self.layout, own["values"].numpy()))}

    def of_sentences(self, own: Own, sentences: Tensor) -> Weights:
        found = chart.of_trees(self.layout, own["values"].numpy(), sentences.numpy())
        return {"rules": torch.from_numpy(found)}

    def collapsed_vb(
        self, field: Field, own: Own, order: Tensor, batch_size: int, *, spare: Own | None = None
    ) -> tuple[Tensor, Own]:
        if "rules" in field.weights:  # weights that are not integrated out do not depend on other trees
            _, entropies, fresh = self.expect(field.weights)
            field.counts["rules"].copy_(self.total(fresh)["rules"])
            return entropies, fresh
        counts, alpha = field.counts["rules"].numpy(), field.alpha["rules"].double().expand(self._size)
        totals = self.blocks["rules"].sums(field.counts["rules"] + alpha).numpy()
        values = self._empty() if spare is None else spare["values"].numpy()
        given = np.ascontiguousarray(alpha.numpy()), totals, own["values"].numpy()
        _, entropies = chart.collapsed_vb(self.layout, counts, *given, values, order.numpy(), batch_size)
        return torch.from_numpy(entropies), {"values": torch.from_numpy(values)}

    def counts(self, trees: Tensor) -> Weights:
        zeros = torch.zeros(self._size, dtype=torch.float64)
        derivation: Any = self.grammar.derivation(None, self.words, log_weights={"rules": zeros})
        events = derivation._events(trees)[derivation._kinds() > 0]
        return {"rules": torch.bincount(events, minlength=self._size).double()}

    def _empty(self) -> Any:
        return np.zeros(int(self.layout.begin[-1]), self._dtype)
