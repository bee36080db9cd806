# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Arcs of a drawing: their styles, how high each one runs, and where on its words it ends."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from pyrogram.viz.svg import INK

# Pixels.
PORT = 8.0  # between the ends of arcs on one word
STEP = 20.0  # between arcs one above the other
HIGHEST = 320.0  # where arcs would rise above this, they are drawn closer together
ARROW = 7.0


class Style(NamedTuple):
    """How arcs of one kind look; the dashes tell the kinds apart where colours do not."""

    name: str
    colour: str
    dash: str
    width: float
    opacity: float = 1.0


PLAIN = Style("plain", INK, "", 1.5)
CORRECT = Style("correct", INK, "", 1.5)
WRONG = Style("wrong", "#c4261d", "7 3", 1.8)
MISSED = Style("missed", "#2f6f9f", "1.5 3", 1.8)


class Arc(NamedTuple):
    """An arc from a head (0: ROOT, the wall) to a word."""

    head: int
    word: int
    style: Style

    @property
    def low(self) -> int:
        return min(self.head, self.word)

    @property
    def high(self) -> int:
        return max(self.head, self.word)


class Side:
    """The arcs on one side of a row: the wall and n words."""

    def __init__(self, arcs: Sequence[Arc], n: int) -> None:
        self.arcs = arcs
        self.level: dict[Arc, int] = {}
        # Two arcs over the same stretch of the sentence need different levels; the shorter one runs below.
        for arc in sorted(arcs, key=lambda a: (a.high - a.low, a.low)):
            under = [level for a, level in self.level.items() if a.low < arc.high and arc.low < a.high]
            self.level[arc] = 1 + max(under, default=0)
        levels = max(self.level.values(), default=0)
        self.step = min(STEP, HIGHEST / max(levels, 1))
        self.height = 8.0 + ARROW + self.step * levels
        self._ends: list[list[Arc]] = [[] for _ in range(n + 1)]
        for arc in arcs:
            self._ends[arc.word].append(arc)
            self._ends[arc.head].append(arc)
        for word, ends in enumerate(self._ends):
            ends.sort(key=partial(_turn, word))

    def rise(self, arc: Arc) -> float:
        """How far from the words an arc runs."""
        return 8.0 + self.step * self.level[arc]

    def room(self, word: int) -> float:
        """Width that the ends of arcs need on a word."""
        return _spacing(self._ends[word]) * len(self._ends[word])

    def port(self, word: int, arc: Arc) -> float:
        """Where on a word an arc ends, from the word's middle."""
        ends = self._ends[word]
        return _spacing(ends) * (ends.index(arc) - (len(ends) - 1) / 2)


def _spacing(ends: list[Arc]) -> float:
    return min(PORT, 120.0 / max(len(ends), 1))


def _turn(word: int, arc: Arc) -> float:
    """Orders the ends on a word so that arcs that nest do not cross.

    From left to right: arcs to the left, the shortest first; arcs to the right, the longest first.
    """
    return 1.0 / (arc.head + arc.word - 2 * word)
