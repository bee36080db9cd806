# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Variational Bayes by coordinate ascent for logistic normals, beside Dirichlets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import pyro.distributions as dist
import torch
from pyro import poutine
from torch import Tensor

from pyrogram.distributions.sentence import safe_log
from pyrogram.grammar import Weights
from pyrogram.infer.logistic_normal.factors import LogisticNormalFactors
from pyrogram.infer.logistic_normal.priors import Priors
from pyrogram.infer.model.reading import log_density
from pyrogram.infer.model.structure import ModelError, Problem, TracedModel, most_likely
from pyrogram.infer.running.state import Info
from pyrogram.random_state import random_state_kept

from .e_step import Count, Counted
from .held import DirichletQ


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
class LogisticNormalState:
    """q, and what is estimated.

    :param weights: of sources that have no prior: ``pyro.param`` sites and constants.
    :param posterior: q's concentrations by Dirichlet site.
    :param experts: q's means and variances of logistic normals, by name.
    :param parameters: unconstrained, those that priors depend on.
    :param iteration: how many there were before, on which restarts depend.
    :param dual: where constraints stand.
    """

    weights: Weights
    posterior: Weights
    experts: Weights
    parameters: Weights
    iteration: Tensor
    dual: Weights = field(default_factory=dict)


class LogisticNormalProblem(Problem):
    """A model whose logistic normals are moved by Newton's method; its Dirichlets have closed forms.

    :raises ModelError: for weights of each sentence that serve two Sentence sites.
    """

    is_random = False

    def __init__(self, traced: TracedModel, model: Callable[[], Any], options: LogisticNormalOptions) -> None:
        _check(traced)
        with random_state_kept(0), torch.no_grad():
            #: of observed sites that are no sentences: a constant
            self.density = float(log_density(poutine.trace(model).get_trace(), traced))
        if self.density:
            traced = replace(traced, reference=f"{self.density:.6g}")
        super().__init__(traced, model)
        self.options = options
        self.normals = LogisticNormalFactors(traced, model, options.e_step.tolerance, options.averaging)
        self._prior: tuple[Weights, Priors] | None = None

    def draw(self) -> None:
        """Draw the other latent values from q, as a Pyro guide; here there are none."""

    @property
    def is_by_sentence(self) -> bool:
        """Whether there are logistic normals that each sentence has of its own."""
        return any(source.per_sentence for source in self.traced.weight_sources.values())

    def start(self, weights: Weights, dual: Weights, count: Count) -> LogisticNormalState:
        """The first q of Dirichlets is that of an E-step under the initial weights.

        :param weights: by source.
        :param dual: where constraints stand at first.
        :param count: of no use here: logistic normals have an E-step of their own.
        """
        traced, normals = self.traced, self.normals
        experts = normals.start(weights)
        parameters = traced.parameter_values()
        prior, posterior = self.prior(parameters), Weights()
        if any(source.concentration is not None for source in traced.weight_sources.values()):
            log_weights = {name: safe_log(w) for name, w in weights.items()}
            _, counts = normals.e_step(prior, experts, log_weights, rounds=1)
            posterior = self._updated(prior, counts)
        points = {name: weights[name] for name, source in traced.weight_sources.items() if source.is_point}
        return LogisticNormalState(points, posterior, experts, parameters, torch.tensor(0), dual)

    def update(self, state: LogisticNormalState, count: Count) -> tuple[LogisticNormalState, Info]:
        """An iteration."""
        normals = self.normals
        prior, counted = self.e_step(state)
        counts = counted.counts
        # The rest of q, and the M-step.
        posterior = self._updated(prior, counts)
        normals.q.update_corpus(counts)
        parameters = self.learn(prior, posterior, state.parameters)
        experts = normals.numbers()
        weights = most_likely(self.traced, counts, state.weights)
        new = LogisticNormalState(weights, posterior, experts, parameters, state.iteration + 1, counted.dual)
        return new, Info(counted.objective)

    def e_step(self, state: LogisticNormalState) -> tuple[Priors, Counted]:
        """Derivations under E_q[log w], in turn with the experts of their sentences: priors; the bound, with counts.

        The experts are moved in the memory of ``normals``; the numbers of the state stay.
        """
        normals, prior = self.normals, self.prior(state.parameters)
        dirichlets = self._dirichlets(state.posterior)
        log_weights = {name: safe_log(w) for name, w in state.weights.items()}
        log_weights |= {name: q.log_weights for name, q in dirichlets.items()}
        options, iteration = self.options.e_step, int(state.iteration)
        restarts = options.restarts if iteration % options.restart_every == 0 else 0
        starts = normals.other_starts(restarts, iteration)
        bound, counts = normals.e_step(prior, state.experts, log_weights, options.rounds, starts)
        bound += normals.negative_kl() + self.density
        for name, q in dirichlets.items():
            bound += q.bound(_concentration(prior, name))
        return prior, Counted(bound, counts, state.dual)

    def importance_weights(
        self, state: LogisticNormalState, num_draws: int, seed: int, *, of_q: bool
    ) -> tuple[Tensor, Tensor]:
        """log p(sentence, experts) - log r(experts) by draw and sentence; the bound of each sentence; after an E-step.

        :param of_q: whether r is q, or N(m, Σ), about the means of q with the covariances of the prior.
        :raises ModelError: if there is a latent site that sentences share.
        """
        normals = self.normals
        for name, source in self.traced.weight_sources.items():
            if source.concentration is not None or (source.logistic_normal is not None and not source.per_sentence):
                raise ModelError(
                    f"importance weights of sentences need weights that are each sentence's own, but {name!r} is drawn "
                    "once for all; make it a pyro.param, or draw all weights once and use marginal_bound()"
                )
        self.e_step(state)
        tables = {name: safe_log(w) for name, w in state.weights.items()}
        generator, sites = np.random.default_rng(seed), self.traced.sentences
        weights = [normals.q.log_importance_weights(s, tables, num_draws, generator, of_q) for s in sites]
        return torch.cat(weights, 1), torch.cat([normals.q.sentence_bounds(s, tables) for s in sites])

    def estimate(self, state: LogisticNormalState) -> Weights:
        """The point estimate of weights by source."""
        estimate = {**state.weights, **{name: q.weights for name, q in self._dirichlets(state.posterior).items()}}
        for name, source in self.traced.weight_sources.items():
            if source.logistic_normal is not None:
                mean = self.normals.mean(name, self.prior(state.parameters), state.experts).to(source.value)
                exponentiated = self.options.point_estimate == "exp"
                estimate[name] = mean.exp() if exponentiated else source.block.softmax(mean)
        return estimate

    def posterior(self, state: LogisticNormalState) -> dict[str, dist.TorchDistribution]:
        """q by latent site: of Dirichlets, and of Gaussians that are drawn once for the corpus."""
        by_site = {name: q.distribution for name, q in self._dirichlets(state.posterior).items()}
        by_site |= self.normals.posterior(self.prior(state.parameters), state.experts)
        return by_site

    def prior(self, parameters: Weights) -> Priors:
        """The priors at the parameters of a state; computed once for each."""
        if self._prior is None or self._prior[0] is not parameters:
            self.traced.set_parameters(parameters)
            self._prior = parameters, self.normals.prior()
        return self._prior[1]

    def learn(self, prior: Priors, posterior: Weights, parameters: Weights) -> Weights:
        """The M-step: parameters that raise E_q[log p]. The experts are those of the last E-step."""
        if not parameters:
            return parameters
        self.traced.set_parameters(parameters)
        self.normals.learn(prior, {name: q.log_weights for name, q in self._dirichlets(posterior).items()})
        return self.traced.parameter_values()

    def _dirichlets(self, posterior: Weights) -> dict[str, DirichletQ]:
        return {name: DirichletQ(self.traced.weight_sources[name], q) for name, q in posterior.items()}

    def _updated(self, prior: Priors, counts: Weights) -> Weights:
        """The best concentrations of q given expected counts."""
        sources = self.traced.weight_sources.items()
        return {n: _concentration(prior, n) + counts[n] for n, s in sources if s.concentration is not None}


def _concentration(prior: Priors, name: str) -> Tensor:
    alpha = prior[name]
    assert isinstance(alpha, Tensor)
    return alpha


def _check(traced: TracedModel) -> None:
    sentences: dict[str, str] = {}
    for site in traced.sentences:
        for name in site.source_of_block.values():
            if traced.weight_sources[name].per_sentence and sentences.setdefault(name, site.name) != site.name:
                raise ModelError(
                    f"VariationalEM needs the weights {name!r}, which each sentence has of its own, to serve one "
                    f"Sentence site, not both {sentences[name]!r} and {site.name!r}"
                )
