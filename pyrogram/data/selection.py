# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""From sentences as they were read to those a corpus keeps: punctuation, alphabet, length, vocabulary."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from pyrogram.data.files import StrPath
from pyrogram.data.heads import check_heads
from pyrogram.data.punctuation import remove_punctuation
from pyrogram.data.records import MISSING, Alphabet, CorpusError, SentenceRecord
from pyrogram.data.vocabulary import Unknown, Vocabulary
from pyrogram.printable import quoted

Paths = StrPath | Iterable[StrPath]
Punctuation = Literal["remove", "keep"]
IN_MEMORY = "sentences in memory"
# What a file of CoNLL-U cannot hold in a word.
_NO_SYMBOL = re.compile("^ |  | $|[\0\t\n\r\ud800-\udfff]")


@dataclass(frozen=True)
class Options:
    """What all ways of reading a corpus share; :class:`pyrogram.data.Corpus` explains them.

    :param partial: whether some words may have heads and others none.
    """

    tags: Alphabet
    vocab: Vocabulary | None
    punctuation: Punctuation
    max_length: int | None
    unknown: Unknown
    lowercase: bool
    partial: bool = False

    def __post_init__(self) -> None:
        for name, kind in (("tags", Alphabet), ("punctuation", Punctuation), ("unknown", Unknown)):
            check_choice(name, getattr(self, name), get_args(kind))
        if self.max_length is not None and self.max_length < 1:
            raise ValueError(f"expected max_length to be at least 1, or None, actual {self.max_length}.")
        if self.lowercase and self.tags != "form":
            raise ValueError(f"expected tags='form' with lowercase=True, actual tags={self.tags!r}.")


def check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """:raises ValueError: unless the argument is one of the choices."""
    if value not in choices:
        raise ValueError(f"expected {name} to be one of {', '.join(map(repr, choices))}, actual {value!r}.")


@dataclass(frozen=True)
class Selection:
    """The sentences of a corpus, their vocabulary, and how many sentences were only punctuation."""

    records: list[SentenceRecord]
    vocab: Vocabulary
    dropped: int


def select(sources: Iterable[tuple[str, Iterable[SentenceRecord]]], options: Options) -> Selection:
    """The sentences that stay, with their symbols.

    :param sources: names of files with what was read from each.
    :raises CorpusError: a token without the tag asked for, a source with nothing but punctuation, nothing
        short enough, some sentences with heads and some without.
    """
    records, dropped, names = [], 0, []
    for name, source in sources:
        names.append(name)
        kept, total = [], 0
        for record in source:
            total += 1
            whole = record if options.punctuation == "keep" else remove_punctuation(record)
            if whole is not None:
                kept.append(replace(whole, tags=_symbols(whole, options)))
        if not kept:
            if not total:
                raise CorpusError(name, None, "there is no sentence; give at least one")
            problem, advice = f"all {total} sentences are only punctuation", "read them with punctuation='keep'"
            raise CorpusError(name, None, problem, advice, "punctuation")
        if options.tags == "form" and all(form == MISSING for record in kept for form in record.forms):
            problem, advice = "column FORM is empty (_) in the whole file", "read it with tags='upos' or 'xpos'"
            raise kept[0].error(problem, 0, advice, "tags")
        dropped += total - len(kept)
        records += [r for r in kept if options.max_length is None or len(r) <= options.max_length]
    if not records:
        problem = f"no sentence has at most {options.max_length} words; raise max_length"
        raise CorpusError(", ".join(names), None, problem)
    if not options.partial:
        _check_all_or_none(records)
    vocab = options.vocab
    if vocab is None:
        vocab = Vocabulary.count(symbol for record in records for symbol in record.tags)
    return Selection(records, vocab, dropped)


def _symbols(record: SentenceRecord, options: Options) -> tuple[str, ...]:
    if options.tags == "form":
        return tuple(f.lower() for f in record.forms) if options.lowercase else record.forms
    column = record.upos if options.tags == "upos" else record.xpos
    if options.tags == "upos" and "CONJ" in column and (options.vocab is None or "CONJ" not in options.vocab):
        column = tuple("CCONJ" if tag == "CONJ" else tag for tag in column)
    if MISSING in column:
        i = column.index(MISSING)
        others = " or ".join(repr(a) for a in get_args(Alphabet) if a != options.tags)
        name = options.tags.upper()
        problem = f"the word {quoted(record.forms[i])} has no {name} (_)"
        raise record.error(problem, i, f"read the file with tags={others}", "tags")
    return column


def _check_all_or_none(records: list[SentenceRecord]) -> None:
    without = [r for r in records if r.heads is None]
    if 0 < len(without) < len(records):
        problem = "this sentence has no heads (_), though others of the corpus do"
        raise without[0].error(problem, 0, "annotate it, or read the words alone with heads='ignore'", "heads")


def encode(records: Sequence[SentenceRecord], vocab: Vocabulary, unknown: Unknown) -> list[int]:
    """The ids of all symbols of all sentences, one after the other.

    :raises CorpusError: with ``unknown="error"``, for the first symbol that the vocabulary lacks.
    """
    ids: list[int] = []
    for record in records:
        try:
            ids += vocab.encode(record.tags, unknown)
        except KeyError:
            i = next(i for i, symbol in enumerate(record.tags) if symbol not in vocab)
            lacks = f"the symbol {quoted(record.tags[i])} is not in the vocabulary of {len(vocab)} symbols"
            advice = "read the file with unknown='most_frequent', or with a vocabulary that has it"
            raise record.error(lacks, i, advice, "unknown") from None
    return ids


def in_memory(
    sentences: Iterable[Sequence[str]],
    forms: Iterable[Sequence[str]] | None,
    heads: Iterable[Sequence[int]] | None,
    tags: Alphabet,
) -> Iterator[SentenceRecord]:
    """Records of sequences; see :meth:`pyrogram.data.Corpus.from_sentences`."""
    symbols = [tuple(sentence) for sentence in sentences]
    words = [tuple(sentence) for sentence in forms] if forms is not None else symbols
    trees = [tuple(int(h) for h in tree) for tree in heads] if heads is not None else [None] * len(symbols)
    for name, column in (("forms", words), ("heads", trees)):
        if len(column) != len(symbols):
            raise ValueError(f"expected {name} of {len(symbols)} sentences, actual {len(column)}.")
    for number, (symbol, word, tree) in enumerate(zip(symbols, words, trees, strict=True), 1):
        if not symbol:
            raise CorpusError(IN_MEMORY, number, "this sentence is empty; leave it out")
        for name, row in (("forms", word), ("heads", tree)):
            if row is not None and len(row) != len(symbol):
                problem = f"expected {len(symbol)} {name}, one per token, actual {len(row)}; give as many"
                raise CorpusError(IN_MEMORY, number, problem)
        for token in (*symbol, *word):
            if not isinstance(token, str) or not token or _NO_SYMBOL.search(token):
                given = quoted(token) if isinstance(token, str) else repr(token)
                advice = (
                    "give strings, not empty, without tabs, line ends, NUL, needless spaces, halves of surrogate pairs"
                )
                problem = f"{given} is no symbol; {advice}"
                raise CorpusError(IN_MEMORY, number, problem)
        none = (MISSING,) * len(symbol)
        record = SentenceRecord(
            forms=word if tags != "form" or forms is not None else symbol,
            upos=symbol if tags == "upos" else none,
            xpos=symbol if tags == "xpos" else none,
            heads=tree,
            lines=(number,) * len(symbol),
            source=IN_MEMORY,
        )
        check_heads(record)
        yield record
