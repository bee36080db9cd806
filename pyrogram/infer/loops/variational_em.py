# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Mean-field variational Bayes by coordinate ascent, with empirical Bayes for what the priors depend on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import pyro.distributions as dist
from torch import Tensor

from pyrogram.distributions.sentence import safe_log
from pyrogram.grammar import Weights
from pyrogram.infer.model.expected_counts import expected_counts, most_likely
from pyrogram.infer.model.priors import Priors, present_priors
from pyrogram.infer.model.structure import ModelError, Problem, TracedModel
from pyrogram.infer.model.tracing import trace_model
from pyrogram.infer.running.state import Info

from .base import GrammarLoop
from .dirichlet_factors import DirichletFactors

if TYPE_CHECKING:
    from pyrogram.infer.logistic_normal.factors import LogisticNormalFactors


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


@dataclass
class _Problem(Problem):
    """:param normals: None for a model without logistic normals, which has no use for any of their code."""

    dirichlets: DirichletFactors
    normals: LogisticNormalFactors | None
    _prior: tuple[Weights, Priors] | None = None

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


class VariationalEM(GrammarLoop[_Problem, VariationalState]):
    """Variational Bayes for Dirichlets and logistic normals; maximum likelihood for whatever is a ``pyro.param``.

    The objective is the evidence lower bound, exact in each iteration and never falling. An iteration is an E-step
    (q given the priors), the bound, and an M-step (the priors given q).

    **Dirichlet weights.** q(weights) q(derivations) is a Dirichlet per multinomial and a weighted grammar (Kurihara and
    Sato 2006; Cohen, Gimpel and Smith 2008, section 3). The bound is

        sum over sentences of log Z(exp E_q[log w])  -  sum over Dirichlet sites of KL(q || prior);

    an iteration sets q's concentrations to α + f, f the expected counts under weights exp(ψ(q) - ψ(sum q)), and weights
    that are ``pyro.param``s to normalised counts.

    **Logistic normals** (:func:`~pyrogram.distributions.logistic_normal`, and shared ones), drawn for each sentence
    (the papers' model) or once for the corpus. q is a Gaussian for every coordinate of every expert (2008, appendix A;
    2009, Figure 3). Given the counts of a sentence, its Gaussians are moved to their optimum by Newton's method, then
    its trees are weighted anew, until the sentence's bound gains less than ``e_step_tolerance``: at the end of the
    E-step the bound is below that of the sentences' own optimum by about that much, and it never falls.

    If a prior depends on ``pyro.param``s, they are re-estimated in every iteration to maximise the bound (empirical
    Bayes): means and covariances in closed form where they *are* ``pyro.param``s, all else by a few steps of L-BFGS on
    the unconstrained values, kept only if the bound rises. Whatever code computes a prior from them will do. A
    Dirichlet's concentration *vector* of its own for every multinomial has no finite optimum (each iteration adds the
    counts once more and q closes in on maximum likelihood); share it, as in ``α * torch.ones(...)``. The same holds for
    the covariance of a logistic normal that is drawn once for the corpus.

    ``weights()`` are the posterior means of Dirichlets and, of logistic normals, softmax of the mean: of μ for those
    drawn for each sentence, of q's mean for those drawn once. (softmax of a mean is not the mean of the softmax.)

    >>> grammar = pyrogram.CFG.from_string("S -> 'a' S | 'a'")
    >>> words = grammar.encode([["a"], ["a"], ["a", "a", "a"]])
    >>> loop = VariationalEM(pyrogram.models.dirichlet.dirichlet).run(words, grammar, concentration=1.0, progress=False)
    >>> loop.weights()["rules"]  # (1 + 2) / 7 and (1 + 3) / 7
    tensor([0.4286, 0.5714])

    :param averaging: what the M-step of a logistic normal averages over: ``"all"`` sentences, as the paper prints,
        so that the parameters of rare heads move slowly, or those in which the multinomial is ``"present"``. The bound
        never falls in either if covariances are diagonal; with full covariances only ``"all"`` guarantees it.
    :param point_estimate: ``"softmax"``, or ``"exp"`` for logistic normals: the exponentiated mean, a weighted and not
        a probabilistic grammar (the papers' wording leaves it open). Held-out likelihood is that of this estimate.
    :param e_step_tolerance: nats per sentence, see above.
    :param e_step_rounds: most rounds of Newton's method and trees in an E-step; a sentence that has not settled by then
        goes on in the next iteration.
    """

    def __init__(
        self,
        model: Callable[..., Any],
        *,
        initial_weights: Mapping[str, Tensor] | str | None = None,
        averaging: Literal["all", "present"] = "all",
        point_estimate: Literal["softmax", "exp"] = "softmax",
        e_step_tolerance: float = 1e-3,
        e_step_rounds: int = 10,
    ):
        super().__init__(model, initial_weights=initial_weights)
        if averaging not in ("all", "present") or point_estimate not in ("softmax", "exp"):
            raise ValueError(
                f"averaging must be 'all' or 'present' and point_estimate 'softmax' or 'exp', not {averaging!r} and "
                f"{point_estimate!r}"
            )
        if e_step_tolerance < 0 or e_step_rounds < 1:
            raise ValueError(
                f"need e_step_tolerance >= 0 and e_step_rounds >= 1, not {e_step_tolerance} and {e_step_rounds}"
            )
        self.averaging, self.point_estimate = averaging, point_estimate
        self.e_step_tolerance, self.e_step_rounds = e_step_tolerance, e_step_rounds

    def posterior(self) -> dict[str, dist.TorchDistribution]:
        """q(weights) by Dirichlet site, and q(η) by Gaussian site of those drawn once for the corpus."""
        problem, state = self._present()
        found = problem.dirichlets.posterior(state.posterior)
        if problem.normals is not None:
            found |= problem.normals.posterior(problem.prior(state.parameters), state.experts)
        return found

    def _prepare(self, model: Callable[[], Any]) -> _Problem:
        traced = trace_model(model, "VariationalEM")
        _check(traced)
        normals = None
        if traced.gaussians:
            from pyrogram.infer.logistic_normal.factors import LogisticNormalFactors

            normals = LogisticNormalFactors(traced, model, self.e_step_tolerance, self.averaging)
        return _Problem(traced, model, DirichletFactors(traced), normals)

    def _init(self, problem: _Problem, start: Weights) -> VariationalState:
        """The first q of Dirichlets is that of an E-step under the initial weights."""
        traced, normals = problem.traced, problem.normals
        experts = {} if normals is None else normals.start(start)
        parameters = traced.parameter_values()
        prior, posterior = problem.prior(parameters), Weights()
        if problem.dirichlets.blocks:
            log_weights = {name: safe_log(w) for name, w in start.items()}
            if normals is None:
                _, counts = expected_counts(traced, log_weights)
            else:
                _, counts = normals.e_step(prior, experts, log_weights, rounds=1)
            posterior = problem.dirichlets.update(prior, counts)
            if normals is None:
                parameters = problem.learn(prior, posterior, parameters)
        weights = {name: start[name] for name, source in traced.weight_sources.items() if source.is_point}
        return VariationalState(weights, posterior, experts, parameters)

    def _update(self, problem: _Problem, state: VariationalState) -> tuple[VariationalState, Info]:
        traced, dirichlets, normals = problem.traced, problem.dirichlets, problem.normals
        prior = problem.prior(state.parameters)
        # E-step: derivations under E_q[log w], in turn with the experts of their sentences.
        log_weights = {name: safe_log(w) for name, w in state.weights.items()}
        log_weights |= dirichlets.expected_logs(state.posterior)
        if normals is None:
            bound, counts = expected_counts(traced, log_weights)
        else:
            bound, counts = normals.e_step(prior, state.experts, log_weights, self.e_step_rounds)
            bound += normals.q.negative_kl()
        for divergence in dirichlets.divergences(state.posterior, prior):
            bound -= divergence
        # The rest of q, and the M-step.
        posterior = dirichlets.update(prior, counts)
        if normals is not None:
            normals.q.update_corpus(counts)
        parameters = problem.learn(prior, posterior, state.parameters)
        experts = {} if normals is None else normals.numbers()
        return VariationalState(most_likely(traced, counts, state.weights), posterior, experts, parameters), Info(bound)

    def _estimate(self, problem: _Problem, state: VariationalState) -> Weights:
        estimate = {**state.weights, **problem.dirichlets.means(state.posterior)}
        for name, source in problem.traced.weight_sources.items():
            if source.logistic_normal is not None and problem.normals is not None:
                mean = problem.normals.mean(name, problem.prior(state.parameters), state.experts).to(source.value)
                estimate[name] = mean.exp() if self.point_estimate == "exp" else source.block.softmax(mean)
        return estimate

    def _like(self, problem: _Problem) -> VariationalState:
        sources, normals = problem.traced.weight_sources, problem.normals
        return VariationalState(
            weights={name: s.value for name, s in sources.items() if s.is_point},
            posterior={name: sources[name].value for name in problem.dirichlets.blocks},
            experts={} if normals is None else normals.q.state(),
            parameters=problem.traced.unconstrained,
        )


def _check(traced: TracedModel) -> None:
    sentences: dict[str, str] = {}
    for site in traced.sentences:
        for name in site.source_of_block.values():
            if traced.weight_sources[name].per_sentence and sentences.setdefault(name, site.name) != site.name:
                raise ModelError(
                    f"VariationalEM needs the weights {name!r}, which each sentence has of its own, to serve one "
                    f"Sentence site, not both {sentences[name]!r} and {site.name!r}"
                )
