# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Files that commands write, each in one step and refused before hours are spent on its contents, and read back."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyrogram.atomic import write_atomically
from pyrogram.printable import printable, quoted

from .errors import CommandError

if TYPE_CHECKING:
    from torch import Tensor

LONGEST = 300  # characters of a reason


def write_file(path: Path, data: bytes | Iterable[bytes]) -> None:
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


def read_json(path: Path) -> Any:
    """What a file of a run holds.

    :raises CommandError: if it is missing or no JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CommandError(f"{path} is missing") from None
    except (ValueError, RecursionError) as error:  # the latter for a thousand brackets
        raise CommandError(f"{path} is no JSON file ({error})") from None


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a file of a run.

    :raises CommandError: if it is missing or no such file.
    """
    import torch

    from pyrogram.infer.running.checkpoint import read_tensors

    if not path.exists():
        raise CommandError(f"{path} is missing")
    try:
        tensors = read_tensors(path, "a safetensors file")[1]
    except ValueError as error:
        raise CommandError(str(error)) from None
    known = (torch.float64, torch.float32, torch.int64, torch.int32, torch.bool)
    for name, tensor in tensors.items():
        if tensor.dtype not in known:
            problem = f"{quoted(name)} is of type {tensor.dtype}, which pyrogram does not write"
            raise CommandError(f"{path} is not as pyrogram wrote it: {problem}")
    return tensors


@contextmanager
def as_written(path: Path) -> Iterator[None]:
    """While the contents of a file of a run are taken over.

    :raises CommandError: for what shows that it is not as it was written: an entry that lacks or is of another kind.
    """
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, IndexError, RuntimeError) as error:
        reason = str(error).rstrip(".")
        if isinstance(error, KeyError):
            reason = f"it lacks {error}"
        elif isinstance(error, OverflowError):
            reason = "a number is too large"
        elif not isinstance(error, ValueError):
            reason = "an entry is of another kind"
        raise CommandError(f"{path} is not as pyrogram wrote it: {printable(reason, LONGEST)}") from None
