# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Tables 3 and 4 of Wallach, Sutton and McCallum (2008): syntactic topics in place of part-of-speech tags."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from pyrogram.cli.io.errors import CommandError
from pyrogram.infer import SyntacticTopics, TopicGibbs
from pyrogram.printable import plural
from reproductions.shared.experiment import Curve, ExperimentRow, Measure
from reproductions.shared.learnt import Learnt
from reproductions.shared.store import Key
from reproductions.shared.treebanks import BINS, SAMPLES, Part, accuracies, check_files, read_treebanks
from reproductions.topics.trees import sample_trees
from reproductions.topics.words import BURN_IN, POS, THIN, all_notes, states_of, topic_files, v_measure


def read_experiment(files: Mapping[str, Path], options: Mapping[str, Any], seed: int) -> tuple[Topics, dict[str, Any]]:
    """The experiment on a treebank, and the options that the numbers of one start depend on.

    :param files: ``train`` and ``test``; none of them for the built-in corpus.
    :param seed: with the number of a start added, of its chain.
    :raises CommandError: if a file is missing or there is one too many, or for numbers of states that are none.
    """
    check_files("topics", files)
    if options["tags"] == "form":
        raise CommandError("--tags form would compare states with words; give upos or xpos")
    if options["sweeps"] < 2:
        raise CommandError(f"--sweeps must be at least 2, not {options['sweeps']}")
    numbers = _numbers(options["states"])
    used = {"sweeps": options["sweeps"], "tags": options["tags"] or "xpos", "unseen": options["unseen"]}
    banks = read_treebanks(files, used["tags"], used["unseen"], options["format"])
    inputs = banks.train, banks.test, banks.lexicon, banks.tag_names
    return Topics(*inputs, numbers, seed, used["sweeps"], used["unseen"]), used


def _numbers(text: str) -> tuple[int, ...]:
    """Numbers of states."""
    texts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and 2 <= int(part) <= 9999 for part in texts):
        raise CommandError(f"--states must be whole numbers from 2 to 9999, separated by commas, not {text!r}")
    return tuple(dict.fromkeys(int(part) for part in texts))


def _measures() -> tuple[Measure, ...]:
    names = {"sampled": "sampled", "probable": "max. prob."}
    measures = [Measure(name, label, percent=True) for name, label in (*names.items(), ("mbr", "MBR"))]
    for name, label in names.items():
        measures += [Measure(f"{name}_{b}", f"{label} ≤{b}", percent=True) for b in BINS if b is not None]
    return tuple(measures)


@dataclass(frozen=True, eq=False)
class Topics:
    """The experiment, as :class:`reproductions.shared.experiment.Experiment` has it.

    :param train: sentences with trees, from which states are learnt; and ``test``, whose trees are found.
    :param lexicon: names of the words' ids, and ``tag_names`` of the tags'.
    :param numbers: of states, each with a row of its own.
    :param seed: of chains, with their number added.
    :param sweeps: of a chain.
    :param unseen: which words are known, see :mod:`pyrogram.data.lexical`.
    """

    train: Part
    test: Part
    lexicon: tuple[str, ...]
    tag_names: tuple[str, ...]
    numbers: tuple[int, ...]
    seed: int
    sweeps: int
    unseen: str

    title: ClassVar[str] = "Wallach, Sutton and McCallum (2008), Table 4: syntactic topics for part-of-speech tags"
    measures: ClassVar[tuple[Measure, ...]] = _measures()
    curves: ClassVar[tuple[Curve, ...]] = (Curve("objective", "log P(s, w | t), nats", x_label="sweep", log_x=True),)
    compared: ClassVar[str] = "probable"
    published: ClassVar[Mapping[str, Mapping[str, float]]] = {
        POS: {"sampled": 0.553, "probable": 0.631},
        "states-50": {"sampled": 0.592, "probable": 0.638},
        "states-100": {"sampled": 0.600, "probable": 0.641},
        "states-150": {"sampled": 0.605, "probable": 0.647},
        "states-200": {"sampled": 0.604, "probable": 0.645},
    }

    @property
    def trials(self) -> tuple[ExperimentRow, ...]:
        """Tags for states, and every number of states, all compared with tags."""
        rows = [ExperimentRow(f"states-{k}", plural(k, "state"), POS) for k in self.numbers]
        return (ExperimentRow(POS, "part-of-speech tags", many=False), *rows)

    def learn(self, row: str, start: int, say: Callable[[str], Any]) -> Learnt:
        """One chain of a row."""
        train, V = self.train, len(self.lexicon)
        seed = self.seed + start
        if row == POS:
            topics = SyntacticTopics.from_states(train.words, train.heads, train.tags, V, len(self.tag_names))
            say("parsing")
            return Learnt((), metrics=self._scores(topics, self.test.tags, seed))
        sampler = TopicGibbs(int(row.removeprefix("states-")), V, seed=seed)
        sampler.run(train.words[:1], train.heads[:1], num_steps=1, progress=False)  # compiles before the clock starts
        sampler = TopicGibbs(int(row.removeprefix("states-")), V, seed=seed)
        began = time.process_time()

        def watch(chain: TopicGibbs) -> None:
            if len(chain.history) % 20 == 0:
                say(f"sweep {len(chain.history)} of {self.sweeps}")

        sampler.run(train.words, train.heads, num_steps=self.sweeps, progress=False, callback=watch)
        seconds = time.process_time() - began
        say("parsing")
        topics, states = sampler.topics(), sampler.states()[train.words >= 0]
        tags = train.tags[train.words >= 0]
        metrics = {
            "log_joint": sampler.log_joint(),
            "alpha": float(topics.base.sum()),
            "beta": topics.b * V,
            "v_measure": v_measure(states, tags),
            "seconds": seconds,
        }
        return Learnt(
            (),
            {"states": states.to(torch.int16)},
            iterations=len(sampler.history),
            stopped=plural(self.sweeps, "sweep"),
            curves={"objective": tuple(sampler.history)},
            metrics=self._scores(topics, None, seed) | metrics,
        )

    def _scores(self, topics: SyntacticTopics, seen: Tensor | None, seed: int) -> dict[str, float]:
        """Accuracies of sampled trees, each the mean over all samples, of most probable trees, and by MBR."""
        words = self.test.words
        sampled, acceptance = sample_trees(
            topics, words, seen, num_samples=SAMPLES, burn_in=BURN_IN, thin=THIN, seed=seed
        )
        heads = {"sampled": sampled}
        heads["probable"] = topics.parse(words, seen)[None]
        heads["mbr"] = topics.parse(words, seen, decoder="mbr")[None]
        scores = {"acceptance": acceptance}
        for name, trees in heads.items():
            scores |= accuracies(name, trees, self.test)
        return scores

    def notes(self, results: Mapping[Key, Any]) -> Sequence[str]:
        """Footnotes."""
        return all_notes(self, results)

    def written(self, learnt: Mapping[Key, Learnt]) -> Mapping[str, bytes]:
        """Table 3: the words of states, aligned across chains."""
        return topic_files(self, {key: states_of(run) for key, run in learnt.items() if key.row != POS})
