# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Collapsed inference for context-free grammars: sweeps compiled from the rules of a recursion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from pyrogram.charts.cfg_batch import Batch
from pyrogram.charts.cfg_rules import Matches, longest
from pyrogram.collapsed_checks import check_trees
from pyrogram.distributions.constraints import LeftmostDerivations
from pyrogram.event_map import NEVER, ONE, EventMap

from .recursive_collapsed import Plan, RecursiveUpdates

if TYPE_CHECKING:
    from .cfg import CFG

_RULES = "rules"  # the events of the grammar, and one more of weight one, before the tables of the program
_MOST_PLACES = 2**29  # of weights by position, in all sentences


class CFGUpdates(RecursiveUpdates):
    """Sweeps of a :class:`.CFG`; derivations are rows of rules, leftmost first, shape ``(N, L)``."""

    _base: CFG

    @staticmethod
    def plan(grammar: CFG, words: Tensor, matches: Matches) -> Plan | None:
        """
        :param matches: of the words, with the spans that are forbidden.
        :returns: None, if there is no compiled code for the rules, or there are too many places for words.
        """
        batch = Batch(grammar.table, matches)
        program, R = batch.program.program, grammar.table.num_events
        count = sum(int(np.prod(places.shape)) for places in batch.places.values())
        if not program.in_many or count > _MOST_PLACES:
            return None
        located = {}
        for name, places in batch.places.items():
            located[name] = np.full(places.shape, -1, np.int32)
            located[name].reshape(-1)[places.at] = places.event
        given = {}
        if matches.forbidden is not None and batch.form.has_x:
            given["bonus.X"] = np.exp(batch.allowed)
        others = np.concatenate([np.arange(R), [ONE, NEVER]])  # of R and R + 1, which are no rules
        tables = {name: others[own] for name, own in {_RULES: np.arange(R + 1), **batch.kinds.events}.items()}
        return Plan(
            *(grammar, words, program, batch.sizes, batch.lists, given),
            located=located,
            events=EventMap(grammar.blocks, tables),
            sums=batch.sums.program,
        )

    def _check_trees(self, trees: Tensor) -> None:
        check_trees(trees, (len(self.words), longest(self._base.table, self.words.shape[-1])))
        if not bool(LeftmostDerivations(self._base.flat, self._plan.words).check(trees).all()):
            raise ValueError("trees must be leftmost derivations of the sentences, padded with -1, but some are not")

    def _rows(self, trees: Tensor) -> Any:
        """Rows of numbers of the program, with room for rules of weight one."""
        width = longest(self._base.table, self.words.shape[-1], with_silent=True)
        return np.pad(trees.numpy(), ((0, 0), (0, width - trees.shape[1])), constant_values=-1)

    def _move(self, trees: Tensor, rows: Any, positions: Any, accepted: Any) -> None:
        events = np.concatenate([table.reshape(-1) for table in self._plan.elements.tables.values()])
        rules = np.where(rows < 0, -1, events[rows])
        order = np.argsort(rules < 0, axis=1, kind="stable")[:, : trees.shape[1]]
        trees.numpy()[accepted] = np.take_along_axis(rules, order, 1)[accepted]
