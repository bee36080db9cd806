# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Collapsed inference for the DMV, whose derivations are trees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from pyrogram.charts import dmv_trees
from pyrogram.charts.trees import check_heads, lengths_of
from pyrogram.collapsed_checks import check_trees

from .recursive_collapsed import Plan, RecursiveUpdates

if TYPE_CHECKING:
    from .dmv import DMV


class DMVUpdates(RecursiveUpdates):
    """Sweeps of the :class:`.DMV`; derivations are heads, shape ``(N, n)``."""

    _base: DMV

    @staticmethod
    def plan(grammar: DMV, words: Tensor, arcs: Any = None) -> Plan:
        """
        :param arcs: factors of arcs [head, dependent], an array of shape ``(N, n+1, n+1)``, float64; None: none.
        """
        given = {} if arcs is None else {"arc": arcs}
        program = grammar.program(evidence=bool(given)).program
        return Plan(grammar, words, program, {"V": grammar.num_tags}, given=given)

    def _check_trees(self, trees: Tensor) -> None:
        check_trees(trees, self.words.shape)
        check_heads(trees, lengths_of(self.words))

    def _rows(self, trees: Tensor) -> Any:
        base, words = self._base, self._plan.words.numpy()
        return dmv_trees.rows_of(words, trees.numpy(), base.num_tags, base.num_valences, base.valence_attach)

    def _positions(self) -> dict[str, tuple[int, ...]]:
        return dmv_trees.positions_of(self.words.shape[1], self._base.valence_attach)

    def _move(self, trees: Tensor, rows: Any, positions: Any, accepted: Any) -> None:
        dmv_trees.move(trees.numpy(), positions, accepted)

    def parts(self, trees: Tensor) -> Tensor:
        return self.add_parts(None, trees)

    def add_parts(self, total: Tensor | None, trees: Tensor) -> Tensor:
        N, n = trees.shape
        if total is None:
            total = torch.zeros(N, n + 1, n + 1, dtype=torch.float32)
        sentence, word = (trees >= 0).nonzero(as_tuple=True)
        total[sentence, trees[sentence, word], word + 1] += 1
        return total
