# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Trees of the DMV as rows of events, and the trees of derivations.

Events are numbered as in the blocks, one after the other: root [child], attach [head, direction(, valence), child],
stop [head, direction, valence, decision].
"""

# mypy: disable-error-code="no-untyped-def"
from typing import Any

import numpy as np

from .runtime.compiling import kernel


def rows_of(words: Any, heads: Any, num_tags: int, num_valences: int, valence_attach: bool) -> Any:
    """The events of trees, shape ``(N, 4 n)``, padded with -1: 4 m - 1 of a tree of m words.

    :param words: shape ``(N, n)``, int64, padded with -1.
    :param heads: shape ``(N, n)``, int64; those of words are checked to be in range.
    """
    rows = np.full((len(words), 4 * words.shape[1]), -1, np.int64)
    _list_events(num_tags, num_valences, valence_attach, words, np.ascontiguousarray(heads), rows)
    return rows


def positions_of(num_words: int, valence_attach: bool) -> dict[str, tuple[int, ...]]:
    """How derivations write their arcs for :func:`move`: a number to begin with, and strides by axis."""
    n = num_words
    return {"root": (0, 1), "attach": (n, n, 0, 0, 1) if valence_attach else (n, n, 0, 1)}


def move(heads: Any, arcs: Any, accepted: Any) -> None:
    """Replace the trees that were accepted.

    :param heads: shape ``(N, n)``, changed.
    :param arcs: shape ``(N, n)``: the arcs of each tree, j from the wall, n + i n + j from the word i to j, from 0.
    """
    _move(heads, arcs, accepted)


@kernel
def _list_events(V, S, valence_attach, words, heads, rows):
    n = words.shape[1]
    seen = np.zeros((n + 1, 2), np.int64)  # how many children a head has on a side, S - 1 at most
    A = S if valence_attach else 1
    for b in range(len(words)):
        m = 0
        while m < n and words[b, m] >= 0:
            m += 1
        seen[: m + 1] = 0
        size = 0
        for turn in range(2 * m):
            # Children to the left from the last to the first, then those to the right from the first: nearest first.
            x = m - turn if turn < m else turn - m + 1
            h, d = heads[b, x - 1], 0 if turn < m else 1
            if h == 0:
                if d == 0:
                    rows[b, size] = words[b, x - 1]
                    size += 1
            elif (x < h) == (d == 0):
                k, v = words[b, h - 1] * 2 + d, seen[h, d]
                seen[h, d] = min(v + 1, S - 1)
                rows[b, size] = V + (k * A + (v if valence_attach else 0)) * V + words[b, x - 1]
                rows[b, size + 1] = V + 2 * A * V * V + (S * k + v) * 2
                size += 2
        for h in range(1, m + 1):
            for d in range(2):
                rows[b, size] = V + 2 * A * V * V + ((words[b, h - 1] * 2 + d) * S + seen[h, d]) * 2 + 1
                size += 1


@kernel
def _move(heads, arcs, accepted):
    n = heads.shape[1]
    for b in range(len(heads)):
        for x in range(n if accepted[b] else 0):
            arc = arcs[b, x]
            if arc >= 0:
                heads[b, arc % n] = arc // n
