# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The outcome of one start of one row: weights, curves, metrics, and scores of its parses."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from torch import Tensor

from pyrogram.grammar import Weights
from pyrogram.infer import GrammarLoop


@dataclass(frozen=True)
class Learnt:
    """What a row learnt from one start.

    :param weights: the point estimate of every language's grammar.
    :param parameters: what rows that go on from here need, by name.
    :param iterations: how many there were.
    :param held_out: the best held-out log-likelihood, in nats.
    :param stopped: why it ended.
    :param alpha: the concentration chosen, if one was.
    :param curves: by name, a number for each iteration: ``"objective"`` is before it, ``"held_out"`` (log-likelihood)
        after it.
    :param metrics: other scores by name; NaN where there is none.
    """

    weights: tuple[Weights, ...]
    parameters: dict[str, Tensor] = field(default_factory=dict)
    iterations: int = 0
    held_out: float = math.nan
    stopped: str = ""
    alpha: float | None = None
    curves: dict[str, tuple[float, ...]] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)


def best_held_out(loop: GrammarLoop) -> float:
    """The held-out log-likelihood of the state that a loop went back to."""
    return max((value for value in loop.held_out_history if not math.isnan(value)), default=math.nan)


@dataclass(frozen=True)
class Score:
    """How right one decoder is on the sentences of at most ``max_length`` words of a part of a corpus."""

    language: int
    part: str
    decoder: str
    max_length: int | None
    sentences: int
    words: int
    directed: float | None
    undirected: float | None
    root: float | None
