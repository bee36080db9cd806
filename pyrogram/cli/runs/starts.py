# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""One method from many starts, perhaps side by side; each can be interrupted and taken up again."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyro
import torch
from torch import Tensor

from pyrogram.cli.io.progress import Bar
from pyrogram.cli.runs.evaluation import smoothed
from pyrogram.cli.runs.folder import checkpoint_path
from pyrogram.cli.runs.settings import SAMPLERS, Settings
from pyrogram.cli.runs.workers import one_thread, run_tasks
from pyrogram.distributions import Sentence
from pyrogram.grammar import Grammar, PackedBlock, Weights
from pyrogram.infer import EM, CollapsedVB, GrammarLoop, Reduce, TreeGibbs, TreeHastings, VariationalEM
from pyrogram.infer.running.reduce import is_first
from pyrogram.models import maximum_likelihood
from pyrogram.models.dirichlet import dirichlet
from pyrogram.printable import plural

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


@dataclass(frozen=True)
class StartWork:
    """Learns from one start and evaluates what it learnt; processes that work side by side get a copy each.

    It works on one thread, so that its numbers depend neither on the number of processors nor on who does it.

    :param words: training sentences, shape ``(N, n)``.
    :param held_out: sentences that stop the training, or None.
    :param plain: where the first start begins; None if all starts are random.
    :param evaluate: maps the smoothed weights to what the report needs; it must be picklable.
    :param prior: the concentrations of Dirichlets; None without them.
    :param out: the folder of the run, which keeps the checkpoint of every start; None saves nothing.
    :param reduce: processes that learn from every start together, of which the first one evaluates.
    """

    settings: Settings
    grammar: Grammar
    words: Tensor
    held_out: Tensor | None
    plain: Weights | None
    evaluate: Callable[[Weights], Any]
    out: Path | None
    prior: float | Weights | None = None
    reduce: Reduce | None = None

    def __call__(self, key: int, earlier: Sequence[bytes], say: Callable[[str], Any]) -> bytes:
        """One start, by number, from its checkpoint if there is one."""
        # Each start has parameters of its own, and leaves the user's store as it was.
        with double_precision(), one_thread():
            with pyro.get_param_store().scope():
                start = self._learn(key, say)
            say("parsing")
            weights = smoothed(self.grammar, start.weights, self.settings.smoothing)
            evaluation = self.evaluate(weights) if is_first(self.reduce) else None
        return pickle.dumps((start, evaluation))

    def _learn(self, number: int, say: Callable[[str], Any]) -> Start:
        settings = self.settings
        begin = start_weights(settings, self.grammar, self.words, self.plain, number)
        shared: dict[str, Any] = {
            "num_steps": settings.steps,
            "progress": False,
            "callback": partial(self._iteration, number, say),
            "checkpoint": None if self.out is None else checkpoint_path(self.out, number),
            "checkpoint_every": CHECKPOINT_EVERY,
        }
        if settings.method in SAMPLERS:
            return _sampled(settings, self.grammar, self.words, self.held_out, begin, number, shared)
        loop = _loop(settings, self.grammar, begin, self.prior, self.reduce)
        loop.run(
            self.words,
            tolerance=settings.tolerance,
            held_out=self.held_out,
            patience=settings.patience,
            held_out_smoothing=settings.smoothing,
            **shared,
        )
        return Start(number, loop.weights(), list(loop.history), list(loop.held_out_history), loop.stopped)

    def _iteration(self, number: int, say: Callable[[str], Any], loop: GrammarLoop) -> None:
        """Called after every iteration."""
        say(f"iteration {len(loop.history):4d}, {OBJECTIVE[self.settings.method]} {loop.history[-1]:,.1f}")


def run_starts(work: StartWork, jobs: int, meanwhile: Callable[[], object] = lambda: None) -> list[tuple[Start, Any]]:
    """All starts in order, each with what ``evaluate`` made of it.

    :param jobs: number of processes; one is this process.
    :param meanwhile: what this process does while others are at work.
    """
    total, objective = work.settings.starts, OBJECTIVE[work.settings.method]
    tasks: dict[int, tuple[int, ...]] = dict.fromkeys(range(1, total + 1), ())
    names = {number: f"start {number} of {total}" for number in tasks}
    results = {}
    with (
        Bar(total) as bar,
        closing(
            run_tasks(work, tasks, {}, jobs, lambda number, text: bar.say(names[number], text), meanwhile)
        ) as finished,
    ):
        for number, data in finished:
            start, evaluation = pickle.loads(data)
            results[number] = (start, evaluation)
            told = (
                f"{plural(len(start.objective), 'iteration')}, {objective} {start.objective[-1]:,.2f} ({start.stopped})"
            )
            bar.finished(names[number], f"{names[number]}: {told}")
    return [results[number] for number in tasks]


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
    shared: dict[str, Any] = {"initial_weights": start, "seed": settings.seed + number, "keep_parts": False}
    kind = TreeHastings if settings.method == "hastings" else TreeGibbs
    sampler = kind(model, **shared)
    sampler.run(words, burn_in=settings.steps // 2, **options)
    weights = sampler.weights()
    likelihoods = [math.nan] * len(sampler.history)
    if held_out is not None:
        smooth = smoothed(grammar, weights, settings.smoothing)
        likelihoods[-1] = float(Sentence(grammar, smooth).log_prob(held_out).sum())
    return Start(
        number, weights, list(sampler.history), likelihoods, f"{plural(settings.steps, 'sweep')}, the second half kept"
    )


def noiseless_start(settings: Settings, grammar: Grammar, words: Tensor, heads: Tensor | None) -> Weights:
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


def _loop(
    settings: Settings, grammar: Grammar, start: Weights, prior: float | Weights | None, reduce: Reduce | None
) -> GrammarLoop:
    if settings.method == "em":
        model = partial(maximum_likelihood, grammar=grammar, initial_weights=start)
        return EM(model, initial_weights=start, reduce=reduce)
    assert prior is not None
    learn = settings.method == "vb-em"
    blocks = grammar.blocks.values()
    lumped = any(isinstance(block, PackedBlock) and block.lumped is not None for block in blocks)
    if settings.method == "em-map" and lumped and not isinstance(prior, dict):
        # Modes add α - 1 to the counts of each outcome; those of a sum of outcomes are to add their sum.
        prior = {name: 1 + (prior - 1) * block.outcomes.expand(block.shape) for name, block in grammar.blocks.items()}
    model = partial(dirichlet, grammar=grammar, concentration=prior, learn=learn)
    if settings.method == "cvb":
        return CollapsedVB(model, initial_weights=start)
    kind = EM if settings.method == "em-map" else VariationalEM
    return kind(model, initial_weights=start, reduce=reduce)
