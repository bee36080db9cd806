# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The evidence of a Dirichlet-multinomial and the Dirichlet that maximises it: base measure and concentration together.

Rows of counts are draws of multinomials that share a Dirichlet prior with parameters a. With the multinomials
integrated out, the probability of the drawn values, in their order, is

    prod_r  Γ(A) / Γ(A + n_r)  prod_k Γ(a_k + n_rk) / Γ(a_k),     A = sum_k a_k,

and Minka's fixed point (2000, "Estimating a Dirichlet distribution", Eq. 55)

    a_k <- a_k  sum_r [Ψ(n_rk + a_k) - Ψ(a_k)] / sum_r [Ψ(n_r + A) - Ψ(A)]

never lowers it. Rows matter only by how often a count occurs in a column, so that an iteration costs as much as there
are different counts (Wallach 2008, "Structured Topic Models for Language", section 2.3), not what the corpus has.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class CountHistogram:
    """How often which count occurs.

    :param column: (D,) the parameter that a positive count belongs to, ``count`` (D,) the count, float64, and ``rows``
        (D,) how often it occurs there, float64.
    :param totals: (E,) distinct sums of rows, and ``total_rows`` (E,) how often they occur, float64.
    :param size: (P,) how many columns share a parameter, float64.
    """

    column: Tensor
    count: Tensor
    rows: Tensor
    totals: Tensor
    total_rows: Tensor
    size: Tensor

    @staticmethod
    def of(counts: Tensor, *, symmetric: bool = False) -> CountHistogram:
        """The histogram of rows of counts.

        :param counts: integers, shape ``(R, K)``.
        :param symmetric: whether all columns share one parameter, rather than each having its own.
        """
        array = counts.numpy()
        row, column = np.nonzero(array)
        positive = array[row, column].astype(np.int64)
        K = array.shape[1]
        column = np.zeros_like(column) if symmetric else column
        bound = int(positive.max(initial=0)) + 1
        pairs, rows = np.unique(column * bound + positive, return_counts=True)
        totals, total_rows = np.unique(array.sum(1, dtype=np.int64), return_counts=True)
        size = torch.full((1,), K, dtype=torch.float64) if symmetric else torch.ones(K, dtype=torch.float64)
        return CountHistogram(
            column=torch.from_numpy(pairs // bound),
            count=torch.from_numpy(pairs % bound).double(),
            rows=torch.from_numpy(rows).double(),
            totals=torch.from_numpy(totals).double(),
            total_rows=torch.from_numpy(total_rows).double(),
            size=size,
        )


def log_evidence(histogram: CountHistogram, base: Tensor) -> Tensor:
    """Log probability of the drawn values, in their order, given the Dirichlet; in nats, differentiable.

    :param base: a, positive float64, shape ``(P,)``: one for each column, or one for all.
    """
    mine, whole = base[histogram.column], (histogram.size * base).sum()
    drawn = histogram.rows * (torch.lgamma(histogram.count + mine) - torch.lgamma(mine))
    totals = histogram.total_rows * (torch.lgamma(histogram.totals + whole) - torch.lgamma(whole))
    return drawn.sum() - totals.sum()


def maximise_evidence(
    histogram: CountHistogram, base: Tensor, *, floor: float = 1e-6, tolerance: float = 1e-4, most: int = 100
) -> Tensor:
    """The Dirichlet of greatest evidence, by Minka's fixed point from ``base``.

    :param base: positive float64, shape ``(P,)``.
    :param floor: least value of a parameter; that of a column without counts would go to zero.
    :param tolerance: stop when no parameter changes by more than this share of itself.
    :param most: iterations.
    """
    base = base.clamp_min(floor)
    for _ in range(most):
        mine, whole = base[histogram.column], (histogram.size * base).sum()
        drawn = histogram.rows * (torch.digamma(histogram.count + mine) - torch.digamma(mine))
        totals = histogram.total_rows * (torch.digamma(histogram.totals + whole) - torch.digamma(whole))
        wanted = torch.zeros_like(base).index_add_(0, histogram.column, drawn)
        new = (base * wanted / (histogram.size * totals.sum())).clamp_min(floor)
        change = float(((new - base).abs() / base).max())
        base = new
        if change <= tolerance:
            break
    return base
