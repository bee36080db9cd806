# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sentences of different lengths in one tensor: rows padded with -1, and which rows an index means."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from pyrogram.data.strings import Ints
from pyrogram.printable import plural


def pad(flat: Sequence[int] | Ints, lengths: Tensor) -> Tensor:
    """Integers of all sentences, one after the other, as rows padded with -1."""
    padded = torch.full((len(lengths), int(lengths.max()) if len(lengths) else 0), -1)
    values = torch.from_numpy(np.asarray(flat, dtype=np.int64))
    padded[torch.arange(padded.shape[1]) < lengths[:, None]] = values
    return padded


def positions(index: int | slice | Sequence[int] | Sequence[bool] | Tensor, size: int) -> Tensor:
    """The positions that an index means, as a tensor of integers; negative ones count from the end."""
    if isinstance(index, slice):
        return torch.tensor(range(*index.indices(size)), dtype=torch.long)
    chosen = torch.as_tensor(index).detach().cpu().reshape(-1)
    if chosen.numel() == 0 and not isinstance(index, Tensor):
        return chosen.long()
    if chosen.dtype == torch.bool:
        if len(chosen) != size:
            raise IndexError(f"expected a mask of {plural(size, 'sentence')}, actual {len(chosen)}.")
        return chosen.nonzero().reshape(-1)
    if chosen.is_floating_point() or chosen.is_complex():
        raise TypeError(f"expected integers or a mask as index, actual {chosen.dtype}.")
    for i in chosen.tolist():
        if not -size <= i < size:
            raise IndexError(f"expected an index of {plural(size, 'sentence')}, actual {i}.")
    return chosen.long()
