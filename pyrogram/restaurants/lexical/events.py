# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The events of lexicalised dependency trees, one row of features each, in the order that generates them.

A head generates its children from the inside out, first those to its left, then those to its right, and ends both
sequences with STOP; ROOT has one child, to its right, and no STOP. Heads come in the order of their positions, the
root first. Trees need not be projective. Linear in the number of words, but for the search for children.
"""

import numpy as np
from numba import njit

from pyrogram.runtime.arrays import Array
from pyrogram.runtime.compiling import kernel

# Columns of a row: what is generated comes last.
PARENT_TAG, PARENT_WORD, PARENT_CASE, SIBLING_TAG, DIRECTION, TAG, WORD, CASE = range(8)
NUM_COLUMNS = 8
LEFT, RIGHT = 0, 1


@njit(nogil=True)
def _row(out: Array, k: int, h: int, tags: Array, words: Array, cases: Array, root: Array) -> None:
    """Begin a row by the features of head h."""
    if h == 0:
        out[k, PARENT_TAG], out[k, PARENT_WORD], out[k, PARENT_CASE] = root[0], root[1], root[2]
    else:
        out[k, PARENT_TAG], out[k, PARENT_WORD], out[k, PARENT_CASE] = tags[h - 1], words[h - 1], cases[h - 1]


@njit(nogil=True)
def _side(
    out: Array,
    k: int,
    h: int,
    direction: int,
    heads: Array,
    n: int,
    tags: Array,
    words: Array,
    cases: Array,
    root: Array,
) -> int:
    """Rows of the children of h on one side, and of their STOP; returns the number of the next row."""
    sibling = root[0]  # START has the number that ROOT has among parents
    m = h - 1 if direction == LEFT else h + 1
    while 1 <= m <= n:
        if heads[m - 1] == h:
            _row(out, k, h, tags, words, cases, root)
            out[k, SIBLING_TAG], out[k, DIRECTION] = sibling, direction
            out[k, TAG], out[k, WORD], out[k, CASE] = tags[m - 1], words[m - 1], cases[m - 1]
            sibling = tags[m - 1]
            k += 1
        m += -1 if direction == LEFT else 1
    if h > 0:
        _row(out, k, h, tags, words, cases, root)
        out[k, SIBLING_TAG], out[k, DIRECTION] = sibling, direction
        out[k, TAG], out[k, WORD], out[k, CASE] = root[0], -1, -1  # STOP, too
        k += 1
    return k


@kernel
def tree_events(tags: Array, words: Array, cases: Array, heads: Array, root: Array, out: Array, starts: Array) -> None:
    """Write the rows of all sentences, 3n for a sentence of n words with one root.

    :param tags: like ``words``, ``cases``, ``heads``: (N, n), int64, padded with -1.
    :param root: its tag, word and case; the tag stands for START among siblings and STOP among tags, too.
    :param out: int64, (rows, 8); word and case of a STOP are -1.
    :param starts: (N + 1,), the number of the first row of each sentence, and of all.
    """
    k = 0
    for s in range(tags.shape[0]):
        starts[s] = k
        n = 0
        while n < tags.shape[1] and tags[s, n] >= 0:
            n += 1
        if n:
            k = _side(out, k, 0, RIGHT, heads[s], n, tags[s], words[s], cases[s], root)
        for h in range(1, n + 1):
            for direction in (LEFT, RIGHT):
                k = _side(out, k, h, direction, heads[s], n, tags[s], words[s], cases[s], root)
    starts[tags.shape[0]] = k


def tree_features(
    tags: np.ndarray, words: np.ndarray, cases: np.ndarray, heads: np.ndarray, root: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Rows (3 times the number of words, 8) and where each sentence's begin (N + 1,); every tree has one root."""
    if not tags.shape == words.shape == cases.shape == heads.shape or tags.ndim != 2:
        shapes = ", ".join(str(x.shape) for x in (tags, words, cases, heads))
        raise ValueError(f"tags, words, cases and heads must have one shape (N, n), not {shapes}")
    total = 3 * int((tags >= 0).sum())
    out = np.empty((total, NUM_COLUMNS), np.int64)
    starts = np.empty(len(tags) + 1, np.int64)
    tree_events(tags, words, cases, heads, root, out, starts)
    return out, starts


def word_features(tags: np.ndarray, words: np.ndarray, cases: np.ndarray) -> np.ndarray:
    """A row for every word in the order of the sentences, without anything of heads."""
    inside = tags >= 0
    out = np.zeros((int(inside.sum()), NUM_COLUMNS), np.int64)
    for column, ids in ((TAG, tags), (WORD, words), (CASE, cases)):
        out[:, column] = ids[inside]
    return out
