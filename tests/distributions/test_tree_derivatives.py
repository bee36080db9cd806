# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Derivatives of log Z and of marginals of all kinds of trees: against differences, and covariances by enumeration."""

from typing import Any

import pytest
import torch
from torch import Tensor
from tree_charts import (
    Kind,
    engines,
    kinds,
    problem,
    roots,
)


@pytest.mark.one_in(8)
@roots
@engines
@kinds
def test_derivatives(kind: Kind, engine: str, multiroot: bool) -> None:
    """Of log Z and of the marginals, in all tables, and in each alone."""
    tables, lengths = problem(kind, [3, 2, 1], scale=0.7)
    leaves = tuple(x.requires_grad_() for x in tables.values())

    def named(given: Any) -> dict[str, Tensor]:
        return dict(zip(tables, given, strict=True))

    def log_z(*given: Tensor) -> Tensor:
        return kind.log_partition(named(given), lengths, multiroot, engine)

    def marginals(*given: Tensor) -> Any:
        return tuple(kind.marginals(named(given), lengths, multiroot, engine)[1].values())

    for function in (log_z, marginals):
        assert torch.autograd.gradcheck(function, leaves, fast_mode=True)
    assert torch.autograd.gradgradcheck(log_z, leaves, fast_mode=True)
    expected = kind.marginals({name: x.detach() for name, x in tables.items()}, lengths, multiroot)[1]
    for name, leaf in tables.items():
        alone = {other: leaf if other == name else x.detach() for other, x in tables.items()}
        (gradient,) = torch.autograd.grad(kind.log_partition(alone, lengths, multiroot, engine).sum(), [leaf])
        torch.testing.assert_close(gradient, expected[name])
        attached = kind.marginals(alone, lengths, multiroot, engine)[1]
        assert all(x.requires_grad for x in attached.values())
        with torch.no_grad():
            assert not any(x.requires_grad for x in kind.marginals(alone, lengths, multiroot, engine)[1].values())


@pytest.mark.one_in(8)
@roots
@kinds
@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_second_derivatives_are_covariances(kind: Kind, scale: float, multiroot: bool) -> None:
    """Of parts, with impossible ones, against enumeration."""
    tables, lengths = problem(kind, [4], scale=scale, seed=5, forbidden=0.1)
    (one,) = kind.truth(tables, lengths, multiroot)
    units = {name: torch.zeros(len(one.trees), *x.shape[1:], dtype=torch.float64) for name, x in tables.items()}
    for t, tree in enumerate(one.trees):
        for name, index in kind.parts(tree):
            units[name][(t, *index)] = 1
    leaves = {name: x.requires_grad_() for name, x in tables.items()}
    log_z = kind.log_partition(leaves, lengths, multiroot, "torch")
    first = torch.autograd.grad(log_z.sum(), list(leaves.values()), create_graph=True)
    directions = [torch.randn(x.shape, dtype=torch.float64) for x in first]
    along = sum((g * d).sum() for g, d in zip(first, directions, strict=True))
    found = torch.autograd.grad(along, list(leaves.values()))
    probs = torch.tensor(one.probs)
    total = sum((u * d).flatten(1).sum(1) for u, d in zip(units.values(), directions, strict=True))
    for unit, product in zip(units.values(), found, strict=True):
        mean = torch.tensordot(probs, unit, 1)
        torch.testing.assert_close(product[0], torch.tensordot(probs * total, unit, 1) - mean * (probs @ total))
