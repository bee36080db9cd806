# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What an induction assumes, and where it is kept, for files that are parsed later."""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import cast

from pyrogram.bias import Bias
from pyrogram.cli.io.errors import CommandError
from pyrogram.cli.io.files import read_safetensors, write_file
from pyrogram.cli.runs.folder import BIAS, FORMAT
from pyrogram.cli.runs.settings import Settings
from pyrogram.data import Corpus, Vocabulary
from pyrogram.grammar import Weights
from pyrogram.infer.running.checkpoint import safetensors_bytes
from pyrogram.knowledge import Assumed, Shares, Sources, assumptions
from pyrogram.knowledge.recipe import Knowledge, length_and_concentration, prior_of_languages
from pyrogram.knowledge.rules import Heads
from pyrogram.printable import plural


def write_assumed(path: Path, assumed: Assumed) -> None:
    """Write ``bias.safetensors``; what an arc across punctuation costs is the same in all runs."""
    write_file(path / BIAS, safetensors_bytes(dict(assumed.events.events), {"format": FORMAT}))


def read_assumed(path: Path) -> Assumed:
    """Read ``bias.safetensors``.

    :raises CommandError: if it is missing, or not as it was written.
    """
    return Assumed(Bias(read_safetensors(path / BIAS)))


def decided(settings: Settings, corpus: Corpus) -> Settings:
    """Settings in which the text decides what is not given: the greatest length, and with knowledge the concentration.

    :param corpus: all sentences to learn from.
    """
    if settings.knowledge == "none":
        return settings
    longest, alpha = length_and_concentration(corpus)
    return replace(settings, max_length=settings.max_length or longest, alpha=settings.alpha or alpha)


def assumed_of(settings: Settings, corpus: Corpus) -> Assumed | None:
    """What an induction assumes; None for nothing.

    :param corpus: all sentences to learn from.
    """
    if settings.knowledge == "none":
        return None
    kind, heads = cast("Knowledge", settings.knowledge), cast("Heads", settings.heads)
    return Assumed(assumptions(corpus, kind, heads, valence_attach=settings.valence_attach))


def read_sources(settings: Settings, prior: Path | None, vocab: Vocabulary) -> Sources | None:
    """The grammars of other languages over a vocabulary; None if they are not asked for.

    :param prior: a file of ``pyrogram prior``; None: those that ship.
    :raises CommandError: if it is no such file.
    """
    if settings.knowledge != "languages":
        return None
    try:
        return (Sources.shipped() if prior is None else Sources.load(prior)).over(vocab)
    except ValueError as error:
        raise CommandError(str(error)) from None


def prior_of(settings: Settings, train: Corpus, sources: Sources | None) -> float | Weights | None:
    """The concentrations of the Dirichlets: --alpha, or those that other languages give; None without a prior.

    :param train: the sentences that trees are learnt from.
    """
    if sources is not None:
        return prior_of_languages(train, train.words, settings.valence_attach, sources)
    return settings.alpha


@dataclass(frozen=True)
class DrawnOn:
    """What a grammar takes from whom."""

    sources: Sources
    shares: Shares

    @property
    def told(self) -> str:
        """The sources of the greatest shares, in a sentence."""
        shares = self.sources.drawn_on(self.shares)
        most = [k for k in shares.argsort(descending=True).tolist()[:5] if shares[k] >= 0.01]
        named = ", ".join(f"{self.sources.names[k]} {100 * float(shares[k]):.0f} %" for k in most)
        count = f"{plural(len(self.sources), 'treebank')}"
        return f"The prior is of {count}; mean over heads of the greatest shares: {named}."

    def svg(self) -> bytes | None:
        """All greater shares as a picture; None without matplotlib."""
        if find_spec("matplotlib") is None:
            return None
        from matplotlib import rc_context
        from matplotlib.figure import Figure

        from pyrogram.viz import plot_shares

        picture = io.BytesIO()
        with rc_context({"svg.hashsalt": "pyrogram"}):
            rows, table = self.sources.table(self.shares)
            figure = Figure(figsize=(7.2, 2.8 + 0.19 * len(rows)), layout="constrained")
            axes = figure.subplots(2, sharex=True, height_ratios=[1.6, 0.9 + 0.19 * len(rows)])
            plot_shares(table, rows, self.sources.names, whole=self.sources.drawn_on(self.shares), axes=axes)
            figure.savefig(picture, format="svg", metadata={"Date": None})
        return picture.getvalue()
