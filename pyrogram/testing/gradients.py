# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Derivatives: the gradient of log Z is the expected counts, and its own derivatives are right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.distributions import kl_divergence

from .cases import DistributionCase, seeded
from .compare import close, require


def check_gradient_of_log_partition(case: DistributionCase) -> None:
    """The gradient of log Z with respect to the log weights is expected_counts(); nothing is NaN."""
    for batch in ((), (3,), (2, 1, 3)):
        weights = {name: w.requires_grad_() for name, w in case.weights(batch).items()}
        gradients = torch.autograd.grad(case.make(weights).log_partition.sum(), list(weights.values()))
        expected = {name: c.detach() for name, c in case.make(weights).expected_counts().items()}
        close(dict(zip(weights, gradients, strict=True)), expected, f"gradient of log_partition, batch {batch}")


def check_gradient_of_log_prob(case: DistributionCase) -> None:
    """The gradient of log_prob(y) is counts(y) - expected_counts(), also for many values in one batch."""
    weights = {name: w.requires_grad_() for name, w in case.weights((3,)).items()}
    d = case.make(weights)
    with seeded():
        value = d.sample((5,))
    gradients = torch.autograd.grad(d.log_prob(value).sum(), list(weights.values()))
    counts, mean = case.make(weights).counts(value), case.make(weights).expected_counts()
    expected = {name: counts[name].sum(0) - 5 * mean[name] for name in weights}
    close(dict(zip(weights, gradients, strict=True)), expected, "gradient of log_prob")


def check_derivatives_of_log_partition(case: DistributionCase) -> None:
    """First and second derivatives of log Z equal finite differences."""
    _check_derivatives(case, lambda d: d.log_partition)


def check_derivatives_of_entropy(case: DistributionCase) -> None:
    """First and second derivatives of the entropy equal finite differences."""
    _check_derivatives(case, lambda d: d.entropy())


def check_derivatives_of_kl_divergence(case: DistributionCase) -> None:
    """The gradient of KL(p || q) with respect to p equals finite differences; p = q is a minimum."""
    q = case.at(seed=1)
    _check_derivatives(case, lambda p: kl_divergence(p, q), second=False)
    weights = {name: w.requires_grad_() for name, w in case.weights().items()}
    divergence = kl_divergence(case.make(weights), case.at())
    zeros = {name: torch.zeros_like(w) for name, w in weights.items()}
    gradients = torch.autograd.grad(divergence, list(weights.values()))
    close(dict(zip(weights, gradients, strict=True)), zeros, "gradient of kl_divergence at its minimum", atol=1e-8)


def check_gradient_after_no_grad(case: DistributionCase) -> None:
    """Results computed without gradients do not get in the way of gradients asked for later."""
    weights = {name: w.requires_grad_() for name, w in case.weights().items()}
    for prepare in (lambda d: d.log_partition, lambda d: d.expected_counts(), lambda d: d.entropy()):
        d = case.make(weights)
        with torch.no_grad():
            prepare(d)
        for what in ("log_partition", "entropy"):
            result = d.log_partition if what == "log_partition" else d.entropy()
            require(result.requires_grad, f"{what} has no gradient once something was computed under no_grad")
            fresh = case.make(weights)
            expected = fresh.log_partition if what == "log_partition" else fresh.entropy()
            actual_gradient = torch.autograd.grad(result, list(weights.values()), retain_graph=True)
            expected_gradient = torch.autograd.grad(expected, list(weights.values()))
            for name, actual, truth in zip(weights, actual_gradient, expected_gradient, strict=True):
                close(actual, truth, f"gradient of {what} in {name!r} after no_grad")


def check_gradient_after_expand(case: DistributionCase) -> None:
    """A gradient passes through expand() to the tensors that were given."""
    weights = {name: w.requires_grad_() for name, w in case.weights().items()}
    wide = case.make(weights).expand(torch.Size([4]))
    gradients = torch.autograd.grad(wide.log_partition.sum(), list(weights.values()))
    expected = {name: 4 * c for name, c in case.at().expected_counts().items()}
    close(dict(zip(weights, gradients, strict=True)), expected, "gradient of log_partition after expand()")


def _check_derivatives(case: DistributionCase, result: Callable[[Any], Tensor], second: bool = True) -> None:
    """Finite differences in the finite log weights; -inf stays where it is."""
    finite = {name: w.isfinite() for name, w in case.log_weights.items()}
    inputs = tuple(w[finite[name]].clone().requires_grad_() for name, w in case.weights().items())

    def function(*leaves: Tensor) -> Tensor:
        weights = {
            name: w.masked_scatter(finite[name], g)
            for (name, w), g in zip(case.log_weights.items(), leaves, strict=True)
        }
        return result(case.make(weights))

    differences(function, inputs, second)


def differences(function: Callable[..., Tensor], inputs: tuple[Tensor, ...], second: bool = True) -> None:
    """The function's first derivatives, and second, equal finite differences."""
    with seeded():
        try:
            torch.autograd.gradcheck(function, inputs, fast_mode=True)
            if second:
                torch.autograd.gradgradcheck(function, inputs, fast_mode=True)
        except RuntimeError as error:
            raise AssertionError(f"a derivative differs from finite differences: {error}") from error
