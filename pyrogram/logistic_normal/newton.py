# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Newton's method for the variational Gaussians of logistic normal experts, eight experts at a time.

One expert of length L, with prior N(mu, Sigma) and Lambda = Sigma^-1, takes part in multinomials k, in each as one of
|J_k| segments; s = 1 / |J_k|. Given expected counts f_k, F_k their sum, its means m and variances v maximise

    g(m, v) =   sum_k (f_k . u_k - F_k log sum_i exp z_ki)
              - 1/2 (m - mu)' Lambda (m - mu) + 1/2 sum_i (log v_i - Lambda_ii v_i)

with u_k = s m, w_k = s^2 v, to which the other segments add theirs, and z_k = u_k + w_k / 2 (Cohen, Gimpel and Smith
2008, appendix A, and Cohen and Smith 2009, Figure 3, with zeta at its optimum and the derivatives put right). g is
concave. With P_k = F_k softmax(z_k) and kappa = 1 / v,

    dg/dm = -Lambda (m - mu) + sum_k s (f_k - P_k)          dg/dv = 1/2 (kappa - Lambda_ii - sum_k s^2 P_k)

    -H = [Lambda + diag A, diag B; diag B, diag C] - sum_k q_k q_k' / F_k          q_k = [s P_k; s^2 P_k / 2]

    A = sum_k s^2 P_k          B = sum_k s^3 P_k / 2          C = kappa^2 / 2 + sum_k s^4 P_k / 4

so that v is eliminated coordinate by coordinate; what remains is to factorise Lambda + diag(A - B^2 / C), which is
nothing if Lambda is diagonal; and the rank-one terms follow by Woodbury's identity.

The step in v is one in kappa: kappa <- kappa - t kappa^2 dv solves dg/dv = 0 at once as long as P stays as it is. It is
cut off at the bounds that the optimum keeps, Lambda_ii <= kappa_i <= Lambda_ii + sum_k s^2 F_k. At a bound the gradient
never points outwards, so that what remains of the direction still leads upwards. t is halved until g has grown: but for
rounding, g is never lowered.

A direction takes L^3 / 6 multiplications if the covariance is full, O(L) if it is diagonal; a trial, L exponentials.
"""

import numpy as np
from numba import njit

from pyrogram.logistic_normal.direction import COORD, FIRST, OFFSET, SIZE, SLOT, Cells, find_direction, times_precision
from pyrogram.logistic_normal.linear_algebra import choose, greatest, least
from pyrogram.runtime.arrays import Array, Lanes
from pyrogram.runtime.lanes import exp, fill, fma, load, log, maximum, store

FARTHEST = 10.0  # nats that a mean moves in one step: farther off, a model of second order says nothing
HALVINGS = 24
FAIR = 0.25  # of what the slope promises must be gained: half of it near the optimum, little where a step bounces


@njit(nogil=True, forceinline=True)
def maximise(mem: Array, c: Cells, k: Array, length: int, diagonal: bool, steps: int, tolerance: float) -> Lanes:
    """Newton steps until no lane has more than ``tolerance`` to gain; what the last directions promised to gain.

    :param k: the table of attachments.
    """
    zero, half, one = fill(mem, 0.0), fill(mem, 0.5), fill(mem, 1.0)
    infinite, bound = fill(mem, np.inf), fill(mem, tolerance)
    _start(mem, c, k, length, diagonal)
    left = infinite
    for _ in range(steps):
        slope, far = find_direction(mem, c, k, length, diagonal)
        size = maximum(slope, zero - slope)
        if greatest(choose(size, infinite, zero, one)) > 0:
            _hold_infinite(mem, c, length, size)
        # A lane that is done, at the optimum to the last digit, or not finite stays where it is.
        t = choose(fill(mem, FARTHEST), far, fill(mem, FARTHEST) / far, one)
        t = choose(bound, left, choose(zero, slope, choose(slope, infinite, t, zero), zero), zero)
        left = choose(bound, left, choose(zero, t, half * slope, zero), left)
        dq, dLd = _along(mem, c, length)
        for halving in range(HALVINGS + 1):
            growth, rounding = _trial(mem, c, k, length, t, dq, dLd)
            wanted = fill(mem, FAIR) * t * slope
            worse = choose(wanted, growth + rounding, zero, choose(zero, t, one, zero))
            if greatest(worse) == 0:
                break
            t = choose(zero, worse, half * t if halving < HALVINGS - 1 else zero, t)
        _accept(mem, c, k, length, t)
        if greatest(left) <= tolerance:
            break
    return left


@njit(nogil=True, forceinline=True)
def _start(mem: Array, c: Cells, k: Array, length: int, diagonal: bool) -> None:
    """Sums of counts and bounds of kappa; v moves to the nearer bound, which only raises g; softmax at the start."""
    one, half = fill(mem, 1.0), fill(mem, 0.5)
    for i in range(length):
        store(mem, c.d + i, load(mem, c.m + i) - load(mem, c.mu + i))
        store(mem, c.high + i, load(mem, c.low + i))
    for a in range(len(k)):
        F = c.F + k[a, SLOT]
        if k[a, FIRST]:
            total = fill(mem, 0.0)
            for o in range(k[a, OFFSET], k[a, OFFSET] + k[a, SIZE]):
                total = total + load(mem, c.f + o)
                store(mem, c.z + o, fma(half, load(mem, c.w + o), load(mem, c.u + o)))
            store(mem, F, total)
        s = load(mem, c.scale + a)
        most = s * s * load(mem, F)
        for i in range(k[a, COORD], k[a, COORD] + k[a, SIZE]):
            store(mem, c.high + i, load(mem, c.high + i) + most)
    for i in range(length):
        kappa = maximum(one / load(mem, c.v + i), load(mem, c.low + i))
        kappa = least(mem, load(mem, c.high + i), kappa)
        store(mem, c.kappa + i, kappa)
        store(mem, c.v_now + i, one / kappa)
    for a in range(len(k)):
        s = load(mem, c.scale + a)
        for j in range(k[a, SIZE]):
            i, o = k[a, COORD] + j, k[a, OFFSET] + j
            more = load(mem, c.v_now + i) - load(mem, c.v + i)
            store(mem, c.z + o, fma(half * s * s, more, load(mem, c.z + o)))
    _softmax(mem, k, c.z, c.e, c.top, c.total)
    times_precision(mem, c, c.d, c.q, length, diagonal)


@njit(nogil=True)
def _softmax(mem: Array, k: Array, z: int, e: int, top: int, total: int) -> None:
    """Per slot: the greatest z, exp(z - greatest), and their sum."""
    for a in range(len(k)):
        if not k[a, FIRST]:
            continue
        first, last = k[a, OFFSET], k[a, OFFSET] + k[a, SIZE]
        highest = load(mem, z + first)
        for o in range(first + 1, last):
            highest = maximum(highest, load(mem, z + o))
        sum_ = fill(mem, 0.0)
        for o in range(first, last):
            value = exp(load(mem, z + o) - highest)
            store(mem, e + o, value)
            sum_ = sum_ + value
        store(mem, top + k[a, SLOT], highest)
        store(mem, total + k[a, SLOT], sum_)


@njit(nogil=True)
def _hold_infinite(mem: Array, c: Cells, length: int, size: Lanes) -> None:
    """Lanes whose numbers are not finite get no direction, for 0 times infinity is NaN."""
    zero, infinite = fill(mem, 0.0), fill(mem, np.inf)
    for i in range(length):
        store(mem, c.step + i, choose(size, infinite, load(mem, c.step + i), zero))
        store(mem, c.step_kappa + i, choose(size, infinite, load(mem, c.step_kappa + i), zero))
        store(mem, c.curve + i, choose(size, infinite, load(mem, c.curve + i), zero))


@njit(nogil=True, forceinline=True)
def _along(mem: Array, c: Cells, length: int) -> tuple[Lanes, Lanes]:
    """step' Lambda (m - mu) and step' Lambda step."""
    dq, dLd = fill(mem, 0.0), fill(mem, 0.0)
    for i in range(length):
        step = load(mem, c.step + i)
        dq = fma(step, load(mem, c.q + i), dq)
        dLd = fma(step, load(mem, c.curve + i), dLd)
    return dq, dLd


@njit(nogil=True, forceinline=True)
def _trial(mem: Array, c: Cells, k: Array, length: int, t: Lanes, dq: Lanes, dLd: Lanes) -> tuple[Lanes, Lanes]:
    """Go to t; by how much g grows, and how far rounding may put that off."""
    zero, one, half = fill(mem, 0.0), fill(mem, 1.0), fill(mem, 0.5)
    growth = zero - t * (dq + half * t * dLd)
    product = one
    for i in range(length):
        low, kappa = load(mem, c.low + i), load(mem, c.kappa + i)
        kappa_t = maximum(fma(t, load(mem, c.step_kappa + i), kappa), low)
        kappa_t = least(mem, load(mem, c.high + i), kappa_t)
        v_t = one / kappa_t
        store(mem, c.kappa_t + i, kappa_t)
        store(mem, c.v_t + i, v_t)
        growth = growth - half * low * (v_t - load(mem, c.v_now + i))
        product = product * (kappa * v_t)
        if i % 16 == 15 or i == length - 1:  # before it overflows
            growth = fma(half, log(product), growth)
            product = one
    for a in range(len(k)):
        s = load(mem, c.scale + a)
        old = c.z if k[a, FIRST] else c.z_t
        for j in range(k[a, SIZE]):
            i, o = k[a, COORD] + j, k[a, OFFSET] + j
            move = t * s * load(mem, c.step + i)
            more = half * s * s * (load(mem, c.v_t + i) - load(mem, c.v_now + i))
            growth = fma(move, load(mem, c.f + o), growth)
            store(mem, c.z_t + o, load(mem, old + o) + move + more)
    _softmax(mem, k, c.z_t, c.e_t, c.top_t, c.total_t)
    size = one
    for a in range(len(k)):
        if k[a, FIRST]:
            slot = k[a, SLOT]
            F = load(mem, c.F + slot)
            ratio = log(load(mem, c.total_t + slot) / load(mem, c.total + slot))
            moved = load(mem, c.top_t + slot) - load(mem, c.top + slot)
            growth = growth - F * (moved + ratio)
            size = size + F * (one + maximum(moved, zero - moved))
    return growth, fill(mem, 1e-15) * size


@njit(nogil=True, forceinline=True)
def _accept(mem: Array, c: Cells, k: Array, length: int, t: Lanes) -> None:
    """The trial becomes the state."""
    for i in range(length):
        store(mem, c.d + i, fma(t, load(mem, c.step + i), load(mem, c.d + i)))
        store(mem, c.q + i, fma(t, load(mem, c.curve + i), load(mem, c.q + i)))
        store(mem, c.kappa + i, load(mem, c.kappa_t + i))
        store(mem, c.v_now + i, load(mem, c.v_t + i))
    for a in range(len(k)):
        if k[a, FIRST]:
            slot = k[a, SLOT]
            for o in range(k[a, OFFSET], k[a, OFFSET] + k[a, SIZE]):
                store(mem, c.z + o, load(mem, c.z_t + o))
                store(mem, c.e + o, load(mem, c.e_t + o))
            store(mem, c.top + slot, load(mem, c.top_t + slot))
            store(mem, c.total + slot, load(mem, c.total_t + slot))
