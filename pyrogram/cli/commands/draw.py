# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""``pyrogram draw``: one tree as a picture or as text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pyrogram.cli.commands.choices import Format
from pyrogram.cli.io.errors import CommandError

if TYPE_CHECKING:
    from pyrogram.data import SentenceRecord


def draw(
    file: Annotated[Path, typer.Argument(help="Treebank, or what parse wrote.", show_default=False)],
    gold: Annotated[Path | None, typer.Option(help="The same sentences with the right heads.")] = None,
    sentence: Annotated[int, typer.Option(min=1, help="Its number in the file.")] = 1,
    out: Annotated[Path | None, typer.Option(help="SVG file to write to.")] = None,
    text: Annotated[
        bool, typer.Option("--text", help="Draw in the terminal, too; without --out this is the default.")
    ] = False,
    format: Annotated[
        Format, typer.Option(help="Of both files; auto: by each one's extension, else its text.")
    ] = Format.auto,
) -> None:
    """Draw the tree of a sentence: in the terminal, or with --out as SVG.

    With --gold, wrong heads are marked; punctuation is then left out of both files, and sentences of nothing
    else are not counted.
    """
    from pyrogram.cli.commands.evaluate import check_same
    from pyrogram.cli.io.corpora import name_of, read_corpus
    from pyrogram.cli.io.files import check_writable, write_file
    from pyrogram.cli.io.output import print_tree
    from pyrogram.viz import draw_tree

    if out is not None:
        if out.suffix.lower() not in ("", ".svg"):
            raise CommandError(f"--out {out} is to be a picture as SVG; give a name that ends in .svg")
        check_writable(out)
    keep: Literal["keep", "remove"] = "keep" if gold is None else "remove"
    words = "give a file that has the words"
    corpus = read_corpus(
        file, format=format.value, tags="form", heads="required", punctuation=keep, no_tags_option=words
    )
    if sentence > len(corpus):
        raise CommandError(f"--sentence {sentence} is not in {name_of(file)}, which ends with sentence {len(corpus)}")
    i = sentence - 1
    record = corpus.sentences[i]
    right = None
    if gold is not None:
        theirs = read_corpus(gold, format=format.value, tags="form", heads="required", no_tags_option=words)
        if sentence > len(theirs):
            raise CommandError(
                f"--sentence {sentence} is not in {name_of(gold)}, which ends with sentence {len(theirs)}"
            )
        check_same(theirs[i : i + 1], corpus[i : i + 1], gold, file, first=sentence)
        right = theirs.sentences[i].heads
    assert record.heads is not None
    tags = tags_of(record)
    if out is not None:
        write_file(out, draw_tree(record.heads, record.forms, tags, gold=right).svg.encode())
    if text or out is None:
        print_tree(record.heads, record.forms, tags, right)


def tags_of(record: SentenceRecord) -> tuple[str, ...] | None:
    """The universal tags of a sentence, else the treebank's own, else none."""
    for column in (record.upos, record.xpos):
        if any(tag != "_" for tag in column):
            return column
    return None
