# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sweeps over a corpus where items have symbols: as :mod:`~pyrogram.recursion.lanes.sweeps`, with charts in tiles.

Every sentence has weights of its own, so that all of them are lanes.
"""

from __future__ import annotations

from ..lanes.collapsed import CollapsedSweep
from ..lanes.hastings import HastingsSweep
from ..lanes.sweeps import Weighing
from ..machine.statements import Function
from ..rules.recursions import Recursion
from .descents import TileDraws
from .driver import TileBlocks


def collapsed_vb(recursion: Recursion, weighing: Weighing, lanes: int) -> Function:
    """``collapsed_vb``: one sweep."""
    return _TileCollapsedVB(recursion, weighing, lanes).function()


def hastings(recursion: Recursion, weighing: Weighing, lanes: int) -> Function:
    """``hastings``: one sweep. A sentence without derivations does not move."""
    return _TileHastings(recursion, weighing, lanes).function()


class _TileCollapsedVB(CollapsedSweep, TileBlocks):
    def _feed_lanes(self, in_logs: bool) -> None:
        TileBlocks._feed_lanes(self, in_logs)

    def drain_tables(self) -> None:
        rows, others = self._split()
        with self.elements.each_lane() as x:
            self.clear(*self.layout.out)
            self.drain_lane(x, others)
        for w in filter(self.elements.tables.is_counted, rows):
            with self.elements.rows([w], inward=False), self.elements.each_lane() as x:
                self.drain_lane(x, [w])


class _TileHastings(HastingsSweep, TileDraws):
    def _feed_lanes(self, in_logs: bool) -> None:
        TileBlocks._feed_lanes(self, in_logs)
