# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Accuracy of trees that are induced with more and more knowledge, over many treebanks.

    python benchmarks/knowledge.py FOLDER... [--choosing af_afribooms,ar_pud,...] [--only STEM,...]

Folders hold files of Universal Dependencies, ``STEM-ud-PART.conllu``. Trees are learnt from the tags and the
punctuation of the part ``train``, else ``dev``, else ``test``, and scored on ``test``, else on the same file: the
percentage of words with the right head, punctuation not counted. The supervised DMV sees the heads of the file that
the others learn from, of sentences of at most 40 words; where that is the file that is scored, it learns from one
half of the sentences and parses the other. Means are over treebanks, first over those that settings were chosen on,
then over the others. For "languages" the sources are all other treebanks, those of the target's language left out. A
treebank of PUD takes five seconds.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from pyrogram import DMV, Corpus
from pyrogram.bias import Bias
from pyrogram.knowledge import (
    Sources,
    closed_classes,
    count_once_roots,
    function_words_are_leaves,
    induce,
    read_treebanks,
    reducibility,
    universal_rules,
)
from pyrogram.knowledge.discovered import closed_tags
from pyrogram.metrics import accuracy_by_length, attach_left, attach_right

BINS = (10, None)


def files(folders: list[Path]) -> dict[str, dict[str, Path]]:
    """Files by treebank and part."""
    found: dict[str, dict[str, Path]] = {}
    for folder in folders:
        for path in sorted(folder.glob("*-ud-*.conllu")):
            stem, part = path.stem.rsplit("-ud-", 1)
            found.setdefault(stem, {})[part] = path
    return found


def rows(train: Corpus) -> dict[str, tuple[Bias, float]]:
    """By row of the table the bias of events, and what an arc across punctuation costs."""
    rules, leaves = universal_rules(train.vocab), function_words_are_leaves(train.vocab)
    closed, roots = closed_classes(train), count_once_roots(train, without=closed_tags(train))
    discovered = closed + roots + reducibility(train)
    return {
        "none": (Bias(), 0.0),
        "closed classes": (closed, 0.0),
        "+ roots": (closed + roots, 0.0),
        "+ reducibility": (discovered, 0.0),
        "+ punctuation = discovered": (discovered, 3.0),
        "universal rules": (rules, 0.0),
        "+ leaves": (rules + leaves, 0.0),
        "+ punctuation = rules": (rules + leaves, 3.0),
    }


def scores(heads: Tensor, test: Corpus) -> tuple[float, float]:
    """Percentages of words with the right head: of sentences of at most 10 words, and of all."""
    assert test.heads is not None
    short, whole = accuracy_by_length(heads, test.heads, BINS)
    return 100 * (short.directed or 0.0), 100 * (whole.directed or 0.0)


def supervised(train: Corpus, test: Corpus, same: bool) -> Tensor:
    """Trees of the DMV that has seen heads, though not those of the sentences that it parses."""
    if not same:
        return parsed(train, test)
    heads = torch.full_like(test.words, -1)
    for fold in (0, 1):
        rest, own = test[1 - fold :: 2], test[fold::2]
        heads[fold::2, : own.words.shape[1]] = parsed(rest, own)
    return heads


def parsed(train: Corpus, test: Corpus) -> Tensor:
    """Trees of one part by a DMV of the heads of another."""
    train = train.filter(40)
    grammar = DMV(len(train.vocab))
    weights = grammar.initial_weights(train.words, "supervised", heads=train.heads)
    found = torch.full_like(test.words, -1)
    for chunk in test.lengths.argsort().split(64):
        n = int(test.lengths[chunk].max())
        found[chunk, :n] = grammar.derivation(weights, test.words[chunk, :n]).mbr()
    return found


def learnt_from(parts: Mapping[str, Path]) -> Path:
    """The file of a treebank that grammars are learnt from."""
    return parts.get("train") or parts.get("dev") or parts["test"]


def measured(parts: Mapping[str, Path], sources: Sources) -> dict[str, tuple[float, float]]:
    """The scores of a treebank by row.

    :param sources: treebanks of other languages.
    """
    learnt = learnt_from(parts)
    scored = parts.get("test", learnt)
    train = Corpus.from_conllu(learnt)
    test = Corpus.from_conllu(scored, vocab=train.vocab)
    found = {
        "attachment": max((scores(a(test.lengths), test) for a in (attach_left, attach_right)), key=lambda s: s[1])
    }
    for name, (bias, punctuation) in rows(train).items():
        found[name] = scores(induce(train, bias, punctuation=punctuation).parse(test), test)
    for name, nats in (("languages", 0.0), ("+ punctuation = languages", 3.0)):
        found[name] = scores(induce(train, "languages", punctuation=nats, sources=sources).parse(test), test)
    found["supervised"] = scores(supervised(train, test, learnt == scored), test)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--choosing", default="", help="stems of treebanks that settings were chosen on")
    parser.add_argument("--only", default="", help="stems of the treebanks to measure; all if empty")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    choosing, only = ([stem for stem in text.split(",") if stem] for text in (args.choosing, args.only))
    results: dict[str, dict[str, tuple[float, float]]] = {}
    treebanks = files(args.folders)
    sources = Sources.count(read_treebanks(learnt_from(parts) for parts in treebanks.values()))
    for stem, parts in treebanks.items():
        if only and stem not in only:
            continue
        results[stem] = measured(parts, sources.without(stem.split("_")[0]))
        names = " | ".join(results[stem])
        if len(results) == 1:
            print(f"| treebank | {names} |\n|---{'|---:' * len(results[stem])}|")
        print(f"| {stem} | " + " | ".join(f"{whole:.1f}" for _, whole in results[stem].values()) + " |", flush=True)
    for name, own in (
        ("choosing", [s for s in results if s in choosing]),
        ("others", [s for s in results if s not in choosing]),
    ):
        for length, column in (("<= 10", 0), ("all", 1)) if own else ():
            means = [sum(results[s][row][column] for s in own) / len(own) for row in results[own[0]]]
            print(f"| mean of {len(own)} {name}, {length} | " + " | ".join(f"{m:.1f}" for m in means) + " |")


if __name__ == "__main__":
    main()
