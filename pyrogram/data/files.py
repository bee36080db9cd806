# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Reading a text file with errors that say where, and writing one that is never half written."""

from __future__ import annotations

import codecs
import gzip
import io
import os
import stat
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TextIO, cast
from weakref import WeakKeyDictionary

from pyrogram.atomic import write_atomically
from pyrogram.data.records import STANDARD_INPUT, CorpusError

StrPath = str | os.PathLike[str]

_GZIP = b"\x1f\x8b"
_BLOCK = 1 << 20  # bytes that are read at a time

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
    if not data.startswith(_GZIP):
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


@contextmanager
def _opened(path: str) -> Iterator[BinaryIO]:
    """A file to be read from its start, unpacked."""
    with ExitStack() as stack:
        if path == STANDARD_INPUT:
            file: BinaryIO = io.BytesIO(_standard_input())
        elif stat.S_ISFIFO(Path(path).stat().st_mode):
            file = io.BytesIO(_contents(Path(path)))
        else:
            file = stack.enter_context(open(path, "rb"))
        packed = file.read(2) == _GZIP
        file.seek(0)
        yield cast(BinaryIO, stack.enter_context(gzip.GzipFile(fileobj=file))) if packed else file


def _standard_input() -> bytes:
    stream = sys.stdin
    if stream is None:
        raise ValueError("there is none")
    if stream not in _streams:
        buffer = getattr(stream, "buffer", None)
        _streams[stream] = stream.read().encode() if buffer is None else buffer.read()
    return _streams[stream]


def parts(path: str, size: int = 1 << 21) -> Iterator[tuple[int, bytes]]:
    """A text file in parts that end where a line ends that has an empty one after it, or with the file.

    Line ends are LF, and a byte order mark is left out, as in :func:`read_lines`.

    :param size: least number of bytes of a part, but the last.
    :returns: the number of the first line of each part, and its text.
    :raises CorpusError: what :func:`read_lines` raises for the file.
    """
    number, rest = 1, bytearray()
    with _errors_as_of(read_lines, path), _opened(path) as file:
        decoder = codecs.getincrementaldecoder("utf-8")()
        at_start, after_return = True, False
        while data := file.read(_BLOCK):
            decoder.decode(data)
            if b"\0" in data:
                raise ValueError
            if at_start:
                data, at_start = data.removeprefix(codecs.BOM_UTF8), False
            data, after_return = b"\r" * after_return + data, data.endswith(b"\r")
            data = data.removesuffix(b"\r")
            if b"\r" in data:
                data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
            rest += data
            cut = rest.rfind(b"\n\n", max(0, len(rest) - len(data) - 1)) + 1
            if cut and len(rest) >= size:
                yield number, bytes(rest[:cut])
                number += rest.count(b"\n", 0, cut)
                del rest[:cut]
        decoder.decode(b"", True)
        yield number, bytes(rest) + b"\n" * after_return


def blocks(path: str) -> Iterator[bytes]:
    """What :func:`read_bytes` gives, a piece at a time."""
    with _errors_as_of(read_bytes, path), _opened(path) as file:
        while data := file.read(_BLOCK):
            yield data


@contextmanager
def _errors_as_of(read: Callable[[str], object], path: str) -> Iterator[None]:
    """Errors of a file that is read in parts, which may come late, as those of one that is read at once."""
    try:
        yield
    except (OSError, EOFError, ValueError, zlib.error) as error:
        if not isinstance(error, CorpusError):
            read(path)
        raise


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
