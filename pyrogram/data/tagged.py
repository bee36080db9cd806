# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Reading plain tagged text: a sentence to a line, ``the/DT dog/NN barks/VBZ``, or its tags alone."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator

from pyrogram.data.files import read_lines
from pyrogram.data.formats import format_of_lines
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
    check_format(path, lines)
    yield from sentences_of(path, 1, lines, any(map(has_slash, lines)), tags)


def sentences_of(path: str, first: int, lines: list[str], with_slash: bool, tags: Alphabet) -> Iterator[SentenceRecord]:
    """The sentences of some lines of a file, the first of which has this number; see :func:`read_tagged`.

    :param with_slash: whether some tokens of the file have a slash.
    """
    for number, line in enumerate(lines, first):
        tokens = line.split()
        if not tokens:
            continue
        forms, labels = zip(*(split_token(path, number, token, with_slash, tags) for token in tokens), strict=True)
        none = (MISSING,) * len(tokens)
        yield SentenceRecord(
            forms=forms,
            upos=labels if tags == "upos" else none,
            xpos=none if tags == "upos" else labels,
            heads=None,
            lines=(number,) * len(tokens),
            source=path,
        )


def has_slash(text: str) -> bool:
    """Whether there is a slash that separates a word and its tag."""
    return _SLASH.search(text) is not None


def split_token(path: str, number: int, token: str, with_slash: bool, tags: Alphabet) -> tuple[str, str]:
    """The word and the tag of a token.

    :raises CorpusError: if it lacks one.
    """
    if not with_slash:
        return token.replace("\\/", "/"), MISSING if tags == "form" else token
    slashes = [match.start() for match in _SLASH.finditer(token)]
    if not slashes:
        raise without_tag(path, number, token)
    word, tag = token[: slashes[-1]], token[slashes[-1] + 1 :]
    if not word or not tag:
        missing = "tag after" if word else "word before"
        problem = rf"the token {quoted(token)} has no {missing} its last slash; write word/TAG, a slash of a word as \/"
        raise CorpusError(path, number, problem)
    return word.replace("\\/", "/"), tag


def without_tag(path: str, number: int, token: str) -> CorpusError:
    """The error of a token without a slash in a file that has some, to be raised by the caller."""
    problem = f"the token {quoted(token)} has no tag, though others do; write {shown(token)}/TAG"
    return CorpusError(path, number, problem)


def check_format(path: str, lines: Iterable[str]) -> None:
    """:raises CorpusError: if the lines of a file are of another format; no more are asked for than are needed."""
    text, again = itertools.tee(lines)
    kind = format_of_lines(text)
    if kind != "tags":
        actual = "this is CoNLL-U" if kind == "conllu" else "these are bracketed trees"
        first = next(number for number, line in enumerate(again, 1) if line.strip())
        advice = "read it as that" if kind == "conllu" else "read them as that"
        raise CorpusError(path, first, f"{actual}, not tagged text; {advice}")
