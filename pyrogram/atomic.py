# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Replacing a file in one step: whoever reads it sees the old one or the whole of the new one, never a part."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from pathlib import Path

__all__ = ["write_atomically"]


def write_atomically(path: str | os.PathLike[str], data: bytes | Iterable[bytes]) -> None:
    """Write to a file beside ``path`` and put it in its place; an error leaves the old file and nothing else.

    Pieces of data are written one by one; what they raise while they are made is an error like any other.

    What a killed process leaves is called ``.NAME.XXXXXXXX.tmp``. A link is followed: the file that it points at
    is replaced. What is there and is no file, such as ``/dev/null`` or a pipe, is written to as it is.

    :raises OSError: whatever opening, writing and renaming raise; also if ``path`` is a directory.
    """
    target, pieces = Path(path), [data] if isinstance(data, bytes) else data
    if target.exists() and not target.is_file():
        with open(target, "wb") as file:
            file.writelines(pieces)
        return
    target = Path(os.path.realpath(target))
    # A name that no other process and no other thread has.
    draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        with open(draft, "xb") as file:
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, target)
    except FileNotFoundError as e:  # the name of the draft is no user's
        raise FileNotFoundError(e.errno, "there is no such folder, make it first", str(target.parent)) from None
    finally:
        draft.unlink(missing_ok=True)
