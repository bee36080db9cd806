# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What variational EM asks of logistic normals: their q, their share of the bound, and what their priors learn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyro.distributions as dist
from torch import Tensor

from pyrogram.distributions.gaussian import Gaussian
from pyrogram.grammar import Weights
from pyrogram.infer.model.expected_counts import expected_counts
from pyrogram.infer.model.structure import TracedModel

from .e_step import LogisticNormalPosterior, Start
from .empirical_bayes import current_priors, learn_priors, plan_m_step
from .posterior import ExpertPosterior
from .priors import Priors


class LogisticNormalFactors:
    """q of the logistic normals of a model.

    Its numbers, means and variances by name, belong to a loop's state. The memory in which they are moved is here: it
    holds the numbers of one state at a time, and takes those of another where it must.

    :param tolerance: nats per sentence at which an E-step ends.
    :param averaging: see :class:`.VariationalEM`.
    """

    def __init__(self, traced: TracedModel, model: Callable[[], Any], tolerance: float, averaging: str):
        self.traced, self.model, self.averaging = traced, model, averaging
        self.roles = plan_m_step(traced)
        self.q = LogisticNormalPosterior(traced, tolerance)
        self._prior: Priors | None = None
        self._held: Weights | None = None

    def prior(self) -> Priors:
        """The priors of all sites of the model, at the present values of its parameters."""
        return current_priors(self.model, self.traced, self.roles)

    def start(self, weights: Mapping[str, Tensor]) -> Weights:
        """The first numbers: at the priors' optimum, or around given weights by source.

        Means of priors that are ``pyro.param`` sites are set to start at these weights, too.
        """
        initial = {n: w for n, w in weights.items() if self.traced.weight_sources[n].logistic_normal is not None}
        if initial:
            self.q.write_start(self.traced, self.roles, self.prior(), initial)
        self._prior = self.prior()
        self.q.set_priors(self._prior)
        self.q.start(self._prior, initial)
        return self.numbers()

    def numbers(self) -> Weights:
        """A copy of the present numbers of q."""
        self._held = {name: tensor.clone() for name, tensor in self.q.state().items()}
        return self._held

    def at(self, prior: Priors, numbers: Weights) -> LogisticNormalPosterior:
        """q with the numbers of a state, which are not to be changed."""
        if prior is not self._prior:
            self.q.set_priors(prior)
            self._prior = prior
        if numbers is not self._held:
            self.q.load(numbers)
            self._held = numbers
        return self.q

    def other_starts(self, number: int, iteration: int) -> list[Start]:
        """Where E-steps begin besides at q: the priors' optimum, then draws that the iteration decides on."""

        def draw(place: int, q: ExpertPosterior) -> None:
            q.start_at_draw(np.random.default_rng([iteration, place]))

        starts: list[Start] = [ExpertPosterior.start]
        starts += [partial(draw, place) for place in range(1, number)]
        return starts[:number]

    def e_step(
        self, prior: Priors, numbers: Weights, log_weights: Weights, rounds: int, starts: Sequence[Start] = ()
    ) -> tuple[float, Weights]:
        """Trees and the experts of each sentence in turn: the trees' share of the bound, and counts by source.

        :param starts: where else to begin, see :meth:`.LogisticNormalPosterior.site_counts`.
        """
        q = self.at(prior, numbers)
        self._held = None
        shared = {**log_weights, **q.log_weights()}
        site_counts = partial(q.site_counts, rounds=rounds, starts=starts)
        return expected_counts(self.traced, shared, site_counts)

    def negative_kl(self) -> float:
        """-KL(q || prior) of all experts, in nats."""
        return sum(float(q.negative_kl().sum()) + q.absent_negative_kl() for q in self.q.posteriors.values())

    def learn(self, prior: Priors, expected_logs: Weights) -> None:
        """Empirical Bayes for all parameters that priors depend on, in place."""
        moments = self.q.moments(absent=self.averaging == "all")
        learn_priors(self.model, self.traced, self.roles, prior, expected_logs, moments)

    def mean(self, name: str, prior: Priors, numbers: Weights) -> Tensor:
        """The mixed mean of a source: of μ, or of q where there is one draw."""
        source = self.traced.weight_sources[name]
        assert source.logistic_normal is not None
        structure, block = source.logistic_normal.structure, source.logistic_normal.block
        if not source.per_sentence:
            return structure.average(block, self.at(prior, numbers).corpus_means(name))
        locs = {}
        for family, site in source.logistic_normal.sites.items():
            gaussian = prior[site]
            assert isinstance(gaussian, Gaussian)
            locs[family] = gaussian.loc.expand(structure.experts[family].shape)
        return structure.average(block, locs)

    def posterior(self, prior: Priors, numbers: Weights) -> dict[str, dist.TorchDistribution]:
        """q(η) by Gaussian site, of those drawn once for the corpus."""
        return self.at(prior, numbers).corpus_gaussians()
