# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Blocks of multinomials, of equal and of different sizes."""

import pickle

import pytest
import torch

from pyrogram.grammar import Block, PackedBlock


@pytest.mark.parametrize("batch", [(), (3,), (2, 1)])
def test_packed_multinomials_of_equal_size_are_a_plain_block(batch):
    plain, packed = Block(torch.Size([4, 5])), PackedBlock(torch.Size([20]), (5,) * 4)
    values = torch.rand(*batch, 4, 5, dtype=torch.float64)
    flat = values.flatten(-2)
    assert torch.allclose(packed.sums(flat), plain.sums(values))
    assert torch.allclose(packed.normalize(flat), plain.normalize(values).flatten(-2))
    assert torch.allclose(packed.uniform(flat), plain.uniform(values).flatten(-2))
    own = torch.rand(*batch, 4, dtype=torch.float64)
    assert torch.equal(packed.spread(own), plain.spread(own).expand(values.shape).flatten(-2))


def test_ragged_multinomials_each_sum_to_one():
    block = PackedBlock(torch.Size([6]), (1, 3, 2))
    assert block.normalize(torch.tensor([0.3, 1.0, 2.0, 1.0, 0.0, 0.0])).tolist() == [1, 0.25, 0.5, 0.25, 0.5, 0.5]
    assert block.batch_dim == 0
    assert pickle.loads(pickle.dumps(block)) == block


@pytest.mark.parametrize("sizes", [(2, 3), (6, 0), ()])
def test_sizes_must_fit(sizes):
    with pytest.raises(ValueError, match="sizes must be positive and sum to shape"):
        PackedBlock(torch.Size([6]), sizes)
