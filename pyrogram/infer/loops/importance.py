# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The evidence by importance sampling: a bound that draws tighten, and whether it is reliable."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from functools import cached_property

import torch
from pyro.ops.stats import fit_generalized_pareto
from torch import Tensor

from pyrogram.printable import plural


@dataclass(frozen=True, eq=False)
class ImportanceWeightedBound:
    """log p(sentences) from below: the log of the mean of importance weights (Burda, Grosse and Salakhutdinov 2016).

    A weight is p(sentence, experts) / r(experts), experts drawn from r and derivations summed out; its mean is the
    evidence p(sentence). The logarithm of the mean of K weights is *in expectation* a lower bound, which grows with K
    and tends to the log evidence. It is too low by about ``standard_error ** 2 / 2`` nats, if the weights have a
    variance.

    >>> one = ImportanceWeightedBound(torch.tensor([[0.25], [0.75]]).log(), torch.tensor([-0.9]))
    >>> round(one.value, 4)  # log 0.5
    -0.6931
    >>> one.effective_sample_sizes  # (0.25 + 0.75)² / (0.25² + 0.75²)
    tensor([1.6000])

    :param log_weights: by draw and sentence, in nats, shape ``(K, N)``; of sites one after the other.
    :param bounds: the loop's own bound of each sentence at the same q, in nats, shape ``(N,)``.
    """

    log_weights: Tensor
    bounds: Tensor

    @property
    def value(self) -> float:
        """The bound on the log evidence of all sentences, in nats."""
        return float(self.values.sum())

    @property
    def values(self) -> Tensor:
        """The same of each sentence, shape ``(N,)``."""
        return self.log_weights.logsumexp(0) - math.log(len(self.log_weights))

    @property
    def standard_error(self) -> float:
        """Of :attr:`value`, in nats, to first order: the root of the sum of 1 / effective sample size - 1 / K."""
        return float((1 / self.effective_sample_sizes - 1 / len(self.log_weights)).clamp_min(0).sum().sqrt())

    @property
    def effective_sample_sizes(self) -> Tensor:
        """(sum of weights)² / sum of squared weights of each sentence, between 1 and K (Kong 1992), shape ``(N,)``."""
        return (2 * self.log_weights.logsumexp(0) - (2 * self.log_weights).logsumexp(0)).exp()

    @cached_property
    def pareto_k(self) -> Tensor:
        """The shape k of the tail of each sentence's weights (Vehtari et al. 2024), shape ``(N,)``.

        Weights have 1 / k moments. Above :attr:`greatest_pareto_k` the error is larger than ``standard_error`` says.
        NaN for fewer than 50 draws, from which no tail can be told.
        """
        return torch.tensor([_pareto_k(logs) for logs in self.log_weights.T.double()], dtype=torch.float64)

    @property
    def greatest_pareto_k(self) -> float:
        """min(1 - 1 / log10 K, 0.7), what K draws can cope with (Vehtari et al. 2024, section 3.2.4)."""
        return min(1 - 1 / math.log10(max(len(self.log_weights), 2)), 0.7)

    @property
    def unreliable(self) -> Tensor:
        """The sentences whose weights have too heavy a tail, as increasing indices."""
        return (self.pareto_k > self.greatest_pareto_k).nonzero().flatten()

    def warn(self) -> None:
        """Warn if there are sentences whose estimate is not reliable."""
        count, sentences = len(self.unreliable), len(self.bounds)
        if count:
            warnings.warn(
                f"the importance weights of {count} of {plural(sentences, 'sentence')} have too heavy a tail for "
                f"{plural(len(self.log_weights), 'draw')} (Pareto k up to "
                f"{float(self.pareto_k.nan_to_num(0).max()):.2f}, above "
                f"{self.greatest_pareto_k:.2f}): their evidence may be far higher, and its standard error larger; take "
                "more draws, or use it as a bound alone",
                stacklevel=3,
            )


def _pareto_k(log_weights: Tensor) -> float:
    """Of the greatest weights, about 3 sqrt(K) and a fifth at most."""
    draws = len(log_weights)
    if draws < 50:
        return math.nan
    ordered = (log_weights - log_weights.max()).sort().values
    size = math.ceil(min(0.2 * draws, 3 * math.sqrt(draws)))
    cutoff = ordered[-size - 1].exp()
    tail = ordered[-size:].exp() - cutoff
    if float(tail[-1]) <= 1e-9:  # as good as equal
        return -math.inf
    k: float = fit_generalized_pareto(tail.clamp_min(1e-300))[0]
    return k
