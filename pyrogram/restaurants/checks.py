# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What the user gives to restaurants, checked and turned into arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor


def as_tensor(name: str, value: Any, dtype: torch.dtype | None = None) -> Tensor:
    """A tensor, as it is but for the type, and one made of a number, of nested lists of numbers, or of an array.

    :raises TypeError: for anything else, also for lists of tensors, which would lose their gradient.
    """
    if isinstance(value, Tensor):
        return value.to(dtype)
    try:
        if not (isinstance(value, (list, tuple)) and any(isinstance(x, Tensor) for x in value)):
            return torch.as_tensor(value, dtype=dtype)
        reason = "a list of tensors, which torch.stack makes one of"
    except (TypeError, ValueError, RuntimeError):
        reason = repr(value)[:80]
    raise TypeError(f"{name} must be a tensor or numbers, not {reason}")


def stacked(keys: Sequence[Any]) -> Any:
    """Keys, tensors or lists, as an array of shape (L, M), int64."""
    keys = [as_tensor("keys", key) for key in keys]
    for l, key in enumerate(keys):
        if key.dim() != 1 or key.is_floating_point() or key.is_complex() or len(key) != len(keys[0]):
            raise ValueError(
                f"keys must be integers, all of the same shape (M,), but those of level {l} have shape "
                f"{tuple(key.shape)} and dtype {key.dtype}"
            )
    return np.stack([key.detach().cpu().numpy().astype(np.int64, copy=False) for key in keys])


def checked_values(values: Any, number: int, num_values: int) -> Any:
    """Values as an array of shape (M,), int32."""
    values = as_tensor("values", values)
    if values.shape != (number,) or values.is_floating_point() or values.is_complex():
        raise ValueError(
            f"values must be integers of shape ({number},), like the keys, not of shape {tuple(values.shape)} and "
            f"dtype {values.dtype}"
        )
    array = values.detach().cpu().numpy()
    if number and (array.min() < 0 or array.max() >= num_values):
        raise ValueError(f"values must be 0..{num_values - 1}, but there are {array.min()}..{array.max()}")
    return array.astype(np.int32)


def parameters(concentration: Any, discount: Any, num_levels: int) -> tuple[Any, Any]:
    """α and ε as arrays of shape (L,), float64.

    :raises ValueError: unless 0 <= ε < 1 and α >= -ε.
    """
    concentration, discount = as_tensor("concentration", concentration), as_tensor("discount", discount)
    alpha, epsilon = (np.ascontiguousarray(x.detach().numpy()) for x in (vector(concentration), vector(discount)))
    if alpha.shape != (num_levels,) or epsilon.shape != (num_levels,):
        raise ValueError(
            f"concentration and discount must have shape ({num_levels},), one number for each level, not "
            f"{alpha.shape} and {epsilon.shape}"
        )
    if not ((epsilon >= 0) & (epsilon < 1)).all():
        raise ValueError(f"discount must be at least 0 and below 1, not {epsilon.tolist()}")
    if not ((alpha >= -epsilon) & (alpha < np.inf)).all():
        raise ValueError(f"concentration must be finite and at least -discount, not {alpha.tolist()}")
    return alpha, epsilon


def vector(x: Tensor) -> Tensor:
    """One number for each level, as compiled code takes them; differentiable."""
    return torch.as_tensor(x).to("cpu", torch.float64)


def base_measure(base: Any, num_values: int) -> Any:
    """Probabilities as an array of shape (V,), float64; uniform for None."""
    if base is None:
        return np.full(num_values, 1 / num_values)
    if not isinstance(base, Tensor):
        base = as_tensor("base", base, torch.float64)
    if base.requires_grad:
        raise ValueError("the base measure is taken as given: detach it")
    measure: Any = base.cpu().numpy().astype(np.float64)
    if measure.shape != (num_values,) or not (measure >= 0).all() or not abs(measure.sum() - 1) < 1e-5:
        raise ValueError(f"base must be probabilities of shape ({num_values},), not {base.tolist()[:10]}")
    return measure / measure.sum()
