# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What a reproduction is told: everything that the numbers of a row depend on, besides the sentences."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from pyrogram.cli.io.errors import CommandError
from pyrogram.cli.runs.settings import Settings


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
    :param sweeps: of a sampler, the first half of which is left out of its averages; None where there is none.
    :param pooled: whether all sentences, held-out and test ones too, are learnt from, and scored together.
    """

    table: str
    common: Settings
    rows: tuple[str, ...] = ()
    dev_max_length: int | None = None
    jobs: int = 1
    normal: NormalOptions = NormalOptions()
    sweeps: int | None = None
    pooled: bool = False

    def as_dict(self) -> dict[str, Any]:
        """What one start of one row depends on: not how many rows and starts there are, nor who runs them."""
        options: dict[str, Any] = {"table": self.table, "dev_max_length": self.dev_max_length}
        # Defaults are not said, as in folders that are older than these options.
        options |= {"sweeps": self.sweeps} if self.sweeps else {}
        options |= {"pooled": True} if self.pooled else {}
        options |= {name: value for name, value in asdict(self.normal).items() if value != _DEFAULTS[name]}
        common = self.common.as_dict()
        for name in ("method", "alpha", "starts", "valence_attach"):
            del common[name]
        return options | common

    def differences(self, other: dict[str, Any]) -> list[str]:
        """What another study's settings have otherwise, in words."""
        return settings_differences(_DEFAULTS | self.as_dict(), _DEFAULTS | other)

    def fingerprint(self, row: str) -> str:
        """A hash that ties a file to a row under these settings."""
        return row_fingerprint(row, self.as_dict())


@dataclass(frozen=True)
class TrialSettings:
    """Settings of a table that has no treebank of heads: one of the experiments of :mod:`.experiment`.

    :param table: the name of the table, with the experiment.
    :param options: by name, all that its numbers depend on, besides what is said here.
    :param data: SHA-256 of the files by what they are for.
    :param starts: and ``rows``, ``seed`` and ``jobs``: as in :class:`StudySettings` and its ``common``.
    """

    table: str
    options: Mapping[str, Any]
    data: Mapping[str, str | int]
    starts: int
    seed: int = 0
    rows: tuple[str, ...] = ()
    jobs: int = 1

    def as_dict(self) -> dict[str, Any]:
        """What one start of one row depends on."""
        return {"table": self.table, "seed": self.seed, **self.options, "data": dict(self.data)}

    def differences(self, other: dict[str, Any]) -> list[str]:
        """What another table's settings have otherwise, in words."""
        return settings_differences(self.as_dict(), other)

    def fingerprint(self, row: str) -> str:
        """A hash that ties a file to a row under these settings."""
        return row_fingerprint(row, self.as_dict())


def settings_differences(mine: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """What settings ``other`` have otherwise, in words; ``data`` are hashes."""
    told = []
    if mine["data"] != (data := other.get("data")):
        theirs = data if isinstance(data, dict) else {}
        names = sorted(n for n in mine["data"].keys() | theirs.keys() if mine["data"].get(n) != theirs.get(n))
        told += [f"other {name} sentences" for name in names]
    for name in sorted(mine.keys() | other.keys() - {"data"}):
        if name != "data" and mine.get(name) != other.get(name):
            told.append(f"{name.replace('_', '-')} {other.get(name)}, not {mine.get(name)}")
    return told


def row_fingerprint(row: str, settings: dict[str, Any]) -> str:
    """A hash that ties a file to a row under settings."""
    return hashlib.sha256(json.dumps([row, settings], sort_keys=True).encode()).hexdigest()


_DEFAULTS: dict[str, Any] = asdict(NormalOptions()) | {"pooled": False}


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
