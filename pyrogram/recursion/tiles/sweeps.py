# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sweeps over a corpus where items have symbols: as :mod:`~pyrogram.recursion.lanes.sweeps`, with charts in tiles.

Every sentence has weights of its own, so that all of them are lanes.
"""

from __future__ import annotations

from ..lanes.collapsed import CollapsedSweep
from ..lanes.hastings import HastingsSweep
from ..lanes.sweeps import LOG_Z, Weighing
from ..machine.expressions import Name, equal, greatest
from ..machine.statements import Function
from ..rules.recursions import Recursion
from .descents import TileDraws
from .driver import TileBlocks


def collapsed_vb(recursion: Recursion, weighing: Weighing, lanes: int) -> Function:
    """``collapsed_vb``: one sweep. A sentence that cannot be trusted in real space fails: its counts stay."""
    return _TileCollapsedVB(recursion, weighing, lanes).function()


def hastings(recursion: Recursion, weighing: Weighing, lanes: int) -> Function:
    """``hastings``: one sweep. A sentence that cannot be trusted in real space fails: it does not move."""
    return _TileHastings(recursion, weighing, lanes).function()


class _TileCollapsedVB(CollapsedSweep, TileBlocks):
    def _feed_lanes(self, in_logs: bool) -> None:
        TileBlocks._feed_lanes(self, in_logs)

    def drain_tables(self) -> None:
        rows, others = self._split()
        with self.elements.each_lane() as x:
            self.clear_counts()
            self.drain_lane(x, others)
        for w in filter(self.elements.tables.is_counted, rows):
            with self.elements.rows([w], inward=False), self.elements.each_lane() as x:
                self.drain_lane(x, [w])


class _TileHastings(HastingsSweep, TileDraws):
    def _feed_lanes(self, in_logs: bool) -> None:
        TileBlocks._feed_lanes(self, in_logs)

    def _fill(self) -> None:
        """The charts of a block, and which sentences failed: where log Z does not tell, their adjoints do.

        These take the place of weights, so the charts are filled again.
        """
        code = self.code
        turn = code.set("turn", 0)
        with code.loop_while(turn < 2):
            self.feed_reals(logs=False)
            self.inside()
            with code.when(equal(turn, 0)):
                self.note_marks()
                doubtful = code.set("doubtful", 0)
                with self.elements.each_lane() as x:
                    log_z, trusted = self.log_z(x)
                    code.put(LOG_Z, Name("b", "int"), log_z)
                    code.set("doubtful", greatest(doubtful, 1 - self.judge(x, trusted)))
                code.set("turn", 2 - doubtful)
                with code.when(doubtful > 0):
                    code.set("spoilt", 0)
                    self.outside()
                    with self.elements.each_lane() as x:
                        self.judge(x)
                    self.clear()
            with code.otherwise():
                code.set("turn", 2)
