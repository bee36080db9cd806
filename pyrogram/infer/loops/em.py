# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Expectation maximisation: maximum likelihood, and MAP under Dirichlet priors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from pyrogram.distributions.sentence import safe_log
from pyrogram.grammar import Weights
from pyrogram.infer.model.indicators import summed_out
from pyrogram.infer.model.points import PointProblem, Prior, log_dirichlet_density
from pyrogram.infer.model.reading import read
from pyrogram.infer.model.structure import ModelError, TracedModel, WeightSource
from pyrogram.infer.running.reduce import Reduce
from pyrogram.infer.running.state import Info

from .base import GrammarLoop
from .constraints import Constraint
from .e_step import ScheduledEStep
from .schedules import Schedule


@dataclass(frozen=True)
class EMState:
    """Normalised weights by source, and where the rest of the model stands.

    :param weights: of sources that have a closed form, and constants.
    :param parameters: unconstrained parameters and latent values that other weights are computed from.
    :param dual: where constraints stand.
    """

    weights: Weights
    parameters: Weights = field(default_factory=dict)
    dual: Weights = field(default_factory=dict)


class EM(GrammarLoop[PointProblem, EMState]):
    """EM for a grammar with weights of any kind: maximum likelihood of ``pyro.param`` sites, MAP of latent sites.

    The objective is log p(sentences | weights) plus the log density of latent sites, and of other observed ones. No
    iteration lowers it.

    **Closed form.** Weights that are ``pyro.param`` sites, Dirichlet or Beta sites, or entries of these, become
    normalised expected counts f, or f + α - 1 under a Dirichlet (Cohen, Gimpel and Smith 2008, section 5). A
    multinomial without any count keeps its weights.

    **Gradient.** Weights may be computed from parameters and continuous latent sites by any code that autograd can
    follow: a network, a softmax of features or of normals. Then parameters and latent values are moved by a few steps
    of L-BFGS up the same objective with the sentences replaced by their tangent <f, log weights> (see
    :func:`.tangent`), which is a lower bound that touches it: no chart is run in these steps. Latent values begin
    near the medians of their priors, parameters at their values; with ``initial_weights=``, both are fitted to the
    expected counts under these first. :meth:`plan` says which weights are updated how.

    Densities are those of the sites, as Pyro's ``AutoDelta`` has them. A scale that is a parameter of the prior of a
    latent site has no mode: it shrinks to zero, as a concentration grows, and the objective grows without end; give it
    a prior, or use :class:`.VariationalEM`. The learnt values of parameters are written into
    Pyro's parameter store; :meth:`latents` are those of latent sites.

    >>> grammar = pyrogram.CFG.from_string("S -> 'a' S | 'a'")
    >>> words = grammar.encode([["a"], ["a"], ["a", "a", "a"]])
    >>> loop = EM(pyrogram.models.maximum_likelihood).run(words, grammar, progress=False)
    >>> loop.weights()["rules"].detach()  # the shares of two and three uses
    tensor([0.4000, 0.6000])

    Under a concentration above 1 the density of a weight of zero is zero, and the harmonic start has such weights. The
    objective is then -inf before the first iteration, which lifts every such weight, and finite ever after.

    :param m_steps: steps of L-BFGS in an iteration, where weights are computed. Features and Gaussian processes do well
        with 10, networks with 30.
    :param unconstrained: whether the densities of latent sites are those of their unconstrained coordinates, such as
        logits and logarithms (MacKay 1998), as Pyro's ``AutoLaplaceApproximation`` has them. A multinomial becomes
        f + α, normalised, so concentrations may be below 1, or latent; those that are parameters have no mode there
        either.
    :param schedule: how E-steps differ from the plain one as long as it lasts: :class:`.Annealed`,
        :class:`.Curriculum`, :class:`.HardSteps`, :class:`.Decaying`, or several at once in a list. Each says which
        objective its steps climb.
    :param constraints: shares of events that derivations must have on the whole, :class:`.AtLeast` and
        :class:`.AtMost`; the objective is then the greatest E_q[log p(sentences, derivations)] + H(q) that they leave.
    :raises ModelError: for discrete latent sites and minibatches; and unless ``unconstrained``, for a concentration
        below 1, where the density is infinite at the boundary, and one that is itself to be learnt.
    """

    def __init__(
        self,
        model: Callable[..., Any],
        *,
        initial_weights: Mapping[str, Tensor] | str | None = None,
        m_steps: int = 10,
        unconstrained: bool = False,
        schedule: Schedule | Sequence[Schedule] | None = None,
        constraints: Sequence[Constraint] = (),
        reduce: Reduce | None = None,
    ):
        super().__init__(model, initial_weights=initial_weights, e_step=ScheduledEStep(schedule, constraints, reduce))
        if m_steps < 1:
            raise ValueError(f"m_steps must be at least 1, not {m_steps}")
        self.m_steps, self.unconstrained = m_steps, unconstrained

    def latents(self) -> Weights:
        """The present values of the latent sites."""
        problem, state = self._present()
        sources = problem.traced.weight_sources
        values = {n: sources[n].at_site(w) for n, w in state.weights.items() if sources[n].concentration is not None}
        problem.traced.set_parameters(state.parameters)
        values |= problem.latents(state.weights)
        return {name: value.clone() for name, value in values.items()}

    def _prepare(self, model: Callable[[], Any]) -> PointProblem:
        model = summed_out(model, "EM")
        traced = read(model, "EM", unconstrained=self.unconstrained)
        self._check(traced)
        points = PointProblem(traced, model, self.unconstrained)
        points.traced = replace(traced, reference=points.reference("EM"))
        return points

    def _carry(self, old: PointProblem, state: EMState, new: PointProblem) -> None:
        """Latent values of other weights begin where they were, if the new model has them."""
        new.traced.begin_at(state.parameters)

    def _init(self, problem: PointProblem, start: Weights) -> EMState:
        sources = problem.traced.weight_sources
        weights = {name: w for name, w in start.items() if not sources[name].is_computed}
        parameters = problem.traced.parameter_values()
        if len(start) > len(weights):
            missing = sources.keys() - start.keys()
            computed = problem.evaluate(weights, parameters).log_weights if missing else {}
            log_weights = {**computed, **{name: safe_log(w) for name, w in start.items()}}
            counts = self._count(problem.traced, log_weights, self._e_step.start()).counts
            prior = _densities(problem, weights)
            parameters = problem.climb(weights, parameters, counts, self.m_steps, prior)
        return EMState(weights, parameters, self._e_step.start())

    def _update(self, problem: PointProblem, state: EMState) -> tuple[EMState, Info]:
        terms = problem.evaluate(state.weights, state.parameters)
        log_weights = {name: safe_log(w) for name, w in state.weights.items()} | terms.log_weights
        counted = self._count(problem.traced, log_weights, state.dual)
        objective, counts = counted.objective, counted.counts
        objective += float(terms.density + terms.log_jacobian)
        present, weights = _densities(problem, state.weights), Weights()
        for name, old in state.weights.items():
            source = problem.traced.weight_sources[name]
            if source.is_constant:
                weights[name] = old
                continue
            pseudo = counts[name]
            if name in terms.alpha:
                alpha = terms.alpha[name]
                objective += float(present(name, alpha))
                pseudo = pseudo + (source.scale * (alpha - 1) + self.unconstrained).to(pseudo)
            totals = source.block.totals(pseudo)
            weights[name] = torch.where(totals > 0, source.block.normalize(pseudo), old)
        prior = _densities(problem, weights)
        parameters = problem.climb(weights, state.parameters, counts, self.m_steps, prior)
        return EMState(weights, parameters, counted.dual), Info(objective)

    def _estimate(self, problem: PointProblem, state: EMState) -> Weights:
        computed = problem.evaluate(state.weights, state.parameters).log_weights
        return {**state.weights, **{name: w.exp() for name, w in computed.items()}}

    def _like(self, problem: PointProblem) -> EMState:
        sources = problem.traced.weight_sources
        weights = {name: source.value for name, source in sources.items() if not source.is_computed}
        return EMState(weights, problem.traced.unconstrained, self._e_step.start())

    def _kind(self) -> str:
        return "EM, unconstrained" if self.unconstrained else "EM"

    def _way(self, problem: PointProblem, source: WeightSource) -> str:
        return "gradient" if source.is_computed else "closed form"

    def _check(self, traced: TracedModel) -> None:
        """Refuse densities without a greatest value."""
        if self.unconstrained:
            return
        cure = "use EM(unconstrained=True), or VariationalEM"
        cure_of_learnt = "fix it, or use VariationalEM, or, if it has a prior, EM(unconstrained=True)"
        for name, source in traced.weight_sources.items():
            if source.learns_prior:
                raise ModelError(
                    f"EM cannot learn the concentration of Dirichlet site {name!r}, for MAP would push it to the "
                    f"boundary; {cure_of_learnt}"
                )
        latents = {n: p.concentration for n, p in traced.hyperparameters.items()}
        sources = {n: s.concentration for n, s in traced.weight_sources.items() if s.scale}
        for name, alpha in {**latents, **sources}.items():
            if alpha is not None and bool((alpha < 1).any()):
                raise ModelError(
                    f"EM needs concentrations of at least 1, but that of site {name!r} goes down to "
                    f"{float(alpha.min()):g}; {cure}"
                )


def _densities(problem: PointProblem, weights: Weights) -> Prior:
    """Of Dirichlets that are held at a point: their log density there, as often as the model has it."""

    def prior(name: str, alpha: Tensor) -> Tensor:
        source = problem.traced.weight_sources[name]
        w = weights[name].to(alpha)
        return log_dirichlet_density(source.block, alpha, w, source.scale, problem.unconstrained)

    return prior
