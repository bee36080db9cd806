# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The priors of a model with logistic normals as functions of its parameters, at the cost of the priors alone."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch
from pyro.poutine.messenger import Messenger
from torch import Tensor

from pyrogram.distributions.gaussian import Gaussian
from pyrogram.infer.model.sites import base_distribution, concentration_of, expanded_mean
from pyrogram.infer.model.structure import TracedModel
from pyrogram.random_state import random_state_kept

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
    return collector.priors


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


class _AllPriorsFound(Exception):
    """All priors are known; the rest of the model need not run."""


class _PriorMessenger(Messenger):
    def __init__(self, values: dict[str, Tensor], gaussians: set[str]):
        super().__init__()
        self.values, self.gaussians = values, gaussians
        self.priors: Priors = {}

    def _pyro_sample(self, msg: Any) -> None:
        if msg["name"] in self.values:
            self.priors[msg["name"]] = concentration_of(base_distribution(msg["fn"]))
            msg["value"] = self.values[msg["name"]]
        elif msg["name"] in self.gaussians:
            self.priors[msg["name"]] = msg["infer"]["gaussian"]
            msg["value"] = expanded_mean(msg)
        else:
            return
        msg["done"] = True
        if len(self.priors) == len(self.values) + len(self.gaussians):
            raise _AllPriorsFound
