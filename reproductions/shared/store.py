# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The folder of a reproduction, and the one file that each finished start of a row is.

    config.json                   the settings that all numbers depend on
    starts/ROW-NNN.safetensors    what a row learnt from a start, its parses and scores; CORPUS.ROW-NNN of several
    curves.csv, curves.svg        objectives and held-out log-likelihoods of all starts, iteration by iteration
    covariances.md                correlations that the logistic normals have learnt, and the tags that they tie
    covariance.svg, experts.svg   those of some heads as a picture, and what shared experts contribute
    subtypes.svg                  F1 against the number of subtypes
    topics.md, topics.svg         words of the latent states of syntactic topics
    traces.svg                    hyperparameters of Pitman-Yor processes, step by step
    draws.svg, contexts.svg       their internal draws: of all contexts, and of one with its reductions
    results.csv                   all scores of all starts
    table.csv, table.md           means and spreads beside the papers' figures

Every file is written beside its name and put in place in one step: a start is there as a whole or not at all.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from safetensors import SafetensorError, deserialize
from safetensors.torch import load
from torch import Tensor

from pyrogram.cli.io.errors import CommandError
from pyrogram.cli.io.files import write_file
from pyrogram.cli.io.lock import LOCK
from pyrogram.cli.runs.folder import entries, is_draft
from pyrogram.infer.running.checkpoint import safetensors_bytes
from reproductions.shared.learnt import Learnt, Score
from reproductions.shared.settings import StudySettings, TrialSettings

FORMAT = "pyrogram-reproduce-2"
CONFIG, STARTS = "config.json", "starts"
_PICTURES = tuple(
    f"{name}.svg" for name in ("curves", "covariance", "experts", "subtypes", "topics", "traces", "draws", "contexts")
)
OUTPUTS = (CONFIG, "results.csv", "table.csv", "table.md", "curves.csv", "covariances.md", "topics.md", *_PICTURES)


@dataclass(frozen=True)
class Key:
    """One start of one row.

    :param languages: numbers of the corpora, from 0.
    :param start: from 1.
    """

    row: str
    languages: tuple[int, ...]
    start: int

    def file_name(self) -> str:
        """Where it is kept, in the folder of starts; the only corpus, or both together, need no mention."""
        corpus = f"{self.languages[0] + 1}." if self.languages[0] > 0 and len(self.languages) == 1 else ""
        return f"{corpus}{self.row}-{self.start:03d}.safetensors"

    def __str__(self) -> str:
        where = f" of corpus {self.languages[0] + 1}" if self.languages == (1,) else ""
        return f"{self.row}, start {self.start}{where}"


@dataclass(frozen=True)
class Result:
    """What a start of a row came to.

    :param metrics: other scores by name.
    :param heads: by corpus and part (``"0.test"``), the heads of all words, one sentence after the other. Starts of
        earlier versions have none.
    """

    scores: tuple[Score, ...]
    iterations: int
    held_out: float
    stopped: str
    alpha: float | None
    metrics: dict[str, float] = field(default_factory=dict)
    heads: dict[str, Tensor] = field(default_factory=dict)


def pack(
    learnt: Learnt, scores: Sequence[Score], fingerprint: str, heads: Mapping[str, Tensor] = MappingProxyType({})
) -> bytes:
    """The bytes of a file: weights, parameters and heads as tensors, all else in the metadata."""
    tensors: dict[str, Tensor] = {}
    for i, weights in enumerate(learnt.weights):
        tensors |= {f"weights.{i}.{name}": w.detach().clone().contiguous() for name, w in weights.items()}
    tensors |= {f"parameter.{name}": p.detach().clone().contiguous() for name, p in learnt.parameters.items()}
    tensors |= {f"curve.{name}": torch.tensor(curve, dtype=torch.float64) for name, curve in learnt.curves.items()}
    tensors |= {f"heads.{name}": h.to(torch.int16) for name, h in heads.items()}
    result = {
        "scores": [asdict(score) for score in scores],
        "iterations": learnt.iterations,
        "held_out": None if math.isnan(learnt.held_out) else learnt.held_out,
        "stopped": learnt.stopped,
        "alpha": learnt.alpha,
        "metrics": {name: None if math.isnan(value) else value for name, value in learnt.metrics.items()},
    }
    return safetensors_bytes(tensors, {"format": FORMAT, "fingerprint": fingerprint, "result": json.dumps(result)})


def unpack_result(data: bytes) -> Result:
    """The scores in a file's bytes.

    :raises ValueError: if they are not such a file's.
    """
    fields = json.loads(_metadata(data)["result"])
    scores = tuple(Score(**score) for score in fields.pop("scores"))
    held_out = math.nan if fields["held_out"] is None else fields["held_out"]
    metrics = {name: math.nan if value is None else value for name, value in fields.get("metrics", {}).items()}
    heads = {name.removeprefix("heads."): h.long() for name, h in load(data).items() if name.startswith("heads.")}
    return Result(scores, **(fields | {"held_out": held_out, "metrics": metrics}), heads=heads)


def unpack_learnt(data: bytes) -> Learnt:
    """What was learnt, from a file's bytes."""
    result = unpack_result(data)
    weights: dict[int, dict[str, Tensor]] = {}
    parameters = {}
    curves: dict[str, tuple[float, ...]] = {}
    for name, tensor in load(data).items():
        kind, _, rest = name.partition(".")
        if kind == "weights":
            number, _, block = rest.partition(".")
            weights.setdefault(int(number), {})[block] = tensor
        elif kind == "curve":
            curves[rest] = tuple(tensor.tolist())
        elif kind == "parameter":
            parameters[rest] = tensor
    return Learnt(
        tuple(weights[i] for i in sorted(weights)),
        parameters,
        result.iterations,
        result.held_out,
        result.stopped,
        result.alpha,
        curves,
        result.metrics,
    )


def _metadata(data: bytes) -> dict[str, Any]:
    """The metadata of a safetensors file, which the library gives only of files on disk."""
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    metadata: dict[str, Any] = header["__metadata__"]
    return metadata


def open_folder(path: Path, settings: StudySettings | TrialSettings, resume: bool) -> None:
    """Make the folder, or check that this study may go on in it.

    :param resume: False removes the files of an earlier study.
    :raises CommandError: if the folder cannot be made, or holds something else.
    """
    others = sorted(p.name for p in entries(path) if p.name not in (STARTS, LOCK) and not is_draft(p))
    version = _config(path).get("format") if CONFIG in others else None
    if isinstance(version, str) and version.startswith("pyrogram-reproduce-") and version != FORMAT:
        told = f"holds a reproduction of another version of pyrogram ({version}, not {FORMAT})"
        raise CommandError(f"--out {path} {told}; give another folder")
    if others and version != FORMAT:
        raise CommandError(f"--out {path} holds files but no reproduction ({others[0]}); give another folder")
    if others and resume:
        earlier = _config(path).get("settings")
        differences = settings.differences(earlier if isinstance(earlier, dict) else {})
        if differences:
            advice = "give another --out, or --no-resume to replace it"
            raise CommandError(
                f"--out {path} holds a reproduction with other settings ({'; '.join(differences)}); {advice}"
            )
    try:
        (path / STARTS).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(f"--out {path} cannot be made: {error.strerror}") from None
    drafts = [p for p in (*path.iterdir(), *(path / STARTS).iterdir()) if is_draft(p)]
    old = [] if resume else [path / name for name in OUTPUTS] + list((path / STARTS).glob("*.safetensors"))
    for leftover in drafts + old:
        leftover.unlink(missing_ok=True)
    if not (path / CONFIG).exists():
        config = {"format": FORMAT, "version": _version(), "settings": settings.as_dict()}
        write_file(path / CONFIG, (json.dumps(config, indent=2, ensure_ascii=False) + "\n").encode())


def read_start(path: Path, key: Key, settings: StudySettings | TrialSettings) -> bytes | None:
    """A finished start, or None.

    :raises CommandError: if the file is damaged, or that of another study.
    """
    file = path / STARTS / key.file_name()
    if not file.is_file():
        return None
    data = file.read_bytes()
    advice = "delete it, or give --no-resume"
    try:
        deserialize(data)  # checks that all of it is there
        metadata = _metadata(data)
        unpack_result(data)
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError):
        raise CommandError(f"{file} is not as pyrogram wrote it; {advice}") from None
    if metadata.get("format") != FORMAT or metadata.get("fingerprint") != settings.fingerprint(key.row):
        raise CommandError(f"{file} is of another reproduction; {advice}")
    return data


def write_start(path: Path, key: Key, data: bytes) -> None:
    """Keep a finished start."""
    write_file(path / STARTS / key.file_name(), data)


def other_rows(path: Path, keys: Iterable[Key]) -> str:
    """Rows of which there are finished starts beside those of some keys, and how many of each."""
    named = {key.file_name() for key in keys}
    rest = [file.name for file in sorted((path / STARTS).glob("*.safetensors")) if file.name not in named]
    counts = Counter(name.removesuffix(".safetensors").rpartition("-")[0] for name in rest)
    return ", ".join(f"{row} ({count})" for row, count in counts.items())


def _config(path: Path) -> dict[str, Any]:
    try:
        config = json.loads((path / CONFIG).read_text(encoding="utf-8"))
    except ValueError as error:
        raise CommandError(f"{path / CONFIG} is no JSON file ({error})") from None
    return config if isinstance(config, dict) else {}


def _version() -> str:
    from pyrogram import __version__

    return __version__
