# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Reading CoNLL-U: the library ``conllu`` reads the sentences, this module says where they are wrong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from conllu.exceptions import ParseException
from conllu.models import TokenList
from conllu.parser import parse_token_and_metadata

from pyrogram.data.files import read_lines
from pyrogram.data.heads import check_heads
from pyrogram.data.records import MISSING, CorpusError, SentenceRecord

Heads = Literal["required", "optional", "ignore"]
COLUMNS = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")


def _as_is(columns: list[str], i: int) -> str:
    return columns[i]


# Columns after HEAD are not needed, nor are parsed features, which would be most of the time.
_FIELDS = ("id", "form", "lemma", "upos", "xpos", "feats", "head")
_PARSERS = {name: _as_is for name in ("xpos", "feats", "head")}


def read_conllu(path: str, heads: Heads = "optional") -> Iterator[SentenceRecord]:
    """The sentences of a file, with all their tokens; multiword ranges and empty nodes are left out.

    :param heads: ``"required"``: a missing head (``_``) is an error; ``"optional"``: a sentence may lack all
        of its heads; ``"ignore"``: the column is not read.
    :raises CorpusError: for anything that is not CoNLL-U, and for heads that are not a tree with one root.
    """
    lines = read_lines(path)
    empty = True
    start = 0
    while start < len(lines):
        end = start
        while end < len(lines) and lines[end].strip():
            end += 1
        block = lines[start:end]
        first = next((i for i, line in enumerate(block) if not line.startswith("#")), None)
        if first is not None:
            yield _sentence(path, start + 1, block, heads)
            empty = False
        elif block and not any(line.strip() for line in lines[end:]):
            problem = "the file ends after these comments, without their sentence; it seems to be cut off"
            raise CorpusError(path, start + 1, problem)
        start = end + 1
    if empty:
        raise CorpusError(path, 1, "there is no sentence in this file; give a CoNLL-U file")


def _sentence(path: str, start: int, block: list[str], heads: Heads) -> SentenceRecord:
    """The sentence of one block of lines, the first of which has number ``start``."""
    for number, line in enumerate(block, start):
        if line[0] != "#" and (line.count("\t") != 9 or "  " in line):
            _check_columns(path, number, line)
    parsed = _parse(path, start, block)
    token_lines = (number for number, line in enumerate(block, start) if line[0] != "#")
    tokens = [(t, number) for t, number in zip(parsed, token_lines, strict=True) if type(t["id"]) is not tuple]
    if not tokens:
        problem = "this sentence has no words, only multiword ranges or empty nodes; remove it"
        raise CorpusError(path, start, problem)
    for i, (token, number) in enumerate(tokens, 1):
        if token["id"] != i:
            actual = MISSING if token["id"] is None else token["id"]
            problem = (
                f"expected the word with ID {i}, actual ID {actual}; number the words of a sentence from 1 "
                "without gaps and put an empty line between sentences"
            )
            raise CorpusError(path, number, problem)
        for field in ("form", "upos", "xpos"):
            if not token[field]:
                raise CorpusError(path, number, f"column {field.upper()} is empty; write _ where there is no value")
    record = SentenceRecord(
        forms=tuple([t["form"] for t, _ in tokens]),
        upos=tuple([t["upos"] for t, _ in tokens]),
        xpos=tuple([t["xpos"] for t, _ in tokens]),
        heads=None if heads == "ignore" else _heads(path, tokens, heads),
        lines=tuple([number for _, number in tokens]),
        source=path,
        sent_id=parsed.metadata.get("sent_id"),
    )
    check_heads(record)
    return record


def _check_columns(path: str, number: int, line: str) -> None:
    """What ``conllu`` would take for other columns than they are: it also splits at two spaces."""
    columns = line.split("\t")
    if len(columns) != len(COLUMNS):
        advice = "separate them by tabs" if len(columns) == 1 else "the line seems to be cut off or to lack a tab"
        problem = f"expected the {len(COLUMNS)} columns ID to MISC, actual {len(columns)}; {advice}"
        raise CorpusError(path, number, problem)
    for name, column in zip(COLUMNS[:7], columns, strict=False):
        if "  " in column:
            raise CorpusError(path, number, f"column {name} has two spaces in a row; leave one")


def _parse(path: str, start: int, block: list[str]) -> TokenList:
    try:
        return _parse_lines(block)
    except ParseException as e:
        # The library does not say in which line: look for the first that it does not take by itself.
        for number, line in enumerate(block, start):
            try:
                _parse_lines([line])
            except ParseException as alone:
                problem = f"{str(alone).rstrip('.')}; IDs are integers, ranges 1-2 or empty nodes 1.1"
                raise CorpusError(path, number, problem) from e
        raise CorpusError(path, start, f"{str(e).rstrip('.')}; give CoNLL-U") from e


def _parse_lines(lines: list[str]) -> TokenList:
    return parse_token_and_metadata("\n".join(lines), _FIELDS, _PARSERS)  # type: ignore[arg-type]


def _heads(path: str, tokens: list[tuple[Any, int]], heads: Heads) -> tuple[int, ...] | None:
    written = [t["head"] for t, _ in tokens]
    if heads == "optional" and all(h == MISSING for h in written):
        return None
    numbers = []
    for (_, number), h in zip(tokens, written, strict=True):
        # int() would also take 1_0, +1 and digits of other scripts.
        if not (h.isascii() and h.isdigit() and len(h) < 10):
            if h == MISSING:
                problem = "the word has no head (_); annotate it, or read the words alone with heads='ignore'"
            else:
                problem = f"the head {h!r} is no integer from 0; give the ID of a word, or 0 for the root"
            raise CorpusError(path, number, problem)
        numbers.append(int(h))
    return tuple(numbers)
