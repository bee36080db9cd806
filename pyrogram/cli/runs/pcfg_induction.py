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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text
from torch import Tensor

from pyrogram.cli.io.corpora import read_corpus
from pyrogram.cli.io.errors import CommandError
from pyrogram.cli.io.files import write_file
from pyrogram.cli.runs import folder as run_folder
from pyrogram.cli.runs.curves import curve_csv, curve_svg
from pyrogram.cli.runs.evaluation import smoothed
from pyrogram.cli.runs.progress import Watch
from pyrogram.cli.runs.settings import Settings
from pyrogram.cli.runs.starts import OBJECTIVE, Start, best_start, double_precision, run_starts
from pyrogram.distributions import Sentence
from pyrogram.folding import text_of
from pyrogram.grammar import Weights
from pyrogram.grammars import CFG


@dataclass(frozen=True)
class Texts:
    """Sentences of a grammar's words, shape ``(N, n)``: to learn from, held out (or None), to evaluate on."""

    train: Tensor
    dev: Tensor | None
    evaluation: Tensor
    name: str


@dataclass(frozen=True)
class Score:
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
    scores: tuple[Score, ...]
    trees: tuple[Any, ...]


def read_texts(
    settings: Settings, grammar: CFG, train: Path, dev: Path | None, test: Path | None, format: str
) -> Texts:
    """The sentences of files that are short enough, in words of the grammar; those to evaluate on of any length."""
    whole = read_sentences(train, settings.tags, format, grammar)
    held_out = None if dev is None else read_sentences(dev, settings.tags, format, grammar)
    short = _short(whole, settings.max_length, train, grammar)
    others = None if held_out is None else _short(held_out, settings.max_length, dev, grammar)
    if test is not None:
        return Texts(short, others, read_sentences(test, settings.tags, format, grammar), str(test))
    if held_out is not None:
        return Texts(short, others, held_out, str(dev))
    return Texts(short, None, whole, str(train))


def read_sentences(path: Path, tags: str, format: str, grammar: CFG) -> Tensor:
    """The sentences of a file in words of the grammar.

    :raises CommandError: if a word is in no rule.
    """
    corpus = read_corpus(path, format=format, tags=tags, heads="ignore")
    try:
        return grammar.encode([list(tags) for tags in corpus.tags])
    except ValueError as error:
        problem = str(error).removesuffix("; add a rule for it, or replace it")
        advice = "add a rule for it, or say with --tags what its words are"
        raise CommandError(f"{path}: {problem}; {advice}") from None


def _short(words: Tensor, max_length: int, path: Path | None, grammar: CFG) -> Tensor:
    lengths = (words >= 0).sum(1)
    own = (lengths <= max_length).nonzero()[:, 0]
    chosen = words[own]
    if not len(chosen):
        raise CommandError(
            f"no sentence of {path} has at most {max_length} words (the shortest has {int(lengths.min())}); "
            "raise --max-length"
        )
    chosen = chosen[:, : int((chosen >= 0).sum(1).max())]
    # No start, no seed and no prior helps where there is no derivation at all.
    impossible = grammar.log_partition({"rules": torch.zeros(len(grammar.rules))}, chosen) == -torch.inf
    if bool(impossible.any()):
        first = int(own[impossible][0])
        text = " ".join(grammar.words[w] for w in words[first].tolist() if w >= 0)
        raise CommandError(
            f"{path}: the grammar has no derivation of {int(impossible.sum())} of {len(chosen)} sentences; the first "
            f"is sentence {first}, {text!r}; add rules for them, or leave them out"
        )
    return chosen


def first_start(settings: Settings, grammar: CFG, words: Tensor) -> Weights | None:
    """Where the first start begins: the grammar's own probabilities, else uniform; None if all are random."""
    if settings.init == "random":
        return None
    if settings.init == "grammar" and grammar.weights is not None:
        return {name: grammar.blocks[name].normalize(w) for name, w in grammar.weights.items()}
    return grammar.initial_weights(words, "uniform")


def run_pcfg(settings: Settings, grammar: CFG, texts: Texts, out: Path | None) -> PcfgOutcome:
    """Run all starts, and write the folder of the run unless ``out`` is None."""
    with double_precision():
        if out is not None:
            write_config(out, settings, grammar, None)
        starts, scores = [], []
        with Watch(settings.starts, OBJECTIVE[settings.method]) as watch:
            for start in run_starts(
                settings,
                grammar,
                texts.train,
                None,
                texts.dev,
                None if out is None else lambda number: run_folder.checkpoint_path(out, number),
                watch.iteration,
                first_start(settings, grammar, texts.train),
            ):
                watch.finished(start)
                starts.append(start)
                scores.append(score(grammar, smoothed(grammar, start.weights, settings.smoothing), texts.evaluation))
        best = best_start(starts)
        weights = smoothed(grammar, best.weights, settings.smoothing)
        trees = parse_trees(grammar, weights, texts.evaluation)
        outcome = PcfgOutcome(tuple(starts), best, tuple(scores), trees)
        if out is not None:
            _write(out, settings, grammar, texts, outcome)
    return outcome


def score(grammar: CFG, weights: Weights, words: Tensor) -> Score:
    """How probable sentences are; -inf if one is impossible."""
    log_z = Sentence(grammar, weights).log_prob(words)
    return Score(float(log_z.sum()), int((words >= 0).sum()), len(words))


def parse_trees(grammar: CFG, weights: Weights, words: Tensor, decoder: str = "viterbi") -> tuple[Any, ...]:
    """The most probable trees, or those with the most expected right spans; None for sentences without any."""
    derivation = grammar.derivation(weights, words)
    best = derivation.argmax() if decoder == "viterbi" else derivation.mbr()
    return tuple(
        grammar.tree(w[w >= 0], d[d >= 0]) if int(d[0]) >= 0 else None for w, d in zip(words, best, strict=True)
    )


def brackets(tree: Any) -> str:
    """A tree on one line; () for none."""
    return "()" if tree is None else text_of(tree)


def grammar_text(grammar: CFG, weights: Weights) -> str:
    """The rules with probabilities, a left side to a line, as --grammar reads them, in the order of the weights."""
    from pyrogram.grammars.cfg_text import Word

    by_left: dict[str, list[str]] = {}
    for (left, right), p in zip(grammar.rules, weights["rules"].tolist(), strict=True):
        symbols = " ".join(_quoted(s) if isinstance(s, Word) else s for s in right)
        by_left.setdefault(left, []).append(f"{symbols} [{p:.17g}]")
    start = "" if grammar.start == next(iter(by_left)) else f"%start {grammar.start}\n"
    return start + "".join(f"{left} -> {' | '.join(rights)}\n" for left, rights in by_left.items())


def _quoted(word: str) -> str:
    """A terminal in quotes; the notation has no escapes, and a file's terminals never hold both kinds of quotes."""
    return f'"{word}"' if "'" in word else f"'{word}'"


def write_config(path: Path, settings: Settings, grammar: CFG, selected: dict[str, Any] | None) -> None:
    """Write ``config.json``: with a selection as the last thing that a run does."""
    description = {"kind": "CFG", "start": grammar.start, "rules": len(grammar.rules)}
    run_folder.write_config_of(path, settings, description, list(grammar.words), selected)


def _write(out: Path, settings: Settings, grammar: CFG, texts: Texts, outcome: PcfgOutcome) -> None:
    best = outcome.best
    files = {
        "grammar.pcfg": grammar_text(grammar, best.weights),
        "parses.mrg": "".join(brackets(tree) + "\n" for tree in outcome.trees),
        "curve.csv": curve_csv(outcome.starts),
        "results.csv": results_csv(outcome),
    }
    for name, text in files.items():
        write_file(out / name, text.encode())
    picture = curve_svg(outcome.starts, OBJECTIVE[settings.method])
    if picture is not None:
        write_file(out / "curve.svg", picture)
    run_folder.write_weights(out, best.weights)
    selected = {
        "start": best.number,
        "by": OBJECTIVE[settings.method] if texts.dev is None else "held-out log-likelihood",
        "value": best.criterion if math.isfinite(best.criterion) else None,
        "iterations": len(best.objective),
        "stopped": best.stopped,
    }
    write_config(out, settings, grammar, selected)


def results_csv(outcome: PcfgOutcome) -> str:
    """Every start: its objective, and the evaluation sentences' likelihood."""
    file = io.StringIO()
    lines = csv.writer(file, lineterminator="\n")
    lines.writerow(["start", "iterations", "objective", "criterion", "log_likelihood", "perplexity", "words"])
    for start, found in zip(outcome.starts, outcome.scores, strict=True):
        numbers = [start.objective[-1], start.criterion, found.log_likelihood, found.perplexity, found.words]
        lines.writerow([start.number, len(start.objective), *numbers])
    return file.getvalue()


def report(settings: Settings, texts: Texts, outcome: PcfgOutcome) -> Sequence[RenderableType]:
    """What to print."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("")
    for heading in ("iterations", OBJECTIVE[settings.method], "evaluation", "perplexity"):
        table.add_column(heading, justify="right")
    for start, found in zip(outcome.starts, outcome.scores, strict=True):
        chosen = " (selected)" if start is outcome.best and len(outcome.starts) > 1 else ""
        numbers = f"{start.objective[-1]:,.2f}", f"{found.log_likelihood:,.2f}", f"{found.perplexity:.2f}"
        table.add_row(f"start {start.number}{chosen}", str(len(start.objective)), *numbers)
    words = outcome.scores[0]
    lines = [
        f"{settings.method}: learnt from {len(texts.train):,} sentences of at most {settings.max_length} words.",
        f"evaluation: log-likelihood, and perplexity per word and sentence end, of {texts.name} ({words.sentences:,} "
        f"sentences, {words.words:,} words), each multinomial mixed with {settings.smoothing:g} of the uniform one.",
    ]
    missing = sum(tree is None for tree in outcome.trees)
    if missing:
        lines.append(f"{missing} sentences have no derivation: the grammar has no rules for them.")
    notes = Table.grid(padding=(0, 1))
    for line in lines:
        notes.add_row(Text("*", style="dim"), Text(line, style="dim"))
    return table, notes
