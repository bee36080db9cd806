# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Syntactic topics: trees of sentences as pairs of a word and the word that heads it, and counts of those."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from pyrogram.trees import has_cycle

_CELLS = 2**22  # numbers that are held at a time while sentences are parsed


def tokens(words: Tensor, heads: Tensor, num_words: int) -> tuple[Tensor, Tensor]:
    """The words of all sentences, one after the other, and the words that head them: both int32, shape ``(T,)``.

    :param words: ids, shape ``(N, n)``, padded with -1; ``heads``: as in CoNLL, 0 for ROOT, whose id is V.
    :raises ValueError: if the two do not fit together, or if heads have a cycle.
    """
    check_words(words, num_words)
    real = words >= 0
    lengths = real.sum(1, keepdim=True)
    fits = heads.shape == words.shape and not heads.is_floating_point()
    if not fits or not torch.equal(heads >= 0, real) or bool((heads > lengths).any()):
        raise ValueError(
            f"heads must be integers, from 0 to the sentence's length for every word and -1 as padding, in shape "
            f"{tuple(words.shape)}, not others ({heads.dtype}) in shape {tuple(heads.shape)}"
        )
    lost = has_cycle(heads).nonzero()  # trees may have several roots and crossing arcs
    if len(lost):
        i = int(lost[0])
        raise ValueError(
            f"heads must lead to ROOT (0) from every word, but those of sentence {i}, "
            f"{heads[i].tolist()}, have a cycle; mend or leave out that sentence"
        )
    ids = torch.cat([torch.full((len(words), 1), num_words, device=words.device), words.long()], 1)
    parents = ids.gather(1, heads.clamp_min(0).long())
    return parents[real].int().contiguous(), words[real].int().contiguous()


def check_words(words: Tensor, num_words: int) -> None:
    """
    :raises ValueError: if they are no ids, or padding is not on the right.
    """
    if words.dim() != 2 or words.is_floating_point() or not words.numel():
        raise ValueError(
            f"words must be integers of shape (N, n), N and n at least 1, not {words.dtype} of shape "
            f"{tuple(words.shape)}"
        )
    real = words >= 0
    if not bool(real[:, 0].all()) or bool((real[:, 1:] & ~real[:, :-1]).any()) or int(words.max()) >= num_words:
        raise ValueError(
            f"words must be ids from 0 to {num_words - 1}, at least one a sentence, padded with -1 on the right"
        )


def check_states(words: Tensor, states: Tensor, num_states: int) -> None:
    """
    :raises ValueError: if a word has no state.
    """
    fits = states.shape == words.shape and not states.is_floating_point()
    if not fits or not torch.equal(states >= 0, words >= 0) or int(states.max()) >= num_states:
        raise ValueError(
            f"states must be integers, from 0 to {num_states - 1} for every word and -1 as padding, in shape "
            f"{tuple(words.shape)}, not others ({states.dtype}) in shape {tuple(states.shape)}"
        )


def count(parents: Tensor, words: Tensor, states: Tensor, num_words: int, num_columns: int) -> tuple[Tensor, Tensor]:
    """N_pk and N_wk, int32, shapes ``(V + 1, K)`` and ``(V, K)``, of tokens of shape ``(T,)``."""
    counts = []
    for rows, number in ((parents, num_words + 1), (words, num_words)):
        cells = rows.long() * num_columns + states.long()
        counts.append(torch.bincount(cells, minlength=number * num_columns).int().reshape(number, num_columns))
    return counts[0], counts[1]


def batches(words: Tensor, num_states: int) -> Iterator[tuple[Tensor, int]]:
    """Numbers of sentences of about the same length, and how long the longest is; memory stays bounded."""
    lengths = (words >= 0).sum(1)
    order = lengths.argsort(stable=True).tolist()
    rows: list[int] = []
    for i in order:
        n = int(lengths[i])
        if rows and (len(rows) + 1) * (n + 1) * max(n + 1, num_states) > _CELLS:
            yield torch.tensor(rows), int(lengths[rows[-1]])
            rows = []
        rows.append(i)
    if rows:
        yield torch.tensor(rows), int(lengths[rows[-1]])
