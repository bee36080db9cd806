# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""``pyrogram evaluate``: how many heads or phrases of one file are those of another."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pyrogram.cli.commands.choices import Format, Score, Tags
from pyrogram.cli.io.errors import CommandError

if TYPE_CHECKING:
    from pyrogram.data import Corpus


def evaluate(
    gold: Annotated[Path, typer.Argument(help="Treebank with the right heads.", show_default=False)],
    predicted: Annotated[Path, typer.Argument(help="The same sentences with other heads.", show_default=False)],
    format: Annotated[Format, typer.Option(help="Of both files; auto: by each one's extension.")] = Format.auto,
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
    from pyrogram.cli.io.baselines import below_baselines
    from pyrogram.cli.io.corpora import read_corpus
    from pyrogram.cli.io.output import console
    from pyrogram.metrics import accuracy_by_length, attach_left, attach_right

    theirs = read_corpus(gold, format=format.value, tags=tags.value, heads="required")
    ours = read_corpus(predicted, format=format.value, tags=tags.value, heads="required")
    check_same(theirs, ours, gold, predicted)
    assert theirs.heads is not None and ours.heads is not None
    found = accuracy_by_length(ours.heads, theirs.heads)
    neighbours = {"attach-left": attach_left(theirs.lengths), "attach-right": attach_right(theirs.lengths)}
    baselines = {name: accuracy_by_length(heads, theirs.heads)[-1].directed for name, heads in neighbours.items()}
    told = below_baselines(str(predicted), found[-1].directed, baselines)
    console().print("\n".join([str(found), *told]), soft_wrap=True, markup=False)


def _evaluate_brackets(gold: Path, predicted: Path) -> None:
    from pyrogram.cli.io.output import console
    from pyrogram.data.treebank import read_trees
    from pyrogram.parseval import parseval

    theirs, ours = read_trees(gold), read_trees(predicted, unparsed=True)
    for number, (g, p) in enumerate(zip(theirs, ours, strict=False), 1):
        if p is not None and g.leaves() != p.leaves():
            words = f"{' '.join(g.leaves())!r} in {gold} and {' '.join(p.leaves())!r} in {predicted}"
            raise CommandError(f"sentence {number} differs: it is {words}")
    if len(theirs) != len(ours):
        raise CommandError(f"{gold} has {len(theirs)} sentences and {predicted} {len(ours)}; they must be the same")
    console().print(str(parseval(ours, theirs)), soft_wrap=True)


def check_same(gold: Corpus, predicted: Corpus, gold_path: Path, predicted_path: Path, first: int = 1) -> None:
    """:raises CommandError: for the first sentence that differs, with its number, counted from ``first``."""
    for number, (g, p) in enumerate(zip(gold, predicted, strict=False), first):
        if g.tags == p.tags:
            continue
        where = f"sentence {number} differs (lines {g.line} and {p.line})"
        if len(g) != len(p):
            raise CommandError(f"{where}: it has {len(g)} words in {gold_path} and {len(p)} in {predicted_path}")
        i = next(i for i in range(len(g)) if g.tags[i] != p.tags[i])
        raise CommandError(
            f"{where}: word {i + 1} is {g.tags[i]!r} in {gold_path} and {p.tags[i]!r} in {predicted_path}"
        )
    if len(gold) != len(predicted):
        longer = min(len(gold), len(predicted)) + 1
        raise CommandError(
            f"{gold_path} has {len(gold)} sentences and {predicted_path} {len(predicted)}: sentence {longer} is "
            "missing in one of them"
        )
