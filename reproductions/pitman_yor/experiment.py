# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Table 2 of Wallach, Sutton and McCallum (2008): four priors of Eisner's dependency model, under three seatings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from pyrogram.cli.io.errors import CommandError
from pyrogram.cli.runs.lexical_training import model_of, predictors
from pyrogram.cli.runs.starts import double_precision
from pyrogram.grammars import LexicalDependencies, LexicalTagger
from pyrogram.grammars.lexical_dependencies import SITES
from pyrogram.grammars.lexical_parser import LexicalParser, Parses
from pyrogram.infer import PitmanYorSampler
from pyrogram.models import PITMAN_YOR_PRIORS, observed_events
from reproductions.pitman_yor.notes import UNTAGGED, all_notes
from reproductions.pitman_yor.pictures import all_pictures
from reproductions.shared.experiment import Curve, ExperimentRow, Measure
from reproductions.shared.learnt import Learnt
from reproductions.shared.store import Key
from reproductions.shared.treebanks import BINS, SAMPLES, Part, accuracies, check_files, read_treebanks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PATHS = ("maximal", "minimal", "exact")
TAGGED = "pitman-yor-sampled-minimal"
_LABELS = {
    "dirichlet-fixed": "Dirichlet, fixed α",
    "dirichlet-sampled": "Dirichlet, sampled α",
    "pitman-yor-fixed": "Pitman-Yor, fixed α, ε",
    "pitman-yor-sampled": "Pitman-Yor, sampled α, ε",
}


def read_experiment(
    files: Mapping[str, Path], options: Mapping[str, Any], seed: int
) -> tuple[PitmanYorTable, dict[str, Any]]:
    """The experiment on a treebank, and the options that the numbers of one start depend on.

    :param files: ``train`` and ``test``; none of them for the built-in corpus.
    :param seed: with the number of a start added, of its chain.
    :raises CommandError: if a file is missing or there is one too many, or words are to be tags.
    """
    check_files("pitman-yor", files)
    if options["tags"] == "form":
        raise CommandError(
            "--tags form would have words for tags, which the model generates besides; give upos or xpos"
        )
    used = {"steps": options["steps"], "tags": options["tags"] or "xpos", "unseen": options["unseen"]}
    # Gold tags are not said, as in folders that are older than this option.
    used |= {"tagged": True} if options["tagged"] else {}
    banks = read_treebanks(files, used["tags"], used["unseen"], options["format"])
    sizes = len(banks.lexicon), len(banks.tag_names)
    words = banks.lexicon, banks.tag_names
    return PitmanYorTable(banks.train, banks.test, *words, LexicalDependencies(*sizes[::-1]), seed, **used), used


def _trials() -> tuple[ExperimentRow, ...]:
    """Rows by prior and seating: Pitman-Yor is compared with Dirichlet, sampled with fixed hyperparameters."""
    rows = []
    for prior in PITMAN_YOR_PRIORS:
        kind, _, how = prior.rpartition("-")
        for paths in PATHS:
            others = [f"{kind}-fixed-{paths}"] if how == "sampled" else []
            others += [f"dirichlet-{how}-{paths}"] if kind == "pitman-yor" else []
            if prior == "pitman-yor-sampled" and paths != "minimal":
                others.append(f"{prior}-minimal")
            label = f"{_LABELS[prior]}, {paths}"
            many = how == "sampled" or paths == "exact"
            first = others[0] if others else None
            rows.append(ExperimentRow(f"{prior}-{paths}", label, first, many, tuple(others[1:])))
    whole = next(row for row in rows if row.name == TAGGED)
    return (*rows, ExperimentRow(UNTAGGED, f"{whole.label}, tags with trees", TAGGED, asked=True))


def _measures() -> tuple[Measure, ...]:
    names = {"probable": "max. prob.", "mbr": "MBR", "sampled": "sampled"}
    measures = [Measure(name, label, percent=True) for name, label in names.items()]
    measures.append(Measure("nats", "nats per token", digits=3))
    for name in ("probable", "mbr"):
        measures += [Measure(f"{name}_{b}", f"{names[name]} ≤{b}", percent=True) for b in BINS if b is not None]
    return tuple(measures)


@dataclass(frozen=True, eq=False)
class PitmanYorTable:
    """The experiment, as :class:`reproductions.shared.experiment.Experiment` has it.

    :param train: sentences with trees, from which is learnt; and ``test``, whose trees are found.
    :param lexicon: names of the words' ids, and ``tag_names`` of the tags'.
    :param grammar: which events their trees have.
    :param seed: of chains, with their number added.
    :param steps: of slice sampling, and of Gibbs sampling of the seats.
    :param tags: which tags they are.
    :param unseen: which words are known, see :mod:`pyrogram.data.lexical`.
    :param tagged: whether test sentences are parsed with a tagger's tags instead of the gold ones.
    """

    train: Part
    test: Part
    lexicon: tuple[str, ...]
    tag_names: tuple[str, ...]
    grammar: LexicalDependencies
    seed: int
    steps: int
    tags: str
    unseen: str
    tagged: bool = False

    title: ClassVar[str] = "Wallach, Sutton and McCallum (2008), Table 2: priors of a lexicalised dependency model"
    trials: ClassVar[tuple[ExperimentRow, ...]] = _trials()
    measures: ClassVar[tuple[Measure, ...]] = _measures()
    curves: ClassVar[tuple[Curve, ...]] = ()
    compared: ClassVar[str] = "probable"
    published: ClassVar[Mapping[str, Mapping[str, float]]] = {
        "dirichlet-fixed-maximal": {"probable": 0.807},  # not printed, but follows from the error reduction in the text
        "dirichlet-fixed-minimal": {"probable": 0.802},
        "dirichlet-sampled-minimal": {"probable": 0.841},
        "pitman-yor-fixed-maximal": {"probable": 0.836},
        "pitman-yor-fixed-minimal": {"probable": 0.837},
        "pitman-yor-sampled-maximal": {"probable": 0.854},
        "pitman-yor-sampled-minimal": {"probable": 0.857},
    }

    @cached_property
    def test_tags(self) -> Tensor:
        """The tags that test sentences are parsed with, (N, n): gold, or of a tagger of the training sentences."""
        if not self.tagged:
            return self.test.tags
        train, sizes = self.train, {"num_tags": len(self.tag_names), "num_words": len(self.lexicon)}
        with double_precision():
            return LexicalTagger.learn(train.tags, train.words, train.cases, **sizes).tag(
                self.test.words, self.test.cases
            )

    def learn(self, row: str, start: int, say: Callable[[str], Any]) -> Learnt:
        """One chain of a row, parsed with its last state."""
        prior, _, paths = (TAGGED if row == UNTAGGED else row).rpartition("-")
        train, seed = self.train, self.seed + start
        steps = self.steps if next(t.many for t in self.trials if t.name == row) else 1
        say("reading events")
        values, contexts = observed_events(self.grammar.events(train.tags, train.words, train.cases, train.heads))
        sampler = PitmanYorSampler(model_of(prior, paths), seed=seed)
        sampler.run(
            values,
            contexts,
            self.grammar.num_values,
            num_steps=steps,
            progress=False,
            callback=lambda chain: say(f"step {len(chain.history)} of {steps}"),
        )
        say("parsing")
        curves = {"objective": tuple(sampler.history)}
        for name, trace in sampler.trace().items():
            curves |= {f"{name}_{i}": tuple(trace[:, i].tolist()) for i in range(trace.shape[1])}
        metrics, right = self._scores(sampler, seed, row == UNTAGGED)
        parameters = {"right": right}
        for site in SITES:
            by_level = {"alpha": sampler.concentration[site], "epsilon": sampler.discount[site]}
            parameters |= {f"{site}.{name}": x for name, x in by_level.items()}
            metrics |= {f"{site}_{name}_{i}": v for name, x in by_level.items() for i, v in enumerate(x.tolist())}
        stopped = f"{steps} steps" if steps > 1 else "nothing to be sampled"
        return Learnt((), parameters, iterations=steps, stopped=stopped, curves=curves, metrics=metrics)

    def _scores(self, sampler: PitmanYorSampler, seed: int, untagged: bool) -> tuple[dict[str, float], Tensor]:
        """Accuracies of most probable trees, by MBR, and of sampled trees; log-likelihood per token.

        Untagged, it would be the likelihood of less, so there is the share of right tags instead. And how many heads
        of each sentence the first has right, to compare rows sentence by sentence.
        """
        test = self.test
        parser, generator = LexicalParser(self.grammar, predictors(sampler)), torch.Generator().manual_seed(seed)
        parsed: Parses
        if untagged:
            parsed = both = parser.parse_untagged(test.words, test.cases)
            sampled = parser.sample_untagged(test.words, test.cases, SAMPLES, generator)[1]
            scores = {"right_tags": float((both.tags["viterbi"] == test.tags)[test.is_scored].double().mean())}
        else:
            sentences = self.test_tags, test.words, test.cases
            parsed, sampled = parser.parse(*sentences), parser.sample(*sentences, SAMPLES, generator)
            scores = {"nats": float(parsed.log_likelihood.sum()) / int((test.words >= 0).sum())}
        heads = {"probable": parsed.heads["viterbi"][None], "mbr": parsed.heads["mbr"][None], "sampled": sampled}
        for name, trees in heads.items():
            scores |= accuracies(name, trees, test)
        return scores, ((parsed.heads["viterbi"] == test.heads) & test.is_scored).sum(-1)

    def notes(self, results: Mapping[Key, Any]) -> Sequence[str]:
        """Footnotes."""
        return all_notes(self, results)

    def pictures(self, learnt: Mapping[Key, Learnt]) -> Mapping[str, Figure]:
        """Hyperparameters step by step; internal draws of all contexts, and of one."""
        return all_pictures(self, learnt)
