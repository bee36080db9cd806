# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What samplers over derivations need of a model whose weights are computed from latent values of any kind.

The density of the latent values given derivations is that of :mod:`.collapsed_points`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from pyrogram.collapsed import CollapsedUpdates
from pyrogram.grammar import Weights
from pyrogram.infer.model.collapsed import SentenceOrder, log_collapsed_joint
from pyrogram.infer.model.collapsed_points import CollapsedPoints
from pyrogram.infer.model.computed import coordinates
from pyrogram.infer.model.expected_counts import of_rows
from pyrogram.infer.model.points import Terms
from pyrogram.infer.model.structure import ModelError, SentenceSite

from .problem import TreeProblem


@dataclass
class PointTreeProblem(TreeProblem):
    """:param points: the model at values of its latent sites."""

    points: CollapsedPoints = field(kw_only=True)
    _at: tuple[Mapping[str, Tensor], Terms] | None = None

    @staticmethod
    def read(model: Callable[[], Any], loop: str, batch_size: int) -> PointTreeProblem:
        """Read a model, for a sampler of the name ``loop``."""
        points = CollapsedPoints.read(model, loop)
        traced = points.traced
        for site in traced.sentences:
            if loop != "TreeGibbs" and traced.of_each(site):
                raise ModelError(f"{loop} needs weights that all sentences of site {site.name!r} share; use TreeGibbs")
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
        return self.points.values({}, point)

    def weights(self, fixed: Weights, point: Mapping[str, Tensor]) -> Weights:
        return {**fixed, **{name: w.exp() for name, w in self.terms(point).log_weights.items()}}

    def alpha(self, state: Any) -> Weights:
        device = next(iter(self.traced.weight_sources.values())).value.device
        return {name: a.to(device) for name, a in self.terms(state.point).alpha.items()}

    def density(self, counts: Weights, point: Mapping[str, Tensor]) -> Tensor:
        return self.points.objective(self.points.terms({}, point), {}, counts)

    def log_joint(self, point: Weights, counts: Weights, weights: Weights) -> Tensor:
        terms = self.terms(point)
        return terms.density + log_collapsed_joint(self.traced, counts, terms.alpha, weights)

    def terms(self, point: Mapping[str, Tensor]) -> Terms:
        """The model at a point, computed once for each."""
        if self._at is None or self._at[0] is not point:
            with torch.no_grad():
                self._at = point, self.points.terms({}, point)
        return self._at[1]

    def draw(self, site: SentenceSite, log_weights: Weights, generator: torch.Generator) -> Tensor:
        updates = self.updates[site.name]
        if self.traced.of_each(site):  # compiled draws are from weights that all share
            return CollapsedUpdates.draw(updates, of_rows(site, log_weights), generator)
        return updates.draw(log_weights, generator)

    def counted(self, derivations: Mapping[str, Tensor]) -> Weights:
        counts = super().counted(derivations)
        for site in self.traced.sentences:
            if self.traced.of_each(site):
                uniform = {n: b.uniform(torch.ones((), dtype=torch.float64)) for n, b in site.grammar.blocks.items()}
                each = site.grammar.derivation(uniform, site.words).counts(derivations[site.name])
                for block, source in site.source_of_block.items():
                    if self.traced.weight_sources[source].per_sentence:
                        counts[source] = each[block].double()
        return counts
