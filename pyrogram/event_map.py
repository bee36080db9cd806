# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Which event of a grammar each element of the tables of a page is; and the numbers that sweeps count by.

The events of a grammar are the elements of its blocks, numbered block after block in C order. A page has tables of its
own: of a hidden Markov model the end is a table, and a column of the block of transitions; of a grammar as a list of
rules, a table may have an event twice. Mixtures are maps, too: an event of the k-th component.

What is counted in sweeps has numbers: the entries of multinomials, then one for each multinomial, then two for what is
no event, see :func:`numbers_of_entries`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pyrogram.blocks import Block
from pyrogram.charts.checks import broadcast_shapes
from pyrogram.sweeps.events import NEVER, ONE, TableEvents

__all__ = [
    "NEVER",
    "ONE",
    "EventMap",
    "by_block",
    "first_events",
    "joined",
    "multinomials_of",
    "num_events",
    "numbers_of_entries",
    "sums_of_entries",
]

Numbers = Any  # a numpy array of integers


@dataclass(frozen=True)
class EventMap:
    """The events that elements of tables are.

    :param blocks: whose elements are the events.
    :param tables: by table of the page the events of its elements, in its shape; or :data:`ONE`, :data:`NEVER`.
    :param few: of tables few of whose elements are events, listed in ``tables`` one after the other, the places of
        elements in this list, -1 for none.
    :param is_same: whether the tables are the blocks, one after the other.
    """

    blocks: Mapping[str, Block]
    tables: Mapping[str, Numbers]
    few: Mapping[str, TableEvents] = field(default_factory=dict)
    is_same: bool = False

    @staticmethod
    def of_blocks(blocks: Mapping[str, Block], few: Mapping[str, TableEvents] | None = None) -> EventMap:
        """That of a page whose tables are the blocks."""
        tables = {}
        for name, first in first_events(blocks).items():
            shape = blocks[name].shape
            tables[name] = np.arange(first, first + shape.numel()).reshape(shape)
        return EventMap(blocks, tables, few or {}, is_same=True)

    def mixed(self, blocks: Mapping[str, Block], share: str, num_components: int) -> EventMap:
        """That of K components, whose tables have one more axis, the first, and of their shares.

        :param blocks: the shares, then the blocks of each component.
        :param share: the name of the table of shares.
        """
        tables = {name: self.of_components(table, num_components) for name, table in self.tables.items()}
        return EventMap(blocks, {share: np.arange(num_components), **tables})

    def of_components(self, events: Numbers, num_components: int, axis: int = 0) -> Numbers:
        """The events of K components that some events are; what is none stays so.

        :param axis: where the axis of components is.
        """
        R, K = num_events(self.blocks), num_components
        return np.stack([np.where(events < 0, events, K + k * R + events) for k in range(K)], axis)

    # ------------------------------------------------------------------ values of elements

    @cached_property
    def _places(self) -> dict[str, tuple[str, slice | Tensor]]:
        """Of tables all of whose elements are events of one block: the block, and where they are in it.

        Columns of the block, as a slice of its last axis; or indices into all of it.
        """
        places: dict[str, tuple[str, slice | Tensor]] = {}
        for name, table in self.tables.items():
            block = [n for n, first in first_events(self.blocks).items() if first <= int(table.min())][-1]
            inside = np.asarray(table - first_events(self.blocks)[block])
            shape, start = tuple(self.blocks[block].shape), int(inside.flat[0])
            end = start + (table.shape[-1] if table.ndim else 1)
            columns = np.arange(math.prod(shape)).reshape(shape)[..., start:end]
            is_slice = columns.shape == table.shape and bool((columns == inside).all())
            with torch.inference_mode(False):  # kept for calls that differentiate
                places[name] = block, slice(start, end) if is_slice else torch.from_numpy(inside)
        return places

    def gathered(self, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Values of the elements of each table, ``(*batch, *table.shape)``, each of which is an event; differentiable.

        :param values: of events by block, ``(*batch, *block.shape)``.
        """
        tables = {}
        for name, (block, place) in self._places.items():
            table, dims = values[block], len(self.blocks[block].shape)
            if isinstance(place, slice):
                tables[name] = table if place == slice(0, table.shape[-1]) else table[..., place]
            else:
                flat = table.reshape(*table.shape[: table.dim() - dims], -1)
                index = place.to(flat.device).reshape(-1)
                tables[name] = flat.index_select(-1, index).reshape(*flat.shape[:-1], *place.shape)
        return tables

    def summed(self, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The inverse, for counts: ``(*batch, *block.shape)`` by block; of events that are in no table, 0."""
        sums = {}
        for name, block in self.blocks.items():
            places = {table: place for table, (other, place) in self._places.items() if other == name}
            first = next(iter(places))
            batch = values[first].shape[: values[first].dim() - self.tables[first].ndim]
            if len(places) == 1 and isinstance(places[first], slice) and self.tables[first].shape == block.shape:
                sums[name] = values[first]
                continue
            sums[name] = values[first].new_zeros(*batch, *block.shape)
            for table, place in places.items():
                if isinstance(place, slice):
                    sums[name][..., place].add_(values[table])
                else:
                    index = place.to(values[first].device).reshape(-1)
                    sums[name].flatten(len(batch)).index_add_(-1, index, values[table].reshape(*batch, index.numel()))
        return sums

    # ------------------------------------------------------------------ numbers of elements

    @cached_property
    def _flat(self) -> Numbers:
        """The event of each element, all tables one after the other."""
        return np.concatenate([table.reshape(-1) for table in self.tables.values()])

    @cached_property
    def _elements(self) -> Numbers:
        """An element that each event is, of all tables; an event that is in none of them has -1."""
        elements = np.full(num_events(self.blocks), -1)
        real = (self._flat >= 0).nonzero()[0][::-1]
        elements[self._flat[real]] = real
        return elements

    def element(self, event: int) -> tuple[str, tuple[int, ...]]:
        """The table and the index of the element that an event is; ``("", ())`` of an event that is none."""
        place = int(self._elements[event]) if 0 <= event < len(self._elements) else -1
        for name, table in self.tables.items():
            if 0 <= place < table.size:
                return name, tuple(int(x) for x in np.unravel_index(place, table.shape))
            place -= table.size
        return "", ()

    @property
    def strides(self) -> dict[str, tuple[int, ...]]:
        """By table, the number of its first element, and the strides of its axes."""
        strides, first = {}, 0
        for name, table in self.tables.items():
            strides[name] = first, *np.empty(table.shape, np.int8).strides
            first += table.size
        return strides

    def to_elements(self, events: Numbers) -> Numbers:
        """Elements that events are, -1 for -1 and for what is no element; the array itself if numbers are the same."""
        return events if self.is_same else np.where(events < 0, -1, self._elements[events])

    def of_elements(self, rows: Numbers) -> Numbers:
        """The events that elements are, -1 for -1 and for what is no event."""
        return rows if self.is_same else np.where(rows < 0, -1, np.maximum(self._flat[rows], -1))

    @property
    def is_one_to_one(self) -> bool:
        """Whether no two elements are the same event, or none."""
        return bool((self._flat >= 0).all()) and len(np.unique(self._flat)) == len(self._flat)

    @property
    def lookups(self) -> dict[str, TableEvents]:
        """By table, the events of elements, as sweeps look them up."""

        def lookup(name: str) -> TableEvents:
            listed, few = self.tables[name].reshape(-1), self.few.get(name)
            if few is None:
                return TableEvents(listed.__getitem__, self.tables[name].shape)

            def event(index: Numbers) -> Numbers:
                places = few.event(index)
                return np.where(places < 0, NEVER, listed[places])

            return TableEvents(event, few.shape)

        return {name: lookup(name) for name in self.tables}


# ---------------------------------------------------------------------- numbers of events


def first_events(blocks: Mapping[str, Block]) -> dict[str, int]:
    """The number of the first event of each block."""
    firsts, first = {}, 0
    for name, block in blocks.items():
        firsts[name] = first
        first += block.shape.numel()
    return firsts


def num_events(blocks: Mapping[str, Block]) -> int:
    """Of all blocks."""
    return sum(block.shape.numel() for block in blocks.values())


def joined(values: Mapping[str, Tensor], blocks: Mapping[str, Block]) -> Tensor:
    """Values of events by number, ``(*batch, events)``, of values by block, ``(*batch, *block.shape)``."""
    batches = [values[name].shape[: values[name].dim() - len(block.shape)] for name, block in blocks.items()]
    batch = broadcast_shapes(*batches)
    sizes = [block.shape.numel() for block in blocks.values()]
    flat = [values[n].reshape(*s, R).expand(*batch, R) for n, s, R in zip(blocks, batches, sizes, strict=True)]
    return torch.cat(flat, -1)


def by_block(flat: Tensor, blocks: Mapping[str, Block]) -> dict[str, Tensor]:
    """Values by block, views, of values of events by number, ``(*batch, events or more)``."""
    tables = {}
    for name, first in first_events(blocks).items():
        shape = blocks[name].shape
        tables[name] = flat[..., first : first + shape.numel()].unflatten(-1, shape)
    return tables


def sums_of_entries(
    counts: Mapping[str, Tensor], sources: Mapping[str, Block], entries: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Counts of events, ``(*batch, *block.shape)`` by block, summed over those of each entry, by source.

    :param entries: by block, the entry of each event: an index into all sources, flattened and one after the other.
    """
    total: Tensor | None = None
    for name, entry in entries.items():
        table = counts[name]
        batch = table.shape[: table.dim() - entry.dim()]
        if total is None:
            total = table.new_zeros(*batch, num_events(sources))
        total = total.index_add(-1, entry.to(table.device).flatten(), table.reshape(*batch, -1))
    assert total is not None
    return by_block(total, sources)


def numbers_of_entries(blocks: Mapping[str, Block], entries: Numbers | None) -> tuple[Numbers, Numbers]:
    """What is counted of events, as :class:`.Corpus` has it: the numbers of their entries, and of multinomials.

    :param blocks: whose elements are the entries.
    :param entries: the entry that each event is; None: events are entries.
    :raises ValueError: if there are more numbers than 32 bits can count.
    """
    sums = multinomials_of(blocks).numpy()
    padding = len(sums) + int(sums.max()) + 1
    if padding + 2 >= 2**31:
        raise ValueError(f"a grammar of {len(sums)} events is too large for sweeps: at most 2**31")
    events = np.arange(len(sums)) if entries is None else entries
    multinomials = np.full(padding + 2, padding, np.int32)
    multinomials[: len(sums)] = len(sums) + sums
    return np.append(events, [padding + 1, padding]).astype(np.int32), multinomials


def multinomials_of(blocks: Mapping[str, Block]) -> Tensor:
    """The number of the multinomial of each event, of all blocks one after the other."""
    numbers, first = [], 0
    for block in blocks.values():
        sums = block.sums(torch.zeros(block.shape))
        owner = block.broadcast(torch.arange(sums.numel()).reshape(sums.shape)).expand(block.shape)
        numbers.append(first + owner.reshape(-1))
        first = int(numbers[-1].max()) + 1
    return torch.cat(numbers)
