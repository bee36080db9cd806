# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Reading a text file with errors that say where, and writing one that is never half written."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

from pyrogram.atomic import write_atomically
from pyrogram.data.records import CorpusError

StrPath = str | os.PathLike[str]


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


def read_lines(path: str) -> list[str]:
    """The lines of a UTF-8 file without their ends; a byte order mark is skipped, CRLF is LF.

    Not ``str.splitlines``: it would also cut at the Unicode separators that words of real corpora contain.

    :raises CorpusError: no such file, a directory, not readable, not UTF-8, or nothing in it.
    """
    try:
        data = Path(path).read_bytes()
    except IsADirectoryError:
        raise CorpusError(path, None, "this is a directory; name a file in it") from None
    except FileNotFoundError:
        raise CorpusError(path, None, "there is no such file; check the path") from None
    except (OSError, ValueError) as e:
        reason = getattr(e, "strerror", None) or str(e)
        raise CorpusError(path, None, f"the file cannot be read ({reason}); check the path and its rights") from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        # e.object is what was decoded: the data without a byte order mark.
        line = e.object.count(b"\n", 0, e.start) + 1
        problem = f"byte 0x{e.object[e.start]:02x} is not UTF-8; convert the file to UTF-8"
        raise CorpusError(path, line, problem) from None
    if not text.strip():
        raise CorpusError(path, 1, "the file is empty; give a file with at least one sentence")
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def write(path_or_file: StrPath | TextIO, text: str) -> None:
    """Write to an open text file, or replace the UTF-8 file of that name.

    Readers of a path see the old text or the whole of the new one, never a part.
    """
    if not isinstance(path_or_file, (str, os.PathLike)):
        path_or_file.write(text)
        return
    write_atomically(path_or_file, text.encode())
