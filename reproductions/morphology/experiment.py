# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Figure 5 of Wang and Blunsom (2013): sparse grammars of the parts of words, learnt in four ways."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, ClassVar

import pyro
from torch import Tensor

from pyrogram.cli.io.errors import CommandError
from pyrogram.data import SegmentedCorpus, read_morphs
from pyrogram.distributions import Sentence
from pyrogram.grammar import Weights
from pyrogram.grammars import CFG
from pyrogram.infer import EM, CollapsedVB, GrammarLoop, TreeHastings, VariationalEM
from pyrogram.metrics import closest_segmentations, perplexity, segmentation_scores
from pyrogram.models import maximum_likelihood
from pyrogram.models import morphology as verbs
from pyrogram.printable import plural
from reproductions.shared.experiment import Curve, ExperimentRow, Measure
from reproductions.shared.learnt import Learnt
from reproductions.shared.store import Key

ALPHA, HELD_OUT = 1e-5, 0.1
_EVALUATIONS = 100  # of a chain's held-out perplexity, besides those of its first sweeps
_FIRST = 10
_WARM = 16  # words whose one iteration has everything compiled before the clock starts

_CURVES = (
    Curve("perplexity", "held-out perplexity per word", log_x=True, log_y=True, span=30),
    Curve("perplexity", "held-out perplexity per word", "seconds", "seconds", log_x=True, log_y=True, span=30),
    Curve("objective", "objective, nats", log_x=True),
)


def read_experiment(
    files: Mapping[str, Path], options: Mapping[str, Any], seed: int
) -> tuple[Morphology, dict[str, Any]]:
    """The experiment on a table of segmented words, and the options that its numbers depend on.

    :param files: by what they are for; held-out words are chosen from those of ``train``.
    :param seed: of the held-out words and, with the number of a start added, of the start.
    :raises CommandError: if there are other files, or too few words.
    """
    others = [f"--{name}" if name != "train2" else "TRAIN2" for name in files if name != "train"]
    if others:
        raise CommandError(
            f"of segmented words {100 * HELD_OUT:g} % are held out by --seed; leave out {' and '.join(sorted(others))}"
        )
    path = files["train"]
    corpus = read_morphs(path)
    train, test = corpus.split(HELD_OUT, seed)
    if not len(test) or not len(train):
        number = len(set(corpus.forms))
        raise CommandError(
            f"{path} has {plural(number, 'different word')}, too few to hold out {100 * HELD_OUT:g} % of them"
        )
    used = {name: options[name] for name in ("steps", "tolerance", "sweeps")}
    return Morphology(path.name, corpus, seed, **used), {**used, "alpha": ALPHA, "held_out": HELD_OUT}


@lru_cache(maxsize=1)
def grammar_of(forms: tuple[str, ...]) -> CFG:
    """The grammar over a corpus: made once in a process, for that takes longer than most runs, and never sent."""
    grammar: CFG = verbs.verb_grammar(forms)
    return grammar


@dataclass(frozen=True)
class Morphology:
    """The experiment, as :class:`reproductions.shared.experiment.Experiment` has it.

    :param name: of the corpus.
    :param corpus: all words, with their morphs.
    :param seed: of the held-out words, and of starts.
    :param steps: most iterations, and ``tolerance``, where they end before; of all but the sampler.
    :param sweeps: of the sampler, whose averages are over the second half.
    """

    name: str
    corpus: SegmentedCorpus
    seed: int
    steps: int
    tolerance: float
    sweeps: int

    title: ClassVar[str] = "Wang and Blunsom (2013), Figure 5: sparse grammars of the parts of verbs"
    trials: ClassVar[tuple[ExperimentRow, ...]] = (
        ExperimentRow("em", "EM"),
        ExperimentRow("vb", "VB", "em"),
        ExperimentRow("cvb", "CVB", "vb"),
        ExperimentRow("hastings", "Hastings", "cvb"),
    )
    measures: ClassVar[tuple[Measure, ...]] = (
        Measure("perplexity", "perplexity", digits=0),
        Measure("token_f1_test", "F1 test", percent=True),
        Measure("token_f1_train", "F1 train", percent=True),
        Measure("boundary_f1_test", "boundary F1 test", percent=True),
        Measure("boundary_f1_train", "boundary F1 train", percent=True),
        Measure("seconds", "seconds"),
        Measure("iterations", "iterations", digits=0),
    )
    curves: ClassVar[tuple[Curve, ...]] = _CURVES
    compared: ClassVar[str] = "token_f1_test"
    published: ClassVar[Mapping[str, Mapping[str, float]]] = {
        "cvb": {"token_f1_test": 0.298, "seconds": 90.0},
        "hastings": {"token_f1_test": 0.313, "seconds": 1200.0},
    }

    def learn(self, row: str, start: int, say: Callable[[str], Any]) -> Learnt:
        """One start of a row: where it begins does not depend on the row."""
        say("building the grammar")
        grammar = grammar_of(tuple(self.corpus.forms))
        train, test = self.corpus.split(HELD_OUT, self.seed)
        words, held_out = (verbs.encode(grammar, part.forms) for part in (train, test))
        say("drawing trees to start from")
        seed = self.seed + start
        begin = verbs.random_start(grammar, words, seed=seed, concentration=ALPHA)
        with pyro.get_param_store().scope():
            _loop(row, begin, seed).step(words[:_WARM], grammar)
        total = self.sweeps if row == "hastings" else self.steps
        watch = _Watch(grammar, held_out, total, row == "hastings", say)
        with pyro.get_param_store().scope():
            loop = _loop(row, begin, seed)
            watch.begin()
            if isinstance(loop, TreeHastings):
                burn_in = self.sweeps // 2
                loop.run(words, grammar, num_steps=self.sweeps, burn_in=burn_in, progress=False, callback=watch)
            else:
                loop.run(words, grammar, num_steps=self.steps, tolerance=self.tolerance, progress=False, callback=watch)
            weights = loop.weights()
        say("segmenting")
        log_probs = _log_probs(grammar, weights, held_out)
        metrics = {"perplexity": perplexity(log_probs), "seconds": watch.seconds}
        for name, part in (("test", test), ("train", train)):
            metrics |= {f"{score}_{name}": v for score, v in _segmentation(grammar, weights, part).items()}
        if isinstance(loop, TreeHastings):
            metrics["acceptance"] = loop.acceptance
        return Learnt(
            (weights,),
            iterations=len(loop.history),
            held_out=float(log_probs.sum()),
            stopped=loop.stopped,
            curves={"objective": tuple(loop.history), **watch.curves()},
            metrics=metrics,
        )

    def notes(self, results: Mapping[Key, Any]) -> Sequence[str]:
        """Footnotes."""
        return (*_about_data(self), *_about_learning(self, results), *_about_scores())


def _about_data(study: Morphology) -> tuple[str, ...]:
    train, test = study.corpus.split(HELD_OUT, study.seed)
    pieces = len(verbs.substrings(study.corpus.forms))
    parts = dict.fromkeys(part for right in verbs.VERB_TEMPLATE for part in right)
    rules = len(verbs.VERB_TEMPLATE) + len(parts) * pieces
    template = " | ".join(" ".join(right) for right in verbs.VERB_TEMPLATE)
    return (
        "paper: verbs of Sotho, another corpus than this, 5 starts; it does not say of which words its F1 is, and its "
        "curves are without numbers. Compare the rows with one another before you compare them with it.",
        f"learnt from {plural(len(train), 'word')} of {study.name}, unsegmented. Another "
        f"{len(test):,}, {100 * HELD_OUT:g} % "
        f"of the types, are held out, by --seed {study.seed}; nobody learns from them, and they stop nothing.",
        f"grammar: Word → {template}, and each of the {len(parts)} parts may be any of the {pieces:,} substrings of "
        f"the corpus, by a rule of its own: {plural(rules, 'rule')}. As in the paper, substrings of "
        f"held-out words are among "
        "them, or most of these words would be impossible.",
    )


def _about_learning(study: Morphology, results: Mapping[Key, Any]) -> tuple[str, ...]:
    starts = max((key.start for key in results), default=0)
    told = f"mean and standard deviation over {starts} starts, the same for every row" if starts > 1 else "one start"
    rates = [result.metrics["acceptance"] for key, result in results.items() if key.row == "hastings"]
    rate = f"; {100 * sum(rates) / len(rates):.1f} % of the proposals were accepted" if rates else ""
    cut = dict.fromkeys(key.row for key, r in results.items() if key.row != "hastings" and r.iterations >= study.steps)
    so_did = f" (so did {', '.join(cut)})" if cut else ""
    return (
        f"{told}: a tree drawn for each word, all of a word's trees being equally probable, and the weights that these "
        "trees give.",
        f"α = {ALPHA:g} for every rule, but EM has no prior: the weights of rules that it does not use, those of "
        "held-out words above all, go to zero, and its perplexity grows without limit.",
        "perplexity: per held-out word, summed over its trees, under the weights of maximum likelihood (EM) or the "
        f"mean of their posterior. Hastings': the average over the second half of "
        f"{plural(study.sweeps, 'sweep')}{rate}; along "
        "its curve, the present trees' in the first half, then the average so far.",
        f"EM, VB and CVB end when the objective changes by less than {study.tolerance:g} of itself, or after "
        f"{plural(study.steps, 'iteration')}{so_did}. CVB and Hastings take eight words at a time.",
    )


def _about_scores() -> tuple[str, ...]:
    return (
        "F1: of the segments of the most probable tree, all words pooled; where annotators have several segmentations, "
        "with the nearest. A word of probability zero is one segment. Boundaries are those within words.",
        "seconds: of processor time, in one thread, for learning alone, without building the grammar or evaluating. "
        "Objectives of different rows are different quantities.",
    )


def _loop(row: str, start: Weights, seed: int) -> GrammarLoop:
    if row == "em":
        return EM(partial(maximum_likelihood, initial_weights=start), initial_weights=start)
    model = partial(verbs.morphology, concentration=ALPHA)
    if row == "hastings":
        return TreeHastings(model, initial_weights=start, seed=seed, keep_parts=False)
    kinds: dict[str, type[VariationalEM | CollapsedVB]] = {"vb": VariationalEM, "cvb": CollapsedVB}
    return kinds[row](model, initial_weights=start)


def _log_probs(grammar: CFG, weights: Weights, words: Tensor) -> Tensor:
    return Sentence(grammar, weights, normalized=False).log_prob(words).detach()


def _segmentation(grammar: CFG, weights: Weights, corpus: SegmentedCorpus) -> dict[str, float]:
    """Scores of the most probable segmentations; NaN where there is nothing to be right about."""
    segmented = verbs.segment(grammar, weights, corpus.forms)
    segmented = [
        segments or [form] for segments, form in zip(segmented, corpus.forms, strict=True)
    ]  # EM may make it impossible
    scores = segmentation_scores(segmented, closest_segmentations(segmented, corpus.alternatives))
    shares = {"token_f1": scores.token.f1, "boundary_f1": scores.boundary.f1, "type_f1": scores.type.f1}
    return {name: math.nan if share is None else share for name, share in shares.items()} | {"exact": scores.exact}


@dataclass
class _Watch:
    """Follows a run: seconds of learning alone, and held-out perplexity, of a chain only now and then."""

    grammar: CFG
    held_out: Tensor
    total: int
    sampled: bool
    say: Callable[[str], Any]
    seconds: float = 0.0
    last: float = 0.0
    times: list[float] = field(default_factory=list)
    perplexities: list[float] = field(default_factory=list)

    def begin(self) -> None:
        """Start the clock, which is of processor time, so that it does not count what others do."""
        self.last = time.process_time()

    def __call__(self, loop: GrammarLoop) -> None:
        self.seconds += time.process_time() - self.last
        number = len(loop.history)
        value = perplexity(_log_probs(self.grammar, loop.weights(), self.held_out)) if self._due(number) else math.nan
        self.times.append(self.seconds)
        self.perplexities.append(value)
        what = f"sweep {number} of {self.total}" if self.sampled else f"iteration {number}"
        self.say(what if math.isnan(value) else f"{what}, held-out perplexity {value:.4g}")
        self.last = time.process_time()

    def _due(self, number: int) -> bool:
        if not self.sampled or number <= _FIRST or number == self.total:
            return True
        return number % max(1, self.total // _EVALUATIONS) == 0

    def curves(self) -> dict[str, tuple[float, ...]]:
        """By name."""
        return {"seconds": tuple(self.times), "perplexity": tuple(self.perplexities)}
