# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Trees with grandparents, beyond the battery: trees of lower order, large scores, both engines, messages."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.distributions import kl_divergence

from pyrogram.distributions import GrandparentDependencyTree, ProjectiveDependencyTree, SiblingDependencyTree


@pytest.mark.parametrize("multiroot", [False, True])
def test_without_grandparents_they_are_trees_of_lower_order(multiroot: bool) -> None:
    """Sentences that are too long to list: zeros leave plain trees, and scores of siblings alone second-order ones."""
    torch.manual_seed(0)
    N = 10
    arcs, siblings = torch.randn(3, N, N), torch.randn(3, N, N, N)
    siblings[:, 0] = 0  # ROOT's children are no siblings here
    zeros = torch.zeros(N, N, N)
    lengths = torch.tensor([9, 4, 1])
    plain = ProjectiveDependencyTree(arcs, lengths=lengths, multiroot=multiroot)
    same = GrandparentDependencyTree(arcs, zeros, None, lengths, multiroot=multiroot)
    second = SiblingDependencyTree(arcs, siblings, lengths=lengths, multiroot=multiroot)
    third = GrandparentDependencyTree(
        arcs, zeros, siblings[:, None].expand(-1, N, -1, -1, -1), lengths, multiroot=multiroot
    )
    for expected, found in ((plain, same), (second, third)):
        assert torch.allclose(found.log_partition, expected.log_partition, rtol=1e-10)
        assert torch.allclose(found.marginals(), expected.marginals(), atol=1e-9)
        assert torch.allclose(found.entropy(), expected.entropy(), rtol=1e-8)
        assert torch.equal(found.mbr(), expected.mbr())
        assert torch.allclose(found.top_k(3)[1], expected.top_k(3)[1], rtol=1e-8)


@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_both_engines(scale: float) -> None:
    torch.manual_seed(1)
    N = 6
    tables = [scale * torch.randn(*[N] * dims, dtype=torch.float64) for dims in (2, 3, 4)]
    given = GrandparentDependencyTree(*tables)._given(torch.Size())
    program = GrandparentDependencyTree(*tables)._program
    leaves = [w.detach().requires_grad_() for w in given.weights.values()]
    log_z = [program.log_partition(given.with_weights(leaves), by_torch=by_torch) for by_torch in (False, True)]
    assert torch.allclose(*log_z, rtol=1e-12)
    for a, b in zip(*(torch.autograd.grad(z.sum(), leaves) for z in log_z), strict=True):
        assert torch.allclose(a, b, atol=1e-9)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GrandparentDependencyTree(torch.zeros(3, 4), torch.zeros(3, 3, 3)), "arc_scores must have shape"),
        (lambda: GrandparentDependencyTree(torch.zeros(3, 3), torch.zeros(3, 3)), r"grandparent_scores .* 3, 3, 3\)"),
        (
            lambda: GrandparentDependencyTree(torch.zeros(3, 3), torch.zeros(3, 3, 3), torch.zeros(3, 3, 3)),
            r"grandsibling_scores .* 3, 3, 3, 3\)",
        ),
        (
            lambda: GrandparentDependencyTree(torch.zeros(3, 3), torch.zeros(3, 3, 3).half()),
            "grandparent_scores are torch.float16 but",
        ),
        (lambda: GrandparentDependencyTree(torch.zeros(3, 3).long(), torch.zeros(3, 3, 3)), "floating-point numbers"),
        (lambda: GrandparentDependencyTree([[0.0]], torch.zeros(3, 3, 3)), r"arc_scores must be a tensor, not \[\["),  # type: ignore
        (
            lambda: kl_divergence(
                GrandparentDependencyTree(torch.zeros(3, 3), torch.zeros(3, 3, 3)),
                GrandparentDependencyTree(torch.zeros(3, 3), torch.zeros(3, 3, 3), torch.zeros(3, 3, 3, 3)),
            ),
            "one distribution has grandsibling scores",
        ),
    ],
)
def test_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError, NotImplementedError), match=message):
        make()
