# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What samplers over derivations need of a model: its sentences, its priors, and hyperparameters above those."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pyrogram.grammar import Weights
from pyrogram.infer.model.collapsed import CollapsedProblem, Order, concentrations, log_joint, refuse_mixtures
from pyrogram.infer.model.structure import Reading
from pyrogram.infer.model.tracing import read_model

from .hyperparameters import HyperPrior


@dataclass
class TreeProblem(CollapsedProblem):
    """:param hypers: latent sites that concentrations depend on, if there are any."""

    hypers: HyperPrior | None = None
    _alpha: tuple[Weights, Weights] | None = None

    @staticmethod
    def of(model: Callable[[], Any], loop: str, batch_size: int) -> TreeProblem:
        """Read a model, for a sampler of the name ``loop``."""
        hypers = HyperPrior(model, loop, (), {})
        if hypers.start:
            reading = read_model(hypers.at(hypers.start), loop)
            hypers.check(model, reading)
        else:
            reading = read_model(model, loop)
        refuse_mixtures(reading, loop)
        sweeps = {s.name: s.grammar.sweeps(s.words) for s in reading.sentences}
        orders = {s.name: Order(s.words, batch_size) for s in reading.sentences}
        return TreeProblem(reading, model, sweeps, orders, hypers if hypers.start else None)

    def counted(self, derivations: Mapping[str, Tensor]) -> Weights:
        """f by source."""
        return self.by_source(lambda site: self.sweeps[site.name].counts(derivations[site.name]))

    def are_derivations(self, derivations: Mapping[str, Tensor]) -> bool:
        """Whether these are derivations of the sentences of all sites."""
        if set(derivations) != set(self.sweeps):
            return False
        for site in self.reading.sentences:
            zeros = {n: torch.zeros(b.shape, dtype=torch.float64) for n, b in site.grammar.blocks.items()}
            law: Any = site.grammar.derivation(None, site.words, log_weights=zeros)
            trees = derivations[site.name]
            if trees.shape != law.batch_shape + law.event_shape or not bool(law.support.check(trees).all()):
                return False
        return True

    def alpha(self, state: Any) -> Weights:
        """Concentrations by source at the hyperparameters of a state."""
        if self._alpha is None or (self.hypers is not None and self._alpha[0] is not state.point):
            self.log_joint(state.point, state.counts, state.weights)
        assert self._alpha is not None
        return self._alpha[1]

    def density(self, counts: Weights, point: Mapping[str, Tensor]) -> Tensor:
        """log p(h) P(x, t | α(h)), of hyperparameters in unconstrained coordinates."""
        assert self.hypers is not None
        return self.hypers.density(point, self.model, self.reading, counts)[1]

    def log_joint(self, point: Weights, counts: Weights, weights: Weights) -> Tensor:
        """log P(x, t | α), plus the log density of hyperparameters, in nats; float64, shape ()."""
        reading = self.reading
        if self.hypers is None:
            if self._alpha is None:
                self._alpha = point, concentrations(self.model, reading)
            return log_joint(reading, counts, self._alpha[1], weights)
        with torch.no_grad():
            joint, _, alpha = self.hypers.density(point, self.model, reading, counts)
        device = next(iter(reading.sources.values())).value.device
        self._alpha = point, {name: a.to(device) for name, a in alpha.items()}
        fixed = {n: s for n, s in reading.sources.items() if s.is_param}
        return joint + log_joint(Reading([], fixed), counts, {}, weights)
