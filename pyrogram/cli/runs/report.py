# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The table of an induction: rows of systems, columns of sentence lengths; for terminals, Markdown and CSV."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich import box
from rich.table import Table
from rich.text import Text

from pyrogram.choices import DECODERS
from pyrogram.cli.io.baselines import below_baselines
from pyrogram.cli.runs.evaluation import BINS, Evaluation, baseline_evaluation, evaluate, smoothed
from pyrogram.data import Corpus
from pyrogram.grammars import DMV
from pyrogram.metrics import attach_left, attach_right
from pyrogram.printable import plural

HEADS = {"viterbi": "Vit.", "mbr": "MBR"}
SUPERVISED = (
    "supervised DMV: the dependency model with valence whose weights are the relative frequencies of its events in the "
    "gold trees of the training sentences, each count raised by 0.1."
)


@dataclass(frozen=True)
class EvaluatedSystem:
    """One system: how the files name it, how the table does, and its evaluation.

    :param start: number of the start, None for other systems.
    """

    name: str
    label: str
    evaluation: Evaluation
    start: int | None = None


@dataclass(frozen=True)
class Line:
    """A line of the table as it is printed: a number or None for every column, and perhaps its spread."""

    label: str
    values: tuple[float | None, ...]
    spread: tuple[float | None, ...] = ()
    chosen: bool = False


@dataclass(frozen=True)
class Report:
    """What an induction tells.

    :param title: what the numbers are, of which sentences.
    :param headers: two lines for each column.
    :param notes: footnotes.
    :param digits: decimals of the numbers.
    """

    title: str
    headers: tuple[tuple[str, str], ...]
    lines: tuple[Line, ...]
    notes: tuple[str, ...]
    digits: int = 1

    def cells(self, values: Sequence[float | None]) -> list[str]:
        """Numbers as they are printed."""
        return ["" if v is None else f"{v:.{self.digits}f}" for v in values]


def baselines(grammar: DMV, train: Corpus, corpus: Corpus, smoothing: float) -> list[EvaluatedSystem]:
    """The rows that every table of heads has beside the model's: attachment to the neighbours, the supervised DMV.

    :param train: the sentences that the model has learnt from; without heads there is no supervised DMV.
    :param corpus: the sentences to parse; without heads there is no attachment to neighbours.
    """
    rows = []
    if corpus.heads is not None:
        rows.append(
            EvaluatedSystem("attach-left", "attach-left", baseline_evaluation(attach_left(corpus.lengths), corpus))
        )
        rows.append(
            EvaluatedSystem("attach-right", "attach-right", baseline_evaluation(attach_right(corpus.lengths), corpus))
        )
    if train.heads is not None:
        gold = grammar.initial_weights(train.words, "supervised", heads=train.heads)
        rows.append(
            EvaluatedSystem(
                "supervised", "supervised DMV", evaluate(grammar, smoothed(grammar, gold, smoothing), corpus)
            )
        )
    return rows


def make_report(
    corpus: Corpus,
    name: str,
    baselines: Sequence[EvaluatedSystem],
    starts: Sequence[EvaluatedSystem],
    best: EvaluatedSystem,
    notes: Sequence[str],
) -> Report:
    """Directed accuracy in percent or, without gold heads, log-likelihood per word.

    :param name: of the evaluation corpus.
    """
    bins = _shown_bins(corpus)
    gold = corpus.heads is not None
    what = "directed accuracy in %" if gold else "log-likelihood per word in nats"
    lengths = ["all" if BINS[b] is None else f"≤ {BINS[b]}" for b in bins]
    headers = [(length, HEADS[decoder]) for length in lengths for decoder in DECODERS]
    lines = [Line(row.label, _values(row, bins, gold)) for row in baselines]
    lines.append(Line(best.label, _values(best, bins, gold), chosen=True))
    if len(starts) > 1:
        columns = list(zip(*(_values(row, bins, gold) for row in starts), strict=True))
        mean, spread = (tuple(_over(column, f) for column in columns) for f in (statistics.fmean, statistics.stdev))
        lines.append(Line(f"mean of {plural(len(starts), 'start')}", mean, spread))
    size = f"{plural(len(corpus), 'sentence')}, {plural(corpus.num_words, 'word')}"
    counts = [f"{len(corpus.filter(BINS[b])):,} of at most {BINS[b]} words" for b in bins if BINS[b] is not None]
    notes = [*notes, *_below(baselines, best, starts)]
    title = f"{name} ({size}{'; ' + ', '.join(counts) if counts else ''}): {what}"
    headings = tuple(headers if gold else ((length, "") for length in lengths))
    return Report(title, headings, tuple(lines), tuple(notes), 1 if gold else 3)


def terminal(report: Report) -> Table:
    """The table for a terminal of 80 columns; the spread is a line of its own."""
    table = Table(box=box.SIMPLE_HEAD, padding=0, pad_edge=False)
    table.add_column("", no_wrap=True)
    seen = ""
    for top, bottom in report.headers:
        new = top != seen  # a length is said once, above the first of its columns, which stands a little apart
        heading = f"{top if new else ''}\n{bottom}".rstrip()
        table.add_column(Text(heading), justify="right", no_wrap=True, min_width=6 if new else 5)
        seen = top
    for line in report.lines:
        table.add_row(Text(line.label), *report.cells(line.values), style="bold green" if line.chosen else None)
        if line.spread:
            table.add_row(Text("± standard deviation"), *report.cells(line.spread))
    return table


def markdown(report: Report) -> str:
    """The table and its footnotes as Markdown."""
    head = "| | " + " | ".join(" ".join(pair).strip() for pair in report.headers) + " |"
    rows = [head, "|---" + "|---:" * len(report.headers) + "|"]
    for line in report.lines:
        cells = report.cells(line.values)
        if line.spread:
            cells = [f"{value} ± {sd}" for value, sd in zip(cells, report.cells(line.spread), strict=True)]
        label = f"**{line.label}**" if line.chosen else line.label
        rows.append(f"| {label} | {' | '.join(cells)} |")
    notes = [f"- {note}" for note in report.notes]
    return "\n".join([report.title, "", *rows, "", *notes]) + "\n"


def csv_text(rows: Sequence[EvaluatedSystem], corpus: Corpus) -> str:
    """All numbers of all systems; fractions, and nats. What does not apply is empty."""
    file = io.StringIO()
    out = csv.writer(file, lineterminator="\n")
    accuracies = ["directed", "undirected", "root"]
    out.writerow(
        ["system", "start", "decoder", "max_length", "sentences", "words", *accuracies, "log_likelihood_per_word"]
    )
    for row in rows:
        for decoder in DECODERS:
            scores = row.evaluation.scores.get(decoder)
            for b, bound in enumerate(BINS):
                short = corpus.filter(bound)
                key = [row.name, row.start, decoder, "all" if bound is None else bound, len(short), short.num_words]
                numbers = [getattr(scores[b], name) for name in accuracies] if scores is not None else [None] * 3
                out.writerow([*key, *numbers, row.evaluation.likelihood[b]])
    return file.getvalue()


def _below(baselines: Sequence[EvaluatedSystem], best: EvaluatedSystem, starts: Sequence[EvaluatedSystem]) -> list[str]:
    """What the table must say of a model that is no better than attachment to a neighbour; MBR, all lengths."""
    others = {row.name: _directed(row) for row in baselines if row.name in ("attach-left", "attach-right")}
    told = below_baselines(best.label, _directed(best), others)
    highest = max((accuracy for accuracy in others.values() if accuracy is not None), default=None)
    accuracies = [accuracy for accuracy in map(_directed, starts) if accuracy is not None]
    below = sum(accuracy < highest for accuracy in accuracies) if highest is not None else 0
    if below and len(accuracies) > 1:
        told.append(
            f"{below} of the {plural(len(accuracies), 'start')} {'is' if below == 1 else 'are'} below "
            f"attach-left or attach-right."
        )
    return told


def _directed(row: EvaluatedSystem) -> float | None:
    scores = row.evaluation.scores.get("mbr")
    return None if scores is None else scores[-1].directed


def _shown_bins(corpus: Corpus) -> list[int]:
    """The bins that have sentences, and not all of them."""
    sizes = [len(corpus.filter(bound)) for bound in BINS]
    return [b for b, size in enumerate(sizes) if BINS[b] is None or 0 < size < len(corpus)]


def _values(row: EvaluatedSystem, bins: Sequence[int], gold: bool) -> tuple[float | None, ...]:
    if not gold:
        return tuple(row.evaluation.likelihood[b] for b in bins)
    fractions = [row.evaluation.scores[decoder][b].directed for b in bins for decoder in DECODERS]
    return tuple(None if f is None else 100 * f for f in fractions)


def _over(column: Sequence[float | None], summary: Callable[[list[float]], float]) -> float | None:
    values = [v for v in column if v is not None]
    return summary(values) if values else None
