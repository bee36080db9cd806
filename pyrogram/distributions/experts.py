# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Families of normal experts, and the links from their segments to multinomials (Cohen and Smith 2009, section 3.2)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Experts:
    """A family of experts of one length, which together are one Gaussian site.

    :param shape: ``(*batch, length)``; ``batch`` indexes the experts.
    :param segments: ``(start, stop)`` of each segment, in order, a partition of 0 .. length; one segment by default.
    :raises ValueError: if the segments are no partition.
    """

    shape: torch.Size
    segments: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        shape = torch.Size(self.shape)
        if not shape or shape.numel() == 0:
            raise ValueError(f"experts must have shape (*batch, length) without zeros, not {tuple(shape)}")
        segments = tuple((int(a), int(b)) for a, b in self.segments) or ((0, shape[-1]),)
        ends = [0, *(stop for _, stop in segments)]
        if [start for start, _ in segments] != ends[:-1] or ends[-1] != shape[-1] or any(a >= b for a, b in segments):
            raise ValueError(f"segments must partition 0..{shape[-1]} in order, not {segments}")
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "segments", segments)

    @property
    def count(self) -> int:
        """Number of experts."""
        return self.shape[:-1].numel()

    @property
    def length(self) -> int:
        """Number of coordinates of each expert."""
        return self.shape[-1]


@dataclass(frozen=True, eq=False)
class Link:
    """One segment of the experts of a family takes part in multinomials of a block.

    :param experts: name of the family.
    :param index: for each multinomial of the block the flat index of the expert in its family, -1 for none; whole
        numbers, shape ``block.shape[:-1]``.
    :param segment: number of the segment.
    """

    experts: str
    index: Tensor
    segment: int = 0
