# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Scores of what is in no derivation, such as a table's diagonal, may be anything where validation is off."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyro
import torch
from torch import Tensor
from torch.distributions import kl_divergence

from .cases import DistributionCase, Enumeration, seeded
from .compare import close, follows, require
from .objects import results


def check_entries_that_are_not_read(case: DistributionCase) -> None:
    """Results stay as they are, draws have the same frequencies, and gradients of these entries are zero."""
    zeros = {name: torch.zeros_like(w) for name, w in case.log_weights.items()}
    counts = case.make(zeros).expected_counts()
    # What several sentences share is read if one of them reads it.
    read = case.read or {n: c.reshape(-1, *zeros[n].shape).amax(0) > 0 for n, c in counts.items()}
    if all(bool(table.all()) for table in read.values()):
        return
    clean, others = case.weights(), case.weights(seed=1)
    with seeded():
        value = case.make(clean).sample((4,))
    expected, gradients = _results(case, value, clean, others)
    with pyro.validation_enabled(False):
        for junk in (torch.nan, torch.inf, -torch.inf):
            dirty, dirty_others = (
                {name: torch.where(read[name], w, junk) for name, w in weights.items()} for weights in (clean, others)
            )
            actual, actual_gradients = _results(case, value, dirty, dirty_others)
            close(actual, expected, f"with {junk} where nothing is read")
            with seeded():
                draws = case.make(dirty).sample((1000,))
            require(case.make(clean).support.check(draws).all(), f"sample() leaves the support, with {junk}")
            if not case.singles:
                truth = Enumeration(case)
                follows(draws, truth.values, truth.probs, f"sample() with {junk} where nothing is read")
            for what, by_name in actual_gradients.items():
                for name, gradient in by_name.items():
                    close(gradient, gradients[what][name], f"gradient of {what} in {name!r} with {junk}")
                    require((gradient[~read[name]] == 0).all(), f"gradient of {what} in {name!r} is not zero at {junk}")


def _results(
    case: DistributionCase, value: Tensor, weights: Mapping[str, Tensor], others: Mapping[str, Tensor]
) -> tuple[dict[str, Tensor], dict[str, dict[str, Tensor]]]:
    """Everything that a distribution computes, by name, and the gradients of what has some, by name and table."""
    values = results(case.make(weights), case, value)
    leaves = {name: w.clone().requires_grad_() for name, w in weights.items()}
    d, other = case.make(leaves), case.make(others)
    differentiable: dict[str, Any] = {
        "log_partition": d.log_partition,
        "entropy": d.entropy(),
        "log_prob": d.log_prob(value),
        "kl_divergence": kl_divergence(d, other),
        "kl_divergence to it": kl_divergence(other, d),
    }
    values |= {name: x.detach() for name, x in differentiable.items()}
    gradients = {
        what: dict(zip(leaves, torch.autograd.grad(x.sum(), list(leaves.values()), retain_graph=True), strict=True))
        for what, x in differentiable.items()
    }
    return values, gradients
