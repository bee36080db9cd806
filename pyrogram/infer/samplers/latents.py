# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Moves of latent values that are not integrated out, in unconstrained coordinates, given the derivations.

Slice sampling (Neal 2003, Figures 3 and 5) and Hamiltonian Monte Carlo (Neal 2011). Each leaves a density of latent
values, which changes from step to step, invariant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.linalg import LinAlgError  # type: ignore[attr-defined]

from pyrogram.grammar import Weights

Density = Callable[[Mapping[str, Tensor]], Tensor]
"""Log density in nats of a point, which it may refuse by a ValueError."""

LEAPS = 10  #: leapfrog steps of a trajectory


def slice_step(density: Density, point: Weights, generator: torch.Generator) -> Weights:
    """A new point by slice sampling (Neal 2003), one coordinate after the other.

    :param point: in unconstrained coordinates, by site.
    :raises ValueError: if the point has no density.
    """
    flat = torch.cat([u.reshape(-1) for u in point.values()])

    def at(x: Tensor) -> float:
        try:
            with torch.no_grad():
                return float(density(_unflatten(x, point)))
        except (ValueError, LinAlgError):  # a concentration that rounds to zero, say, fails validation
            return -math.inf

    return _unflatten(slice_sweep(at, flat, generator), point)


def hmc_step(
    density: Density, point: Weights, tuning: Weights, generator: torch.Generator, *, adapt: bool
) -> tuple[Weights, Weights]:
    """A new point by Hamiltonian Monte Carlo (Neal 2011), all coordinates at once; and the new tuning.

    The step size begins at the one that a single leapfrog step accepts with probability one half (Hoffman and Gelman
    2014, Algorithm 4). It is adapted to an acceptance of 0.8 of trajectories by ever smaller steps, and drawn anew for
    every trajectory within a factor of its value, so that no orbit is periodic.

    :param tuning: numbers that were learnt; none before the first step.
    :param adapt: whether to go on learning, in which case the density is invariant only in the end.
    :raises ValueError: if the density of the point, or its gradient, is not finite.
    """
    start = _value_and_gradient(density, point)
    if not math.isfinite(start[0]) or not all(bool(x.isfinite().all()) for x in start[1].values()):
        raise ValueError(
            f"the log density of latent values {list(point)}, or its gradient, is not finite where the chain is; "
            "use kernel='slice', or a prior that is smooth there"
        )
    log_size = float(tuning["log_step"]) if tuning else _first_size(density, point, start, generator)
    number = int(tuning.get("adapted", torch.tensor(0)))
    jitter = 0.5 + float(torch.rand((), generator=generator, dtype=torch.float64))
    moved, accept = _trajectory(density, point, start, math.exp(log_size) * jitter, LEAPS, generator)
    if adapt:
        number += 1
        log_size += (accept - 0.8) * 2 * number**-0.6
    tuned = {"log_step": torch.tensor(log_size, dtype=torch.float64), "adapted": torch.tensor(number)}
    for name, value in (("accepted", accept), ("steps", 1.0)):
        tuned[name] = tuning.get(name, torch.tensor(0.0, dtype=torch.float64)) + value
    taken = float(torch.rand((), generator=generator, dtype=torch.float64)) < accept
    return (moved if taken else point), tuned


def _first_size(density: Density, point: Weights, start: tuple[float, Weights], generator: torch.Generator) -> float:
    """The logarithm of a size that is neither far too large nor far too small."""
    state = generator.get_state()
    log_size, direction = math.log(0.1), 0.0
    for _ in range(60):
        generator.set_state(state)  # the same momentum for every size
        _, accept = _trajectory(density, point, start, math.exp(log_size), 1, generator)
        wanted = 1.0 if accept > 0.5 else -1.0
        if direction and wanted != direction:
            break
        direction = wanted
        log_size += direction * math.log(2)
    return log_size


def _trajectory(
    density: Density,
    point: Weights,
    start: tuple[float, Weights],
    size: float,
    leaps: int,
    generator: torch.Generator,
) -> tuple[Weights, float]:
    """Where some leapfrog steps end, and the probability that this is accepted.

    :param start: the log density of the point, and its gradient.
    """
    at = {name: u.clone() for name, u in point.items()}
    momentum = {n: torch.randn(u.shape, generator=generator, dtype=u.dtype).to(u.device) for n, u in at.items()}
    before, (after, slope) = start[0] - _kinetic(momentum), start
    for _ in range(leaps):
        momentum = {n: p + size / 2 * slope[n] for n, p in momentum.items()}
        at = {n: u + size * momentum[n] for n, u in at.items()}
        after, slope = _value_and_gradient(density, at)
        if not math.isfinite(after):
            return point, 0.0
        momentum = {n: p + size / 2 * slope[n] for n, p in momentum.items()}
    gain = after - _kinetic(momentum) - before
    return at, math.exp(min(0.0, gain)) if gain == gain else 0.0


def _value_and_gradient(density: Density, point: Weights) -> tuple[float, Weights]:
    """:returns: minus infinity, and nothing of use, where the density has no value."""
    leaves = {name: u.detach().requires_grad_() for name, u in point.items()}
    try:
        with torch.enable_grad():
            value = density(leaves)
            slopes = torch.autograd.grad(value, list(leaves.values()), materialize_grads=True)
    except (ValueError, LinAlgError):
        return -math.inf, {}
    return float(value.detach()), dict(zip(leaves, slopes, strict=True))


def _kinetic(momentum: Weights) -> float:
    return sum(float(p.double().square().sum()) for p in momentum.values()) / 2


def _unflatten(flat: Tensor, like: Mapping[str, Tensor]) -> Weights:
    chunks = flat.split([u.numel() for u in like.values()])
    return {name: chunk.reshape(u.shape) for (name, u), chunk in zip(like.items(), chunks, strict=True)}


# ---------------------------------------------------------------------- slice sampling


def slice_sweep(
    log_density: Callable[[Tensor], float],
    point: Tensor,
    generator: torch.Generator,
    *,
    width: float = 1.0,
    most_steps: int = 32,
) -> Tensor:
    """Move every coordinate once, one after the other, leaving the density invariant (Neal 2003).

    :param log_density: up to a constant, in nats; NaN counts as -inf.
    :param point: shape ``(D,)``, of positive density.
    :param width: of the first interval, which is widened by steps of this size.
    :param most_steps: the interval is widened by fewer steps, on both sides together.
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
