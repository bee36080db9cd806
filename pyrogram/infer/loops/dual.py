# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The minimum of a convex function of multipliers that are not negative: the dual of constraints.

**References:**

[1] Bertsekas, D. (1982). Projected Newton methods for optimization problems with simple constraints. SIAM Journal on
Control and Optimization 20(2).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

#: How far constraints may be from holding, as a share of the events that they are about.
TOLERANCE = 1e-8
#: How far they may be where the search ends without getting nearer, as in float32, before users are told.
WORTH_TELLING = 1e-4
#: Multipliers beyond so many nats, of constraints that do not hold yet, are taken for infinite.
MOST = 100.0
#: Steps after which the search ends, wherever it is.
MOST_STEPS = 500
#: Nats that a multiplier moves in a step, at most.
_LONGEST = 10.0


@dataclass(frozen=True)
class Optimum:
    """Where the minimum is, and an approximation of the second derivative there, with which to go on.

    :param multipliers: λ, shape ``(K,)``.
    :param curvature: shape ``(K, K)``.
    :param away: how far it is from the minimum: the gradient of what is free to move, in units of ``scale``, ``(K,)``.
    """

    multipliers: Tensor
    curvature: Tensor
    away: Tensor


def minimise(
    dual: Callable[[Tensor], tuple[float, Tensor]], start: Tensor, curvature: Tensor, scale: Tensor
) -> Optimum | None:
    """Minimise a convex function over λ >= 0 by a projected quasi-Newton method (BFGS; [1]).

    :param dual: from λ to the value and the gradient.
    :param start: where to begin, shape ``(K,)``.
    :param curvature: the second derivative there, as far as it is known; zeros if not.
    :param scale: what gradients are measured by, shape ``(K,)``.
    :returns: None if there is no minimum. If 500 steps do not lead to one, or numbers do not tell points apart any
        more, the point that was reached, whose ``away`` is beyond :data:`TOLERANCE`.
    """
    at, second = start.clone(), curvature.clone()
    value, gradient = dual(at)
    steps = 0
    while True:
        free = (at > 0) | (gradient < 0)
        left = torch.where(free, gradient, 0.0).abs()
        away = left / scale.clamp(min=torch.finfo(scale.dtype).tiny)
        if bool((left <= TOLERANCE * scale).all()) or steps == MOST_STEPS:
            return Optimum(at, second, away)
        if bool((at > MOST).any()):
            return None
        if not bool(second.diagonal()[free].min() > 0):  # nothing is known: a nat in each direction
            second = torch.diag(torch.maximum(gradient.abs(), TOLERANCE * scale))
        step = torch.zeros_like(at)
        step[free] = -torch.linalg.solve(second[free][:, free], gradient[free])
        step = step * min(1.0, _LONGEST / float(step.abs().max()))
        while True:
            new = (at + step).clamp(min=0.0)
            new_value, new_gradient = dual(new)
            fallen = value - new_value >= -1e-4 * float(gradient @ (new - at))
            rounded = abs(value - new_value) <= 1e-12 * abs(value)  # then gradients decide
            if fallen or (rounded and float(new_gradient.abs().max()) <= float(gradient.abs().max())):
                break
            if float(step.abs().max()) < 1e-12:
                return Optimum(at, second, away)
            step = step / 2
        moved, changed = new - at, new_gradient - gradient
        if float(moved @ changed) > 1e-12 * float(moved @ moved):
            product = second @ moved
            second = second - torch.outer(product, product) / (moved @ product)
            second = second + torch.outer(changed, changed) / (moved @ changed)
        else:  # a straight line: go on twice as far
            second = second / 2
        at, value, gradient, steps = new, new_value, new_gradient, steps + 1
