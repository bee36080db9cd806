# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Files of all formats to columns, in one pass; what stays of them is decided while they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import get_args

from pyrogram.choices import check_choice
from pyrogram.data.bracket_columns import read_bracket_columns
from pyrogram.data.columns import Columns
from pyrogram.data.conllu import Heads
from pyrogram.data.conllu_columns import read_conllu_columns
from pyrogram.data.files import Part, parts
from pyrogram.data.formats import Kind
from pyrogram.data.gathering import concatenate
from pyrogram.data.records import Alphabet, CorpusError
from pyrogram.data.selection import Options, Selection, select
from pyrogram.data.streams import blocks
from pyrogram.data.tagged_columns import read_tagged_columns, tagged_parts


@dataclass(frozen=True)
class Reader:
    """How files of one format are read.

    :param parts: a file, whose name and bytes are given, in parts; raises what is wrong with it as a whole.
    :param columns: the sentences of a file, whose name and parts are given; raises what is wrong with one of them.
    """

    parts: Callable[[str, Iterator[bytes]], Iterator[Part]]
    columns: Callable[[str, Iterable[Part]], Iterator[Columns]]


def reader_of(kind: Kind, tags: Alphabet, heads: Heads = "optional") -> Reader:
    """The reader of a format.

    :param tags: of CoNLL-U, which has all of them, this makes no difference.
    :param heads: of CoNLL-U.
    """
    check_choice("format", kind, get_args(Kind))
    if kind == "conllu":
        return Reader(partial(parts, end=b"\n\n"), partial(read_conllu_columns, heads=heads))
    if kind == "brackets":
        return Reader(parts, partial(read_bracket_columns, universal=tags == "upos"))
    return Reader(tagged_parts, partial(read_tagged_columns, tags=tags))


def read(paths: Sequence[str], reader: Reader, options: Options) -> Selection:
    """What is to be kept of files; the first error is that of :func:`read_all`, or of what was asked for."""
    text: Iterator[Part] = iter(())

    def columns(path: str) -> Iterator[Columns]:
        nonlocal text
        text = reader.parts(path, blocks(path))
        return reader.columns(path, text)

    try:
        return select(((path, columns(path)) for path in paths), options)
    except CorpusError:
        _finish(text)
        raise


def read_all(path: str, reader: Reader, data: Iterator[bytes] | None = None) -> Columns:
    """All sentences of a file; what is wrong with it as a whole is told before what is wrong with a sentence.

    :param data: its bytes; None: those that are in it.
    """
    text = reader.parts(path, blocks(path) if data is None else data)
    try:
        return concatenate(reader.columns(path, text))
    except CorpusError:
        _finish(text)
        raise


def _finish(text: Iterator[Part]) -> None:
    for _ in text:
        pass
