# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What a reader of columns gives, beside one of records, which is its oracle."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from random import Random
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


def check_first_errors(
    path: Path,
    seed: str,
    mutated: Callable[[Random], bytes],
    read: Callable[[], Iterable[SentenceRecord]],
    made: Callable[..., Corpus],
    tags: Alphabet,
) -> None:
    """Corpora of broken files, and what is wrong with them first, are those of records.

    :param mutated: what to write into the file.
    :param read: its records.
    :param made: the corpus of it, by way of columns.
    """
    rng = Random(seed)
    for _ in range(200):
        path.write_bytes(mutated(rng))
        options = Options(tags, None, rng.choice(["remove", "keep"]), rng.choice([None, 1, 4]), "most_frequent", False)
        given = {"tags": tags, "punctuation": options.punctuation, "max_length": options.max_length}
        expected = outcome(lambda options=options: of_records(read, str(path), options))  # type: ignore[misc]
        assert outcome(lambda given=given: contents(made(path, **given))) == expected, path.read_bytes()  # type: ignore[misc]
