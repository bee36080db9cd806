# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""An induction from corpora to table and files: starts, baselines, selection, footnotes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from pyrogram.cli.io.errors import CommandError
from pyrogram.cli.io.files import write_file
from pyrogram.cli.io.trees import parses_text
from pyrogram.cli.runs import folder as run_folder
from pyrogram.cli.runs.card import Card, write_card
from pyrogram.cli.runs.curves import curve_csv, curve_svg, load_drawing
from pyrogram.cli.runs.dmv import DMVRun
from pyrogram.cli.runs.evaluation import Evaluation, evaluate
from pyrogram.cli.runs.folder import SHARES
from pyrogram.cli.runs.knowledge import DrawnOn, assumed_of, prior_of, read_sources
from pyrogram.cli.runs.report import SUPERVISED, EvaluatedSystem, Report, baselines, csv_text, make_report, markdown
from pyrogram.cli.runs.settings import Settings
from pyrogram.cli.runs.starts import (
    OBJECTIVE,
    Start,
    StartWork,
    best_start,
    double_precision,
    noiseless_start,
    run_starts,
)
from pyrogram.cli.runs.workers import one_thread
from pyrogram.data import Corpus, WordTags
from pyrogram.data.records import Alphabet
from pyrogram.grammars import DMV, SparseDMV
from pyrogram.infer import Reduce
from pyrogram.infer.running.reduce import is_first
from pyrogram.metrics.significance import rank_correlation
from pyrogram.printable import plural

MOST_SYMBOLS = 4000  # of which every pair has an attachment: in several copies, these must fit into memory
FEWEST_STARTS = 5  # for a correlation


@dataclass(frozen=True)
class Corpora:
    """What an induction reads.

    :param train: all of it; the grammar sees the sentences that are short enough.
    :param dev: None, or what early stopping looks at, as far as it is short enough.
    :param evaluation: what is parsed and scored, whole.
    :param name: of the evaluation corpus.
    :param tagger: None, or whose tags they have.
    :param prior: None, or a file of sources, for --knowledge languages.
    """

    train: Corpus
    dev: Corpus | None
    evaluation: Corpus
    name: str
    tagger: WordTags | None = None
    prior: Path | None = None


@dataclass(frozen=True)
class Outcome:
    """What an induction found."""

    report: Report
    best: Start
    evaluation: Evaluation
    rows: tuple[EvaluatedSystem, ...]


def run_induction(
    settings: Settings, corpora: Corpora, out: Path | None, jobs: int = 1, reduce: Reduce | None = None
) -> Outcome | None:
    """Run all starts, evaluate them, and write the folder of the run unless ``out`` is None.

    :param jobs: number of processes that learn from starts side by side; it changes no number.
    :param reduce: processes that learn from every start together; the first one evaluates and writes.
    :returns: None in the others.
    """
    with double_precision(), one_thread():
        train = _short(corpora.train, settings.max_length, "training")
        dev = None if corpora.dev is None else _short(corpora.dev, settings.max_length, "--dev")
        vocab = corpora.train.vocab
        if settings.init == "supervised" and train.heads is None:
            raise CommandError("--init supervised needs gold heads, and the training file has none")
        sources = read_sources(settings, corpora.prior, vocab)
        grammar = _grammar(settings, len(vocab), train)
        run = DMVRun(grammar, {}, vocab, cast("Alphabet", settings.alphabet), settings.smoothing, corpora.tagger)
        assumed = assumed_of(settings, corpora.train)
        run = replace(run, assumed=assumed)
        if out is not None and is_first(reduce):
            run_folder.write_config(out, settings, run, None)
        plain = None if settings.init == "random" else noiseless_start(settings, grammar, train.words, train.heads)
        judge = partial(evaluate, grammar, corpus=corpora.evaluation, assumed=assumed)
        learner = grammar if assumed is None else grammar.tilted(assumed.bias(train))
        held_out = None if dev is None else dev.words
        prior = prior_of(settings, train, sources)
        others: list[EvaluatedSystem] = []

        def meanwhile() -> None:
            if is_first(reduce):
                others.extend(baselines(grammar, train, corpora.evaluation, settings.smoothing))
            if out is not None:
                load_drawing()

        work = StartWork(settings, learner, train.words, held_out, plain, judge, out, prior, reduce)
        done = run_starts(work, jobs, meanwhile)
        if not is_first(reduce):
            return None
        starts = [start for start, _ in done]
        rows = [EvaluatedSystem("start", f"start {start.number}", result, start.number) for start, result in done]
        best = best_start(starts)
        result = rows[best.number - 1].evaluation
        of = f", start {best.number} of {settings.starts}" if settings.starts > 1 else ""
        chosen = EvaluatedSystem("selected", f"{settings.method}{of}", result, best.number)
        notes = [*_notes(settings, corpora, grammar, train, starts, rows, best), *(assumed.told if assumed else ())]
        drawn = None if sources is None else DrawnOn(sources, sources.shares(train.words))
        notes += [] if drawn is None else [drawn.told]
        report = make_report(corpora.evaluation, corpora.name, others, rows, chosen, notes)
        outcome = Outcome(report, best, result, (*others, chosen, *rows))
        if out is not None:
            _write(out, settings, replace(run, weights=best.weights), corpora, outcome, starts)
            picture = None if drawn is None else drawn.svg()
            if picture is not None:
                write_file(out / SHARES, picture)
    return outcome


def _grammar(settings: Settings, num_symbols: int, train: Corpus) -> DMV:
    """A DMV, of many symbols with attachments of the pairs that occur within a training sentence."""
    options: dict[str, Any] = {"valence_attach": settings.valence_attach, "num_valences": settings.valences}
    if num_symbols <= MOST_SYMBOLS:
        return DMV(num_symbols, **options)
    if settings.knowledge != "none":
        raise CommandError(
            f"--knowledge {settings.knowledge} is about every pair of symbols, and --tags {settings.tags} gives "
            f"{num_symbols:,}, more than {MOST_SYMBOLS:,}; leave it out, or give other --tags"
        )
    return SparseDMV.of(train.words, num_symbols, **options)


def _short(corpus: Corpus, max_length: int, name: str) -> Corpus:
    short = corpus.filter(max_length)
    if not len(short):
        shortest = int(corpus.lengths.min())
        raise CommandError(
            f"no sentence of the {name} file has at most {plural(max_length, 'word')} (the shortest has {shortest}); "
            "raise --max-length"
        )
    return short


def _notes(
    settings: Settings,
    corpora: Corpora,
    grammar: DMV,
    train: Corpus,
    starts: Sequence[Start],
    rows: Sequence[EvaluatedSystem],
    best: Start,
) -> list[str]:
    """What a reader of the table must know."""
    objective = OBJECTIVE[settings.method]
    size = f"{plural(len(train), 'training sentence')} of at most {plural(settings.max_length, 'word')}"
    told = f"{settings.tags} tags" if corpora.tagger is None else f"{settings.num_classes} induced classes of the words"
    notes = [f"{settings.method}: learnt from the {told} of the {size}; their heads were not seen."]
    if isinstance(grammar, SparseDMV):
        notes.append(
            f"of the {plural(grammar.num_tags, 'symbol')}, {plural(len(grammar.pairs), 'pair')} "
            f"occur in a training sentence and have "
            "attachments of their own; a head's other words have equal parts of one."
        )
    if settings.init == "supervised":
        notes = [f"{settings.method}: learnt from {size}, beginning at the supervised DMV."]
    if train.heads is not None:
        notes.append(SUPERVISED)
    chosen_by = objective if corpora.dev is None else "log-likelihood of the held-out --dev sentences"
    if len(starts) > 1:
        if math.isfinite(best.criterion):
            notes.append(f"start {best.number} has the best {chosen_by} of the {plural(len(starts), 'start')}.")
        else:
            notes.append(f"no start has come to a finite {chosen_by}, so the first stands for all; raise --steps.")
    if corpora.dev is not None and corpora.dev is corpora.evaluation:
        notes.append("the --dev sentences also decided when to stop; give --test for others.")
    informed = settings.knowledge != "none" and len(starts) == 1  # uniform weights, and nothing is drawn
    if corpora.evaluation.heads is not None and not informed:
        notes.append(_warning(starts, rows, chosen_by))
    return notes


def _warning(starts: Sequence[Start], rows: Sequence[EvaluatedSystem], chosen_by: str) -> str:
    """That likelihood does not pick the accurate start, with what was measured here."""
    text = "a better likelihood does not mean a more accurate grammar"
    if len(starts) < FEWEST_STARTS:
        return f"{text}, so the start chosen may be a poor one: compare the mean of many starts (--starts 10)."
    accuracy = [row.evaluation.scores["mbr"][-1].directed for row in rows]
    known = [value for value in accuracy if value is not None]
    rank = rank_correlation([start.criterion for start in starts], known)
    if rank is None:
        return f"{text}; here all starts are alike."
    low, high = 100 * min(known), 100 * max(known)
    return (
        f"{text}: over these {plural(len(starts), 'start')} the rank correlation of {chosen_by} and accuracy (MBR, all "
        f"lengths) is {rank:+.2f}, and accuracy ranges from {low:.1f} to {high:.1f}."
    )


def _write(
    out: Path, settings: Settings, run: DMVRun, corpora: Corpora, outcome: Outcome, starts: Sequence[Start]
) -> None:
    best, corpus = outcome.best, corpora.evaluation
    parses = parses_text(corpus, outcome.evaluation.heads["mbr"], "decoder mbr, punctuation left out")
    write_file(out / "parses.conllu", (piece.encode() for piece in parses))
    texts = {
        "curve.csv": curve_csv(starts),
        "results.csv": csv_text(outcome.rows, corpus),
        "results.md": markdown(outcome.report),
    }
    for name, text in texts.items():
        write_file(out / name, text.encode())
    picture = curve_svg(starts, OBJECTIVE[settings.method])
    if picture is not None:
        write_file(out / "curve.svg", picture)
    run.write(out)
    size = (
        f"{plural(len(corpora.train.filter(settings.max_length)), 'sentence')} of at most "
        f"{plural(settings.max_length, 'word')}"
    )
    told = f"{settings.tags} tags" if run.tagger is None else "induced classes of the words"
    card = Card(
        "DMV" if run.is_plain else "DMV of more than its weights",
        f"A dependency model with valence, learnt by {settings.method}",
        f"Its {plural(len(corpora.train.vocab), 'symbol')} are the {told} of {size}. It gives every word its head.",
        ("dependency-parsing", "grammar-induction"),
        settings.as_dict(),
        markdown(outcome.report),
    )
    write_card(out, card)
    selected: dict[str, Any] = {
        "start": best.number,
        "by": OBJECTIVE[settings.method] if corpora.dev is None else "held-out log-likelihood",
        "value": best.criterion if math.isfinite(best.criterion) else None,  # JSON has no infinities
        "iterations": len(best.objective),
        "stopped": best.stopped,
    }
    run_folder.write_config(out, settings, run, selected)
