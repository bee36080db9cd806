# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The public checks, crossed with all other structures by scores: one test for each pair."""

import copy

import instances
import pytest
import torch

from pyrogram.testing import checks_for

ALL = instances.TREES | instances.STRUCTURES


@pytest.mark.one_in(50)
@pytest.mark.parametrize(("case", "check"), instances.crossed(instances.STRUCTURES))
def test_distribution(case, check):
    check(case)


SUMS = ["log_partition", "log_prob", "counts", "expected_counts", "marginals", "entropy", "kl_divergence"]
CHOICES = ["argmax", "top_k", "mbr", "draws", "derivatives_of_entropy", "entries_that_are_not_read"]
QUICK = {
    "of trees": ["valence and stops", "three valences, multiroot", "siblings and stops", "siblings, multiroot"],
    "of structures": ["arcs that cross, forbidden", "labels, forbidden", "grandparents and siblings, forbidden"],
    "of others": ["spans, forbidden", "segments, forbidden", "chain of order two, alike at all words, forbidden"],
}


@pytest.mark.parametrize("of", [name for names in QUICK.values() for name in names])
@pytest.mark.parametrize("name", SUMS + CHOICES)
def test_sums_and_choices_of_one_case_of_each(of, name):
    checks_for(ALL[of])[name](ALL[of])


@pytest.mark.parametrize("of", [name for name, case in ALL.items() if case.singles])
@pytest.mark.parametrize(
    "name", ["padded_sums", "padded_values", "padded_decoding", "padded_draws", "padding_is_not_read"]
)
def test_padding(of, name):
    if name in checks_for(ALL[of]):
        checks_for(ALL[of])[name](ALL[of])


@pytest.mark.one_in(21)
@pytest.mark.parametrize("of", ALL)
def test_deep_copies_of_what_needs_gradients(of):
    """The copy has scores of its own, and the gradient of log Z arrives there."""
    case = ALL[of]
    leaves = {name: w.requires_grad_() for name, w in case.weights().items()}
    originals = case.make(leaves)
    twin = copy.deepcopy(originals)
    twin.log_partition.sum().backward()
    found = [x.grad for x in twin._scores.values()]
    for gradient, expected in zip(found, originals.expected_counts().values(), strict=True):
        torch.testing.assert_close(gradient, expected.detach())
    assert all(w.grad is None for w in leaves.values())
