# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""``pyrogram sample``: sentences that the grammar of a run makes up."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from pyrogram.cli.commands.choices import SampleFormat
from pyrogram.cli.io.errors import CommandError
from pyrogram.folding import text_of

MOST_WORDS = 10**8  # of all sentences, were each as long as it may be


def sample(
    run: Annotated[Path, typer.Argument(help="Folder that induce --out made.", show_default=False)],
    num: Annotated[int, typer.Option(min=1, help="How many sentences.")] = 10,
    seed: Annotated[int, typer.Option(min=0, max=2**31, help="The same seed gives the same sentences.")] = 0,
    max_length: Annotated[int, typer.Option(min=1, help="Longer sentences are drawn again.")] = 20,
    format: Annotated[
        SampleFormat, typer.Option(help="brackets: each word with its dependents in [ ].")
    ] = SampleFormat.conllu,
) -> None:
    """Draw sequences of tags with their trees from a learnt grammar.

    As brackets, "[[DT] NN] VBZ" is one sentence to a line: a bracket holds one bare tag, its head, and the
    brackets of the dependents. The trees of a pcfg are printed with their labels, one to a line.
    """
    if num * max_length > MOST_WORDS:
        raise CommandError(
            f"--num {num} sentences of up to --max-length {max_length} words do not fit into memory; their product may "
            f"be {MOST_WORDS:,}"
        )
    import torch

    from pyrogram.cli.io.output import write_text
    from pyrogram.cli.runs.folder import PcfgRun, load_any
    from pyrogram.cli.runs.starts import double_precision
    from pyrogram.data import Corpus

    loaded = load_any(run)
    with double_precision(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if isinstance(loaded, PcfgRun):
            words, derivations = loaded.grammar.sample_trees(loaded.weights, (num,), max_length)
            drawn = [loaded.grammar.tree(w[w >= 0], d[d >= 0]) for w, d in zip(words, derivations, strict=True)]
            write_text("".join(text_of(tree) + "\n" for tree in drawn))
            return
        words, heads = loaded.grammar.sample_trees(loaded.weights, (num,), max_length)
    sentences = [loaded.vocab.decode(row) for row in words]
    trees = [row[: len(s)].tolist() for row, s in zip(heads, sentences, strict=True)]
    if format is SampleFormat.brackets:
        write_text("".join(brackets(t, s) + "\n" for t, s in zip(trees, sentences, strict=True)))
        return
    tags = loaded.tags
    corpus = Corpus.from_sentences(sentences, heads=trees, tags=tags, punctuation="keep")  # type: ignore[arg-type]
    write_text(corpus.to_conllu())


def brackets(heads: Sequence[int], symbols: Sequence[str]) -> str:
    """A projective tree as nested brackets; each holds one bare symbol, its head."""

    children: list[list[int]] = [[] for _ in range(len(heads) + 1)]
    for c, h in enumerate(heads, 1):
        children[h].append(c)
    order = [heads.index(0) + 1]
    for c in order:  # heads before what hangs on them
        order += children[c]
    inside = {c: symbols[c - 1] for c in order}
    for c in reversed(order):
        parts = [(d, f"[{inside[d]}]") for d in children[c]]
        inside[c] = " ".join(text for _, text in sorted([*parts, (c, symbols[c - 1])]))
    return inside[order[0]]
