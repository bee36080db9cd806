# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What samplers over derivations need of a model: its sentences, and its density given their derivations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from pyrogram.collapsed import CollapsedUpdates
from pyrogram.grammar import Weights
from pyrogram.infer.model.collapsed import CollapsedProblem, log_collapsed_joint
from pyrogram.infer.model.expected_counts import of_rows
from pyrogram.infer.model.reading import coordinates
from pyrogram.infer.model.structure import ModelError, SentenceSite
from pyrogram.tree_statistics import Statistics, corpus_means, tree_statistics


@dataclass
class TreeProblem(CollapsedProblem):
    """A model whose latent values, other than weights that are integrated out, are a chain's point."""

    _supports: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        latents = {name: p for name, p in self.traced.hyperparameters.items() if p.is_latent}
        #: where latent values that are not integrated out begin, in unconstrained coordinates
        self.start: Weights = {name: p.unconstrained.detach().clone() for name, p in latents.items()}

    def check(self, loop: str) -> None:
        for site, _, source in self.traced.computed_blocks():
            if source.per_sentence and loop != "TreeGibbs":
                raise ModelError(f"{loop} needs weights that all sentences of site {site!r} share; use TreeGibbs")

    def point_of(self, values: Mapping[str, Tensor]) -> Weights:
        """Unconstrained coordinates of latent values; others are left out."""
        latents = {n: self.traced.hyperparameters[n] for n in self.start if n in values}
        return {n: coordinates(True)(p.constraint).inv(values[n].to(p.value)) for n, p in latents.items()}

    def weights(self, fixed: Weights, point: Weights) -> Weights:
        """Weights that are not integrated out, by source.

        :param fixed: those that are given, or as they were.
        """
        return {**fixed, **{name: w.exp() for name, w in self.terms_at({}, point).log_weights.items()}}

    def alpha(self, state: Any) -> Weights:
        """Concentrations by source at the point of a state."""
        return self.terms_at({}, state.point).alpha

    def draw_dirichlets(self, state: Any, generator: torch.Generator) -> Weights:
        """The logarithms of weights that are integrated out, drawn given derivations, by source, float64.

        Small concentrations give weights that no float holds.
        """
        draws = {}
        for name, alpha in self.alpha(state).items():
            f = state.counts[name] + alpha
            a = f.to("cpu", torch.float64)
            gamma = torch._standard_gamma(a + 1, generator=generator)  # times U ** (1 / a) it is a draw for a
            uniform = torch.rand(a.shape, generator=generator, dtype=torch.float64)
            log_gamma = gamma.log() + torch.log1p(-uniform) / a
            draws[name] = self.traced.weight_sources[name].block.log_softmax(log_gamma).to(f.device)
        return draws

    def density(self, counts: Weights, point: Mapping[str, Tensor]) -> Tensor:
        """log p(z) P(x, t | z) as a function of latent values z, in unconstrained coordinates."""
        terms = self.terms({}, point)
        return self.objective(terms, counts, self.multinomials(counts), terms.alpha.keys())

    def log_joint(self, point: Weights, counts: Weights, weights: Weights) -> Tensor:
        """log P(x, t | z), plus the log density of latent values z, in nats; float64, shape ()."""
        terms = self.terms_at({}, point)
        return terms.density + log_collapsed_joint(self.traced, counts, terms.alpha, weights)

    def draw(self, site: SentenceSite, log_weights: Weights, generator: torch.Generator) -> Tensor:
        """Derivations of a site, shape (N, L), independent given log weights by block."""
        updates = self.updates[site.name]
        if self.traced.of_each(site):  # compiled draws are from weights that all share
            return CollapsedUpdates.draw(updates, of_rows(site, log_weights), generator)
        return updates.draw(log_weights, generator)

    def counted(self, derivations: Mapping[str, Tensor]) -> Weights:
        """f by source."""
        counts = self.by_source(lambda site: self.updates[site.name].counts(derivations[site.name]))
        for site in self.traced.sentences:
            if self.traced.of_each(site):
                uniform = {n: b.uniform(torch.ones((), dtype=torch.float64)) for n, b in site.grammar.blocks.items()}
                each = site.grammar.derivation(uniform, site.sentences).counts(derivations[site.name])
                for block, source in site.source_of_block.items():
                    if self.traced.weight_sources[source].per_sentence:
                        counts[source] = each[block].double()
        return counts

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
        means = {}
        for site in self.traced.sentences:
            if site.name not in self._supports:
                self._supports[site.name] = site.derivation().support
            values = tree_statistics(self._supports[site.name], site.words, derivations[site.name], chosen)
            means.update({f"{site.name}.{name}": mean for name, mean in corpus_means(values).items()})
        return means
