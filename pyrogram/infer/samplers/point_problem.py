# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What samplers over derivations need of a model whose weights are computed from latent values of any kind.

Given the derivations, whose counts are f, and with the Dirichlets that are weights and nothing else integrated out, the
latent values z have the density p(z) exp <f, log w(z)> times the collapsed joint P(f | α(z)) of Eq. 4: the model with
tangents in place of its sentences, without a chart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from pyrogram.collapsed import CollapsedUpdates
from pyrogram.grammar import Weights
from pyrogram.infer.model.collapsed import SentenceOrder, log_collapsed_joint, log_dirichlet_multinomial
from pyrogram.infer.model.computed import coordinates, read_computed
from pyrogram.infer.model.points import PointProblem, Terms, line
from pyrogram.infer.model.structure import ModelError, SentenceSite, TracedModel

from .problem import TreeProblem


@dataclass
class PointTreeProblem(TreeProblem):
    """:param points: the model at values of its latent sites."""

    points: PointProblem = field(kw_only=True)
    _at: tuple[Mapping[str, Tensor], Terms] | None = None

    @staticmethod
    def read(model: Callable[[], Any], loop: str, batch_size: int) -> PointTreeProblem:
        """Read a model, for a sampler of the name ``loop``."""
        traced = read_computed(model, loop, unconstrained=True)
        _check(traced, loop)
        points = PointProblem(traced, model, unconstrained=True)
        points.traced = traced = replace(traced, reference=points.reference(loop))
        updates = {s.name: s.grammar.collapsed_updates(s.words) for s in traced.sentences}
        orders = {s.name: SentenceOrder(s.words, batch_size) for s in traced.sentences}
        return PointTreeProblem(traced, model, updates, orders, points=points)

    @property
    def start(self) -> Weights:
        return {n: p.unconstrained.detach() for n, p in self.traced.hyperparameters.items() if p.is_latent}

    def point_of(self, values: Mapping[str, Tensor]) -> Weights:
        latents = {n: p for n, p in self.traced.hyperparameters.items() if p.is_latent and n in values}
        return {n: coordinates(True)(p.constraint).inv(values[n].to(p.value)) for n, p in latents.items()}

    def values(self, point: Mapping[str, Tensor]) -> Weights:
        return self.points.values(self._uniform(), point)

    def fixed(self, weights: Mapping[str, Tensor]) -> Weights:
        sources = self.traced.weight_sources.items()
        return {name: weights[name] for name, s in sources if s.is_point and not s.is_computed}

    def weights(self, fixed: Weights, point: Mapping[str, Tensor]) -> Weights:
        return {**fixed, **{name: w.exp() for name, w in self.terms(point).log_weights.items()}}

    def alpha(self, state: Any) -> Weights:
        device = next(iter(self.traced.weight_sources.values())).value.device
        return {name: a.to(device) for name, a in self.terms(state.point).alpha.items()}

    def density(self, counts: Weights, point: Mapping[str, Tensor]) -> Tensor:
        terms = self.points.terms(self._uniform(), point)
        total = terms.density + terms.log_jacobian + line(terms.log_weights, counts)
        for name, alpha in terms.alpha.items():
            block = self.traced.weight_sources[name].block
            total = total + log_dirichlet_multinomial(block, counts[name].cpu(), alpha)
        return total

    def log_joint(self, point: Weights, counts: Weights, weights: Weights) -> Tensor:
        terms = self.terms(point)
        return terms.density + log_collapsed_joint(self.traced, counts, terms.alpha, weights)

    def terms(self, point: Mapping[str, Tensor]) -> Terms:
        """The model at a point, computed once for each."""
        if self._at is None or self._at[0] is not point:
            with torch.no_grad():
                self._at = point, self.points.terms(self._uniform(), point)
        return self._at[1]

    def draw(self, site: SentenceSite, log_weights: Weights, generator: torch.Generator) -> Tensor:
        updates = self.updates[site.name]
        if _of_each(self.traced, site):  # compiled draws are from weights that all share
            return CollapsedUpdates.draw(updates, log_weights, generator)
        return updates.draw(log_weights, generator)

    def counted(self, derivations: Mapping[str, Tensor]) -> Weights:
        counts = super().counted(derivations)
        for site in self.traced.sentences:
            if _of_each(self.traced, site):
                uniform = {n: b.uniform(torch.ones((), dtype=torch.float64)) for n, b in site.grammar.blocks.items()}
                each = site.grammar.derivation(uniform, site.words).counts(derivations[site.name])
                for block, source in site.source_of_block.items():
                    if self.traced.weight_sources[source].per_sentence:
                        counts[source] = each[block].double()
        return counts

    def _uniform(self) -> Weights:
        """Sources that are integrated out, or given: nothing else depends on their values."""
        return {
            n: s.block.uniform(s.value) for n, s in self.traced.weight_sources.items() if s.concentration is not None
        }


def _of_each(traced: TracedModel, site: SentenceSite) -> bool:
    return any(traced.weight_sources[source].per_sentence for source in site.source_of_block.values())


def _check(traced: TracedModel, loop: str) -> None:
    """No scales, which are no factors of a joint of derivations; one of each sentence only for Gibbs sampling."""
    scaled = [name for name, source in traced.weight_sources.items() if source.scale != 1]
    scaled += [site.name for site in traced.sentences if site.scale != 1]
    if scaled:
        raise ModelError(f"{loop} cannot handle site {scaled[0]!r}, which is scaled or masked; VariationalEM can")
    if loop != "TreeGibbs":
        for site in traced.sentences:
            if _of_each(traced, site):
                raise ModelError(f"{loop} needs weights that all sentences of site {site.name!r} share; use TreeGibbs")
