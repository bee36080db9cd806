# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Evidence on the trees of a dependency model of a large vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from pyrogram.collapsed import CollapsedUpdates
from pyrogram.evidence import EvidenceGrammar
from pyrogram.grammar import Weights
from pyrogram.recursion.run.on_tensors import factors_of

from .dmv_evidence import DMVEvidence
from .sparse_dmv_collapsed import SparseDMVUpdates, plan

if TYPE_CHECKING:
    from .sparse_dmv import SparseDMV


class SparseDMVEvidence(DMVEvidence):
    """Sentences of a :class:`.SparseDMV` of whose trees something is known, see :class:`.DMVEvidence`.

    Log factors of arcs are added to their log weights.
    """

    base: SparseDMV

    def log_bonus(self, words: Tensor, rows: Tensor, derivations: Tensor) -> Tensor:
        parts = self.base.log_parts(words)
        of_arcs = super().log_bonus(words, rows, derivations)
        if parts is None:
            return of_arcs
        of_trees = parts[..., 1:].gather(-2, derivations.clamp_min(0)[..., None, :])[..., 0, :]
        return of_arcs + torch.where(derivations >= 0, of_trees, 0.0).sum(-1)

    def events(self, words: Tensor, derivations: Tensor) -> Tensor:
        return torch.from_numpy(self.base.rows_of(words.cpu().numpy(), derivations.cpu().numpy())).to(words.device)

    def _log_partition(self, log_weights: Mapping[str, Tensor], prepared: Any) -> Tensor:
        return self.base.log_partition(log_weights, prepared.words, bonus=prepared.bonus)

    def _expected_counts(self, log_weights: Mapping[str, Tensor], prepared: Any) -> tuple[Tensor, Weights]:
        return self.base.expected_counts(log_weights, prepared.words, bonus=prepared.bonus)

    def partly_updates(self, words: Tensor) -> CollapsedUpdates:
        own, rows = self.split(words)
        on_cpu = words.device.type == "cpu"
        factors = factors_of(self._bonus(rows)) if on_cpu and self.base.log_parts(own) is None else None
        if factors is None:
            return EvidenceGrammar.partly_updates(self, words)
        return SparseDMVUpdates(self, words, plan(self.base, own, factors))
