# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Inside of context-free grammars, W sentences at a time, in scaled real space.

Cell (i, k, A) is the weight of all derivations of words i .. k - 1 from symbol A. For every pair (B, C) of right sides

    X(B, C) = sum_{i < j < k} (i, j, B) (j, k, C)

is formed once for a span, then each rule A -> B C adds its weight times X(B, C) to (i, k, A).

Order and scaling. Column k (cells that end at k) needs the columns before it, and is filled from short to long. Every
derivation of a cell has word k - 1 exactly once, so the column is linear in a factor f_k of that word: a power of two,
first so that the greatest weight of the word alone is about one, then so that the whole column's cells are, after it
has been filled. A match of several words carries the factors of all of them.

Cost: per span P * splits + R fused multiply-adds for P pairs and R rules, of which those that the widths of the
symbols exclude are skipped; twice that outside.
"""

# mypy: disable-error-code="no-untyped-def"
from functools import lru_cache
from typing import Any, NamedTuple

from pyrogram.charts.runtime.bounds import guarded, room
from pyrogram.charts.runtime.compiling import borrowing, inlined
from pyrogram.charts.runtime.lanes import (
    any_lane,
    exponent_of,
    fill,
    fma,
    load,
    maximum,
    power_of_two,
    rounded,
    store,
)
from pyrogram.charts.runtime.lanes_memory import aligned

from .cfg_plan import Plan

SCALED_FROM = 12  # columns that may grow or shrink out of range; shorter charts need only the factors of words


class Chart(NamedTuple):
    """Where the tables of one block of W sentences lie in memory, as cell numbers.

    Cell (i, k, A) is ``(i * pitch + k) * S + A``, in ``inner`` and, for adjoints of log Z, in ``outer``. ``X`` and
    ``dX`` are the products of pairs and their adjoints for one span; ``counts`` the adjoints of the plan's weights;
    ``factors`` + k is f_k, ``exponents`` sums the binary logarithms of all; ``ends`` + k is one in the lanes of
    sentences of k words; ``bound`` and ``outer_bound`` sum all values met (NaN sticks to a sum), ``least`` is the least
    one that is not zero.
    """

    S: int  # symbols, one to spare, made odd so that columns do not fall into the same cache sets
    pitch: int
    inner: int
    outer: int
    X: int
    dX: int
    counts: int
    factors: int
    ends: int
    exponents: int
    bound: int
    outer_bound: int
    least: int
    scale: int


def make_chart(n: int, plan: Plan, posteriors: bool) -> tuple[Any, Chart]:
    """Memory for sentences of at most n words, with or without what the outside pass needs, and its layout."""
    chart, cells = _layout(n, plan.S, plan.num_pairs, plan.num_weights, posteriors)
    return guarded(aligned(cells * 8), [*chart[2:], cells]), chart


@lru_cache(maxsize=256)
def _layout(n: int, symbols: int, pairs: int, weights: int, posteriors: bool) -> tuple[Chart, int]:
    S, pitch = (symbols + 1) | 1, (n + 1) | 1
    table = (n + 1) * pitch * S
    sizes = {
        "inner": table,
        "outer": table if posteriors else 0,
        "X": pairs,
        "dX": pairs if posteriors else 0,
        "counts": weights if posteriors else 0,
        "factors": n + 1,
        "ends": n + 1,
    }
    places: dict[str, int] = {}
    end = 0
    for name in Chart._fields[2:]:
        places[name] = end
        end += room(sizes.get(name, 1))
    return Chart(S, pitch, **places), end


@inlined
def weight(mem, weights, q):
    """Weight q in all lanes: one for all of them (W,), or one for each (W, lanes)."""
    if weights.ndim == 1:
        return fill(mem, weights[q])
    return load(weights, q)


@borrowing
def inside(mem, c, p, weights, n, watch):
    """Fill the chart, in which the matches are; ``watch``: also see what is the least value."""
    zero = fill(mem, 0.0)
    store(mem, c.exponents, zero)
    store(mem, c.least, fill(mem, 1.0))
    bound = zero
    for k in range(1, n + 1):
        _scale_words(mem, c, p, k)
        ends = any_lane(load(mem, c.ends + k))
        for i in range(k - 1, -1, -1):
            whole = i == 0 and ends
            if k > i + 1:
                products(mem, c, p, i, k, whole)
                bound = bound + _apply_rules(mem, c, p, weights, i, k, whole)
            bound = bound + _apply_unary(mem, c, p, weights, i, k, whole)
        if n > SCALED_FROM:
            _scale_column(mem, c, p, k)
        if watch:
            _watch_column(mem, c, p, k)
    store(mem, c.bound, bound)


@borrowing
def products(mem, c, p, i, k, whole):
    """X of all pairs for a span."""
    width = k - i
    step = c.pitch * c.S
    for b in range(len(p.blocks)):
        if p.blocks[b, 11] and not whole:
            continue
        low = max(p.blocks[b, 7], width - p.blocks[b, 10])
        high = min(p.blocks[b, 8], width - p.blocks[b, 9])
        if low > high:
            continue
        left = c.inner + (i * c.pitch + i + low) * c.S + p.blocks[b, 0]
        right = c.inner + ((i + low) * c.pitch + k) * c.S
        x, size = c.X + p.blocks[b, 1], p.blocks[b, 2]
        if size == 4:
            _products4(mem, c.S, step, left, right, high - low + 1, x, p.blocks[b])
        elif size == 2:
            _products2(mem, c.S, step, left, right, high - low + 1, x, p.blocks[b])
        else:
            total = fill(mem, 0.0)
            right += p.blocks[b, 3]
            for _ in range(high - low + 1):
                total = fma(load(mem, left), load(mem, right), total)
                left += c.S
                right += step
            store(mem, x, total)


@inlined
def _products4(mem, S, step, left, right, count, x, block):
    x0 = x1 = x2 = x3 = fill(mem, 0.0)
    r0, r1, r2, r3 = right + block[3], right + block[4], right + block[5], right + block[6]
    at = 0
    for _ in range(count):
        value = load(mem, left)
        x0 = fma(value, load(mem, r0 + at), x0)
        x1 = fma(value, load(mem, r1 + at), x1)
        x2 = fma(value, load(mem, r2 + at), x2)
        x3 = fma(value, load(mem, r3 + at), x3)
        left += S
        at += step
    store(mem, x, x0)
    store(mem, x + 1, x1)
    store(mem, x + 2, x2)
    store(mem, x + 3, x3)


@inlined
def _products2(mem, S, step, left, right, count, x, block):
    x0 = x1 = fill(mem, 0.0)
    r0, r1 = right + block[3], right + block[4]
    at = 0
    for _ in range(count):
        value = load(mem, left)
        x0 = fma(value, load(mem, r0 + at), x0)
        x1 = fma(value, load(mem, r1 + at), x1)
        left += S
        at += step
    store(mem, x, x0)
    store(mem, x + 1, x1)


@borrowing
def _apply_rules(mem, c, p, weights, i, k, whole):
    """Add weights times products to the cells of a span; returns the sum of all values."""
    bound = fill(mem, 0.0)
    here = c.inner + (i * c.pitch + k) * c.S
    for g in range(len(p.groups)):
        if (p.groups[g, 10] and not whole) or k - i < p.groups[g, 8] or k - i > p.groups[g, 9]:
            continue
        first, end, q = p.groups[g, 5], p.groups[g, 6], p.groups[g, 7]
        a0 = here + p.groups[g, 1]
        y0 = load(mem, a0)
        if p.groups[g, 0] == 1:
            y1 = fill(mem, 0.0)
            e = first
            while e + 1 < end:
                y0 = fma(load(mem, c.X + p.entries[e]), weight(mem, weights, q), y0)
                y1 = fma(load(mem, c.X + p.entries[e + 1]), weight(mem, weights, q + 1), y1)
                e += 2
                q += 2
            if e < end:
                y0 = fma(load(mem, c.X + p.entries[e]), weight(mem, weights, q), y0)
            y0 = y0 + y1
            store(mem, a0, y0)
            bound = bound + y0
        else:
            a1, a2, a3 = here + p.groups[g, 2], here + p.groups[g, 3], here + p.groups[g, 4]
            y1, y2, y3 = load(mem, a1), load(mem, a2), load(mem, a3)
            for e in range(first, end):
                x = load(mem, c.X + p.entries[e])
                y0 = fma(x, weight(mem, weights, q), y0)
                y1 = fma(x, weight(mem, weights, q + 1), y1)
                y2 = fma(x, weight(mem, weights, q + 2), y2)
                y3 = fma(x, weight(mem, weights, q + 3), y3)
                q += 4
            store(mem, a0, y0)
            store(mem, a1, y1)
            store(mem, a2, y2)
            store(mem, a3, y3)
            bound = bound + ((y0 + y1) + (y2 + y3))
    return bound


@inlined
def _apply_unary(mem, c, p, weights, i, k, whole):
    bound = fill(mem, 0.0)
    here = c.inner + (i * c.pitch + k) * c.S
    first = len(p.source) - len(p.unary)
    for u in range(len(p.unary)):
        if (p.unary[u, 4] and not whole) or k - i < p.unary[u, 2] or k - i > p.unary[u, 3]:
            continue
        parent = here + p.unary[u, 0]
        value = fma(load(mem, here + p.unary[u, 1]), weight(mem, weights, first + u), load(mem, parent))
        store(mem, parent, value)
        bound = bound + value
    return bound


@inlined
def _scale_words(mem, c, p, k):
    """Factors on the matches of column k: of word k so that the word alone has weights of about one, and of others."""
    here = c.inner + ((k - 1) * c.pitch + k) * c.S
    one = fill(mem, 1.0)
    top = fill(mem, 0.0)
    for A in range(p.S):
        top = maximum(load(mem, here + A), top)
    factor = one
    exponents = fill(mem, 0.0)
    for _ in range(6):  # exponents are clamped
        exponent = exponent_of(top * factor)
        exponents = exponents - exponent
        factor = power_of_two(exponents)
    store(mem, c.exponents, load(mem, c.exponents) + exponents)
    store(mem, c.factors + k, factor)
    for A in range(p.S):
        store(mem, here + A, load(mem, here + A) * factor)
    for i in range(k - 2, -1, -1):
        if len(p.multi) == 0:
            break
        factor = factor * load(mem, c.factors + i + 1)
        here = c.inner + (i * c.pitch + k) * c.S
        for s in range(len(p.multi)):
            cell = here + p.multi[s]
            store(mem, cell, load(mem, cell) * factor)


@inlined
def _scale_column(mem, c, p, k):
    """Multiply column k by a power of two: minus the mean exponent of its cells, empty ones counting as one."""
    total = fill(mem, 0.0)
    for i in range(k):
        here = c.inner + (i * c.pitch + k) * c.S
        top = fill(mem, 0.0)
        for A in range(p.S):
            top = maximum(load(mem, here + A), top)
        total = total + exponent_of(top)
    exponent = rounded(total * fill(mem, -1.0 / k))
    store(mem, c.exponents, load(mem, c.exponents) + exponent)
    factor = power_of_two(exponent)
    store(mem, c.factors + k, load(mem, c.factors + k) * factor)
    for i in range(k):
        here = c.inner + (i * c.pitch + k) * c.S
        for A in range(p.S):
            store(mem, here + A, load(mem, here + A) * factor)


@borrowing
def _watch_column(mem, c, p, k):
    """Keep the least value of column k that is not zero."""
    width = 64 // mem.itemsize
    for lane in range(width):
        least = mem[c.least * width + lane]
        for i in range(k):
            here = c.inner + (i * c.pitch + k) * c.S
            for A in range(p.S):
                value = mem[(here + A) * width + lane]
                if value != 0 and not value >= least:
                    least = value
        mem[c.least * width + lane] = least
