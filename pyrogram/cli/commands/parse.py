# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""``pyrogram parse``: trees for a file, by the grammar of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pyrogram.cli.commands.choices import Decoder, Format, Retag, Unknown
from pyrogram.cli.commands.options import Quiet
from pyrogram.cli.io.errors import CommandError


def parse(
    run: Annotated[Path, typer.Argument(help="Folder that induce or train --out made.", show_default=False)],
    file: Annotated[Path, typer.Argument(help="Sentences to parse; heads in it are not read.", show_default=False)],
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
    """
    from pyrogram.cli.io.files import check_writable, write_file
    from pyrogram.cli.io.output import write_text
    from pyrogram.cli.runs.opening import open_run
    from pyrogram.cli.runs.run import ParseOptions

    if out is not None and out.exists() and file.exists() and out.samefile(file):
        raise CommandError(f"--out {out} is the file to parse, whose heads and relations would be lost; give another")
    loaded = open_run(run)
    if retag is not Retag.missing and not loaded.has_tagger:
        raise CommandError("--retag is for models that pyrogram train has learnt; leave it out")
    if out is not None:
        check_writable(out)
    text = loaded.parse(file, ParseOptions(decoder.value, format.value, unknown.value, retag.value))
    if out is None:
        write_text(text)
    else:
        write_file(out, text.encode())
