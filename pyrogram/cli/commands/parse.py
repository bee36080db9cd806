# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""``pyrogram parse``: trees for a file, by the grammar of a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pyrogram.cli.commands.choices import Decoder, Format, Retag, Unknown
from pyrogram.cli.commands.options import Quiet
from pyrogram.cli.io.errors import CommandError, note

if TYPE_CHECKING:
    from pyrogram.cli.runs.folder import PcfgRun


def parse(
    run: Annotated[Path, typer.Argument(help="Folder that induce or train --out made.", show_default=False)],
    file: Annotated[Path, typer.Argument(help="Sentences to parse; heads in it are not read.", show_default=False)],
    decoder: Annotated[
        Decoder, typer.Option(help="mbr: most expected right heads; viterbi: the most probable tree.")
    ] = Decoder.mbr,
    out: Annotated[Path | None, typer.Option(help="File to write to.", show_default="stdout")] = None,
    format: Annotated[Format, typer.Option(help="auto: by the file's extension.")] = Format.auto,
    unknown: Annotated[
        Unknown, typer.Option(help="What becomes of symbols unseen in training.")
    ] = Unknown.most_frequent,
    retag: Annotated[
        Retag,
        typer.Option(help="With a trained model: whose tags a tagger gives. missing: where FILE has none at all."),
    ] = Retag.missing,
    quiet: Quiet = False,
) -> None:
    """Parse FILE and write CoNLL-U with predicted heads; with a pcfg, bracketed trees, () for none.

    What comes out has forms, tags and heads; other columns, multiword tokens and comments but sent_id are left out.
    Punctuation is removed before parsing and is not in what comes out, so words are numbered without it; but with a
    model that train has learnt, it stays. Symbols that the training sentences lacked are taken for the most frequent
    one; stderr says which.
    """
    from pyrogram.cli.io.corpora import note_unknown, read_corpus
    from pyrogram.cli.io.files import check_writable, write_file
    from pyrogram.cli.io.output import write_text
    from pyrogram.cli.runs import evaluation as scores
    from pyrogram.cli.runs.dmv_induction import parses_text
    from pyrogram.cli.runs.folder import KIND_LEXICAL, PcfgRun, kind_of, load_any
    from pyrogram.cli.runs.starts import double_precision

    if out is not None and out.exists() and file.exists() and out.samefile(file):
        raise CommandError(
            f"--out {out} is the file to parse, whose heads and other columns would be lost; give another"
        )
    if kind_of(run) == KIND_LEXICAL:
        from pyrogram.cli.runs.lexical_parsing import parse_file

        if out is not None:
            check_writable(out)
        text = parse_file(run, file, decoder.value, format.value, unknown.value, retag.value)
        if out is None:
            write_text(text)
        else:
            write_file(out, text.encode())
        return
    if retag is not Retag.missing:
        raise CommandError("--retag is for models that pyrogram train has learnt; leave it out")
    loaded = load_any(run)
    if out is not None:
        check_writable(out)
    if isinstance(loaded, PcfgRun):
        text = _bracketed(loaded, file, decoder, format.value)
        if out is None:
            write_text(text)
        else:
            write_file(out, text.encode())
        return
    corpus = read_corpus(
        file,
        format=format.value,
        tags=loaded.tags,
        vocab=loaded.vocab,
        unknown=unknown.value,
        heads="ignore",
        no_tags_option=f"give a file that has it, for the grammar in {run} was learnt with --tags {loaded.tags}",
    )
    note_unknown(corpus, file)
    if corpus.dropped:
        note(f"note: {file}: {corpus.dropped} sentences of nothing but punctuation are left out")
    with double_precision():
        weights = scores.smoothed(loaded.grammar, loaded.weights, loaded.settings["smoothing"])
        heads, _ = scores.parse(loaded.grammar, weights, corpus.words, [decoder.value])
    text = parses_text(corpus, heads[decoder.value], decoder.value)
    if out is None:
        write_text(text)
    else:
        write_file(out, text.encode())


def _bracketed(loaded: PcfgRun, file: Path, decoder: Decoder, format: str) -> str:
    """The trees of a file by a pcfg, one to a line."""
    from pyrogram.cli.runs import pcfg_induction as pcfg
    from pyrogram.cli.runs.evaluation import smoothed
    from pyrogram.cli.runs.starts import double_precision

    with double_precision():
        words = pcfg.read_sentences(file, loaded.tags, format, loaded.grammar)
        weights = smoothed(loaded.grammar, loaded.weights, loaded.smoothing)
        trees = pcfg.parse_trees(loaded.grammar, weights, words, decoder.value)
    return "".join(pcfg.brackets(tree) + "\n" for tree in trees)
