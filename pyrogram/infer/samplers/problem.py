# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What samplers over derivations need of a model: its sentences, its priors, and hyperparameters above those."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from pyrogram.grammar import Weights
from pyrogram.infer.model.collapsed import (
    CollapsedProblem,
    SentenceOrder,
    current_concentrations,
    log_collapsed_joint,
    refuse_logistic_normals,
)
from pyrogram.infer.model.structure import SentenceSite, TracedModel
from pyrogram.infer.model.tracing import trace_model
from pyrogram.tree_statistics import Statistics, corpus_means, tree_statistics

from .hyperparameters import HyperparameterPrior


@dataclass
class TreeProblem(CollapsedProblem):
    """:param hyperparameter_prior: latent sites that concentrations depend on, if there are any."""

    hyperparameter_prior: HyperparameterPrior | None = None
    _alpha: tuple[Weights, Weights] | None = None
    _supports: dict[str, Any] = field(default_factory=dict)

    @staticmethod
    def of(model: Callable[[], Any], loop: str, batch_size: int) -> TreeProblem:
        """Read a model, for a sampler of the name ``loop``."""
        hyperparameter_prior = HyperparameterPrior(model, loop, (), {})
        if hyperparameter_prior.start:
            traced = trace_model(hyperparameter_prior.at(hyperparameter_prior.start), loop)
            hyperparameter_prior.check(model, traced)
        else:
            traced = trace_model(model, loop)
        refuse_logistic_normals(traced, loop)
        updates = {s.name: s.grammar.collapsed_updates(s.words) for s in traced.sentences}
        orders = {s.name: SentenceOrder(s.words, batch_size) for s in traced.sentences}
        return TreeProblem(traced, model, updates, orders, hyperparameter_prior if hyperparameter_prior.start else None)

    @property
    def start(self) -> Weights:
        """Where latent values that are not integrated out begin, in unconstrained coordinates."""
        return {} if self.hyperparameter_prior is None else self.hyperparameter_prior.start

    def point_of(self, values: Mapping[str, Tensor]) -> Weights:
        """Unconstrained coordinates of latent values; others are left out."""
        return {}

    def values(self, point: Mapping[str, Tensor]) -> Weights:
        """The latent sites' own values at a point."""
        prior = self.hyperparameter_prior
        return {} if prior is None else prior.values(point, self.model, self.traced)

    def weights(self, fixed: Weights, point: Mapping[str, Tensor]) -> Weights:
        """Weights that are not integrated out, by source.

        :param fixed: those that are given, or as they were.
        """
        return fixed

    def draw(self, site: SentenceSite, log_weights: Weights, generator: torch.Generator) -> Tensor:
        """Derivations of a site, shape (N, L), independent given log weights by block."""
        return self.updates[site.name].draw(log_weights, generator)

    def counted(self, derivations: Mapping[str, Tensor]) -> Weights:
        """f by source."""
        return self.by_source(lambda site: self.updates[site.name].counts(derivations[site.name]))

    def log_tilt(self, derivations: Mapping[str, Tensor]) -> Tensor:
        """The nats of derivations, of sites whose grammars are tilted, shape ()."""
        return torch.stack([self.updates[name].log_tilt(trees).cpu() for name, trees in derivations.items()]).sum()

    def are_derivations(self, derivations: Mapping[str, Tensor]) -> bool:
        """Whether these are derivations of the sentences of all sites."""
        if set(derivations) != set(self.updates):
            return False
        for site in self.traced.sentences:
            law, trees = site.derivation(), derivations[site.name]
            if trees.shape != law.batch_shape + law.event_shape or not bool(law.support.check(trees).all()):
                return False
        return True

    def statistics(self, derivations: Mapping[str, Tensor], chosen: Statistics | None) -> Weights:
        """Means over the sentences of a site of :func:`.tree_statistics`, by ``<site>.<statistic>``, shape ()."""
        found = {}
        for site in self.traced.sentences:
            if site.name not in self._supports:
                self._supports[site.name] = site.derivation().support
            values = tree_statistics(self._supports[site.name], site.plain_words, derivations[site.name], chosen)
            found.update({f"{site.name}.{name}": mean for name, mean in corpus_means(values).items()})
        return found

    def alpha(self, state: Any) -> Weights:
        """Concentrations by source at the hyperparameters of a state."""
        if self._alpha is None or (self.hyperparameter_prior is not None and self._alpha[0] is not state.point):
            self.log_joint(state.point, state.counts, state.weights)
        assert self._alpha is not None
        return self._alpha[1]

    def density(self, counts: Weights, point: Mapping[str, Tensor]) -> Tensor:
        """log p(h) P(x, t | α(h)) as a function of latent values h, in unconstrained coordinates."""
        assert self.hyperparameter_prior is not None
        return self.hyperparameter_prior.density(point, self.model, self.traced, counts)[1]

    def log_joint(self, point: Weights, counts: Weights, weights: Weights) -> Tensor:
        """log P(x, t | α), plus the log density of latent values, in nats; float64, shape ()."""
        traced = self.traced
        if self.hyperparameter_prior is None:
            if self._alpha is None:
                self._alpha = point, current_concentrations(self.model, traced)
            return log_collapsed_joint(traced, counts, self._alpha[1], weights)
        with torch.no_grad():
            joint, _, alpha = self.hyperparameter_prior.density(point, self.model, traced, counts)
        device = next(iter(traced.weight_sources.values())).value.device
        self._alpha = point, {name: a.to(device) for name, a in alpha.items()}
        fixed = {n: s for n, s in traced.weight_sources.items() if s.is_point}
        return joint + log_collapsed_joint(TracedModel([], fixed), counts, {}, weights)
