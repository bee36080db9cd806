# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The arrays of restaurants as tensors to be saved, as long as they are used; hash tables and sums are made again.

Contexts and dishes keep their numbers, also those that nobody observes any more: in their order customers are reseated,
so that a chain goes on with the same numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pyrogram.restaurants.checks import base_measure
from pyrogram.restaurants.tables import BUCKETS, CONTEXTS, DISHES, FREE, NUM_FREE, Arrays, rebuilt

_OF_CONTEXTS = ("keys", "levels", "parents")
_OF_DISHES = ("contexts", "values", "c", "t")
_OF_TABLES = ("buckets", "sizes", "numbers", "after")


def packed(a: Arrays) -> dict[str, Tensor]:
    """What :func:`unpacked` takes."""
    X, E, B = (int(a.used[i]) for i in (CONTEXTS, DISHES, BUCKETS))
    lengths = dict.fromkeys(_OF_CONTEXTS, X) | dict.fromkeys((*_OF_DISHES, "buckets"), E)
    lengths |= dict.fromkeys(("sizes", "numbers", "after"), B)
    if not B:  # but for exact seats
        del lengths["buckets"]
    tensors = {name: torch.from_numpy(getattr(a, name)[:length].copy()) for name, length in lengths.items()}
    return tensors | {"used": torch.from_numpy(a.used.copy()), "base": torch.from_numpy(a.base.copy())}


def unpacked(state: Mapping[str, Tensor], num_levels: int, num_values: int, exact: bool) -> Arrays:
    """Arrays again.

    :raises ValueError: where tensors are missing or do not fit together: compiled code would follow their numbers out
        of the arrays, or in circles.
    """
    names = (*_OF_CONTEXTS, *_OF_DISHES, *_OF_TABLES[1:], "used")
    missing = [name for name in (*names, "base") if name not in state]
    if missing:
        raise ValueError(f"this is not the state of restaurants: it has no {missing[0]!r}")
    arrays = {name: _integers(name, state[name]) for name in (*names, "buckets") if name in state}
    used = arrays.pop("used")
    arrays.setdefault("buckets", np.full(arrays["c"].shape, -1, np.int32))
    if not _fits(used, arrays, num_levels, num_values, exact):
        raise ValueError("the counts of these restaurants do not fit together")
    if not isinstance(state["base"], Tensor):
        raise ValueError(f"'base' of the state of restaurants must be a tensor, not {repr(state['base'])[:80]}")
    base_measure(state["base"], num_values)  # checks; what is kept is the same to the last bit
    base = state["base"].numpy().astype(np.float64)
    X, E = len(arrays["keys"]), len(arrays["c"])
    for total, number in (("customers", "c"), ("tables", "t")):
        arrays[total] = np.bincount(arrays["contexts"], arrays[number], X).astype(np.int32)
    arrays |= {"first": np.full(X, -1, np.int32)}
    arrays |= {name: np.full(E, -1, np.int32) for name in ("following", "ups")}
    return rebuilt(used, base, arrays)


def _integers(name: str, tensor: Any) -> Any:
    """A tensor of a state as an array, int64 or, but for keys and ``used``, int32."""
    wrong = not isinstance(tensor, Tensor) or tensor.is_floating_point() or tensor.is_complex()
    if wrong or tensor.dtype == torch.bool:
        what = tensor.dtype if isinstance(tensor, Tensor) else repr(tensor)[:80]
        raise ValueError(f"{name!r} of the state of restaurants must be a tensor of integers, not {what}")
    wide = tensor.numpy().astype(np.int64)
    narrow = wide if name in ("keys", "used") else wide.astype(np.int32)
    if (narrow != wide).any():
        raise ValueError(f"{name!r} of the state of restaurants must be integers of 32 bits, not {wide.max()}")
    return narrow


def _fits(used: Any, arrays: Mapping[str, Any], num_levels: int, num_values: int, exact: bool) -> bool:
    if used.shape != (5,):
        return False
    X, E, B = (int(n) for n in used[:3])
    shapes = dict.fromkeys(_OF_CONTEXTS, X) | dict.fromkeys((*_OF_DISHES, "buckets"), E)
    shapes |= dict.fromkeys(("sizes", "numbers", "after"), B)
    if any(arrays[name].shape != (length,) for name, length in shapes.items()):
        return False
    ranges = {"levels": num_levels, "contexts": X, "values": num_values}
    if any(((arrays[name] < 0) | (arrays[name] >= most)).any() for name, most in ranges.items()):
        return False
    # A context stands for its key at its level, a dish for its value in its context: hash tables find but the first.
    if _repeats(arrays["levels"], arrays["keys"]) or _repeats(arrays["contexts"], arrays["values"]):
        return False
    levels, parents, c, t = (arrays[name] for name in ("levels", "parents", "c", "t"))
    top = levels == 0
    if (parents >= X).any() or (parents[top] != -1).any() or (parents[~top] < 0).any():
        return False
    # A level less with each step: no circles. Every table of a context is a customer of its reduction.
    if (levels[parents[~top]] != levels[~top] - 1).any() or ((t < 0) | (t > c) | ((c > 0) & (t == 0))).any():
        return False
    return _tables_fit(used, arrays) if exact else B == 0


def _repeats(*columns: Any) -> bool:
    """Whether a row of columns of integers occurs more than once."""
    order = np.lexsort(columns)
    equal = [column[order][1:] == column[order][:-1] for column in columns]
    return bool(np.all(equal, axis=0).any())


def _tables_fit(used: Any, arrays: Mapping[str, Any]) -> bool:
    """Whether the buckets of every dish, a list without circles, hold its c customers at t tables."""
    buckets, sizes, numbers, after = (arrays[name] for name in _OF_TABLES)
    B = len(sizes)
    if any(((x < -1) | (x >= B)).any() for x in (buckets, after)) or not (-1 <= used[FREE] < B):
        return False
    here, left, c, t = buckets.copy(), np.ones(B, bool), arrays["c"].astype(np.int64), arrays["t"].astype(np.int64)
    while (here >= 0).any():  # one bucket of every dish at a time
        inside = here >= 0
        b = here[inside]
        if not left[b].all() or len(np.unique(b)) < len(b) or (sizes[b] < 1).any() or (numbers[b] < 1).any():
            return False
        left[b] = False
        c[inside] -= sizes[b].astype(np.int64) * numbers[b]
        t[inside] -= numbers[b]
        here[inside] = after[b]
    free, b = 0, int(used[FREE])
    while b >= 0 and left[b]:
        left[b] = False
        free, b = free + 1, int(after[b])
    return not c.any() and not t.any() and not left.any() and b < 0 and free == used[NUM_FREE]
