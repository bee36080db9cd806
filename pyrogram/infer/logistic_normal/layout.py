# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""How multinomials and the experts that they are made of lie in the flat arrays of the kernels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from pyrogram.distributions.partition import PartitionStructure
from pyrogram.grammar import PackedBlock
from pyrogram.logistic_normal import experts

Array = Any


@dataclass(frozen=True)
class Family:
    """Where the experts of a family stand among all: ``count`` of one length, each in parts with these lengths."""

    first: int
    count: int
    length: int
    parts: tuple[int, ...]

    @property
    def end(self) -> int:
        """The first expert after the family's."""
        return self.first + self.count * len(self.parts)

    def place(self, expert: Array, coordinate: Array) -> tuple[Array, Array]:
        """The number of the part that has a coordinate of an expert of the family, and which of its own it is."""
        starts = starts_of(self.parts)[:-1]
        part = np.searchsorted(starts, coordinate, side="right") - 1
        return self.first + expert * len(self.parts) + part, coordinate - starts[part]


def pieces_of(structure: PartitionStructure, block: str) -> tuple[int, ...]:
    """How many events each multinomial has that is one row of the block: several of them if it is packed."""
    b = structure.blocks[block]
    return b.sizes if isinstance(b, PackedBlock) else (int(b.shape[-1]),)


def parts_of(structure: PartitionStructure, family: str) -> tuple[int, ...]:
    """The lengths into which independent coordinates fall: what no multinomial crosses. Several segments stay whole."""
    experts_ = structure.experts[family]
    ends = set(range(1, experts_.length + 1)) if len(experts_.segments) == 1 else {experts_.length}
    for block, links in structure.links.items():
        if any(link.experts == family for link in links):
            ends &= {int(end) for end in np.cumsum(pieces_of(structure, block))} | {experts_.length}
    return tuple(int(size) for size in np.diff([0, *sorted(ends)]))


def starts_of(sizes: Any) -> Array:
    """Where each of several runs of numbers begins, and the end."""
    return np.concatenate([[0], np.cumsum(np.asarray(sizes, np.int64))])


def arrange(
    structure: PartitionStructure, rows: Any, families: Mapping[str, Family], num_experts: int, num_groups: int
) -> Any:
    """Rows of multinomials sorted by group, and the experts that they are made of."""
    blocks = list(rows)
    sizes = {b: int(structure.blocks[b].shape[-1]) for b in blocks}
    pieces = {b: np.asarray(pieces_of(structure, b), np.int64) for b in blocks}
    group = np.concatenate([np.repeat(rows[b][0], len(pieces[b])) for b in blocks])
    order = np.argsort(group, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    size = np.concatenate([np.tile(pieces[b], len(rows[b][0])) for b in blocks])[order]
    row_start = starts_of(size)
    offsets = starts_of([len(rows[b][0]) * len(pieces[b]) for b in blocks])
    index: dict[str, Any] = {}
    keys, att_row, att_coord, att_scale = [], [], [], []
    for b, first in zip(blocks, offsets, strict=False):
        groups, multinomials = (np.asarray(a) for a in rows[b])
        row = place[first : first + len(groups) * len(pieces[b])].reshape(len(groups), len(pieces[b]))
        index[b] = None if len(blocks) == 1 else row_start[row[:, 0]][:, None] + np.arange(sizes[b])
        scale = 1 / structure.sizes(b).reshape(-1).to(torch.float64).numpy()
        for link in structure.links[b]:
            expert = link.index.reshape(-1).numpy()[multinomials]
            (chosen,) = (expert >= 0).nonzero()
            start = structure.experts[link.experts].segments[link.segment][0]
            number, coordinate = families[link.experts].place(expert[chosen, None], start + starts_of(pieces[b])[:-1])
            keys.append((groups[chosen, None] * num_experts + number).reshape(-1))
            att_row.append(row[chosen].reshape(-1))
            att_coord.append(np.broadcast_to(coordinate, number.shape).reshape(-1))
            att_scale.append(np.repeat(scale[multinomials[chosen]], len(pieces[b])))
    unique, inverse = np.unique(np.concatenate(keys), return_inverse=True)
    by_expert = np.argsort(inverse, kind="stable")
    expert = unique % num_experts
    lengths = np.concatenate([np.tile(np.asarray(f.parts, np.int64), f.count) for f in families.values()])
    layout = experts.ExpertLayout(
        row_group=group[order],
        row_start=row_start,
        expert_group=unique // num_experts,
        expert=expert,
        expert_start=np.concatenate([[0], np.cumsum(lengths[expert])]),
        group_ptr=np.searchsorted(unique // num_experts, np.arange(num_groups + 1)),
        att_ptr=np.concatenate([[0], np.cumsum(np.bincount(inverse, minlength=len(unique)))]),
        att_row=np.concatenate(att_row)[by_expert],
        att_coord=np.concatenate(att_coord)[by_expert],
        att_scale=np.concatenate(att_scale)[by_expert],
    )
    return layout, index, sizes
