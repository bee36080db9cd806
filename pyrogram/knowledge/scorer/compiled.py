# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sums of the weights of hashed features over the arcs of sentences, their gradient, and Adagrad: compiled loops."""

from typing import Any

import numpy as np

from pyrogram.runtime.arrays import Array
from pyrogram.runtime.compiling import inlined, kernel

from .features import Features


@inlined
def _place(x: Features, b: int, h: int, d: int, k: int) -> Any:  # pragma: no cover
    code = x.heads[b, h, k] + x.dependents[b, d, k] + x.pairs[b, h, d, x.codes[k]] * x.odd[k]
    return (code >> (64 - x.bits)) & ((1 << x.bits) - 1)


@kernel
def add_scores(weights: Array, x: Features, lengths: Array, out: Array) -> None:
    """Write the score of every arc into ``out`` (B, n+1, n+1); column 0, the diagonal and the padding stay."""
    for b in range(len(lengths)):
        for h in range(lengths[b] + 1):
            for d in range(1, lengths[b] + 1):
                if h != d:
                    total = 0.0
                    for k in range(len(x.codes)):
                        total += weights[_place(x, b, h, d, k)]
                    out[b, h, d] = total


@kernel
def add_gradient(gradient: Array, x: Features, lengths: Array, out: Array) -> None:
    """Add the gradient of the weights, given that of the scores (B, n+1, n+1), to ``out``."""
    for b in range(len(lengths)):
        for h in range(lengths[b] + 1):
            for d in range(1, lengths[b] + 1):
                if h != d and gradient[b, h, d] != 0:
                    for k in range(len(x.codes)):
                        out[_place(x, b, h, d, k)] += gradient[b, h, d]


@kernel
def climb(
    weights: Array, squares: Array, gradient: Array, x: Features, lengths: Array, least: float, rate: float
) -> None:
    """Steps of Adagrad upwards, arc by arc, in place: g / sqrt(sum of all g^2 so far).

    :param squares: the sum, by weight.
    :param gradient: g by arc, (B, n+1, n+1); arcs where it is smaller than ``least`` are left out.
    """
    for b in range(len(lengths)):
        for h in range(lengths[b] + 1):
            for d in range(1, lengths[b] + 1):
                g = gradient[b, h, d]
                if h != d and abs(g) >= least:
                    for k in range(len(x.codes)):
                        i = _place(x, b, h, d, k)
                        squares[i] += g * g
                        weights[i] += rate * g / np.sqrt(squares[i])
