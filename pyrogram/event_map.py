# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Which event of a grammar each element of the tables of a page is; and the numbers that sweeps count by.

The events of a grammar are the elements of its blocks, numbered block after block in C order. A page has tables of its
own: of a hidden Markov model the end is a table, and a column of the block of transitions; of a context-free grammar a
table may have an event twice, and tables by position have those of the lexical rules that match the words of a
sentence. Mixtures are maps, too: an event of the k-th component.

What is counted in sweeps has numbers: the entries of multinomials, then one for each multinomial, then two for what is
no event, see :func:`numbers_of_entries`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from pyrogram.blocks import Block

__all__ = [
    "NEVER",
    "ONE",
    "EventMap",
    "TableEvents",
    "by_block",
    "event_numbers",
    "first_events",
    "joined",
    "multinomials_of",
    "num_events",
    "numbers_of_entries",
    "sums_of_entries",
]

Numbers = Any  # a numpy array of integers

ONE, NEVER = -1, -2  # elements that are no events: of weight one, of weight zero


class TableEvents(NamedTuple):
    """Which events the elements of a table are.

    :param event: from indices into the table, flattened, to events, :data:`ONE` or :data:`NEVER`.
    :param shape: of the table.
    """

    event: Callable[[Numbers], Numbers]
    shape: tuple[int, ...]


@dataclass(frozen=True)
class EventMap:
    """The events that elements of tables are.

    :param blocks: whose elements are the events.
    :param tables: by table of the page the events of its elements, in its shape; or :data:`ONE`, :data:`NEVER`.
    :param few: of tables few of whose elements are events, listed in ``tables`` one after the other, the places of
        elements in this list, -1 for none.
    :param located: of tables by position, which each of B sentences has of its own, the same, shape ``(B, ...)``.
    :param is_same: whether the tables are the blocks, one after the other.
    """

    blocks: Mapping[str, Block]
    tables: Mapping[str, Numbers]
    few: Mapping[str, TableEvents] = field(default_factory=dict)
    located: Mapping[str, Numbers] = field(default_factory=dict)
    is_same: bool = False

    @staticmethod
    def of_blocks(blocks: Mapping[str, Block], few: Mapping[str, TableEvents] | None = None) -> EventMap:
        """That of a page whose tables are the blocks."""
        tables = {}
        for name, first in first_events(blocks).items():
            shape = blocks[name].shape
            tables[name] = np.arange(first, first + shape.numel()).reshape(shape)
        return EventMap(blocks, tables, few or {}, is_same=True)

    def mixed(self, blocks: Mapping[str, Block], share: str, num_symbols: Mapping[str, int]) -> EventMap:
        """That of K components, whose tables have one more axis, the first of their symbols, and of their shares.

        :param blocks: the shares, shape ``(K,)``, then the blocks of each component.
        :param share: the name of the table of shares.
        :param num_symbols: by table how many of its axes, the last ones, are symbols.
        """
        R, K = num_events(self.blocks), next(iter(blocks.values())).shape[0]

        def of_components(name: str, events: Numbers) -> Numbers:
            shifted = [np.where(events < 0, events, K + k * R + events) for k in range(K)]
            return np.stack(shifted, events.ndim - num_symbols[name])

        tables, located = ({n: of_components(n, t) for n, t in x.items()} for x in (self.tables, self.located))
        return EventMap(blocks, {share: np.arange(K), **tables}, located=located)

    # ------------------------------------------------------------------ values of elements

    def _places(self, device: torch.device) -> dict[str, tuple[str, slice | Tensor]]:
        """Of each table the block of its events, and where they are in it.

        Columns of the block, as a slice of its last axis; or indices into all of it and two more numbers, for NEVER and
        for ONE, shape ``(1, E)``, of tables by position ``(B, E)``, as narrow as these.
        """
        if device not in self._places_on:
            places: dict[str, tuple[str, slice | Tensor]] = {}
            for name, events in {**self.tables, **self.located}.items():
                greatest = max(0, int(events.max(initial=0)))
                block, first = [x for x in first_events(self.blocks).items() if x[1] <= greatest][-1]
                shape, inside = tuple(self.blocks[block].shape), np.asarray(events, np.int64) - first
                start, stop = int(inside.flat[0]), int(inside.flat[0]) + (events.shape[-1] if events.ndim else 1)
                listed = 0 if name in self.located else math.prod(shape)
                columns = np.arange(listed).reshape(shape if listed else 0)[..., slice(start, stop)]
                if start >= 0 and columns.shape == events.shape and bool((columns == inside).all()):
                    places[name] = block, slice(start, stop)
                    continue
                index = np.where(events < 0, events + math.prod(shape) + 2, inside)
                with torch.inference_mode(False):  # kept for calls that differentiate
                    rows = index.astype(events.dtype).reshape(len(events) if name in self.located else 1, -1)
                    places[name] = block, torch.from_numpy(rows).to(device)
            self._places_on[device] = places
        return self._places_on[device]

    @cached_property
    def _places_on(self) -> dict[torch.device, dict[str, tuple[str, slice | Tensor]]]:
        return {}

    def gathered(self, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Log weights of elements by table, ``(b, *table.shape)``, of those by position ``(B, ...)``; differentiable.

        The events of a table are those of one block.

        :param values: of events by block, ``(b, *block.shape)``; b is 1, or B.
        """
        tables, flat = {}, dict[str, Tensor]()
        for name, (block, place) in self._places(next(iter(values.values())).device).items():
            w = values[block]
            if isinstance(place, slice):
                tables[name] = w if w.shape[-1] == place.stop - place.start else w[..., place]
                continue
            if block not in flat:  # double, for gradients are large sums
                others = [w.new_full((len(w), 1), x, dtype=torch.float64) for x in (-torch.inf, 0.0)]
                flat[block] = torch.cat([w.double().reshape(len(w), -1), *others], 1)
            if len(w) == 1:
                listed = flat[block][0].index_select(0, place.flatten())
            else:
                listed = flat[block].gather(1, place.long().expand(len(w), -1))
            shape = self.tables[name].shape if name in self.tables else self.located[name].shape[1:]
            tables[name] = listed.to(w.dtype).view(-1, *shape)
        return tables

    def summed(self, counts: Mapping[str, Tensor], rows: int) -> dict[str, Tensor]:
        """The inverse, for counts: ``(b, *block.shape)`` by block, each of which has events in a table; of others 0.

        :param counts: of elements by table, in the shapes that :meth:`gathered` gives.
        :param rows: b, where there are tables by position.
        """
        sums, flat = dict[str, Tensor](), dict[str, Tensor]()
        for name, (block, place) in self._places(next(iter(counts.values())).device).items():
            table, shape = counts[name], self.blocks[block].shape
            if isinstance(place, slice):
                if table.shape[1:] == shape:
                    sums[block] = table
                    continue
                if block not in sums:
                    sums[block] = table.new_zeros(len(table), *shape)
                sums[block][..., place] += table
                continue
            if block not in flat:
                b = rows if name in self.located else len(table)
                flat[block] = table.new_zeros(b, shape.numel() + 2, dtype=torch.float64)
            total = flat[block]
            if len(total) == 1:
                total[0].index_add_(0, place.flatten(), table.double().flatten())
            else:
                total.scatter_add_(1, place.long().expand(len(total), -1), table.double().reshape(len(table), -1))
        for block, total in flat.items():
            listed = total[:, :-2].to(next(iter(counts.values())).dtype).reshape(len(total), *self.blocks[block].shape)
            sums[block] = sums[block] + listed if block in sums else listed
        return {name: sums[name] for name in self.blocks}

    # ------------------------------------------------------------------ numbers of elements

    @cached_property
    def _flat(self) -> Numbers:
        """The event of each element, all tables one after the other."""
        return np.concatenate([np.empty(0, np.int64), *(table.reshape(-1) for table in self.tables.values())])

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
        """By table, the number of its first element, and the strides of its axes; located ones come last."""
        strides, first = {}, 0
        shapes = [(n, t.shape) for n, t in self.tables.items()] + [(n, t.shape[1:]) for n, t in self.located.items()]
        for name, shape in shapes:
            strides[name] = first, *np.empty(shape, np.int8).strides
            first += math.prod(shape)
        return strides

    def to_elements(self, events: Numbers) -> Numbers:
        """Elements that events are, -1 for -1 and for what is no element; the array itself if numbers are the same."""
        return events if self.is_same else np.where(events < 0, -1, self._elements[events])

    def of_elements(self, rows: Numbers, width: int) -> Numbers:
        """Rows of the events that elements are, shape ``(..., B, width)``, padded with -1; what is none is left out.

        :param rows: of numbers of elements of each sentence, ``(..., B, L)``, padded with -1.
        """
        if self.is_same:
            return rows[..., :width]
        E = len(self._flat)
        events = np.append(self._flat, NEVER)[np.where((rows >= 0) & (rows < E), rows, E)]
        if self.located:
            of_sentences = np.concatenate([table.reshape(len(table), -1) for table in self.located.values()], 1)
            sentence = np.arange(len(of_sentences))[:, None]
            events = np.where(rows < E, events, of_sentences[sentence, np.maximum(rows - E, 0)])
        events = np.maximum(events, -1)
        kept = np.take_along_axis(events, np.argsort(events < 0, axis=-1, kind="stable"), -1)[..., :width]
        padded = np.full((*kept.shape[:-1], width), -1)
        padded[..., : kept.shape[-1]] = kept
        return padded

    @property
    def is_one_to_one(self) -> bool:
        """Whether no two elements are the same event, or none."""
        return bool((self._flat >= 0).all()) and len(np.unique(self._flat)) == len(self._flat)

    @property
    def is_injective(self) -> bool:
        """Whether no two elements are the same event."""
        real = self._flat[self._flat != NEVER]
        return bool((real >= 0).all()) and len(np.unique(real)) == len(real)

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


def event_numbers(blocks: Mapping[str, Block], name: str, first: Tensor, *others: Tensor | int) -> Tensor:
    """The numbers of elements of a block, by their indices; where the first one is -1, the number of all events.

    :param first: indices along the first axis of the block; those along the others follow, and all broadcast.
    """
    number = first
    for size, index in zip(blocks[name].shape[1:], others, strict=True):
        number = number * size + index
    return torch.where(first < 0, num_events(blocks), first_events(blocks)[name] + number)


def joined(values: Mapping[str, Tensor], blocks: Mapping[str, Block]) -> Tensor:
    """Values of events by number, ``(*batch, events)``, of values by block, ``(*batch, *block.shape)``."""
    flat = []
    for name, block in blocks.items():
        table = values[name]
        flat.append(table.reshape(*table.shape[: table.dim() - len(block.shape)], block.shape.numel()))
    if len(flat) == 1:
        return flat[0]
    batch = torch.broadcast_tensors(*(table[..., 0] for table in flat))[0].shape
    return torch.cat([table.expand(*batch, table.shape[-1]) for table in flat], -1)


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
