# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The run of any model in a folder."""

from __future__ import annotations

from pathlib import Path

from pyrogram.cli.io.errors import CommandError
from pyrogram.cli.io.files import as_written
from pyrogram.cli.runs.dmv import DMVRun
from pyrogram.cli.runs.folder import CONFIG, finished
from pyrogram.cli.runs.lexical import LexicalRun
from pyrogram.cli.runs.pcfg import PCFGRun
from pyrogram.cli.runs.run import Run

RUNS: dict[str, type[Run]] = {run.kind: run for run in (DMVRun, PCFGRun, LexicalRun)}


def open_run(path: Path) -> Run:
    """Read a finished run.

    :raises CommandError: if it is none, is unfinished, or not as it was written.
    """
    config = finished(path)
    with as_written(path / CONFIG):
        run = RUNS.get(config["grammar"]["kind"])
    if run is None:
        raise CommandError(f"{path} holds a run of a kind that this version of pyrogram does not know")
    return run.load(path, config)
