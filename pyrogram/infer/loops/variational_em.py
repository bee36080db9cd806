# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Mean-field variational Bayes by coordinate ascent, with empirical Bayes for what the priors depend on."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal

import pyro
import pyro.distributions as dist
import torch
from pyro import poutine
from pyro.infer.autoguide import AutoNormal
from torch import Tensor
from typing_extensions import Unpack

from pyrogram.infer.model.indicators import summed_out
from pyrogram.infer.model.reading import read
from pyrogram.infer.model.structure import ModelError
from pyrogram.random_state import random_state_kept

from .e_step import EStepOptions, ScheduledEStep
from .guided_vb import GuidedProblem, GuideOptions, guide_sites
from .held import CoordinateAscent, DirichletProblem, HeldProblem
from .importance import ImportanceWeightedBound
from .logistic_normal_vb import EStep, LogisticNormalOptions, LogisticNormalProblem

Optim = Callable[[list[Tensor]], torch.optim.Optimizer]

#: The optimiser of guides, unless another is given.
ADAM = partial(torch.optim.Adam, lr=0.05)

#: Without restarts.
E_STEP = EStep()


_STEPS = 10  # of L-BFGS, where nothing but concentrations is learnt


class VariationalEM(CoordinateAscent):
    """Variational Bayes for any prior; maximum likelihood for whatever is a ``pyro.param``.

    The objective is the evidence lower bound. Of Dirichlets and logistic normals it is exact in each iteration, and
    never falls. An iteration is an E-step (q given the priors), the bound, and an M-step (the priors given q).

    **Dirichlet weights.** q(weights) q(derivations) is a Dirichlet per multinomial and a weighted grammar (Kurihara and
    Sato 2006; Cohen, Gimpel and Smith 2008, section 3). The bound is

        sum over sentences of log Z(exp E_q[log w])  -  sum over Dirichlet sites of KL(q || prior);

    an iteration sets q's concentrations to α + f, f the expected counts under weights exp(ψ(q) - ψ(sum q)), and weights
    that are ``pyro.param`` sites to normalised counts.

    **Logistic normals** (:func:`~pyrogram.distributions.logistic_normal`, and shared ones), drawn for each sentence
    (the papers' model) or once for the corpus. q is a Gaussian for every coordinate of every expert (2008, appendix A;
    2009, Figure 3). Given the counts of a sentence, its Gaussians are moved to their optimum by Newton's method, then
    its trees are weighted anew, until the sentence's bound gains less than ``e_step.tolerance``: at the end of the
    E-step the bound is below that of a local optimum by about that much, and it never falls. Other optima of a sentence
    may be better: see ``e_step.restarts``, and docs/logistic-normals.md for how often they are.

    With full covariances the bound is lower by a constant for what does not occur: ``(log |Σ| + Σ_i log (Σ⁻¹)_ii) / 2``
    nats for each sentence and each Gaussian that it does not use, for the best independent coordinates are not the
    prior. The evidence has no such term. :meth:`importance_weighted_bound` estimates how far below it the bound is.

    If a prior depends on ``pyro.param`` sites, they are re-estimated in every iteration to maximise the bound
    (empirical Bayes): means and covariances in closed form where they *are* ``pyro.param`` sites, all else by a few
    steps of L-BFGS on the unconstrained values, kept only if the bound rises. Whatever code computes a prior from them
    will do. A Dirichlet's concentration *vector* of its own for every multinomial has no finite optimum (each iteration
    adds the counts once more and q closes in on maximum likelihood); share it, as in ``α * torch.ones(...)``. The same
    holds for the covariance of a logistic normal that is drawn once for the corpus.

    **Any other prior.** Weights may be computed, by code that autograd can follow, from latent values z of any kind,
    and Dirichlets' concentrations may be latent. q(z) is a Pyro guide; Dirichlets that are weights and nothing else,
    and derivations, keep their closed forms. An iteration

    1. weights derivations by E_q[log w], exact for entries of Dirichlets, and for all else an average over draws of z;
    2. sets q of a Dirichlet to E_q[α] + f;
    3. makes ``guide_steps`` steps of stochastic gradients up the bound in which sentences are their tangents <f, log w>
       (see :func:`.tangent`), without a chart, in the parameters of the guide and of the model.

    The bound is then an estimate from ``guide_draws`` draws, which may fall, and is too high on average, for log Z is
    convex; :meth:`marginal_bound` has no such bias. Without any z, as for a network beside Dirichlets, it is exact, and
    the third part is L-BFGS, after which it never falls.

    ``weights()`` are E_q[w], the posterior means, but of logistic normals softmax of the mean: of μ for those drawn for
    each sentence, of q's mean for those drawn once. (softmax of a mean is not the mean of the softmax.)

    >>> grammar = pyrogram.CFG.from_string("S -> 'a' S | 'a'")
    >>> words = grammar.encode([["a"], ["a"], ["a", "a", "a"]])
    >>> loop = VariationalEM(pyrogram.models.dirichlet.dirichlet).run(words, grammar, concentration=1.0, progress=False)
    >>> loop.weights()["rules"]  # (1 + 2) / 7 and (1 + 3) / 7
    tensor([0.4286, 0.5714])

    :param guide: of latent values without a closed form: a class of ``pyro.infer.autoguide``, or a partial of one
        (``partial(AutoLowRankMultivariateNormal, rank=4)``); or a guide with the model's arguments, whose sites then
        are its own, Dirichlets among them. An amortised one will do.
    :param guide_steps: steps of the optimiser in an iteration.
    :param guide_draws: draws of z for E_q[log w].
    :param optim: makes a torch optimiser from a list of tensors; by default Adam with learning rate 0.05.
    :param averaging: what the M-step of a logistic normal averages over: ``"all"`` sentences, as the paper prints,
        so that the parameters of rare heads move slowly, or those in which the multinomial is ``"present"``. The bound
        never falls in either if covariances are diagonal; with full covariances only ``"all"`` guarantees it.
    :param point_estimate: ``"softmax"``, or ``"exp"`` for logistic normals: the exponentiated mean, a weighted and not
        a probabilistic grammar (the papers' wording leaves it open). Held-out likelihood is that of this estimate.
    :param e_step: how long the E-step of a logistic normal of each sentence goes on, and whether it is restarted.
    :param schedule: how E-steps over derivations differ from the plain one as long as it lasts: :class:`.Annealed`,
        :class:`.Curriculum`, :class:`.HardSteps`, :class:`.Decaying`, or several at once in a list. The first q is that
        of its first step. Logistic normals have none.
    :param constraints: shares of events that derivations must have on the whole, under q: :class:`.AtLeast` and
        :class:`.AtMost`. Logistic normals have none.
    :param reduce: processes that share the E-step, :func:`.all_reduce` of those of torchrun; the numbers are those of
        one process. Logistic normals are for one process.
    """

    def __init__(
        self,
        model: Callable[..., Any],
        *,
        guide: Callable[..., Any] = AutoNormal,
        guide_steps: int = 20,
        guide_draws: int = 8,
        optim: Optim = ADAM,
        initial_weights: Mapping[str, Tensor] | str | None = None,
        averaging: Literal["all", "present"] = "all",
        point_estimate: Literal["softmax", "exp"] = "softmax",
        e_step: EStep = E_STEP,
        **derivations: Unpack[EStepOptions],
    ):
        super().__init__(model, initial_weights=initial_weights, e_step=ScheduledEStep(**derivations))
        self.logistic_normals = LogisticNormalOptions(averaging, point_estimate, e_step)
        self.guided = GuideOptions(guide, guide_steps, guide_draws, optim)

    def posterior(self) -> dict[str, dist.TorchDistribution]:
        """q(weights) by Dirichlet site, and q(η) by Gaussian site of those drawn once for the corpus."""
        problem, state = self._present()
        return problem.posterior(state)

    def guide(self, *args: Any, **kwargs: Any) -> None:
        """Draw all latent sites from q: a Pyro guide, for ``Predictive(model, guide=loop.guide, ...)``.

        Its arguments are the model's, and are not used.

        :raises ModelError: for logistic normals that each sentence has of its own, whose q is not kept.
        """
        problem, state = self._guided_state()
        for name, q in problem.posterior(state).items():
            pyro.sample(name, q)
        problem.draw()

    def marginal_bound(self, num_samples: int = 10, *, seed: int = 0) -> tuple[float, float]:
        """E_q[log p(sentences, latent values) - log q(latent values)], derivations summed out; and its standard error.

        It is the objective of Pyro's ``SVI`` with q for a guide, in nats, by draws from q. It is no less than the bound
        of this loop, in which q has the derivations, too, where that is exact. A chart is filled for every draw. Of
        logistic normals that each sentence has of its own, q is that of the next iteration's E-step.

        :raises ValueError: for fewer than two draws.
        """
        if num_samples < 2:
            raise ValueError(f"num_samples must be at least 2, not {num_samples}")
        problem, state = self._present()
        if isinstance(problem, LogisticNormalProblem) and problem.is_by_sentence:
            weights, _ = problem.importance_weights(state, num_samples, seed, of_q=True)
            absent = sum(q.absent_negative_kl() for q in problem.q.posteriors.values())
            each = weights.sum(1) + absent + problem.density
        else:
            each = self._log_weights(num_samples, seed)
        return float(each.mean()), float(each.std()) / math.sqrt(num_samples)

    def importance_weighted_bound(self, num_draws: int = 100, *, seed: int = 0) -> ImportanceWeightedBound:
        """The log evidence of the sentences from below, by importance sampling; for logistic normals of each sentence.

        Trees are summed out exactly; only Gaussians are drawn, those that occur in a sentence, from N(m, Σ): about the
        means of q, with the covariances of the prior. Variances of q are too small for that; with those of the prior,
        all moments of the weights are finite, for they are exp(linear in η) times a probability. q is that of the next
        iteration's E-step. As the number of draws grows, the bound rises to the log evidence, in expectation. A warning
        says of how many sentences the draws are too few; see :class:`.ImportanceWeightedBound`.

        :param num_draws: for each sentence; a chart is filled for every draw.
        :raises ModelError: for models in which sentences share latent weights.
        :raises ValueError: for fewer than two draws.
        """
        if num_draws < 2:
            raise ValueError(f"num_draws must be at least 2, not {num_draws}")
        problem, state = self._present()
        if not isinstance(problem, LogisticNormalProblem) or not problem.is_by_sentence:
            raise ModelError(
                "importance_weighted_bound needs logistic normals that each sentence has of its own; marginal_bound() "
                "serves weights that sentences share"
            )
        bound = ImportanceWeightedBound(*problem.importance_weights(state, num_draws, seed, of_q=False))
        bound.warn()
        return bound

    def _log_weights(self, num_samples: int, seed: int) -> Tensor:
        """log p(sentences, latent values) - log q(latent values) of draws from q."""
        problem, _ = self._guided_state()
        log_weights = []
        with torch.no_grad(), random_state_kept(seed):
            for _ in range(num_samples):
                drawn = poutine.trace(self.guide).get_trace()
                trace = poutine.trace(poutine.replay(problem.model, drawn)).get_trace()
                log_weights.append(float(trace.log_prob_sum() - drawn.log_prob_sum()))
        return torch.tensor(log_weights, dtype=torch.float64)

    def _guided_state(self) -> tuple[HeldProblem, Any]:
        """The problem and the state, whose parameters are put into Pyro's store: the model's code asks it for them."""
        problem, state = self._present()
        if isinstance(problem, LogisticNormalProblem) and problem.is_by_sentence:
            raise ModelError("VariationalEM keeps no q of logistic normals that each sentence has of its own")
        problem.traced.set_parameters(state.parameters)
        self._write_parameters()
        return problem, state

    def _read(self, args: Any, kwargs: Any) -> HeldProblem:
        problem = super()._read(args, kwargs)
        self.may_fall = problem.is_random
        return problem

    def _prepare(self, model: Callable[[], Any]) -> HeldProblem:
        assert isinstance(model, partial)
        loop, guided, guide, opened = "VariationalEM", self.guided, None, set[str]()
        if not guided.is_factory:
            guide = partial(guided.guide, *model.args, **model.keywords)
            opened = set(guide_sites(guide)[0])
        marginal = summed_out(model, loop)
        traced = read(marginal, loop, opened=opened, logistic_normals=guided.is_factory)
        if traced.gaussians:
            return LogisticNormalProblem(traced, marginal, self.logistic_normals)
        if opened or any(p.is_latent for p in traced.hyperparameters.values()):
            return GuidedProblem(traced, marginal, guided, guide)
        computed = any(source.is_computed for source in traced.weight_sources.values())
        return DirichletProblem(traced, marginal, "VariationalEM", guided.steps if computed else _STEPS)
