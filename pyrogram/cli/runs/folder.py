# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The folder of a run: what induction writes, and what parsing and sampling read.

    config.json          settings, vocabulary, which start was selected and why; the selection comes last, so a
                         folder that has one is complete
    weights.safetensors  weights of the selected start: root, attach, stop
    starts/NNN.safetensors  the state of every start, from which it is resumed
    pairs.safetensors    of many symbols, the pairs that have attachments
    classes.json         with --tags induced:K, the class of every word
    bias.safetensors     with --knowledge, the nats of events
    shares.svg           with --knowledge languages, what the grammar takes from whom
    parses.conllu        the evaluation corpus with predicted heads
    curve.csv, curve.svg the objective of every start, iteration by iteration
    results.csv, results.md  all scores; the table
    README.md            the model card
    sentence.svg         of --demo, a tree

Every file is written beside its name and put in place in one step.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pyrogram.cli.io.errors import CommandError
from pyrogram.cli.io.files import read_json, read_safetensors, write_file
from pyrogram.cli.io.lock import LOCK
from pyrogram.printable import printable

if TYPE_CHECKING:
    from pyrogram.cli.runs.run import Run
    from pyrogram.data.records import Alphabet
    from pyrogram.grammar import Grammar, Weights

FORMAT = "pyrogram-run-1"
CONFIG, WEIGHTS, STARTS = "config.json", "weights.safetensors", "starts"
GRAMMAR, LEXICON, CLASSES, BIAS = "grammar.pcfg", "lexicon.json", "classes.json", "bias.safetensors"
SHARES, PAIRS = "shares.svg", "pairs.safetensors"
LONGEST_SHAPES = 300  # characters of what a file holds, in a message
OUTPUTS = (
    CONFIG,
    WEIGHTS,
    GRAMMAR,
    LEXICON,
    CLASSES,
    BIAS,
    SHARES,
    PAIRS,
    "parses.conllu",
    "parses.mrg",
    "curve.csv",
    "curve.svg",
    "trace.csv",
    "results.csv",
    "results.md",
    "sentence.svg",
    "README.md",
)


class AnySettings(Protocol):
    """Settings of any command."""

    def as_dict(self) -> dict[str, Any]:
        """Ready for JSON."""

    def differences(self, other: dict[str, Any]) -> list[str]:
        """What another run's settings have otherwise, in words."""


def open_folder(path: Path, settings: AnySettings, resume: bool) -> int:
    """Make the folder, or check that this run may go on in it.

    :param resume: False removes the files of an earlier run.
    :returns: how many starts it has checkpoints of.
    :raises CommandError: if the folder cannot be made, or holds something else.
    """
    others = [p.name for p in entries(path) if p.name not in (STARTS, LOCK) and not is_draft(p)]
    if others and CONFIG not in others:
        raise CommandError(f"--out {path} holds files but no run ({sorted(others)[0]}); give another folder")
    if others:
        saved = _config(path).get("settings", {})
        told = settings.differences(saved if isinstance(saved, dict) else {})
        if told and resume:
            advice = "give another --out, or --no-resume to replace it"
            raise CommandError(f"--out {path} holds a run with other settings ({'; '.join(told)}); {advice}")
    try:
        (path / STARTS).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(f"--out {path} cannot be made: {error.strerror}") from None
    drafts = [p for p in (*path.iterdir(), *(path / STARTS).iterdir()) if is_draft(p)]
    old = [] if resume else [path / name for name in OUTPUTS] + list((path / STARTS).glob("*.safetensors"))
    for leftover in drafts + old:
        leftover.unlink(missing_ok=True)
    return len(list((path / STARTS).glob("*.safetensors")))


def entries(path: Path) -> list[Path]:
    """What is in a folder; nothing, if it is not there yet."""
    try:
        return list(path.iterdir()) if path.exists() else []
    except OSError as error:
        raise CommandError(f"--out {path} cannot be read: {error.strerror}") from None


def checkpoint_path(path: Path, number: int) -> Path:
    """Where the state of a start is kept."""
    return path / STARTS / f"{number:03d}.safetensors"


def write_config(path: Path, settings: AnySettings, run: Run, selected: dict[str, Any] | None) -> None:
    """Write ``config.json``: without a selection when a run begins, with one as the last thing it does."""
    from pyrogram import __version__

    config: dict[str, Any] = {
        "format": FORMAT,
        "version": __version__,
        "grammar": run.description(),
        "settings": settings.as_dict(),
        "selected": selected,
    }
    # A symbol to a line, which json.dumps cannot do.
    rows = ",\n".join("    " + json.dumps(symbol, ensure_ascii=False) for symbol in run.symbols())
    text = json.dumps(config, indent=2, ensure_ascii=False)[:-2]
    write_file(path / CONFIG, (text + ',\n  "vocabulary": [\n' + rows + "\n  ]\n}\n").encode())


def write_weights(path: Path, weights: Weights) -> None:
    """Write ``weights.safetensors``."""
    from pyrogram.infer.running.checkpoint import safetensors_bytes

    write_file(path / WEIGHTS, safetensors_bytes(weights, {"format": FORMAT}))


def finished(path: Path) -> dict[str, Any]:
    """``config.json`` of a finished run.

    :raises CommandError: if it is no run, or unfinished.
    """
    config = _config(path)
    if config.get("selected") is None:
        raise CommandError(f"the run in {path} is not finished; give the command that began it once more")
    return config


def tags_and_smoothing(config: dict[str, Any]) -> tuple[Alphabet, float]:
    """Which symbols a grammar has learnt from, and how its weights are smoothed.

    :raises Exception: if they are not as they were written, as :func:`~pyrogram.cli.io.files.as_written` takes it.
    """
    settings = config["settings"]
    tags: Alphabet = "form" if has_classes(config) else settings["tags"]
    smoothing = settings["smoothing"]
    if isinstance(smoothing, bool) or not isinstance(smoothing, (int, float)):
        raise TypeError
    if not (0 < float(smoothing) < 1 and tags in ("upos", "xpos", "form")):
        raise ValueError("a setting is out of range")
    return tags, float(smoothing)


def has_classes(config: dict[str, Any]) -> bool:
    """Whether a grammar has learnt from classes of words, which are learnt, too."""
    return str(config["settings"]["tags"]).startswith("induced:")


def is_draft(path: Path) -> bool:
    """What a killed process may leave behind."""
    return path.name.startswith(".") and path.name.endswith(".tmp")


def _config(path: Path) -> dict[str, Any]:
    if not (path / CONFIG).is_file():
        reason = f"it has no {CONFIG}" if path.is_dir() else "there is no such folder"
        raise CommandError(f"{path} is not the folder of a run: {reason}; pyrogram induce and train --out make one")
    config = read_json(path / CONFIG)
    if not isinstance(config, dict) or config.get("format") != FORMAT:
        version = config.get("format") if isinstance(config, dict) else None
        if isinstance(version, str) and version.startswith("pyrogram-run-"):
            told = f"holds a run of another version of pyrogram ({version}, where this one has {FORMAT})"
            raise CommandError(f"{path} {told}; give the command that made it again, with another --out")
        raise CommandError(f"{path / CONFIG} is not that of a run, for its format is not {FORMAT}")
    return config


def read_weights(path: Path, grammar: Grammar) -> Weights:
    """The weights of a grammar, from ``weights.safetensors``.

    :raises CommandError: if they are missing, have other shapes, or are no probabilities.
    """
    path = path / WEIGHTS
    weights = read_safetensors(path)
    expected = {name: tuple(block.shape) for name, block in grammar.blocks.items()}
    actual = {name: tuple(w.shape) for name, w in weights.items()}
    if actual != expected:
        raise CommandError(
            f"{path} should hold weights of shapes {expected}, but holds {printable(str(actual), LONGEST_SHAPES)}"
        )
    for name, block in grammar.blocks.items():
        w = weights[name]
        if not w.is_floating_point() or not bool(((w >= 0) & w.isfinite()).all()):
            raise CommandError(f"{path}: weights of {name!r} must be finite and not negative, but some are not")
        worst = float((block.sums(w) - 1).abs().max())
        if worst > 1e-6:
            raise CommandError(f"{path}: multinomials of {name!r} must sum to 1, but one is off by {worst:.2g}")
    return weights
