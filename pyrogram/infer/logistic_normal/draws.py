# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Draws of normal experts: where an E-step may start besides where it stands, and what weighs the evidence."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyrogram.charts.gaussians import experts
from pyrogram.charts.gaussians.layout import ranges

Array = Any


class ExpertDraws:
    """Draws of all stored experts, each from N(m, (Λ + diag δ)⁻¹), Λ the inverse covariance of its prior.

    With the means of the prior and δ = 0 they are draws from the prior. With the means of q and δ = 1 / v - Λ_ii, which
    is what the sentence adds at q's optimum, they are draws from q with the correlations of the prior put back:
    the Gaussian whose best factorised approximation q is. If covariances are diagonal, it is q.

    Memory is a matrix for every stored expert with a full covariance.

    :param mean: m, flat like the coordinates of the expert rows.
    :param added: δ, not negative, likewise.
    """

    def __init__(self, rows: experts.ExpertLayout, priors: experts.ExpertPriors, mean: Array, added: Array) -> None:
        self._rows, self._priors, self._mean = rows, priors, mean
        precision = priors.precision_diag[ranges(priors.start[rows.expert], rows.length)]
        self._prior_variance = 1 / precision
        self._scale = (precision + added) ** -0.5
        log_det = np.add.reduceat(-2 * np.log(self._scale), rows.expert_start[:-1])
        self._factors = []
        full = ~priors.diagonal[rows.expert]
        for length in np.unique(rows.length[full]):
            (own,) = (full & (rows.length == length)).nonzero()
            at, diagonal = rows.expert_start[own, None] + np.arange(length), np.arange(length)
            matrix = priors.precision[priors.matrix_start[rows.expert[own], None] + np.arange(length**2)]
            matrix = matrix.reshape(-1, length, length)
            matrix[:, diagonal, diagonal] += added[at]
            factor = np.linalg.cholesky(matrix)
            log_det[own] = 2 * np.log(factor[:, diagonal, diagonal]).sum(-1)
            self._factors.append((at, np.linalg.inv(factor)))
        #: of each group, what log p - log r has besides the quadratic forms
        self._constant = 0.5 * self._sums(np.add.reduceat(np.log(precision), rows.expert_start[:-1]) - log_det)

    def draw(self, generator: np.random.Generator) -> tuple[Array, Array]:
        """Experts η, flat; and log p(η) - log r(η) of each group, p the prior and r what η is drawn from."""
        noise = generator.standard_normal(len(self._mean))
        value = self._mean + self._scale * noise
        for at, inverse_factor in self._factors:
            value[at] = self._mean[at] + (noise[at][:, None, :] @ inverse_factor)[:, 0]
        squares = self._sums(np.add.reduceat(noise**2, self._rows.expert_start[:-1]))
        # Of a point, with variances 1 / Λ_ii, -KL has all of log p but sum log Λ_ii / 2.
        log_prior = experts.negative_kl(self._rows, self._priors, value, self._prior_variance)
        return value, log_prior + self._constant + 0.5 * squares

    def _sums(self, of_rows: Array) -> Array:
        """Sums over the experts of each group."""
        return np.bincount(self._rows.expert_group, of_rows, minlength=self._rows.num_groups)
