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
        batch, block = Batch(grammar.table, matches), grammar.blocks["rules"]
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
        shapes, numbers = _numbers_of_rules({_RULES: np.arange(R + 1), **batch.kinds.events}, _owners(block))
        return Plan(
            *(grammar, words, program, batch.sizes, batch.lists, given),
            shapes=shapes,
            located=located,
            renumbered=numbers,
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
        rules = np.where(rows < 0, -1, self._plan.renumbered[rows])
        rules[rules >= self._base.table.num_events] = -1
        order = np.argsort(rules < 0, axis=1, kind="stable")[:, : trees.shape[1]]
        trees.numpy()[accepted] = np.take_along_axis(rules, order, 1)[accepted]


def _owners(block: Any) -> Any:
    """The multinomial of each event, and two that there are not: of the event of weight one, and of nothing."""
    owner = block.owner.numpy()
    return np.concatenate([owner, [owner.max() + 1] * 2])


def _numbers_of_rules(tables: dict[str, Any], owners: Any) -> tuple[dict[str, tuple[int, ...]], Any]:
    """Shapes of tables of events, and the numbers of the grammar by those of the program.

    :param tables: by name, the event of each element: R for weight one and no event, R + 1 for no rule.
    :param owners: see :func:`_owners`.
    """
    R = len(owners) - 2
    padding = R + owners.max()
    events = np.concatenate([np.arange(R), [padding, padding + 1]])
    shapes, numbers, sums = {}, [], []
    for name, own in tables.items():
        rows = own.reshape(-1, own.shape[-1])
        first = np.take_along_axis(rows, (rows <= R).argmax(1)[:, None], 1)  # of rules, if there are any in the row
        is_row = own.ndim > 1 and (owners[np.where(rows <= R, rows, first)] == owners[first]).all()
        shapes[name] = own.shape if is_row else (*own.shape, 1)
        numbers.append(events[own.reshape(-1)])
        sums.append(R + owners[first[:, 0] if is_row else own.reshape(-1)])
    return shapes, np.concatenate([*numbers, *sums, [padding, padding + 1]]).astype(np.int32)
