# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Ancestral sampling from a hidden Markov model."""

# mypy: disable-error-code="no-untyped-def"
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from pyrogram.charts.checks import too_long
from pyrogram.charts.runtime.compiling import kernel
from pyrogram.charts.runtime.random_numbers import draw_event, seed_stream


def ancestral(
    tables: Sequence[Tensor],
    model: Int[Tensor, "S"],
    max_length: int,
    cut: bool = False,
    tries: int = 10_000,
) -> tuple[Int[Tensor, "S n"], Int[Tensor, "S n"]]:
    """Words and states of one sentence of each given model, of at most n = ``max_length`` words, padded with -1.

    :param tables: probabilities of the first state, ``(M, K)``; of the next one, or the end, ``(M, K, K + 1)``; and of
        words, ``(M, K, V)``.
    :param cut: end a sentence at ``max_length`` words, rather than draw it again.
    :param tries: how often a sentence is drawn again.
    :raises TooLongError: if so many in a row were too long.
    """
    words = np.full((len(model), max_length), -1, np.int64)
    states = np.full((len(model), max_length), -1, np.int64)
    seed = int(torch.randint(2**63 - 1, ()))
    initial, transition, emission = (t.detach().to("cpu", torch.float64).cumsum(-1).numpy() for t in tables)
    if not _draw_all(initial, transition, emission, model.cpu().numpy(), seed, words, states, tries, cut):
        raise too_long(tries, max_length)
    return torch.from_numpy(words), torch.from_numpy(states)


@kernel
def _draw_all(initial, transition, emission, model, seed, words, states, tries, cut):
    K, max_length = initial.shape[1], words.shape[1]
    state = np.zeros(1, np.uint64)
    for s in range(len(words)):
        m = model[s]
        seed_stream(state, seed, s)
        for attempt in range(tries + 1):
            if attempt == tries:
                return False
            words[s], states[s] = -1, -1
            here, t = draw_event(initial[m], state), 0
            while here < K and t < max_length:
                states[s, t] = here
                words[s, t] = draw_event(emission[m, here], state)
                here = draw_event(transition[m, here], state)
                t += 1
            if here == K or cut:
                break
    return True
