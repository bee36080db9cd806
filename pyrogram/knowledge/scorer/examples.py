# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sentences as a scorer of arcs sees them: tags, segments of punctuation, and what a grammar thinks of their arcs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from tqdm import tqdm

from pyrogram.data import Corpus
from pyrogram.knowledge.languages import UNIVERSAL_TAGS, Sources
from pyrogram.knowledge.recipe import Induced, induce

LONGEST = 15  # words of sentences that grammars are learnt from,
FEWEST = 30  # unless there are fewer of them: then so many of the shortest
MOST = 500  # and never more,
MOST_WORDS = 200  # nor longer ones, whose charts take minutes
CHUNK = 500  # sentences whose posteriors are in memory at a time
CELLS = 100_000  # arcs whose features are in memory at a time


@dataclass(frozen=True, eq=False)
class Examples:
    """N sentences of at most n words, as a scorer sees them, with trees to learn from or without.

    :param words: tags by their number in :data:`.UNIVERSAL_TAGS`, shape ``(N, n)``, padded with -1.
    :param segments: the number of the segment of each word between marks of punctuation, shape ``(N, n)``, padded
        with -1.
    :param posterior: probabilities of arcs under a grammar that has seen no tree of the language, shape
        ``(N, n+1, n+1)`` [head, dependent], zero in the padding.
    :param heads: shape ``(N, n)``, padded with -1; None if there are no trees.
    :raises ValueError: if shapes do not fit together.
    """

    words: Tensor
    segments: Tensor
    posterior: Tensor
    heads: Tensor | None = None

    def __post_init__(self) -> None:
        N, n = self.words.shape
        expected = {"segments": (N, n), "posterior": (N, n + 1, n + 1), "heads": (N, n)}
        for name, shape in expected.items():
            table = getattr(self, name)
            if table is not None and tuple(table.shape) != shape:
                raise ValueError(f"{name} must have shape {shape}, as words say, not {tuple(table.shape)}.")

    @classmethod
    def of(cls, corpus: Corpus, grammar: Induced) -> Examples:
        """The sentences of a corpus, with its trees if it has any.

        :param grammar: of the same vocabulary; its arcs are what :attr:`posterior` is.
        :raises ValueError: if a tag is not universal.
        """
        return cls(universal_words(corpus), corpus.segments, grammar.marginals(corpus).float(), corpus.heads)

    @property
    def lengths(self) -> Tensor:
        """Shape ``(N,)``."""
        return (self.words >= 0).sum(1)

    @property
    def inputs(self) -> tuple[Tensor, Tensor, Tensor]:
        """What a scorer is called with."""
        return self.words, self.segments, self.posterior

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, index: Tensor | slice) -> Examples:
        """Some of the sentences, padded to their own longest one."""
        n = int(self.lengths[index].max())
        heads = None if self.heads is None else self.heads[index, :n]
        return Examples(self.words[index, :n], self.segments[index, :n], self.posterior[index, : n + 1, : n + 1], heads)

    def with_heads(self, heads: Tensor) -> Examples:
        """The same sentences with other trees."""
        return replace(self, heads=heads)

    def batches(self, size: int = 32) -> Iterator[tuple[Tensor, Examples]]:
        """Numbers of sentences of like lengths, and these: ``size`` of them, or fewer long ones."""
        for some in self.lengths.argsort(stable=True).split(size):
            for index in some.split(max(1, CELLS // (int(self.lengths[some].max()) + 1) ** 2)):
                yield index, self[index]


def universal_words(corpus: Corpus) -> Tensor:
    """The number of every word's tag in :data:`.UNIVERSAL_TAGS`, shape ``(N, n)``, padded with -1.

    A word without a tag, ``_``, is X.

    :raises ValueError: if another tag is not universal.
    """
    number = {tag: i for i, tag in enumerate(UNIVERSAL_TAGS)} | {"_": UNIVERSAL_TAGS.index("X")}
    others = [tag for tag in corpus.vocab if tag not in number]
    if others:
        raise ValueError(
            f"the corpus must have universal tags, but has {', '.join(others[:5])}; read it with tags='upos' and "
            "without punctuation."
        )
    return torch.tensor([*(number[tag] for tag in corpus.vocab), -1])[corpus.words]


def short_text(corpus: Corpus) -> Corpus:
    """What :func:`grammar_of` learns from: at most 500 sentences of at most 15 words, or the 30 shortest ones.

    :raises ValueError: if all sentences have more than 200 words.
    """
    lengths = corpus.lengths.sort().values
    if int(lengths[0]) > MOST_WORDS:
        raise ValueError(
            f"corpus must have a sentence of at most {MOST_WORDS} words to learn from, but the shortest one has "
            f"{int(lengths[0])}; split it."
        )
    return corpus.filter(min(MOST_WORDS, max(LONGEST, int(lengths[min(FEWEST, len(lengths)) - 1]))))[:MOST]


def grammar_of(corpus: Corpus, sources: Sources) -> Induced:
    """The grammar whose arcs a scorer sees: ``induce(short_text(corpus), "languages")``.

    :param sources: treebanks of other languages than the corpus's.
    """
    text = short_text(corpus)
    return induce(text, "languages", sources=sources, max_length=int(text.lengths.max()))


def examples_of(
    treebanks: Mapping[str, Corpus],
    sources: Sources | None = None,
    *,
    max_sentences: int = 600,
    max_length: int = 40,
    progress: bool = True,
) -> dict[str, Examples]:
    """The projective trees of treebanks, with the arcs of grammars that have seen no tree of their languages.

    :param treebanks: by name, a language, an underscore and more; corpora with heads and universal tags.
    :param sources: from which each treebank's own language is left out; counts of the treebanks themselves by default.
    :param max_sentences: most sentences of a treebank, its first ones.
    :param max_length: most words of a sentence.
    :param progress: show a progress bar.
    :returns: by name; treebanks without any such tree are left out.
    :raises ValueError: if a treebank has no heads or tags that are not universal, or no other language is there.
    """
    sources = Sources.count(treebanks) if sources is None else sources
    examples = {}
    for name, corpus in tqdm(treebanks.items(), disable=not progress, desc="grammars of treebanks"):
        if corpus.heads is None:
            raise ValueError(f"treebank {name!r} has no heads; give one whose trees are known.")
        kept = corpus[corpus.is_projective & (corpus.lengths <= max_length)][:max_sentences]
        if len(kept):
            examples[name] = Examples.of(kept, grammar_of(corpus, sources.without(name.split("_")[0])))
    return examples
