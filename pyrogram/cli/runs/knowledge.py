# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What an induction assumes, and where it is kept, for files that are parsed later."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from pyrogram.bias import Bias
from pyrogram.cli.io.files import read_safetensors, write_file
from pyrogram.cli.runs.folder import BIAS, FORMAT
from pyrogram.cli.runs.settings import Settings
from pyrogram.data import Corpus
from pyrogram.grammar import Weights
from pyrogram.infer.running.checkpoint import safetensors_bytes
from pyrogram.knowledge import Assumed, assumptions
from pyrogram.knowledge.recipe import Knowledge, prior_of_languages
from pyrogram.knowledge.rules import Heads


def write_assumed(path: Path, assumed: Assumed) -> None:
    """Write ``bias.safetensors``; what an arc across punctuation costs is the same in all runs."""
    write_file(path / BIAS, safetensors_bytes(dict(assumed.events.events), {"format": FORMAT}))


def read_assumed(path: Path) -> Assumed:
    """Read ``bias.safetensors``.

    :raises CommandError: if it is missing, or not as it was written.
    """
    return Assumed(Bias(read_safetensors(path / BIAS)))


def assumed_of(settings: Settings, corpus: Corpus) -> Assumed | None:
    """What an induction assumes; None for nothing.

    :param corpus: all sentences to learn from.
    """
    if settings.knowledge == "none":
        return None
    kind, heads = cast("Knowledge", settings.knowledge), cast("Heads", settings.heads)
    return Assumed(assumptions(corpus, kind, heads, valence_attach=settings.valence_attach))


def prior_of(settings: Settings, train: Corpus) -> float | Weights | None:
    """The concentrations of the Dirichlets: --alpha, or those that other languages give; None without a prior.

    :param train: the sentences that trees are learnt from.
    """
    if settings.knowledge == "languages":
        return prior_of_languages(train, train.words, settings.valence_attach)
    return settings.alpha
