# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sentences drawn by a sampler of one's own, and those again that were too long."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from pyrogram.checks import TooLongError, checked_words
from pyrogram.grammar import TooLong, Weights, num_tries
from pyrogram.printable import plural

Sampler = Callable[[Weights, torch.Size, int], Tensor]


def drawn(
    sample: Sampler, weights: Weights, shape: torch.Size, longest: int, too_long: TooLong, num_words: int
) -> Tensor:
    """Words ``(*shape, longest)``, padded with -1, every sentence of which has one word at least.

    :param sample: as ``RecursiveGrammar`` has it: a row of -1 alone is a sentence that was too long.
    :raises ValueError: if it returns another shape, or no words.
    :raises TooLongError: if a sentence was too long as often as ``too_long`` allows.
    """
    tries = num_tries(too_long)
    words = _checked(sample(weights, shape, longest), shape, longest, num_words)
    for _ in range(tries - 1):
        missing = (words == -1).all(-1, keepdim=True)
        if not missing.any():
            break
        words = torch.where(missing, _checked(sample(weights, shape, longest), shape, longest, num_words), words)
    if (words == -1).all(-1).any():
        raise TooLongError(
            f"a sentence had more than {plural(longest, 'word')}, {plural(tries, 'time')} "
            f"in a row; raise max_length, or "
            "take weights that end a sentence sooner"
        )
    return words


def _checked(words: Tensor, shape: torch.Size, longest: int, num_words: int) -> Tensor:
    if words.shape != (*shape, longest):
        raise ValueError(f"sample must return words of shape {(*shape, longest)}, not {tuple(words.shape)}")
    missing = (words == -1).all(-1)
    held = words.clone()
    held[..., 0] = torch.where(missing, torch.zeros_like(held[..., 0]), held[..., 0])  # a row of words, to be checked
    return torch.where(missing[..., None], torch.full_like(held, -1), checked_words(held, num_words)).long()
