# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Tables of other scores than those of heads: an experiment says its rows and measures, all else is shared.

An *experiment* is a picklable object that has read its data. Rows are methods; a start of a row gives *metrics* by name
and *curves*, a number for every iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from pyrogram.cli.runs.starts import double_precision
from pyrogram.cli.runs.workers import one_thread
from reproductions.shared.learnt import Learnt
from reproductions.shared.settings import TrialSettings
from reproductions.shared.store import Key, pack

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Measure:
    """A column of a table.

    :param name: of the metric; ``"iterations"`` is there without one.
    :param label: in the heading.
    :param percent: whether it is a fraction, to be shown in percent.
    :param digits: after the point.
    """

    name: str
    label: str
    percent: bool = False
    digits: int = 1


@dataclass(frozen=True)
class ExperimentRow:
    """A row of a table.

    :param name: in files and for ``--rows``.
    :param label: in the table.
    :param above: the row that it is compared with, start by start.
    :param many: whether another start gives other numbers.
    :param also: other rows that it is compared with.
    :param asked: whether it is there only if ``--rows`` names it, for the time that it takes.
    """

    name: str
    label: str
    above: str | None = None
    many: bool = True
    also: tuple[str, ...] = ()
    asked: bool = False


@dataclass(frozen=True)
class Curve:
    """A panel of the picture of curves.

    :param x: name of the curve along the axis (say seconds), or None for the number of the iteration.
    :param y: name of the curve, whose label is the axis'.
    :param span: the axis ends at so many times the least value, for curves of which one goes out of sight.
    """

    y: str
    label: str
    x: str | None = None
    x_label: str = "iteration"
    log_x: bool = False
    log_y: bool = False
    span: float | None = None


class Experiment(Protocol):
    """What :class:`TrialStudy` needs to know."""

    @property
    def title(self) -> str:
        """Of the table."""

    @property
    def trials(self) -> tuple[ExperimentRow, ...]:
        """The rows, in the order of the table."""

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The columns."""

    @property
    def curves(self) -> tuple[Curve, ...]:
        """The panels of the picture."""

    @property
    def compared(self) -> str:
        """The measure by which rows are compared."""

    @property
    def published(self) -> Mapping[str, Mapping[str, float]]:
        """The paper's figures, by row and measure (fractions where the measure is one)."""

    def learn(self, row: str, start: int, say: Callable[[str], Any]) -> Learnt:
        """One start of a row: its metrics and curves; the same numbers for the same start."""

    def notes(self, results: Mapping[Key, Any]) -> Sequence[str]:
        """Footnotes."""


@runtime_checkable
class Pictured(Protocol):
    """An experiment with pictures of its own."""

    def pictures(self, learnt: Mapping[Key, Learnt]) -> Mapping[str, Figure]:
        """By the file's name; called only where there is matplotlib."""


@runtime_checkable
class Written(Protocol):
    """An experiment with files of its own."""

    def written(self, learnt: Mapping[Key, Learnt]) -> Mapping[str, bytes]:
        """By the file's name, which must be one of :data:`reproductions.shared.store.OUTPUTS`."""


@dataclass(frozen=True)
class TrialStudy:
    """A table to be filled, and all that its numbers depend on; workers get a copy."""

    settings: TrialSettings
    experiment: Experiment

    @property
    def trials(self) -> tuple[ExperimentRow, ...]:
        """The rows wanted, in the order of the table."""
        rows = self.settings.rows
        return tuple(t for t in self.experiment.trials if t.name in rows or (not rows and not t.asked))

    def tasks(self) -> dict[Key, tuple[Key, ...]]:
        """Every start of every row; none needs another."""
        starts = {t.name: self.settings.starts if t.many else 1 for t in self.trials}
        return {Key(name, (0,), i): () for name, count in starts.items() for i in range(1, count + 1)}

    def __call__(self, key: Key, earlier: Sequence[bytes], say: Callable[[str], Any]) -> bytes:
        """Do one start of one row."""
        with double_precision(), one_thread():
            learnt = self.experiment.learn(key.row, key.start, say)
        return pack(learnt, (), self.settings.fingerprint(key.row))
