# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Files of context-free grammars."""

from __future__ import annotations

from pathlib import Path

from pyrogram.data import CorpusError
from pyrogram.data.files import read_lines
from pyrogram.grammars import CFG

from .corpora import name_of
from .errors import CommandError


def read_grammar(path: Path) -> CFG:
    """A grammar in nltk's notation.

    :raises CommandError: if the file is not there or holds no such grammar.
    """
    try:
        return CFG.from_string("\n".join(read_lines(str(path))))
    except CorpusError as error:
        raise CommandError(f"grammar {str(error).rstrip('.')}") from None
    except ValueError as error:
        raise CommandError(f"grammar {name_of(path)}: {str(error).rstrip('.')}") from None
