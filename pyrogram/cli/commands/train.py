# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""``pyrogram train``: learn a parser from sentences with their trees."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from pyrogram.cli.commands.choices import Format, PathKind, Prior, TrainModel, TrainTags, Unseen
from pyrogram.cli.commands.options import Quiet
from pyrogram.cli.io.errors import CommandError, note
from pyrogram.cli.runs.forks import import_all


def train(
    train: Annotated[
        Path, typer.Argument(metavar="TRAIN", help="Treebank to learn from: CoNLL-U or .mrg.", show_default=False)
    ],
    model: Annotated[
        TrainModel, typer.Option(help="pitman-yor: tags, words and cases of each head's children.")
    ] = TrainModel.pitman_yor,
    out: Annotated[Path | None, typer.Option(help="Folder for the model, parses, curves, tables.")] = None,
    dev: Annotated[Path | None, typer.Option(help="Treebank to evaluate on.")] = None,
    test: Annotated[Path | None, typer.Option(help="Another one; its parses are written.")] = None,
    tags: Annotated[
        TrainTags | None, typer.Option(help="Which tags.", show_default="upos of CoNLL-U, else xpos")
    ] = None,
    prior: Annotated[
        Prior, typer.Option(help="Of the distributions; fixed: Eisner's concentrations; sampled: from their posterior.")
    ] = Prior.pitman_yor_sampled,
    paths: Annotated[
        PathKind, typer.Option(help="How observations share draws; exact: Gibbs sampling of seats.")
    ] = PathKind.minimal,
    steps: Annotated[int, typer.Option(min=1, help="Steps of slice sampling, and of Gibbs sampling.")] = 50,
    seed: Annotated[int, typer.Option(min=0, max=2**31, help="The same seed gives the same model.")] = 0,
    unseen: Annotated[
        Unseen,
        typer.Option(help="Words that are classes. rare: once in TRAIN; test: not in both TRAIN (once) and --test."),
    ] = Unseen.rare,
    format: Annotated[Format, typer.Option(help="auto: by the file's extension, else its text.")] = Format.auto,
    resume: Annotated[
        bool, typer.Option(help="Go on with an interrupted run in --out, or replace what is there.")
    ] = True,
    quiet: Quiet = False,
) -> None:
    """Learn a dependency parser from gold trees, tags and words, and see how right it is.

    The model is Eisner's generative one with hierarchical Pitman-Yor priors (Wallach, Sutton and McCallum 2008).
    Punctuation is part of sentences, but left out of scores.
    """
    import_all()
    from rich.text import Text

    from pyrogram.cli.commands.induce import _interruptible, _tell
    from pyrogram.cli.io.corpora import all_digests, default_tags, digests, format_of, name_of
    from pyrogram.cli.io.lock import only_run
    from pyrogram.cli.io.output import console, footnotes
    from pyrogram.cli.runs.folder import open_folder
    from pyrogram.cli.runs.lexical import TrainSettings
    from pyrogram.cli.runs.lexical_training import read_parts
    from pyrogram.cli.runs.lexical_training import train as train_model
    from pyrogram.cli.runs.report import terminal

    if unseen is Unseen.test and test is None:
        raise CommandError("--unseen test looks at the words of --test; give a file")
    if format_of(train, format.value) == "tags":
        raise CommandError(
            f"{name_of(train)} is read as tagged text, which has no trees; give CoNLL-U or .mrg, or say --format"
        )
    named = {"train": train, "dev": dev, "test": test}
    files = {name: path for name, path in named.items() if path is not None}
    settings = TrainSettings(
        model=model.value,
        tags=str(default_tags(train, format.value)) if tags is None else tags.value,
        prior=prior.value,
        paths=paths.value,
        steps=steps,
        seed=seed,
        unseen=unseen.value,
        data=digests(**files),
    )
    parts = read_parts(settings, files, format.value)
    settings = replace(settings, data=all_digests(settings.data, **files))
    with only_run(out), _interruptible(out):
        if out is not None and open_folder(out, settings, resume):
            note(f"going on in {out}")
        trained = train_model(settings, parts, out)
    screen = console()
    for report in trained.reports:
        screen.print(Text(report.title, style="bold"))
        screen.print(terminal(report))
        screen.print(footnotes(report.notes))
    _tell(out)
