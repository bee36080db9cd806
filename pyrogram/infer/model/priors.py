# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The priors of a model as functions of its parameters, at the cost of the prior alone; and learning them.

Empirical Bayes: whatever code computes a concentration, a mean or a covariance from ``pyro.param`` sites, these are
moved to raise the bound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import torch
from pyro.poutine.messenger import Messenger
from torch import Tensor
from torch.linalg import LinAlgError  # type: ignore[attr-defined]

from pyrogram.distributions.gaussian import Gaussian
from pyrogram.grammar import Block

from .normals import expanded_mean
from .sites import base_distribution, concentration_of, random_state_kept
from .structure import TracedModel

Priors = dict[str, Tensor | Gaussian]


def evaluate_priors(model: Callable[[], Any], traced: TracedModel) -> Priors:
    """Run a model as far as its priors, without drawing from them.

    :returns: the concentration of each Dirichlet site and the mean and covariance of each Gaussian site, with a graph.
    """
    values = {name: s.at_site(s.value) for name, s in traced.weight_sources.items() if s.concentration is not None}
    collector = _PriorMessenger(values, set(traced.gaussians))
    if values or traced.gaussians:
        with suppress(_AllPriorsFound), random_state_kept(), collector:  # a component may be drawn before a prior
            model()
    return collector.found


def present_priors(model: Callable[[], Any], traced: TracedModel) -> Priors:
    """The priors at the parameters' present values, without a graph."""
    if not traced.hyperparameters:
        return detached_priors(traced.priors())
    with torch.no_grad():
        return detached_priors(evaluate_priors(model, traced))


def detached_priors(priors: Priors) -> Priors:
    """Copies without a graph: parameters change in place."""
    return {name: _copied(p) if isinstance(p, Tensor) else map_gaussian(p, _copied) for name, p in priors.items()}


def _copied(tensor: Tensor) -> Tensor:
    return tensor.detach().clone()


def map_gaussian(gaussian: Gaussian, function: Callable[[Tensor], Tensor]) -> Gaussian:
    """A function of each of its tensors."""
    variance = None if gaussian.variance is None else function(gaussian.variance)
    covariance = None if gaussian.covariance is None else function(gaussian.covariance)
    return Gaussian(function(gaussian.loc), covariance=covariance, variance=variance)


def expected_log_dirichlet(block: Block, prior: Tensor, expected_logs: Tensor) -> Tensor:
    """E_q[log p] of a Dirichlet site, float64: from its concentrations and E_q[log w], in nats."""
    alpha = prior.expand(expected_logs.shape)
    normaliser = torch.lgamma(block.sums(alpha)).sum() - torch.lgamma(alpha).sum()
    return (normaliser + ((alpha - 1) * expected_logs).sum()).to("cpu", torch.float64)


def maximise(
    parameters: Mapping[str, Tensor],
    objective: Callable[[], Tensor],
    steps: int = 10,
    value: Callable[[], Tensor] | None = None,
) -> bool:
    """A few steps of L-BFGS up an objective, kept only if it rises.

    :param parameters: unconstrained leaves, changed in place.
    :param value: the objective where they have come to, without a graph, if there is a better way to it.
    :returns: whether they were kept.
    """
    leaves = list(parameters.values())
    before = [p.detach().clone() for p in leaves]
    optimiser = torch.optim.LBFGS(leaves, max_iter=steps, line_search_fn="strong_wolfe")
    losses: list[float] = []

    def clear() -> None:  # what optimiser.zero_grad does, which takes as long as some operations
        for parameter in leaves:
            parameter.grad = None

    def closure() -> Tensor:
        clear()
        loss = -objective()
        if loss.requires_grad:
            loss.backward()
        losses.append(float(loss.detach()))
        return loss

    try:
        optimiser.step(closure)
        with torch.no_grad():
            risen = -float((value or objective)()) <= losses[0]
    except (ValueError, LinAlgError):  # a covariance that is no longer positive definite, say
        if not losses:
            raise
        risen = False
    clear()
    if not risen:
        with torch.no_grad():
            for parameter, old in zip(leaves, before, strict=True):
                parameter.copy_(old)
    return risen


class _AllPriorsFound(Exception):
    """All priors are known; the rest of the model need not run."""


class _PriorMessenger(Messenger):
    def __init__(self, values: dict[str, Tensor], gaussians: set[str]):
        super().__init__()
        self.values, self.gaussians = values, gaussians
        self.found: Priors = {}

    def _pyro_sample(self, msg: Any) -> None:
        if msg["name"] in self.values:
            self.found[msg["name"]] = concentration_of(base_distribution(msg["fn"]))
            msg["value"] = self.values[msg["name"]]
        elif msg["name"] in self.gaussians:
            self.found[msg["name"]] = msg["infer"]["gaussian"]
            msg["value"] = expanded_mean(msg)
        else:
            return
        msg["done"] = True
        if len(self.found) == len(self.values) + len(self.gaussians):
            raise _AllPriorsFound
