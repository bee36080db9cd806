# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Reading text files a part at a time with errors that say where, and writing files that are never half written."""

from __future__ import annotations

import codecs
import itertools
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TextIO

import numpy as np

from pyrogram.atomic import write_atomically
from pyrogram.data.records import CorpusError
from pyrogram.data.streams import blocks

StrPath = str | os.PathLike[str]
#: Lines of a file: the number of the first, and their text in UTF-8.
Part = tuple[int, bytes]
_PART = 1 << 20  # least number of bytes of a part, but the last
_LF = 10
_BEGUN = re.compile(rb"\r?\n?(?:\xef\xbb?)?\Z")  # what may be the beginning of a line end with a byte order mark


def as_paths(path_or_paths: StrPath | Iterable[StrPath]) -> list[str]:
    """One path or several, as a list of strings.

    :raises ValueError: if there is none.
    """
    if isinstance(path_or_paths, (str, os.PathLike)):
        return [os.fspath(path_or_paths)]
    paths = [os.fspath(path) for path in path_or_paths]
    if not paths:
        raise ValueError("expected at least one path, actual none; name a file to read.")
    return paths


def parts(path: str, data: Iterator[bytes], end: bytes = b"\n", size: int | None = None) -> Iterator[Part]:
    """A text file in parts of whole lines, in one pass.

    Line ends are LF, whatever they were, and a byte order mark is left out where a line begins, as where files were put
    together. A part that was given says nothing of what
    follows: whoever finds fault with it reads on to the end of the file, for what is no text is told before all else.

    :param data: the file's bytes: :func:`~pyrogram.data.streams.blocks` of it, say.
    :param end: what a part ends with; of two line ends, the second is that of an empty line, and begins the next part.
    :param size: least number of bytes of a part, but the last.
    :raises CorpusError: what ``data`` raises; not UTF-8, NUL bytes, or nothing in it.
    """
    number, rest = 1, bytearray()
    for text in _text(path, data):
        rest += text
        cut = rest.rfind(end, max(0, len(rest) - len(text) - 1)) + 1
        if cut and len(rest) >= (_PART if size is None else size):
            part = bytes(rest[:cut])
            yield number, part
            number += _num_ends(part)
            del rest[:cut]
    yield number, bytes(rest)


def _num_ends(text: bytes) -> int:
    return int(np.count_nonzero(np.frombuffer(text, np.uint8) == _LF))  # five times as fast as bytes.count


def _text(path: str, data: Iterator[bytes]) -> Iterator[bytes]:
    """Bytes as text in UTF-8 with LF at the ends of lines, and no byte order mark after one."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    line, line_of_nul, is_first, is_empty, held = 1, 0, True, True, b""
    for block in itertools.chain(data, [b""]):  # the empty one is the last
        block, is_first = block.removeprefix(codecs.BOM_UTF8) if is_first else block, False
        try:
            decoded = decoder.decode(block, not block)
        except UnicodeDecodeError as e:
            for _ in data:  # a file that cannot be read or unpacked is told first
                pass
            problem = f"byte 0x{e.object[e.start]:02x} is not UTF-8; convert the file to UTF-8"
            raise CorpusError(path, line + e.object.count(b"\n", 0, e.start), problem) from None
        if not line_of_nul and b"\0" in block:
            line_of_nul = line + block.count(b"\n", 0, block.index(b"\0"))
        line += _num_ends(block)
        if line_of_nul:
            continue
        is_empty = is_empty and not decoded.strip()
        block, more = held + block, bool(block)
        held = _BEGUN.search(block[-4:])[0] if more else b""  # type: ignore[index]
        block = block[: len(block) - len(held)]
        block = block.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in block else block
        yield block.replace(b"\n" + codecs.BOM_UTF8, b"\n") if codecs.BOM_UTF8 in block else block
    if line_of_nul:
        raise CorpusError(path, line_of_nul, "byte 0x00 is no text; convert the file to UTF-8")
    if is_empty:
        raise CorpusError(path, 1, "the file is empty; give one with text in it")


def read_lines(path: str) -> list[str]:
    """The lines of a UTF-8 file without their ends, all at once; see :func:`parts`."""
    return b"".join(_text(path, blocks(path))).decode().split("\n")


@contextmanager
def lines_in(path: str) -> Iterator[Iterator[str]]:
    """The lines of a UTF-8 file without their ends, in one pass; see :func:`parts`.

    :raises CorpusError: that this is no text, before whatever was found wrong with a line.
    """
    text = parts(path, blocks(path))
    try:
        yield lines_of(text)
    except CorpusError:
        for _ in text:
            pass
        raise


def lines_of(text: Iterable[Part]) -> Iterator[str]:
    """The lines of parts.

    Not by ``str.splitlines``: it would also cut at the Unicode separators that words of real corpora contain.
    """
    for _, part in text:
        yield from part.removesuffix(b"\n").decode().split("\n")


def write(path_or_file: StrPath | TextIO, text: Iterable[str]) -> None:
    """Write pieces of text to an open text file, or replace the UTF-8 file of that name.

    Readers of a path see the old text or the whole of the new one, never a part.
    """
    if not isinstance(path_or_file, (str, os.PathLike)):
        path_or_file.writelines(text)
        return
    write_atomically(path_or_file, (piece.encode() for piece in text))
