# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Reading CoNLL-U into columns, many sentences at a time.

A part of the file is split into lines and columns at once, and checked at once. Only a part that is CoNLL-U without
doubt becomes columns in this way. Any other is halved until it is small, and is then read sentence by sentence by
:mod:`pyrogram.data.conllu`, which knows all that may stand in a file, and what is wrong with it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pyrogram.data.columns import ALL, NONE, SOME, Columns
from pyrogram.data.conllu import (
    CHECKED,
    EMPTY_NODE,
    HINT_KEY,
    PLUS,
    RANGE,
    SENT_ID,
    WORD,
    Heads,
    check_end,
    column_names,
    is_head,
    sentences_of,
)
from pyrogram.data.files import Part
from pyrogram.data.gathering import Doubt, in_columns, sure
from pyrogram.data.records import MISSING
from pyrogram.data.strings import Bools, Ints, Names, Pieces, Strings, eights, narrow, offsets_of, ranges

_SMALL = 1 << 14  # bytes that are read sentence by sentence
_TAB, _LF, _SPACE, _HASH, _ZERO, _NINE = b"\t\n #09"
_HINT = re.compile(HINT_KEY.encode(), re.IGNORECASE)
_PLAIN_SENT_ID = b"# sent_id = "
_MAYBE_SPACE = np.array([code >= 128 or chr(code).isspace() for code in range(256)])


def read_conllu_columns(path: str, text: Iterable[Part], heads: Heads = "optional") -> Iterator[Columns]:
    """The sentences of a file as :func:`~pyrogram.data.conllu.read_conllu` gives them, in columns.

    :param text: the file in parts that end before empty lines, see :func:`~pyrogram.data.files.parts`.
    :raises CorpusError: what that raises, after the sentences before the one that is wrong.
    """
    empty, last, lines, reader = True, 1, b"", None
    for number, part in text:
        if reader is None:
            reader = _Reader(path, heads, column_names(path, part.partition(b"\n")[0].decode()))
        is_blank = True
        for columns in reader.part(number, part):
            empty = is_blank = False
            yield columns
        if not is_blank or part.decode().strip():
            last, lines = number, part
    check_end(path, last, lines.decode().split("\n"), empty)


@dataclass(frozen=True)
class _Reader:
    """How a file is read.

    :param names: of its columns.
    :param pieces: the strings of each column.
    """

    path: str
    heads: Heads
    names: tuple[str, ...]
    pieces: dict[str, Pieces] = field(default_factory=lambda: defaultdict(Pieces))

    def part(self, number: int, text: bytes) -> Iterator[Columns]:
        """The sentences of a part of the file whose first line has this number."""
        try:
            yield self._columns(number, text)
            return
        except Doubt:
            cut = text.find(b"\n\n", len(text) // 2) + 1 if len(text) > _SMALL else 0
        if cut:
            yield from self.part(number, text[:cut])
            yield from self.part(number + text.count(b"\n", 0, cut), text[cut:])
        else:
            lines = text.decode().split("\n")
            yield from in_columns(sentences_of(self.path, number, lines, self.heads, self.names))

    def _columns(self, number: int, text: bytes) -> Columns:
        """All sentences of a part at once.

        :raises Doubt: if there is anything in it that would need a closer look.
        """
        if self.heads == "partial":
            sure(not _HINT.search(text))
        sure(text.find(PLUS.encode(), text.find(b"\n") if number == 1 else 0) < 0)
        text = text if text.endswith(b"\n") else text + b"\n"
        data = np.frombuffer(text, np.uint8)
        ends = np.flatnonzero(data == _LF)
        starts = np.concatenate([[0], ends[:-1] + 1])
        first, is_blank = data[starts], starts == ends
        is_comment, is_row = first == _HASH, (first >= _ZERO) & (first <= _NINE)
        sure((is_blank | is_comment | is_row).all() and is_row.any())
        rows = _Rows.of(text, data, starts, ends, is_row, self.names, self.pieces)
        block = np.cumsum(is_blank)  # what stands between empty lines, of each line
        begins = np.flatnonzero(np.diff(block[is_row], prepend=-1))  # the first row of each sentence
        is_word, lengths = rows.words(begins)
        offsets, here = offsets_of(lengths), np.flatnonzero(is_word)
        lines = np.flatnonzero(is_row)[here]
        first_lines = lines[offsets[:-1]]
        trees, annotated = rows.heads(here, offsets, self.heads)
        return Columns(
            offsets=offsets,
            forms=rows.column("FORM", may_be_empty=False).take(here),
            upos=rows.column("UPOS", may_be_empty=False).take(here),
            xpos=rows.column("XPOS", may_be_empty=False).take(here),
            heads=narrow(trees),
            annotated=annotated,
            first_lines=narrow(number + first_lines),
            lines=narrow(lines - np.repeat(first_lines, lengths)),
            sources=Strings(np.zeros(len(lengths), np.uint8), [self.path]),
            sent_ids=_sent_ids(text, starts[is_comment], ends[is_comment], block[is_comment], block[is_row][begins]),
            trimmed=np.zeros(len(lengths), np.bool_),
            after_mark=np.zeros(len(lines), np.bool_),
        )


@dataclass(frozen=True)
class _Rows:
    """The R lines of words, ranges and empty nodes.

    :param text: the part that they are in.
    :param starts: where each begins in it, shape ``(R,)``.
    :param ends: where each ends, shape ``(R,)``.
    :param tabs: where its tabs are, shape ``(R, C - 1)``.
    :param names: of the C columns.
    :param pieces: the strings of each.
    """

    text: bytes
    starts: Ints
    ends: Ints
    tabs: Ints
    names: tuple[str, ...]
    pieces: dict[str, Pieces]

    @staticmethod
    def of(
        text: bytes,
        data: NDArray[np.uint8],
        starts: Ints,
        ends: Ints,
        is_row: Bools,
        names: tuple[str, ...],
        pieces: dict[str, Pieces],
    ) -> _Rows:
        """The lines that are rows."""
        R, at = int(is_row.sum()), np.flatnonzero(data == _TAB)
        if len(at) != (len(names) - 1) * R:  # comments may have tabs
            at = at[is_row[np.searchsorted(ends, at)]]
            sure(len(at) == (len(names) - 1) * R)
        rows = _Rows(text, starts[is_row], ends[is_row], at.reshape(R, len(names) - 1), names, pieces)
        sure((rows.tabs[:, :1] > rows.starts[:, None]).all() and (rows.tabs[:, -1:] < rows.ends[:, None]).all())
        _check_spaces(data, rows)
        return rows

    def column(self, name: str, may_be_empty: bool = True) -> Strings:
        """A column of strings, ``_`` if there is none of that name."""
        if name not in self.names:
            return Strings(np.zeros(len(self.starts), np.uint8), [MISSING])
        i = self.names.index(name)
        begins = self.tabs[:, i - 1] + 1 if i else self.starts
        lengths = (self.tabs[:, i] if i + 1 < len(self.names) else self.ends) - begins
        sure(may_be_empty or lengths.all())
        return self.pieces[name].of(self.text, begins, lengths)

    def words(self, begins: Ints) -> tuple[Bools, Ints]:
        """Which rows are words, and how many of them each sentence has.

        :param begins: the first row of each sentence.
        """
        column = self.column("ID")
        numbers = np.array([int(token_id) if WORD.fullmatch(token_id) else -1 for token_id in column.table])[column.ids]
        is_word = numbers >= 0
        before: Ints = np.cumsum(is_word) - is_word
        counts = np.diff(np.concatenate([begins, [len(numbers)]]))
        sentence = np.repeat(np.arange(len(begins)), counts)
        before -= before[begins][sentence]  # words of the sentence before each row
        lengths = np.bincount(sentence[is_word], minlength=len(begins))
        sure((lengths > 0).all() and (numbers == before + 1)[is_word].all())
        if not is_word.all():
            others = np.flatnonzero(~is_word)
            _check_others(column.take(others).to_list(), before[others], sentence[others], lengths)
        return is_word, lengths

    def heads(self, words: Ints, offsets: Ints, heads: Heads) -> tuple[Ints, Ints]:
        """The heads of all words, and how many words of each sentence have one."""
        if heads == "ignore":
            return np.full(len(words), -1), np.full(len(offsets) - 1, NONE, np.uint8)
        column = self.column("HEAD")
        numbers = [int(head) if is_head(head) else -1 if head == MISSING else -2 for head in column.table]
        trees = np.array(numbers)[column.ids[words]]
        sure((trees > -2).all())
        counts = np.add.reduceat(trees >= 0, offsets[:-1], dtype=np.int64)
        annotated = np.where(counts == np.diff(offsets), ALL, np.where(counts == 0, NONE, SOME)).astype(np.uint8)
        sure((annotated >= {"required": ALL, "optional": NONE, "partial": NONE}[heads]).all())
        sure(heads == "partial" or (annotated != SOME).all())
        _check_trees(trees, offsets, annotated)
        return trees, annotated


def _check_spaces(data: NDArray[np.uint8], rows: _Rows) -> None:
    """Single spaces may stand inside of columns, and any in those that are not checked."""
    at = np.flatnonzero(data == _SPACE)
    before, after = data[at - 1], data[at + 1]
    at = at[(before == _SPACE) | (before == _TAB) | (after == _SPACE) | (after == _TAB)]
    row = np.minimum(np.searchsorted(rows.ends, at), len(rows.ends) - 1)
    inside = at > rows.starts[row]  # and not in a comment
    number = (rows.tabs[row[inside]] < at[inside, None]).sum(1)
    sure(not any(rows.names[i] in CHECKED for i in np.flatnonzero(np.bincount(number))))


def _check_others(ids: list[str], before: Ints, sentence: Ints, lengths: Ints) -> None:
    """IDs that are not those of words: of ranges, which begin at the next word, and of empty nodes.

    :param before: number of words of the sentence before each.
    :param lengths: number of words of all sentences.
    """
    matches = [RANGE.fullmatch(token_id) or EMPTY_NODE.fullmatch(token_id) for token_id in ids]
    sure(all(matches))
    left, right = np.array([[int(number) for number in match.groups()] for match in matches if match]).T
    is_range = np.array(["-" in token_id for token_id in ids])
    for these, first in ((is_range, before + 1), (~is_range, before)):
        a, b, s = left[these], right[these], sentence[these]
        sure((a == first[these]).all())
        same = s[1:] == s[:-1]
        if these is is_range:
            sure((b > a).all() and (b <= lengths[s]).all() and (a[1:] > b[:-1])[same].all())
        else:
            sure(((a[1:] > a[:-1]) | (b[1:] > b[:-1]))[same].all())


def _check_trees(heads: Ints, offsets: Ints, annotated: Ints) -> None:
    """One root, or of a part of a tree at most one; heads in the sentence, and no cycles."""
    lengths, T = np.diff(offsets), len(heads)
    sure((heads <= np.repeat(lengths, lengths)).all())
    roots = np.add.reduceat(heads == 0, offsets[:-1], dtype=np.int64)
    sure((roots <= 1).all() and (roots[annotated == ALL] == 1).all())
    above = np.append(np.where(heads > 0, np.repeat(offsets[:-1], lengths) + heads - 1, T), T)
    reached = 1
    while (above != T).any():
        sure(reached <= lengths.max())
        above, reached = above[above], 2 * reached


def _sent_ids(text: bytes, starts: Ints, ends: Ints, block: Ints, blocks: Ints) -> Names:
    """The comments ``sent_id``, of each sentence the last.

    :param starts: where comments begin.
    :param block: of each comment the number of the block of lines in which it stands.
    :param blocks: of each sentence the number of its block.
    """
    data, prefix, last = np.frombuffer(text, np.uint8), len(_PLAIN_SENT_ID), len(text) - 1
    begins, stops = starts + prefix, ends.copy()
    codes, plain = eights(text), eights(_PLAIN_SENT_ID)
    is_plain = (codes[starts] == plain[0]) & (codes[np.minimum(begins - 8, last)] == plain[prefix - 8])
    is_plain &= ~(_MAYBE_SPACE[data[np.minimum(begins, last)]] | _MAYBE_SPACE[data[stops - 1]])
    second, third = data[np.minimum(starts + 1, last)], data[np.minimum(starts + 2, last)]
    is_name = is_plain.copy()
    for i in np.flatnonzero(
        ~is_plain & ((second == ord("s")) | (_MAYBE_SPACE[second] & (_MAYBE_SPACE[third] | (third == ord("s")))))
    ):
        line = data[starts[i] : ends[i]].tobytes().decode()
        if match := SENT_ID.fullmatch(line):
            is_name[i] = True
            begins[i] = starts[i] + len(line[: match.start(1)].encode())
            stops[i] = begins[i] + len(match[1].encode())
    sentence = np.minimum(np.searchsorted(blocks, block), len(blocks) - 1)
    is_name &= blocks[sentence] == block
    sentence = sentence[is_name]
    begin, size = np.zeros((2, len(blocks)), np.int64)
    named = np.zeros(len(blocks), np.bool_)
    begin[sentence], size[sentence], named[sentence] = begins[is_name], (stops - begins)[is_name], True
    return Names(data[ranges(begin, size)], offsets_of(size), named)
