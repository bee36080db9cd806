# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Columns of many parts: of records, and of columns with tables of their own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from pyrogram.data.columns import ALL, NONE, SOME, Columns
from pyrogram.data.records import MISSING, CorpusError, Hints, SentenceRecord
from pyrogram.data.strings import Ints, Names, Strings, Table, narrow, offsets_of

_AT_A_TIME = 4096  # records that are in memory
_STRINGS = ("forms", "upos", "xpos", "sources")
_ARRAYS = ("heads", "annotated", "first_lines", "lines", "trimmed", "after_mark")


class Doubt(Exception):
    """Sentences that cannot be read many at a time, but one by one, for something about them is not as usual."""


def sure(holds: bool | np.bool_) -> None:
    """:raises Doubt: unless it holds."""
    if not holds:
        raise Doubt


class Gathering:
    """Columns that grow by those of parts, the strings of all of which come into one table."""

    def __init__(self) -> None:
        self._tables: dict[str, Table] = {}
        self._parts: dict[str, list[Any]] = {}
        self._hints: dict[int, tuple[Hints, ...]] = {}
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, part: Columns) -> None:
        """Put sentences after those that there are; all parts have tags, or none has."""
        arrays = {name: getattr(part, name) for name in _ARRAYS}
        for name in _STRINGS if part.tags is None else (*_STRINGS, "tags"):
            arrays[name] = self._tables.setdefault(name, Table()).ids(getattr(part, name))
        arrays |= {"lengths": narrow(part.lengths), "text": part.sent_ids.text, "given": part.sent_ids.present}
        arrays["name_lengths"] = narrow(np.diff(part.sent_ids.offsets))
        for name, array in arrays.items():
            self._parts.setdefault(name, []).append(array)
        self._hints |= {self._size + i: hints for i, hints in part.hints.items()}
        self._size += len(part)

    def columns(self) -> Columns:
        """All of them, of at least one part; nothing can be added any more."""
        arrays: dict[str, Any] = {}
        while self._parts:  # so that the parts of only one column are in memory twice
            name, parts = self._parts.popitem()
            arrays[name] = np.concatenate(parts)
        arrays |= {name: Strings(arrays[name], table.to_list()) for name, table in self._tables.items()}
        names = Names(arrays.pop("text"), offsets_of(arrays.pop("name_lengths")), arrays.pop("given"))
        return Columns(offsets=offsets_of(arrays.pop("lengths")), sent_ids=names, hints=self._hints, **arrays)


def concatenate(parts: Iterable[Columns]) -> Columns:
    """The sentences of one or several columns, one after the other."""
    gathering = Gathering()
    for part in parts:
        gathering.add(part)
    return gathering.columns()


def in_columns(records: Iterable[SentenceRecord]) -> Iterator[Columns]:
    """Records as they were read, many at a time. Those before an error come before it is raised."""
    batch: list[SentenceRecord] = []
    try:
        for record in records:
            batch.append(record)
            if len(batch) == _AT_A_TIME:
                yield of_records(batch)
                batch = []
    except CorpusError:
        if batch:
            yield of_records(batch)
        raise
    if batch:
        yield of_records(batch)


def of_tokens(
    path: str, lengths: Ints, forms: Strings, tags: Strings, universal: bool, lines: Ints, heads: Ints | None = None
) -> Columns:
    """The columns of sentences of a file that has words and tags, or trees as well, and nothing else.

    :param lengths: number of tokens of each sentence, shape ``(N,)``.
    :param universal: whether the tags are universal ones, and not the treebank's.
    :param lines: of each sentence, shape ``(N,)``.
    :param heads: of all tokens, shape ``(T,)``; None if there are none.
    """
    N, T = len(lengths), len(forms)
    none = Strings(np.zeros(T, np.uint8), [MISSING])
    return Columns(
        offsets=offsets_of(lengths),
        forms=forms,
        upos=tags if universal else none,
        xpos=none if universal else tags,
        heads=np.full(T, -1, np.int8) if heads is None else narrow(heads),
        annotated=np.full(N, NONE if heads is None else ALL, np.uint8),
        first_lines=narrow(lines),
        lines=np.zeros(T, np.uint8),
        sources=Strings(np.zeros(N, np.uint8), [path]),
        sent_ids=Names.of([None] * N),
        trimmed=np.zeros(N, np.bool_),
        after_mark=np.zeros(T, np.bool_),
    )


def of_records(records: list[SentenceRecord]) -> Columns:
    """The columns of records that still have all of their tokens, and no tags."""
    lengths = [len(record) for record in records]
    trees = [record.heads or record.known_heads or (-1,) * len(record) for record in records]
    annotated = [ALL if r.heads is not None else NONE if r.known_heads is None else SOME for r in records]
    num_tokens = sum(lengths)
    return Columns(
        offsets=offsets_of(np.array(lengths, dtype=np.int64)),
        forms=Strings.of([form for record in records for form in record.forms]),
        upos=Strings.of([tag for record in records for tag in record.upos]),
        xpos=Strings.of([tag for record in records for tag in record.xpos]),
        heads=narrow(np.array([h for tree in trees for h in tree], dtype=np.int64)),
        annotated=np.array(annotated, dtype=np.uint8),
        first_lines=narrow(np.array([record.line for record in records], dtype=np.int64)),
        lines=narrow(np.array([line - r.line for r in records for line in r.lines], dtype=np.int64)),
        sources=Strings.of([record.source for record in records]),
        sent_ids=Names.of([record.sent_id for record in records]),
        trimmed=np.zeros(len(records), np.bool_),
        after_mark=np.zeros(num_tokens, np.bool_),
        hints={i: record.hints for i, record in enumerate(records) if record.hints is not None},
    )
