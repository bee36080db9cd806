# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""One method from many starts: every start a run of a loop that can be interrupted and taken up again."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyro
import torch
from torch import Tensor

from pyrogram.cli.runs.evaluation import smoothed
from pyrogram.cli.runs.settings import SAMPLERS, Settings
from pyrogram.distributions import Sentence
from pyrogram.grammar import Grammar, Weights
from pyrogram.infer import EM, CollapsedVB, GrammarLoop, TreeGibbs, TreeHastings, VariationalEM
from pyrogram.models import dirichlet, maximum_likelihood

OBJECTIVE = {
    "em": "log-likelihood",
    "em-map": "log posterior density",
    "vb": "evidence lower bound",
    "vb-em": "evidence lower bound",
    "cvb": "approximate free energy",
    "hastings": "log joint of sentences and trees",
    "gibbs": "log joint of sentences and trees",
}
CHECKPOINT_EVERY = 10


@dataclass(frozen=True)
class Start:
    """A finished start.

    :param number: from 1.
    :param weights: the point estimate.
    :param objective: the objective before each iteration, in nats; with ``em-map`` the first may be -inf.
    :param held_out: held-out log-likelihood after each iteration, NaN if there are no held-out sentences.
    :param stopped: why it ended.
    """

    number: int
    weights: Weights
    objective: list[float]
    held_out: list[float]
    stopped: str

    @property
    def criterion(self) -> float:
        """What starts are chosen by: the best held-out likelihood if there is any, else the last objective."""
        seen = [value for value in self.held_out if not math.isnan(value)]
        return max(seen) if seen else self.objective[-1]


def run_starts(
    settings: Settings,
    grammar: Grammar,
    words: Tensor,
    heads: Tensor | None,
    held_out: Tensor | None,
    checkpoint: Callable[[int], Path] | None,
    watch: Callable[[int, GrammarLoop], Any],
    plain: Weights | None = None,
) -> Iterator[Start]:
    """Run the starts one after the other, each from its checkpoint if there is one.

    :param heads: gold heads, for ``init="supervised"`` only.
    :param checkpoint: the file of a start's checkpoint, by number; None saves nothing.
    :param watch: called after every iteration with the number of the start and its loop.
    :param plain: where the first start begins, unless it is one of the grammar's initialisers.
    """
    if plain is None and settings.init != "random":
        plain = plain_start(settings, grammar, words, heads)
    for number in range(1, settings.starts + 1):
        # Each start has parameters of its own, and leaves the user's store as it was.
        with pyro.get_param_store().scope():
            start = start_weights(settings, grammar, words, plain, number)
            shared: dict[str, Any] = {
                "num_steps": settings.steps,
                "progress": False,
                "callback": partial(watch, number),
                "checkpoint": None if checkpoint is None else checkpoint(number),
                "checkpoint_every": CHECKPOINT_EVERY,
            }
            if settings.method in SAMPLERS:
                yield _sampled(settings, grammar, words, held_out, start, number, shared)
                continue
            loop = _loop(settings, grammar, start)
            loop.run(
                words,
                tolerance=settings.tolerance,
                held_out=held_out,
                patience=settings.patience,
                held_out_smoothing=settings.smoothing,
                **shared,
            )
            done = Start(number, loop.weights(), list(loop.history), list(loop.held_out_history), loop.stopped)
        yield done


def _sampled(
    settings: Settings,
    grammar: Grammar,
    words: Tensor,
    held_out: Tensor | None,
    start: Weights,
    number: int,
    options: dict[str, Any],
) -> Start:
    """A chain; weights are means over its second half. Held-out sentences do not stop it, but are looked at last."""
    assert settings.alpha is not None
    model = partial(dirichlet, grammar=grammar, concentration=settings.alpha)
    kind = TreeHastings if settings.method == "hastings" else TreeGibbs
    sampler = kind(model, initial_weights=start, seed=settings.seed + number, keep_parts=False)
    sampler.run(words, burn_in=settings.steps // 2, **options)
    weights = sampler.weights()
    likelihoods = [math.nan] * len(sampler.history)
    if held_out is not None:
        smooth = smoothed(grammar, weights, settings.smoothing)
        likelihoods[-1] = float(Sentence(grammar, smooth).log_prob(held_out).sum())
    return Start(number, weights, list(sampler.history), likelihoods, f"{settings.steps} sweeps, the second half kept")


def plain_start(settings: Settings, grammar: Grammar, words: Tensor, heads: Tensor | None) -> Weights:
    """The initialiser as it is, without noise."""
    options: dict[str, Any] = {}
    if settings.init == "harmonic":
        options = {"distance": settings.distance, "stops": settings.stops}
    if settings.init == "supervised":
        options = {"heads": heads}
    return grammar.initial_weights(words, settings.init, **options)


def start_weights(settings: Settings, grammar: Grammar, words: Tensor, plain: Weights | None, number: int) -> Weights:
    """Where a start begins: the first at the plain weights, the others at these times log-normal noise.

    Noise on the weights is noise on the soft counts that they came from, for they are normalised again. Starts
    of ``init="random"`` are all random. The seed is the run's plus the number of the start.
    """
    seed = settings.seed + number
    if plain is None:
        return grammar.initial_weights(words, "random", seed=seed)
    if number == 1:
        return plain
    generator = torch.Generator().manual_seed(seed)
    noisy = {}
    for name, block in grammar.blocks.items():
        noise = torch.randn(block.shape, dtype=torch.float64, generator=generator)
        noisy[name] = block.normalize(plain[name] * torch.exp(settings.noise * noise))
    return noisy


def best_start(starts: list[Start]) -> Start:
    """The start with the best criterion, the first of several."""
    return max(starts, key=lambda start: start.criterion)


@contextmanager
def double_precision() -> Iterator[None]:
    """float64 by default, as long as it lasts."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _loop(settings: Settings, grammar: Grammar, start: Weights) -> GrammarLoop:
    if settings.method == "em":
        return EM(partial(maximum_likelihood, grammar=grammar, initial_weights=start), initial_weights=start)
    assert settings.alpha is not None
    learn = settings.method == "vb-em"
    model = partial(dirichlet, grammar=grammar, concentration=settings.alpha, learn=learn)
    kinds: dict[str, type[EM | CollapsedVB]] = {"em-map": EM, "cvb": CollapsedVB}
    return kinds.get(settings.method, VariationalEM)(model, initial_weights=start)
