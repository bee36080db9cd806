# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What a row of a table is made with: languages, starts, a loop that stops on held-out sentences, scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyro
from torch import Tensor

from pyrogram.choices import DECODERS
from pyrogram.cli.runs.evaluation import parse_corpus, smoothed
from pyrogram.cli.runs.settings import Settings
from pyrogram.cli.runs.starts import noiseless_start, start_weights
from pyrogram.data import Corpus
from pyrogram.grammar import Weights
from pyrogram.grammars import DMV
from pyrogram.infer import GrammarLoop
from pyrogram.metrics import accuracy_by_length, attach_right
from reproductions.induction.published import BINS
from reproductions.shared.learnt import Learnt, Score, best_held_out
from reproductions.shared.settings import NormalOptions

PARTS = {"test": "test sentences", "train": "training sentences", "all": "all sentences"}


@dataclass(frozen=True)
class Language:
    """A grammar to learn, from what, and what it is tested on.

    :param name: of the corpus, for tables.
    :param short: the training sentences that are short enough.
    :param dev: held-out sentences.
    :param parts: corpora to be scored on, by the names in :data:`PARTS`.
    :param families: coarse family of every tag, or None if there are none for this alphabet.
    """

    name: str
    grammar: DMV
    short: Corpus
    dev: Corpus
    parts: Mapping[str, Corpus]
    families: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Setup:
    """One start of one row.

    :param languages: one, or two for a bilingual row.
    :param number: of the start, from 1.
    :param earlier: for each language, what the row that this one goes on from has learnt from the same start.
    :param ties: what the row ties, as :func:`pyrogram.grammars.tie` has it.
    :param say: is told now and then how far it is.
    :param normal: how logistic normals learn.
    :param sweeps: of a sampler.
    """

    settings: Settings
    languages: tuple[Language, ...]
    number: int
    earlier: tuple[Learnt, ...] = ()
    ties: str = ""
    say: Callable[[str], Any] = lambda text: None
    normal: NormalOptions = NormalOptions()
    sweeps: int = 0

    @property
    def language(self) -> Language:
        """The language of a row that has one."""
        (language,) = self.languages
        return language

    @property
    def by_name(self) -> dict[str, Language]:
        """The languages by the names that a bilingual model has for them."""
        return {f"language{i}": language for i, language in enumerate(self.languages)}

    def start(self, language: Language) -> Weights:
        """Where every row's run of this number begins: as ``pyrogram induce`` does."""
        words = language.short.words
        drawn = self.settings.init == "random"
        plain = None if drawn else noiseless_start(self.settings, language.grammar, words, None)
        return start_weights(self.settings, language.grammar, words, plain, self.number)

    def run(self, make: Callable[[], GrammarLoop], about: str = "") -> tuple[GrammarLoop, dict[str, Tensor]]:
        """Run a loop until held-out sentences of all languages get no more likely.

        :param make: gives the loop; its model takes the words or, of several languages, the words by name.
        :param about: what to say besides the number of the iteration.
        :returns: the loop, at its best state, and the parameters of its model.
        """
        words, held_out = self._sentences()

        def watch(loop: GrammarLoop) -> None:
            self.say(f"{about}iteration {len(loop.history)}")

        store = pyro.get_param_store()
        with store.scope():
            loop = make()
            loop.run(
                words,
                num_steps=self.settings.steps,
                tolerance=self.settings.tolerance,
                progress=False,
                callback=watch,
                held_out=held_out,
                patience=self.settings.patience,
                held_out_smoothing=self.settings.smoothing,
            )
            return loop, {name: value.detach().clone() for name, value in store.items()}

    def _sentences(self) -> tuple[Any, Tensor | dict[str, Tensor]]:
        """What to learn from, and what is held out."""
        if len(self.languages) == 1:
            return self.language.short.words, self.language.dev.words
        named = self.by_name.items()
        return {name: l.short.words for name, l in named}, {f"{name}.words": l.dev.words for name, l in named}

    def learnt(self, loop: GrammarLoop, **others: Any) -> Learnt:
        """A loop that has run, as a row returns it."""
        sites = [None] if len(self.languages) == 1 else [f"{name}.words" for name in self.by_name]
        return Learnt(
            weights=tuple(loop.weights(site) for site in sites),
            iterations=len(loop.history),
            held_out=best_held_out(loop),
            stopped=loop.stopped,
            curves={"objective": tuple(loop.history), "held_out": tuple(loop.held_out_history)},
            **others,
        )

    def tuned(self, grid: Sequence[float], make: Callable[[float], GrammarLoop]) -> Learnt:
        """The run whose held-out sentences are the most likely, of one for each concentration."""
        best, chosen = None, math.nan
        for alpha in grid:
            loop, _ = self.run(lambda alpha=alpha: make(alpha), f"α = {alpha:g}, ")  # type: ignore[misc]
            if best is None or best_held_out(loop) > best_held_out(best):
                best, chosen = loop, alpha
        assert best is not None
        return self.learnt(best, alpha=chosen)


def parses_of(
    languages: Sequence[Language], numbers: Sequence[int], weights: Sequence[Weights], smoothing: float
) -> tuple[list[Score], dict[str, Tensor]]:
    """Parse all parts of all languages and count; without weights, as attach-right does.

    :param numbers: by which scores and heads name the languages.
    :returns: scores, and the heads of :class:`~reproductions.shared.store.Result` by minimum Bayes risk.
    """
    scores, kept = [], {}
    for i, language in enumerate(languages):
        for part, corpus in language.parts.items():
            if weights:
                ready = smoothed(language.grammar, weights[i], smoothing)
                heads = parse_corpus(language.grammar, ready, corpus)
            else:
                heads = dict.fromkeys(DECODERS, attach_right(corpus.lengths))
            assert corpus.heads is not None
            for decoder in DECODERS:
                for b in accuracy_by_length(heads[decoder], corpus.heads, BINS):
                    size = b.max_length, b.sentences, b.words
                    scores.append(Score(numbers[i], part, decoder, *size, b.directed, b.undirected, b.root))
            kept[f"{numbers[i]}.{part}"] = heads["mbr"][heads["mbr"] >= 0]
    return scores, kept


def default_families(tags: str, symbols: Sequence[str]) -> tuple[str, ...] | None:
    """The family of every symbol; None if the alphabet has none, or one of the symbols is in none."""
    from pyrogram.data import tag_families

    if tags not in ("upos", "xpos"):
        return None
    known = tag_families("universal" if tags == "upos" else "penn")
    return tuple(known[s] for s in symbols) if all(s in known for s in symbols) else None
