# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Table 1 and Figure 7 of Wang and Blunsom (2013): a treebank's grammar with latent annotations, learnt in four ways.

What a start has learnt is not kept, only its scores and curves: with 16 subtypes it is hundreds of megabytes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pyro

from pyrogram.cli.io.corpora import digest
from pyrogram.cli.io.errors import CommandError
from pyrogram.grammar import Weights
from pyrogram.grammars.annotations import LatentAnnotations
from pyrogram.infer import EM, CollapsedVB, GrammarLoop, VariationalEM
from pyrogram.models.latent_annotation_pcfg import latent_annotation_pcfg
from pyrogram.printable import plural
from reproductions.annotations.notes import BASE, METHODS, NOISE, SURE, all_notes, figure_7
from reproductions.annotations.treebank import LONGEST, Files, annotated, scores, short, treebank_of
from reproductions.annotations.variable_cvb import VariableCVB
from reproductions.shared.experiment import Curve, ExperimentRow, Measure
from reproductions.shared.learnt import Learnt, best_held_out
from reproductions.shared.store import Key

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def read_experiment(
    files: Mapping[str, Path], options: Mapping[str, Any], seed: int
) -> tuple[Annotations, dict[str, Any]]:
    """The experiment on a treebank, and the options that the numbers of one start depend on.

    :param files: ``train``, ``dev`` and ``test``.
    :param seed: with the number of a start added, of the start.
    :raises CommandError: if a file is missing, there is one too many or it has no short sentences, or for numbers of
        subtypes that are none.
    """
    if "train2" in files or "dev2" in files or "test2" in files:
        raise CommandError("reproduce cvb takes one treebank; TRAIN2, --dev2 and --test2 are for reproduce shared")
    if "test" not in files:
        raise CommandError("give --test, bracketed trees that parses are compared with")
    if "dev" not in files:
        raise CommandError("give --dev, bracketed trees: training stops, and the best start is named, by them")
    if not 0 < options["alpha"] < math.inf:
        raise CommandError(f"--alpha must be a positive number, not {options['alpha']}")
    numbers = _numbers(options["subtypes"])
    hashes = tuple(digest(path) for path in files.values())
    paths = Files(files["train"], files["dev"], files["test"], hashes)
    bank = treebank_of(paths)
    for name in ("dev", "test"):
        if not short(bank, name):
            raise CommandError(f"{files[name]} has no sentence of at most {LONGEST} words; give another --{name}")
    if not len(annotated(paths, 1)[2]):
        raise CommandError(f"no tree of {files['dev']} has only rules of {files['train']}; give another --dev")
    used = {name: options[name] for name in ("alpha", "steps", "tolerance", "patience", "smoothing")}
    return Annotations(paths, numbers, seed, **used), used


def _numbers(text: str) -> tuple[int, ...]:
    """Numbers of subtypes."""
    texts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and 2 <= int(part) <= 999 for part in texts):
        raise CommandError(f"--subtypes must be whole numbers from 2 to 999, separated by commas, not {text!r}")
    return tuple(dict.fromkeys(int(part) for part in texts))


@dataclass(frozen=True)
class Annotations:
    """The experiment, as :class:`reproductions.shared.experiment.Experiment` has it.

    :param subtypes: numbers of them, each with a row of every method.
    :param seed: of starts, with their number added.
    :param alpha: of the Dirichlets of all rows but EM's.
    :param steps: most iterations, and ``tolerance`` and ``patience``, by which they end before.
    :param smoothing: share of the uniform in the multinomials under which held-out trees are judged.
    """

    files: Files
    subtypes: tuple[int, ...]
    seed: int
    alpha: float
    steps: int
    tolerance: float
    patience: int
    smoothing: float

    title: ClassVar[str] = "Wang and Blunsom (2013), Table 1 and Figure 7: PCFGs with latent annotations"
    measures: ClassVar[tuple[Measure, ...]] = (
        Measure("precision", "precision", percent=True),
        Measure("recall", "recall", percent=True),
        Measure("f1", "F1", percent=True),
        Measure("exact", "exact", percent=True),
        Measure("tagging", "tags", percent=True),
        Measure("unparsed", "no parse"),
        Measure("dev_f1", "F1 dev", percent=True),
        Measure("iterations", "iterations", digits=0),
        Measure("seconds", "seconds"),
    )
    curves: ClassVar[tuple[Curve, ...]] = (
        Curve("objective", "objective, nats"),
        Curve("held_out", "log-likelihood of held-out trees, nats"),
    )
    compared: ClassVar[str] = "f1"
    published: ClassVar[Mapping[str, Mapping[str, float]]] = {
        "em-2": {"precision": 0.7584, "recall": 0.7292, "f1": 0.7435, "exact": 0.1113},
        "vb-2": {"precision": 0.7698, "recall": 0.7332, "f1": 0.7511, "exact": 0.1149},
        "cvb-2": {"precision": 0.7885, "recall": 0.7698, "f1": 0.7790, "exact": 0.1256},
    }

    @property
    def trials(self) -> tuple[ExperimentRow, ...]:
        """The treebank's own grammar, and every method for every number of subtypes.

        Each is compared with the one above it, and CVB, as in the paper's claim, also with EM.
        """
        rows = [ExperimentRow(BASE, "treebank grammar", many=False)]
        for k in self.subtypes:
            above = BASE
            for method, label in METHODS.items():
                also = (f"em-{k}",) if method == "cvb" else ()
                rows.append(ExperimentRow(f"{method}-{k}", f"{label}, {plural(k, 'subtype')}", above, also=also))
                above = rows[-1].name
        return tuple(rows)

    def learn(self, row: str, start: int, say: Callable[[str], Any]) -> Learnt:
        """One start of a row: all methods with as many subtypes begin at the same weights."""
        method, _, number = row.rpartition("-")
        say("reading the treebank")
        grammar, trees, held_out = annotated(self.files, int(number) if method else 1)
        if not method:
            weights = grammar.initial_weights(trees, "split", noise=0.0)
            return Learnt((), metrics=self._scores(grammar, weights, say))
        begin = grammar.initial_weights(trees, "split", noise=NOISE, seed=self.seed + start)
        with pyro.get_param_store().scope():
            self._loop(method, grammar, begin).step(trees[:2])  # has everything compiled before the clock starts
        watch = _Watch(self.tolerance, self.patience, say)
        began = time.process_time()
        with pyro.get_param_store().scope():
            loop = self._loop(method, grammar, begin)
            loop.run(
                trees,
                num_steps=self.steps,
                tolerance=0.0,
                progress=False,
                callback=watch,
                held_out=held_out,
                patience=self.steps + 1,
                held_out_smoothing=self.smoothing,
            )
            weights = loop.weights()
        seconds = time.process_time() - began
        return Learnt(
            (),
            iterations=len(loop.history),
            held_out=best_held_out(loop),
            stopped=watch.reason or loop.stopped,
            curves={"objective": tuple(loop.history), "held_out": tuple(loop.held_out_history)},
            metrics=self._scores(grammar, weights, say) | {"seconds": seconds},
        )

    def _loop(self, method: str, grammar: LatentAnnotations, begin: Weights) -> GrammarLoop:
        model = partial(latent_annotation_pcfg, grammar=grammar)
        if method == "em":
            return EM(partial(model, concentration=None, initial_weights=begin["rules"]))
        kinds: dict[str, type[VariationalEM | CollapsedVB | VariableCVB]] = {
            "vb": VariationalEM,
            "cvb": CollapsedVB,
            "variable-cvb": VariableCVB,
        }
        return kinds[method](partial(model, concentration=self.alpha), initial_weights=begin)

    def _scores(self, grammar: LatentAnnotations, weights: Weights, say: Callable[[str], Any]) -> dict[str, float]:
        test, unparsed = scores(grammar, weights, treebank_of(self.files), "test", say)
        dev, _ = scores(grammar, weights, treebank_of(self.files), "dev", say)
        shares = {name: getattr(test, name) for name in ("precision", "recall", "f1", "exact", "tagging")}
        metrics = {name: math.nan if share is None else share for name, share in shares.items()}
        return metrics | {"unparsed": float(unparsed), "dev_f1": math.nan if dev.f1 is None else dev.f1}

    def notes(self, results: Mapping[Key, Any]) -> Sequence[str]:
        """Footnotes."""
        return all_notes(self, results)

    def pictures(self, learnt: Mapping[Key, Learnt]) -> Mapping[str, Figure]:
        """Figure 7: F1 against the number of subtypes."""
        figure = figure_7(self, learnt)
        return {} if figure is None else {"subtypes": figure}


@dataclass
class _Watch:
    """Ends a run; not before :data:`SURE` iterations, for gains are small at first."""

    tolerance: float
    patience: int
    say: Callable[[str], Any]
    reason: str = ""

    def __call__(self, loop: GrammarLoop) -> bool:
        values, objectives = loop.held_out_history, loop.history
        number = len(values)
        self.say(f"iteration {number}, held-out trees {values[-1]:,.0f}")
        if number >= SURE:
            if number - 1 - values.index(max(values)) >= self.patience:
                self.reason = f"held-out trees have not become more likely for {plural(self.patience, 'iteration')}"
            elif abs(objectives[-1] - objectives[-2]) <= self.tolerance * abs(objectives[-1]):
                self.reason = f"the objective has changed by less than {self.tolerance:g} of itself"
        return bool(self.reason)
