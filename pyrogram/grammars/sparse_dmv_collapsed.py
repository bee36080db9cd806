# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Collapsed inference for the dependency model of a large vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from pyrogram.charts import dmv
from pyrogram.collapsed import _seeded
from pyrogram.event_map import EventMap
from pyrogram.recursion.emit.sentence_events import FewEvents

from .dmv_collapsed import DMVUpdates
from .recursive_collapsed import Plan
from .sparse_dmv_arcs import CELLS

if TYPE_CHECKING:
    from .sparse_dmv import SparseDMV


class SparseDMVUpdates(DMVUpdates):
    """Sweeps of the :class:`.SparseDMV` over sentences all of whose pairs were seen.

    They are those of the :class:`.DMV`, whose table of attachments has few elements that are events.
    """

    _base: SparseDMV

    def draw(self, log_weights: Mapping[str, Tensor], generator: torch.Generator | None = None) -> Tensor:
        """As :meth:`.CollapsedUpdates.draw`, a few sentences at a time: scores of all arcs would take much memory."""
        if self.grammar is self._base:
            return self._base.drawn(log_weights, self.words, generator)
        size = max(1, CELLS // (self.words.shape[1] + 1) ** 2)
        with _seeded(generator):
            few = (self.grammar.derivation(None, words, log_weights=log_weights) for words in self.words.split(size))
            return torch.cat([derivation.sample() for derivation in few])

    def _rows(self, trees: Tensor) -> Any:
        return self._base.rows_of(self._plan.words.numpy(), np.ascontiguousarray(trees.numpy()))


def plan(grammar: SparseDMV, words: Tensor, arcs: Any = None) -> Plan:
    """See :meth:`.DMVUpdates.plan`."""
    given = {} if arcs is None else {"arc": arcs}
    program = dmv.program(grammar.valence_attach, evidence=bool(given), valences=grammar.num_valences).program
    V, found = grammar.num_tags, grammar.attachments
    valences = (grammar.num_valences,) if grammar.valence_attach else ()
    few = {"attach": FewEvents(found.numbers, found.owners, (V, 2, *valences, V))}
    return Plan(grammar, words, program, {"V": V}, given=given, events=EventMap.of_blocks(grammar.blocks, few))
