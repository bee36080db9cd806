# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Reading a text file with errors that say where, and writing one that is never half written."""

from __future__ import annotations

import gzip
import os
import stat
import sys
import zlib
from collections.abc import Iterable, MutableMapping
from pathlib import Path
from typing import Any, TextIO
from weakref import WeakKeyDictionary

from pyrogram.atomic import write_atomically
from pyrogram.data.records import STANDARD_INPUT, CorpusError

StrPath = str | os.PathLike[str]

# What can be read but once: a pipe by its device and number, and standard input.
_pipes: dict[tuple[int, int], bytes] = {}
_streams: MutableMapping[Any, bytes] = WeakKeyDictionary()


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


def read_bytes(path: str) -> bytes:
    """What is in a file, unpacked if it is a gzip file, whatever its name; ``-`` is standard input.

    Standard input and pipes may be read again: what was in them is kept.

    :raises CorpusError: no such file, a directory, not readable, or a damaged gzip file.
    """
    try:
        data = _standard_input() if path == STANDARD_INPUT else _contents(Path(path))
    except IsADirectoryError:
        raise CorpusError(path, None, "this is a directory; name a file in it") from None
    except FileNotFoundError:
        raise CorpusError(path, None, "there is no such file; check the path") from None
    except (OSError, ValueError) as e:
        reason = getattr(e, "strerror", None) or str(e)
        raise CorpusError(path, None, f"the file cannot be read ({reason}); check the path and its rights") from None
    if not data.startswith(b"\x1f\x8b"):
        return data
    try:
        return gzip.decompress(data)
    except (EOFError, gzip.BadGzipFile, zlib.error) as e:
        problem = f"the gzip file is cut off or damaged ({str(e).rstrip('.')}); copy or pack it once more"
        raise CorpusError(path, None, problem) from None


def _contents(path: Path) -> bytes:
    found = path.stat()
    if not stat.S_ISFIFO(found.st_mode):
        return path.read_bytes()
    pipe = found.st_dev, found.st_ino
    if pipe not in _pipes:
        _pipes[pipe] = path.read_bytes()
    return _pipes[pipe]


def _standard_input() -> bytes:
    stream = sys.stdin
    if stream is None:
        raise ValueError("there is none")
    if stream not in _streams:
        buffer = getattr(stream, "buffer", None)
        _streams[stream] = stream.read().encode() if buffer is None else buffer.read()
    return _streams[stream]


def read_lines(path: str) -> list[str]:
    """The lines of a UTF-8 file without their ends; a byte order mark is skipped, CRLF is LF.

    Not ``str.splitlines``: it would also cut at the Unicode separators that words of real corpora contain.

    :param path: a file or gzip file, or ``-`` for standard input, see :func:`read_bytes`.
    :raises CorpusError: what :func:`read_bytes` raises; not UTF-8, NUL bytes, or nothing in it.
    """
    data = read_bytes(path)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        # e.object is what was decoded: the data without a byte order mark.
        line = e.object.count(b"\n", 0, e.start) + 1
        problem = f"byte 0x{e.object[e.start]:02x} is not UTF-8; convert the file to UTF-8"
        raise CorpusError(path, line, problem) from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise CorpusError(path, line, "byte 0x00 is no text; convert the file to UTF-8")
    if not text.strip():
        raise CorpusError(path, 1, "the file is empty; give one with text in it")
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def write(path_or_file: StrPath | TextIO, text: str) -> None:
    """Write to an open text file, or replace the UTF-8 file of that name.

    Readers of a path see the old text or the whole of the new one, never a part.
    """
    if not isinstance(path_or_file, (str, os.PathLike)):
        path_or_file.write(text)
        return
    write_atomically(path_or_file, text.encode())
