# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Reading plain tagged text: a sentence to a line, ``the/DT dog/NN barks/VBZ``, or its tags alone."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pyrogram.data.files import read_lines
from pyrogram.data.formats import format_of_text
from pyrogram.data.records import MISSING, Alphabet, CorpusError, SentenceRecord
from pyrogram.printable import quoted, shown

# A slash that belongs to a word is written \/ as in the Penn treebank.
_SLASH = re.compile(r"(?<!\\)/")


def read_tagged(path: str, tags: Alphabet = "xpos") -> Iterator[SentenceRecord]:
    r"""The sentences of a file, one per line; empty lines are skipped.

    Tokens stand between white space. The last slash of a token that is not written ``\/`` separates word and
    tag. In a file without any such slash, the tokens are tags (their own words, too), or with ``tags="form"``
    words without tags.

    :param tags: ``"upos"`` if the tags are universal ones; they are XPOS otherwise.
    :raises CorpusError: for a token without a slash in a file that has some, or with nothing before or after; for a
        file of another format.
    """
    lines = read_lines(path)
    _check_format(path, lines)
    with_slash = any(_SLASH.search(line) for line in lines)
    for number, line in enumerate(lines, 1):
        tokens = line.split()
        if not tokens:
            continue
        if with_slash:
            pairs = [_split(path, number, token) for token in tokens]
        else:
            pairs = [(t.replace("\\/", "/"), MISSING if tags == "form" else t) for t in tokens]
        forms, labels = zip(*pairs, strict=True)
        none = (MISSING,) * len(tokens)
        yield SentenceRecord(
            forms=forms,
            upos=labels if tags == "upos" else none,
            xpos=none if tags == "upos" else labels,
            heads=None,
            lines=(number,) * len(tokens),
            source=path,
        )


def _check_format(path: str, lines: list[str]) -> None:
    kind = format_of_text(lines)
    if kind != "tags":
        found = "this is CoNLL-U" if kind == "conllu" else "these are bracketed trees"
        first = next(number for number, line in enumerate(lines, 1) if line.strip())
        advice = "read it as that" if kind == "conllu" else "read them as that"
        raise CorpusError(path, first, f"{found}, not tagged text; {advice}")


def _split(path: str, number: int, token: str) -> tuple[str, str]:
    slashes = [match.start() for match in _SLASH.finditer(token)]
    if not slashes:
        problem = f"the token {quoted(token)} has no tag, though others do; write {shown(token)}/TAG"
        raise CorpusError(path, number, problem)
    word, tag = token[: slashes[-1]], token[slashes[-1] + 1 :]
    if not word or not tag:
        missing = "tag after" if word else "word before"
        problem = rf"the token {quoted(token)} has no {missing} its last slash; write word/TAG, a slash of a word as \/"
        raise CorpusError(path, number, problem)
    return word.replace("\\/", "/"), tag
