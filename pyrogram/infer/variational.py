# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Mean-field variational Bayes by coordinate ascent, with empirical Bayes for what the priors depend on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyro.distributions as dist
import torch
from torch import Tensor
from torch.distributions import kl_divergence

from pyrogram.distributions.sentence import safe_log
from pyrogram.grammar import Weights

from .concentrations import concentrations
from .loop import GrammarLoop
from .reading import Reading, Source


class VariationalEM(GrammarLoop):
    """Variational Bayes for Dirichlet weights; maximum likelihood for whatever is a ``pyro.param``.

    q(weights) q(derivations) is a Dirichlet per multinomial and a weighted grammar (Kurihara and Sato 2006; Cohen,
    Gimpel and Smith 2008, section 3). The objective is the evidence lower bound,

        sum over sentences of log Z(exp E_q[log w])  -  sum over Dirichlet sites of KL(q || prior),

    exact in each iteration and never falling. An iteration sets q's concentrations to α + f, f the expected counts
    under weights exp(ψ(q) - ψ(sum q)), and weights that are ``pyro.param``s to normalised counts.

    If a concentration α depends on ``pyro.param``s, they are re-estimated in every iteration to maximise the bound
    (empirical Bayes, "VB-EM" in the 2008 paper): a few steps of L-BFGS on their unconstrained values, kept only if
    the bound rises. Whatever code computes α from them will do. A concentration *vector* of its own for every
    multinomial has no finite optimum (each iteration adds the counts once more and q closes in on maximum
    likelihood); share it, as in ``α * torch.ones(...)``.

    ``weights()`` are the posterior means.
    """

    def __init__(self, model: Callable[..., Any], *, initial_weights: Mapping[str, Tensor] | str | None = None):
        super().__init__(model, initial_weights=initial_weights)
        self._posterior: Weights = {}  # concentrations of q by source
        self._prior: Weights = {}  # those of the prior, where they are learnt

    def posterior(self) -> dict[str, dist.Dirichlet]:
        """q(weights) by site."""
        self._need_reading()
        return {name: dist.Dirichlet(q.clone()).to_event(q.dim() - 1) for name, q in self._posterior.items()}

    def _check(self, reading: Reading) -> None:
        pass

    def _update(self, reading: Reading) -> float:
        bayesian = {n: s for n, s in reading.sources.items() if s.concentration is not None}
        if not self._posterior and bayesian:
            # The start is a set of weights; one E-step with these gives the first q.
            _, counts = self._expect(reading, {name: safe_log(w) for name, w in self._weights.items()})
            for name, source in bayesian.items():
                self._posterior[name] = self._prior_of(source) + counts[name]
            self._learn_priors(reading)
        log_weights = {name: safe_log(w) for name, w in self._weights.items()}
        log_weights.update({name: expected_log(q) for name, q in self._posterior.items()})
        bound, counts = self._expect(reading, log_weights)
        for name, source in reading.sources.items():
            if source.concentration is None:
                totals = source.block.totals(counts[name])
                normal = source.block.normalize(counts[name])
                self._weights[name] = torch.where(totals > 0, normal, self._weights[name])
            else:
                prior = self._prior_of(source)
                bound -= float(kl_divergence(dist.Dirichlet(self._posterior[name]), dist.Dirichlet(prior)).sum())
                self._posterior[name] = prior + counts[name]
        self._learn_priors(reading)
        return bound

    def _prior_of(self, source: Source) -> Tensor:
        """The concentration of the prior, as learnt so far."""
        assert source.concentration is not None
        return self._prior.get(source.name, source.concentration.detach())

    def _learn_priors(self, reading: Reading) -> None:
        """Maximise -KL(q || prior) in the parameters that concentrations depend on."""
        learnt = [name for name, s in reading.sources.items() if s.learns_prior]
        if not learnt:
            return
        parameters = list(reading.hyperparameters.values())
        expected = {name: expected_log(self._posterior[name]) for name in learnt}
        args, kwargs = self._args or ((), {})

        values = {name: reading.sources[name].value for name in learnt}

        def priors() -> Weights:
            return concentrations(lambda: self.model(*args, **kwargs), values)

        def loss() -> Tensor:
            """Minus E_q[log p(weights | α)], whose other terms do not depend on α."""
            total = torch.zeros((), dtype=parameters[0].dtype)
            for name, alpha in priors().items():
                alpha = alpha.expand(reading.sources[name].block.shape)
                normaliser = torch.lgamma(alpha.sum(-1)) - torch.lgamma(alpha).sum(-1)
                total = total - (normaliser + ((alpha - 1) * expected[name]).sum(-1)).sum()
            return total

        before, start = [p.detach().clone() for p in parameters], float(loss().detach())
        optimiser = torch.optim.LBFGS(parameters, max_iter=10, line_search_fn="strong_wolfe")

        def closure() -> Tensor:
            optimiser.zero_grad()
            value = loss()
            value.backward()
            return value

        optimiser.step(closure)
        optimiser.zero_grad()
        if not float(loss().detach()) <= start:
            with torch.no_grad():
                for parameter, value in zip(parameters, before, strict=True):
                    parameter.copy_(value)
        for name, alpha in priors().items():
            self._prior[name] = alpha.detach().expand(reading.sources[name].block.shape).clone()

    def _point_estimate(self) -> Weights:
        means = {name: q / q.sum(-1, keepdim=True) for name, q in self._posterior.items()}
        return {**self._weights, **means}

    def _tensors(self) -> dict[str, Tensor]:
        tensors = {f"weights.{name}": w for name, w in self._weights.items()}
        tensors.update({f"posterior.{name}": q for name, q in self._posterior.items()})
        tensors.update({f"prior.{name}": p for name, p in self._prior.items()})
        if self._reading is not None:
            tensors.update({f"parameter.{name}": p for name, p in self._reading.hyperparameters.items()})
        return tensors

    def _set_tensors(self, tensors: dict[str, Tensor]) -> None:
        kinds: dict[str, Weights] = {"weights": {}, "posterior": {}, "prior": {}, "parameter": {}}
        for name, tensor in tensors.items():
            kind, _, source = name.partition(".")
            if kind not in kinds:
                raise ValueError(f"this is not the state of VariationalEM: it has {name!r}")
            kinds[kind][source] = tensor
        self._weights, self._posterior, self._prior = kinds["weights"], kinds["posterior"], kinds["prior"]
        if self._reading is not None:
            with torch.no_grad():
                for name, value in kinds["parameter"].items():
                    self._reading.hyperparameters[name].copy_(value)


def expected_log(concentration: Tensor) -> Tensor:
    """E[log w] under a Dirichlet; exp of it is sub-normalised."""
    return torch.digamma(concentration) - torch.digamma(concentration.sum(-1, keepdim=True))
