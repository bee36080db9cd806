# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Newton's direction for eight logistic normal experts at a time, and the memory that they take.

The formulae are in :mod:`.newton`.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from pyrogram.logistic_normal.linear_algebra import WIDTH, backward, factorise, forward, times_symmetric, zeros
from pyrogram.runtime.arrays import Array, Lanes
from pyrogram.runtime.bounds import guarded, room
from pyrogram.runtime.lanes import fill, fma, load, maximum, store

# What is known of an attachment, in one row of a small table. Attachments of one expert to the same multinomial share
# a slot: its number, its first coordinate among all slots, whether this attachment is the first, and how many share it.
COORD, SIZE, SLOT, OFFSET, FIRST, TIMES = range(6)


class Cells(NamedTuple):
    """Where the numbers of eight experts lie, as cell numbers; what ends in _t belongs to a trial."""

    precision: int  # lower triangle
    factor: int
    pivot: int
    mu: int
    m: int  # as read
    v: int  # as read
    d: int  # m - mu
    q: int  # Lambda d
    low: int  # Lambda_ii
    high: int
    kappa: int
    kappa_t: int
    v_now: int
    v_t: int
    grad_m: int
    grad_v: int
    A: int
    B: int
    C: int  # 1 / C
    step: int  # in m
    step_kappa: int
    curve: int  # Lambda step
    scale: int  # of each attachment
    f: int  # from here on by the coordinates of the slots
    u: int  # as read
    w: int  # as read
    z: int
    z_t: int
    e: int  # exp(z - top)
    e_t: int
    Y: int  # [slot, coordinate]: what remains of q_k without v, solved with the factor
    b: int  # [slot, coordinate]: the half of q_k that belongs to v
    F: int  # from here on by slot
    top: int
    top_t: int
    total: int  # sum of e
    total_t: int
    alpha: int
    capacity: int  # diag F - Q' X Q
    capacity_pivot: int


def make_cells(length: int, coordinates: int, slots: int, attachments: int, full: bool) -> tuple[Any, Cells]:
    """Memory for experts of at most so many coordinates, with so many in their slots, and its layout."""
    slots = max(slots, 1)
    sizes = dict.fromkeys(("precision", "factor"), length * (length + 1) // 2 if full else 0)
    sizes |= {"scale": attachments, "Y": slots * length, "b": slots * length, "capacity": slots * (slots + 1) // 2}
    sizes |= dict.fromkeys(("f", "u", "w", "z", "z_t", "e", "e_t"), coordinates)
    sizes |= dict.fromkeys(("F", "top", "top_t", "total", "total_t", "alpha", "capacity_pivot"), slots)
    places, end = {}, 0
    for name in Cells._fields:
        places[name] = end
        end += room(sizes.get(name, length))
    return guarded(np.zeros(end * WIDTH), [*places.values(), end]), Cells(**places)


@njit(nogil=True, forceinline=True)
def find_direction(mem: Array, c: Cells, k: Array, length: int, diagonal: bool) -> tuple[Lanes, Lanes]:
    """Newton's direction in m and kappa; the derivative of g along it, and the farthest that a mean moves."""
    zero = fill(mem, 0.0)
    slots = _gradient(mem, c, k, length)
    _eliminate(mem, c, length, slots)
    if diagonal:
        one = fill(mem, 1.0)
        for i in range(length):
            store(mem, c.pivot + i, one / (load(mem, c.low + i) + load(mem, c.A + i)))
    else:
        tiny = fill(mem, 1e-14)
        for i in range(length):
            row = i * (i + 1) // 2
            for j in range(row, row + i):
                store(mem, c.factor + j, load(mem, c.precision + j))
            store(mem, c.factor + row + i, load(mem, c.precision + row + i) + load(mem, c.A + i))
            store(mem, c.pivot + i, tiny * load(mem, c.low + i))
        factorise(mem, c.factor, c.pivot, length)
        forward(mem, c.factor, c.step, length)
        for slot in range(slots):
            forward(mem, c.factor, c.Y + slot * length, length)
    _woodbury(mem, c, length, slots)
    for i in range(length):
        store(mem, c.step + i, load(mem, c.step + i) * load(mem, c.pivot + i))
    if not diagonal:
        backward(mem, c.factor, c.step, length)
    slope, far = zero, zero
    for i in range(length):
        step, grad_v = load(mem, c.step + i), load(mem, c.grad_v + i)
        rest = grad_v - load(mem, c.B + i) * step
        for slot in range(slots):
            rest = fma(load(mem, c.alpha + slot), load(mem, c.b + slot * length + i), rest)
        step_v = rest * load(mem, c.C + i)
        kappa = load(mem, c.kappa + i)
        store(mem, c.step_kappa + i, zero - kappa * kappa * step_v)
        slope = fma(load(mem, c.grad_m + i), step, fma(grad_v, step_v, slope))
        far = maximum(far, maximum(step, zero - step))
    times_precision(mem, c, c.step, c.curve, length, diagonal)
    return slope, far


@njit(nogil=True, forceinline=True)
def _gradient(mem: Array, c: Cells, k: Array, length: int) -> int:
    """Gradient, A, B, C and the q_k; returns the number of slots."""
    zero, half, quarter = fill(mem, 0.0), fill(mem, 0.5), fill(mem, 0.25)
    for i in range(length):
        kappa = load(mem, c.kappa + i)
        store(mem, c.grad_m + i, zero - load(mem, c.q + i))
        store(mem, c.grad_v + i, half * (kappa - load(mem, c.low + i)))
        store(mem, c.C + i, half * kappa * kappa)
    zeros(mem, c.A, length)
    zeros(mem, c.B, length)
    slots = 0
    for a in range(len(k)):
        slot = k[a, SLOT]
        if k[a, FIRST]:
            slots += 1
            zeros(mem, c.Y + slot * length, length)
            zeros(mem, c.b + slot * length, length)
        s, share = load(mem, c.scale + a), load(mem, c.F + slot) / load(mem, c.total + slot)
        # Segments of one expert in one multinomial: their cross terms in A, B, C are bounded, not kept, so that the
        # steps are cautious where they move against each other, and convergence is linear.
        times = fill(mem, float(k[a, TIMES]))
        for j in range(k[a, SIZE]):
            i, o, y = k[a, COORD] + j, k[a, OFFSET] + j, slot * length + k[a, COORD] + j
            P = share * load(mem, c.e + o)
            sP = s * P
            ssP = s * sP
            store(mem, c.grad_m + i, load(mem, c.grad_m + i) + s * (load(mem, c.f + o) - P))
            store(mem, c.grad_v + i, load(mem, c.grad_v + i) - half * ssP)
            store(mem, c.A + i, fma(times, ssP, load(mem, c.A + i)))
            store(mem, c.B + i, fma(half * times * s, ssP, load(mem, c.B + i)))
            store(mem, c.C + i, fma(quarter * times * s * s, ssP, load(mem, c.C + i)))
            store(mem, c.Y + y, load(mem, c.Y + y) + sP)
            store(mem, c.b + y, load(mem, c.b + y) + half * ssP)
    return slots


@njit(nogil=True, forceinline=True)
def _eliminate(mem: Array, c: Cells, length: int, slots: int) -> None:
    """What remains when v is eliminated: A - B^2 / C in A, the right-hand side in step, the q_k in Y."""
    one = fill(mem, 1.0)
    for i in range(length):
        B, C = load(mem, c.B + i), one / load(mem, c.C + i)
        BC = B * C
        store(mem, c.C + i, C)
        store(mem, c.A + i, load(mem, c.A + i) - B * BC)
        store(mem, c.step + i, load(mem, c.grad_m + i) - BC * load(mem, c.grad_v + i))
        for y in range(i, slots * length, length):
            store(mem, c.Y + y, load(mem, c.Y + y) - BC * load(mem, c.b + y))


@njit(nogil=True, forceinline=True)
def _woodbury(mem: Array, c: Cells, length: int, slots: int) -> None:
    """alpha = (diag F - Q' X Q)^-1 Q' X r, with X the inverse without rank-one terms; r + Q alpha in step."""
    zero = fill(mem, 0.0)
    for x in range(slots):
        X = x * length
        for y in range(x + 1):
            Y = y * length
            total = load(mem, c.F + x) if x == y else zero
            for i in range(length):
                rest = load(mem, c.Y + Y + i) * load(mem, c.pivot + i)
                b = load(mem, c.b + Y + i) * load(mem, c.C + i)
                total = total - fma(rest, load(mem, c.Y + X + i), b * load(mem, c.b + X + i))
            store(mem, c.capacity + x * (x + 1) // 2 + y, total)
        total = zero
        for i in range(length):
            rest = load(mem, c.Y + X + i) * load(mem, c.pivot + i)
            b = load(mem, c.b + X + i) * load(mem, c.C + i)
            total = fma(rest, load(mem, c.step + i), fma(b, load(mem, c.grad_v + i), total))
        store(mem, c.alpha + x, total)
        # In exact arithmetic the pivot is positive; if F exceeds Lambda by many orders, digits cancel.
        store(mem, c.capacity_pivot + x, fma(fill(mem, 1e-12), load(mem, c.F + x), fill(mem, 1e-290)))
    factorise(mem, c.capacity, c.capacity_pivot, slots)
    forward(mem, c.capacity, c.alpha, slots)
    for x in range(slots):
        store(mem, c.alpha + x, load(mem, c.alpha + x) * load(mem, c.capacity_pivot + x))
    backward(mem, c.capacity, c.alpha, slots)
    for x in range(slots):
        alpha = load(mem, c.alpha + x)
        for i in range(length):
            store(mem, c.step + i, fma(alpha, load(mem, c.Y + x * length + i), load(mem, c.step + i)))


@njit(nogil=True, forceinline=True)
def times_precision(mem: Array, c: Cells, vector: int, out: int, length: int, diagonal: bool) -> None:
    """Lambda times a vector."""
    if diagonal:
        for i in range(length):
            store(mem, out + i, load(mem, c.low + i) * load(mem, vector + i))
    else:
        times_symmetric(mem, c.precision, vector, out, length)
