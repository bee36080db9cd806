# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""``pyrogram parse``: trees for a file, by the grammar of a run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from pyrogram.cli.commands.choices import Decoder, Format, Retag, Unknown
from pyrogram.cli.commands.options import Quiet
from pyrogram.cli.io.errors import CommandError
from pyrogram.cli.runs.forks import import_all


def parse(
    run: Annotated[
        Path | None, typer.Argument(help="Folder that induce or train --out made.", show_default=False)
    ] = None,
    file: Annotated[
        Path | None, typer.Argument(help="Sentences to parse; heads in it are not read.", show_default=False)
    ] = None,
    zero_shot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Sentences with universal tags, to parse without a RUN.", show_default=False),
    ] = None,
    decoder: Annotated[
        Decoder, typer.Option(help="mbr: most expected right heads; viterbi: the most probable tree.")
    ] = Decoder.mbr,
    out: Annotated[Path | None, typer.Option(help="File to write to.", show_default="stdout")] = None,
    format: Annotated[Format, typer.Option(help="auto: by the file's extension, else its text.")] = Format.auto,
    unknown: Annotated[
        Unknown, typer.Option(help="What becomes of symbols unseen in training.")
    ] = Unknown.most_frequent,
    retag: Annotated[
        Retag,
        typer.Option(help="With a trained model: whose tags a tagger gives. missing: where FILE has none at all."),
    ] = Retag.missing,
    quiet: Quiet = False,
) -> None:
    """Write FILE with predicted trees: CoNLL-U; with a pcfg, bracketed trees, () for none.

    A file of CoNLL-U comes out as it went in, every sentence, comment, multiword token, empty node and column in its
    place, with other heads (HEAD) and relations (DEPREL): "root" at head 0, "punct" for punctuation, "dep" for all
    others, which is the least that the standard demands. Enhanced dependencies (DEPS) stay as they are.

    Sentences are parsed without punctuation, which is then attached to the dependent of the shortest arc that passes
    over it, or to the root if none does; no arcs cross. A model that train has learnt parses punctuation like words.
    Symbols that the training sentences lacked are taken for the most frequent one; stderr says which.

    --zero-shot FILE needs no run and no treebank: it has learnt from trees of other languages, and learns from the tags
    of FILE itself, of which some hundreds of sentences are best; stderr says which languages it drew on.
    """
    import_all()
    from pyrogram.cli.io.files import check_writable, write_file
    from pyrogram.cli.io.output import write_text
    from pyrogram.cli.runs.opening import open_run
    from pyrogram.cli.runs.run import ParseOptions
    from pyrogram.cli.runs.zero_shot import parse_zero_shot

    source = _source(run, file, zero_shot)
    if out is not None and out.exists() and source.exists() and out.samefile(source):
        raise CommandError(f"--out {out} is the file to parse, whose heads and relations would be lost; give another")
    if zero_shot is not None:
        if retag is not Retag.missing or unknown is not Unknown.most_frequent:
            raise CommandError("--retag and --unknown are for runs; leave them out with --zero-shot")
        if out is not None:
            check_writable(out)
        text: Iterable[str] = parse_zero_shot(source, format.value, decoder.value)
    else:
        assert run is not None
        loaded = open_run(run)
        if retag is not Retag.missing and not loaded.has_tagger:
            raise CommandError("--retag is for models that pyrogram train has learnt; leave it out")
        if out is not None:
            check_writable(out)
        text = loaded.parse(source, ParseOptions(decoder.value, format.value, unknown.value, retag.value))
    if out is None:
        write_text(text)
    else:
        write_file(out, (piece.encode() for piece in text))


def _source(run: Path | None, file: Path | None, zero_shot: Path | None) -> Path:
    """The sentences to parse.

    :raises CommandError: unless there are either a run and a file, or a file for --zero-shot.
    """
    if zero_shot is None:
        if run is None or file is None:
            raise CommandError("parse needs a RUN and a FILE, or --zero-shot FILE; see pyrogram parse --help")
        return file
    if run is not None:
        raise CommandError(f"--zero-shot takes no RUN, so leave out {run}, or leave out --zero-shot")
    return zero_shot
