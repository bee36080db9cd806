# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A run of a context-free grammar: its folder, and trees for files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor

from pyrogram.choices import best
from pyrogram.cli.io.corpora import WholeFile, name_of, read_corpus, read_whole
from pyrogram.cli.io.errors import CommandError
from pyrogram.cli.io.files import as_written, write_file
from pyrogram.cli.io.grammars import read_grammar
from pyrogram.cli.runs.evaluation import smoothed
from pyrogram.cli.runs.folder import CONFIG, GRAMMAR, read_weights, tags_and_smoothing, write_weights
from pyrogram.cli.runs.run import ParseOptions, Run
from pyrogram.cli.runs.starts import double_precision
from pyrogram.data.brackets import bracketed
from pyrogram.data.punctuation import kept_words
from pyrogram.data.records import Alphabet
from pyrogram.grammar import Weights
from pyrogram.grammars import CFG
from pyrogram.grammars.cfg_text import Word
from pyrogram.printable import quoted


@dataclass(frozen=True)
class PCFGRun(Run):
    """A context-free grammar with its weights.

    :param tags: what its terminals are.
    :param smoothing: how much of the uniform multinomial is mixed in before parsing.
    """

    grammar: CFG
    weights: Weights
    tags: Alphabet
    smoothing: float
    kind: ClassVar[str] = "CFG"

    @classmethod
    def load(cls, path: Path, config: dict[str, Any]) -> PCFGRun:
        with as_written(path / CONFIG):
            tags, smoothing = tags_and_smoothing(config)
        if not (path / GRAMMAR).is_file():
            raise CommandError(f"{path / GRAMMAR} is missing")
        grammar = read_grammar(path / GRAMMAR)
        return cls(grammar, read_weights(path, grammar), tags, smoothing)

    def write(self, path: Path) -> None:
        write_file(path / GRAMMAR, grammar_text(self.grammar, self.weights).encode())
        write_weights(path, self.weights)

    def description(self) -> dict[str, Any]:
        return {"kind": self.kind, "start": self.grammar.start, "rules": len(self.grammar.rules)}

    def symbols(self) -> Sequence[Any]:
        return list(self.grammar.words)

    def parse(self, file: Path, options: ParseOptions) -> Iterable[str]:
        """Bracketed trees, one to a line; () for none, and for a sentence of nothing but punctuation."""
        whole = read_whole(file, options.format, self.tags, "ignore")
        empty = [not any(kept_words(record)) for record in whole.sentences]
        trees: list[str] = []
        if not all(empty):
            with double_precision():
                words = read_sentences(whole, self.tags, options.format, self.grammar)
                weights = smoothed(self.grammar, self.weights, self.smoothing)
                trees = [one_line(tree) for tree in best_trees(self.grammar, weights, words, options.decoder)]
        parsed = iter(trees)
        return (("()" if none else next(parsed)) + "\n" for none in empty)

    def sample(self, num: int, max_length: int, brackets: bool) -> str:
        words, derivations = self.grammar.sample_trees(self.weights, (num,), max_length)
        trees = [self.grammar.tree(w[w >= 0], d[d >= 0]) for w, d in zip(words, derivations, strict=True)]
        return "".join(one_line(tree) + "\n" for tree in trees)


def read_sentences(source: Path | WholeFile, tags: str, format: str, grammar: CFG) -> Tensor:
    """The sentences of a file in words of the grammar, without punctuation.

    :param source: the file, or all that is in it.
    :raises CommandError: if a word is in no rule.
    """
    corpus = read_corpus(source, format=format, tags=tags, heads="ignore")
    known, name = set(grammar.words), name_of(source.path if isinstance(source, WholeFile) else source)
    for record in corpus:
        for word, line in zip(record.tags, record.lines, strict=True):
            if word not in known:
                advice = "add a rule for it, or say with --tags what its words are"
                raise CommandError(f"{name}, line {line}: no rule of the grammar has the word {quoted(word)}; {advice}")
    return grammar.encode(corpus.tags)


def best_trees(grammar: CFG, weights: Weights, words: Tensor, decoder: str = "viterbi") -> tuple[Any, ...]:
    """The most probable trees, or those with the most expected right spans; None for sentences without any."""
    rules = best(grammar.derivation(weights, words), decoder)
    return tuple(
        grammar.tree(w[w >= 0], d[d >= 0]) if int(d[0]) >= 0 else None for w, d in zip(words, rules, strict=True)
    )


def one_line(tree: Any) -> str:
    """A tree on one line; () for none."""
    return "()" if tree is None else bracketed(tree)


def grammar_text(grammar: CFG, weights: Weights) -> str:
    """The rules with probabilities, a left side to a line, as --grammar reads them, in the order of the weights."""
    by_left: dict[str, list[str]] = {}
    for (left, right), p in zip(grammar.rules, weights["rules"].tolist(), strict=True):
        symbols = " ".join(_quoted(s) if isinstance(s, Word) else s for s in right)
        by_left.setdefault(left, []).append(f"{symbols} [{p:.17g}]")
    start = "" if grammar.start == next(iter(by_left)) else f"%start {grammar.start}\n"
    return start + "".join(f"{left} -> {' | '.join(rights)}\n" for left, rights in by_left.items())


def _quoted(word: str) -> str:
    """A terminal in quotes; the notation has no escapes.

    :raises ValueError: if it holds a line end, or both kinds of quotes, as no terminal of a file does.
    """
    if re.search(r"[\r\n]|'.*\"|\".*'", word):
        raise ValueError(f"the terminal {quoted(word)} holds a line end or both kinds of quotes; rename it")
    return f'"{word}"' if "'" in word else f"'{word}'"
