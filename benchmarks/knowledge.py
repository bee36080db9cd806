# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Accuracy of trees that are induced with more and more knowledge, over many treebanks.

    python benchmarks/knowledge.py FOLDER... [--choosing af_afribooms,ar_pud,...] [--only STEM,...] [--rows KIND,...]

Folders hold files of Universal Dependencies, ``STEM-ud-PART.conllu``. Trees are learnt from the tags and the
punctuation of the part ``train``, else ``dev``, else ``test``, and scored on ``test``, else on the same file: the
percentage of words with the right head, punctuation not counted. The supervised DMV sees the heads of the file that
the others learn from, of sentences of at most 40 words; where that is the file that is scored, it learns from one
half of the sentences and parses the other. Means are over treebanks, first over those that settings were chosen on,
then over the others. For "languages" the sources are all other treebanks, those of the target's language left out. A
treebank of PUD takes five seconds.

Scorers are learnt six times, each time without a sixth of the languages, which then are the targets: their trees are
neither among those that the scorer learns from, nor behind the arcs that it reads. A scorer takes a minute.

With ``--rows grammars,scorers,refit``, an extended DMV of three valences, and a parser of words, learn from the trees
that rules and languages give; the parser of words takes a quarter of a minute.
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
    ArcScorer,
    Examples,
    Sources,
    assumptions,
    closed_classes,
    count_once_roots,
    examples_of,
    function_words_are_leaves,
    induce,
    read_treebanks,
    reducibility,
    refit_induced,
    refit_words,
    universal_rules,
    zero_shot,
)
from pyrogram.knowledge.discovered import closed_tags
from pyrogram.metrics import accuracy_by_length, attach_left, attach_right

BINS = (10, None)
#: Languages, relatives side by side, so that every sixth one is in a group without most of its relatives.
RELATIVES = (
    *("af de nl en is da no sv", "fr es pt it gl ro la", "ru pl cs sk sl hr bg lt lv", "et fi", "ga gd cy"),
    *("hi mr fa hy", "tr kk ug", "ar mt", "zh yue th", "id tl", "ko ta wo yo pcm"),
)
NUM_GROUPS = 6


def files(folders: list[Path]) -> dict[str, dict[str, Path]]:
    """Files by treebank and part."""
    treebanks: dict[str, dict[str, Path]] = {}
    for folder in folders:
        for path in sorted(folder.glob("*-ud-*.conllu")):
            stem, part = path.stem.rsplit("-ud-", 1)
            treebanks.setdefault(stem, {})[part] = path
    return treebanks


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
        "+ punctuation = discovered": (assumptions(train, "discovered"), 3.0),
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
        rest, held_out = test[1 - fold :: 2], test[fold::2]
        heads[fold::2, : held_out.words.shape[1]] = parsed(rest, held_out)
    return heads


def parsed(train: Corpus, test: Corpus) -> Tensor:
    """Trees of one part by a DMV of the heads of another."""
    train = train.filter(40)
    grammar = DMV(len(train.vocab))
    weights = grammar.initial_weights(train.words, "supervised", heads=train.heads)
    heads = torch.full_like(test.words, -1)
    for chunk in test.lengths.argsort().split(64):
        n = int(test.lengths[chunk].max())
        heads[chunk, :n] = grammar.derivation(weights, test.words[chunk, :n]).mbr()
    return heads


def learnt_from(paths: Mapping[str, Path]) -> Path:
    """The file of a treebank that grammars are learnt from."""
    return paths.get("train") or paths.get("dev") or paths["test"]


def measured(
    paths: Mapping[str, Path], sources: Sources, scorer: ArcScorer, treebanks: Mapping[str, Examples], kinds: list[str]
) -> dict[str, tuple[float, float]]:
    """The scores of a treebank by row.

    :param sources: treebanks of other languages.
    :param scorer: learnt from some of them,
    :param treebanks: these.
    :param kinds: of rows: "grammars", "scorers", "refit".
    """
    learnt = learnt_from(paths)
    scored = paths.get("test", learnt)
    train = Corpus.from_conllu(learnt)
    test = Corpus.from_conllu(scored, vocab=train.vocab)
    results = {
        "attachment": max((scores(a(test.lengths), test) for a in (attach_left, attach_right)), key=lambda s: s[1])
    }
    if "grammars" in kinds:
        for name, (bias, punctuation) in rows(train).items():
            results[name] = scores(induce(train, bias, punctuation=punctuation).parse(test), test)
        for name, nats in (("languages", 0.0), ("+ punctuation = languages", 3.0)):
            results[name] = scores(induce(train, "languages", punctuation=nats, sources=sources).parse(test), test)
    if "scorers" in kinds:
        plain = zero_shot(train, scorer, sources, self_training=False)
        self_trained = zero_shot(train, scorer, sources)
        tuned = zero_shot(train, scorer, sources, treebanks=treebanks)
        results["zero-shot scorer"] = scores(plain.parse(test), test)
        results["+ self-trained"] = scores(self_trained.parse(test), test)
        results["+ fine-tuned, self-trained"] = scores(tuned.parse(test), test)
    if "refit" in kinds:
        for name in ("rules", "languages"):
            induced = induce(train, name, sources=sources if name == "languages" else None)
            grammar = DMV(len(train.vocab), valence_attach=True, num_valences=3)
            results[f"{name}, refit"] = scores(refit_induced(induced, train, grammar).parse(test), test)
            results[f"{name}, refit with words"] = scores(refit_words(induced, train).parse(test), test)
    if "grammars" in kinds:
        results["supervised"] = scores(supervised(train, test, learnt == scored), test)
    return results


def groups(stems: list[str]) -> list[list[str]]:
    """Treebanks by group, all those of a language in one."""
    languages = {stem.split("_")[0] for stem in stems}
    known = [language for language in " ".join(RELATIVES).split() if language in languages]
    order = [*known, *sorted(languages - set(known))]
    place = {stem: order.index(stem.split("_")[0]) % NUM_GROUPS for stem in stems}
    return [[stem for stem in stems if place[stem] == group] for group in range(NUM_GROUPS)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--choosing", default="", help="stems of treebanks that settings were chosen on")
    parser.add_argument("--only", default="", help="stems of the treebanks to measure; all if empty")
    parser.add_argument("--rows", default="grammars,scorers", help="kinds of rows")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    choosing, only = ([stem for stem in text.split(",") if stem] for text in (args.choosing, args.only))
    kinds = args.rows.split(",")
    results: dict[str, dict[str, tuple[float, float]]] = {}
    treebanks = files(args.folders)
    trees = read_treebanks(learnt_from(paths) for paths in treebanks.values())
    sources = Sources.count(trees)
    for group in groups(list(treebanks)):
        wanted = [stem for stem in group if not only or stem in only]
        languages = {stem.split("_")[0] for stem in group}
        examples, scorer = {}, ArcScorer()
        if wanted and "scorers" in kinds:
            others = {name: corpus for name, corpus in trees.items() if name.split("_")[0] not in languages}
            examples = examples_of(others, sources.without(*languages), progress=False)
            scorer = scorer.fitted(examples, num_epochs=2, progress=False)
        for stem in wanted:
            results[stem] = measured(treebanks[stem], sources.without(stem.split("_")[0]), scorer, examples, kinds)
            names = " | ".join(results[stem])
            if len(results) == 1:
                print(f"| treebank | {names} |\n|---{'|---:' * len(results[stem])}|")
            print(f"| {stem} | " + " | ".join(f"{whole:.1f}" for _, whole in results[stem].values()) + " |", flush=True)
    for name, stems in (
        ("choosing", [s for s in results if s in choosing]),
        ("others", [s for s in results if s not in choosing]),
    ):
        for length, column in (("<= 10", 0), ("all", 1)) if stems else ():
            means = [sum(results[s][row][column] for s in stems) / len(stems) for row in results[stems[0]]]
            print(f"| mean of {len(stems)} {name}, {length} | " + " | ".join(f"{m:.1f}" for m in means) + " |")


if __name__ == "__main__":
    main()
