# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Expectation maximisation: maximum likelihood, and MAP under Dirichlet priors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pyrogram.distributions.sentence import safe_log
from pyrogram.grammar import Block, Weights
from pyrogram.infer.model.expected_counts import expected_counts
from pyrogram.infer.model.structure import ModelError, Problem, TracedModel
from pyrogram.infer.model.tracing import trace_model
from pyrogram.infer.running.state import Info

from .base import GrammarLoop


@dataclass(frozen=True)
class EMState:
    """Normalised weights by source."""

    weights: Weights


class EM(GrammarLoop[Problem, EMState]):
    """EM for a grammar whose weights are ``pyro.param``s (maximum likelihood) or Dirichlet sites (MAP).

    The objective is log p(sentences | weights) plus the log density of the Dirichlet sites at the weights. An
    iteration replaces the weights by normalised expected counts f, or f + α - 1 under a Dirichlet (Cohen, Gimpel and
    Smith 2008, section 5); neither lowers it. A multinomial without any count keeps its weights. The learnt values
    are written into Pyro's parameter store.

    >>> grammar = pyrogram.CFG.from_string("S -> 'a' S | 'a'")
    >>> words = grammar.encode([["a"], ["a"], ["a", "a", "a"]])
    >>> loop = EM(pyrogram.models.maximum_likelihood).run(words, grammar, progress=False)
    >>> loop.weights()["rules"].detach()  # the shares of two and three uses
    tensor([0.4000, 0.6000])

    Under a concentration above 1 the density of a weight of zero is zero, and the harmonic start has such weights. The
    objective is then -inf before the first iteration, which lifts every such weight, and finite ever after.

    :raises ModelError: for a concentration below 1 (the density is infinite at the boundary: use
        :class:`.VariationalEM`) or one that is itself to be learnt, and whatever :class:`GrammarLoop` refuses.
    """

    def _prepare(self, model: Callable[[], Any]) -> Problem:
        traced = trace_model(model, "EM")
        _check(traced)
        return Problem(traced, model)

    def _init(self, problem: Problem, start: Weights) -> EMState:
        return EMState(start)

    def _update(self, problem: Problem, state: EMState) -> tuple[EMState, Info]:
        objective, counts = expected_counts(problem.traced, {name: safe_log(w) for name, w in state.weights.items()})
        weights = {}
        for name, source in problem.traced.weight_sources.items():
            if source.concentration is None:
                pseudo = counts[name]
            else:
                objective += float(_log_density(source.block, source.concentration, state.weights[name]))
                pseudo = counts[name] + (source.concentration - 1)
            totals = source.block.totals(pseudo)
            weights[name] = torch.where(totals > 0, source.block.normalize(pseudo), state.weights[name])
        return EMState(weights), Info(objective)

    def _estimate(self, problem: Problem, state: EMState) -> Weights:
        return state.weights

    def _like(self, problem: Problem) -> EMState:
        return EMState({name: source.value for name, source in problem.traced.weight_sources.items()})


def _check(traced: TracedModel) -> None:
    for source in traced.weight_sources.values():
        if source.logistic_normal is not None:
            raise ModelError(f"EM cannot handle the logistic normal {source.name!r}; use VariationalEM")
        if source.concentration is None:
            continue
        if source.learns_prior:
            raise ModelError(
                f"EM cannot learn the concentration of Dirichlet site {source.name!r}, for MAP would push it to "
                "the boundary; use VariationalEM"
            )
        if bool((source.concentration < 1).any()):
            raise ModelError(
                f"EM needs concentrations of at least 1, but that of Dirichlet site {source.name!r} goes down to "
                f"{float(source.concentration.min()):g}; use VariationalEM"
            )


def _log_density(block: Block, alpha: Tensor, weights: Tensor) -> Tensor:
    """Sum of log Dirichlet densities; an α of 1 makes nothing of a weight of zero."""
    kernel = torch.where(alpha == 1, 0.0, (alpha - 1) * safe_log(weights)).sum()
    return kernel + torch.lgamma(block.sums(alpha)).sum() - torch.lgamma(alpha).sum()
