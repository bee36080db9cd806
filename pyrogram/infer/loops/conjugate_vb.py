# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Variational Bayes by coordinate ascent in closed form: Dirichlets, and the Gaussians of logistic normals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import pyro.distributions as dist

from pyrogram.distributions.sentence import safe_log
from pyrogram.grammar import Weights
from pyrogram.infer.model.expected_counts import expected_counts, most_likely
from pyrogram.infer.model.priors import Priors, present_priors
from pyrogram.infer.model.structure import ModelError, Problem, TracedModel
from pyrogram.infer.running.state import Info

from .dirichlet_factors import DirichletFactors

if TYPE_CHECKING:
    from pyrogram.infer.logistic_normal.factors import LogisticNormalFactors


@dataclass(frozen=True)
class LogisticNormalOptions:
    """How logistic normals are treated; see :class:`.VariationalEM`."""

    averaging: Literal["all", "present"]
    point_estimate: Literal["softmax", "exp"]
    e_step_tolerance: float
    e_step_rounds: int

    def __post_init__(self) -> None:
        if self.averaging not in ("all", "present") or self.point_estimate not in ("softmax", "exp"):
            raise ValueError(
                f"averaging must be 'all' or 'present' and point_estimate 'softmax' or 'exp', not {self.averaging!r} "
                f"and {self.point_estimate!r}"
            )
        if self.e_step_tolerance < 0 or self.e_step_rounds < 1:
            raise ValueError(
                f"need e_step_tolerance >= 0 and e_step_rounds >= 1, not {self.e_step_tolerance} and "
                f"{self.e_step_rounds}"
            )


@dataclass(frozen=True)
class VariationalState:
    """q, and what is estimated.

    :param weights: of sources that have no prior: ``pyro.param``s and constants.
    :param posterior: q's concentrations by Dirichlet site.
    :param experts: q's means and variances of logistic normals, by name.
    :param parameters: unconstrained, those that priors depend on.
    """

    weights: Weights
    posterior: Weights
    experts: Weights
    parameters: Weights


class ConjugateProblem(Problem):
    """A model all of whose factors of q have closed forms, or Newton's method.

    :raises ModelError: for weights of each sentence that serve two Sentence sites.
    """

    def __init__(self, traced: TracedModel, model: Callable[[], Any], options: LogisticNormalOptions) -> None:
        super().__init__(traced, model)
        _check(traced)
        self.options, self.dirichlets = options, DirichletFactors(traced)
        #: None for a model without logistic normals, which has no use for any of their code
        self.normals: LogisticNormalFactors | None = None
        if traced.gaussians:
            from pyrogram.infer.logistic_normal.factors import LogisticNormalFactors

            self.normals = LogisticNormalFactors(traced, model, options.e_step_tolerance, options.averaging)
        self._prior: tuple[Weights, Priors] | None = None

    def start(self, weights: Weights) -> VariationalState:
        """The first q of Dirichlets is that of an E-step under the initial weights.

        :param weights: by source.
        """
        traced, normals = self.traced, self.normals
        experts = {} if normals is None else normals.start(weights)
        parameters = traced.parameter_values()
        prior, posterior = self.prior(parameters), Weights()
        if self.dirichlets.blocks:
            log_weights = {name: safe_log(w) for name, w in weights.items()}
            if normals is None:
                _, counts = expected_counts(traced, log_weights)
            else:
                _, counts = normals.e_step(prior, experts, log_weights, rounds=1)
            posterior = self.dirichlets.update(prior, counts)
            if normals is None:
                parameters = self.learn(prior, posterior, parameters)
        points = {name: weights[name] for name, source in traced.weight_sources.items() if source.is_point}
        return VariationalState(points, posterior, experts, parameters)

    def update(self, state: VariationalState) -> tuple[VariationalState, Info]:
        """An iteration."""
        traced, dirichlets, normals = self.traced, self.dirichlets, self.normals
        prior = self.prior(state.parameters)
        # E-step: derivations under E_q[log w], in turn with the experts of their sentences.
        log_weights = {name: safe_log(w) for name, w in state.weights.items()}
        log_weights |= dirichlets.expected_logs(state.posterior)
        if normals is None:
            bound, counts = expected_counts(traced, log_weights)
        else:
            bound, counts = normals.e_step(prior, state.experts, log_weights, self.options.e_step_rounds)
            bound += normals.q.negative_kl()
        for divergence in dirichlets.divergences(state.posterior, prior):
            bound -= divergence
        # The rest of q, and the M-step.
        posterior = dirichlets.update(prior, counts)
        if normals is not None:
            normals.q.update_corpus(counts)
        parameters = self.learn(prior, posterior, state.parameters)
        experts = {} if normals is None else normals.numbers()
        return VariationalState(most_likely(traced, counts, state.weights), posterior, experts, parameters), Info(bound)

    def estimate(self, state: VariationalState) -> Weights:
        """The point estimate of weights by source."""
        estimate = {**state.weights, **self.dirichlets.means(state.posterior)}
        for name, source in self.traced.weight_sources.items():
            if source.logistic_normal is not None and self.normals is not None:
                mean = self.normals.mean(name, self.prior(state.parameters), state.experts).to(source.value)
                exponentiated = self.options.point_estimate == "exp"
                estimate[name] = mean.exp() if exponentiated else source.block.softmax(mean)
        return estimate

    def posterior(self, state: VariationalState) -> dict[str, dist.TorchDistribution]:
        """q by latent site: of Dirichlets, and of Gaussians that are drawn once for the corpus."""
        found = self.dirichlets.posterior(state.posterior)
        if self.normals is not None:
            found |= self.normals.posterior(self.prior(state.parameters), state.experts)
        return found

    def like(self) -> VariationalState:
        """A state with the names and shapes that all have."""
        sources, normals = self.traced.weight_sources, self.normals
        return VariationalState(
            weights={name: s.value for name, s in sources.items() if s.is_point},
            posterior={name: sources[name].value for name in self.dirichlets.blocks},
            experts={} if normals is None else normals.q.state(),
            parameters=self.traced.unconstrained,
        )

    def prior(self, parameters: Weights) -> Priors:
        """The priors at the parameters of a state; computed once for each."""
        if self._prior is None or self._prior[0] is not parameters:
            self.traced.set_parameters(parameters)
            prior = present_priors(self.model, self.traced) if self.normals is None else self.normals.prior()
            self._prior = parameters, prior
        return self._prior[1]

    def learn(self, prior: Priors, posterior: Weights, parameters: Weights) -> Weights:
        """The M-step: parameters that raise E_q[log p]. The experts are those of the last E-step."""
        if not parameters:
            return parameters
        self.traced.set_parameters(parameters)
        expected_logs = self.dirichlets.expected_logs(posterior)
        if self.normals is None:
            self.dirichlets.learn(self.model, expected_logs)
        else:
            self.normals.learn(prior, expected_logs)
        return self.traced.parameter_values()


def _check(traced: TracedModel) -> None:
    sentences: dict[str, str] = {}
    for site in traced.sentences:
        for name in site.source_of_block.values():
            if traced.weight_sources[name].per_sentence and sentences.setdefault(name, site.name) != site.name:
                raise ModelError(
                    f"VariationalEM needs the weights {name!r}, which each sentence has of its own, to serve one "
                    f"Sentence site, not both {sentences[name]!r} and {site.name!r}"
                )
