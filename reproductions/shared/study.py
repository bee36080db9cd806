# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""All starts of all rows of a table, done side by side, each kept in a folder as soon as it is done."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

from pyrogram.cli.io.errors import note
from pyrogram.cli.io.progress import Bar
from pyrogram.cli.runs.workers import run_tasks
from pyrogram.printable import plural
from reproductions.shared.settings import StudySettings, TrialSettings
from reproductions.shared.store import Key, Result, open_folder, read_start, unpack_result, write_start


class AnyStudy(Protocol):
    """What :func:`run_study` runs: work for picklable keys."""

    @property
    def settings(self) -> StudySettings | TrialSettings: ...

    def tasks(self) -> dict[Key, tuple[Key, ...]]: ...

    def __call__(self, key: Key, earlier: Sequence[bytes], say: Callable[[str], Any]) -> bytes: ...


def run_study(study: AnyStudy, out: Path | None, resume: bool) -> dict[Key, Result]:
    """Do all starts of all rows that are not yet in the folder ``out``, and keep each there as soon as it is done."""
    tasks = study.tasks()
    done = {}
    if out is not None:
        open_folder(out, study.settings, resume)
        done = {key: data for key in tasks if (data := read_start(out, key, study.settings)) is not None}
    results = {key: unpack_result(data) for key, data in done.items()}
    rest = {key: needs for key, needs in tasks.items() if key not in done}
    if done:
        note(f"going on in {out}, which has {len(done)} of {plural(len(tasks), 'start')} of rows")
    with (
        Bar(len(tasks), len(done)) as bar,
        closing(run_tasks(study, rest, done, study.settings.jobs, bar.say)) as finished,
    ):
        for key, data in finished:
            if out is not None:
                write_start(out, key, data)
            results[key] = unpack_result(data)
            bar.finished(key, f"[{len(results)}/{len(tasks)}] {key}: {_told(results[key])}")
    return {key: results[key] for key in tasks}


def _told(result: Result) -> str:
    texts = [f"α = {result.alpha:g}"] if result.alpha is not None else []
    if result.iterations:
        texts.append(plural(result.iterations, "iteration"))
    if not math.isnan(result.held_out):
        texts.append(f"held-out log-likelihood {result.held_out:,.2f}")
    return ", ".join([*texts, result.stopped or "done"])
