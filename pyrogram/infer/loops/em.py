# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Expectation maximisation: maximum likelihood, and MAP under Dirichlet priors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

from pyrogram.grammar import Weights
from pyrogram.infer.model.indicators import summed_out
from pyrogram.infer.model.reading import read
from pyrogram.infer.model.structure import ModelError, TracedModel
from pyrogram.infer.running.reduce import Reduce

from .constraints import Constraint
from .e_step import ScheduledEStep
from .held import CoordinateAscent, HeldProblem
from .schedules import Schedule


class EM(CoordinateAscent):
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
        if unconstrained:
            self._kind = "EM, unconstrained"

    def latents(self) -> Weights:
        """The present values of the latent sites."""
        problem, state = self._present()
        sources = problem.traced.weight_sources
        values = {n: sources[n].at_site(w) for n, w in state.weights.items() if sources[n].concentration is not None}
        values |= problem.latents(state.weights, state.parameters)
        return {name: value.clone() for name, value in values.items()}

    def _prepare(self, model: Callable[[], Any]) -> HeldProblem:
        model = summed_out(model, "EM")
        traced = read(model, "EM", unconstrained=self.unconstrained)
        self._check(traced)
        return HeldProblem(traced, model, "EM", self.m_steps, self.unconstrained)

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
