# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What a reproduction is told: everything that the numbers of a row depend on, besides the sentences."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from typing import Any, Literal

from pyrogram.cli.errors import CommandError
from pyrogram.cli.settings import Settings


@dataclass(frozen=True)
class NormalOptions:
    """How the rows with logistic normals learn, where the papers leave it open or users may want it otherwise.

    :param averaging: what the M-step averages over, and ``point_estimate``, what is parsed with: see
        :class:`pyrogram.infer.VariationalEM`.
    :param covariance: whether covariances are full or diagonal.
    """

    averaging: Literal["all", "present"] = "all"
    point_estimate: Literal["softmax", "exp"] = "softmax"
    covariance: Literal["full", "diagonal"] = "full"


@dataclass(frozen=True)
class StudySettings:
    """Settings of a reproduction, checked.

    :param table: ``"lognormal"`` or ``"shared"``.
    :param common: those that an induction has too, with ``method="em"``.
    :param rows: names of the rows wanted; empty for all.
    :param dev_max_length: length of the longest held-out sentence; None for any.
    :param jobs: processes side by side.
    :param normal: how the rows with logistic normals learn.
    """

    table: str
    common: Settings
    rows: tuple[str, ...] = ()
    dev_max_length: int | None = None
    jobs: int = 1
    normal: NormalOptions = NormalOptions()

    def as_dict(self) -> dict[str, Any]:
        """What one start of one row depends on: not how many rows and starts there are, nor who runs them."""
        own: dict[str, Any] = {"table": self.table, "dev_max_length": self.dev_max_length}
        # Defaults are not said, as in folders that are older than these options.
        own |= {name: value for name, value in asdict(self.normal).items() if value != _DEFAULTS[name]}
        common = self.common.as_dict()
        for name in ("method", "alpha", "starts", "valence_attach"):
            del common[name]
        return own | common

    def differences(self, other: dict[str, Any]) -> list[str]:
        """What another study's settings have otherwise, in words."""
        mine, other = _DEFAULTS | self.as_dict(), _DEFAULTS | other
        told = []
        if mine["data"] != (data := other.get("data")):
            theirs = data if isinstance(data, dict) else {}
            names = sorted(n for n in mine["data"].keys() | theirs.keys() if mine["data"].get(n) != theirs.get(n))
            told += [f"other {name} sentences" for name in names]
        for name in sorted(mine.keys() | other.keys() - {"data"}):
            if name != "data" and mine.get(name) != other.get(name):
                told.append(f"{name.replace('_', '-')} {other.get(name)}, not {mine.get(name)}")
        return told

    def fingerprint(self, row: str) -> str:
        """A hash that ties a file to a row under these settings."""
        text = json.dumps([row, self.as_dict()], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


_DEFAULTS: dict[str, Any] = asdict(NormalOptions())


def default_jobs() -> int:
    """As many processes as there are processors for us."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def chosen_rows(wanted: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """Names of rows, separated by commas, in the order of the table.

    :raises CommandError: for a name that the table does not have.
    """
    asked = [name.strip() for name in wanted.split(",") if name.strip()]
    for name in asked:
        if name not in names:
            raise CommandError(f"--rows: there is no row {name!r} in this table, only {', '.join(names)}")
    if wanted and not asked:
        raise CommandError(f"--rows needs at least one of {', '.join(names)}")
    return tuple(name for name in names if name in asked)
