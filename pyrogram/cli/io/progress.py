# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""How far a command is: a bar on a terminal, a line for each finished task in a log; nothing with --quiet."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from pyrogram.cli.io.errors import is_quiet, note


class Bar:
    """Shows on stderr which tasks are at work and how many are done.

    :param total: number of tasks, with those that were done before.
    :param done: how many of them were.
    """

    def __init__(self, total: int, done: int = 0) -> None:
        self.total, self.done = total, done
        self.at_work: dict[str, str] = {}
        self._bar: Progress | None = None
        console = Console(stderr=True)
        if console.is_terminal and not is_quiet() and done < total:
            told = TextColumn("{task.description}", markup=False)
            self._bar = Progress(told, BarColumn(bar_width=24), TimeElapsedColumn(), console=console, transient=True)
            self._task = self._bar.add_task("getting ready (compiles the first time)", total=total, completed=done)

    def __enter__(self) -> Bar:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._bar:
            self._bar.stop()

    def say(self, task: Any, text: str, done: int | None = None) -> None:
        """To be called when a task has something to say.

        :param task: its name.
        :param done: how many tasks are done, unless :meth:`finished` counts them.
        """
        self.at_work[str(task)] = text
        self.done = self.done if done is None else done
        self._update()

    def finished(self, task: Any, line: str) -> None:
        """To be called after every task.

        :param line: what a log says of it.
        """
        self.done += 1
        self.at_work.pop(str(task), None)
        self._update()
        if not self._bar:
            note(line)

    def _update(self) -> None:
        if self._bar:
            told = "; ".join(f"{task}: {text}" for task, text in self.at_work.items())
            self._bar.update(self._task, description=told, completed=self.done)
