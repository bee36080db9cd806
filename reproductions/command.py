# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""``pyrogram reproduce``: the tables of five papers on grammars, made anew from a corpus of one's own."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pyrogram.cli.commands.choices import (
    Averaging,
    Covariance,
    Format,
    Init,
    PointEstimate,
    Stops,
    Tags,
    Unknown,
    Unseen,
)
from pyrogram.cli.commands.options import Quiet
from pyrogram.cli.io.errors import CommandError, Interrupted, note
from pyrogram.cli.io.lock import only_run
from pyrogram.cli.runs.settings import Settings
from reproductions.options import (
    WhichProtocol,
    WhichTable,
    check_files,
    experiment_of,
    protocol_of,
    refuse_unused,
)

if TYPE_CHECKING:
    from reproductions.induction.study import Study
    from reproductions.shared.experiment import Experiment
    from reproductions.shared.settings import StudySettings
    from reproductions.shared.store import Key, Result
    from reproductions.shared.study import AnyStudy

_DATA, _START, _STOP, _NORMAL = "Sentences", "Where starts begin", "When they stop", "Logistic normals"


def reproduce(
    context: typer.Context,
    table: Annotated[
        WhichTable,
        typer.Argument(
            metavar="TABLE", help="lognormal, shared, cvb, pitman-yor, topics or segmentation.", show_default=False
        ),
    ],
    train: Annotated[
        Path | None,
        typer.Argument(metavar="TRAIN", help="Treebank to learn from; else the built-in corpus.", show_default=False),
    ] = None,
    train2: Annotated[
        Path | None,
        typer.Argument(metavar="TRAIN2", help="One of another language, for shared.", show_default=False),
    ] = None,
    dev: Annotated[
        Path | None,
        typer.Option(help="Held-out sentences: they stop the training and choose α.", rich_help_panel=_DATA),
    ] = None,
    test: Annotated[
        Path | None, typer.Option(help="Treebank to test on; all of TRAIN is scored, too.", rich_help_panel=_DATA)
    ] = None,
    dev2: Annotated[Path | None, typer.Option(help="As --dev, for TRAIN2.", rich_help_panel=_DATA)] = None,
    test2: Annotated[Path | None, typer.Option(help="As --test, for TRAIN2.", rich_help_panel=_DATA)] = None,
    protocol: Annotated[
        WhichProtocol,
        typer.Option(help="Whose starts, sentences and ends of runs; options that are given hold for both."),
    ] = WhichProtocol.ours,
    rows: Annotated[str, typer.Option(help="Names of rows, separated by commas; all if empty.")] = "",
    starts: Annotated[
        int | None, typer.Option(min=1, max=999, help="Starts, the same for all rows.", show_default="10")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**31, help="Start i has random numbers of seed + i.")] = 0,
    jobs: Annotated[
        int | None, typer.Option(min=1, max=999, help="Processes side by side.", show_default="the processors")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for tables and for what every start learnt.")] = None,
    resume: Annotated[bool, typer.Option(help="Go on with what is in --out, or replace it.")] = True,
    tags: Annotated[
        Tags | None,
        typer.Option(help="What is a word.", show_default="upos of CoNLL-U, else xpos", rich_help_panel=_DATA),
    ] = None,
    format: Annotated[
        Format, typer.Option(help="auto: by the file's extension, else its text.", rich_help_panel=_DATA)
    ] = Format.auto,
    max_length: Annotated[
        int, typer.Option(min=1, help="Learn from sentences of at most so many words.", rich_help_panel=_DATA)
    ] = 10,
    dev_max_length: Annotated[
        int | None,
        typer.Option(min=1, help="The same for --dev.", show_default="any, as in the papers", rich_help_panel=_DATA),
    ] = None,
    unknown: Annotated[
        Unknown, typer.Option(help="What becomes of symbols that TRAIN lacks.", rich_help_panel=_DATA)
    ] = Unknown.most_frequent,
    smoothing: Annotated[
        float, typer.Option(help="Share of the uniform in every multinomial when parsing and on held-out sentences.")
    ] = 1e-4,
    init: Annotated[Init, typer.Option(help="Weights of the first start.", rich_help_panel=_START)] = Init.harmonic,
    stops: Annotated[
        Stops, typer.Option(help="How harmonic sets stops; this matters.", rich_help_panel=_START)
    ] = Stops.expected,
    distance: Annotated[float, typer.Option(help="c in harmonic's 1 / (distance + c).", rich_help_panel=_START)] = 0.0,
    noise: Annotated[
        float,
        typer.Option(help="Spread of the noise on the logs of the other starts' weights.", rich_help_panel=_START),
    ] = 0.3,
    steps: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Most iterations of a run.",
            show_default="500; 100 with brackets; 50 of pitman-yor",
            rich_help_panel=_STOP,
        ),
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            help="Stop when an iteration gains less than this share; 0: never.",
            show_default="1e-06",
            rich_help_panel=_STOP,
        ),
    ] = None,
    patience: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Stop when --dev has had no new best for so many iterations.",
            show_default="5",
            rich_help_panel=_STOP,
        ),
    ] = None,
    sweeps: Annotated[
        int, typer.Option(min=2, help="Of samplers; cvb's averages are over the second half.", rich_help_panel=_STOP)
    ] = 1000,
    subtypes: Annotated[
        str, typer.Option(help="Of cvb with brackets: numbers of subtypes, separated by commas.")
    ] = "2,4,8,16",
    alpha: Annotated[float, typer.Option(help="Of cvb with brackets: of the Dirichlets of rules.")] = 0.1,
    states: Annotated[str, typer.Option(help="Of topics: numbers of states, separated by commas.")] = "50,100,150,200",
    unseen: Annotated[
        Unseen | None,
        typer.Option(
            help="Of pitman-yor and topics: which words have no id; test, as in the paper, looks at --test.",
            show_default="rare",
        ),
    ] = None,
    covariance: Annotated[
        Covariance, typer.Option(help="What is learnt of covariances.", rich_help_panel=_NORMAL)
    ] = Covariance.full,
    averaging: Annotated[
        Averaging,
        typer.Option(help="Over which sentences: all, as printed, or those with the head.", rich_help_panel=_NORMAL),
    ] = Averaging.all,
    point_estimate: Annotated[
        PointEstimate,
        typer.Option(help="What to parse with: the softmax of the mean, or its exp.", rich_help_panel=_NORMAL),
    ] = PointEstimate.softmax,
    quiet: Quiet = False,
) -> None:
    """Make the tables of five papers anew: every row from many starts, beside the papers' figures.

    lognormal is Table 1 of Cohen, Gimpel and Smith (2008), with the rows attach-right, em, em-map, vb, vb-em, ln,
    ln-families and supervised.

    shared is Table 1 of Cohen and Smith (2009), with attach-right, em, vb-em, ln-families, tie-v, tie-n, tie-vn, tie-a
    and supervised, for each language; and, if there are two, bilingual-v, bilingual-n, bilingual-vn and bilingual-a.

    cvb is the three experiments of Wang and Blunsom (2013); the file says which. Segmented words (.tsv): Figure 5, with
    em, vb, cvb and hastings. Bracketed trees (.mrg, .ptb): Table 1 and Figure 7, with base, the treebank's own grammar,
    and em, vb, cvb and variable-cvb for every number of subtypes (em-2, ...). All else: Figure 6, with attach-right,
    em, vb-1, cvb-1, hastings-1, vb-0.1, cvb-0.1, hastings-0.1 and supervised.

    pitman-yor is Table 2 of Wallach, Sutton and McCallum (2008), from TRAIN and --test, words of CoNLL-U with tags
    (xpos unless --tags upos) and trees. Rows are dirichlet-fixed, dirichlet-sampled, pitman-yor-fixed and
    pitman-yor-sampled, each with -maximal, -minimal and -exact; and, if --rows names it, for it takes long,
    pitman-yor-sampled-minimal-untagged, which finds the tags of --test with the trees.

    topics is Tables 3 and 4 of the same paper, from the same: pos, whose states are the tags, and states-50, ... for
    every number of --states.

    segmentation is the comparison of Goldwater, Griffiths and Johnson (2009), from utterances with white space between
    their words, which is not looked at: unigram and bigram, with Dirichlet processes and the hyperparameters of the
    article, unigram-pitman-yor and bigram-pitman-yor, with sampled ones. --sweeps is the length of a chain.

    --protocol paper has other defaults, what the papers did: one start, the initialiser itself; runs that end where
    held-out sentences become less likely, and nowhere else (lognormal, shared); the sentences of TRAIN, --dev and
    --test taken together, to learn from and to be scored on (lognormal, shared, cvb of heads); 5 starts (cvb of other
    files); --unseen test (pitman-yor, topics), and a tagger's tags in test sentences (pitman-yor).

    Killed and called again with the same --out, it goes on. Finished starts stay there: with more --starts or other
    --rows only what is missing is computed, and the tables have the rows that are asked for.
    """
    from pyrogram.cli.io.corpora import default_tags
    from reproductions.induction.systems import TABLES
    from reproductions.shared.settings import NormalOptions, StudySettings, chosen_rows, default_jobs

    paths = {"train": train, "dev": dev, "test": test, "train2": train2, "dev2": dev2, "test2": test2}
    experiment = experiment_of(table, train, format.value)
    refuse_unused(context, experiment)
    usual = protocol_of(protocol, experiment, train is None)
    starts, steps = starts or usual.starts, steps or usual.steps
    tolerance = usual.tolerance if tolerance is None else tolerance
    patience = patience or usual.patience
    if experiment in ("morphology", "annotations", "pitman-yor", "topics", "segmentation"):
        options: dict[str, Any] = {"steps": steps, "tolerance": tolerance, "patience": patience, "smoothing": smoothing}
        options |= {"sweeps": sweeps, "subtypes": subtypes, "alpha": alpha, "states": states, "format": format.value}
        options |= {"tags": None if tags is None else tags.value, "tagged": usual.tagged}
        options |= {"unseen": usual.unseen if unseen is None else unseen.value}
        _trials(experiment, paths, options, rows, starts, seed, jobs, out, resume)
        return
    check_files(table, paths)
    if init == Init.supervised:
        raise CommandError("--init supervised would show the learners the trees; give another")
    if tags is None:
        tags = Tags.xpos if train is None else Tags(default_tags(train, format.value))
    common = Settings(
        method="em",
        tags=tags.value,
        max_length=max_length,
        starts=starts,
        seed=seed,
        alpha=None,
        init=init.value,
        stops=stops.value,
        distance=distance,
        noise=noise,
        steps=steps,
        tolerance=tolerance,
        patience=patience,
        valence_attach=False,
        smoothing=smoothing,
        unknown=unknown.value,
        data=_digests(paths),
    )
    wanted = chosen_rows(rows, tuple(row.name for row in TABLES[table.value]))
    normal = NormalOptions(averaging.value, point_estimate.value, covariance.value)
    how = jobs or default_jobs(), normal, sweeps if table == WhichTable.cvb else None
    settings = StudySettings(table.value, common, wanted, dev_max_length, *how, usual.pooled)
    _run(_study(settings, paths, format.value), out, resume)


def _trials(
    experiment: str,
    paths: dict[str, Path | None],
    options: dict[str, Any],
    rows: str,
    starts: int,
    seed: int,
    jobs: int | None,
    out: Path | None,
    resume: bool,
) -> None:
    """A table of other scores than those of heads."""
    from pyrogram.cli.io.output import console
    from reproductions.annotations.experiment import read_experiment as read_annotations
    from reproductions.morphology import experiment as morphology
    from reproductions.pitman_yor.experiment import read_experiment as read_pitman_yor
    from reproductions.segmentation.experiment import read_experiment as read_segmentation
    from reproductions.shared import tables as trial_tables
    from reproductions.shared.experiment import TrialStudy
    from reproductions.shared.settings import TrialSettings, chosen_rows, default_jobs
    from reproductions.topics.experiment import read_experiment as read_topics

    readers: dict[str, Callable[..., tuple[Experiment, dict[str, Any]]]]
    readers = {"morphology": morphology.read_experiment, "annotations": read_annotations}
    readers |= {"pitman-yor": read_pitman_yor, "topics": read_topics, "segmentation": read_segmentation}
    read_experiment = readers[experiment]
    files = {name: path for name, path in paths.items() if path is not None}
    read, used = read_experiment(files, options, seed)
    wanted = chosen_rows(rows, tuple(trial.name for trial in read.trials))
    table = experiment if experiment in ("pitman-yor", "topics", "segmentation") else f"cvb, {experiment}"
    settings = TrialSettings(table, used, _digests(paths), starts, seed, wanted, jobs or default_jobs())
    study = TrialStudy(settings, read)
    with only_run(out):
        results = _finished(study, out, resume)
        if out is not None:
            trial_tables.write_trials(out, study, results)
    screen = console()
    for part in trial_tables.terminal(study, results):
        screen.print(part)
    _tell(out, results)


def _digests(paths: dict[str, Path | None]) -> dict[str, str | int]:
    from pyrogram.cli.io.corpora import digests
    from reproductions.induction.corpora import DEMO_SENTENCES

    hashes = digests(**paths)
    if any(path is not None and name not in hashes for name, path in paths.items()):
        raise CommandError("reproduce reads files again and again, and standard input and pipes only once; give files")
    return hashes or {"builtin": DEMO_SENTENCES}


def _study(settings: StudySettings, paths: dict[str, Path | None], format: str) -> Study:
    from reproductions.induction.corpora import Files, demo_languages, read_languages
    from reproductions.induction.study import Study

    files = []
    for suffix in ("", "2"):
        train, dev = paths[f"train{suffix}"], paths[f"dev{suffix}"]
        if train is not None and dev is not None:
            files.append(Files(train, dev, paths[f"test{suffix}"]))
    if not files:
        note("no TRAIN was given: this is the built-in corpus, made up by a grammar")
    study = Study(settings, read_languages(settings, files, format) if files else demo_languages(settings))
    study.check()
    return study


def _run(study: Study, out: Path | None, resume: bool) -> None:
    from pyrogram.cli.io.output import console
    from reproductions.induction.pictures import write_pictures
    from reproductions.induction.render import markdown, terminal
    from reproductions.induction.tables import make_report, write_tables

    with only_run(out):
        results = _finished(study, out, resume)
        report = make_report(study, results)
        if out is not None:
            write_tables(out, study, results, report, markdown(report))
            write_pictures(out, study)
    screen = console()
    for part in terminal(report):
        screen.print(part)
    _tell(out, results)


def _finished(study: AnyStudy, out: Path | None, resume: bool) -> dict[Key, Result]:
    """All starts of all rows."""
    from reproductions.shared.study import run_study

    try:
        return run_study(study, out, resume)
    except KeyboardInterrupt:
        again = shlex.join(["pyrogram", *sys.argv[1:]])
        how = f"finished starts are in {out}, and the same command goes on from there: {again}"
        raise Interrupted(f"interrupted; {how if out else 'with --out it could be taken up again'}") from None


def _tell(out: Path | None, results: Mapping[Key, Result]) -> None:
    """Where everything is, and what else is there."""
    from pyrogram.cli.io.output import console
    from reproductions.shared.store import other_rows

    screen = console()
    if out is None:
        screen.print("\nNothing was written; --out DIR keeps tables, scores and what every start learnt.")
    else:
        names = sorted(path.name for path in out.iterdir() if path.is_file())
        screen.print(f"\nWritten to {out}: {', '.join(names)}.", markup=False)
        others = other_rows(out, results)
        if others:
            told = f"More finished starts are kept there; to have them in the tables, ask for their rows: {others}."
            screen.print(told, markup=False)
