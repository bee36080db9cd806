# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Bytes of files, packed or not, of pipes, and of standard input: in one pass, a block at a time."""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import stat
import sys
import zlib
from collections.abc import Callable, Generator, Iterator, MutableMapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, cast
from weakref import WeakKeyDictionary

from pyrogram.data.records import STANDARD_INPUT, CorpusError

_GZIP = b"\x1f\x8b"
_OTHERS = re.compile(rb"(?P<bzip2>BZh[1-9]1AY&SY)|(?P<xz>\xfd7zXZ\0)|(?P<zip>PK\x03\x04)|(?P<zstd>\x28\xb5\x2f\xfd)")
_MAGIC = 10  # bytes, the most of any of these
_BLOCK = 1 << 20  # bytes that are read at a time
_LOOK = 1 << 16  # by a look at the beginning


class _Input:
    """A file to be read from its beginning to its end, after looks at its beginning."""

    def __init__(self, file: Any) -> None:
        self.file = file
        self.is_read = False  # at least in part
        self.digest: str | None = None  # of what is in it, unpacked; once all of it is read
        self._ahead, self._at, self._looks = bytearray(), 0, False

    def read(self, size: int) -> bytes:
        """So many bytes, fewer only at the end."""
        self._ahead += self.file.read(max(0, self._at + size - len(self._ahead)))
        data = bytes(self._ahead[self._at : self._at + size])
        self._at += len(data)
        if not self._looks:
            del self._ahead[: self._at]
            self._at = 0
        return data

    @contextmanager
    def look(self) -> Iterator[None]:
        """What is read inside of it is still to be read after it."""
        before = self._looks, self._at
        self._looks = True
        try:
            yield
        finally:
            self._looks, self._at = before


# What can be read but once: standard input by its object, a pipe by its device and number.
_inputs: MutableMapping[Any, _Input] = WeakKeyDictionary()
_pipes: dict[tuple[int, int], _Input] = {}


def is_stream(path: str) -> bool:
    """Whether a path is standard input or a pipe, which can be read but once."""
    try:
        return path == STANDARD_INPUT or stat.S_ISFIFO(Path(path).stat().st_mode)
    except (OSError, ValueError):
        return False


def is_unread(path: str) -> bool:
    """Whether a path is standard input or a pipe that nobody has read to its end."""
    if not is_stream(path):
        return False
    with _told(path):
        return _input(path).digest is None


def blocks(path: str) -> Iterator[bytes]:
    """What is in a file, unpacked if it is a gzip file, whatever its name; ``-`` is standard input.

    :raises CorpusError: no such file, a directory, not readable, a damaged gzip file, one of another packer; standard
        input or a pipe that was read before.
    """
    with _told(path), _opened(path) as file:
        file.is_read = True
        sha256 = hashlib.sha256() if is_stream(path) else None
        for block in _unpacked(path, file, _BLOCK):
            if sha256 is not None:
                sha256.update(block)
            yield block
        file.digest = None if sha256 is None else sha256.hexdigest()


def beginning(path: str) -> Generator[bytes, None, None]:
    """What :func:`blocks` gives and raises, in smaller pieces, and it can be read afterwards.

    The generator must be closed before that.
    """
    with _told(path), _opened(path) as file, file.look():
        yield from _unpacked(path, file, _LOOK)


def read_bytes(path: str) -> bytes:
    """All that :func:`blocks` gives."""
    return b"".join(blocks(path))


def digest(path: str) -> str:
    """SHA-256 of what is in a file, unpacked; standard input and pipes may have been read to their ends before.

    :raises CorpusError: what :func:`blocks` raises.
    """
    if is_stream(path) and not is_unread(path):
        return str(_input(path).digest)
    sha256 = hashlib.sha256()
    for block in blocks(path):
        sha256.update(block)
    return sha256.hexdigest()


def _unpacked(path: str, file: _Input, size: int) -> Iterator[bytes]:
    with file.look():
        magic = file.read(_MAGIC)
    if other := _OTHERS.match(magic):
        raise CorpusError(
            path, None, f"this is a file of {other.lastgroup}, and only gzip is unpacked; unpack it first"
        )
    source = gzip.GzipFile(fileobj=cast(BinaryIO, file)) if magic.startswith(_GZIP) else file
    while block := source.read(size):
        yield block


@contextmanager
def _opened(path: str) -> Iterator[_Input]:
    if is_stream(path):
        file = _input(path)
        if file.is_read:
            problem = "this was read before, and can be read only once; write it into a file, and give that"
            raise CorpusError(path, None, problem)
        yield file
        return
    with open(path, "rb") as opened:
        yield _Input(opened)


def _input(path: str) -> _Input:
    """What is known of standard input or a pipe."""
    if path == STANDARD_INPUT:
        if sys.stdin is None:
            raise ValueError("there is none")
        if sys.stdin not in _inputs:
            file = sys.stdin
            buffer = getattr(file, "buffer", None)
            _inputs[file] = _Input(_Filled(lambda size: file.read(size).encode()) if buffer is None else buffer)
        return _inputs[sys.stdin]
    status = Path(path).stat()
    pipe = status.st_dev, status.st_ino
    if pipe not in _pipes:
        descriptor = os.open(path, os.O_RDONLY)  # which stays open, so that no other pipe gets this number
        _pipes[pipe] = _Input(_Filled(partial(os.read, descriptor)))
    return _pipes[pipe]


class _Filled:
    """A file of a function that may read less than it is asked for, which is no sign of the end."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read, self._rest = read, b""

    def read(self, size: int) -> bytes:
        """So many bytes, fewer only at the end."""
        while len(self._rest) < size and (more := self._read(size - len(self._rest))):
            self._rest += more
        block, self._rest = self._rest[:size], self._rest[size:]
        return block


@contextmanager
def _told(path: str) -> Iterator[None]:
    """Errors of files as one sentence."""
    try:
        yield
    except CorpusError:
        raise
    except (EOFError, gzip.BadGzipFile, zlib.error) as e:
        problem = f"the gzip file is cut off or damaged ({str(e).rstrip('.')}); copy or pack it once more"
        raise CorpusError(path, None, problem) from None
    except IsADirectoryError:
        raise CorpusError(path, None, "this is a directory; name a file in it") from None
    except FileNotFoundError:
        raise CorpusError(path, None, "there is no such file; check the path") from None
    except (OSError, ValueError) as e:
        reason = getattr(e, "strerror", None) or str(e)
        raise CorpusError(path, None, f"the file cannot be read ({reason}); check the path and its rights") from None
