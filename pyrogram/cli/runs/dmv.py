# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A run of the dependency model with valence: its folder, and trees for files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from pyrogram.cli.io.corpora import note_unknown, read_corpus, read_whole
from pyrogram.cli.io.errors import CommandError
from pyrogram.cli.io.files import as_written, read_safetensors, write_file
from pyrogram.cli.io.trees import dependency_text
from pyrogram.cli.runs.evaluation import parse_corpus, smoothed
from pyrogram.cli.runs.folder import CONFIG, FORMAT, PAIRS, has_classes, read_weights, tags_and_smoothing, write_weights
from pyrogram.cli.runs.knowledge import read_assumed, write_assumed
from pyrogram.cli.runs.run import ParseOptions, Run
from pyrogram.cli.runs.starts import double_precision
from pyrogram.cli.runs.word_classes import read_tagger, write_tagger
from pyrogram.data import Corpus, Vocabulary, WordTags
from pyrogram.data.heads import rows_of_heads
from pyrogram.data.punctuation import heads_with_punctuation, kept_words
from pyrogram.data.records import Alphabet
from pyrogram.grammar import Weights
from pyrogram.grammars import DMV, SparseDMV
from pyrogram.infer.running.checkpoint import safetensors_bytes
from pyrogram.knowledge import Assumed
from pyrogram.printable import quoted

SEEN = "seen"  # of attachments: only those of pairs that were seen


@dataclass(frozen=True)
class DMVRun(Run):
    """A DMV with its weights.

    :param tags: what kind of symbols it has learnt from.
    :param smoothing: how much of the uniform multinomial is mixed in before parsing.
    :param tagger: None, or what gives words their symbols.
    :param assumed: None, or what its trees are parsed under besides the weights.
    """

    grammar: DMV
    weights: Weights
    vocab: Vocabulary
    tags: Alphabet
    smoothing: float
    tagger: WordTags | None = None
    assumed: Assumed | None = None
    kind: ClassVar[str] = "DMV"

    @property
    def is_plain(self) -> bool:
        """Whether it is a DMV with its weights and nothing else."""
        return self.tagger is None and self.assumed is None and not isinstance(self.grammar, SparseDMV)

    @classmethod
    def load(cls, path: Path, config: dict[str, Any]) -> DMVRun:
        with as_written(path / CONFIG):
            vocab = Vocabulary.from_list(config["vocabulary"])
            tags, smoothing = tags_and_smoothing(config)
            valence, number = config["grammar"]["valence_attach"], config["grammar"].get("num_valences", 2)
            if not isinstance(valence, bool) or type(number) is not int:
                raise TypeError
            is_sparse = config["grammar"].get("attachments") == SEEN
            grammar = None if is_sparse else DMV(len(vocab), valence_attach=valence, num_valences=number)
            informed = config["settings"].get("knowledge", "none") != "none"
        if grammar is None:
            tensors = read_safetensors(path / PAIRS)
            with as_written(path / PAIRS):
                grammar = SparseDMV(len(vocab), tensors["pairs"], valence_attach=valence, num_valences=number)
        tagger = read_tagger(path) if has_classes(config) else None
        assumed = read_assumed(path) if informed else None
        return cls(grammar, read_weights(path, grammar), vocab, tags, smoothing, tagger, assumed)

    def write(self, path: Path) -> None:
        write_weights(path, self.weights)
        if isinstance(self.grammar, SparseDMV):
            write_file(path / PAIRS, safetensors_bytes({"pairs": self.grammar.pairs}, {"format": FORMAT}))
        if self.tagger is not None:
            write_tagger(path, self.tagger)
        if self.assumed is not None:
            write_assumed(path, self.assumed)

    def description(self) -> dict[str, Any]:
        valences = {"valence_attach": self.grammar.valence_attach, "num_valences": self.grammar.num_valences}
        kept = {"attachments": SEEN} if isinstance(self.grammar, SparseDMV) else {}
        return {"kind": self.kind, "num_tags": len(self.vocab), **valences, **kept}

    def symbols(self) -> Sequence[Any]:
        return self.vocab.to_list()

    def parse(self, file: Path, options: ParseOptions) -> Iterable[str]:
        """Parse without punctuation, and attach it (:func:`~pyrogram.data.punctuation.attach_punctuation`)."""
        whole = read_whole(file, options.format, self.tags, "ignore", keep_text=True)
        trees: Iterable[Sequence[int]] = ()
        if any(any(kept_words(record)) for record in whole.sentences):
            corpus = read_corpus(
                whole,
                tags=self.tags,
                vocab=None if self.tagger else self.vocab,
                unknown=options.unknown,
                heads="ignore",
                no_tags_option=f"give a file that has it, for the grammar was learnt with --tags {self.tags}",
            )
            if self.tagger is not None:
                corpus = self.tagger(corpus, self.vocab)
            note_unknown(corpus, file)
            with double_precision():
                weights = smoothed(self.grammar, self.weights, self.smoothing)
                heads = parse_corpus(self.grammar, weights, corpus, [options.decoder], self.assumed)
            trees = rows_of_heads(heads[options.decoder], corpus.lengths)
        return dependency_text(whole, heads_with_punctuation(whole.sentences, trees))

    def sample(self, num: int, max_length: int, brackets: bool) -> str:
        words, heads = self.grammar.sample_trees(self.weights, (num,), max_length)
        sentences = [self.vocab.decode(row) for row in words]
        trees = [row[: len(s)].tolist() for row, s in zip(heads, sentences, strict=True)]
        if brackets:
            return "".join(_bracketed(t, s) + "\n" for t, s in zip(trees, sentences, strict=True))
        return Corpus.from_sentences(
            sentences, heads=trees, tags="xpos" if self.tagger else self.tags, punctuation="keep"
        ).to_conllu()


def _bracketed(heads: Sequence[int], symbols: Sequence[str]) -> str:
    """A projective tree as nested brackets; each holds one bare symbol, its head.

    :raises CommandError: for a symbol with a bracket or a blank in it.
    """
    for symbol in symbols:
        if re.search(r"[\[\]\s]", symbol):
            raise CommandError(f"--format brackets cannot hold the symbol {quoted(symbol)}; give --format conllu")
    children: list[list[int]] = [[] for _ in range(len(heads) + 1)]
    for c, h in enumerate(heads, 1):
        children[h].append(c)
    order = [heads.index(0) + 1]
    for c in order:  # heads before what hangs on them
        order += children[c]
    inside = {c: symbols[c - 1] for c in order}
    for c in reversed(order):
        texts = [(d, f"[{inside[d]}]") for d in children[c]]
        inside[c] = " ".join(text for _, text in sorted([*texts, (c, symbols[c - 1])]))
    return inside[order[0]]
