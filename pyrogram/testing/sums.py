# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sums and maxima over all derivations: the dynamic program against the list."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.distributions import kl_divergence

from pyrogram.grammar import Weights

from .cases import DistributionCase, Enumeration, weighted_sum
from .compare import close, require


def elements(case: DistributionCase, seed: int = 0) -> Iterator[tuple[Callable[[Tensor], Tensor], Weights, Any]]:
    """The case itself and a batch of three around it: how to pick an element, its weights, the distribution."""
    yield lambda result: result, case.weights(seed=seed), case.at(seed=seed)
    batch = case.weights((3,), seed)
    d = case.make(batch)
    for b in range(3):
        yield lambda result, b=b: result[b], {name: w[b] for name, w in batch.items()}, d  # type: ignore[misc]


def check_total_probability(case: DistributionCase) -> None:
    """The probabilities of all derivations add up to one."""
    for batch in ((), (3,)):
        d = case.at(batch)
        total = d.log_prob(d.enumerate_support()).logsumexp(0)
        close(total, torch.zeros(batch, dtype=torch.float64), "log of the sum of exp(log_prob) over the support")


def check_log_partition(case: DistributionCase) -> None:
    """log Z is the log of the total weight of all derivations."""
    for pick, weights, d in elements(case):
        close(pick(d.log_partition), Enumeration(case, weights).log_partition, "log_partition")


def check_log_prob(case: DistributionCase) -> None:
    """log_prob is a derivation's score less log Z, -inf for an impossible one."""
    for pick, weights, d in elements(case):
        truth = Enumeration(case, weights)
        values = truth.values.reshape(len(truth.values), *(1 for _ in d.batch_shape), *d.event_shape)
        log_probs = d.log_prob(values).transpose(0, -1) if d.batch_shape else d.log_prob(values)
        close(pick(log_probs), truth.log_probs, "log_prob")


def check_counts(case: DistributionCase) -> None:
    """counts(value) times log weights is the score, log_prob + log_partition."""
    d = case.at()
    truth = Enumeration(case)
    counts = d.counts(truth.values)
    if case.counts is not None:
        close(counts, truth.counts, "counts")
    score = sum(weighted_sum(counts[name], w, w.dim()) for name, w in case.log_weights.items())
    close(score, d.log_prob(truth.values) + d.log_partition, "counts times log weights")


def check_expected_counts(case: DistributionCase) -> None:
    """expected_counts() is the mean of counts."""
    for pick, weights, d in elements(case):
        truth = Enumeration(case, weights)
        expected = {name: truth.expectation(c) for name, c in truth.counts.items()}
        close({name: pick(c) for name, c in d.expected_counts().items()}, expected, "expected_counts()")


def check_marginals(case: DistributionCase) -> None:
    """marginals() are the probabilities of the parts of derivations."""
    assert case.parts is not None
    for pick, weights, d in elements(case):
        truth = Enumeration(case, weights)
        close(pick(d.marginals()), truth.expectation(case.parts(truth.values)), "marginals()")


def check_entropy(case: DistributionCase) -> None:
    """entropy() is the mean of -log_prob, in nats."""
    for pick, weights, d in elements(case):
        close(pick(d.entropy()), Enumeration(case, weights).entropy(), "entropy()")


def check_kl_divergence(case: DistributionCase) -> None:
    """kl_divergence is registered, exact, 0 from a distribution to itself, and broadcasts."""
    p_elements, q_elements = list(elements(case)), list(elements(case, seed=1))
    for (pick, p_weights, p), (_, q_weights, q) in zip(p_elements, q_elements, strict=True):
        truth, other = Enumeration(case, p_weights), Enumeration(case, q_weights)
        expected = weighted_sum(truth.probs, truth.log_probs - other.log_probs, 1)
        close(pick(kl_divergence(p, q)), expected, "kl_divergence")
        close(pick(kl_divergence(p, p)), torch.zeros((), dtype=torch.float64), "kl_divergence to itself")
    p, q = case.at(), case.at((3,), seed=1)
    expected = torch.stack(
        [kl_divergence(p, case.make({k: w[b] for k, w in case.weights((3,), 1).items()})) for b in range(3)]
    )
    close(kl_divergence(p, q), expected, "kl_divergence to a batch")


def check_argmax(case: DistributionCase) -> None:
    """argmax() and mode are a derivation of the highest probability."""
    for pick, weights, d in elements(case):
        truth = Enumeration(case, weights)
        for what, value in (("argmax()", pick(d.argmax())), ("mode", pick(d.mode))):
            require(case.make(weights).support.check(value), f"{what} is not in the support")
            close(case.make(weights).log_prob(value), truth.log_probs.max(), f"log_prob of {what}")


def check_top_k(case: DistributionCase) -> None:
    """top_k lists the most probable derivations, best first, each once; what there is not has -1 and -inf."""
    for pick, weights, d in elements(case):
        ranked = Enumeration(case, weights).log_probs.sort(descending=True).values
        possible = int((ranked > -torch.inf).sum())
        single: Any = case.make(weights)
        for k in (1, 3, possible + 2):
            values, log_probs = d.top_k(k)
            values = torch.stack([pick(v) for v in values])
            log_probs = torch.stack([pick(p) for p in log_probs])
            expected = torch.cat([ranked[:possible], ranked.new_full((k,), -torch.inf)])[:k]
            close(log_probs, expected, f"log probabilities of top_k({k})")
            number = min(k, possible)
            close(single.log_prob(values[:number]), log_probs[:number], f"log_prob of the derivations of top_k({k})")
            require(len(values[:number].unique(dim=0)) == number, f"top_k({k}) lists a derivation twice")
            require((values[number:] == -1).all(), f"top_k({k}) lists more derivations than there are")


def check_mbr(case: DistributionCase) -> None:
    """mbr() has the greatest expected number of right parts of all derivations, less that of wrong ones if it minds."""
    assert case.parts is not None
    for pick, weights, d in elements(case):
        truth = Enumeration(case, weights)
        parts = case.parts(truth.values).flatten(1)
        worth = truth.expectation(parts)
        worth = 2 * worth - 1 if case.mbr_minds_wrong_parts else worth
        gains = parts @ worth
        value = pick(d.mbr())
        require(case.make(weights).support.check(value), "mbr() is not in the support")
        gain = (case.parts(value).flatten() * worth).sum()
        close(gain, gains.max(), "the expected number of right parts of mbr()")
