# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""How far an induction is: a bar on a terminal, a line per start in a log. Both go to stderr."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from pyrogram.cli.io.errors import note
from pyrogram.cli.runs.starts import Start
from pyrogram.infer import GrammarLoop


class Watch:
    """Shows starts and iterations as they go by.

    :param starts: how many starts there will be.
    :param objective: its name.
    """

    def __init__(self, starts: int, objective: str) -> None:
        self.starts, self.objective = starts, objective
        console = Console(stderr=True)
        self._bar: Progress | None = None
        if console.is_terminal:
            columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), TimeElapsedColumn())
            self._bar = Progress(*columns, console=console, transient=True)
            self._task = self._bar.add_task("getting ready (compiles the first time)", total=starts)

    def __enter__(self) -> Watch:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._bar:
            self._bar.stop()

    def iteration(self, number: int, loop: GrammarLoop) -> None:
        """To be called after every iteration of a start."""
        if self._bar:
            where = f"start {number} of {self.starts}, iteration {len(loop.history):4d}"
            what = f"{self.objective} {loop.history[-1]:,.1f}"
            self._bar.update(self._task, description=f"{where}, {what}", completed=number - 1)

    def finished(self, start: Start) -> None:
        """To be called after every start, before it is evaluated."""
        if self._bar:
            parsing = f"start {start.number} of {self.starts}, parsing"
            self._bar.update(self._task, description=parsing, completed=start.number)
            return
        what = f"{self.objective} {start.objective[-1]:,.2f}"
        note(f"start {start.number} of {self.starts}: {len(start.objective)} iterations, {what} ({start.stopped})")
