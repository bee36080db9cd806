# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Collapsed inference for the dependency model of a large vocabulary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from pyrogram.charts import dmv
from pyrogram.recursion.calling.sentence_events import FewEvents

from .dmv_collapsed import DMVUpdates
from .recursive_collapsed import Plan

if TYPE_CHECKING:
    from .sparse_dmv import SparseDMV


class SparseDMVUpdates(DMVUpdates):
    """Sweeps of the :class:`.SparseDMV` over sentences all of whose pairs were seen.

    They are those of the :class:`.DMV`, whose table of attachments has few elements that are events.
    """

    _base: SparseDMV

    @staticmethod
    def plan(grammar: SparseDMV, words: Tensor, arcs: Any = None) -> Plan:  # type: ignore[override]
        given = {} if arcs is None else {"arc": arcs}
        program = dmv.program(grammar.valence_attach, evidence=bool(given), valences=grammar.num_valences).program
        V, found = grammar.num_tags, grammar.attachments
        valences = (grammar.num_valences,) if grammar.valence_attach else ()
        stop = tuple(grammar.blocks["stop"].shape)
        few = FewEvents(found.numbers, found.owners)
        return Plan(
            *(grammar, words, program, {"V": V}),
            given=given,
            shapes={"root": (V,), "attach": (V, 2, *valences, V), "stop": stop},
            few={"attach": few},
        )

    def _rows(self, trees: Tensor) -> Any:
        return self._base.rows_of(self._plan.words.numpy(), np.ascontiguousarray(trees.numpy()))
