# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""From probabilities of tags after one another under heads to the scores that the sibling chart takes."""

import numpy as np

from pyrogram.runtime.arrays import Array
from pyrogram.runtime.compiling import kernel


@kernel
def fill(tag_p: Array, word_p: Array, kind: Array, arcs: Array, siblings: Array, stops: Array) -> None:
    """Write the scores of a sentence of n words; n is the length of ``kind``.

    :param tag_p: P(tag or STOP | head, direction, sibling or START), shape (n+1, 2, K+1, K+1) for the K tags of the
        sentence, with START and STOP as the last.
    :param word_p: P(word of m | tag of m, head), shape (n+1, n).
    :param kind: which of the K tags each word has, shape (n,).
    :param arcs: (n+1, n+1) or larger, like the others, see SiblingDependencyTree; what is not read is not written.
    """
    n, K = len(kind), tag_p.shape[-1] - 1
    log_p = np.log(tag_p)
    for h in range(n + 1):
        for m in range(1, n + 1):
            if m == h:
                continue
            arcs[h, m] = np.log(word_p[h, m - 1])
            d = 1 if m > h else 0
            siblings[h, m, h] = log_p[h, d, K, kind[m - 1]]
            first, last = (h + 1, m) if d else (m + 1, h)
            for r in range(first, last):
                siblings[h, m, r] = log_p[h, d, kind[r - 1], kind[m - 1]]
        for d in range(2):
            stops[h, d, h] = log_p[h, d, K, K]
            first, last = (h + 1, n + 1) if d else (1, h)
            for r in range(first, last):
                stops[h, d, r] = log_p[h, d, kind[r - 1], K]
