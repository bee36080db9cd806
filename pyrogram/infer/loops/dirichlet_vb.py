# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Variational Bayes by coordinate ascent: trees and Dirichlets in closed form, parameters by gradient."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import pyro.distributions as dist
import torch
from torch import Tensor

from pyrogram.distributions.sentence import safe_log
from pyrogram.grammar import Weights
from pyrogram.infer.model.points import PointProblem, Prior, expected_log_dirichlet
from pyrogram.infer.model.structure import TracedModel, most_likely
from pyrogram.infer.running.state import Info, ragged

from .dirichlet_factors import DirichletFactors
from .e_step import Count

_STEPS = 10  # of L-BFGS, where nothing but concentrations is learnt


@dataclass(frozen=True)
class VariationalState:
    """q, and what is estimated.

    :param weights: of sources that have no prior: ``pyro.param`` sites and constants.
    :param posterior: q's concentrations by Dirichlet site.
    :param parameters: unconstrained, of the model and of the guide.
    :param iteration: how many there were before, on which a guide's random numbers depend.
    :param optimiser: the state of a guide's optimiser.
    :param dual: where constraints stand.
    """

    weights: Weights
    posterior: Weights
    parameters: Weights
    iteration: Tensor
    optimiser: Weights = ragged()
    dual: Weights = field(default_factory=dict)


@dataclass(frozen=True)
class Averages:
    """Over latent values without a closed form.

    :param log_weights: E_q[log w] of sources that are computed.
    :param weights: E_q[w] of these.
    :param alpha: the concentrations of Dirichlet sites.
    :param bound: E_q[log p(z, other observed sites) - log q(z)].
    """

    log_weights: Weights
    weights: Weights
    alpha: Weights
    bound: float


@dataclass(frozen=True)
class Multinomials:
    """The sources that are not computed.

    :param values: by source, normalised.
    :param find_logs: finds :attr:`expected_logs`.
    """

    values: Weights
    find_logs: Callable[[], Weights]

    @cached_property
    def expected_logs(self) -> Weights:
        """E_q[log w] by Dirichlet site, found when somebody asks for it: not every iteration has a use for it."""
        return self.find_logs()


class DirichletProblem(PointProblem):
    """A model all of whose latent values are Dirichlets that are weights; parameters stand at a point.

    :param steps: of L-BFGS in an iteration, where weights are computed.
    """

    is_random = False

    def __init__(self, traced: TracedModel, model: Callable[[], Any], steps: int) -> None:
        super().__init__(traced, model)
        self.dirichlets, self.steps = DirichletFactors(traced), steps
        self.traced = replace(traced, reference=self.reference("VariationalEM"))

    # ------------------------------------------------------------------ an algorithm

    def start(self, weights: Weights, dual: Weights, count: Count) -> VariationalState:
        """The first q of Dirichlets is that of an E-step under the initial weights, to which all else is fitted.

        :param weights: by source; of those that are computed all or none.
        :param dual: where constraints stand at first.
        :param count: the E-step over derivations.
        """
        sources, nothing = self.traced.weight_sources, torch.tensor(0)
        logs = {name: safe_log(w) for name, w in weights.items()}
        points = {name: w for name, w in weights.items() if sources[name].is_point and not sources[name].is_computed}
        parameters = self.traced.parameter_values()
        averages = self.average(self.even(), parameters, 0)
        first = count(self.traced, {**averages.log_weights, **logs}, dual)
        posterior = self._posterior(averages.alpha, first.counts)
        state = VariationalState(points, posterior, parameters, nothing, {}, first.dual)
        if any(sources[name].is_computed for name in weights) or not (self.is_random or averages.log_weights):
            return self.climbed(state, first.counts)
        return state

    def update(self, state: VariationalState, count: Count) -> tuple[VariationalState, Info]:
        """An iteration: derivations, Dirichlets and weights that are parameters in closed form, then all else."""
        at = self.at(state)
        averages = self.average(at, state.parameters, int(state.iteration))
        log_weights = {name: safe_log(w) for name, w in state.weights.items()}
        log_weights |= at.expected_logs | averages.log_weights
        derivations = count(self.traced, log_weights, state.dual)
        counts = derivations.counts
        bound = derivations.objective + (averages.bound + self._of_dirichlets(averages.alpha, state.posterior, at))
        new = replace(
            state,
            weights=most_likely(self.traced, counts, state.weights),
            posterior=self._posterior(averages.alpha, counts),
            iteration=state.iteration + 1,
            dual=derivations.dual,
        )
        return self.climbed(new, counts), Info(bound)

    def estimate(self, state: VariationalState) -> Weights:
        """E_q[w] by source."""
        averages = self.average(self.at(state), state.parameters, int(state.iteration))
        return {**state.weights, **self.dirichlets.means(state.posterior), **averages.weights}

    def posterior(self, state: VariationalState) -> dict[str, dist.TorchDistribution]:
        """q of the Dirichlet sites that have closed forms."""
        return self.dirichlets.posterior(state.posterior)

    def draw(self) -> Any:
        """Draw the other latent values from q, as a Pyro guide; here there are none."""

    def like(self) -> VariationalState:
        """A state with the names and shapes that all have."""
        sources = self.traced.weight_sources
        return VariationalState(
            weights={n: s.value for n, s in sources.items() if s.is_point and not s.is_computed},
            posterior={name: sources[name].value for name in self.dirichlets.blocks},
            parameters=self.traced.unconstrained,
            iteration=torch.tensor(0),
            optimiser={},
        )

    # ------------------------------------------------------------------ the parts of an iteration

    def at(self, state: VariationalState) -> Multinomials:
        """Dirichlets at their means, with E_q[log w] for their logarithms, and weights that are parameters."""
        means = self.dirichlets.means(state.posterior) | state.weights
        return Multinomials(means, partial(self.dirichlets.expected_logs, state.posterior))

    def even(self) -> Multinomials:
        """The same where nothing is known of q, and no weight is zero."""
        start = {n: s.block.uniform(s.value) for n, s in self.traced.weight_sources.items() if not s.is_computed}
        return Multinomials(start, lambda: {n: w.log() for n, w in start.items()})

    def average(self, at: Multinomials, parameters: Weights, iteration: int) -> Averages:
        """Expectations under q of all that has no closed form: of parameters, their values."""
        terms = self.evaluate(at.values, parameters)
        weights = {name: w.exp() for name, w in terms.log_weights.items()}
        return Averages(terms.log_weights, weights, terms.alpha, float(terms.density))

    def climbed(self, state: VariationalState, counts: Weights) -> VariationalState:
        """Move parameters up the bound in which sentences are tangents, by L-BFGS."""
        at = self.at(state)
        computed = any(source.is_computed for source in self.traced.weight_sources.values())
        prior, steps = self._expected(at), self.steps if computed else _STEPS
        return replace(state, parameters=self.climb(at.values, state.parameters, counts, steps, prior))

    def _expected(self, at: Multinomials) -> Prior:
        """Of Dirichlets that are held as another Dirichlet, q: E_q[log p], as often as the model has it."""
        sources = self.traced.weight_sources

        def prior(name: str, alpha: Tensor) -> Tensor:
            logs = at.expected_logs[name].cpu()
            return sources[name].scale * expected_log_dirichlet(sources[name].block, alpha, logs)

        return prior

    def _posterior(self, alpha: Weights, counts: Weights) -> Weights:
        """The best q of the Dirichlets: prior and likelihood as often as the model has them."""
        sources = self.traced.weight_sources
        return {n: (sources[n].scale * a + (1 - sources[n].scale)).to(counts[n]) + counts[n] for n, a in alpha.items()}

    def _of_dirichlets(self, alpha: Weights, posterior: Weights, at: Multinomials) -> float:
        """E_q[log p - log q] of Dirichlets, p as often as the model has it.

        For concentrations near zero both terms are huge, and their difference is not: it is that of KL.
        """
        bound = -sum(self.dirichlets.divergences(posterior, {n: a.to(posterior[n]) for n, a in alpha.items()}))
        for name, a in alpha.items():
            source = self.traced.weight_sources[name]
            if source.scale != 1:
                logs = at.expected_logs[name].cpu()
                bound += (source.scale - 1) * float(expected_log_dirichlet(source.block, a, logs))
        return bound
