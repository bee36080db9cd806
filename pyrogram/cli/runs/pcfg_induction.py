# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""``pyrogram induce --model pcfg``: the probabilities of the rules of a grammar, from sentences.

The folder of such a run has, besides what every run has,

    grammar.pcfg         the rules with the probabilities of the selected start, in the notation of --grammar
    weights.safetensors  the same numbers: rules
    parses.mrg           the most probable tree of every sentence of the evaluation corpus, one to a line

and no gold trees are looked at, for a grammar of one's own need not have the labels of a treebank.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from rich import box
from rich.console import RenderableType
from rich.table import Table
from torch import Tensor

from pyrogram.cli.io.corpora import name_of
from pyrogram.cli.io.errors import CommandError
from pyrogram.cli.io.files import write_file
from pyrogram.cli.io.output import footnotes
from pyrogram.cli.runs import folder as run_folder
from pyrogram.cli.runs.card import Card, write_card
from pyrogram.cli.runs.curves import curve_csv, curve_svg, load_drawing
from pyrogram.cli.runs.evaluation import smoothed
from pyrogram.cli.runs.pcfg import PCFGRun, best_trees, one_line, read_sentences
from pyrogram.cli.runs.settings import Settings
from pyrogram.cli.runs.starts import OBJECTIVE, Start, StartWork, best_start, double_precision, run_starts
from pyrogram.cli.runs.workers import one_thread
from pyrogram.data.records import Alphabet
from pyrogram.distributions import Sentence
from pyrogram.grammar import Weights
from pyrogram.grammars import CFG
from pyrogram.infer import Reduce
from pyrogram.infer.running.reduce import is_first
from pyrogram.printable import plural, quoted


@dataclass(frozen=True)
class EncodedCorpora:
    """Sentences of a grammar's words, shape ``(N, n)``: to learn from, held out (or None), to evaluate on."""

    train: Tensor
    dev: Tensor | None
    evaluation: Tensor
    name: str


@dataclass(frozen=True)
class PcfgScore:
    """How probable the evaluation sentences are: log-likelihood in nats, and how many words and sentences there are.

    The end of a sentence counts as a word in the perplexity.
    """

    log_likelihood: float
    words: int
    sentences: int

    @property
    def perplexity(self) -> float:
        """exp of minus the log-likelihood per word."""
        exponent = -self.log_likelihood / (self.words + self.sentences)
        return math.exp(exponent) if exponent < 700 else math.inf


@dataclass(frozen=True)
class PcfgOutcome:
    """All starts, the one that is chosen, and how each does."""

    starts: tuple[Start, ...]
    best: Start
    scores: tuple[PcfgScore, ...]
    trees: tuple[Any, ...]


def read_texts(
    settings: Settings, grammar: CFG, train: Path, dev: Path | None, test: Path | None, format: str
) -> EncodedCorpora:
    """The sentences of files that are short enough, in words of the grammar; those to evaluate on of any length."""
    whole = read_sentences(train, settings.tags, format, grammar)
    held_out = None if dev is None else read_sentences(dev, settings.tags, format, grammar)
    short = _short(whole, settings.max_length, train, grammar)
    others = None if dev is None or held_out is None else _short(held_out, settings.max_length, dev, grammar)
    if test is not None:
        return EncodedCorpora(short, others, read_sentences(test, settings.tags, format, grammar), name_of(test))
    if dev is not None and held_out is not None:
        return EncodedCorpora(short, others, held_out, name_of(dev))
    return EncodedCorpora(short, None, whole, name_of(train))


def _short(words: Tensor, max_length: int, path: Path, grammar: CFG) -> Tensor:
    lengths = (words >= 0).sum(1)
    short = (lengths <= max_length).nonzero()[:, 0]
    chosen = words[short]
    if not len(chosen):
        raise CommandError(
            f"no sentence of {name_of(path)} has at most {plural(max_length, 'word')} (the shortest "
            f"has {int(lengths.min())}); "
            "raise --max-length"
        )
    chosen = chosen[:, : int((chosen >= 0).sum(1).max())]
    # No start, no seed and no prior helps where there is no derivation at all.
    impossible = grammar.log_partition({"rules": torch.zeros(len(grammar.rules))}, chosen) == -torch.inf
    if bool(impossible.any()):
        first = int(short[impossible][0])
        text = " ".join(grammar.words[w] for w in words[first].tolist() if w >= 0)
        raise CommandError(
            f"{name_of(path)}: the grammar has no derivation of {int(impossible.sum())} of "
            f"{plural(len(chosen), 'sentence')}; "
            f"the first is sentence {first}, {quoted(text)}; add rules for them, or leave them out"
        )
    return chosen


def first_start(settings: Settings, grammar: CFG, words: Tensor) -> Weights | None:
    """Where the first start begins: the grammar's own probabilities, else uniform; None if all are random."""
    if settings.init == "random":
        return None
    if settings.init == "grammar" and grammar.weights is not None:
        return {name: grammar.blocks[name].normalize(w) for name, w in grammar.weights.items()}
    return grammar.initial_weights(words, "uniform")


def run_pcfg(
    settings: Settings,
    grammar: CFG,
    texts: EncodedCorpora,
    out: Path | None,
    jobs: int = 1,
    reduce: Reduce | None = None,
) -> PcfgOutcome | None:
    """Run all starts, and write the folder of the run unless ``out`` is None.

    :param jobs: number of processes that learn from starts side by side; it changes no number.
    :param reduce: processes that learn from every start together; the first one evaluates and writes.
    :returns: None in the others.
    """
    run = PCFGRun(grammar, {}, cast("Alphabet", settings.tags), settings.smoothing)
    with double_precision(), one_thread():
        if out is not None and is_first(reduce):
            run_folder.write_config(out, settings, run, None)
        plain = first_start(settings, grammar, texts.train)
        judge = partial(score, grammar, words=texts.evaluation)
        work = StartWork(settings, grammar, texts.train, texts.dev, plain, judge, out, settings.alpha, reduce)
        done = run_starts(work, jobs, load_drawing if out is not None else lambda: None)
        if not is_first(reduce):
            return None
        starts, scores = [start for start, _ in done], [result for _, result in done]
        best = best_start(starts)
        weights = smoothed(grammar, best.weights, settings.smoothing)
        trees = best_trees(grammar, weights, texts.evaluation)
        outcome = PcfgOutcome(tuple(starts), best, tuple(scores), trees)
        if out is not None:
            _write(out, settings, replace(run, weights=best.weights), texts, outcome)
    return outcome


def score(grammar: CFG, weights: Weights, words: Tensor) -> PcfgScore:
    """How probable sentences are; -inf if one is impossible."""
    log_z = Sentence(grammar, weights).log_prob(words)
    return PcfgScore(float(log_z.sum()), int((words >= 0).sum()), len(words))


def _write(out: Path, settings: Settings, run: PCFGRun, texts: EncodedCorpora, outcome: PcfgOutcome) -> None:
    best = outcome.best
    files = {
        "parses.mrg": "".join(one_line(tree) + "\n" for tree in outcome.trees),
        "curve.csv": curve_csv(outcome.starts),
        "results.csv": results_csv(outcome),
    }
    for name, text in files.items():
        write_file(out / name, text.encode())
    picture = curve_svg(outcome.starts, OBJECTIVE[settings.method])
    if picture is not None:
        write_file(out / "curve.svg", picture)
    run.write(out)
    result = outcome.scores[best.number - 1]
    card = Card(
        "CFG",
        f"A probabilistic context-free grammar, its probabilities learnt by {settings.method}",
        f"It has {plural(len(run.grammar.rules), 'rule')}, whose probabilities are learnt from "
        f"{plural(len(texts.train), 'sentence')} "
        f"of at most {plural(settings.max_length, 'word')}.",
        ("constituency-parsing", "grammar-induction"),
        settings.as_dict(),
        f"Of {texts.name}, {plural(result.sentences, 'sentence')} and {plural(result.words, 'word')}: log-likelihood "
        f"{result.log_likelihood:,.2f} nats, perplexity {result.perplexity:.2f} per word and sentence end.",
    )
    write_card(out, card)
    selected = {
        "start": best.number,
        "by": OBJECTIVE[settings.method] if texts.dev is None else "held-out log-likelihood",
        "value": best.criterion if math.isfinite(best.criterion) else None,
        "iterations": len(best.objective),
        "stopped": best.stopped,
    }
    run_folder.write_config(out, settings, run, selected)


def results_csv(outcome: PcfgOutcome) -> str:
    """Every start: its objective, and the evaluation sentences' likelihood."""
    file = io.StringIO()
    lines = csv.writer(file, lineterminator="\n")
    lines.writerow(["start", "iterations", "objective", "criterion", "log_likelihood", "perplexity", "words"])
    for start, result in zip(outcome.starts, outcome.scores, strict=True):
        numbers = [start.objective[-1], start.criterion, result.log_likelihood, result.perplexity, result.words]
        lines.writerow([start.number, len(start.objective), *numbers])
    return file.getvalue()


def report(settings: Settings, texts: EncodedCorpora, outcome: PcfgOutcome) -> Sequence[RenderableType]:
    """What to print."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("")
    for heading in ("iterations", OBJECTIVE[settings.method], "evaluation", "perplexity"):
        table.add_column(heading, justify="right")
    for start, result in zip(outcome.starts, outcome.scores, strict=True):
        chosen = " (selected)" if start is outcome.best and len(outcome.starts) > 1 else ""
        numbers = f"{start.objective[-1]:,.2f}", f"{result.log_likelihood:,.2f}", f"{result.perplexity:.2f}"
        table.add_row(f"start {start.number}{chosen}", str(len(start.objective)), *numbers)
    words = outcome.scores[0]
    lines = [
        f"{settings.method}: learnt from {plural(len(texts.train), 'sentence')} of at most "
        f"{plural(settings.max_length, 'word')}.",
        f"evaluation: log-likelihood, and perplexity per word and sentence end, of {texts.name} ("
        f"{plural(words.sentences, 'sentence')}, {plural(words.words, 'word')}), each multinomial mixed with "
        f"{settings.smoothing:g} of the uniform one.",
    ]
    missing = sum(tree is None for tree in outcome.trees)
    if missing:
        lines.append(f"{plural(missing, 'sentence has', 'sentences have')} no derivation by the rules of the grammar.")
    return table, footnotes(lines)
