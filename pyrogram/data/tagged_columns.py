# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Reading plain tagged text into columns, many sentences at a time; every token that differs is looked at once.

The format, and what is wrong with a token, is that of :mod:`pyrogram.data.tagged`, which reads sentence by sentence.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import numpy as np

from pyrogram.data.columns import Columns
from pyrogram.data.files import Part, lines_of, parts
from pyrogram.data.gathering import in_columns, of_tokens
from pyrogram.data.records import Alphabet, CorpusError
from pyrogram.data.strings import Strings
from pyrogram.data.tagged import check_format, has_slash, sentences_of, split_token, without_tag


def tagged_parts(path: str, data: Iterator[bytes]) -> Iterator[Part]:
    """A file of tagged text in parts of whole lines.

    :raises CorpusError: what :func:`~pyrogram.data.files.parts` raises; for a file of another format, or one of which
        some tokens have tags, but not the first.
    """
    text, again = itertools.tee(parts(path, data))
    try:
        check_format(path, lines_of(again))
        del again  # or all parts would be kept for it
        yield from _alike(path, text)
    except CorpusError:
        for _ in text:  # that it is no text is told first
            pass
        raise


def _alike(path: str, text: Iterator[Part]) -> Iterator[Part]:
    """The same, if the first token has a tag as soon as another one has."""
    first: tuple[int, str] | None = None  # the first token, if it has no slash
    for number, part in text:
        if not first:
            lines = enumerate(part.decode().split("\n"), number)
            first = next(((at, tokens[0]) for at, line in lines if (tokens := line.split())), None)
        if first and not has_slash(first[1]) and has_slash(part.decode()):
            raise without_tag(path, *first)
        yield number, part


def read_tagged_columns(path: str, text: Iterable[Part], tags: Alphabet = "xpos") -> Iterator[Columns]:
    """The sentences of a file as :func:`~pyrogram.data.tagged.read_tagged` gives them, in columns.

    :param text: the file in parts, see :func:`tagged_parts`.
    :raises CorpusError: what that raises, after the sentences before the one that is wrong.
    """
    with_slash: bool | None = None
    for number, part in text:
        lines = part.decode().split("\n")
        rows = [line.split() for line in lines]
        tokens = Strings.of([token for row in rows for token in row])
        if not len(tokens):
            continue
        if with_slash is None:
            with_slash = has_slash(tokens.table[0])
        try:
            pairs = [split_token(path, number, token, with_slash, tags) for token in tokens.table]
        except CorpusError:
            yield from in_columns(sentences_of(path, number, lines, with_slash, tags))
            continue
        lengths = np.array([len(row) for row in rows], dtype=np.int64)
        yield of_tokens(
            path,
            lengths[lengths > 0],
            tokens.mapped([form for form, _ in pairs]),
            tokens.mapped([tag for _, tag in pairs]),
            tags == "upos",
            number + np.flatnonzero(lengths),
        )
