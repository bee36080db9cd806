# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Observations seated for a trial, and taken back so that every table is as it was before.

With minimal and maximal paths, unseating undoes seating. With exact seats, the table an observation came to is *noted*:
for each level the number of customers at its table, itself included, or 0 where it did not come; so it can be taken
from a table of that size, or be put back at one. Tables of one size (of one value in one context) are exchangeable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pyrogram.restaurants.checks import parameters
from pyrogram.restaurants.restaurants import PATHS, Restaurants
from pyrogram.restaurants.seats import DONE, EXACT, probability, seat, unseat
from pyrogram.restaurants.tables import (
    BUCKETS,
    DISHES,
    NUM_FREE,
    Arrays,
    add_dish,
    find_dish,
    join_table,
    leave_table,
    open_table,
)
from pyrogram.runtime.arrays import Array
from pyrogram.runtime.compiling import borrowing, kernel
from pyrogram.runtime.random_numbers import uniform


@borrowing
def _size_at(a: Arrays, d: int, discount: float, r: float) -> float:
    """The size of the table of a dish at r, as join_table and leave_table find it."""
    b = a.buckets[d]
    while True:
        r -= a.numbers[b] * (a.sizes[b] - discount)
        if r < 0 or a.after[b] < 0:
            return a.sizes[b]
        b = a.after[b]


@borrowing
def _before(a: Arrays, d: int, size: int) -> float:
    """A number at which a table of this size is found when tables weigh their sizes; there must be one."""
    r, b = 0.5, a.buckets[d]
    while a.sizes[b] != size:
        r += a.numbers[b] * a.sizes[b]
        b = a.after[b]
    return r


@borrowing
def _come(a: Arrays, h: int, d: int, new: bool) -> None:
    """Count a customer, and if need be a table."""
    a.c[d] += 1
    a.customers[h] += 1
    if new:
        a.t[d] += 1
        a.tables[h] += 1


@borrowing
def seat_noting(a: Arrays, h: int, w: int, concentration: Array, discount: Array, state: Array, notes: Array) -> float:
    """Seat one observation exactly and note where; returns P(w | h) from before."""
    p = probability(a, h, w, concentration, discount)
    for l in range(len(notes)):
        notes[l] = 0
    while h >= 0:
        l = a.levels[h]
        d = find_dish(a, h, w)
        if d < 0:
            d = add_dish(a, h, w)
        new = a.c[d] == 0
        if not new:
            old = a.c[d] - discount[l] * a.t[d]
            above = probability(a, a.parents[h], w, concentration, discount)
            r = uniform(state) * (old + (concentration[l] + discount[l] * a.tables[h]) * above)
            new = r >= old
            if not new:
                notes[l] = _size_at(a, d, discount[l], r) + 1
                join_table(a, d, discount[l], r)
        if new:
            notes[l] = 1
            open_table(a, d)
        _come(a, h, d, new)
        if not new:
            break
        h = a.parents[h]
    return p


@borrowing
def leave(a: Arrays, h: int, w: int, notes: Array, draw: bool, state: Array) -> None:
    """Unseat one observation: as noted, or with ``draw`` from a table in proportion to its size, which is noted."""
    if draw:
        for l in range(len(notes)):
            notes[l] = 0
    while h >= 0:
        l = a.levels[h]
        d = find_dish(a, h, w)
        if draw:
            r = uniform(state) * a.c[d]
            notes[l] = _size_at(a, d, 0.0, r)
        else:
            r = _before(a, d, notes[l])
        gone = leave_table(a, d, r)
        a.c[d] -= 1
        a.customers[h] -= 1
        if not gone:
            break
        a.t[d] -= 1
        a.tables[h] -= 1
        h = a.parents[h]


@borrowing
def put_back(a: Arrays, h: int, w: int, notes: Array) -> None:
    """Seat one observation as noted."""
    while h >= 0:
        l = a.levels[h]
        d = find_dish(a, h, w)
        if d < 0:
            d = add_dish(a, h, w)
        new = notes[l] == 1
        if new:
            open_table(a, d)
        else:
            join_table(a, d, 0.0, _before(a, d, notes[l] - 1))
        _come(a, h, d, new)
        if not new:
            break
        h = a.parents[h]


@borrowing
def has_room_for(a: Arrays, levels: int, observations: int) -> bool:
    """Whether so many observations can be seated, each perhaps at a new table of every level."""
    buckets = len(a.sizes) - a.used[BUCKETS] + a.used[NUM_FREE]
    return a.used[DISHES] + levels * observations <= len(a.c) and buckets >= 2 * levels * observations


@kernel
def weigh(
    a: Arrays,
    contexts: Array,
    values: Array,
    starts: Array,
    concentration: Array,
    discount: Array,
    paths: int,
    state: Array,
    first: int,
    total: Array,
) -> int:
    """Seat the observations of each group, add up their log probabilities, and take them back, group after group.

    :param starts: where groups begin, (G + 1,).
    :param total: (G,), which is added to.
    :returns: the group at which there was no room, or DONE.
    """
    L = len(concentration)
    chain, above = np.zeros((2, L), np.int32), np.zeros(L)
    longest = 0
    for g in range(first, len(starts) - 1):
        longest = max(longest, starts[g + 1] - starts[g])
    notes = np.zeros((longest, L), np.int32)
    for g in range(first, len(starts) - 1):
        begin, end = starts[g], starts[g + 1]
        if not has_room_for(a, L, end - begin):
            return g
        log_p = 0.0
        for i in range(begin, end):
            if paths == EXACT:
                p = seat_noting(a, contexts[i], values[i], concentration, discount, state, notes[i - begin])
            else:
                p = seat(a, contexts[i], values[i], concentration, discount, paths, chain, above, state)
            log_p += np.log(p)
        for i in range(end - 1, begin - 1, -1):
            if paths == EXACT:
                leave(a, contexts[i], values[i], notes[i - begin], False, state)
            else:
                unseat(a, contexts[i], values[i], paths, state)
        total[g] += log_p
    return DONE


@kernel
def _seat_all(
    a: Arrays, contexts: Array, values: Array, concentration: Array, discount: Array, state: Array, notes: Array
) -> float:
    log_p = 0.0
    for i in range(len(contexts)):
        log_p += np.log(seat_noting(a, contexts[i], values[i], concentration, discount, state, notes[i]))
    return log_p


@kernel
def _unseat_all(
    a: Arrays,
    contexts: Array,
    values: Array,
    concentration: Array,
    discount: Array,
    state: Array,
    notes: Array,
    draw: bool,
) -> float:
    log_p = 0.0
    for i in range(len(contexts) - 1, -1, -1):
        leave(a, contexts[i], values[i], notes[i], draw, state)
        log_p += np.log(probability(a, contexts[i], values[i], concentration, discount))
    return log_p


@kernel
def _return_all(a: Arrays, contexts: Array, values: Array, notes: Array) -> None:
    for i in range(len(contexts)):
        put_back(a, contexts[i], values[i], notes[i])


# ---------------------------------------------------------------------- of restaurants


class TrialSeating:
    """Trial observations at restaurants, which are as before when it is over but for room that was made.

    :param restaurants: their arrays grow; a table's customers, and their probabilities, stay as they are.
    :param concentration: α of each level, shape (L,), and ``discount`` ε.
    """

    def __init__(self, restaurants: Restaurants, concentration: Tensor, discount: Tensor) -> None:
        self.restaurants = restaurants
        self._concentration, self._discount = parameters(concentration, discount, restaurants.num_levels)
        self._paths = PATHS.index(restaurants.paths)

    def weigh(
        self, keys: Sequence[Tensor], values: Tensor, starts: Tensor, generator: torch.Generator | None = None
    ) -> Tensor:
        """The log probability of each of G groups of observations, one after the other, each group for itself.

        With exact seats, these are drawn, and the probabilities are those along the seats: their mean over draws is the
        probability of the group given all seats that there are.

        :param keys: of all observations, L tensors (M,), coarsest first; ``values`` (M,).
        :param starts: where the groups begin, (G + 1,), the last of which is M.
        :returns: in nats, (G,), float64.
        :raises ValueError: if ``starts`` do not ascend from 0 to M.
        """
        contexts, what = self.restaurants.prepared(keys, values)
        fits = starts.dtype == torch.int64 and starts.dim() == 1 and len(starts) > 0
        if not fits or starts[0] != 0 or starts[-1] != len(what) or bool((starts.diff() < 0).any()):
            raise ValueError(f"starts must be int64 and ascend from 0 to the number of observations, {len(what)}")
        begins, total = starts.numpy(), np.zeros(len(starts) - 1)
        longest = int(starts.diff().max()) if len(total) else 0
        state, at = self.restaurants.stream(generator), 0
        while at != DONE:
            arrays = self.restaurants.with_room(longest)
            at = weigh(
                arrays, contexts, what, begins, self._concentration, self._discount, self._paths, state, at, total
            )
        return torch.from_numpy(total)

    def unseat_drawn(
        self, keys: Sequence[Tensor], values: Tensor, generator: torch.Generator | None = None
    ) -> tuple[float, Any]:
        """Unseat observations, from tables drawn in proportion to their sizes; ``exact`` only.

        :returns: their log probability one after the other, given what stays, and notes for :meth:`undo_unseat`.
        :raises ValueError: if they are not there; then all stay.
        """
        contexts, what = self.restaurants.prepared(keys, values, present=True)
        notes = np.zeros((len(what), self.restaurants.num_levels), np.int32)
        return self._unseat(contexts, what, notes, True, self.restaurants.stream(generator)), notes

    def undo_seat(self, keys: Sequence[Tensor], values: Tensor, notes: Any) -> None:
        """Unseat observations that :meth:`seat` has seated last."""
        contexts, what = self.restaurants.prepared(keys, values, present=True)
        self._check_notes(notes, what)
        self._unseat(contexts, what, notes, False, np.zeros(1, np.uint64))

    def seat(
        self, keys: Sequence[Tensor], values: Tensor, generator: torch.Generator | None = None
    ) -> tuple[float, Any]:
        """Seat observations; returns their log probability one after the other, and notes for :meth:`undo_seat`."""
        contexts, what = self.restaurants.prepared(keys, values)
        notes = np.zeros((len(what), self.restaurants.num_levels), np.int32)
        arrays, state = self.restaurants.with_room(len(what)), self.restaurants.stream(generator)
        log_p = float(_seat_all(arrays, contexts, what, self._concentration, self._discount, state, notes))
        return log_p, notes

    def undo_unseat(self, keys: Sequence[Tensor], values: Tensor, notes: Any) -> None:
        """Seat observations where :meth:`unseat_drawn` found them."""
        contexts, what = self.restaurants.prepared(keys, values)
        self._check_notes(notes, what)
        _return_all(self.restaurants.with_room(len(what)), contexts, what, notes)

    def _check_notes(self, notes: Any, values: Any) -> None:
        shape = (len(values), self.restaurants.num_levels)
        if len(values) and (notes.shape != shape or notes.dtype != np.int32):
            raise ValueError(f"notes must be those of the same observations, int32 of shape {shape}, not {notes.shape}")

    def _unseat(self, contexts: Any, values: Any, notes: Any, draw: bool, state: Any) -> float:
        arrays = self.restaurants.with_room(len(values))
        return float(_unseat_all(arrays, contexts, values, self._concentration, self._discount, state, notes, draw))
