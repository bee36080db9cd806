# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Inside, outside and draws for one sentence in real space, with weights of its own, as :mod:`.cfg_sweeps` needs them.

Weights are normalised, so that no inside cell exceeds one and only underflow is to be feared: cell (i, k) is multiplied
by a power c^(k - i), where c is such that Z is a comfortable number. A sentence for which none is found fails.
"""

# mypy: disable-error-code="no-untyped-def"
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from .cfg_log import Grammar
from .eisner_sample import uniform

# Z and cells that are trusted; what c is multiplied by or divided by, so often before a sentence fails.
LEAST, GREATEST, STEP, TRIES = 2.0**-600, 2.0**600, 2.0**12, 12


class Layout(NamedTuple):
    """Where the events of each sentence are.

    :param owner: shape (R,), the multinomial of each event.
    :param lengths: shape (N,), numbers of words.
    :param offsets: shape (N + 1,), matches of a sentence, in the order of their cells.
    :param cell: shape (M,), ``(i * (n + 1) + k) * S + symbol`` of a match.
    :param width: shape (M,), ``k - i``.
    :param event: shape (M,), or -1.
    :param local: shape (M,), the number of a match's event among those of its sentence, or -1.
    :param starts: shape (N + 1,), events of a sentence: first the rules that are not lexical, then others, sorted.
    :param events: of all sentences, one after the other.
    :param of_binary: shape (Nb,), the numbers of the binary rules' events in every sentence, or -1.
    :param of_unary: shape (Nu,), the same of the unary rules.
    :param low: shape (S,), least numbers of words of symbols.
    :param high: shape (S,), greatest numbers of words.
    :param top: shape (P,), whether a pair is only of use to the whole sentence.
    """

    owner: Any
    lengths: Any
    offsets: Any
    cell: Any
    width: Any
    event: Any
    local: Any
    starts: Any
    events: Any
    of_binary: Any
    of_unary: Any
    low: Any
    high: Any
    top: Any


class Memory(NamedTuple):
    """Scratch for one sentence."""

    chart: Any
    outer: Any
    products: Any  # of the pairs of every span
    adjoints: Any  # of the products of one span
    match: Any  # weights of matches
    binary: Any  # weights of rules
    unary: Any
    binary_counts: Any
    unary_counts: Any
    local: Any  # weights of the sentence's events
    power: Any  # of the scale, by width
    sums: Any  # its own counts of each multinomial
    inverse: Any  # one over the sum of each multinomial
    stack: Any


def make_memory(layout: Layout, g: Grammar, num_multinomials: int) -> Memory:
    n = int(layout.lengths.max(initial=1))
    cells = (n + 1) ** 2 * g.S
    most = int(np.diff(layout.offsets).max(initial=0)), int(np.diff(layout.starts).max(initial=0))
    pairs, binary, unary = len(g.pairs), len(g.parent), len(g.unary)
    sizes = [cells, cells, (n + 1) ** 2 * pairs, pairs, most[0], binary, unary, binary, unary, most[1], n + 1]
    tables = [np.zeros(size) for size in (*sizes, num_multinomials, num_multinomials)]
    return Memory._make([*tables, np.zeros((n + 2, 3), np.int64)])


@njit(nogil=True)
def inside(g, layout, x, b):
    """Fill the chart from the weights in memory; returns Z and the greatest cell."""
    n, S, P = layout.lengths[b], g.S, len(g.pairs)
    N = n + 1
    x.chart[: N * N * S] = 0
    first = layout.offsets[b]
    for m in range(layout.offsets[b + 1] - first):
        x.chart[layout.cell[first + m]] += x.match[m] * x.power[layout.width[first + m]]
    greatest = 0.0
    for width in range(1, n + 1):
        for i in range(n - width + 1):
            k = i + width
            here, at = (i * N + k) * S, (i * N + k) * P
            if width > 1:
                for p in range(P):
                    value = 0.0
                    if width == n or not layout.top[p]:
                        B, C = g.pairs[p, 0], g.pairs[p, 1]
                        for j in range(
                            max(i + layout.low[B], k - layout.high[C]), min(i + layout.high[B], k - layout.low[C]) + 1
                        ):
                            value += x.chart[(i * N + j) * S + B] * x.chart[(j * N + k) * S + C]
                    x.products[at + p] = value
                for r in range(len(g.parent)):
                    x.chart[here + g.parent[r]] += x.products[at + g.pair[r]] * x.binary[r]
            for u in range(len(g.unary)):
                x.chart[here + g.unary[u, 0]] += x.chart[here + g.unary[u, 1]] * x.unary[u]
            for A in range(S):
                greatest = max(greatest, x.chart[here + A])
    return x.chart[n * S + g.start], greatest


@njit(nogil=True)
def outside(g, layout, x, b, z):
    """Fill the adjoints of log Z and count the rules; returns the greatest adjoint."""
    n, S, P = layout.lengths[b], g.S, len(g.pairs)
    N = n + 1
    x.outer[: N * N * S] = 0
    x.binary_counts[:] = 0
    x.unary_counts[:] = 0
    x.outer[n * S + g.start] = 1 / z
    greatest = 1 / z
    for width in range(n, 0, -1):
        for i in range(n - width + 1):
            k = i + width
            here, at = (i * N + k) * S, (i * N + k) * P
            for u in range(len(g.unary) - 1, -1, -1):
                d = x.outer[here + g.unary[u, 0]] * x.unary[u]
                x.outer[here + g.unary[u, 1]] += d
                x.unary_counts[u] += d * x.chart[here + g.unary[u, 1]]
            for A in range(S):
                greatest = max(greatest, x.outer[here + A])
            if width == 1:
                continue
            x.adjoints[:] = 0
            for r in range(len(g.parent)):
                d = x.outer[here + g.parent[r]] * x.binary[r]
                x.adjoints[g.pair[r]] += d
                x.binary_counts[r] += d * x.products[at + g.pair[r]]
            for p in range(P):
                d = x.adjoints[p]
                if d == 0:
                    continue
                B, C = g.pairs[p, 0], g.pairs[p, 1]
                for j in range(
                    max(i + layout.low[B], k - layout.high[C]), min(i + layout.high[B], k - layout.low[C]) + 1
                ):
                    left, right = (i * N + j) * S + B, (j * N + k) * S + C
                    x.outer[left] += d * x.chart[right]
                    x.outer[right] += d * x.chart[left]
    return greatest


@njit(nogil=True)
def trusted_inside(g, layout, x, b, c):
    """Inside with such a c that Z can be trusted; returns Z, c, or a Z of zero if there is none."""
    for _ in range(TRIES):
        x.power[0] = 1.0
        for width in range(1, layout.lengths[b] + 1):
            x.power[width] = x.power[width - 1] * c
        z, greatest = inside(g, layout, x, b)
        if LEAST < z and greatest < GREATEST:
            return z, c
        if 0 <= z <= LEAST:
            c *= STEP
        else:  # also where it is infinite, or no number
            c /= STEP
    return 0.0, 1.0


@njit(nogil=True)
def draw(g, layout, x, b, state, ids):
    """One derivation, as event ids padded with -1."""
    n, S, P = layout.lengths[b], g.S, len(g.pairs)
    N, first = n + 1, layout.offsets[b]
    ids[:] = -1
    x.stack[0, 0], x.stack[0, 1], x.stack[0, 2] = 0, n, g.start
    size, done = 1, 0
    while size > 0:
        size -= 1
        i, k, A = x.stack[size, 0], x.stack[size, 1], x.stack[size, 2]
        here = (i * N + k) * S
        rest = uniform(state) * x.chart[here + A]
        # The last possible choice is kept: rounding may leave a rest after all of them.
        event, kind, j, B, C = -1, -1, -1, -1, -1
        m = first + np.searchsorted(layout.cell[first : layout.offsets[b + 1]], here + A)
        while rest >= 0 and m < layout.offsets[b + 1] and layout.cell[m] == here + A:
            value = x.match[m - first] * x.power[k - i]
            if value > 0:
                rest -= value
                event, kind = layout.event[m], 0
            m += 1
        u = g.unary_of[A]
        while rest >= 0 and u < g.unary_of[A + 1]:
            rule = g.unary_order[u]
            value = x.chart[here + g.unary[rule, 1]] * x.unary[rule]
            if value > 0:
                rest -= value
                event, kind, B = g.unary[rule, 2], 1, g.unary[rule, 1]
            u += 1
        r = g.binary_of[A]
        inner = 0.0
        while rest >= 0 and k > i + 1 and r < g.binary_of[A + 1]:
            share = x.binary[r] * x.products[(i * N + k) * P + g.pair[r]]
            if share > 0:
                event, kind, B, C, inner = g.event[r], 2, g.left[r], g.right[r], rest / x.binary[r]
                rest -= share
            r += 1
        split = i + 1
        while kind == 2 and inner >= 0 and split < k:
            value = x.chart[(i * N + split) * S + B] * x.chart[(split * N + k) * S + C]
            if value > 0:
                inner -= value
                j = split
            split += 1
        if event >= 0:
            ids[done] = event
            done += 1
        if kind == 1:
            x.stack[size, 0], x.stack[size, 1], x.stack[size, 2] = i, k, B
            size += 1
        elif kind == 2:
            x.stack[size, 0], x.stack[size, 1], x.stack[size, 2] = j, k, C
            x.stack[size + 1, 0], x.stack[size + 1, 1], x.stack[size + 1, 2] = i, j, B
            size += 2
