# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The public checks, crossed with all other structures by scores: one test for each pair."""

import copy

import instances
import pytest
import torch


@pytest.mark.one_in(50)
@pytest.mark.parametrize(("case", "check"), instances.crossed(instances.STRUCTURES))
def test_distribution(case, check):
    check(case)


@pytest.mark.one_in(21)
@pytest.mark.parametrize("of", [*instances.TREES, *instances.STRUCTURES])
def test_deep_copies_of_what_needs_gradients(of):
    """The copy has scores of its own, and the gradient of log Z arrives there."""
    case = (instances.TREES | instances.STRUCTURES)[of]
    leaves = {name: w.requires_grad_() for name, w in case.weights().items()}
    originals = case.make(leaves)
    twin = copy.deepcopy(originals)
    twin.log_partition.sum().backward()
    tables = vars(twin).get("_tables") or {n: x for n, x in vars(twin).items() if n.endswith("_scores")}
    found = [x.grad for x in tables.values() if x is not None]
    for gradient, expected in zip(found, originals.expected_counts().values(), strict=True):
        torch.testing.assert_close(gradient, expected.detach())
    assert all(w.grad is None for w in leaves.values())
