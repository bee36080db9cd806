# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Files of context-free grammars."""

from __future__ import annotations

from pathlib import Path

from pyrogram.grammars import CFG

from .errors import CommandError


def read_grammar(path: Path) -> CFG:
    """A grammar in nltk's notation.

    :raises CommandError: if the file is not there or holds no such grammar.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise CommandError(f"--grammar {path} is not UTF-8 text ({error.reason} at byte {error.start})") from None
    except OSError as error:
        raise CommandError(f"--grammar {path} cannot be read: {error.strerror}") from None
    try:
        return CFG.from_string(text)
    except ValueError as error:
        raise CommandError(f"--grammar {path}: {str(error).rstrip('.')}") from None
