# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""``pyrogram evaluate``: how many heads or phrases of one file are those of another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pyrogram.cli.commands.choices import Format, Score, Tags
from pyrogram.cli.io.corpora import name_of
from pyrogram.cli.io.errors import CommandError
from pyrogram.printable import quoted

if TYPE_CHECKING:
    from pyrogram.data import Corpus


def evaluate(
    gold: Annotated[Path, typer.Argument(help="Treebank with the right heads.", show_default=False)],
    predicted: Annotated[Path, typer.Argument(help="The same sentences with other heads.", show_default=False)],
    format: Annotated[
        Format, typer.Option(help="Of both files; auto: by each one's extension, else its text.")
    ] = Format.auto,
    tags: Annotated[Tags, typer.Option(help="What must be the same in both files.")] = Tags.form,
    score: Annotated[
        Score, typer.Option(help="heads; or brackets, PARSEVAL of two files of bracketed trees.")
    ] = Score.heads,
) -> None:
    """Accuracy of PREDICTED by sentence length: directed, undirected, and of the root; or of phrases.

    Punctuation is left out of both files; its dependents count as those of its nearest kept ancestor. Phrases are
    scored by the conventions of EVALB, with punctuation by the gold tags; () in PREDICTED stands for no parse.
    """
    if score is Score.brackets:
        _evaluate_brackets(gold, predicted)
        return
    from pyrogram.cli.io.corpora import read_corpus
    from pyrogram.cli.io.output import console
    from pyrogram.metrics import accuracy_by_length

    theirs = read_corpus(gold, format=format.value, tags=tags.value, heads="required")
    ours = read_corpus(predicted, format=format.value, tags=tags.value, heads="required")
    check_same(theirs, ours, gold, predicted)
    assert theirs.heads is not None and ours.heads is not None
    console().print(str(accuracy_by_length(ours.heads, theirs.heads)), soft_wrap=True)


def _evaluate_brackets(gold: Path, predicted: Path) -> None:
    from pyrogram.cli.io.output import console
    from pyrogram.data.treebank import read_trees
    from pyrogram.parseval import parseval

    theirs, ours = read_trees(gold), read_trees(predicted, unparsed=True)
    for number, (g, p) in enumerate(zip(theirs, ours, strict=False), 1):
        if p is not None and g.leaves() != p.leaves():
            raise CommandError(f"sentence {number} differs: {_difference(g.leaves(), p.leaves(), gold, predicted)}")
    if len(theirs) != len(ours):
        raise CommandError(
            f"{name_of(gold)} has {len(theirs)} sentences and {name_of(predicted)} {len(ours)}; they must be the same"
        )
    console().print(str(parseval(ours, theirs)), soft_wrap=True)


def _difference(g: Sequence[str], p: Sequence[str], gold: Path, predicted: Path) -> str:
    """How two sentences differ."""
    if len(g) != len(p):
        return f"it has {len(g)} words in {name_of(gold)} and {len(p)} in {name_of(predicted)}"
    i = next(i for i in range(len(g)) if g[i] != p[i])
    return f"word {i + 1} is {quoted(g[i])} in {name_of(gold)} and {quoted(p[i])} in {name_of(predicted)}"


def check_same(gold: Corpus, predicted: Corpus, gold_path: Path, predicted_path: Path, first: int = 1) -> None:
    """:raises CommandError: for the first sentence that differs, with its number, counted from ``first``."""
    for number, (g, p) in enumerate(zip(gold, predicted, strict=False), first):
        if g.tags == p.tags:
            continue
        where = f"sentence {number} differs (lines {g.line} and {p.line})"
        raise CommandError(f"{where}: {_difference(g.tags, p.tags, gold_path, predicted_path)}")
    if len(gold) != len(predicted):
        longer = min(len(gold), len(predicted)) + 1
        sizes = f"{name_of(gold_path)} has {len(gold)} sentences and {name_of(predicted_path)} {len(predicted)}"
        raise CommandError(f"{sizes}: sentence {longer} is missing in one of them")
