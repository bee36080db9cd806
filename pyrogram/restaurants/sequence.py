# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The probability of observations one after the other, each predicted from those before it:

    log P(w_1 .. w_N) = sum_n log P(w_n | h_n, w_1 .. w_{n-1}),

with the predictive probabilities of a path assumption. Each of them is a distribution over values, and so is their
product over rows of values; but it depends on the order of the observations. The counts before each observation do
not depend on concentrations and discounts, and are kept: an evaluation costs N L simple steps and N logarithms.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from pyrogram.restaurants.checks import parameters, vector
from pyrogram.restaurants.seats import DONE, MAXIMAL, has_room, seat
from pyrogram.restaurants.tables import Arrays, find_dish
from pyrogram.runtime.arrays import Array
from pyrogram.runtime.compiling import borrowing, kernel

OF_VALUE, OF_CONTEXT, DRAWS = range(3)  # c, C and T
BLOCK = 512  # observations


@dataclass(frozen=True)
class Sequence:
    """Counts before each of N observations was made."""

    counts: Any  # (L, 3, N) int32
    base: Any  # (N,) float64, of the values
    paths: int

    def log_prob(self, concentration: Tensor, discount: Tensor) -> Tensor:
        """In nats, a float64 scalar; differentiable once in both arguments, of shape (L,)."""
        parameters(concentration, discount, len(self.counts))
        result: Tensor = _LogProb.apply(vector(concentration), vector(discount), self)
        return result


class _LogProb(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, concentration: Tensor, discount: Tensor, sequence: Sequence) -> Tensor:
        s, gradient = sequence, np.zeros((2, len(concentration)))
        alpha, epsilon = (np.ascontiguousarray(x.detach().numpy()) for x in (concentration, discount))
        total = _evaluate(s.counts, s.base, s.paths == MAXIMAL, alpha, epsilon)
        if any(ctx.needs_input_grad):
            _differentiate(s.counts, s.base, s.paths == MAXIMAL, alpha, epsilon, gradient)
        ctx.save_for_backward(torch.from_numpy(gradient))
        return concentration.new_tensor(total)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *above: Tensor) -> tuple[Tensor, Tensor, None]:
        (gradient,) = ctx.saved_tensors
        return above[0] * gradient[0], above[0] * gradient[1], None


@kernel
def record(a: Arrays, contexts: Array, values: Array, num_levels: int, paths: int, start: int, counts: Array) -> int:
    """Seat observations from ``start`` on, with the counts before each; returns where it stopped for room, or DONE."""
    chain, above = np.zeros((2, num_levels), np.int32), np.zeros(num_levels)
    one, zero = np.ones(num_levels), np.zeros(num_levels)  # neither path assumption asks for the parameters,
    state = np.zeros(1, np.uint64)  # or for a draw
    for i in range(start, len(contexts)):
        if not has_room(a, num_levels):
            return i
        h = contexts[i]
        for l in range(num_levels - 1, -1, -1):
            d = find_dish(a, h, values[i])
            counts[l, OF_VALUE, i] = a.c[d] if d >= 0 else 0
            counts[l, OF_CONTEXT, i], counts[l, DRAWS, i] = a.customers[h], a.tables[h]
            h = a.parents[h]
        seat(a, contexts[i], values[i], one, zero, paths, chain, above, state)
    return DONE


@kernel
def _evaluate(counts: Array, base: Array, maximal: bool, concentration: Array, discount: Array) -> float:
    """The log probability: a block of observations at a time, level by level, which the compiler turns into vectors."""
    L, N = counts.shape[0], counts.shape[2]
    p = np.ones(BLOCK)
    total = 0.0
    for start in range(0, N, BLOCK):
        size = min(BLOCK, N - start)
        for n in range(size):
            p[n] = base[start + n]
        for l in range(L):
            alpha, epsilon = concentration[l], discount[l]
            for n in range(size):
                c, C = counts[l, OF_VALUE, start + n], counts[l, OF_CONTEXT, start + n]
                t = c if maximal else min(c, np.int32(1))
                new = alpha + epsilon * counts[l, DRAWS, start + n]
                below = (c - epsilon * t + new * p[n]) / (alpha + C if C > 0 else 1.0)
                p[n] = below if C > 0 else p[n]
        total += _log_product(p, size)
    return total


@borrowing
def _log_product(p: Array, size: int) -> float:
    """Sum of logarithms; of eight factors at a time, unless their product is not a normal number."""
    total = 0.0
    for i in range(0, size, 8):
        product = 1.0
        for n in range(i, min(i + 8, size)):
            product *= p[n]
        if product > 1e-300:
            total += np.log(product)
        else:
            for n in range(i, min(i + 8, size)):
                total += np.log(p[n])
    return total


@kernel
def _differentiate(
    counts: Array, base: Array, maximal: bool, concentration: Array, discount: Array, gradient: Array
) -> None:
    """Add the derivatives of the log probability in α and ε to ``gradient``, shape (2, L)."""
    L, N = counts.shape[0], counts.shape[2]
    p = np.zeros(L + 1)
    for n in range(N):
        p[0] = base[n]
        for l in range(L):
            c, C, T = counts[l, OF_VALUE, n], counts[l, OF_CONTEXT, n], counts[l, DRAWS, n]
            p[l + 1] = p[l]
            if C > 0:
                t = c if maximal else min(c, 1)
                new = concentration[l] + discount[l] * T
                p[l + 1] = (c - discount[l] * t + new * p[l]) / (concentration[l] + C)
        g = 1 / p[L] if p[L] > 0 else np.inf
        for l in range(L - 1, -1, -1):
            c, C, T = counts[l, OF_VALUE, n], counts[l, OF_CONTEXT, n], counts[l, DRAWS, n]
            if C > 0:
                t = c if maximal else min(c, 1)
                g /= concentration[l] + C
                gradient[0, l] += g * (p[l] - p[l + 1])
                gradient[1, l] += g * (T * p[l] - t)
                g *= concentration[l] + discount[l] * T
