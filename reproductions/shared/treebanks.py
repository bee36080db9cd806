# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What the tables of Wallach, Sutton and McCallum (2008) share: treebanks of words, and scores without punctuation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from pyrogram.cli.io.corpora import note_unknown, read_corpus
from pyrogram.cli.io.errors import CommandError, note
from pyrogram.data import Corpus
from pyrogram.data.lexical import LexicalCorpus, Unseen
from pyrogram.metrics import accuracy_by_length
from pyrogram.printable import plural

SAMPLES = 10  #: sampled trees of every test sentence
BINS = (10, 20, 40, None)
_DEMO_SENTENCES, _DEMO_TEST_SEED = 400, 1


@dataclass(frozen=True, eq=False)
class Part:
    """Sentences as tensors, see :class:`pyrogram.data.lexical.LexicalCorpus`."""

    name: str
    words: Tensor
    tags: Tensor
    cases: Tensor
    heads: Tensor
    is_scored: Tensor

    @staticmethod
    def of(name: str, corpus: LexicalCorpus) -> Part:
        """What an experiment needs of a corpus."""
        assert corpus.tags is not None and corpus.heads is not None
        return Part(name, corpus.words, corpus.tags, corpus.cases, corpus.heads, corpus.is_scored)


@dataclass(frozen=True, eq=False)
class Treebanks:
    """Sentences to learn from and to test on, and what their numbers are called."""

    train: Part
    test: Part
    lexicon: tuple[str, ...]
    tag_names: tuple[str, ...]


def check_files(table: str, files: Mapping[str, Path]) -> None:
    """Refuse other files than ``train`` and ``test``.

    :raises CommandError: if a file is missing or there is one too many.
    """
    others = [f"--{name}" if name != "train2" else "TRAIN2" for name in files if name not in ("train", "test")]
    if others:
        told = " and ".join(others)
        raise CommandError(f"reproduce {table} learns from TRAIN and stops by itself; leave out {told}")
    if "test" in files and "train" not in files:
        raise CommandError("the built-in corpus brings its own sentences; give TRAIN, or leave out --test")
    if "train" in files and "test" not in files:
        raise CommandError("give --test, a treebank that trees are compared with")


def read_treebanks(files: Mapping[str, Path], tags: str, unseen: Unseen, format: str) -> Treebanks:
    """Both files, or samples of the built-in corpus if there are none.

    :param unseen: which words are known, see :mod:`pyrogram.data.lexical`.
    """
    if files:
        train = read_corpus(files["train"], format=format, tags=tags, heads="required", punctuation="keep")
        test = read_corpus(
            files["test"], format=format, tags=tags, vocab=train.vocab, heads="required", punctuation="keep"
        )
        note_unknown(test, files["test"])
        names = files["train"].name, files["test"].name
    else:
        note("no TRAIN was given: this is the built-in corpus, made up by a grammar")
        train = Corpus.builtin(_DEMO_SENTENCES)
        test = Corpus.builtin(_DEMO_SENTENCES // 4, seed=_DEMO_TEST_SEED, vocab=train.vocab)
        names = "the built-in corpus", "another sample of it"
    ours = LexicalCorpus.from_corpus(train, unseen=unseen, test=test if unseen == "test" else None)
    theirs = LexicalCorpus.from_corpus(test, like=ours)
    symbols = tuple(ours.lexicon.vocab.symbols), tuple(ours.tag_vocab.symbols)
    return Treebanks(Part.of(names[0], ours), Part.of(names[1], theirs), *symbols)


def accuracies(name: str, trees: Tensor | Sequence[Tensor], test: Part) -> dict[str, float]:
    """Directed accuracy without punctuation, the mean over trees, as metrics ``name`` and, by length, ``name_10``, ...

    :param trees: heads of all test sentences, shape ``(samples, N, n)``.
    """
    bins = [accuracy_by_length(heads, test.heads, BINS, test.is_scored) for heads in trees]
    scores = {}
    for i, bound in enumerate(BINS):
        known = [share for b in bins if (share := b[i].directed) is not None]
        scores[name if bound is None else f"{name}_{bound}"] = sum(known) / len(known) if known else math.nan
    return scores


def about_data(train: Part, test: Part, words: int, unseen: str) -> tuple[str, ...]:
    """Footnotes on the sentences."""
    return (
        f"learnt from {plural(len(train.words), 'sentence')} of {train.name}, "
        f"{plural(int((train.words >= 0).sum()), 'token')}, with "
        f"their trees; tested on {len(test.words):,} of {test.name}, "
        f"{plural(int(test.is_scored.sum()), 'token')} without "
        f"punctuation, which is parsed, too, but not scored, nor counted in lengths.",
        f"{plural(words, 'word')}, in lower case. "
        + (
            "Those that occur once in training, and unknown ones, are classes by digits, hyphens and endings; the "
            "paper's rule looks at the words of the test sentences (--unseen test)."
            if unseen == "rare"
            else "Classes by digits, hyphens and endings stand for words of the test sentences that training lacks, "
            "and for those once in training and never in the test sentences, as in the paper."
        ),
    )
