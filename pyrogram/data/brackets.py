# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Bracketed trees of the Penn treebank: reading them, with dependencies by the head rules, and writing them.

Words may hold what stands for something else in such a file. A bracket is written as the treebank does, ``(`` as
``-LRB-``, and white space as ``\\u00a0``; so is what would be read as one of these.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from pyrogram.data.files import read_lines
from pyrogram.data.head_rules import head_child
from pyrogram.data.punctuation import PENN_PUNCTUATION, UNIVERSAL_PUNCTUATION
from pyrogram.data.records import MISSING, CorpusError, SentenceRecord
from pyrogram.folding import fold
from pyrogram.printable import quoted, shown

TRACE = "-NONE-"
TOP = "TOP"  # of a tree whose bracket has no label and several children; by the conventions of EVALB it is no bracket
#: Far more than any sentence needs, and less than what recursion bears.
MAX_DEPTH = 250
PUNCTUATION = PENN_PUNCTUATION | UNIVERSAL_PUNCTUATION
_BRACKET = re.compile(r"[()]")
_NAMES = {"(": "-LRB-", ")": "-RRB-", "[": "-LSB-", "]": "-RSB-", "{": "-LCB-", "}": "-RCB-"}
_SIGNS = {name: sign for sign, name in _NAMES.items()}
# The end of a word is no \, for nltk reads \) as a part of the word.
_TO_ESCAPE = re.compile(r"[()\[\]{}\s\0]|-(?=[LR][RSC]B[-()\[\]{}])|\\(?=u[0-9a-f]{4}|\Z)")
_ESCAPE = re.compile(r"-[LR][RSC]B-|\\u[0-9a-f]{4}")
_UNWRITABLE = re.compile("[\ud800-\udfff]|\\A\\Z")


def escaped(word: str) -> str:
    """A word as a file of trees has it; :func:`unescaped` is the opposite.

    :raises ValueError: for the empty word, and for halves of surrogate pairs.
    """
    if _UNWRITABLE.search(word):
        raise ValueError(f"the word {quoted(word)} cannot be written; words are not empty, without halves of pairs")
    return _TO_ESCAPE.sub(lambda match: _NAMES.get(match[0]) or f"\\u{ord(match[0]):04x}", word)


def unescaped(word: str) -> str:
    """A word of a file of trees as it is."""
    return _ESCAPE.sub(lambda match: _SIGNS.get(match[0]) or _character(match[0]), word)


def _character(escape: str) -> str:
    """What an escape stands for; one that :func:`escaped` never writes, for itself."""
    character = chr(int(escape[2:], 16))
    return character if character.isspace() or character in "-\\\0" else escape


def bracketed(tree: Any) -> str:
    """A tree, ``nltk.Tree`` or the like, on one line of a file that :func:`read_brackets` reads.

    :raises ValueError: for words that cannot be written, see :func:`escaped`, and labels with brackets or blanks.
    """

    def node(this: Any, children: list[str]) -> str:
        label = str(this.label())
        if re.search(r"[\s()]", label):
            raise ValueError(f"the label {quoted(label)} cannot be written; rename it, without brackets and blanks")
        return f"({' '.join([label, *children])})"

    return fold(tree, lambda leaf: escaped(str(leaf)), node)


def read_brackets(path: str, universal: bool = False) -> Iterator[SentenceRecord]:
    """The sentences of a file of trees, one or many to a line, or many lines to a tree.

    Traces (``-NONE-``) and phrases of nothing else are left out, function tags (``NP-SBJ-1``) are cut off
    before the rules of :mod:`pyrogram.data.head_rules` look at a label.

    :param universal: whether the tags are universal ones, column UPOS, and not the treebank's, XPOS.
    :raises CorpusError: for brackets that do not close, words without tags, phrases without words.
    """
    yield from trees_of(path, 1, read_lines(path), universal)


def trees_of(path: str, number: int, lines: list[str], universal: bool) -> Iterator[SentenceRecord]:
    """The sentences of some lines of a file, the first of which has this number; see :func:`read_brackets`."""
    for line, text in split_trees(path, lines, number):
        words: list[tuple[str, str]] = []
        heads: list[int] = []
        if _attach(tree_of(path, line, text), words, heads, path, line) is None:
            raise CorpusError(path, line, "this tree has no words, only traces; remove it")
        forms, tags = zip(*words, strict=True)
        none = (MISSING,) * len(words)
        yield SentenceRecord(
            forms=forms,
            upos=tags if universal else none,
            xpos=none if universal else tags,
            heads=tuple(heads),
            lines=(line,) * len(words),
            source=path,
        )


def tree_of(path: str, line: int, text: str) -> Any:
    """The ``nltk.Tree`` of a text that begins in this line.

    A bracket without a label around the tree is removed if it has one child, and gets the label :data:`TOP` if it has
    more.

    :raises CorpusError: for what is no tree.
    """
    from nltk.tree import Tree  # on demand: importing nltk takes as long as importing torch

    try:
        tree = Tree.fromstring(text, remove_empty_top_bracketing=True)
    except ValueError as e:
        reason = " ".join(str(e).split())
        raise CorpusError(path, line, f"this is no bracketed tree ({reason}); give (S (NN word))") from e
    if not tree.label() and len(tree) > 1:
        tree.set_label(TOP)
    return tree


def split_trees(path: str, lines: Iterable[str], number_of_first: int = 1) -> Iterator[tuple[int, str]]:
    """Every tree with the number of the line where it starts."""
    depth, first, pieces = 0, 0, []
    for number, line in enumerate(lines, number_of_first):
        start = 0  # of what belongs to the tree that is open, or to nothing
        for match in _BRACKET.finditer(line):
            if match.group() == "(":
                if depth == 0:
                    _check_outside(path, number, line[start : match.start()])
                    first, start = number, match.start()
                depth += 1
                if depth > MAX_DEPTH:
                    problem = f"brackets are nested more than {MAX_DEPTH} deep; check that they close"
                    raise CorpusError(path, first, problem)
                continue
            depth -= 1
            if depth < 0:
                problem = "a bracket closes that was never opened; remove it, or write a word ) as -RRB-"
                raise CorpusError(path, number, problem)
            if depth == 0:
                pieces.append(line[start : match.end()])
                yield first, "\n".join(pieces)
                pieces, start = [], match.end()
        if depth:
            pieces.append(line[start:])
        else:
            _check_outside(path, number, line[start:])
    if depth:
        missing = "a bracket is" if depth == 1 else f"{depth} brackets are"
        problem = f"the tree that starts here does not end: {missing} missing; close it, or write a word ( as -LRB-"
        raise CorpusError(path, first, problem)


def _check_outside(path: str, number: int, text: str) -> None:
    if text.strip():
        raise CorpusError(
            path, number, f"there is text outside of the brackets ({quoted(text.strip())}); put it into a tree"
        )


def _attach(tree: Any, words: list[tuple[str, str]], heads: list[int], path: str, line: int) -> int | None:
    """Append the words of a tree and their heads.

    :returns: the position of its head, from 1, whose own head is 0 so far; None if there are traces only.
    """
    label = tree.label()
    if len(tree) == 1 and isinstance(tree[0], str):
        if label == TRACE:
            return None
        if not label:
            raise CorpusError(path, line, f"the word {quoted(tree[0])} has no tag; write (NN {shown(tree[0])})")
        words.append((unescaped(tree[0]), label))
        heads.append(0)
        return len(words)
    for child in tree:
        if isinstance(child, str):
            problem = f"the bracket ({shown(label)} ...) holds {quoted(child)} beside others; write (NN {shown(child)})"
            raise CorpusError(path, line, problem)
    if not label:
        raise CorpusError(path, line, "there is a phrase without a label; a bracket seems to be missing before it")
    if len(tree) == 0:
        raise CorpusError(path, line, f"the bracket ({shown(label)}) is empty; remove it")
    children = [(bare(child.label()), _attach(child, words, heads, path, line)) for child in tree]
    full = [(name, c) for name, c in children if c is not None]
    if not full:
        return None
    # The head of a phrase is punctuation only if all of the phrase is.
    candidates = [(name, c) for name, c in full if words[c - 1][1] not in PUNCTUATION] or full
    head = candidates[head_child(bare(label), [name for name, _ in candidates])][1]
    for _, c in full:
        if c != head:
            heads[c - 1] = head
    return head


def bare(label: str) -> str:
    """A label without function tags and indices: NP-SBJ-1, NP=2 and ADVP|PRT are NP, NP and ADVP."""
    return label if label.startswith("-") else re.split(r"[-=|]", label, maxsplit=1)[0]
