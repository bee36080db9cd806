# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Several simplices of different sizes in one dimension: the constraint, and the ways to it from the real numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.distributions import biject_to, constraints, transform_to
from torch.distributions.transforms import StickBreakingTransform, Transform

from pyrogram.grammar import Block, PackedBlock

from .constraints import _Named


class RaggedSimplex(_Named):
    """Probabilities that sum to one in each of several multinomials, which lie one after the other.

    From the real numbers, ``biject_to`` breaks a stick for each multinomial (one number fewer than events), and
    ``transform_to`` is their softmax, as it is with torch's ``simplex``. Make one by :func:`ragged_simplex`.
    """

    event_dim = 1

    def __init__(self, sizes: tuple[int, ...]):
        self.sizes = sizes
        super().__init__()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RaggedSimplex) and self.sizes == other.sizes

    def __hash__(self) -> int:
        return hash(self.sizes)

    def check(self, value: Tensor) -> Tensor:
        block = packed(self.sizes)
        if value.shape[-1:] != block.shape:
            return torch.zeros(value.shape[:-1], dtype=torch.bool, device=value.device)
        # A sum of many numbers is only so exact.
        sizes = torch.tensor(self.sizes, dtype=value.dtype, device=value.device)
        close = (block.sums(value) - 1).abs() < 1e-6 + torch.finfo(value.dtype).eps * sizes
        return (value >= 0).all(-1) & close.all(-1)


def ragged_simplex(sizes: Sequence[int]) -> RaggedSimplex:
    """The constraint of packed multinomials of these sizes."""
    return RaggedSimplex(tuple(sizes))


def simplex_of(block: Block) -> constraints.Constraint:
    """The constraint of the weights of a block, for ``pyro.param``."""
    return ragged_simplex(block.sizes) if isinstance(block, PackedBlock) else constraints.simplex


@cache
def packed(sizes: tuple[int, ...]) -> PackedBlock:
    """The block of these multinomials, made once."""
    return PackedBlock(torch.Size([sum(sizes)]), sizes)


@cache
def _groups(sizes: tuple[int, ...]) -> tuple[tuple[Tensor, Tensor], ...]:
    """For each size above one: places of its events (G, size), and of its numbers on the real line (G, size - 1)."""
    size = torch.tensor(sizes)
    first, first_real = size.cumsum(0) - size, (size - 1).cumsum(0) - (size - 1)
    groups = []
    for s in sorted(set(sizes) - {1}):
        members = (size == s).nonzero()
        groups.append((first[members] + torch.arange(s), first_real[members] + torch.arange(s - 1)))
    return tuple(groups)


class _Ragged(Transform):
    """A transform that is told apart by the sizes."""

    bijective = False
    codomain_dim = 1

    def __init__(self, sizes: tuple[int, ...], cache_size: int = 0):
        self.sizes = sizes
        self.domain = constraints.real_vector
        self.codomain = RaggedSimplex(sizes)
        super().__init__(cache_size=cache_size)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and isinstance(other, _Ragged) and self.sizes == other.sizes

    __hash__ = Transform.__hash__

    def with_cache(self, cache_size: int = 1) -> _Ragged:
        return self if self._cache_size == cache_size else type(self)(self.sizes, cache_size=cache_size)


class RaggedSoftmax(_Ragged):
    """Softmax in each multinomial; many to one, with the logarithm for an inverse."""

    def _call(self, x: Tensor) -> Tensor:
        return packed(self.sizes).softmax(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()


class RaggedStickBreaking(_Ragged):
    """Break a stick for each multinomial: R - K numbers to R probabilities."""

    bijective = True

    def _call(self, x: Tensor) -> Tensor:
        y = x.new_ones(*x.shape[:-1], sum(self.sizes))
        for events, reals in self._places(x):
            y = _put(y, events, _STICK(x[..., reals]))
        return y

    def _inverse(self, y: Tensor) -> Tensor:
        x = y.new_zeros(*y.shape[:-1], sum(self.sizes) - len(self.sizes))
        for events, reals in self._places(y):
            x = _put(x, reals, _STICK.inv(y[..., events]))
        return x

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        total = x.new_zeros(x.shape[:-1])
        for events, reals in self._places(x):
            total = total + _STICK.log_abs_det_jacobian(x[..., reals], y[..., events]).sum(-1)
        return total

    def forward_shape(self, shape: torch.Size) -> torch.Size:
        return self._shape(shape, sum(self.sizes) - len(self.sizes), sum(self.sizes))

    def inverse_shape(self, shape: torch.Size) -> torch.Size:
        return self._shape(shape, sum(self.sizes), sum(self.sizes) - len(self.sizes))

    def _shape(self, shape: torch.Size, before: int, after: int) -> torch.Size:
        if shape[-1:] != (before,):
            raise ValueError(f"the last dimension must be {before}, but the shape is {tuple(shape)}")
        return torch.Size([*shape[:-1], after])

    def _places(self, like: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        for events, reals in _groups(self.sizes):
            yield events.to(like.device), reals.to(like.device)


_STICK = StickBreakingTransform()


def _put(into: Tensor, places: Tensor, values: Tensor) -> Tensor:
    """A copy with values (*batch, G, s) in places (G, s) of the last dimension."""
    return into.index_copy(-1, places.reshape(-1), values.flatten(-2))


@biject_to.register(RaggedSimplex)
def _biject(constraint: Any) -> RaggedStickBreaking:
    return RaggedStickBreaking(constraint.sizes)


@transform_to.register(RaggedSimplex)
def _transform(constraint: Any) -> RaggedSoftmax:
    return RaggedSoftmax(constraint.sizes)
