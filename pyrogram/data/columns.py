# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sentences in columns: one array each of the words, tags, heads and lines of T tokens in N sentences.

Sentences lie one after the other, the tokens of sentence ``i`` from ``offsets[i]`` to ``offsets[i + 1]``. A token takes
some 12 bytes; in a record of its sentence (:class:`~pyrogram.data.SentenceRecord`), which is made when somebody asks
for it, 50 times as much.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import overload

import numpy as np

from pyrogram.data.punctuation import marks, segment_numbers
from pyrogram.data.records import Argument, CorpusError, Hints, SentenceRecord
from pyrogram.data.strings import Bools, Ints, Names, Strings, offsets_of, ranges
from pyrogram.printable import plural

#: How many words of a sentence have heads.
NONE, SOME, ALL = range(3)
_AT_A_TIME = 1024  # records that iteration makes


@dataclass(frozen=True)
class Columns:
    """N sentences with T tokens; the fields are those of :class:`~pyrogram.data.SentenceRecord`.

    :param offsets: where sentences begin, and the end of the last, shape ``(N + 1,)``.
    :param forms: T words.
    :param upos: T universal tags.
    :param xpos: T tags of the treebank.
    :param heads: as in CoNLL, -1 where unknown, shape ``(T,)``.
    :param annotated: how many words of each sentence have heads, ``NONE``, ``SOME`` or ``ALL``, shape ``(N,)``.
    :param first_lines: the line of the first token of each sentence, shape ``(N,)``.
    :param lines: of each token the number of lines after that of the first, shape ``(T,)``.
    :param sources: N names of files.
    :param sent_ids: N of them, or None.
    :param trimmed: which sentences punctuation was left out of, shape ``(N,)``.
    :param after_mark: tokens before which punctuation was left out, shape ``(T,)``; of first tokens it says nothing.
    :param hints: those of each sentence that has any, by its number.
    :param tags: T symbols; None as long as no alphabet is chosen.
    """

    offsets: Ints
    forms: Strings
    upos: Strings
    xpos: Strings
    heads: Ints
    annotated: Ints
    first_lines: Ints
    lines: Ints
    sources: Strings
    sent_ids: Names
    trimmed: Bools
    after_mark: Bools
    hints: Mapping[int, tuple[Hints, ...]] = field(default_factory=dict)
    tags: Strings | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def num_tokens(self) -> int:
        """T."""
        return int(self.offsets[-1])

    @property
    def lengths(self) -> Ints:
        """Number of tokens of each sentence, shape ``(N,)``."""
        return np.diff(self.offsets)

    @property
    def symbols(self) -> Strings:
        """The tags; an alphabet must have been chosen."""
        assert self.tags is not None
        return self.tags

    def take(self, chosen: Ints) -> Columns:
        """Some of the sentences, numbers from 0, in this order; one may come twice."""
        lengths = self.lengths[chosen]
        hints = self.hints and {i: self.hints[c] for i, c in enumerate(chosen.tolist()) if c in self.hints}
        return replace(
            self.take_tokens(ranges(self.offsets[chosen], lengths), offsets_of(lengths)),
            annotated=self.annotated[chosen],
            first_lines=self.first_lines[chosen],
            sources=self.sources.take(chosen),
            sent_ids=self.sent_ids.take(chosen),
            trimmed=self.trimmed[chosen],
            hints=hints,
        )

    def take_tokens(self, where: Ints, offsets: Ints) -> Columns:
        """Some of the tokens, in sentences with other offsets; all else of sentences stays."""
        forms, upos, xpos = (column.take(where) for column in (self.forms, self.upos, self.xpos))
        # Tags that are one of the columns as it stands go on to share its numbers.
        shared = {id(self.forms): forms, id(self.upos): upos, id(self.xpos): xpos}
        tags = None if self.tags is None else shared.get(id(self.tags)) or self.tags.take(where)
        return replace(
            self,
            offsets=offsets,
            forms=forms,
            upos=upos,
            xpos=xpos,
            heads=self.heads[where],
            lines=self.lines[where],
            after_mark=self.after_mark[where],
            tags=tags,
        )

    def rows(self, column: Strings) -> list[list[str]]:
        """A column of strings, sentence by sentence."""
        flat, at = column.to_list(), self.offsets.tolist()
        return [flat[a:b] for a, b in zip(at, at[1:], strict=False)]

    def segments(self, start: int, stop: int) -> Ints:
        """The number of the segment between marks, of each token of sentences that stand side by side.

        See :attr:`pyrogram.data.Corpus.segments`.
        """
        tokens = slice(int(self.offsets[start]), int(self.offsets[stop]))
        kept = ~marks(self.upos.take(tokens), self.xpos.take(tokens))
        return segment_numbers(kept, self.offsets[start : stop + 1] - tokens.start, self.after_mark[tokens])

    def records(self, start: int, stop: int) -> list[SentenceRecord]:
        """Sentences that stand side by side, as records."""
        at = self.offsets[start : stop + 1].tolist()
        tokens, here = slice(at[0], at[-1]), slice(start, stop)
        forms, upos, xpos = (column.take(tokens).to_list() for column in (self.forms, self.upos, self.xpos))
        tags = [] if self.tags is None else self.tags.take(tokens).to_list()
        heads, lines = self.heads[tokens].tolist(), self.lines[tokens].tolist()
        segments = self.segments(start, stop).tolist() if self.trimmed[here].any() else []
        annotated, firsts, trimmed = (a[here].tolist() for a in (self.annotated, self.first_lines, self.trimmed))
        names, sources = self.sent_ids.to_list(start, stop), self.sources.take(here).to_list()
        records = []
        for i in range(stop - start):
            part = slice(at[i] - at[0], at[i + 1] - at[0])
            first, tree = firsts[i], tuple(heads[part])
            record = SentenceRecord(
                forms=tuple(forms[part]),
                upos=tuple(upos[part]),
                xpos=tuple(xpos[part]),
                heads=tree if annotated[i] == ALL else None,
                lines=tuple([first + line for line in lines[part]]),
                source=sources[i],
                sent_id=names[i],
                tags=tuple(tags[part]),
                known_heads=tree if annotated[i] == SOME else None,
                hints=self.hints.get(start + i),
                segments=tuple(segments[part]) if trimmed[i] else None,
            )
            records.append(record)
        return records

    def error(self, token: int, problem: str, advice: str = "", argument: Argument | None = None) -> CorpusError:
        """An error at a token (of all, counted from 0), to be raised by the caller."""
        i = int(np.searchsorted(self.offsets, token, side="right")) - 1
        line = int(self.first_lines[i]) + int(self.lines[token])
        return CorpusError(self.sources.table[int(self.sources.ids[i])], line, problem, advice, argument)


class Sentences(Sequence[SentenceRecord]):
    """The sentences of columns as records, each made when it is asked for."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns

    def __len__(self) -> int:
        return len(self._columns)

    @overload
    def __getitem__(self, index: int) -> SentenceRecord: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[SentenceRecord, ...]: ...

    def __getitem__(self, index: int | slice) -> SentenceRecord | tuple[SentenceRecord, ...]:
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(len(self))))
        at = range(len(self))[index]
        return self._columns.records(at, at + 1)[0]

    def __iter__(self) -> Iterator[SentenceRecord]:
        for start in range(0, len(self), _AT_A_TIME):
            yield from self._columns.records(start, min(start + _AT_A_TIME, len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (Sentences, tuple)):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"<{plural(len(self), 'sentence')}>"
