# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Reading CoNLL-U: sentences with their words, tags and heads, and which line is wrong.

The format is that of https://universaldependencies.org/format.html. A file whose first line names its columns is
CoNLL-U Plus, https://universaldependencies.org/ext-format.html.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from typing import Literal

from pyrogram.data.files import read_lines
from pyrogram.data.heads import check_heads, check_hints
from pyrogram.data.records import MISSING, CorpusError, Hints, SentenceRecord
from pyrogram.printable import quoted, shown

Heads = Literal["required", "optional", "partial", "ignore"]
COLUMNS = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")
ID, FORM, _, UPOS, XPOS, _, HEAD, DEPREL, _, MISC = range(len(COLUMNS))
CHECKED = COLUMNS[: HEAD + 1]  # columns that blanks are checked in
HINT_KEY = "HeadHint"  # in column MISC

_NUMBER = "(0|[1-9][0-9]{0,8})"
RANGE, EMPTY_NODE = re.compile(f"{_NUMBER}-{_NUMBER}"), re.compile(rf"{_NUMBER}\.([1-9][0-9]{{0,8}})")
WORD = re.compile(_NUMBER)
_HINT = re.compile(r"(0|[1-9][0-9]{0,8}):(-inf|-?[0-9]{1,9}(?:\.[0-9]+)?(?:e-?[0-9]{1,2})?)")
_MOST_NATS = 1e6
SENT_ID = re.compile(r"#\s*sent_id\s*=\s*(.*?)\s*")
PLUS = "global.columns"  # in a comment, before the names of the columns
_PLUS = re.compile(r"#\s*global\.columns\s*=(.*)")
# A line of a sentence: its number in the file, and its columns.
_Row = tuple[int, list[str]]


def read_conllu(path: str, heads: Heads = "optional") -> Iterator[SentenceRecord]:
    """The sentences of a file, with all their tokens; multiword ranges and empty nodes are left out.

    :param heads: ``"required"``: a missing head (``_``) is an error; ``"optional"``: a sentence may lack all
        of its heads; ``"partial"``: any word may lack its head, and hints are read, see
        :meth:`pyrogram.data.Corpus.from_conllu`; ``"ignore"``: the column is not read.
    :raises CorpusError: for anything that is not CoNLL-U, for heads that are not a tree with one root, and for hints
        that are none.
    """
    lines = read_lines(path)
    empty = True
    for record in sentences_of(path, 1, lines, heads, column_names(path, lines[0])):
        yield record
        empty = False
    check_end(path, 1, lines, empty)


def column_names(path: str, first: str) -> tuple[str, ...]:
    """The columns of a file by its first line: those that it names, or the ten of CoNLL-U.

    :raises CorpusError: if it names one twice, or no ID.
    """
    match = _PLUS.fullmatch(first)
    names = tuple(match[1].split()) if match else COLUMNS
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None or "ID" not in names:
        problem = "lacks ID" if twice is None else f"names {shown(twice)} twice"
        raise CorpusError(path, 1, f"{PLUS} {problem}; name every column once, as in ID FORM UPOS HEAD")
    return names


def check_end(path: str, number: int, lines: list[str], empty: bool) -> None:
    """Look at the last lines of a file, the first of which has this number.

    :param empty: whether the whole file has no sentence.
    :raises CorpusError: if it has none, or ends with comments.
    """
    last = len(lines) - next((i for i, line in enumerate(reversed(lines)) if line.strip()), 0)
    start = last
    while start and lines[start - 1].strip():
        start -= 1
    if all(line.startswith("#") for line in lines[start:last]):
        problem = "the file ends after these comments, without their sentence; it seems to be cut off"
        raise CorpusError(path, number + start, problem)
    if empty:
        raise CorpusError(path, 1, "there is no sentence in this file; give a CoNLL-U file")


def sentences_of(
    path: str, number: int, lines: list[str], heads: Heads, names: tuple[str, ...] = COLUMNS
) -> Iterator[SentenceRecord]:
    """The sentences of some lines of a file, the first of which has this number; see :func:`read_conllu`.

    :param names: of its columns.
    """
    start = 0
    while start < len(lines):
        end = start
        while end < len(lines) and lines[end].strip():
            end += 1
        block = lines[start:end]
        for at, line in enumerate(block, number + start):
            if PLUS in line and (match := _PLUS.fullmatch(line)) and tuple(match[1].split()) != names:
                problem = (
                    f"{PLUS} names other columns than those of the first line; put these sentences into another file"
                )
                raise CorpusError(path, at, problem)
        if not all(line.startswith("#") for line in block):
            yield _sentence(path, number + start, block, heads, names)
        start = end + 1


def _sentence(path: str, start: int, block: list[str], heads: Heads, names: tuple[str, ...]) -> SentenceRecord:
    """The sentence of one block of lines, the first of which has number ``start``."""
    rows = [(number, _columns(path, number, line, names)) for number, line in enumerate(block, start) if line[0] != "#"]
    words = _words(path, rows)
    if not words:
        problem = "this sentence has no words, only multiword ranges or empty nodes; remove it"
        raise CorpusError(path, start, problem)
    for number, columns in words:
        for column in (FORM, UPOS, XPOS):
            if not columns[column]:
                raise CorpusError(path, number, f"column {COLUMNS[column]} is empty; write _ where there is no value")
    sent_ids = [match[1] for line in block if (match := SENT_ID.fullmatch(line))]
    tree = None if heads == "ignore" else _heads(path, words, heads)
    is_part = tree is not None and -1 in tree
    record = SentenceRecord(
        forms=tuple([columns[FORM] for _, columns in words]),
        upos=tuple([columns[UPOS] for _, columns in words]),
        xpos=tuple([columns[XPOS] for _, columns in words]),
        heads=None if is_part else tree,
        lines=tuple([number for number, _ in words]),
        source=path,
        sent_id=sent_ids[-1] if sent_ids else None,
        known_heads=tree if is_part else None,
        hints=_hints(path, words) if heads == "partial" else None,
    )
    check_heads(record)
    check_hints(record)
    return record


def _columns(path: str, number: int, line: str, names: tuple[str, ...]) -> list[str]:
    """The ten columns of a line that is no comment, ``_`` where it has none.

    Blanks are checked in the first seven of the ten, and nothing in the others.
    """
    columns = line.split("\t")
    if len(columns) != len(names):
        if line.lstrip()[0] == "#":
            raise CorpusError(path, number, "there are blanks before #; a comment begins with # in the first column")
        advice = "separate them by tabs" if len(columns) == 1 else "the line seems to be cut off or to lack a tab"
        problem = f"expected the {len(names)} columns {names[0]} to {names[-1]}, actual {len(columns)}; {advice}"
        raise CorpusError(path, number, problem)
    if names != COLUMNS:
        by_name = dict(zip(names, columns, strict=True))
        columns = [by_name.get(name, MISSING) for name in COLUMNS]
    if " " in line:
        for name, column in zip(CHECKED, columns, strict=False):
            if "  " in column:
                raise CorpusError(path, number, f"column {name} has two spaces in a row; leave one")
            if column != column.strip(" "):
                raise CorpusError(path, number, f"column {name} begins or ends with a space; remove it")
    return columns


def _words(path: str, rows: list[_Row]) -> list[_Row]:
    """The rows of words; those of ranges and empty nodes are looked at and left out.

    :raises CorpusError: unless words are numbered from 1, and ranges and empty nodes stand where they belong.
    """
    words: list[_Row] = []
    node, last, last_at, last_id = (0, 0), 0, 0, ""  # the empty node before, and of the range before: its end, line, ID
    for number, columns in rows:
        token_id, problem = columns[ID], ""
        if token_id == str(len(words) + 1):
            words.append((number, columns))
        elif match := RANGE.fullmatch(token_id):
            before, first, last = last, int(match[1]), int(match[2])
            problem = _range_problem(token_id, first, last, before, len(words))
            last_at, last_id = number, token_id
        elif match := EMPTY_NODE.fullmatch(token_id):
            previous, node = node, (int(match[1]), int(match[2]))
            problem = _node_problem(token_id, node, previous, len(words))
        else:
            problem = _not_the_word(token_id, len(words) + 1)
        if problem:
            raise CorpusError(path, number, problem)
    if words and last > len(words):
        problem = f"the range {last_id} ends after the last word, {len(words)}; the sentence seems to be cut off"
        raise CorpusError(path, last_at, problem)
    return words


def _range_problem(token_id: str, first: int, last: int, before: int, words: int) -> str:
    """What is wrong with a range; nothing, if it begins at the next word and after the end of the range before."""
    if last <= first:
        return f"the range {token_id} must end after the word that it begins with; give IDs such as 1-2"
    if first <= before:
        return f"the range {token_id} begins inside of the range before it; give ranges that do not overlap"
    return "" if first == words + 1 else f"the range {token_id} must stand before word {first}; put it there"


def _node_problem(token_id: str, node: tuple[int, int], previous: tuple[int, int], words: int) -> str:
    """What is wrong with an empty node; nothing, if it stands after its word and after the empty node before."""
    if node[0] != words:
        return f"the empty node {token_id} must stand after word {node[0]}; put it there"
    if node <= previous:
        return f"the empty node {token_id} must come after {previous[0]}.{previous[1]}; number them from .1"
    return ""


def _not_the_word(token_id: str, expected: int) -> str:
    """What is wrong with an ID in the place of that of a word."""
    if not token_id:
        return f"column ID is empty; number the words of a sentence from 1, this one as {expected}"
    if token_id != MISSING and not WORD.fullmatch(token_id):
        return f"{quoted(token_id)} is no ID; IDs are integers, ranges 1-2 or empty nodes 1.1"
    return (
        f"expected the word with ID {expected}, actual ID {token_id}; number the words of a sentence from 1 "
        "without gaps and put an empty line between sentences"
    )


def _heads(path: str, words: list[_Row], heads: Heads) -> tuple[int, ...] | None:
    """The heads of a sentence, -1 where unknown; None if there are none."""
    if heads in ("optional", "partial") and all(columns[HEAD] == MISSING for _, columns in words):
        return None
    numbers = []
    for number, columns in words:
        h = columns[HEAD]
        if not is_head(h):
            if h == MISSING and heads == "partial":
                numbers.append(-1)
                continue
            if h == MISSING:
                advice = "annotate it, read what there is with heads='partial', or the words alone with heads='ignore'"
                raise CorpusError(path, number, "the word has no head (_)", advice, "heads")
            problem = f"the head {quoted(h)} is no integer from 0; give the ID of a word, or 0 for the root"
            raise CorpusError(path, number, problem)
        numbers.append(int(h))
    return tuple(numbers)


def is_head(text: str) -> bool:
    """Whether a head is a number; int() would also take 1_0, +1 and digits of other scripts."""
    return text.isascii() and text.isdigit() and len(text) < 10


def _hints(path: str, words: list[_Row]) -> tuple[Hints, ...] | None:
    """The hints at heads in column MISC; None if no word has any."""
    by_word = []
    for number, columns in words:
        hints: dict[int, float] = {}
        for item in columns[MISC].split("|"):
            key, _, value = item.partition("=")
            key = key.strip(" ")
            if key != HINT_KEY and key.lower() == HINT_KEY.lower():
                problem = f"{quoted(key)} in column MISC is no hint, for keys are case-sensitive; write {HINT_KEY}"
                warnings.warn(f"{path}, line {number}: {problem}", stacklevel=2)
            for hint in value.split(",") if key == HINT_KEY else ():
                match = _HINT.fullmatch(hint)
                if match is None or (match[2] != "-inf" and abs(float(match[2])) > _MOST_NATS):
                    problem = f"{quoted(hint)} is no hint; write a head and nats, -inf to forbid it, such as "
                    raise CorpusError(path, number, f"{problem}{HINT_KEY}=3:1.5,4:-inf")
                head = int(match[1])
                if head in hints:
                    raise CorpusError(path, number, f"there are two hints at head {head} of this word; leave one")
                hints[head] = float(match[2])
        by_word.append(tuple(hints.items()))
    return tuple(by_word) if any(by_word) else None
