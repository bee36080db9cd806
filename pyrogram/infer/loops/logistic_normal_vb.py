# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Variational Bayes by coordinate ascent for logistic normals, beside Dirichlets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import pyro.distributions as dist
import torch
from pyro import poutine
from torch import Tensor

from pyrogram.distributions import Gaussian, LogisticNormalWeights
from pyrogram.distributions.sentence import safe_log
from pyrogram.grammar import Weights
from pyrogram.infer.logistic_normal.e_step import LogisticNormalPosterior, Start
from pyrogram.infer.logistic_normal.empirical_bayes import current_priors, learn_priors, plan_m_step
from pyrogram.infer.logistic_normal.posterior import ExpertPosterior
from pyrogram.infer.logistic_normal.priors import Priors
from pyrogram.infer.model.expected_counts import expected_counts
from pyrogram.infer.model.reading import log_density
from pyrogram.infer.model.structure import ModelError, TracedModel, WeightSource
from pyrogram.infer.running.state import Info
from pyrogram.random_state import random_state_kept

from .e_step import Count, Counted
from .held import HeldProblem, VariationalState


@dataclass(frozen=True)
class EStep:
    """How the E-step of logistic normals goes that each sentence has of its own; see :class:`.VariationalEM`.

    Trees and Gaussians take turns, so that its end is a local optimum. With ``restarts``, every ``restart_every``-th
    E-step also begins at the prior's mean, and at ``restarts - 1`` draws from the prior, which the number of the
    iteration decides on. Each sentence keeps the best of its ends, the one from its present q among them: the bound
    does not fall. Such an E-step takes about ``1 + restarts`` times as long as the first one.

    :param tolerance: nats per sentence: a sentence is done when a round gains less.
    :param rounds: most rounds of Newton's method and trees; a sentence that has not settled by then goes on in the next
        iteration.
    :param restarts: how many starts there are besides the present q.
    :param restart_every: iterations from one E-step with restarts to the next; the first iteration has them.
    :raises ValueError: if there is no round, or if a number is negative, or no integer where it counts.
    """

    tolerance: float = 1e-3
    rounds: int = 10
    restarts: int = 0
    restart_every: int = 10

    def __post_init__(self) -> None:
        least = {"rounds": 1, "restarts": 0, "restart_every": 1}
        counts = all(isinstance(getattr(self, name), int) and getattr(self, name) >= n for name, n in least.items())
        if not isinstance(self.tolerance, int | float) or not self.tolerance >= 0 or not counts:
            raise ValueError(
                "an E-step needs tolerance >= 0 and integers rounds >= 1, restarts >= 0 and restart_every >= 1, "
                f"not {self}"
            )


@dataclass(frozen=True)
class LogisticNormalOptions:
    """How logistic normals are treated; see :class:`.VariationalEM`."""

    averaging: Literal["all", "present"]
    point_estimate: Literal["softmax", "exp"]
    e_step: EStep

    def __post_init__(self) -> None:
        if not isinstance(self.e_step, EStep):
            raise TypeError(f"e_step must be an EStep(tolerance, rounds, restarts), not {self.e_step!r:.80}")
        if self.averaging not in ("all", "present") or self.point_estimate not in ("softmax", "exp"):
            raise ValueError(
                f"averaging must be 'all' or 'present' and point_estimate 'softmax' or 'exp', not {self.averaging!r} "
                f"and {self.point_estimate!r}"
            )


@dataclass(frozen=True)
class LogisticNormalState(VariationalState):
    """The same with logistic normals; on the number of the iteration restarts depend.

    :param experts: q's means and variances of logistic normals, by name.
    """

    experts: Weights = field(default_factory=dict)


class LogisticNormalProblem(HeldProblem):
    """A model whose logistic normals are moved by Newton's method; its Dirichlets have closed forms.

    The numbers of the experts' q belong to a state. The memory in which they are moved, ``q``, holds those of one state
    at a time, and takes those of another where it must.

    :raises ModelError: for weights of each sentence that serve two Sentence sites.
    """

    def __init__(self, traced: TracedModel, model: Callable[[], Any], options: LogisticNormalOptions) -> None:
        _check(traced)
        with random_state_kept(0), torch.no_grad():
            #: of observed sites that are no sentences: a constant
            self.density = float(log_density(poutine.trace(model).get_trace(), traced))
        super().__init__(traced, model, "VariationalEM", steps=0)
        self.options, self.roles = options, plan_m_step(traced)
        self.q = LogisticNormalPosterior(traced, options.e_step.tolerance)
        self._prior: tuple[Weights, Priors] | None = None  # at parameters
        self._in_memory: tuple[Priors | None, Weights | None] = None, None  # what ``q`` has, priors and numbers

    def reference(self, loop: str) -> str:
        return f"{self.density:.6g}" if self.density else ""

    @property
    def is_by_sentence(self) -> bool:
        """Whether there are logistic normals that each sentence has of its own."""
        return any(source.per_sentence for source in self.traced.weight_sources.values())

    # ------------------------------------------------------------------ an algorithm

    def start(self, weights: Weights, dual: Weights, count: Count) -> LogisticNormalState:
        """The first q of experts is at their priors' optimum, or around given weights, that of Dirichlets by an E-step.

        Means of priors that are ``pyro.param`` sites are set to start at these weights, too.

        :param weights: by source.
        :param dual: where constraints stand at first.
        :param count: of no use here: logistic normals have an E-step of their own.
        """
        sources = self.traced.weight_sources
        initial = {name: w for name, w in weights.items() if sources[name].logistic_normal is not None}
        if initial:
            self.q.write_start(self.traced, self.roles, current_priors(self.model, self.traced, self.roles), initial)
        parameters, points = self.traced.parameter_values(), self.fixed(weights)
        prior = self.prior(parameters)
        self.q.set_priors(prior)
        self.q.start(prior, initial)
        state = LogisticNormalState(points, parameters, dual, experts=self._numbers(prior))
        if alpha := self._alpha(prior):
            log_weights = {name: safe_log(w) for name, w in weights.items()}
            _, counts = self._counted(prior, state, log_weights, rounds=1)
            state = replace(self.m_step(replace(state, posterior=alpha), counts, alpha), weights=points)
        return state

    def update(self, state: LogisticNormalState, count: Count) -> tuple[LogisticNormalState, Info]:
        """An iteration: the E-step, the rest of q, and the M-step."""
        prior, counted = self.e_step(state)
        new = self.m_step(state.following(counted.dual), counted.counts, self._alpha(prior))
        self.q.update_corpus(counted.counts)
        parameters = self._learnt(prior, new)
        return replace(new, parameters=parameters, experts=self._numbers(prior)), Info(counted.objective)

    def estimate(self, state: LogisticNormalState) -> Weights:
        estimate = {name: multinomials.weights for name, multinomials in self.held(state).items()}
        for name, source in self.traced.weight_sources.items():
            if source.logistic_normal is not None:
                mean = self._mean(source, source.logistic_normal, state).to(source.value)
                exponentiated = self.options.point_estimate == "exp"
                estimate[name] = mean.exp() if exponentiated else source.block.softmax(mean)
        return estimate

    def posterior(self, state: LogisticNormalState) -> dict[str, dist.TorchDistribution]:
        """q by latent site: of Dirichlets, and of Gaussians that are drawn once for the corpus."""
        return super().posterior(state) | self._at(self.prior(state.parameters), state).corpus_gaussians()

    def importance_weights(
        self, state: LogisticNormalState, num_draws: int, seed: int, *, of_q: bool
    ) -> tuple[Tensor, Tensor]:
        """log p(sentence, experts) - log r(experts) by draw and sentence; the bound of each sentence; after an E-step.

        :param of_q: whether r is q, or N(m, Σ), about the means of q with the covariances of the prior.
        :raises ModelError: if there is a latent site that sentences share.
        """
        for name, source in self.traced.weight_sources.items():
            if source.concentration is not None or (source.logistic_normal is not None and not source.per_sentence):
                raise ModelError(
                    f"importance weights of sentences need weights that are each sentence's own, but {name!r} is drawn "
                    "once for all; make it a pyro.param, or draw all weights once and use marginal_bound()"
                )
        self.e_step(state)
        tables = {name: safe_log(w) for name, w in state.weights.items()}
        generator, sites = np.random.default_rng(seed), self.traced.sentences
        weights = [self.q.log_importance_weights(s, tables, num_draws, generator, of_q) for s in sites]
        return torch.cat(weights, 1), torch.cat([self.q.sentence_bounds(s, tables) for s in sites])

    # ------------------------------------------------------------------ the parts of an iteration

    def e_step(self, state: LogisticNormalState) -> tuple[Priors, Counted]:
        """Derivations under E_q[log w], in turn with the experts of their sentences: priors; the bound, with counts.

        The experts are moved in the memory of ``q``; the numbers of the state stay.
        """
        prior, held = self.prior(state.parameters), self.held(state)
        log_weights = {name: multinomials.log_weights for name, multinomials in held.items()}
        options, iteration = self.options.e_step, int(state.iteration)
        restarts = options.restarts if iteration % options.restart_every == 0 else 0
        starts = _other_starts(restarts, iteration)
        bound, counts = self._counted(prior, state, log_weights, options.rounds, starts)
        bound += sum(float(q.negative_kl().sum()) + q.absent_negative_kl() for q in self.q.posteriors.values())
        bound += self.density + sum(held[name].bound(alpha) for name, alpha in self._alpha(prior).items())
        return prior, Counted(bound, counts, state.dual)

    def prior(self, parameters: Weights) -> Priors:
        """The priors at the parameters of a state; computed once for each."""
        if self._prior is None or self._prior[0] is not parameters:
            self.traced.set_parameters(parameters)
            self._prior = parameters, current_priors(self.model, self.traced, self.roles)
        return self._prior[1]

    def _at(self, prior: Priors, state: LogisticNormalState) -> LogisticNormalPosterior:
        """q with the numbers of a state, which are not to be changed."""
        if prior is not self._in_memory[0]:
            self.q.set_priors(prior)
        if state.experts is not self._in_memory[1]:
            self.q.load(state.experts)
        self._in_memory = prior, state.experts
        return self.q

    def _numbers(self, prior: Priors) -> Weights:
        """A copy of the present numbers of q."""
        experts = {name: tensor.clone() for name, tensor in self.q.state().items()}
        self._in_memory = prior, experts
        return experts

    def _counted(
        self,
        prior: Priors,
        state: LogisticNormalState,
        log_weights: Weights,
        rounds: int,
        starts: Sequence[Start] = (),
    ) -> tuple[float, Weights]:
        """Trees and the experts of each sentence in turn: the trees' share of the bound, and counts by source.

        :param starts: where else to begin, see :meth:`.LogisticNormalPosterior.site_counts`.
        """
        shared = {**log_weights, **self._at(prior, state).log_weights()}
        self._in_memory = prior, None
        return expected_counts(self.traced, shared, partial(self.q.site_counts, rounds=rounds, starts=starts))

    def _learnt(self, prior: Priors, state: LogisticNormalState) -> Weights:
        """The M-step: parameters that raise E_q[log p]. The experts are those of the last E-step."""
        if state.parameters:
            self.traced.set_parameters(state.parameters)
            held, moments = self.held(state), self.q.moments(absent=self.options.averaging == "all")
            expected_logs = {name: held[name].log_weights for name in state.posterior}
            learn_priors(self.model, self.traced, self.roles, prior, expected_logs, moments)
        return self.traced.parameter_values()

    def _mean(self, source: WeightSource, normal: LogisticNormalWeights, state: LogisticNormalState) -> Tensor:
        """The mixed mean of a source: of μ, or of q where there is one draw."""
        structure, prior = normal.structure, self.prior(state.parameters)
        if not source.per_sentence:
            return structure.average(normal.block, self._at(prior, state).corpus_means(source.name))
        locs = {}
        for family, site in normal.sites.items():
            gaussian = prior[site]
            assert isinstance(gaussian, Gaussian)
            locs[family] = gaussian.loc.expand(structure.experts[family].shape)
        return structure.average(normal.block, locs)

    def _alpha(self, prior: Priors) -> Weights:
        """The concentrations of Dirichlet sites."""
        return {name: alpha for name, alpha in prior.items() if isinstance(alpha, Tensor)}


def _other_starts(number: int, iteration: int) -> list[Start]:
    """Where E-steps begin besides at q: the priors' optimum, then draws that the iteration decides on."""

    def draw(place: int, q: ExpertPosterior) -> None:
        q.start_at_draw(np.random.default_rng([iteration, place]))

    starts: list[Start] = [ExpertPosterior.start]
    starts += [partial(draw, place) for place in range(1, number)]
    return starts[:number]


def _check(traced: TracedModel) -> None:
    sentences: dict[str, str] = {}
    for site in traced.sentences:
        for name in site.source_of_block.values():
            if traced.weight_sources[name].per_sentence and sentences.setdefault(name, site.name) != site.name:
                raise ModelError(
                    f"VariationalEM needs the weights {name!r}, which each sentence has of its own, to serve one "
                    f"Sentence site, not both {sentences[name]!r} and {site.name!r}"
                )
