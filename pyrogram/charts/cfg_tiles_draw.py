# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Draws of derivations top down through one lane of a chart of :mod:`.cfg_tiles`."""

# mypy: disable-error-code="no-untyped-def"
from pyrogram.charts.runtime.compiling import borrowing, inlined
from pyrogram.charts.runtime.random_numbers import uniform


@borrowing
def find_matches(table, key_i, key_k, key_symbol):
    """The first match of a span by a symbol in a sorted table (M, 4), or where it would be."""
    low, high = 0, len(table)
    while low < high:
        middle = (low + high) // 2
        i, k, symbol = table[middle, 0], table[middle, 1], table[middle, 2]
        if i < key_i or (i == key_i and (k < key_k or (k == key_k and symbol < key_symbol))):
            low = middle + 1
        else:
            high = middle
    return low


@borrowing
def draw_from_lanes(mem, c, p, g, real, lane, n, table, state, stack, ids):
    """One derivation, as event ids padded with -1; ``real`` are the weights of events, ``stack`` is (n + 2, 3)."""
    for k in range(len(ids)):
        ids[k] = -1
    stack[0, 0], stack[0, 1], stack[0, 2] = 0, n, g.start
    size, done = 1, 0
    while size > 0:
        size -= 1
        i, k, A = stack[size, 0], stack[size, 1], stack[size, 2]
        here = c.inner + (i * c.pitch + k) * c.S
        rest = uniform(state) * mem[(here + A) * 8 + lane]
        event, kind, j, B, C = -1, -1, -1, -1, -1
        if k - i == 1 or len(p.multi):
            factor = 1.0
            for t in range(i + 1, k + 1):
                factor *= mem[(c.factors + t) * 8 + lane]
            m = find_matches(table, i, k, A)
            while rest >= 0 and m < len(table) and table[m, 0] == i and table[m, 1] == k and table[m, 2] == A:
                x = real_of(real, table[m, 3]) * factor
                if x > 0:
                    rest -= x
                    event, kind = table[m, 3], 0
                m += 1
        u = g.unary_of[A]
        while rest >= 0 and u < g.unary_of[A + 1]:
            rule = g.unary_order[u]
            x = mem[(here + g.unary[rule, 1]) * 8 + lane] * real_of(real, g.unary[rule, 2])
            if x > 0:
                rest -= x
                event, kind, B = g.unary[rule, 2], 1, g.unary[rule, 1]
            u += 1
        r = g.binary_of[A]
        while rest >= 0 and r < g.binary_of[A + 1]:
            left, right = g.left[r], g.right[r]
            split = max(i + p.low[left], k - p.high[right])
            last = min(i + p.high[left], k - p.low[right])
            if split <= last:
                w = real_of(real, g.event[r])
                while rest >= 0 and split <= last:
                    x = mem[(c.inner + (i * c.pitch + split) * c.S + left) * 8 + lane]
                    x *= w * mem[(c.inner + (split * c.pitch + k) * c.S + right) * 8 + lane]
                    if x > 0:
                        rest -= x
                        event, kind, j, B, C = g.event[r], 2, split, left, right
                    split += 1
            r += 1
        if event >= 0:
            ids[done] = event
            done += 1
        if kind == 1:
            stack[size, 0], stack[size, 1], stack[size, 2] = i, k, B
            size += 1
        elif kind == 2:
            stack[size, 0], stack[size, 1], stack[size, 2] = j, k, C
            stack[size + 1, 0], stack[size + 1, 1], stack[size + 1, 2] = i, j, B
            size += 2


@inlined
def real_of(real, event):
    """The weight of an event, or one if there is none."""
    return real[event] if event >= 0 else 1.0
