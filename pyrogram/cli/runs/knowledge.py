# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What an induction assumes, and where it is kept, for files that are parsed later."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import cast

from pyrogram.bias import Bias
from pyrogram.cli.io.files import read_safetensors, write_file
from pyrogram.cli.runs.folder import BIAS, FORMAT
from pyrogram.cli.runs.settings import Settings
from pyrogram.data import Corpus
from pyrogram.grammar import Grammar, Weights
from pyrogram.infer.running.checkpoint import safetensors_bytes
from pyrogram.knowledge import assumptions, segments
from pyrogram.knowledge.recipe import Knowledge, prior_of_languages
from pyrogram.knowledge.rules import Heads

PUNCTUATION = 3.0  # nats that an arc across punctuation costs


@dataclass(frozen=True)
class Assumed:
    """What is assumed of trees besides the text.

    :param events: the bias of a grammar's events.
    """

    events: Bias

    def tilted(self, grammar: Grammar, corpus: Corpus) -> Grammar:
        """The grammar of these sentences, under the bias."""
        return grammar.tilted(self.events + segments(corpus, PUNCTUATION))

    @property
    def told(self) -> list[str]:
        """What is assumed, in sentences."""
        return [*self.events.told, f"An arc across punctuation costs {PUNCTUATION:g} nats."]

    def write(self, path: Path) -> None:
        """Write ``bias.safetensors``."""
        write_file(path / BIAS, safetensors_bytes(dict(self.events.events), {"format": FORMAT}))

    @classmethod
    def load(cls, path: Path) -> Assumed:
        """Read ``bias.safetensors``.

        :raises CommandError: if it is missing, or not as it was written.
        """
        return cls(Bias(read_safetensors(path / BIAS)))


def assumed(settings: Settings, corpus: Corpus) -> Assumed | None:
    """What an induction assumes; None for nothing.

    :param corpus: all sentences to learn from.
    """
    if settings.knowledge == "none":
        return None
    kind, heads = cast("Knowledge", settings.knowledge), cast("Heads", settings.heads)
    return Assumed(assumptions(corpus, kind, heads, valence_attach=settings.valence_attach))


def prior(settings: Settings, train: Corpus) -> float | Weights | None:
    """The concentrations of the Dirichlets: --alpha, or those that other languages give; None without a prior.

    :param train: the sentences that trees are learnt from.
    """
    if settings.knowledge == "languages":
        return prior_of_languages(train, train.words, settings.valence_attach)
    return settings.alpha
