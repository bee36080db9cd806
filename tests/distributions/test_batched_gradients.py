# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Gradients in many directions at once, as vectorised Jacobians and Hessian approximations ask for them."""

import pytest
import torch
from torch.autograd.functional import jacobian

from pyrogram import CFG, DMV, HMM
from pyrogram.distributions import ProjectiveDependencyTree, Sentence, SiblingDependencyTree

WORDS = torch.tensor([[0, 1, 2], [3, 1, -1]])


def sentence(grammar, start):
    weights = grammar.initial_weights(WORDS, start, seed=0)
    name = list(weights)[-1]
    return lambda w: Sentence(grammar, {**weights, name: w}, validate_args=False).log_prob(WORDS), weights[name]


def drawn(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


CASES = {
    "trees": lambda: (lambda arcs: ProjectiveDependencyTree(arcs).log_partition, drawn(3, 5, 5)),
    "siblings": lambda: (lambda s: SiblingDependencyTree(drawn(2, 4, 4), s).log_partition, drawn(2, 4, 4, 4)),
    "DMV": lambda: sentence(DMV(4), "random"),
    "HMM": lambda: sentence(HMM(3, 4), "random"),
    "CFG": lambda: sentence(CFG.dense(3, 3, 4), "random"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_vectorised_jacobian_is_one(case):
    log_probs, point = CASES[case]()
    expected = jacobian(log_probs, point)
    assert expected.abs().sum() > 0
    torch.testing.assert_close(jacobian(log_probs, point, vectorize=True), expected)
