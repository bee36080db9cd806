# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""States of chains, matched."""

import pytest
import torch
from scipy.optimize import linear_sum_assignment

from pyrogram.infer import align_states
from pyrogram.infer.topics.alignment import maximum_matching


@pytest.mark.parametrize("shape", [(1, 1), (6, 6), (4, 7), (7, 4), (40, 40)])
def test_matching_is_maximal(shape):
    for seed in range(5):
        weights = torch.randint(0, 9, shape, generator=torch.Generator().manual_seed(seed))  # with ties
        found = maximum_matching(weights)
        rows, columns = linear_sum_assignment(weights.numpy(), maximize=True)
        matched = found >= 0
        assert int(matched.sum()) == min(shape) == len(found[matched].unique())
        assert weights[matched, found[matched]].sum() == weights.numpy()[rows, columns].sum()


def test_a_permutation_is_recovered():
    K = 12
    states = torch.randint(0, K, (30, 20))
    states[:, 15:] = -1
    states[0, :K] = torch.arange(K)
    renamed = torch.randperm(K)
    other = torch.where(states >= 0, renamed[states.clamp_min(0)], -1)
    found = align_states([states, other])
    assert torch.equal(found.partners, torch.stack([torch.arange(K), renamed]))
    assert torch.equal(found.overlap, torch.ones(2, K)) and found.agreement.tolist() == [1, 1]
    back = align_states([states, other], reference=1)
    assert torch.equal(back.partners[0][renamed], torch.arange(K))


def test_overlap_by_hand():
    one = torch.tensor([[0, 0, 0, 1, 1, 2]])
    two = torch.tensor([[1, 1, 0, 0, 0, 0]])
    found = align_states([one, two])
    assert found.partners[1].tolist() == [1, 0, -1]
    assert found.overlap[1].tolist() == pytest.approx([4 / 5, 4 / 6, 0])
    assert found.agreement[1] == pytest.approx(4 / 6)


def test_other_words_are_refused():
    with pytest.raises(ValueError, match="the same words"):
        align_states([torch.tensor([[0, 1]]), torch.tensor([[0, -1]])])
