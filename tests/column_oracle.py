# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What a reader of columns gives, beside one of records, which is its oracle."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pyrogram.data import Corpus, CorpusError
from pyrogram.data.columns import Sentences
from pyrogram.data.conllu import Heads
from pyrogram.data.formats import Kind
from pyrogram.data.gathering import in_columns
from pyrogram.data.reading import reader_of
from pyrogram.data.records import Alphabet, SentenceRecord
from pyrogram.data.selection import Options, select
from pyrogram.data.streams import blocks


def outcome(read: Callable[[], Iterable[Any]]) -> tuple[Any, ...]:
    """What comes before an error, and the error."""
    found: list[Any] = []
    try:
        found.extend(read())
    except CorpusError as error:
        return found, str(error), error.line, error.problem, error.advice, error.argument
    return (found,)


def records(path: str, kind: Kind, tags: Alphabet = "xpos", heads: Heads = "optional") -> Iterator[SentenceRecord]:
    """The sentences of a file by way of columns."""
    reader = reader_of(kind, tags, heads)
    for columns in reader.columns(path, reader.parts(path, blocks(path))):
        yield from Sentences(columns)


def contents(corpus: Corpus) -> list[Any]:
    """All that can differ between two corpora."""
    return [*corpus, corpus.vocab, corpus.dropped, corpus.words.tolist()]


def of_records(read: Callable[[], Iterable[SentenceRecord]], path: str, options: Options) -> list[Any]:
    """The corpus of records."""
    return contents(Corpus._of(select([(path, in_columns(read()))], options)))
