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
    assert torch.equal(packed.broadcast(own), plain.broadcast(own).expand(values.shape).flatten(-2))


def test_ragged_multinomials_each_sum_to_one():
    block = PackedBlock(torch.Size([6]), (1, 3, 2))
    assert block.normalize(torch.tensor([0.3, 1.0, 2.0, 1.0, 0.0, 0.0])).tolist() == [1, 0.25, 0.5, 0.25, 0.5, 0.5]
    assert block.batch_dim == 0
    assert pickle.loads(pickle.dumps(block)) == block


@pytest.mark.parametrize("block", [Block(torch.Size([2, 3])), PackedBlock(torch.Size([6]), (3, 3))], ids=type)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_counts_too_small_to_divide_by_are_no_counts(block, dtype):
    """EM lets counts die out, by way of subnormal numbers; weights still sum to one."""
    tiny = torch.finfo(dtype).tiny
    for factor in (0, 1e-3, 0.5, 1, 2):
        values = torch.tensor([[1.0, 2, 1], [0.25, 0.5, 0]], dtype=dtype).mul(tiny * factor).reshape(block.shape)
        assert torch.allclose(block.sums(block.normalize(values)), torch.ones((), dtype=dtype))


@pytest.mark.parametrize("sizes", [(2, 3), (6, 0), ()])
def test_sizes_must_fit(sizes):
    with pytest.raises(ValueError, match="sizes must be positive and sum to shape"):
        PackedBlock(torch.Size([6]), sizes)


RAGGED = (1, 3, 2)
BLOCKS = {
    "plain": Block(torch.Size([4, 3])),
    "packed": PackedBlock(torch.Size([6]), RAGGED),
    "one multinomial": Block(torch.Size([3])),
}


def by_multinomial(block, values, function):
    """A function of each multinomial's own events, by itself; joined in the shape of the values, or stacked."""
    if not isinstance(block, PackedBlock):
        return function(values)
    found = [function(piece) for piece in values.split(block.sizes, -1)]
    return torch.cat(found, -1) if found[0].dim() == values.dim() else torch.stack(found, -1)


@pytest.mark.parametrize("batch", [(), (3,), (2, 1)])
@pytest.mark.parametrize("scale", [1.0, 1e4, 1e300])
@pytest.mark.parametrize("block", BLOCKS.values(), ids=list(BLOCKS))
def test_softmax_of_each_multinomial(block, scale, batch):
    """Also of numbers whose exponentials overflow or underflow."""
    values = scale * torch.randn(*batch, *block.shape, dtype=torch.float64)
    values[..., -1] = -torch.inf
    torch.testing.assert_close(block.softmax(values), by_multinomial(block, values, lambda x: x.softmax(-1)))
    torch.testing.assert_close(block.log_softmax(values), by_multinomial(block, values, lambda x: x.log_softmax(-1)))
    torch.testing.assert_close(block.logsumexp(values), by_multinomial(block, values, lambda x: x.logsumexp(-1)))
    assert block.softmax(values).isfinite().all()


@pytest.mark.parametrize("block", BLOCKS.values(), ids=list(BLOCKS))
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp"])
def test_derivatives_of_softmax(block, name):
    values = torch.randn(2, *block.shape, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(getattr(block, name), values)
    assert torch.autograd.gradgradcheck(getattr(block, name), values)
    impossible = values.detach().clone()
    impossible[..., -1] = -torch.inf
    impossible.requires_grad_()
    (gradient,) = torch.autograd.grad(block.softmax(impossible).square().sum(), impossible)
    assert gradient.isfinite().all() and (gradient[..., -1] == 0).all()


def test_impossible_multinomials_have_no_log_weight():
    """A sum of nothing: as torch has it, and without NaN in the other multinomials."""
    values = torch.tensor([-torch.inf, 0.0, 1.0, 2.0, -torch.inf, -torch.inf], requires_grad=True)
    total = BLOCKS["packed"].logsumexp(values)
    assert total[0] == total[2] == -torch.inf
    (gradient,) = torch.autograd.grad(total[1], values)
    torch.testing.assert_close(gradient, torch.cat([torch.zeros(1), torch.arange(3.0).softmax(0), torch.zeros(2)]))
