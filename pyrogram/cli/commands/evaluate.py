# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""``pyrogram evaluate``: how many heads or phrases of one file are those of another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pyrogram.cli.commands.choices import Format, Score, Tags
from pyrogram.cli.io.corpora import WholeFile, name_of, read_whole
from pyrogram.cli.io.errors import CommandError, note
from pyrogram.printable import plural, quoted

if TYPE_CHECKING:
    from pyrogram.cli.io.scores import TreeScores
    from pyrogram.data import Corpus


def evaluate(
    gold: Annotated[Path, typer.Argument(help="Treebank with the right heads.", show_default=False)],
    predicted: Annotated[Path, typer.Argument(help="The same sentences with other heads.", show_default=False)],
    against: Annotated[
        Path | None, typer.Option(help="Another predicted file: which is better, and how sure is it?")
    ] = None,
    format: Annotated[
        Format, typer.Option(help="Of all files; auto: by each one's extension, else its text.")
    ] = Format.auto,
    tags: Annotated[Tags, typer.Option(help="What must be the same in all files.")] = Tags.form,
    score: Annotated[
        Score, typer.Option(help="heads; or brackets, PARSEVAL of two files of bracketed trees.")
    ] = Score.heads,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    samples: Annotated[
        int, typer.Option(min=1, max=10**7, help="Of sentences, for the bootstrap of --against.")
    ] = 10_000,
    seed: Annotated[int, typer.Option(min=0, max=2**31, help="Of the bootstrap.")] = 0,
) -> None:
    """Accuracy of PREDICTED by sentence length: directed, undirected, and of the root; or of phrases.

    Heads are scored twice: without punctuation, whose dependents count as those of its nearest kept ancestor, and with
    it, if all files have the same; directed accuracy with punctuation is the unlabelled attachment score (UAS) of the
    CoNLL shared tasks. A second table has directed accuracy by the dependent's tag in GOLD. With --against, sentences
    are drawn with replacement (paired bootstrap) to say how sure the difference is, and the words and sentences in
    which either file is better are counted (sign test); p-values are two-sided.

    Phrases are scored by the conventions of EVALB; () in PREDICTED stands for no parse. Sentences without a parse, or
    whose tags take other words for punctuation than those of GOLD, count in no score; the column "skipped" has their
    number.
    """
    if as_json and as_csv:
        raise CommandError("--json and --csv cannot both be printed; give one")
    if score is Score.brackets:
        if against is not None:
            raise CommandError("--against compares heads; leave it out with --score brackets")
        _evaluate_brackets(gold, predicted, as_json, as_csv)
        return
    from pyrogram.cli.io.output import console, write_text
    from pyrogram.cli.io.scores import Difference, csv_text, json_text, sentence_of, text_of
    from pyrogram.metrics import paired_bootstrap, sign_test

    paths = [gold, predicted] + ([] if against is None else [against])
    files = [read_whole(path, format.value, tags.value, "required") for path in paths]
    by_file: list[list[TreeScores]] = [[] for _ in paths[1:]]
    differences, below = [], list[str]()
    for punctuation in (False, True):
        corpora = _read_same(files, tags.value, punctuation)
        if not corpora:
            note("note: scores are without punctuation, for the files differ in it")
            continue
        for path, corpus, scores in zip(paths[1:], corpora[1:], by_file, strict=True):
            scores.append(_scores(path, corpus, corpora[0], punctuation))
            below += [] if punctuation else _below(scores[0], corpora[0])
        if against is not None:
            heads: list[Any] = [corpus.heads for corpus in (*corpora[1:], corpora[0])]
            bootstrap = paired_bootstrap(*heads, samples=samples, seed=seed)
            signs = {"words": sign_test(*heads), "sentences": sign_test(*heads, unit="sentences")}
            differences.append(Difference(punctuation, bootstrap, seed, signs))
    rows = [row for scores in by_file for one in scores for row in one.rows()]
    if as_json:
        write_text(json_text(name_of(gold), rows, differences))
    elif as_csv:
        write_text(csv_text(rows, differences))
    else:
        tables = [text_of(scores) for scores in by_file]
        if against is not None:
            tables = [f"{name_of(path)}\n\n{part}" for path, part in zip(paths[1:], tables, strict=True)]
            tables += [sentence_of(d, name_of(predicted), name_of(against)) for d in differences]
        tables += below
        console().print("\n\n".join(tables), soft_wrap=True, markup=False)


def _read_same(files: list[WholeFile], tags: str, punctuation: bool) -> list[Corpus]:
    """Gold and predicted files; none if they differ, and that in punctuation alone.

    :raises CommandError: if they differ without punctuation.
    """
    from pyrogram.cli.io.corpora import read_corpus

    keep: Literal["keep", "remove"] = "keep" if punctuation else "remove"
    gold, *others = [read_corpus(file, tags=tags, heads="required", punctuation=keep) for file in files]
    if punctuation and any(gold.tags != corpus.tags for corpus in others):
        return []
    for corpus, file in zip(others, files[1:], strict=True):
        check_same(gold, corpus, files[0].path, file.path)
    return [gold, *others]


def _scores(path: Path, predicted: Corpus, gold: Corpus, punctuation: bool) -> TreeScores:
    from pyrogram.cli.io.scores import TreeScores
    from pyrogram.metrics import accuracy_by_length, accuracy_by_tag

    assert predicted.heads is not None and gold.heads is not None
    columns = [[r.upos for r in gold], [r.xpos for r in gold]]
    used = next((column for column in columns if any(tag != "_" for row in column for tag in row)), None)
    by_tag = () if used is None else accuracy_by_tag(predicted.heads, gold.heads, used)
    return TreeScores(name_of(path), punctuation, accuracy_by_length(predicted.heads, gold.heads), by_tag)


def _below(scores: TreeScores, gold: Corpus) -> list[str]:
    """What is to be said of a file that is no better than attachment to a neighbour."""
    from pyrogram.cli.io.baselines import below_baselines
    from pyrogram.metrics import accuracy_by_length, attach_left, attach_right

    assert gold.heads is not None
    neighbours = {"attach-left": attach_left(gold.lengths), "attach-right": attach_right(gold.lengths)}
    others = {name: accuracy_by_length(heads, gold.heads)[-1].directed for name, heads in neighbours.items()}
    return below_baselines(scores.file, scores.by_length[-1].directed, others)


def _evaluate_brackets(gold: Path, predicted: Path, as_json: bool, as_csv: bool) -> None:
    from dataclasses import asdict

    from pyrogram.cli.io.output import console, write_text
    from pyrogram.cli.io.scores import csv_text, json_text
    from pyrogram.data.treebank import read_trees
    from pyrogram.metrics.constituents import parseval

    theirs, ours = read_trees(gold), read_trees(predicted, unparsed=True)
    for number, (g, p) in enumerate(zip(theirs, ours, strict=False), 1):
        if p is not None and g.leaves() != p.leaves():
            raise CommandError(f"sentence {number} differs: {_difference(g.leaves(), p.leaves(), gold, predicted)}")
    if len(theirs) != len(ours):
        raise CommandError(
            f"{name_of(gold)} has {plural(len(theirs), 'sentence')} and {name_of(predicted)} "
            f"{len(ours)}; they must be the same"
        )
    scores = parseval(ours, theirs)
    rows = [{"file": name_of(predicted), **asdict(b)} for b in scores]
    if as_json:
        write_text(json_text(name_of(gold), rows))
    elif as_csv:
        write_text(csv_text(rows))
    else:
        console().print(str(scores), soft_wrap=True)


def _difference(g: Sequence[str], p: Sequence[str], gold: Path, predicted: Path) -> str:
    """How two sentences differ."""
    if len(g) != len(p):
        return f"it has {plural(len(g), 'word')} in {name_of(gold)} and {len(p)} in {name_of(predicted)}"
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
        sizes = (
            f"{name_of(gold_path)} has {plural(len(gold), 'sentence')} and {name_of(predicted_path)} {len(predicted)}"
        )
        raise CommandError(f"{sizes}: sentence {longer} is missing in one of them")
