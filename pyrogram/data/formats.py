# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Which format a text or a file has, by its first lines."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import closing
from typing import Literal

from pyrogram.data.files import lines_of, parts
from pyrogram.data.streams import beginning

Kind = Literal["conllu", "brackets", "tags"]

# Ten columns, the first an ID; and a word in a bracket with its tag. Tags may be brackets, but stand between blanks.
_ROW = re.compile(r"[0-9][0-9.-]*(\t[^\t]*){9}")
_TAGGED_WORD = re.compile(r"\([^\s()]+[ \t]+[^\s()]+\)")
_PLUS = re.compile(r"#\s*global\.columns\s*=.*")  # the first line of CoNLL-U Plus
_FIRST_LINES = 100


def format_of_lines(lines: Iterable[str]) -> Kind:
    """The format of a text: CoNLL-U if its first line names columns, or the first one that is no comment is a row;
    trees if it begins with a bracket and has words in brackets with their tags; tagged text otherwise.

    :param lines: of which no more are asked for than are needed.
    """
    begun: list[str] = []
    first = ""
    for line in filter(str.strip, lines):
        begun += [line] * (len(begun) < _FIRST_LINES)
        first = first or line * (not line.startswith("#"))
        enough = len(begun) == _FIRST_LINES or not begun[0].lstrip().startswith("(")
        if first and (enough or _ROW.fullmatch(first)):
            break
    if _ROW.fullmatch(first) or (begun and _PLUS.fullmatch(begun[0])):
        return "conllu"
    if begun and begun[0].lstrip().startswith("(") and any(_TAGGED_WORD.search(line) for line in begun):
        return "brackets"
    return "tags"


def format_of_file(path: str) -> Kind:
    """The format of a file, which can be read afterwards even if it is standard input or a pipe.

    :raises CorpusError: what :func:`~pyrogram.data.files.parts` raises, as far as the file is looked at.
    """
    with closing(beginning(path)) as data:
        return format_of_lines(lines_of(parts(path, data, size=1)))
