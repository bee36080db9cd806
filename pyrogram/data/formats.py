# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Which format a text has, by its first lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

Kind = Literal["conllu", "brackets", "tags"]

# Ten columns, the first an ID; and a word in a bracket with its tag. Tags may be brackets, but stand between blanks.
_ROW = re.compile(r"[0-9][0-9.-]*(\t[^\t]*){9}")
_TAGGED_WORD = re.compile(r"\([^\s()]+[ \t]+[^\s()]+\)")
_FIRST_LINES = 100


def format_of_text(lines: Sequence[str]) -> Kind:
    """The format of a text: CoNLL-U if its first line that is no comment is a row of that, trees if it begins with a
    bracket and has words in brackets with their tags, tagged text otherwise.
    """
    first = next((line for line in lines if line.strip() and not line.startswith("#")), "")
    if _ROW.fullmatch(first):
        return "conllu"
    begun = [line for line in lines if line.strip()][:_FIRST_LINES]
    if begun and begun[0].lstrip().startswith("(") and any(_TAGGED_WORD.search(line) for line in begun):
        return "brackets"
    return "tags"
