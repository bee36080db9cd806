# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Grammars under what traces, compiles or transforms: the probabilities of eager calls, for other sentences, too."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from pyrogram.distributions import Sentence

from .cases import GrammarCase
from .compare import close
from .tracers import agrees, agrees_transformed, compiled, jit_trace, unwatched


@unwatched
def check_jit_trace(case: GrammarCase) -> None:
    """``torch.jit.trace`` keeps no weight and no word that it saw."""
    agrees(jit_trace, *_log_prob(case))


@unwatched
def check_compile(case: GrammarCase) -> None:
    """``torch.compile`` takes ``Sentence.log_prob`` as one graph."""
    agrees(compiled, *_log_prob(case))


@unwatched
def check_transforms(case: GrammarCase) -> None:
    """``torch.func`` and activation checkpointing; words may be mapped over, too."""
    function, seen, others = _log_prob(case)
    agrees_transformed(function, seen, others)
    mapped = torch.func.vmap(function, (0, *[None] * (len(others) - 1)))(*others)
    close(mapped[0], function(*others)[0], "log_prob under vmap over words")


def _log_prob(case: GrammarCase) -> tuple[Callable[..., tuple[Tensor, ...]], list[Tensor], list[Tensor]]:
    """The probability of sentences from words and weights, some of these, and other ones."""
    names = list(case.grammar.blocks)

    def function(words: Tensor, *weights: Tensor) -> tuple[Tensor, ...]:
        return (Sentence(case.grammar, dict(zip(names, weights, strict=True))).log_prob(words),)

    seen, others = (list(case.weights(seed=seed).values()) for seed in (1, 2))
    return function, [case.words, *seen], [case.words.flip(0), *others]
