# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Reading CoNLL-U into columns, many sentences at a time.

A part of the file is split into lines and columns at once, and checked at once. Only a part that is CoNLL-U without
doubt becomes columns in this way. Any other is halved until it is small, and is then read sentence by sentence by
:mod:`pyrogram.data.conllu`, which knows all that may stand in a file, and what is wrong with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pyrogram.data.columns import ALL, NONE, SOME, Columns
from pyrogram.data.conllu import (
    COLUMNS,
    FORM,
    HEAD,
    HINT_KEY,
    ID,
    SENT_ID,
    UPOS,
    XPOS,
    Heads,
    check_end,
    sentences_of,
)
from pyrogram.data.files import Part
from pyrogram.data.gathering import Doubt, in_columns, sure
from pyrogram.data.strings import Bools, Ints, Names, Strings, narrow, offsets_of, ranges

if TYPE_CHECKING:
    import polars as pl

_READ = (ID, FORM, UPOS, XPOS, HEAD)
_SMALL = 1 << 14  # bytes that are read sentence by sentence
_TAB, _LF, _SPACE, _HASH, _ZERO, _NINE, _UNDERSCORE = b"\t\n #09_"
_HINT = re.compile(HINT_KEY.encode(), re.IGNORECASE)
_PLAIN_SENT_ID = np.frombuffer(b"# sent_id = ", np.uint8)
_NOT_A_WORD = r"^(0|[1-9][0-9]{0,8})([-.])(0|[1-9][0-9]{0,8})$"  # a multiword range, or an empty node
_MAYBE_SPACE = np.array([code >= 128 or chr(code).isspace() for code in range(256)])
_TENS = 10 ** np.arange(1, 10)


def read_conllu_columns(path: str, text: Iterable[Part], heads: Heads = "optional") -> Iterator[Columns]:
    """The sentences of a file as :func:`~pyrogram.data.conllu.read_conllu` gives them, in columns.

    :param text: the file in parts that end before empty lines, see :func:`~pyrogram.data.files.parts`.
    :raises CorpusError: what that raises, after the sentences before the one that is wrong.
    """
    empty, last, lines = True, 1, b""
    for number, part in text:
        for columns in _part(path, number, part, heads):
            empty = False
            yield columns
        last, lines = (number, part) if part.decode().strip() else (last, lines)
    check_end(path, last, lines.decode().split("\n"), empty)


def _part(path: str, number: int, text: bytes, heads: Heads) -> Iterator[Columns]:
    """The sentences of a part of a file whose first line has this number."""
    try:
        yield _columns(path, number, text, heads)
        return
    except Doubt:
        cut = text.find(b"\n\n", len(text) // 2) + 1 if len(text) > _SMALL else 0
    if cut:
        yield from _part(path, number, text[:cut], heads)
        yield from _part(path, number + text.count(b"\n", 0, cut), text[cut:], heads)
    else:
        yield from in_columns(sentences_of(path, number, text.decode().split("\n"), heads))


def _columns(path: str, number: int, text: bytes, heads: Heads) -> Columns:
    """All sentences of a part at once.

    :raises Doubt: if there is anything in it that would need a closer look.
    """
    if heads == "partial":
        sure(not _HINT.search(text))
    data = np.frombuffer(text if text.endswith(b"\n") else text + b"\n", np.uint8)
    ends = np.flatnonzero(data == _LF)
    starts = np.concatenate([[0], ends[:-1] + 1])
    first, is_blank = data[starts], starts == ends
    is_comment, is_row = first == _HASH, (first >= _ZERO) & (first <= _NINE)
    sure((is_blank | is_comment | is_row).all() and is_row.any())
    rows = _Rows.of(data, starts, ends, is_row)
    block = np.cumsum(is_blank)  # what stands between empty lines, of each line
    begins = np.flatnonzero(np.diff(block[is_row], prepend=-1))  # the first row of each sentence
    is_word, lengths = rows.words(begins)
    offsets, here = offsets_of(lengths), np.flatnonzero(is_word)
    lines = np.flatnonzero(is_row)[here]
    first_lines = lines[offsets[:-1]]
    trees, annotated = rows.heads(here, offsets, heads)
    return Columns(
        offsets=offsets,
        forms=rows.strings(FORM, here),
        upos=rows.strings(UPOS, here),
        xpos=rows.strings(XPOS, here),
        heads=narrow(trees),
        annotated=annotated,
        first_lines=narrow(number + first_lines),
        lines=narrow(lines - np.repeat(first_lines, lengths)),
        sources=Strings(np.zeros(len(lengths), np.uint8), [path]),
        sent_ids=_sent_ids(data, starts[is_comment], ends[is_comment], block[is_comment], block[is_row][begins]),
        trimmed=np.zeros(len(lengths), np.bool_),
        after_mark=np.zeros(len(lines), np.bool_),
    )


@dataclass(frozen=True)
class _Rows:
    """The R lines of words, ranges and empty nodes.

    :param data: their text.
    :param starts: where each begins in it, shape ``(R,)``.
    :param tabs: where its tabs are, shape ``(R, 9)``.
    :param table: the columns that are read.
    """

    data: NDArray[np.uint8]
    starts: Ints
    tabs: Ints
    table: pl.DataFrame

    @staticmethod
    def of(data: NDArray[np.uint8], starts: Ints, ends: Ints, is_row: Bools) -> _Rows:
        """The lines that are rows."""
        import polars as pl  # on demand: not all that reads corpora reads files

        sizes = ends - starts + 1
        text = data[np.repeat(is_row, sizes)]
        after = np.cumsum(sizes[is_row])
        begins, at = after - sizes[is_row], np.flatnonzero(text == _TAB)
        sure(len(at) == (len(COLUMNS) - 1) * len(after))
        tabs = at.reshape(len(after), -1)
        sure((tabs[:, 0] > begins).all() and (tabs[:, -1] < after - 1).all())
        _check_spaces(text, tabs, after - 1)
        table = pl.read_csv(
            text.tobytes(),
            separator="\t",
            has_header=False,
            quote_char=None,
            schema=dict.fromkeys(COLUMNS, pl.String),
            columns=list(_READ),
        )
        sure(len(table) == len(after))
        return _Rows(text, begins, tabs, table)

    def strings(self, column: int, rows: Ints) -> Strings:
        """A column of strings, of some of the rows; none may be empty."""
        import polars as pl

        series = self.table[COLUMNS[column]][rows]
        sure(series.null_count() == 0)
        table = series.unique(maintain_order=True)
        return Strings(narrow(series.cast(pl.Enum(table)).to_physical().to_numpy()), table.to_list())

    def integers(self, column: int, sizes: Ints) -> tuple[Ints, Bools]:
        """A column of integers from 0 as they are usually written, and which of its strings are one.

        :param sizes: number of bytes of every string.
        """
        import polars as pl

        numbers = self.table[COLUMNS[column]].cast(pl.UInt32, strict=False)
        values, given = numbers.fill_null(0).to_numpy().astype(np.int64), numbers.is_not_null().to_numpy()
        return values, given & (sizes == np.searchsorted(_TENS, values, side="right") + 1)

    def words(self, begins: Ints) -> tuple[Bools, Ints]:
        """Which rows are words, and how many of them each sentence has.

        :param begins: the first row of each sentence.
        """
        numbers, is_word = self.integers(ID, self.tabs[:, 0] - self.starts)
        before: Ints = np.cumsum(is_word) - is_word
        counts = np.diff(np.concatenate([begins, [len(numbers)]]))
        sentence = np.repeat(np.arange(len(begins)), counts)
        before -= before[begins][sentence]  # words of the sentence before each row
        lengths = np.bincount(sentence[is_word], minlength=len(begins))
        sure((lengths > 0).all() and (numbers == before + 1)[is_word].all())
        if not is_word.all():
            others = np.flatnonzero(~is_word)
            _check_others(self.table[COLUMNS[ID]][others], before[others], sentence[others], lengths)
        return is_word, lengths

    def heads(self, words: Ints, offsets: Ints, heads: Heads) -> tuple[Ints, Ints]:
        """The heads of all words, and how many words of each sentence have one."""
        if heads == "ignore":
            return np.full(len(words), -1), np.full(len(offsets) - 1, NONE, np.uint8)
        begins = self.tabs[:, HEAD - 1] + 1
        sizes = self.tabs[:, HEAD] - begins
        numbers, given = (array[words] for array in self.integers(HEAD, sizes))
        sure((given | ((sizes == 1) & (self.data[begins] == _UNDERSCORE))[words]).all())
        counts = np.add.reduceat(given, offsets[:-1], dtype=np.int64)
        annotated = np.where(counts == np.diff(offsets), ALL, np.where(counts == 0, NONE, SOME)).astype(np.uint8)
        sure((annotated >= {"required": ALL, "optional": NONE, "partial": NONE}[heads]).all())
        sure(heads == "partial" or (annotated != SOME).all())
        trees = np.where(given, numbers, -1)
        _check_trees(trees, offsets, annotated)
        return trees, annotated


def _check_spaces(text: NDArray[np.uint8], tabs: Ints, ends: Ints) -> None:
    """Single spaces may stand inside of columns, and any in those after HEAD."""
    at = np.flatnonzero(text == _SPACE)
    before, after = text[at - 1], text[at + 1]
    at = at[(before == _SPACE) | (before == _TAB) | (after == _SPACE) | (after == _TAB)]
    if len(at):
        sure((np.searchsorted(tabs.reshape(-1), at) - tabs.shape[1] * np.searchsorted(ends, at) > HEAD).all())


def _check_others(ids: pl.Series, before: Ints, sentence: Ints, lengths: Ints) -> None:
    """IDs that are not those of words: of ranges, which begin at the next word, and of empty nodes.

    :param before: number of words of the sentence before each.
    :param lengths: number of words of all sentences.
    """
    groups = ids.str.extract_groups(_NOT_A_WORD).struct.unnest()
    sure(not any(groups.null_count().row(0)))
    is_range = (groups.to_series(1) == "-").to_numpy()
    left, right = (groups.to_series(i).cast(int).to_numpy() for i in (0, 2))
    for these, first in ((is_range, before + 1), (~is_range, before)):
        a, b, s = left[these], right[these], sentence[these]
        sure((a == first[these]).all())
        same = s[1:] == s[:-1]
        if these is is_range:
            sure((b > a).all() and (b <= lengths[s]).all() and (a[1:] > b[:-1])[same].all())
        else:
            sure((b > 0).all() and ((a[1:] > a[:-1]) | (b[1:] > b[:-1]))[same].all())


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


def _sent_ids(data: NDArray[np.uint8], starts: Ints, ends: Ints, block: Ints, blocks: Ints) -> Names:
    """The comments ``sent_id``, of each sentence the last.

    :param starts: where comments begin.
    :param block: of each comment the number of the block of lines in which it stands.
    :param blocks: of each sentence the number of its block.
    """
    prefix = len(_PLAIN_SENT_ID)
    at = np.minimum(starts[:, None] + np.arange(prefix), len(data) - 1)
    is_plain = (data[at] == _PLAIN_SENT_ID).all(1)
    begins, stops = starts + prefix, ends.copy()
    last = len(data) - 1
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
    own = np.minimum(np.searchsorted(blocks, block), len(blocks) - 1)
    is_name &= blocks[own] == block
    begin, size, given = (
        np.zeros(len(blocks), np.int64),
        np.zeros(len(blocks), np.int64),
        np.zeros(len(blocks), np.bool_),
    )
    begin[own[is_name]], size[own[is_name]], given[own[is_name]] = begins[is_name], (stops - begins)[is_name], True
    return Names(data[ranges(begin, size)], offsets_of(size), given)
