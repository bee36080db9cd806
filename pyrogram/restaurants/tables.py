# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The arrays behind the restaurants of a hierarchical Pitman-Yor process: contexts, dishes and tables.

A context h of level l is found by (l, key), and knows its reduction rho(h), the number C of its observations
(customers) and the number T of its internal draws (tables). A *dish* is a value w in a context, with c and t. The
tables of a dish are kept by their size, in a list of *buckets* (size, how many tables have it): tables of one size are
exchangeable, so nothing else matters, and a dish with c customers has at most about sqrt(2 c) buckets (Blunsom, Cohn,
Goldwater and Johnson 2009). The largest come first, for most customers sit there. Only exact seating has buckets.

Contexts and dishes lie in arrays in the order in which they were first seen, and are found by hash tables with open
addressing. Compiled code never allocates: it stops where the arrays are full, and :func:`grown` gives larger ones.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pyrogram.runtime.compiling import borrowing, kernel

CONTEXTS, DISHES, BUCKETS, FREE, NUM_FREE = range(5)  # what ``Arrays.used`` counts
LEAST = 16  # capacity


class Arrays(NamedTuple):
    """All levels together; capacities are the arrays' lengths, and ``used`` says how much of them there is."""

    used: Any  # (5,) int64: contexts, dishes, buckets; the first bucket that is free again, or -1; and how many are
    context_slots: Any  # hash table, -1 for empty, int32 like all that follow, but for the keys and the base
    keys: Any  # (contexts,) int64
    levels: Any
    parents: Any  # -1 at level 0
    customers: Any  # C
    tables: Any  # T
    first: Any  # dish, or -1
    dish_slots: Any
    contexts: Any  # (dishes,)
    values: Any
    c: Any
    t: Any
    ups: Any  # the same value in the context's reduction, or -1 if that was not there yet when it was last looked for
    following: Any  # the context's next dish, or -1
    buckets: Any  # the dish's first, or -1
    sizes: Any  # (buckets,)
    numbers: Any
    after: Any  # the dish's next bucket; of a free one, the next that is free
    base: Any  # (V,) float64, probabilities


_OF_CONTEXTS = ("keys", "levels", "parents", "customers", "tables", "first")
_OF_DISHES = ("contexts", "values", "c", "t", "ups", "following", "buckets")
_OF_BUCKETS = ("sizes", "numbers", "after")


def empty(base: Any) -> Arrays:
    """No context at all.

    :param base: probabilities above level 0, shape ``(V,)``, float64.
    """
    slots = np.full(2 * LEAST, -1, np.int32)
    arrays = {name: np.zeros(LEAST, np.int32) for name in (*_OF_CONTEXTS, *_OF_DISHES, *_OF_BUCKETS)}
    arrays["keys"] = np.zeros(LEAST, np.int64)
    used = np.array([0, 0, 0, -1, 0], np.int64)
    return Arrays(used=used, context_slots=slots, dish_slots=slots.copy(), base=base, **arrays)


def copied(a: Arrays) -> Arrays:
    """The same in other memory."""
    return Arrays._make(array.copy() for array in a)


def grown(a: Arrays, contexts: int, dishes: int, buckets: int) -> Arrays:
    """Arrays with room for so many more of each; what has room already is shared with the old ones."""
    new = a._asdict()
    room = {"contexts": contexts, "dishes": dishes, "buckets": buckets}
    names = {"contexts": _OF_CONTEXTS, "dishes": _OF_DISHES, "buckets": _OF_BUCKETS}
    for i, kind in enumerate(names):
        old = len(new[names[kind][0]])
        free = old - int(a.used[i]) + (int(a.used[NUM_FREE]) if kind == "buckets" else 0)
        if free >= room[kind]:
            continue
        capacity = max(2 * old, old - free + room[kind])
        if capacity >= 2**30:
            raise MemoryError(f"restaurants hold at most 2**30 {kind}")
        for name in names[kind]:
            larger = np.zeros(capacity, new[name].dtype)
            larger[:old] = new[name]
            new[name] = larger
        if kind != "buckets":
            new["context_slots" if kind == "contexts" else "dish_slots"] = _slots(capacity)
    result = Arrays(**new)
    for slots, before in ((result.context_slots, a.context_slots), (result.dish_slots, a.dish_slots)):
        if slots is not before:
            _fill_slots(result, slots is result.context_slots)
    return result


def compacted(a: Arrays) -> Arrays:
    """Without contexts and dishes that have no customers any more; the others keep their order, and change number."""
    X, E, B = (int(n) for n in a.used[:3])
    live, served = a.customers[:X] > 0, a.c[:E] > 0
    # A parent of -1 stays one. What has customers has them in its reduction, too, so links lead to what stays.
    number, dish = (np.append(np.cumsum(kept) - 1, -1).astype(np.int32) for kept in (live, served))
    new: dict[str, Any] = {name: getattr(a, name)[:X][live] for name in _OF_CONTEXTS}
    new.update({name: getattr(a, name)[:E][served] for name in _OF_DISHES})
    new.update({name: getattr(a, name)[:B].copy() for name in _OF_BUCKETS})
    new["parents"], new["contexts"], new["ups"] = number[new["parents"]], number[new["contexts"]], dish[new["ups"]]
    used = a.used.copy()
    used[CONTEXTS], used[DISHES] = len(new["keys"]), len(new["c"])
    return rebuilt(used, a.base, new)


def rebuilt(used: Any, base: Any, arrays: dict[str, Any]) -> Arrays:
    """Arrays of contexts, dishes and buckets, as long as they are used, with new hash tables and lists of dishes."""
    for name in _OF_CONTEXTS + _OF_DISHES:  # never without room for one
        arrays[name] = np.concatenate([arrays[name], np.zeros(LEAST, arrays[name].dtype)])
    slots = {"context_slots": _slots(len(arrays["keys"])), "dish_slots": _slots(len(arrays["c"]))}
    result = Arrays(used=used, base=base, **slots, **arrays)
    _fill_slots(result, True)
    _fill_slots(result, False)
    _link(result)
    return result


def _slots(capacity: int) -> Any:
    """An empty hash table that is at most half full."""
    return np.full(1 << max(1, (2 * capacity - 1).bit_length()), -1, np.int32)


@borrowing
def _hash(x: int, y: int) -> int:
    """Two integers, mixed as SplitMix64 does it."""
    z = np.uint64(x) ^ (np.uint64(y + 1) * np.uint64(0x9E3779B97F4A7C15))
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@borrowing
def context_slot(a: Arrays, level: int, key: int) -> int:
    """Where a context is in the hash table, or would be."""
    mask = np.uint64(len(a.context_slots) - 1)
    s = _hash(key, level) & mask
    while True:
        h = a.context_slots[s]
        if h < 0 or (a.keys[h] == key and a.levels[h] == level):
            return s
        s = (s + np.uint64(1)) & mask


@borrowing
def find_context(a: Arrays, level: int, key: int) -> int:
    """The number of a context, or -1."""
    return a.context_slots[context_slot(a, level, key)]


@borrowing
def dish_slot(a: Arrays, h: int, w: int) -> int:
    """Where a dish is in the hash table, or would be."""
    mask = np.uint64(len(a.dish_slots) - 1)
    s = _hash(w, h) & mask
    while True:
        d = a.dish_slots[s]
        if d < 0 or (a.contexts[d] == h and a.values[d] == w):
            return s
        s = (s + np.uint64(1)) & mask


@borrowing
def find_dish(a: Arrays, h: int, w: int) -> int:
    """The number of value w in context h, or -1."""
    return a.dish_slots[dish_slot(a, h, w)]


@borrowing
def up(a: Arrays, d: int) -> int:
    """The same value in the reduction of a dish's context, or -1; without hashing, once it was found."""
    if a.ups[d] < 0:
        parent = a.parents[a.contexts[d]]
        if parent >= 0:
            a.ups[d] = find_dish(a, parent, a.values[d])
    return a.ups[d]


@borrowing
def add_context(a: Arrays, level: int, key: int, parent: int) -> int:
    """A context that is not there yet; there must be room."""
    h = a.used[CONTEXTS]
    a.context_slots[context_slot(a, level, key)] = h
    a.keys[h], a.levels[h], a.parents[h] = key, level, parent
    a.customers[h] = a.tables[h] = 0
    a.first[h] = -1
    a.used[CONTEXTS] = h + 1
    return h


@borrowing
def add_dish(a: Arrays, h: int, w: int) -> int:
    """A dish that is not there yet; there must be room."""
    d = a.used[DISHES]
    a.dish_slots[dish_slot(a, h, w)] = d
    a.contexts[d], a.values[d] = h, w
    a.c[d] = a.t[d] = 0
    a.ups[d] = a.buckets[d] = -1
    a.following[d] = a.first[h]
    a.first[h] = d
    a.used[DISHES] = d + 1
    return d


@kernel
def _fill_slots(a: Arrays, contexts: int) -> None:
    """Hash all contexts, or all dishes, into an empty table."""
    if contexts:
        for h in range(a.used[CONTEXTS]):
            a.context_slots[context_slot(a, a.levels[h], a.keys[h])] = h
    else:
        for d in range(a.used[DISHES]):
            a.dish_slots[dish_slot(a, a.contexts[d], a.values[d])] = d


@kernel
def _link(a: Arrays) -> None:
    """Each context's list of dishes, anew."""
    a.first[: a.used[CONTEXTS]] = -1
    for d in range(a.used[DISHES]):
        a.following[d] = a.first[a.contexts[d]]
        a.first[a.contexts[d]] = d


# ---------------------------------------------------------------------- tables of a dish, by size


@borrowing
def _new_bucket(a: Arrays, size: int, after: int) -> int:
    b = a.used[FREE]
    if b >= 0:
        a.used[FREE] = a.after[b]
        a.used[NUM_FREE] -= 1
    else:
        b = a.used[BUCKETS]
        a.used[BUCKETS] = b + 1
    a.sizes[b], a.numbers[b], a.after[b] = size, 1, after
    return b


@borrowing
def _attach(a: Arrays, d: int, before: int, b: int) -> None:
    """Let bucket b come after bucket ``before`` of dish d, or first."""
    if before >= 0:
        a.after[before] = b
    else:
        a.buckets[d] = b


@borrowing
def _take_one(a: Arrays, d: int, before: int, b: int) -> None:
    """One table less in bucket b, which is freed when it was the last."""
    a.numbers[b] -= 1
    if a.numbers[b] == 0:
        _attach(a, d, before, a.after[b])
        a.after[b] = a.used[FREE]
        a.used[FREE] = b
        a.used[NUM_FREE] += 1


@borrowing
def open_table(a: Arrays, d: int) -> None:
    """A table with one customer."""
    before, b = -1, a.buckets[d]
    while b >= 0 and a.sizes[b] > 1:
        before, b = b, a.after[b]
    if b >= 0:
        a.numbers[b] += 1
    else:
        _attach(a, d, before, _new_bucket(a, 1, -1))


@borrowing
def join_table(a: Arrays, d: int, discount: float, r: float) -> None:
    """One more customer at a table, which is drawn in proportion to its size minus the discount.

    :param r: uniform between 0 and c - discount * t.
    """
    before, b = -1, a.buckets[d]
    while True:
        r -= a.numbers[b] * (a.sizes[b] - discount)
        if r < 0 or a.after[b] < 0:
            break
        before, b = b, a.after[b]
    if before >= 0 and a.sizes[before] == a.sizes[b] + 1:
        a.numbers[before] += 1
        _take_one(a, d, before, b)
    elif a.numbers[b] == 1:
        a.sizes[b] += 1
    else:
        larger = _new_bucket(a, a.sizes[b] + 1, b)
        _attach(a, d, before, larger)
        _take_one(a, d, larger, b)


@borrowing
def leave_table(a: Arrays, d: int, r: int) -> bool:
    """One customer less at a table, which is drawn in proportion to its size; returns whether the table is gone.

    :param r: uniform between 0 and c.
    """
    before, b = -1, a.buckets[d]
    while True:
        r -= a.numbers[b] * a.sizes[b]
        if r < 0 or a.after[b] < 0:
            break
        before, b = b, a.after[b]
    if a.sizes[b] == 1:
        _take_one(a, d, before, b)
        return True
    smaller = a.after[b]
    if smaller >= 0 and a.sizes[smaller] == a.sizes[b] - 1:
        a.numbers[smaller] += 1
        _take_one(a, d, before, b)
    elif a.numbers[b] == 1:
        a.sizes[b] -= 1
    else:
        a.after[b] = _new_bucket(a, a.sizes[b] - 1, smaller)
        _take_one(a, d, before, b)
    return False
