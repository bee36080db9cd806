# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""States of chains, matched."""

import pytest
import torch
from scipy.optimize import linear_sum_assignment

from reproductions.topics.alignment import align_states


@pytest.mark.parametrize("shape", [(1, 1), (6, 6), (4, 7), (7, 4), (40, 40)])
def test_most_words_agree(shape):
    for seed in range(5):
        table = torch.randint(0, 9, shape, generator=torch.Generator().manual_seed(seed))  # with ties
        table[-1, -1] += 1
        cells = torch.arange(table.numel()).repeat_interleave(table.flatten())
        chain, other = cells // shape[1], cells % shape[1]
        overlap, agreement = align_states(chain, other)
        rows, columns = linear_sum_assignment(table.numpy(), maximize=True)
        assert agreement == pytest.approx(int(table.numpy()[rows, columns].sum()) / len(chain))
        assert overlap.shape == shape[:1] and (overlap >= 0).all() and (overlap <= 1).all()


def test_a_permutation_is_recovered():
    K = 12
    states = torch.cat([torch.arange(K), torch.randint(0, K, (400,))])
    overlap, agreement = align_states(states, torch.randperm(K)[states])
    assert torch.equal(overlap, torch.ones(K)) and agreement == 1


def test_overlap_by_hand():
    one, two = torch.tensor([0, 0, 0, 1, 1, 2]), torch.tensor([1, 1, 0, 0, 0, 0])
    overlap, agreement = align_states(one, two)
    assert overlap.tolist() == pytest.approx([4 / 5, 4 / 6, 0]) and agreement == pytest.approx(4 / 6)
    overlap, agreement = align_states(two, one)
    assert overlap.tolist() == pytest.approx([4 / 6, 4 / 5]) and agreement == pytest.approx(4 / 6)


def test_states_that_no_word_has():
    overlap, agreement = align_states(torch.tensor([0, 3, 3]), torch.tensor([2, 2, 0]))
    assert overlap.tolist() == pytest.approx([2 / 3, 0, 0, 2 / 3]) and agreement == pytest.approx(2 / 3)
