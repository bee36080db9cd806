# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""EM and variational Bayes as one coordinate ascent, which differ in how multinomials are held.

A multinomial is held at a point, or as a Dirichlet q. Either has weights, log weights for the E-step, and a share of
the objective; expected counts and a prior make the next one. What weights are computed from is moved by gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pyro.distributions as dist
import torch
from torch import Tensor
from torch.distributions import kl_divergence
from typing_extensions import Self

from pyrogram.distributions.packed_dirichlet import dirichlet_prior, expected_log
from pyrogram.distributions.sentence import safe_log
from pyrogram.grammar import Weights
from pyrogram.infer.model.points import PointProblem, Terms, expected_log_dirichlet, log_dirichlet_density
from pyrogram.infer.model.structure import TracedModel, WeightSource, most_likely
from pyrogram.infer.running.state import Info, ragged

from .base import GrammarLoop
from .e_step import Count


@dataclass(frozen=True)
class AtPoint:
    """Multinomials at their weights: of maximum likelihood, or of MAP under Dirichlets.

    :param weights: w, normalised.
    :param unconstrained: whether densities are those of logits.
    """

    source: WeightSource
    weights: Tensor
    unconstrained: bool = False

    @property
    def log_weights(self) -> Tensor:
        """log w."""
        return safe_log(self.weights)

    def log_prior(self, alpha: Tensor) -> Tensor:
        """log p(w | α), as often as the model has it, in nats."""
        w, scale = self.weights.to(alpha), self.source.scale
        return log_dirichlet_density(self.source.block, alpha, w, scale, self.unconstrained)

    def bound(self, alpha: Tensor) -> float:
        """The share of the objective that the prior has."""
        return float(self.log_prior(alpha))


@dataclass(frozen=True)
class DirichletQ:
    """Multinomials of which a Dirichlet q is known.

    :param concentration: of q.
    """

    source: WeightSource
    concentration: Tensor

    @property
    def weights(self) -> Tensor:
        """E_q[w]."""
        return self.concentration / self.source.block.totals(self.concentration)

    @cached_property
    def log_weights(self) -> Tensor:
        """E_q[log w], which is ψ(q) - ψ(sum q)."""
        return expected_log(self.source.block, self.concentration)

    def log_prior(self, alpha: Tensor) -> Tensor:
        """E_q[log p(w | α)], as often as the model has it, in nats."""
        return self.source.scale * expected_log_dirichlet(self.source.block, alpha, self.log_weights.cpu())

    def bound(self, alpha: Tensor) -> float:
        """E_q[log p - log q], p as often as the model has it.

        For concentrations near zero both terms are huge, and their difference is not: it is that of KL.
        """
        q, block, scale = self.concentration, self.source.block, self.source.scale
        bound = -float(kl_divergence(dirichlet_prior(block, q), dirichlet_prior(block, alpha.to(q))))
        if scale != 1:
            bound += (scale - 1) * float(expected_log_dirichlet(block, alpha, self.log_weights.cpu()))
        return bound

    @property
    def distribution(self) -> dist.TorchDistribution:
        """q as a distribution of the site."""
        q, block = self.concentration.clone(), self.source.block
        site: dist.TorchDistribution = dirichlet_prior(block, q)
        if self.source.probability is not None:
            site = dist.Beta(q[..., 0], q[..., 1]).to_event(block.batch_dim)
        return site


Held = Mapping[str, AtPoint | DirichletQ]
"""How the multinomials of each source are held."""


@dataclass(frozen=True)
class HeldState:
    """How multinomials are held, and where the rest of the model stands.

    :param weights: of sources that are held at a point, and of constants.
    :param parameters: unconstrained parameters and latent values that other weights and priors are computed from.
    :param dual: where constraints stand.
    :param posterior: q's concentrations of sources that are held as Dirichlets.
    """

    weights: Weights
    parameters: Weights = field(default_factory=dict)
    dual: Weights = field(default_factory=dict)
    posterior: Weights = field(default_factory=dict)

    def following(self, dual: Weights) -> Self:
        """The state of the next iteration, in which multinomials and parameters have not moved yet."""
        return replace(self, dual=dual)


@dataclass(frozen=True)
class VariationalState(HeldState):
    """The same with a guide.

    :param iteration: how many there were before, on which a guide's random numbers depend.
    :param optimiser: the state of a guide's optimiser.
    """

    iteration: Tensor = field(default_factory=lambda: torch.tensor(0))
    optimiser: Weights = ragged(default_factory=dict)

    def following(self, dual: Weights) -> Self:
        return replace(self, dual=dual, iteration=self.iteration + 1)


class HeldProblem(PointProblem):
    """A model whose multinomials are held in some way, and all of whose other values stand at a point.

    :param loop: name of the loop, for messages.
    :param steps: of L-BFGS in an iteration.
    """

    is_random = False

    def __init__(
        self, traced: TracedModel, model: Callable[[], Any], loop: str, steps: int, unconstrained: bool = False
    ) -> None:
        super().__init__(traced, model, unconstrained)
        self.steps = steps
        self.traced = replace(traced, reference=self.reference(loop))

    # ------------------------------------------------------------------ an algorithm

    def start(self, weights: Weights, dual: Weights, count: Count) -> Any:
        """At given weights, to whose expected counts all else is fitted if some of them are computed.

        :param weights: by source; of those that are computed all or none.
        :param dual: where constraints stand at first.
        :param count: the E-step over derivations.
        """
        state = HeldState(self.fixed_weights(weights), self.traced.parameter_values(), dual)
        if len(state.weights) == len(weights):
            return state
        computed = self.average(self.held(state), state).log_weights
        logs = {name: safe_log(w) for name, w in weights.items()}
        return self.climbed(state, count(self.traced, computed | logs, dual).counts)

    def update(self, state: Any, count: Count) -> tuple[Any, Info]:
        """An iteration: derivations, then multinomials in closed form, then all else."""
        held = self.held(state)
        averages = self.average(held, state)
        log_weights = {name: multinomials.log_weights for name, multinomials in held.items()} | averages.log_weights
        derivations = count(self.traced, log_weights, state.dual)
        bound = float(averages.density + averages.log_jacobian)
        bound += sum(self._bound(held, name, alpha) for name, alpha in averages.alpha.items())
        new = self.m_step(state.following(derivations.dual), derivations.counts, averages.alpha)
        return self.climbed(new, derivations.counts), Info(derivations.objective + bound)

    def estimate(self, state: Any) -> Weights:
        """The weights by source, or E_q of them."""
        held = self.held(state)
        computed = {name: w.exp() for name, w in self.average(held, state).log_weights.items()}
        return {name: multinomials.weights for name, multinomials in held.items()} | computed

    def posterior(self, state: Any) -> dict[str, dist.TorchDistribution]:
        """q of the Dirichlet sites that have closed forms."""
        return {name: q.distribution for name, q in self.held(state).items() if isinstance(q, DirichletQ)}

    def draw(self) -> Any:
        """Draw the other latent values from q, as a Pyro guide; here there are none."""

    # ------------------------------------------------------------------ the parts of an iteration

    def held(self, state: Any) -> Held:
        """The multinomials that are not computed."""
        sources = self.traced.weight_sources
        points = {name: AtPoint(sources[name], w, self.unconstrained) for name, w in state.weights.items()}
        return {**points, **{name: DirichletQ(sources[name], q) for name, q in state.posterior.items()}}

    def fixed_weights(self, weights: Weights) -> Weights:
        """Weights of sources that are not computed."""
        return {name: w for name, w in weights.items() if not self.traced.weight_sources[name].is_computed}

    def average(self, held: Held, state: Any) -> Terms:
        """What the model is under q of all that has no closed form: at a point, what it is there."""
        return self.evaluate({name: multinomials.weights for name, multinomials in held.items()}, state.parameters)

    def m_step(self, state: Any, counts: Weights, alpha: Weights) -> Any:
        """The best multinomials given expected counts f, the prior as often as the model has it.

        q has the concentrations f + α; the mode of the density of logits is proportional to f + α, that of weights to
        f + α - 1.
        """
        pseudo = dict(counts)
        for name, a in alpha.items():
            scale, one = self.traced.weight_sources[name].scale, name in state.posterior or self.unconstrained
            pseudo[name] = counts[name] + (scale * a + (one - scale)).to(counts[name])
        weights = most_likely(self.traced, pseudo, state.weights)
        return replace(state, weights=weights, posterior={name: pseudo[name] for name in state.posterior})

    def climbed(self, state: Any, counts: Weights) -> Any:
        """Move all else up the objective in which sentences are tangents."""
        held = self.held(state)
        values = {name: multinomials.weights for name, multinomials in held.items()}
        parameters = self.climb(values, state.parameters, counts, self.steps, lambda n, alpha: held[n].log_prior(alpha))
        return replace(state, parameters=parameters)

    def _bound(self, held: Held, name: str, alpha: Tensor) -> float:
        return held[name].bound(alpha)


class DirichletProblem(HeldProblem):
    """A model whose Dirichlets that are weights are held as Dirichlets; parameters stand at a point."""

    def start(self, weights: Weights, dual: Weights, count: Count) -> Any:
        """The first q of Dirichlets is that of an E-step under given weights, to which all else is fitted.

        Its parameters are those of :meth:`HeldProblem.start`.
        """
        sources = self.traced.weight_sources
        points = self.fixed(weights)
        state = VariationalState(points, self.traced.parameter_values())
        averages = self.average(self.even(), state)
        logs = {name: safe_log(w) for name, w in weights.items()}
        first = count(self.traced, averages.log_weights | logs, dual)
        alpha = {name: averages.alpha[name] for name in sources if name in averages.alpha}
        state = self.m_step(replace(state, dual=first.dual, posterior=alpha), first.counts, alpha)
        state = replace(state, weights=points)
        if self.fixed_weights(weights).keys() != weights.keys() or not (self.is_random or averages.log_weights):
            state = self.climbed(state, first.counts)
        return state

    def even(self) -> Held:
        """Multinomials of which nothing is known, and none of whose weights is zero."""
        sources = self.traced.weight_sources.items()
        return {name: AtPoint(s, s.block.uniform(s.value)) for name, s in sources if not s.is_computed}


class CoordinateAscent(GrammarLoop[HeldProblem, Any]):
    """EM and variational Bayes: a model, as it was read, knows where it starts and what an iteration is."""

    def _init(self, problem: HeldProblem, start: Weights) -> Any:
        return problem.start(start, self._e_step.start(), self._count)

    def _update(self, problem: HeldProblem, state: Any) -> tuple[Any, Info]:
        return problem.update(state, self._count)

    def _estimate(self, problem: HeldProblem, state: Any) -> Weights:
        return problem.estimate(state)

    def _way(self, problem: HeldProblem, source: WeightSource) -> str:
        if source.logistic_normal is not None:
            return "Newton's method"
        if not source.is_computed:
            return "closed form"
        return "guide" if problem.is_random else "gradient"
