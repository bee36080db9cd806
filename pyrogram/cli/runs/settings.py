# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What a run is told: everything that its numbers depend on, besides the sentences."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

from pyrogram.choices import check_choice
from pyrogram.cli.io.errors import CommandError

DEFAULT_ALPHA = {"em-map": 1.1} | dict.fromkeys(("vb", "vb-em", "cvb", "hastings", "gibbs"), 0.25)
SAMPLERS = ("hastings", "gibbs")
LEAST_ALPHA, MOST_ALPHA = 1e-8, 1e8  # beyond, counts and concentrations are lost in one another's rounding errors
MOST_NOISE = 50  # seven times as much, up or down, is what exp can bear


@dataclass(frozen=True)
class Settings:
    """Settings of an induction, checked; the options of ``pyrogram induce`` explain them.

    :param alpha: None with ``method="em"``, which has no prior.
    :param data: "train", "dev" and "test", as far as they are given, with the SHA-256 of each file; a run on the
        built-in corpus has {"builtin": number of sentences}.
    :raises CommandError: for values that make no sense, by the names of the options.
    """

    method: str
    tags: str
    max_length: int  # 0: the text decides
    starts: int
    seed: int
    alpha: float | None
    init: str
    stops: str
    distance: float
    noise: float
    steps: int
    tolerance: float
    patience: int
    valence_attach: bool
    smoothing: float
    unknown: str
    knowledge: str = "none"
    heads: str = "content"
    valences: int = 2
    data: dict[str, str | int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_choice("method", self.method, ("em", *DEFAULT_ALPHA))
        numbers = {"alpha": self.alpha, "distance": self.distance, "noise": self.noise}
        numbers |= {"tolerance": self.tolerance, "smoothing": self.smoothing}
        for name, value in numbers.items():
            if value is not None and not math.isfinite(value):
                raise CommandError(f"--{name} must be a finite number, not {value}")
        if self.method == "em" and self.alpha is not None:
            raise CommandError("--alpha is for a prior, which --method em does not have; use em-map, vb, vb-em or cvb")
        if self.alpha is not None and self.alpha <= 0:
            raise CommandError(f"--alpha must be positive, not {self.alpha:g}")
        if self.alpha is not None and not LEAST_ALPHA <= self.alpha <= MOST_ALPHA:
            raise CommandError(f"--alpha must lie between {LEAST_ALPHA:g} and {MOST_ALPHA:g}, not be {self.alpha:g}")
        if self.method == "em-map" and self.alpha is not None and self.alpha < 1:
            raise CommandError(f"--alpha must be at least 1 with --method em-map, not {self.alpha:g}; vb takes less")
        if self.distance <= -1:
            raise CommandError(f"--distance must be greater than -1, not {self.distance:g}")
        if self.noise < 0:
            raise CommandError(f"--noise must not be negative, not {self.noise:g}")
        if self.noise > MOST_NOISE:
            raise CommandError(f"--noise must be at most {MOST_NOISE}, not {self.noise:g}; more gives weights of zero")
        if self.tolerance < 0:
            raise CommandError(f"--tolerance must not be negative, not {self.tolerance:g}")
        if not 0 < self.smoothing < 1:
            raise CommandError(f"--smoothing must lie between 0 and 1, not be {self.smoothing:g}")
        if self.knowledge != "none" and self.method != "vb":
            raise CommandError(f"--knowledge {self.knowledge} is for --method vb, not {self.method}")
        self._check_valences()
        if self.starts > 1 and self.noise == 0 and self.init != "random":
            raise CommandError(f"--noise 0 makes all {self.starts} starts the same; raise it, or give --starts 1")

    def _check_valences(self) -> None:
        if self.knowledge == "languages" and self.valence_attach:
            raise CommandError("--knowledge languages is a prior of the plain DMV; leave out --valence-attach")
        if self.knowledge == "languages" and self.valences != 2:
            raise CommandError("--knowledge languages is a prior of the plain DMV; leave out --valences")
        if self.valences == 1 and self.valence_attach:
            raise CommandError("--valence-attach tells children apart by valence; give --valences 2 or more")

    @property
    def num_classes(self) -> int | None:
        """How many classes of words are learnt in place of tags; None if tags are read."""
        return int(self.tags.removeprefix("induced:")) if self.tags.startswith("induced:") else None

    @property
    def alphabet(self) -> str:
        """The column that is read."""
        return self.tags if self.num_classes is None else "form"

    def as_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return asdict(self)

    def differences(self, other: dict[str, Any]) -> list[str]:
        """What another run's settings have otherwise, in words."""
        return differences(self.as_dict(), other)


def differences(mine: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """What other settings, of the same command, have otherwise, in words; both as ``config.json`` has them."""
    told = []
    for name in sorted(mine.keys() | other.keys()):
        if mine.get(name) == other.get(name):
            continue
        if name == "data":
            told += _other_data(mine["data"], other.get("data"))
        else:
            told.append(f"{name.replace('_', '-')} {other.get(name)}, not {mine.get(name)}")
    return told


def _other_data(ours: dict[str, str | int], theirs: Any) -> list[str]:
    known = theirs if isinstance(theirs, dict) else {}
    names = sorted(ours.keys() | known.keys())
    what = {"prior": "another prior"}
    return [what.get(name, f"other {name} sentences") for name in names if ours.get(name) != known.get(name)]
