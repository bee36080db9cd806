# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""From files to languages: one alphabet for all corpora, so that grammars of two languages can share experts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from pyrogram.cli.io.corpora import note_unknown, read_corpus
from pyrogram.cli.io.errors import CommandError
from pyrogram.data import Corpus, Vocabulary
from pyrogram.grammars import DMV
from reproductions.induction.learning import Language, default_families
from reproductions.shared.settings import StudySettings

DEMO_SENTENCES, DEMO_TEST_SEED, DEMO_DEV_SEED = 400, 1, 2
MOST_TAGS = 200  # a covariance for every tag and direction must fit into memory


@dataclass(frozen=True)
class Files:
    """Where a language is read from; ``test`` may be None."""

    train: Path
    dev: Path
    test: Path | None


def read_languages(settings: StudySettings, files: Sequence[Files], format: str) -> tuple[Language, ...]:
    """Read what is to be learnt from, held out and tested on.

    :raises CommandError: if a file cannot be used, or is not there.
    """
    common = settings.common
    wholes = [read_corpus(f.train, format=format, tags=common.tags, heads="required") for f in files]
    vocab = wholes[0].vocab
    if len(wholes) > 1:
        vocab = Vocabulary.count(tag for whole in wholes for tags in whole.tags for tag in tags)
    languages = []
    for whole, own in zip(wholes, files, strict=True):
        parts = {}
        if own.test is not None:
            parts["test"] = _other(own.test, settings, format, vocab)
            if parts["test"].heads is None:
                raise CommandError(f"{own.test} has no heads; give a treebank to test on")
        dev = _other(own.dev, settings, format, vocab)
        languages.append(_language(str(own.train), settings, recoded(whole, vocab), dev, parts))
    return tuple(languages)


def demo_languages(settings: StudySettings) -> tuple[Language, ...]:
    """The built-in English corpus and, for the table of two languages, the same read from right to left."""
    train = Corpus.builtin(DEMO_SENTENCES)
    dev, test = (
        Corpus.builtin(DEMO_SENTENCES // 4, seed=seed, vocab=train.vocab) for seed in (DEMO_DEV_SEED, DEMO_TEST_SEED)
    )
    languages = [_language("built-in corpus", settings, train, dev, {"test": test})]
    if settings.table == "shared":
        name = "built-in corpus from right to left"
        languages.append(_language(name, settings, mirrored(train), mirrored(dev), {"test": mirrored(test)}))
    return tuple(languages)


def recoded(corpus: Corpus, vocab: Vocabulary) -> Corpus:
    """The same sentences with the ids of a vocabulary that has all their symbols."""
    ids = torch.tensor([vocab.index(symbol) for symbol in corpus.vocab])
    words = torch.where(corpus.words >= 0, ids[corpus.words.clamp_min(0)], corpus.words)
    return replace(corpus, vocab=vocab, words=words)


def mirrored(corpus: Corpus) -> Corpus:
    """Every sentence from right to left, with its tree: another language, whose structure is known."""
    assert corpus.heads is not None
    heads = [
        [h and n + 1 - h for h in reversed(row[:n])]
        for row, n in zip(corpus.heads.tolist(), corpus.lengths.tolist(), strict=True)
    ]
    tags, forms = ([part[::-1] for part in parts] for parts in (corpus.tags, corpus.forms))
    return Corpus.from_sentences(tags, forms=forms, heads=heads, vocab=corpus.vocab)


def _other(path: Path, settings: StudySettings, format: str, vocab: Vocabulary) -> Corpus:
    common = settings.common
    corpus = read_corpus(path, format=format, tags=common.tags, vocab=vocab, unknown=common.unknown)
    note_unknown(corpus, path)
    return corpus


def _language(name: str, settings: StudySettings, whole: Corpus, dev: Corpus, parts: dict[str, Corpus]) -> Language:
    vocab = whole.vocab
    if len(vocab) > MOST_TAGS:
        raise CommandError(
            f"--tags {settings.common.tags} gives {len(vocab):,} symbols, and there is a covariance for every pair of "
            f"them; {MOST_TAGS} is the limit"
        )
    short = _short(whole, settings.common.max_length, "--max-length")
    if settings.dev_max_length is not None:
        dev = _short(dev, settings.dev_max_length, "--dev-max-length")
    families = default_families(settings.common.tags, vocab.symbols)
    return Language(name, DMV(len(vocab)), short, dev, {**parts, "train": whole}, families)


def _short(corpus: Corpus, bound: int, option: str) -> Corpus:
    short = corpus.filter(bound)
    if not len(short):
        shortest = int(corpus.lengths.min())
        raise CommandError(
            f"{option} {bound} leaves no sentence of {corpus.sentences[0].source}, whose shortest has {shortest} words"
        )
    return short
