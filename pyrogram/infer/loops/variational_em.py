# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Mean-field variational Bayes by coordinate ascent, with empirical Bayes for what the priors depend on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import pyro.distributions as dist
import torch
from torch import Tensor
from torch.distributions import kl_divergence

from pyrogram.distributions.gaussian import Gaussian
from pyrogram.distributions.packed_dirichlet import dirichlet_prior, expected_log
from pyrogram.distributions.sentence import safe_log
from pyrogram.grammar import Weights
from pyrogram.infer.logistic_normal.e_step import ExpertPosteriors
from pyrogram.infer.logistic_normal.empirical_bayes import Roles, current_priors, learn_priors, roles_of
from pyrogram.infer.model.priors import Priors
from pyrogram.infer.model.structure import ModelError, Reading

from .base import GrammarLoop


class VariationalEM(GrammarLoop):
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
        self._posterior: Weights = {}  # concentrations of q by Dirichlet site
        self._experts: ExpertPosteriors | None = None  # q of logistic normals
        self._loaded: dict[str, Tensor] = {}  # its state, until it is made
        self._roles = Roles()
        self._current: Priors | None = None  # the priors at the parameters' values

    def posterior(self) -> dict[str, dist.TorchDistribution]:
        """q(weights) by Dirichlet site, and q(η) by Gaussian site of those drawn once for the corpus."""
        sources = self._need_reading().sources
        found: dict[str, Any] = {n: dirichlet_prior(sources[n].block, q.clone()) for n, q in self._posterior.items()}
        if self._experts is not None:
            found.update(self._experts.corpus_gaussians())
        return found

    def _check(self, reading: Reading) -> None:
        self._current, self._experts, self._roles = None, None, roles_of(reading)
        sentences: dict[str, str] = {}
        for site in reading.sentences:
            for name in site.sources.values():
                if reading.sources[name].per_sentence and sentences.setdefault(name, site.name) != site.name:
                    raise ModelError(
                        f"VariationalEM needs the weights {name!r}, which each sentence has of its own, to serve one "
                        f"Sentence site, not both {sentences[name]!r} and {site.name!r}"
                    )

    def _update(self, reading: Reading) -> float:
        priors = self._priors(reading)
        q = self._prepared(reading, priors)
        bayesian = [n for n, s in reading.sources.items() if s.concentration is not None]
        if not self._posterior and bayesian:
            # The start is a set of weights; one E-step with these gives the first q.
            tables = {name: safe_log(w) for name, w in self._weights.items()}
            counts = self._expect(reading, {**tables, **q.tables()}, 1)[1]
            for name in bayesian:
                self._posterior[name] = _concentration(priors, name) + counts[name]
            if self._roles.rest and not reading.gaussians:
                self._learn(reading, priors, q)
                priors = self._priors(reading)
        log_weights = {name: safe_log(w) for name, w in self._weights.items() if reading.sources[name].is_param}
        log_weights.update(self._expected_logs(reading))
        bound, counts = self._expect(reading, {**log_weights, **q.tables()})
        bound += q.negative_divergence()
        for name in bayesian:
            prior = _concentration(priors, name)
            block = reading.sources[name].block
            bound -= float(kl_divergence(dirichlet_prior(block, self._posterior[name]), dirichlet_prior(block, prior)))
            self._posterior[name] = prior + counts[name]
        for name, source in reading.sources.items():
            if source.is_param:
                totals = source.block.totals(counts[name])
                normal = source.block.normalize(counts[name])
                self._weights[name] = torch.where(totals > 0, normal, self._weights[name])
        q.update_corpus(counts)
        self._learn(reading, priors, q)
        return bound

    def _expected_logs(self, reading: Reading) -> Weights:
        """E_q[log w] by Dirichlet site."""
        return {name: expected_log(reading.sources[name].block, c) for name, c in self._posterior.items()}

    def _expect(self, reading: Reading, log_weights: Weights, rounds: int | None = None) -> tuple[float, Weights]:
        """Trees, and the experts of each sentence in turn with them."""
        assert self._experts is not None
        return self._experts.expect(reading, log_weights, self.e_step_rounds if rounds is None else rounds)

    def _priors(self, reading: Reading) -> Priors:
        """The priors at the parameters' present values."""
        if self._current is None:
            args, kwargs = self._args or ((), {})
            self._current = current_priors(lambda: self.model(*args, **kwargs), reading, self._roles)
        return self._current

    def _prepared(self, reading: Reading, priors: Priors) -> ExpertPosteriors:
        """q of the logistic normals under the present priors."""
        if self._experts is None:
            self._experts = ExpertPosteriors(reading, self.e_step_tolerance)
            starts = {n: w for n, w in self._weights.items() if reading.sources[n].mixture is not None}
            if not self._loaded and starts:
                self._experts.write_start(reading, self._roles, priors, starts)
                self._current = None
                priors = self._priors(reading)
            self._experts.set_priors(priors)
            self._experts.start(priors, {} if self._loaded else starts)
            if self._loaded:
                self._experts.load(self._loaded)
                self._loaded = {}
        else:
            self._experts.set_priors(priors)
        return self._experts

    def _learn(self, reading: Reading, priors: Priors, q: ExpertPosteriors) -> None:
        """Empirical Bayes."""
        if not reading.parameters:
            return
        args, kwargs = self._args or ((), {})
        expected = self._expected_logs(reading)
        moments = q.moments(absent=self.averaging == "all")
        learn_priors(lambda: self.model(*args, **kwargs), reading, self._roles, priors, expected, moments)
        self._current = None

    def _point_estimate(self) -> Weights:
        reading = self._need_reading()
        estimate = {name: w for name, w in self._weights.items() if reading.sources[name].is_param}
        for name, source in reading.sources.items():
            if source.concentration is not None:
                c = self._posterior.get(name)
                estimate[name] = self._weights[name] if c is None else c / source.block.totals(c)
            elif source.mixture is not None:
                mean = self._mean(reading, name).to(source.value.device, source.value.dtype)
                estimate[name] = mean.exp() if self.point_estimate == "exp" else source.block.softmax(mean)
        return estimate

    def _mean(self, reading: Reading, name: str) -> Tensor:
        """The mixed mean of a logistic normal: of μ, or of q where there is one draw."""
        source = reading.sources[name]
        assert source.mixture is not None
        structure, block = source.mixture.structure, source.mixture.block
        if not source.per_sentence and self._experts is not None:
            return structure.mix(block, self._experts.corpus_means(name))
        priors = self._priors(reading)
        locs = {}
        for family, site in source.mixture.sites.items():
            prior = priors[site]
            assert isinstance(prior, Gaussian)
            locs[family] = prior.loc.expand(structure.experts[family].shape)
        return structure.mix(block, locs)

    def _tensors(self) -> dict[str, Tensor]:
        tensors = {f"weights.{name}": w for name, w in self._weights.items()}
        tensors.update({f"posterior.{name}": q for name, q in self._posterior.items()})
        experts = self._loaded if self._experts is None else self._experts.state()
        tensors.update({f"experts.{name}": tensor for name, tensor in experts.items()})
        if self._reading is not None:
            tensors.update({f"parameter.{name}": p for name, p in self._reading.hyperparameters.items()})
        return tensors

    def _set_tensors(self, tensors: dict[str, Tensor]) -> None:
        kinds: dict[str, Weights] = {"weights": {}, "posterior": {}, "experts": {}, "parameter": {}}
        for name, tensor in tensors.items():
            kind, _, source = name.partition(".")
            if kind not in kinds:
                raise ValueError(f"this is not the state of VariationalEM: it has {name!r}")
            kinds[kind][source] = tensor
        self._weights, self._posterior, self._loaded = kinds["weights"], kinds["posterior"], kinds["experts"]
        self._experts, self._current = None, None
        if self._reading is not None:
            with torch.no_grad():
                for name, value in kinds["parameter"].items():
                    self._reading.hyperparameters[name].copy_(value)


def _concentration(priors: Priors, name: str) -> Tensor:
    prior = priors[name]
    assert isinstance(prior, Tensor)
    return prior
