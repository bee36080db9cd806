# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""How far a reproduction is: a bar on a terminal, a line per finished start in a log. Both go to stderr."""

from __future__ import annotations

import math
from pathlib import Path
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from pyrogram.cli.io.errors import note
from reproductions.shared.store import Key, Result


class StudyWatch:
    """Shows starts of rows as they go by.

    :param total: how many there are, with those that were done before.
    :param done: how many of them were.
    :param out: the folder of these.
    """

    def __init__(self, total: int, done: int, out: Path | None) -> None:
        if done:
            note(f"going on in {out}, which has {done} of {total} starts of rows")
        self.total, self.done = total, done
        self.at_work: dict[Key, str] = {}
        console = Console(stderr=True)
        self._bar: Progress | None = None
        if console.is_terminal and done < total:
            columns = (BarColumn(bar_width=24), MofNCompleteColumn(), TimeElapsedColumn())
            self._bar = Progress(*columns, TextColumn("{task.description}"), console=console, transient=True)
            self._task = self._bar.add_task("getting ready (compiles the first time)", total=total, completed=done)

    def __enter__(self) -> StudyWatch:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._bar:
            self._bar.stop()

    def say(self, key: Key, text: str) -> None:
        """To be called when a start has something to say."""
        self.at_work[key] = text
        if self._bar:
            self._bar.update(self._task, description=self._description())

    def finished(self, key: Key, result: Result) -> None:
        """To be called after every start."""
        self.done += 1
        self.at_work.pop(key, None)
        if self._bar:
            self._bar.update(self._task, description=self._description(), completed=self.done)
            return
        parts = [f"α = {result.alpha:g}"] if result.alpha is not None else []
        if result.iterations:
            parts.append(f"{result.iterations} iterations")
        if not math.isnan(result.held_out):
            parts.append(f"held-out log-likelihood {result.held_out:,.2f}")
        if result.stopped:
            parts.append(result.stopped)
        parts.append(f"{result.seconds:.1f} s")
        note(f"[{self.done}/{self.total}] {key}: {', '.join(parts)}")

    def _description(self) -> str:
        return "; ".join(f"{key}: {text}" for key, text in self.at_work.items())
