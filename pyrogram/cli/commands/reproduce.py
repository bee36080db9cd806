# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""``pyrogram reproduce``: found in a checkout, where ``reproductions/`` lies beside the package."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

import pyrogram
from pyrogram.cli.io.errors import CommandError


def find_reproduce() -> Callable[..., None]:
    """The command that makes the papers' tables, or one that says where it is to be had."""
    checkout = Path(pyrogram.__file__).resolve().parents[1]
    if not (checkout / "reproductions" / "command.py").is_file():
        return absent
    if str(checkout) not in sys.path:  # at the end: it hides no installed package
        sys.path.append(str(checkout))
    command: Callable[..., None] = import_module("reproductions.command").reproduce
    return command


def absent(
    arguments: Annotated[list[str] | None, typer.Argument(metavar="TABLE ...", show_default=False)] = None,
) -> None:
    """Make the tables of five papers anew: only in a checkout of the project, not in an installed package."""
    raise CommandError(
        "the papers' tables are made by programs that are not installed; get the project's source and, in its folder, "
        "pip install -e ., then give the same command"
    )
