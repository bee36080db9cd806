# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""From sentences as they were read to those a corpus keeps: punctuation, alphabet, length, vocabulary."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from pyrogram.choices import check_choice
from pyrogram.data.columns import ALL, Columns
from pyrogram.data.files import StrPath
from pyrogram.data.gathering import Gathering
from pyrogram.data.heads import check_heads
from pyrogram.data.records import MISSING, NO_SYMBOL, Alphabet, CorpusError, SentenceRecord
from pyrogram.data.strings import Ints, Strings
from pyrogram.data.trimming import without_punctuation
from pyrogram.data.vocabulary import Unknown, Vocabulary
from pyrogram.printable import plural, quoted

Paths = StrPath | Iterable[StrPath]
Punctuation = Literal["remove", "keep"]
IN_MEMORY = "sentences in memory"
# What a file of CoNLL-U cannot hold in a word.
_NO_FORMS = "column FORM is empty (_) in the whole file", "read it with tags='upos' or 'xpos'"


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


@dataclass(frozen=True)
class Selection:
    """The sentences of a corpus, their vocabulary, and how many sentences were only punctuation."""

    columns: Columns
    vocab: Vocabulary
    dropped: int


def select(sources: Iterable[tuple[str, Iterable[Columns]]], options: Options) -> Selection:
    """The sentences that stay, with their symbols.

    :param sources: names of files with parts of their sentences, in order.
    :raises CorpusError: a token without the tag asked for, a source with nothing but punctuation, nothing
        short enough, some sentences with heads and some without, a symbol that the vocabulary lacks.
    """
    gathering, names, dropped = Gathering(), [], 0
    for name, parts in sources:
        names.append(name)
        dropped += _gather(gathering, name, parts, options)
    if options.max_length is not None and not len(gathering):
        problem = f"no sentence has at most {plural(options.max_length, 'word')}; raise max_length"
        raise CorpusError(", ".join(names), None, problem)
    columns = gathering.columns()
    if not options.partial:
        _check_all_or_none(columns)
    columns = replace(columns, tags=_symbols(columns, options))
    vocab = options.vocab
    if vocab is None:
        vocab = Vocabulary.of_counts(columns.symbols.counts())
    _check_known(columns, vocab, options.unknown)
    return Selection(columns, vocab, dropped)


def _gather(gathering: Gathering, name: str, parts: Iterable[Columns], options: Options) -> int:
    """Add what is to be kept of a source.

    :returns: how many sentences were only punctuation.
    """
    kept, total, first, words = 0, 0, None, False
    for part in parts:
        total += len(part)
        whole = part if options.punctuation == "keep" else without_punctuation(part)
        if not len(whole):
            continue
        _check_symbols(whole, options)
        kept, first = kept + len(whole), first or whole.error(0, *_NO_FORMS, "tags")
        words = words or any(form != MISSING for form in whole.forms.counts())
        if options.max_length is not None:
            whole = whole.take(np.flatnonzero(whole.lengths <= options.max_length))
        gathering.add(whole)
    if first is None:
        if not total:
            raise CorpusError(name, None, "there is no sentence; give at least one")
        problem = f"{plural(total, 'sentence is', 'sentences are')} only punctuation"
        raise CorpusError(name, None, problem, "read them with punctuation='keep'", "punctuation")
    if options.tags == "form" and not words:
        raise first
    return total - kept


def _check_symbols(columns: Columns, options: Options) -> None:
    if options.tags == "form":
        return
    without = (columns.upos if options.tags == "upos" else columns.xpos).where({MISSING: True})
    if without.any():
        i = int(without.argmax())
        others = " or ".join(repr(a) for a in get_args(Alphabet) if a != options.tags)
        problem = (
            f"the word {quoted(columns.forms.take(slice(i, i + 1)).to_list()[0])} has no {options.tags.upper()} (_)"
        )
        raise columns.error(i, problem, f"read the file with tags={others}", "tags")


def _symbols(columns: Columns, options: Options) -> Strings:
    """The words of a corpus: a column as it stands, in lower case, or with names of version 2."""
    if options.tags == "xpos":
        return columns.xpos
    if options.tags == "form":
        forms = columns.forms
        return forms.mapped([form.lower() for form in forms.table]) if options.lowercase else forms
    upos = columns.upos
    if "CONJ" not in upos.table or (options.vocab is not None and "CONJ" in options.vocab):
        return upos
    return upos.mapped(["CCONJ" if tag == "CONJ" else tag for tag in upos.table])


def _check_all_or_none(columns: Columns) -> None:
    without = columns.annotated != ALL
    if without.any() and not without.all():
        problem = "this sentence has no heads (_), though others of the corpus do"
        advice = "annotate it, or read the words alone with heads='ignore'"
        raise columns.error(int(columns.offsets[int(without.argmax())]), problem, advice, "heads")


def codes(symbols: Sequence[str], vocab: Vocabulary, unknown: Unknown) -> Ints:
    """The ids of symbols; of those that the vocabulary lacks, the most frequent one's, or -1 with ``"error"``."""
    default = vocab.index(vocab.most_frequent) if unknown == "most_frequent" else -1
    return np.array([vocab.index(symbol) if symbol in vocab else default for symbol in symbols], dtype=np.int64)


def _check_known(columns: Columns, vocab: Vocabulary, unknown: Unknown) -> None:
    table = columns.symbols.table
    lacking = (codes(table, vocab, unknown) < 0)[columns.symbols.ids]
    if lacking.any():
        i = int(lacking.argmax())
        lacks = (
            f"the symbol {quoted(table[columns.symbols.ids[i]])} is not in the vocabulary of "
            f"{plural(len(vocab), 'symbol')}"
        )
        advice = "read the file with unknown='most_frequent', or with a vocabulary that has it"
        raise columns.error(i, lacks, advice, "unknown")


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
            raise ValueError(f"expected {name} of {plural(len(symbols), 'sentence')}, actual {len(column)}.")
    for number, (symbol, word, tree) in enumerate(zip(symbols, words, trees, strict=True), 1):
        if not symbol:
            raise CorpusError(IN_MEMORY, number, "this sentence is empty; leave it out")
        for name, row in (("forms", word), ("heads", tree)):
            if row is not None and len(row) != len(symbol):
                problem = f"expected {len(symbol)} {name}, one per token, actual {len(row)}; give as many"
                raise CorpusError(IN_MEMORY, number, problem)
        for token in (*symbol, *word):
            if not isinstance(token, str) or NO_SYMBOL.search(token):
                shown = quoted(token) if isinstance(token, str) else repr(token)
                advice = (
                    "give strings, not empty, without tabs, line ends, NUL, needless spaces, halves of surrogate pairs"
                )
                problem = f"{shown} is no symbol; {advice}"
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
