# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The evidence of Dirichlet-multinomials, and the Dirichlet that maximises it."""

import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from pyrogram.topics.evidence import CountHistogram, log_evidence, maximise_evidence


def counts(symmetric):
    """Rows drawn from a Dirichlet-multinomial, so that the maximum is inside."""
    rng = np.random.default_rng(4)
    a = np.full(4, 0.6) if symmetric else np.array([2.0, 0.5, 0.2, 1.0])
    rows = [rng.multinomial(rng.integers(0, 25), rng.dirichlet(a)) for _ in range(60)]
    return torch.tensor(np.array(rows), dtype=torch.int32)


@pytest.mark.parametrize("symmetric", [False, True])
def test_evidence_is_that_of_the_urn(symmetric):
    """Values drawn one after the other, each with the counts before it."""
    rows = counts(symmetric)[:7]
    base = torch.tensor([0.3]) if symmetric else torch.tensor([0.3, 1.2, 0.01, 2.0])
    a = base.expand(4).tolist()
    expected = 0.0
    for row in rows.tolist():
        drawn = 0
        for k, n in enumerate(row):
            for i in range(n):
                expected += math.log((a[k] + i) / (sum(a) + drawn))
                drawn += 1
    found = log_evidence(CountHistogram.of(rows, symmetric=symmetric), base)
    assert float(found) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("symmetric", [False, True])
def test_the_maximum(symmetric):
    """Its gradient is zero, and a general maximiser finds the same."""
    histogram = CountHistogram.of(counts(symmetric), symmetric=symmetric)
    P = 1 if symmetric else 4
    found = maximise_evidence(histogram, torch.full((P,), 0.1), tolerance=1e-12, most=20000)
    leaf = found.clone().requires_grad_()
    log_evidence(histogram, leaf).backward()
    assert float((leaf.grad * found).abs().max()) < 1e-6

    def loss(x):
        u = torch.tensor(x, requires_grad=True)
        value = -log_evidence(histogram, u.exp())
        (gradient,) = torch.autograd.grad(value, u)
        return float(value.detach()), gradient.numpy()

    other = minimize(loss, np.zeros(P), jac=True, method="BFGS", options={"gtol": 1e-8})
    torch.testing.assert_close(found, torch.tensor(np.exp(other.x)), rtol=1e-5, atol=0)


def test_every_iteration_raises_the_evidence():
    histogram = CountHistogram.of(counts(False))
    base = torch.tensor([5.0, 5.0, 0.01, 0.1])
    values = [float(log_evidence(histogram, base))]
    for _ in range(30):
        base = maximise_evidence(histogram, base, most=1)
        values.append(float(log_evidence(histogram, base)))
    assert all(b > a for a, b in zip(values, values[1:], strict=False))


def test_a_column_without_counts_stays_at_the_floor():
    rows = torch.cat([counts(False), torch.zeros(60, 1, dtype=torch.int32)], 1)
    found = maximise_evidence(CountHistogram.of(rows), torch.full((5,), 0.1), floor=1e-5)
    assert found[4] == 1e-5 and bool((found[:4] > 0.05).all())
