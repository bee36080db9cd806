# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Training of the hierarchical Pitman-Yor dependency model from files to table and folder."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, cast

import pyro

from pyrogram.cli.io.corpora import HeadsOption, WholeFile, name_of, note_unknown, read_corpus, read_whole
from pyrogram.cli.io.errors import note
from pyrogram.cli.io.files import write_file
from pyrogram.cli.io.progress import Bar
from pyrogram.cli.io.trees import parses_text
from pyrogram.cli.runs import folder as run_folder
from pyrogram.cli.runs.card import Card, write_card
from pyrogram.cli.runs.curves import curve_svg
from pyrogram.cli.runs.evaluation import BINS, Evaluation
from pyrogram.cli.runs.lexical import LexicalRun, TrainSettings
from pyrogram.cli.runs.report import SUPERVISED, EvaluatedSystem, Report, baselines, csv_text, make_report, markdown
from pyrogram.cli.runs.starts import Start, double_precision
from pyrogram.data import Corpus, LexicalCorpus
from pyrogram.data.lexical import Unseen
from pyrogram.data.punctuation import kept_words
from pyrogram.data.records import Alphabet
from pyrogram.grammars import DMV, LexicalDependencies
from pyrogram.grammars.lexical_dependencies import SITES
from pyrogram.grammars.lexical_parser import LexicalParser, Parses, PitmanYorPredictor
from pyrogram.grammars.lexical_tagger import LexicalTagger
from pyrogram.infer import PitmanYorSampler
from pyrogram.metrics import accuracy_by_length
from pyrogram.models import observed_events
from pyrogram.models.pitman_yor_dependency import pitman_yor_dependency
from pyrogram.printable import plural

SMOOTHING = 1e-4  # of the supervised DMV, as induce has it by default


@dataclass(frozen=True)
class Part:
    """A file, with punctuation for the model and without it for baselines and tables.

    :param name: of the file.
    """

    name: str
    lexical: LexicalCorpus
    plain: Corpus


@dataclass(frozen=True)
class Trained:
    """What a training found; the report is None without a file to evaluate on."""

    run: LexicalRun
    reports: tuple[Report, ...]


def read_parts(settings: TrainSettings, files: Mapping[str, Path], format: str) -> dict[str, Part]:
    """The files "train", "dev" and "test", as far as they are given.

    :raises CommandError: for files that do not go with the settings, and trees of other shapes than trees.
    """
    read = partial(read_corpus, tags=settings.tags, alphabets=("upos", "xpos"))
    texts: dict[str, WholeFile] = {}
    for name, path in files.items():
        heads: HeadsOption = "required" if name == "train" else "optional"
        texts[name] = read_whole(path, format, cast("Alphabet", settings.tags), heads)
    whole = read(texts["train"], punctuation="keep", heads="required")
    plain = read(texts["train"], heads="required", vocab=whole.vocab)
    # Trees of words without punctuation, such as those of induce, say nothing of sentences with it.
    bare = all(all(kept_words(record)) for record in whole.sentences)
    left: Literal["remove", "keep"] = "remove" if bare else "keep"
    others = {name: read(file, punctuation=left, vocab=whole.vocab) for name, file in texts.items() if name != "train"}
    for name, corpus in others.items():
        if any(record.segments is not None for record in corpus):
            note(f"note: {name_of(files[name])}: punctuation is left out, for that of TRAIN was")
        note_unknown(corpus, files[name])
    looked_at = others["test"] if settings.unseen == "test" else None
    train = LexicalCorpus.from_corpus(whole, unseen=cast(Unseen, settings.unseen), test=looked_at)
    parts = {"train": Part(name_of(files["train"]), train, plain)}
    for name, corpus in others.items():
        lexical = LexicalCorpus.from_corpus(corpus, like=train)
        parts[name] = Part(name_of(files[name]), lexical, read(texts[name], vocab=whole.vocab))
    return parts


def train(settings: TrainSettings, parts: Mapping[str, Part], out: Path | None) -> Trained:
    """Train, evaluate, and write the folder of the run unless ``out`` is None."""
    corpus = parts["train"].lexical
    with double_precision():
        grammar = LexicalDependencies(len(corpus.tag_vocab), len(corpus.lexicon))
        assert corpus.tags is not None and corpus.heads is not None
        events = grammar.events(corpus.tags, corpus.words, corpus.cases, corpus.heads)
        sampler = PitmanYorSampler(model_of(settings.prior, settings.paths), seed=settings.seed)
        tagger = _tagger(corpus, grammar)
        run = LexicalRun(grammar, {}, corpus.lexicon, corpus.tag_vocab, tagger, settings.tags, settings.paths)
        checkpoint = None if out is None else run_folder.checkpoint_path(out, 1)
        if out is not None:
            run_folder.write_config(out, settings, run, None)
        evaluated = [part for name, part in parts.items() if name != "train"]
        with Bar(settings.steps + sum(len(part.lexical) for part in evaluated) // 100) as bar:
            values, contexts = observed_events(events)
            with pyro.get_param_store().scope():
                sampler.run(
                    values,
                    contexts,
                    grammar.num_values,
                    num_steps=settings.steps,
                    progress=False,
                    callback=partial(_stepped, bar),
                    checkpoint=checkpoint,
                )
            run.predictors.update(predictors(sampler))
            parses = [_parse(run, part.lexical, bar) for part in evaluated]
        reports, rows = [], []
        for part, parsed in zip(evaluated, parses, strict=True):
            table = _rows(settings, parts["train"], part, parsed)
            reports.append(make_report(part.plain, part.name, table[:-1], [], table[-1], _notes(settings, parts, part)))
            rows.append(table)
        if out is not None:
            run.write(out)
            _write_files(out, sampler, evaluated, parses, rows, reports)
            _write_card(out, settings, parts["train"], reports)
            run_folder.write_config(out, settings, run, {"start": 1, "by": "the only one"})
    return Trained(run, tuple(reports))


def model_of(prior: str, paths: str) -> Callable[..., None]:
    """The Pyro model with these options."""
    return partial(pitman_yor_dependency, prior=prior, paths=paths)


def predictors(sampler: PitmanYorSampler) -> dict[str, PitmanYorPredictor]:
    """What a sampler has come to, for parsing."""
    return {s: PitmanYorPredictor(sampler.restaurants[s], sampler.concentration[s], sampler.discount[s]) for s in SITES}


def _tagger(corpus: LexicalCorpus, grammar: LexicalDependencies) -> LexicalTagger:
    assert corpus.tags is not None
    return LexicalTagger.learn(
        corpus.tags, corpus.words, corpus.cases, num_tags=grammar.num_tags, num_words=grammar.num_words
    )


def _parse(run: LexicalRun, corpus: LexicalCorpus, bar: Bar) -> Parses:
    assert corpus.tags is not None
    parser = LexicalParser(run.grammar, run.predictors)
    before = bar.done

    def parsed(sentences: int) -> None:
        bar.say("parsing", plural(sentences, "sentence"), before + sentences // 100)

    return parser.parse(corpus.tags, corpus.words, corpus.cases, callback=parsed)


def evaluation_of(parsed: Parses, corpus: LexicalCorpus) -> Evaluation:
    """Scores without punctuation; sentences are as long as they have other tokens."""
    scores = {}
    if corpus.heads is not None:
        scores = {d: accuracy_by_length(h, corpus.heads, BINS, corpus.is_scored) for d, h in parsed.heads.items()}
    lengths, likelihood = corpus.is_scored.sum(-1), list[float | None]()
    for bound in BINS:
        short = (lengths > 0) & (lengths <= (math.inf if bound is None else bound))
        tokens = int(corpus.lengths[short].sum())
        likelihood.append(float(parsed.log_likelihood[short].sum()) / tokens if tokens else None)
    return Evaluation(dict(parsed.heads), scores, tuple(likelihood))


def _rows(settings: TrainSettings, train: Part, part: Part, parsed: Parses) -> list[EvaluatedSystem]:
    kind, _, how = settings.prior.rpartition("-")
    label = f"{'Pitman-Yor' if kind == 'pitman-yor' else 'Dirichlet'}, {how}, {settings.paths}"
    others = baselines(DMV(len(train.plain.vocab)), train.plain, part.plain, SMOOTHING)
    return [*others, EvaluatedSystem("selected", label, evaluation_of(parsed, part.lexical))]


def _notes(settings: TrainSettings, parts: Mapping[str, Part], part: Part) -> list[str]:
    corpus = parts["train"].lexical
    unknown = part.lexical.num_unknown
    rule = "words once in training and those it lacks are classes of their shape"
    if settings.unseen == "test":
        rule = "words that training lacks, and those once in training and never in test, are classes of their shape"
    sampled = settings.prior.endswith("sampled") or settings.paths == "exact"
    how = f"in {plural(settings.steps, 'step')} of sampling" if sampled else "with nothing to be sampled"
    return [
        f"{settings.prior}, {settings.paths} paths: learnt from {plural(len(corpus), 'tree')}, "
        f"{plural(corpus.num_tokens, 'token')} "
        f"with punctuation, gold {settings.tags} tags, {how}.",
        f"{rule}: {unknown:,} of {plural(part.lexical.num_tokens, 'token')} here.",
        f"tags of the sentences parsed are the gold {settings.tags} tags; pyrogram parse --retag takes a tagger's.",
        SUPERVISED,
        "punctuation is parsed and left out of scores, and of lengths; a head that is punctuation counts as wrong, "
        "while pyrogram evaluate takes its nearest ancestor. The others are learnt and applied without punctuation.",
        "log-likelihoods are not to be compared: the DMV's is of tags alone, without punctuation, the other of tags, "
        "words and cases with it.",
    ]


def trace_csv(sampler: PitmanYorSampler) -> str:
    """The log joint and every hyperparameter after each step; levels are numbered from the coarsest."""
    traces = sampler.trace()
    names = [f"{site}_{i}" for site, trace in traces.items() for i in range(trace[0].numel())]
    file = io.StringIO()
    out = csv.writer(file, lineterminator="\n")
    out.writerow(["step", "log_joint", *names])
    for i, joint in enumerate(sampler.history):
        out.writerow([i + 1, joint, *(float(x) for trace in traces.values() for x in trace[i].reshape(-1))])
    return file.getvalue()


def _write_files(
    out: Path,
    sampler: PitmanYorSampler,
    evaluated: list[Part],
    parses: list[Parses],
    rows: list[list[EvaluatedSystem]],
    reports: list[Report],
) -> None:
    texts = {"trace.csv": trace_csv(sampler)}
    if evaluated:  # of the last, the test file if there is one
        pieces = parses_text(evaluated[-1].lexical.corpus, parses[-1].heads["mbr"], "decoder mbr, gold tags")
        write_file(out / "parses.conllu", (piece.encode() for piece in pieces))
        texts["results.csv"] = csv_text(rows[-1], evaluated[-1].plain)
        texts["results.md"] = "\n".join(markdown(report) for report in reports)
    for name, text in texts.items():
        write_file(out / name, text.encode())
    start = Start(1, {}, list(sampler.history), [math.nan] * len(sampler.history), "")
    picture = curve_svg([start], "log joint")
    if picture is not None:
        write_file(out / "curve.svg", picture)


def _write_card(out: Path, settings: TrainSettings, train: Part, reports: list[Report]) -> None:
    size = f"{plural(len(train.lexical), 'tree')}, {plural(train.lexical.num_tokens, 'token')} with punctuation"
    card = Card(
        LexicalRun.kind,
        "A dependency parser with hierarchical Pitman-Yor priors",
        f"It generates {settings.tags} tags, words and cases (Wallach, Sutton and McCallum 2008), learnt from {size}.",
        ("dependency-parsing",),
        settings.as_dict(),
        "\n".join(markdown(report) for report in reports) or "There was no file to evaluate on.",
        sampled=False,
    )
    write_card(out, card)


def _stepped(bar: Bar, sampler: PitmanYorSampler) -> None:
    done = len(sampler.history)
    bar.say("sampling", f"step {done}, log joint {sampler.history[-1]:,.1f}", done)
