# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Heads of sentences: whether they are trees, whether arcs cross, hints at them, and rows without padding."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from pyrogram.data.records import SentenceRecord
from pyrogram.printable import plural
from pyrogram.trees import is_tree

_AT_A_TIME = 1024  # rows that are in memory


def check_heads(record: SentenceRecord) -> None:
    """Whether the heads form a tree with one root, or may be a part of one; it need not be projective.

    :raises CorpusError: a head out of range, no root or several, or a cycle.
    """
    heads = record.heads or record.known_heads
    if heads is None:
        return
    n, least = len(record), 0 if record.heads is not None else -1
    roots = [c for c, h in enumerate(heads) if h == 0]
    for c, h in enumerate(heads):
        if not least <= h <= n:
            problem = f"the head {h} of word {c + 1} is out of range; heads of this sentence are 0 to {n}"
            raise record.error(problem, c)
    if len(roots) > 1 or (least == 0 and not roots):
        if not roots:
            raise record.error("no word has head 0; give the root of the sentence head 0")
        two = f"words {roots[0] + 1} and {roots[1] + 1} both have head 0"
        raise record.error(f"{two}; a sentence has exactly one root: attach one to the other", roots[1])
    reached = [False] * (n + 1)
    reached[0] = True
    for c in range(1, n + 1):
        path = []
        while not reached[c]:
            reached[c] = True
            path.append(c)
            c = max(heads[c - 1], 0)  # of an unknown head, ROOT will do
        # A walk up may end at ROOT or at a word of an earlier walk; at one of its own it is a cycle.
        if path and c in path:
            cycle = path[path.index(c) :]
            if len(cycle) == 1:
                raise record.error(f"word {cycle[0]} is its own head; give it another", cycle[0] - 1)
            words = ", ".join(str(w) for w in cycle[:10]) + (", ..." if len(cycle) > 10 else "")
            first = min(cycle) - 1
            raise record.error(f"the heads of words {words} form a cycle; one of them needs another head", first)


def check_hints(record: SentenceRecord) -> None:
    """Whether hints are about heads that words may have.

    :raises CorpusError: a head out of range or the word itself, or hints that leave a word no head, or forbid the one
        that it is known to have.
    """
    n, heads = len(record), record.heads or record.known_heads
    for c, hints in enumerate(record.hints or ()):
        for head, nats in hints:
            if head > n or head == c + 1:
                problem = f"word {c + 1} has a hint at head {head}; heads of this word are 0 to {n}, and not itself"
                raise record.error(problem, c)
            if nats == -math.inf and heads is not None and heads[c] == head:
                problem = f"the hint at head {head} of word {c + 1} forbids what column HEAD says; remove one of them"
                raise record.error(problem, c)
        if sum(nats == -math.inf for _, nats in hints) == n:
            raise record.error(f"the hints of word {c + 1} forbid all heads; leave one", c)


def without_crossing_arcs(heads: Tensor, lengths: Tensor) -> Tensor:
    """Whether each tree is projective, shape ``(N,)``.

    :param heads: trees with one root, shape ``(N, n)``, padded with -1.
    """
    answer = torch.ones(len(lengths), dtype=torch.bool)
    # The check compares all pairs of arcs: sentences of like lengths together, or memory runs out.
    for chunk in lengths.argsort().split(256):
        if len(chunk):
            answer[chunk] = is_tree(heads[chunk, : int(lengths[chunk].max())])
    return answer


def rows_of_heads(heads: Tensor, lengths: Tensor) -> Iterator[list[int]]:
    """The rows of padded heads without their padding, made as they are asked for; all are checked before.

    :param heads: shape ``(N, m)``, padded with -1; they need not be trees.
    :param lengths: shape ``(N,)``, each at most m.
    :raises ValueError: if the shapes do not fit, or a head is out of range.
    """
    N, n = len(lengths), int(lengths.max()) if len(lengths) else 0
    if heads.dim() != 2 or heads.shape[0] != N or heads.shape[1] < n or heads.is_floating_point():
        actual = f"{tuple(heads.shape)} of {heads.dtype}"
        raise ValueError(f"expected heads as integers of shape ({N}, at least {n}), actual {actual}.")
    real = torch.arange(heads.shape[1], device=heads.device) < lengths.to(heads.device)[:, None]
    low, high = heads >= 0, heads <= lengths.to(heads.device)[:, None]
    wrong = (~torch.where(real, low & high, heads == -1)).any(-1)
    if wrong.any():
        i = int(wrong.nonzero()[0])
        problem = f"expected heads 0 to {lengths[i]} for the {plural(int(lengths[i]), 'word')} of sentence {i}, then -1"
        raise ValueError(f"{problem}, actual {heads[i].tolist()}.")
    batches = zip(heads.split(_AT_A_TIME), lengths.split(_AT_A_TIME), strict=True)
    return (row[:n] for rows, sizes in batches for row, n in zip(rows.tolist(), sizes.tolist(), strict=True))
