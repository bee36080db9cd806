# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""``pyrogram prior``: what treebanks of other languages say of a grammar, in one file."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Annotated

import typer

from pyrogram.cli.io.errors import CommandError
from pyrogram.printable import plural, quoted


def prior(
    treebanks: Annotated[
        list[Path], typer.Argument(metavar="TREEBANK...", help="CoNLL-U files with heads.", show_default=False)
    ],
    out: Annotated[Path, typer.Option(help="File to write to, such as prior.safetensors.", show_default=False)],
    licence: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=TEXT", help="Of a treebank, to be kept in the file; once for each."),
    ] = None,
) -> None:
    """Count the trees of treebanks, for induce --knowledge languages --prior.

    A treebank is named by the start of its files' names: en_ewt-ud-train.conllu and en_ewt-ud-dev.conllu are en_ewt, of
    the language en. Counted are the DMV's events by universal tag, punctuation left out; no word and no sentence is
    kept. Leave out the language that is to be learnt: scores of a language that was counted say nothing.
    """
    from rich.table import Table

    from pyrogram.cli.io.files import check_writable
    from pyrogram.cli.io.output import console, footnotes
    from pyrogram.data import CorpusError
    from pyrogram.knowledge import UNIVERSAL_TAGS, Sources, read_treebanks

    check_writable(out)
    if Path("-") in treebanks:
        raise CommandError("a treebank is named by its file, and standard input has no name; give a file")
    try:
        corpora = read_treebanks(treebanks)
    except CorpusError as error:
        if error.argument is None:
            raise
        raise CorpusError(error.source, error.line, error.problem, "give treebanks with universal tags") from None
    sources = Sources.count(corpora, licences=_licences(licence or (), corpora.keys()))
    try:
        sources.save(out)
    except OSError as error:
        raise CommandError(f"{out} cannot be written: {error.strerror}") from None
    table = Table("treebank", "language", box=None, pad_edge=False)
    for header in ("sentences", "words"):
        table.add_column(header, justify="right")
    table.add_column("licence")
    rows = zip(sources.names, sources.languages, corpora.values(), sources.licences, strict=True)
    for name, language, corpus, text in rows:
        table.add_row(name, language, f"{len(corpus):,}", f"{int(corpus.lengths.sum()):,}", text or "not said")
    notes = [f"{sources!r}, written to {out}.", "Punctuation is left out."]
    other = sum(tag not in UNIVERSAL_TAGS for corpus in corpora.values() for tags in corpus.tags for tag in tags)
    if other:
        notes.append(f"Not universal, and counted as X: the tags of {plural(other, 'word')}.")
    screen = console()
    screen.print(table)
    screen.print(footnotes(notes))


def _licences(texts: Sequence[str], names: Collection[str]) -> dict[str, str]:
    """By name of a treebank."""
    licences = {}
    for text in texts:
        name, _, licence = text.partition("=")
        if name not in names or not licence:
            raise CommandError(f"--licence needs NAME=TEXT, a name out of {', '.join(names)}, not {quoted(text)}")
        licences[name] = licence
    return licences
