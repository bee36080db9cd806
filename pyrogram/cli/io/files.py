# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Files that commands write: each is replaced in one step, and refused before hours are spent on its contents."""

from __future__ import annotations

import os
from pathlib import Path

from pyrogram.atomic import write_atomically

from .errors import CommandError


def write_file(path: Path, data: bytes) -> None:
    """Replace a file in one step.

    :raises CommandError: if it cannot be written.
    """
    try:
        write_atomically(path, data)
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}") from None


def check_writable(path: Path) -> None:
    """:raises CommandError: unless a file of this name could be written, before hours are spent on what goes in."""
    if path.is_dir():
        raise CommandError(f"--out {path} is a folder; give a file name")
    if not path.parent.is_dir():
        raise CommandError(f"--out {path}: there is no folder {path.parent}; make it first")
    if not os.access(path.parent, os.W_OK):
        raise CommandError(f"--out {path}: the folder {path.parent} cannot be written to")
