# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Goldwater, Griffiths and Johnson (2009): words found in utterances without boundaries, by unigrams and bigrams."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from pyrogram.cli.io.errors import CommandError
from pyrogram.data import SegmentedCorpus, generated_utterances, read_utterances
from pyrogram.grammars import BigramSegmentation, UnigramSegmentation
from pyrogram.infer import SegmentationHastings
from pyrogram.metrics import segmentation_scores
from pyrogram.models.word_segmentation import GOLDWATER, goldwater_temperatures, word_segmentation
from pyrogram.printable import plural
from reproductions.shared.experiment import Curve, ExperimentRow, Measure
from reproductions.shared.learnt import Learnt
from reproductions.shared.store import Key

MOST_SYMBOLS = 15  # of a word
GENERATED = 500  # utterances, where no file is given


def read_experiment(files: Mapping[str, Path], options: Mapping[str, Any], seed: int) -> tuple[Words, dict[str, Any]]:
    """The experiment on a file of utterances, and the options that its numbers depend on.

    :param files: ``train``, an utterance a line with white space between words; none for a language that is made up.
    :param seed: with the number of a start added, of its chain.
    :raises CommandError: if there are other files.
    """
    others = [f"--{name}" if name != "train2" else "TRAIN2" for name in files if name != "train"]
    if others:
        raise CommandError(f"utterances are learnt from and scored on; leave out {' and '.join(sorted(others))}")
    path = files.get("train")
    corpus = generated_utterances(GENERATED) if path is None else read_utterances(path)
    used = {"sweeps": options["sweeps"]}
    return Words("a generated language" if path is None else path.name, corpus, seed, **used), used


@dataclass(frozen=True)
class Words:
    """The experiment, as :class:`reproductions.shared.experiment.Experiment` has it.

    :param name: of the corpus.
    :param corpus: utterances, with their words.
    :param seed: of chains, with their number added.
    :param sweeps: of a chain, whose last words are scored.
    """

    name: str
    corpus: SegmentedCorpus
    seed: int
    sweeps: int

    title: ClassVar[str] = "Goldwater, Griffiths and Johnson (2009): words in utterances without boundaries"
    trials: ClassVar[tuple[ExperimentRow, ...]] = (
        ExperimentRow("unigram", "unigrams, Dirichlet process"),
        ExperimentRow("bigram", "bigrams, Dirichlet processes", "unigram"),
        ExperimentRow("unigram-pitman-yor", "unigrams, Pitman-Yor, sampled", "unigram"),
        ExperimentRow("bigram-pitman-yor", "bigrams, Pitman-Yor, sampled", "bigram", also=("unigram-pitman-yor",)),
    )
    measures: ClassVar[tuple[Measure, ...]] = (
        Measure("token_f1", "tokens F1", percent=True),
        Measure("boundary_f1", "boundaries F1", percent=True),
        Measure("lexicon_f1", "lexicon F1", percent=True),
        Measure("log_joint", "log joint", digits=0),
        Measure("gold_log_joint", "of the true words", digits=0),
        Measure("seconds", "seconds", digits=0),
    )
    curves: ClassVar[tuple[Curve, ...]] = (Curve("objective", "log joint, nats", x_label="sweep", log_x=True),)
    compared: ClassVar[str] = "token_f1"
    published: ClassVar[Mapping[str, Mapping[str, float]]] = {
        "unigram": {"token_f1": 0.538, "boundary_f1": 0.743, "lexicon_f1": 0.572},
        "bigram": {"token_f1": 0.723, "boundary_f1": 0.852, "lexicon_f1": 0.591},
    }

    def learn(self, row: str, start: int, say: Callable[[str], Any]) -> Learnt:
        """One chain of a row: hyperparameters of the article, or sampled ones."""
        kind = BigramSegmentation if row.startswith("bigram") else UnigramSegmentation
        grammar = kind("".join(self.corpus.forms), max_length=MOST_SYMBOLS)
        utterances, seed = grammar.encode(self.corpus.forms), self.seed + start
        is_sampled = row.endswith("pitman-yor")
        prior = "pitman-yor" if is_sampled else "dirichlet"
        fixed: dict[str, Any] = {} if is_sampled else dict(GOLDWATER[grammar.num_levels])
        metrics: dict[str, float] = {}
        if fixed:  # else another word is more probable under other hyperparameters, and nothing can be compared
            gold = SegmentationHastings(word_segmentation, seed=seed)
            gold.set_boundaries(grammar.boundaries(self.corpus.segments), utterances, grammar, prior, **fixed)
            metrics["gold_log_joint"] = gold.log_joint
        sampler = SegmentationHastings(word_segmentation, temperatures=goldwater_temperatures(self.sweeps), seed=seed)

        def watch(chain: SegmentationHastings) -> None:
            if len(chain.history) % 20 == 0:
                say(f"sweep {len(chain.history)} of {self.sweeps}")

        began = time.process_time()
        sampler.run(utterances, grammar, prior, num_steps=self.sweeps, progress=False, callback=watch, **fixed)
        seconds = time.process_time() - began
        scores = segmentation_scores(sampler.segments(), self.corpus.segments)
        for name, score in (("token", scores.token), ("boundary", scores.boundary), ("lexicon", scores.type)):
            metrics[f"{name}_f1"] = score.f1 or 0.0
        metrics |= {"log_joint": sampler.log_joint, "seconds": seconds, "acceptance": sampler.acceptance}
        return Learnt(
            (),
            iterations=len(sampler.history),
            stopped=plural(self.sweeps, "sweep"),
            curves={"objective": tuple(sampler.history)},
            metrics=metrics,
        )

    def notes(self, results: Mapping[Key, Any]) -> Sequence[str]:
        """Footnotes."""
        starts = max((key.start for key in results), default=0)
        words = sum(map(len, self.corpus.segments))
        rates = [result.metrics["acceptance"] for result in results.values()]
        accepted = f" {100 * min(rates):.2f} % of the proposals were accepted at least." if rates else ""
        return (
            "paper: the Bernstein-Ratner corpus in phonemes, 9,790 utterances, 20,000 iterations of a sampler of "
            "single boundaries.",
            f"learnt from {plural(len(self.corpus), 'utterance')} of {plural(words, 'word')} of "
            f"{self.name}, without their boundaries, "
            f"and scored on the same: the words of the last sweep. Chains of a row: {starts}.",
            f"sampler: all words of an utterance at once, {plural(self.sweeps, 'sweep')}, annealed "
            f"in ten stages as in the "
            f"article; words of {MOST_SYMBOLS} symbols at most.{accepted}",
            "hyperparameters: those of the article with Dirichlet processes; sampled with Pitman-Yor processes, whose "
            "log joint has their density, too. Compare log joints within a row only.",
            "boundaries are those within utterances; the lexicon's words count once each.",
        )
