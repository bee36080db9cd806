# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Reading bracketed trees into columns, many trees at a time.

What stands between two open brackets, such as ``NN dog))``, is looked at once, however often it occurs. Which node is
the child of which, and the heads, are found for all nodes of one depth at once, from the deepest ones up. Text in which
anything is wrong is read tree by tree by :mod:`pyrogram.data.brackets`, which knows what it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import numpy as np

from pyrogram.data.brackets import MAX_DEPTH, PUNCTUATION, TRACE, bare, trees_of, unescaped
from pyrogram.data.columns import Columns
from pyrogram.data.files import Part
from pyrogram.data.gathering import Doubt, in_columns, of_tokens, sure
from pyrogram.data.head_rules import head_children, label_numbers
from pyrogram.data.strings import Bools, Ints, Strings, offsets_of

# What stands after an open bracket, up to the next one: a label, or a tag and its word, and the end of some phrases.
_NODE = re.compile(r"\s*(?:([^\s()]*)|([^\s()]+)\s+([^\s()]+)\s*\)[\s)]*)\s*")
_LF, _OPEN, _CLOSE = b"\n()"
_PUNCTUATION = dict.fromkeys(PUNCTUATION, True)


def read_bracket_columns(path: str, text: Iterable[Part], universal: bool = False) -> Iterator[Columns]:
    """The sentences of a file as :func:`~pyrogram.data.brackets.read_brackets` gives them, in columns.

    :param text: the file in parts, see :func:`~pyrogram.data.files.parts`.
    :raises CorpusError: what that raises, after the sentences before the one that is wrong.
    """
    for number, part in _whole_trees(text):
        try:
            if part.strip():
                yield _columns(path, number, part, universal)
        except Doubt:
            yield from in_columns(trees_of(path, number, part.decode().split("\n"), universal))


def _whole_trees(text: Iterable[Part]) -> Iterator[Part]:
    """Parts that end where a line ends and no tree is open, or with the file."""
    first, begun, depth = 1, [b""], 0
    for number, part in text:
        levels = depth + _levels(part)
        ends = np.flatnonzero((levels == 0) & (np.frombuffer(part, np.uint8) == _LF))
        cut = int(ends[-1]) + 1 if len(ends) else 0
        if cut:
            yield first, b"".join([*begun, part[:cut]])
            first, begun = number + part.count(b"\n", 0, cut), []
        begun.append(part[cut:])
        depth = int(levels[-1]) if len(levels) else depth
    yield first, b"".join(begun)


def _levels(text: bytes) -> Ints:
    """How many brackets are open after each byte."""
    data = np.frombuffer(text, np.uint8)
    levels: Ints = np.cumsum((data == _OPEN).astype(np.int8) - (data == _CLOSE), dtype=np.int32)
    return levels


def _columns(path: str, number: int, text: bytes, universal: bool) -> Columns:
    """All trees of a part at once.

    :raises Doubt: if anything is wrong with one of them.
    """
    levels, data = _levels(text), np.frombuffer(text, np.uint8)
    sure(levels[-1] == 0 and levels.min() == 0 and levels.max() <= MAX_DEPTH)
    at = np.flatnonzero(data == _OPEN)
    sure(len(at) > 0)
    before, *nodes = text.decode().split("(")
    sure(not before.strip())
    column = Strings.of(nodes)
    matches = [_NODE.fullmatch(node) for node in column.table]
    sure(all(matches))
    labels = column.mapped([match[1] or match[2] or "" for match in matches if match])
    words = column.mapped([unescaped(match[3] or "") for match in matches if match])
    depths = levels[at]
    is_word = ~words.where({"": True}) & ~labels.where({TRACE: True})
    heads, tops = _heads(labels, words.where({"": True}), is_word, depths)
    lengths = np.add.reduceat(is_word, tops, dtype=np.int64)
    begins = np.repeat(offsets_of(lengths)[:-1], lengths)
    return of_tokens(
        path,
        lengths,
        words.take(is_word),
        labels.take(is_word),
        universal,
        number + np.searchsorted(np.flatnonzero(data == _LF), at[tops]),
        np.where(heads < 0, 0, heads - begins + 1),
    )


def _heads(labels: Strings, is_phrase: Bools, is_word: Bools, depths: Ints) -> tuple[Ints, Ints]:
    """The head of each word among all words, -1 for ROOT; and which nodes are those of whole trees.

    :param labels: of all nodes in the order of their brackets; words are nodes, and so are traces, which are neither.
    :param depths: of each node, 1 for that of a tree.
    :raises Doubt: for phrases without children, for those without a label inside of a tree, for trees without words.
    """
    numbers = label_numbers([bare(label) for label in labels.table])[labels.ids]
    is_mark = labels.where(_PUNCTUATION)[is_word]
    lexical = np.where(is_word, np.cumsum(is_word) - 1, -1)  # the head among all words of each node, -1 for traces
    above = np.full(len(is_mark), -1)
    num_children = np.zeros(len(depths), np.int64)
    order = np.argsort(depths, kind="stable")
    rows = np.split(order, np.cumsum(np.bincount(depths)[1:-1]))
    for row, upper in zip(rows[:0:-1], rows[-2::-1], strict=True):
        parents = upper[np.searchsorted(upper, row) - 1]
        begins = np.flatnonzero(np.diff(parents, prepend=-1))
        phrases = parents[begins]
        num_children[phrases] = np.diff(begins, append=len(row))
        # Punctuation is the head of nothing else, and a trace of nothing.
        lasts = np.where(lexical[row] < 0, 2, is_mark[lexical[row]]) if len(is_mark) else np.full(len(row), 2)
        chosen = row[head_children(numbers[phrases], numbers[row], begins, lasts)]
        lexical[phrases] = lexical[chosen]
        words, others = lexical[row], lexical[parents]
        dependent = (words >= 0) & (words != others)
        above[words[dependent]] = others[dependent]
    sure((num_children > 0)[is_phrase].all())
    unlabelled = labels.where({"": True})
    sure((depths == 1)[unlabelled].all())
    tops = rows[0]
    sure((lexical[tops] >= 0).all())
    return above, tops
