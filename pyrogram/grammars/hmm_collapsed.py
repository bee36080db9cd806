# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Collapsed inference for hidden Markov models by their page: sweeps compiled from the rules of a chain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from pyrogram.charts import hmm
from pyrogram.charts.trees import lengths_of
from pyrogram.collapsed_checks import check_trees
from pyrogram.distributions.state_sequence import States
from pyrogram.event_map import EventMap

from .recursive_collapsed import Plan, RecursiveUpdates

if TYPE_CHECKING:
    from .hmm import HMM


class HMMUpdates(RecursiveUpdates):
    """Sweeps of an :class:`.HMM`; derivations are states, shape ``(N, n)``."""

    _base: HMM

    @staticmethod
    def plan(grammar: HMM, words: Tensor, bonus: Any = None) -> Plan:
        """
        :param bonus: factors of states, an array of shape ``(N, n + 1, K)``, words from 1 on, float64; None: none.
        """
        K, V = grammar.num_states, grammar.num_words
        tables = EventMap.of_blocks(grammar.blocks).tables
        moves = tables["transition"]  # into a state, or to the end
        own = {
            "initial": tables["initial"],
            "transition": moves[:, :K],
            "end": moves[:, K:],
            "emission": tables["emission"],
        }
        given = {} if bonus is None else {"bonus": bonus}
        program = hmm.program(evidence=bool(given)).program
        events = EventMap(grammar.blocks, own)
        return Plan(grammar, words, program, {"K": K, "V": V}, given=given, events=events)

    def _check_trees(self, trees: Tensor) -> None:
        check_trees(trees, self.words.shape)
        if not bool(States(lengths_of(self.words), self._base.num_states).check(trees).all()):
            raise ValueError(f"trees must be states, 0 to {self._base.num_states - 1} for every word, and then -1")

    def _rows(self, trees: Tensor) -> Any:
        """As draws write them: the end, the last emission, the transition into its state, and so on to the first."""
        K, V = self._base.num_states, self._base.num_words
        states, words = trees.numpy(), self._plan.words.numpy()
        real = states >= 0
        N, n = states.shape
        last = real.sum(1) - 1
        rows = np.full((N, 2 * n + 1), -1, np.int64)
        ends = states[np.arange(N), last]
        rows[:, 0] = K + K * K + ends
        sentence, word = real.nonzero()
        at = 1 + 2 * (last[sentence] - word)
        state = states[sentence, word]
        before = states[sentence, np.maximum(word - 1, 0)]
        rows[sentence, at] = K + K * K + K + state * V + words[sentence, word]
        rows[sentence, at + 1] = np.where(word == 0, state, K + before * K + state)
        return rows

    def _move(self, trees: Tensor, rows: Any, positions: Any, accepted: Any) -> None:
        K, V = self._base.num_states, self._base.num_words
        first = K + K * K + K
        states = trees.numpy()
        sentence, at = ((rows >= first) & accepted[:, None]).nonzero()
        last = (states >= 0).sum(1) - 1
        rank = np.arange(len(sentence)) - np.searchsorted(sentence, sentence)
        states[sentence, last[sentence] - rank] = (rows[sentence, at] - first) // V

    def parts(self, trees: Tensor) -> Tensor:
        return self.add_parts(None, trees)

    def add_parts(self, total: Tensor | None, trees: Tensor) -> Tensor:
        if total is None:
            total = torch.zeros(*trees.shape, self._base.num_states, dtype=torch.float32)
        sentence, word = (trees >= 0).nonzero(as_tuple=True)
        total[sentence, word, trees[sentence, word]] += 1
        return total
