# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Checks of what users give, before compiled code reads it: compiled code looks at no bounds."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pyrogram.operators import captured
from pyrogram.printable import plural
from pyrogram.recursion.run.on_tensors import fits_compiled

__all__ = [
    "TooLongError",
    "broadcast",
    "broadcast_shapes",
    "check_shape",
    "check_size",
    "check_tensors",
    "checked_words",
    "fits_compiled",
    "keep_nan",
    "lengths_of_checked",
    "too_long",
]


def check_size(name: str, value: Any, least: int = 1) -> int:
    """A size as an integer.

    :raises TypeError: if it is no integer.
    :raises ValueError: if it is below ``least``.
    """
    try:
        size = operator.index(value)
    except TypeError:
        size = None
    if size is None or isinstance(value, bool):
        raise TypeError(f"{name} must be an integer, not {value!r}")
    if size < least:
        raise ValueError(f"{name} must be at least {least}, not {size}")
    return size


def check_tensors(needed: Mapping[str, Any], **optional: Any) -> None:
    """
    :param optional: what may be None instead.
    :raises TypeError: with the first that is no tensor.
    """
    for name, x in (*needed.items(), *optional.items()):
        if not (isinstance(x, Tensor) or (x is None and name in optional)):
            raise TypeError(f"{name} must be a tensor, not {x!r}")


def broadcast_shapes(*shapes: tuple[int, ...]) -> torch.Size:
    """The shape to which tensors of these shapes broadcast: torch's own function imports sympy, which takes a second.

    :raises RuntimeError: if shapes do not broadcast.
    """
    total = [1] * max([0, *map(len, shapes)])
    for shape in shapes:
        for place, size in enumerate(shape, len(total) - len(shape)):
            if size != 1 and total[place] == 1:
                total[place] = size
            elif size not in (1, total[place]):
                shown = " and ".join(str(tuple(shape)) for shape in shapes)
                raise RuntimeError(f"shapes must broadcast, not be {shown}")
    return torch.Size(total)


def broadcast(*shapes: tuple[int, ...]) -> torch.Size:
    """:func:`broadcast_shapes` of scores and lengths, of which mostly all are equal.

    :param shapes: of tensors, which are plain tuples where Pyro follows their provenance.
    :raises ValueError: if they do not broadcast.
    """
    try:
        return broadcast_shapes(*{tuple(shape): None for shape in shapes})
    except RuntimeError:
        shown = " and ".join(str(tuple(s)) for s in shapes)
        raise ValueError(f"batches of scores and of lengths must broadcast, not have shapes {shown}") from None


def lengths_of_checked(words: Tensor) -> Tensor:
    """Numbers of words, shape ``(B,)``, of sentences ``(B, n)`` that have been checked."""
    if words.is_cpu:  # for few numbers, numpy is quicker, and sums of long rows are
        return torch.from_numpy(np.greater_equal(words.numpy().T, 0, order="C").sum(0))
    return (words >= 0).sum(-1)


class TooLongError(ValueError):
    """A sentence that was drawn has more words than it may have."""


def too_long(tries: int, longest: int, whole: str = "sentence", part: str = "word") -> TooLongError:
    """What says that so many sentences, say, in a row had too many words."""
    return TooLongError(
        f"{plural(tries, f'sampled {whole}')} in a row had more than {plural(longest, part)}; raise max_length, "
        f"take weights that end a {whole} sooner, or say too_long='truncate'"
    )


def check_shape(name: str, value: Any) -> torch.Size:
    """A shape, such as the ``sample_shape`` of draws.

    :raises TypeError: if it is no sequence of integers.
    :raises ValueError: if one of them is negative.
    """
    if isinstance(value, str) or not hasattr(value, "__iter__"):
        raise TypeError(f"{name} must be a sequence of integers, such as (10,), not {value!r}")
    return torch.Size([check_size(f"every number of {name}", size, 0) for size in value])


def checked_words(words: Any, num_words: int) -> Tensor:
    """Words as int64.

    :param words: shape ``(*batch, n)``, at least one word in 0 .. num_words - 1 and then padding, -1; floats with
        integral values will do. What torch traces is not looked at.
    :raises TypeError: if they are no tensor.
    :raises ValueError: with the first sentence that is not words and then padding.
    """
    if not isinstance(words, Tensor):
        raise TypeError(f"words must be a tensor, not {_short(repr(words))}")
    if words.dim() < 1 or words.shape[-1] == 0:
        raise ValueError(f"words must have shape (..., n) with n >= 1, not {tuple(words.shape)}")
    if words.is_complex() or words.dtype == torch.bool:
        raise ValueError(f"words must be integers, the numbers of words, not {words.dtype}")
    if captured():  # the operator looks at them when it is run
        return words.long()
    if words.dtype == torch.int64 and words.is_cpu and _are_words(words.numpy(), num_words):
        return words
    plain = words.detach().double() if words.is_floating_point() else words.detach().long()
    if not words.is_cpu and _are_words_there(plain, num_words):
        return words.long()
    array = plain.cpu().numpy().reshape(-1, words.shape[-1])
    real = array >= 0
    # Written so that NaN fails.
    fits = (array >= -1) & (array < num_words)
    if words.is_floating_point():
        fits &= array % 1 == 0
    good = fits.all(-1) & real[:, 0] & (real[:, :-1] >= real[:, 1:]).all(-1)
    if not good.all():
        first = int(good.argmin())
        raise ValueError(
            f"words must be one or more of 0..{num_words - 1} and then padding of -1, "
            f"but sentence {first} is {_short(str(array[first].tolist()))}"
        )
    return words.long()


def _are_words(array: Any, num_words: int) -> bool:
    if array.view(np.uint64).max(initial=0) < num_words:  # -1 would be the greatest number: there is no padding
        return True
    real, fits = array >= 0, array.min(initial=0) >= -1 and array.max(initial=0) < num_words
    return bool(fits and real[..., 0].all() and not (real[..., 1:] > real[..., :-1]).any())


def _are_words_there(words: Tensor, num_words: int) -> bool:
    """On their device, which is waited for once."""
    real = words >= 0
    fits = (words >= -1) & (words < num_words) & (words == words.trunc())
    return bool(fits.all() & real[..., 0].all() & (real[..., :-1] | ~real[..., 1:]).all())


def keep_nan(log_z: Tensor, *tables: tuple[Tensor, int]) -> Tensor:
    """log Z, but NaN where a log weight of the grammar is: charts drop NaN where they look for the greatest of terms.

    :param log_z: shape ``(B,)``.
    :param tables: log weights, shape ``(1 or B, ...)``, and how many dimensions the events have.
    """
    for table, event_dim in tables:
        table = table.detach()
        if fits_compiled(table) and not math.isnan(table.numpy().max(initial=-np.inf)):  # for few, numpy is quicker
            continue
        spoilt = table.isnan().flatten(table.dim() - event_dim).any(-1)
        if not table.is_cpu or bool(spoilt.any()):
            log_z = log_z + torch.where(spoilt, torch.nan, 0.0).to(log_z.dtype)
    return log_z


def _short(text: str) -> str:
    """What of a value goes into a message."""
    return text if len(text) <= 200 else f"{text[:200]} ..."
