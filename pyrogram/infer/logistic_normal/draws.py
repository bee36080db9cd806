# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Draws of normal experts: where an E-step may start besides where it stands, and what weighs the evidence."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyrogram.logistic_normal import experts
from pyrogram.logistic_normal.layout import ranges

Array = Any


class ExpertDraws:
    """Draws of all stored experts, each from a Gaussian r about means of its own.

    :param mean: flat, like the coordinates of the expert rows.
    :param variance: of each coordinate, likewise; None: the covariance Σ of the expert's prior.
    """

    def __init__(
        self, rows: experts.ExpertLayout, priors: experts.ExpertPriors, mean: Array, variance: Array | None = None
    ) -> None:
        self._rows, self._priors, self._mean = rows, priors, mean
        precision = priors.precision_diag[ranges(priors.start[rows.expert], rows.length)]
        self._prior_variance = 1 / precision
        self._scale = np.sqrt(self._prior_variance if variance is None else variance)
        #: of experts with a full Σ, their coordinates in all groups and C⁻¹, C Cᵀ = Σ⁻¹
        self._factors = []
        log_det = np.add.reduceat(2 * np.log(self._scale), rows.expert_start[:-1])
        if variance is None:
            log_det = priors.log_det[rows.expert]
            for n in np.unique(rows.expert[~priors.diagonal[rows.expert]]):
                length, at = priors.length[n], priors.matrix_start[n]
                factor = np.linalg.cholesky(priors.precision[at : at + length**2].reshape(length, length))
                (indices,) = (rows.expert == n).nonzero()
                self._factors.append((rows.expert_start[indices, None] + np.arange(length), np.linalg.inv(factor)))
        #: of each group, what log p - log r has besides quadratic forms, given that -KL below has the prior's share
        self._constant = 0.5 * self._sums(np.add.reduceat(np.log(precision), rows.expert_start[:-1]) + log_det)

    def draw(self, generator: np.random.Generator) -> tuple[Array, Array]:
        """Experts η, flat; and log p(η) - log r(η) of each group, p the prior."""
        noise = generator.standard_normal(len(self._mean))
        value = self._mean + self._scale * noise
        for at, inverse_factor in self._factors:
            value[at] = self._mean[at] + noise[at] @ inverse_factor
        squares = self._sums(np.add.reduceat(noise**2, self._rows.expert_start[:-1]))
        # -KL of the Gaussian about η whose variances are 1 / Λ_ii: log p(η) - sum log Λ_ii / 2, without log 2π.
        log_prior = experts.negative_kl(self._rows, self._priors, value, self._prior_variance)
        return value, log_prior + self._constant + 0.5 * squares

    def _sums(self, of_rows: Array) -> Array:
        """Sums over the experts of each group."""
        return np.bincount(self._rows.expert_group, of_rows, minlength=self._rows.num_groups)
