# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Slice sampling of a few real numbers, one after the other (Neal 2003, Figures 3 and 5)."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor


def slice_sweep(
    log_density: Callable[[Tensor], float],
    point: Tensor,
    generator: torch.Generator,
    *,
    width: float = 1.0,
    most_steps: int = 32,
) -> Tensor:
    """Move every coordinate once, leaving the density invariant.

    :param log_density: up to a constant, in nats; NaN counts as -inf.
    :param point: shape ``(D,)``, of positive density.
    :param width: of the first interval, which is widened by steps of this size.
    :param most_steps: that the interval is widened by, on both sides together.
    """
    point = point.clone()
    log_p = log_density(point)
    if not log_p > -math.inf:
        raise ValueError(f"slice sampling cannot start at {point.tolist()}, where the density is zero")
    for d in range(len(point)):
        level = log_p - _exponential(generator)
        origin = float(point[d])

        def at(x: float, d: int = d) -> float:
            moved = point.clone()
            moved[d] = x
            value = log_density(moved)
            return value if value == value else -math.inf

        low, high = _interval(at, origin, level, width, most_steps, generator)
        while True:
            x = low + (high - low) * _uniform(generator)
            log_p = at(x)
            if log_p > level:
                break
            if x < origin:
                low = x
            else:
                high = x
        point[d] = x
    return point


def _interval(
    at: Callable[[float], float], origin: float, level: float, width: float, most: int, generator: torch.Generator
) -> tuple[float, float]:
    """Stepping out: an interval around the origin, at a random place, whose ends lie outside the slice."""
    low = origin - width * _uniform(generator)
    high = low + width
    left = int(most * _uniform(generator))
    for _ in range(left):
        if at(low) <= level:
            break
        low -= width
    for _ in range(most - 1 - left):
        if at(high) <= level:
            break
        high += width
    return low, high


def _uniform(generator: torch.Generator) -> float:
    return float(torch.rand((), generator=generator, dtype=torch.float64))


def _exponential(generator: torch.Generator) -> float:
    return -math.log1p(-_uniform(generator))
