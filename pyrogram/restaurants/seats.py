# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Seating, unseating and predicting in a hierarchy of Pitman-Yor restaurants, one observation after the other.

The predictive probability of value w in context h is (Wallach, Sutton and McCallum 2008, section 2; Teh 2006, Eq. 5)

    P(w | h) = (c_hw - ε t_hw + (α + ε T_h) P(w | rho(h))) / (α + C_h),

with α and ε of the level of h; the base measure stands above level 0, and a context without observations has the
probabilities of its reduction. Where w is seated at a new table, it is also an observation of rho(h), and so on up.

Kernels that create anything stop where the arrays are full, and return how far they came.
"""

from __future__ import annotations

import numpy as np

from pyrogram.restaurants.tables import (
    BUCKETS,
    CONTEXTS,
    DISHES,
    NUM_FREE,
    Arrays,
    add_context,
    add_dish,
    find_context,
    find_dish,
    join_table,
    leave_table,
    open_table,
    up,
)
from pyrogram.runtime.arrays import Array
from pyrogram.runtime.compiling import borrowing, kernel
from pyrogram.runtime.random_numbers import uniform

MINIMAL, MAXIMAL, EXACT = range(3)  # path assumptions
DONE, NOT_NESTED = -1, -2  # instead of where a kernel stopped


# ---------------------------------------------------------------------- contexts


@kernel
def locate(a: Arrays, keys: Array, create: bool, start: int, contexts: Array) -> tuple[int, int]:
    """The context of each observation; of those that are not there, the finest reduction that is, or -1 for none.

    :param keys: shape (L, M), coarsest level first.
    :param create: make those that are not there.
    :param contexts: shape (M,), int32, written from ``start`` on.
    :returns: where it stopped for want of room, or DONE; and the observation whose keys are not nested, or -1.
    """
    L, M = keys.shape
    for i in range(start, M):
        if create and a.used[CONTEXTS] + L > len(a.keys):
            return i, -1
        h = find_context(a, L - 1, keys[L - 1, i])
        if h >= 0:
            contexts[i] = h
            for l in range(L - 2, -1, -1):
                h = a.parents[h]
                if a.keys[h] != keys[l, i]:
                    return NOT_NESTED, i
            continue
        parent = -1
        for l in range(L):
            h = find_context(a, l, keys[l, i])
            if h >= 0 and a.parents[h] != parent:
                return NOT_NESTED, i
            if h < 0:
                if not create:
                    break
                h = add_context(a, l, keys[l, i], parent)
            parent = h
        contexts[i] = parent
    return DONE, -1


# ---------------------------------------------------------------------- probabilities


@borrowing
def probability(a: Arrays, h: int, w: int, concentration: Array, discount: Array) -> float:
    """P(w | h); h = -1 stands for the base measure."""
    total, scale = 0.0, 1.0
    d = np.int32(-1)
    while h >= 0:
        d = find_dish(a, h, w) if d < 0 else up(a, d)
        C = a.customers[h]
        if C > 0:
            alpha, epsilon = concentration[a.levels[h]], discount[a.levels[h]]
            if d >= 0:
                total += scale * (a.c[d] - epsilon * a.t[d]) / (alpha + C)
            scale *= (alpha + epsilon * a.tables[h]) / (alpha + C)
        h = a.parents[h]
    return total + scale * a.base[w]


@kernel
def predict(a: Arrays, contexts: Array, values: Array, concentration: Array, discount: Array, result: Array) -> None:
    """The predictive probability of each value in its context, into ``result``."""
    for i in range(len(contexts)):
        result[i] = probability(a, contexts[i], values[i], concentration, discount)


@kernel
def predict_all(a: Arrays, contexts: Array, concentration: Array, discount: Array, result: Array) -> None:
    """Rows of P(. | h); shape (M, V)."""
    for i in range(len(contexts)):
        h, scale = contexts[i], 1.0
        result[i] = 0.0
        while h >= 0:
            C = a.customers[h]
            if C > 0:
                alpha, epsilon = concentration[a.levels[h]], discount[a.levels[h]]
                d = a.first[h]
                while d >= 0:
                    result[i, a.values[d]] += scale * (a.c[d] - epsilon * a.t[d]) / (alpha + C)
                    d = a.following[d]
                scale *= (alpha + epsilon * a.tables[h]) / (alpha + C)
            h = a.parents[h]
        result[i] += scale * a.base


@borrowing
def draw_value(a: Arrays, h: int, concentration: Array, discount: Array, cumulative: Array, state: Array) -> int:
    """A value from P(. | h).

    :param cumulative: sums of the base measure.
    """
    while h >= 0:
        C = a.customers[h]
        if C > 0:
            alpha, epsilon = concentration[a.levels[h]], discount[a.levels[h]]
            r = uniform(state) * (alpha + C)
            if r < C - epsilon * a.tables[h]:
                d, last = a.first[h], np.int32(-1)
                while d >= 0:
                    if a.c[d] > 0:
                        r -= a.c[d] - epsilon * a.t[d]
                        last = a.values[d]
                        if r < 0:
                            break
                    d = a.following[d]
                return last
        h = a.parents[h]
    return np.int32(np.searchsorted(cumulative, uniform(state) * cumulative[-1], side="right"))


# ---------------------------------------------------------------------- seats


@borrowing
def has_room(a: Arrays, levels: int) -> bool:
    """Whether one observation can be seated (and one be unseated before)."""
    buckets = len(a.sizes) - a.used[BUCKETS] + a.used[NUM_FREE]
    return a.used[DISHES] + levels <= len(a.c) and buckets >= 2 * levels


@borrowing
def seat(
    a: Arrays,
    h: int,
    w: int,
    concentration: Array,
    discount: Array,
    paths: int,
    chain: Array,
    above: Array,
    state: Array,
) -> float:
    """Seat one observation; returns P(w | h) from before. There must be room.

    :param chain: scratch of shape (2, L), int32: contexts and dishes by level; and ``above`` of shape (L,), float64.
    :param state: of the generator; only exact seating uses it.
    """
    finest, g, d = a.levels[h], h, np.int32(-1)
    for l in range(finest, -1, -1):
        d = find_dish(a, g, w) if d < 0 else up(a, d)
        chain[0, l], chain[1, l] = g, d
        g = a.parents[g]
    p = a.base[w]
    for l in range(finest + 1):
        g, d = chain[0, l], chain[1, l]
        above[l] = p
        C = a.customers[g]
        if C > 0:
            old = a.c[d] - discount[l] * a.t[d] if d >= 0 else 0.0
            p = (old + (concentration[l] + discount[l] * a.tables[g]) * p) / (concentration[l] + C)
    for l in range(finest, -1, -1):
        h, d = chain[0, l], chain[1, l]
        if d < 0:
            d = add_dish(a, h, w)
        new = paths == MAXIMAL or a.c[d] == 0
        if paths == EXACT:
            if not new:
                old = a.c[d] - discount[l] * a.t[d]
                r = uniform(state) * (old + (concentration[l] + discount[l] * a.tables[h]) * above[l])
                new = r >= old
                if not new:
                    join_table(a, d, discount[l], r)
            if new:
                open_table(a, d)
        a.c[d] += 1
        a.customers[h] += 1
        if not new:
            break
        a.t[d] += 1
        a.tables[h] += 1
    return p


@borrowing
def unseat(a: Arrays, h: int, w: int, paths: int, state: Array) -> None:
    """Take away one observation, which must be there: from a table drawn in proportion to its size."""
    d = find_dish(a, h, w)
    while h >= 0:
        if paths == EXACT:
            gone = leave_table(a, d, uniform(state) * a.c[d])
        else:
            gone = paths == MAXIMAL or a.c[d] == 1
        a.c[d] -= 1
        a.customers[h] -= 1
        if not gone:
            break
        a.t[d] -= 1
        a.tables[h] -= 1
        h, d = a.parents[h], up(a, d)


@kernel
def add(
    a: Arrays,
    contexts: Array,
    values: Array,
    concentration: Array,
    discount: Array,
    paths: int,
    state: Array,
    start: int,
    log_p: Array,
) -> int:
    """Seat observations from ``start`` on; returns where it stopped for want of room, or DONE."""
    L = len(concentration)
    chain, above = np.zeros((2, L), np.int32), np.zeros(L)
    for i in range(start, len(contexts)):
        if not has_room(a, L):
            return i
        p = seat(a, contexts[i], values[i], concentration, discount, paths, chain, above, state)
        log_p[i] = np.log(p)
    return DONE


@kernel
def draw(
    a: Arrays,
    contexts: Array,
    concentration: Array,
    discount: Array,
    cumulative: Array,
    paths: int,
    state: Array,
    start: int,
    values: Array,
) -> int:
    """Draw values and seat them, from ``start`` on; returns where it stopped for want of room, or DONE."""
    L = len(concentration)
    chain, above = np.zeros((2, L), np.int32), np.zeros(L)
    for i in range(start, len(contexts)):
        if not has_room(a, L):
            return i
        values[i] = draw_value(a, contexts[i], concentration, discount, cumulative, state)
        seat(a, contexts[i], values[i], concentration, discount, paths, chain, above, state)
    return DONE


@kernel
def missing(a: Arrays, contexts: Array, values: Array, finest: int) -> int:
    """The first observation that cannot be taken away, for lack of such, or -1."""
    first, stop = -1, len(contexts)
    for i in range(len(contexts)):
        d = find_dish(a, contexts[i], values[i]) if contexts[i] >= 0 and a.levels[contexts[i]] == finest else -1
        if d < 0 or a.c[d] == 0:
            first = stop = i
            break
        a.c[d] -= 1
    for i in range(stop):
        a.c[find_dish(a, contexts[i], values[i])] += 1
    return first


@kernel
def remove(
    a: Arrays,
    contexts: Array,
    values: Array,
    concentration: Array,
    discount: Array,
    paths: int,
    state: Array,
    stop: int,
    log_p: Array,
) -> int:
    """Unseat observations ``stop - 1`` .. 0; returns where it stopped for want of room, or DONE."""
    L = len(concentration)
    for i in range(stop - 1, -1, -1):
        if not has_room(a, L):
            return i + 1
        unseat(a, contexts[i], values[i], paths, state)
        log_p[i] = np.log(probability(a, contexts[i], values[i], concentration, discount))
    return DONE


@kernel
def reseat(a: Arrays, concentration: Array, discount: Array, state: Array, place: Array) -> bool:
    """Draw the seat of every customer of every level anew, given all others; returns False where room is needed.

    Those of a level above the finest are the tables of the level below it. Customers of one dish are exchangeable, so
    whose turn it is need not be known.

    :param place: where to start, and where it stopped: levels done, dishes of this level done, customers of this dish.
    """
    L = len(concentration)
    chain, above = np.zeros((2, L), np.int32), np.zeros(L)
    while place[0] < L:
        level = L - 1 - place[0]
        while place[1] < a.used[DISHES]:
            d = place[1]
            h, w = a.contexts[d], a.values[d]
            while a.levels[h] == level and place[2] < a.c[d]:
                if not has_room(a, L):
                    return False
                unseat(a, h, w, EXACT, state)
                seat(a, h, w, concentration, discount, EXACT, chain, above, state)
                place[2] += 1
            place[1] += 1
            place[2] = 0
        place[0] += 1
        place[1] = 0
    return True
