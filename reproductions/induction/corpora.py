# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""From files to languages: one alphabet for all corpora, so that grammars of two languages can share experts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pyrogram.cli.io.corpora import note_unknown, read_corpus
from pyrogram.cli.io.errors import CommandError
from pyrogram.data import Corpus, Vocabulary
from pyrogram.grammars import DMV
from pyrogram.printable import plural
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

    def learnt(self, pooled: bool) -> list[Path]:
        """Those that are learnt from: TRAIN or, pooled, all."""
        return [self.train, self.dev, *([self.test] if self.test else [])] if pooled else [self.train]


def read_languages(settings: StudySettings, files: Sequence[Files], format: str) -> tuple[Language, ...]:
    """Read what is to be learnt from, held out and tested on.

    :raises CommandError: if a file cannot be used, or is not there.
    """
    wholes = [_whole(treebank, settings, format) for treebank in files]
    vocab = wholes[0].vocab
    if len(wholes) > 1:
        vocab = _union(wholes)
    languages = []
    for whole, treebank in zip(wholes, files, strict=True):
        parts = {}
        if treebank.test is not None and not settings.pooled:
            parts["test"] = _other(treebank.test, settings, format, vocab)
            if parts["test"].heads is None:
                raise CommandError(f"{treebank.test} has no heads; give a treebank to test on")
        dev = _other(treebank.dev, settings, format, vocab)
        name = " + ".join(map(str, treebank.learnt(settings.pooled)))
        languages.append(_language(name, settings, recoded(whole, vocab), dev, parts))
    return tuple(languages)


def demo_languages(settings: StudySettings) -> tuple[Language, ...]:
    """The built-in English corpus and, for the table of two languages, the same read from right to left."""
    train = Corpus.builtin(DEMO_SENTENCES)
    dev, test = (
        Corpus.builtin(DEMO_SENTENCES // 4, seed=seed, vocab=train.vocab) for seed in (DEMO_DEV_SEED, DEMO_TEST_SEED)
    )
    texts = {"built-in corpus": (train, dev, test)}
    if settings.table == "shared":
        texts["built-in corpus from right to left"] = mirrored(train), mirrored(dev), mirrored(test)
    languages = []
    for name, (text, held_out, unseen) in texts.items():
        pooled = settings.pooled
        whole = Corpus.concatenate([text, held_out, unseen]) if pooled else text
        languages.append(_language(name, settings, whole, held_out, {} if pooled else {"test": unseen}))
    return tuple(languages)


def recoded(corpus: Corpus, vocab: Vocabulary) -> Corpus:
    """The same sentences with the ids of a vocabulary that has all their symbols."""
    return replace(corpus, vocab=vocab)


def mirrored(corpus: Corpus) -> Corpus:
    """Every sentence from right to left, with its tree: another language, whose structure is known."""
    assert corpus.heads is not None
    heads = [
        [h and n + 1 - h for h in reversed(row[:n])]
        for row, n in zip(corpus.heads.tolist(), corpus.lengths.tolist(), strict=True)
    ]
    tags, forms = ([part[::-1] for part in rows] for rows in (corpus.tags, corpus.forms))
    return Corpus.from_sentences(tags, forms=forms, heads=heads, vocab=corpus.vocab)


def _whole(treebank: Files, settings: StudySettings, format: str) -> Corpus:
    """All sentences that are learnt from, if they are short enough."""
    paths, tags = treebank.learnt(settings.pooled), settings.common.tags
    corpora = [read_corpus(path, format=format, tags=tags, heads="required") for path in paths]
    if len(corpora) == 1:
        return corpora[0]
    vocab = _union(corpora)
    return Corpus.concatenate([recoded(corpus, vocab) for corpus in corpora])


def _union(corpora: Sequence[Corpus]) -> Vocabulary:
    """The vocabulary of all sentences."""
    return Vocabulary.count(tag for corpus in corpora for tags in corpus.tags for tag in tags)


def _other(path: Path, settings: StudySettings, format: str, vocab: Vocabulary) -> Corpus:
    common = settings.common
    corpus = read_corpus(path, format=format, tags=common.tags, vocab=vocab, unknown=common.unknown)
    note_unknown(corpus, path)
    return corpus


def _language(name: str, settings: StudySettings, whole: Corpus, dev: Corpus, parts: dict[str, Corpus]) -> Language:
    vocab = whole.vocab
    if len(vocab) > MOST_TAGS:
        raise CommandError(
            f"--tags {settings.common.tags} gives {plural(len(vocab), 'symbol')}, and there is a "
            f"covariance for every pair of "
            f"them; {MOST_TAGS} is the limit"
        )
    short = _short(whole, settings.common.max_length, "--max-length")
    if settings.dev_max_length is not None:
        dev = _short(dev, settings.dev_max_length, "--dev-max-length")
    families = default_families(settings.common.tags, vocab.symbols)
    parts = {**parts, "all" if settings.pooled else "train": whole}
    return Language(name, DMV(len(vocab)), short, dev, parts, families)


def _short(corpus: Corpus, bound: int, option: str) -> Corpus:
    short = corpus.filter(bound)
    if not len(short):
        shortest = int(corpus.lengths.min())
        raise CommandError(
            f"{option} {bound} leaves no sentence of {corpus.sentences[0].source}, whose shortest "
            f"has {plural(shortest, 'word')}"
        )
    return short
