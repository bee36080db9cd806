# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Values: what the support accepts, what log_prob takes, and whether draws are what they should be."""

from __future__ import annotations

import pyro
import torch

from pyrogram.printable import plural

from .cases import DistributionCase, Enumeration, seeded
from .compare import UNLIKELY, chi_square, close, follows, frequencies, require

DRAWS = 20_000


def check_support(case: DistributionCase) -> None:
    """support.check accepts every derivation and refuses invalid values, sentence by sentence."""
    d = case.at()
    valid = d.enumerate_support()
    require(d.support.check(valid).all(), "support.check refuses a derivation")
    require(d.support.is_discrete and d.support.event_dim == len(d.event_shape), "the support has the wrong event_dim")
    for what, value in case.invalid.items():
        require(not d.support.check(value), f"support.check accepts a value with {what}")
        both = case.at((2,)).support.check(torch.stack([valid[0].to(value.dtype), value]))
        require(both.tolist() == [True, False], f"support.check mixes up the sentences of a batch with {what}")


def check_validation(case: DistributionCase) -> None:
    """With validation, log_prob raises a ValueError for a value out of the support."""
    with pyro.validation_enabled(True):
        d = case.at()
        for what, value in case.invalid.items():
            try:
                d.log_prob(value)
            except ValueError:
                continue
            raise AssertionError(f"log_prob accepts a value with {what}")


def check_integral_floats(case: DistributionCase) -> None:
    """Derivations may come as floats, as from MCMC and Predictive; fractions are refused."""
    d = case.at()
    values = d.enumerate_support()
    for dtype in (torch.float32, torch.float64):
        close(d.log_prob(values.to(dtype)), d.log_prob(values), f"log_prob of a {dtype} value")
        close(d.counts(values.to(dtype)), d.counts(values), f"counts of a {dtype} value")
        require(d.support.check(values.to(dtype)).all(), f"support.check refuses a {dtype} value")
    require(not d.support.check(values + 0.5).any(), "support.check accepts fractions")


def check_log_prob_is_at_most_zero(case: DistributionCase) -> None:
    """log_prob is normalised: never above 0, and never NaN."""
    for batch in ((), (3,)):
        d = case.at(batch)
        log_probs = d.log_prob(d.enumerate_support())
        require((log_probs <= 1e-12).all(), f"log_prob is up to {float(log_probs.max()):.3g}")


def check_draws(case: DistributionCase) -> None:
    """Draws are as frequent as their probabilities say, for every element of a batch."""
    with seeded():
        follows(case.at().sample((DRAWS,)), *_truth(case), "sample()")
        batch = case.weights((3,))
        draws = case.make(batch).sample((DRAWS // 2,))
    for b in range(3):
        truth = Enumeration(case, {name: w[b] for name, w in batch.items()})
        follows(draws[:, b], truth.values, truth.probs, f"element {b} of a batch of sample()")


def check_draws_are_independent(case: DistributionCase) -> None:
    """Neighbouring draws, of one call or of two elements of a batch, have nothing to do with each other."""
    values, probs = _truth(case)
    d = case.at()
    with seeded(1):
        one_call = d.sample((DRAWS, 2))
        batch = d.expand(torch.Size([2])).sample((DRAWS,))
    T = len(values)
    for what, pairs in (("draws of one call", one_call), ("elements of a batch", batch)):
        index = [_rows(pairs[:, i], values) for i in range(2)]
        observed = torch.bincount(index[0] * T + index[1], minlength=T * T)
        p = chi_square(observed, torch.outer(probs, probs).flatten())
        require(p > UNLIKELY, f"{what} depend on each other (p = {p:.1g})")


def check_draws_follow_the_seed(case: DistributionCase) -> None:
    """The same seed gives the same draws, the next call gives others."""
    d = case.at()
    with seeded(2):
        first, second = d.sample((50,)), d.sample((50,))
    with seeded(2):
        again = case.at().sample((50,))
    require((first == again).all(), "the same seed gives other draws")
    certain = Enumeration(case).probs.max() > 0.9
    require(certain or (first != second).any(), "two calls of sample() give the same draws")


def _truth(case: DistributionCase) -> tuple[torch.Tensor, torch.Tensor]:
    truth = Enumeration(case)
    return truth.values, truth.probs


def _rows(draws: torch.Tensor, support: torch.Tensor) -> torch.Tensor:
    """The index in the support of every draw."""
    _, strange = frequencies(draws, support)
    require(strange == 0, f"{plural(strange, 'draw is', 'draws are')} not in the support")
    _, where = torch.cat([support.long(), draws.long()]).unique(dim=0, return_inverse=True)
    index = torch.empty(len(support), dtype=torch.long)
    index[where[: len(support)]] = torch.arange(len(support))
    return index[where[len(support) :]]
