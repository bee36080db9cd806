# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The elimination of :mod:`.elimination` in plain numbers, eight sentences at once, and its reverse: arc marginals.

Every column is divided by its sum, so that it says where a random walk goes from a word: to its head. What is less
than a double can hold is lost. An error of a column grows by a factor of at most 1 + 2 max(a[k, d]) / s[k] when word k
is eliminated. So the product of these factors, and the least s[k], say in which sentences the range of floats
is enough. Of all others, log Z is NaN.
"""

# mypy: disable-error-code="no-untyped-def"
from typing import Any

import numpy as np
from numba import njit

from pyrogram.runtime.compiling import borrowing, kernel
from pyrogram.runtime.lanes import (
    exp,
    fill,
    fma,
    gather_cells,
    is_zero,
    load,
    log,
    maximum,
    scatter_cells,
    store,
)
from pyrogram.runtime.threads import run_workers, take

WIDTH = 8
_LEAST = np.finfo(np.float64).min
_LINE = 64  # bytes of a cache line, and of a cell
# Of the growth of errors divided by the least s[k]. What is lost is below 1e-307 of a column.
_GREATEST_GROWTH = 1e140


def _aligned(size: int, dtype: Any = np.float64) -> Any:
    """So many zeros, the first of which begins a cache line.

    A cell that straddles two lines costs twice as much to load, and far more to load soon after it was stored.
    """
    memory = np.zeros(size + _LINE // np.dtype(dtype).itemsize, dtype)
    skip = -memory.ctypes.data % _LINE // memory.itemsize
    return memory[skip : skip + size]


def log_counts(scores: Any, lengths: Any, multiroot: bool, counts: bool) -> tuple[Any, Any]:
    """Log Z, float64, ``(B,)``, NaN where the range of floats is not enough; and marginals in the shape of the scores.

    :param scores: float64 or float32, shape ``(B, n+1, n+1)`` [head, dependent].
    :param counts: whether marginals are wanted; else they have no elements.
    """
    B, N = scores.shape[:2]
    log_z = np.empty(B)
    marginals = np.zeros(scores.shape if counts else (0, N, N), scores.dtype)
    order = np.argsort(-lengths, kind="stable")

    def work(turns: Any) -> None:
        cells = _aligned(WIDTH * N * (3 * N + 5))
        _all_sums(turns, order, scores, lengths, multiroot, counts, cells, log_z, marginals)

    run_workers(work, cost=float(B * N**2 * (N + 50)))
    return log_z, marginals


@kernel
def _all_sums(turns, order, scores, lengths, multiroot, counts, cells, log_z, marginals):
    N = scores.shape[1]
    table, row = WIDTH * N * N, WIDTH * N
    weights, arcs, adjoints = cells[:table], cells[table : 2 * table], cells[2 * table : 3 * table]
    rows = cells[3 * table :]
    root, inverses, are_bound = rows[:row], rows[row : 2 * row], rows[2 * row : 3 * row]
    root_adjoints, norms = rows[3 * row : 4 * row], rows[4 * row :]
    flat, flat_marginals = scores.reshape(scores.size), marginals.reshape(marginals.size)
    known, offsets = np.zeros(4 * WIDTH), np.zeros(WIDTH, np.int64)
    for _ in range(len(order)):
        first = WIDTH * take(turns)
        if first >= len(order):
            break
        sentences = order[first : first + WIDTH]
        n = lengths[sentences[0]]
        _read(flat, lengths, sentences, n, N, offsets, weights)
        total = _normalise(n, N, multiroot, weights, arcs, root, norms)
        for lane in range(WIDTH):  # words in the padding hang on ROOT
            m = lengths[sentences[lane]] if lane < len(sentences) else 0
            for d in range(m + 1, n + 1):
                arcs[d * WIDTH + lane] = 1.0
        _eliminate(n, N, arcs, root, inverses, are_bound, known)
        total = total + load(known, 0)
        store(known, 0, total)
        for lane in range(len(sentences)):
            b = sentences[lane]
            value, growth = known[lane], known[WIDTH + lane]
            num_bound, impossible = known[2 * WIDTH + lane], known[3 * WIDTH + lane]
            usual = 0 if multiroot else 1  # the last word to be eliminated
            is_enough = growth < _GREATEST_GROWTH
            if is_enough and (impossible > 0 or num_bound > usual or are_bound[WIDTH + lane] != usual):
                is_enough = _zeros_are_zeros(scores[b], lengths[b], multiroot, are_bound[lane::WIDTH], impossible)
            if not is_enough:
                log_z[b] = np.nan
            elif impossible > 0 or not (multiroot or num_bound == 1):
                log_z[b] = -np.inf
            else:
                log_z[b] = value
        if counts:
            _reverse(n, N, arcs, root, inverses, are_bound, adjoints, root_adjoints)
            _write(n, N, multiroot, weights, adjoints, root_adjoints, len(sentences), offsets, flat_marginals)
            for b in sentences:
                if not log_z[b] > -np.inf:
                    marginals[b] = 0


@borrowing
def _read(scores, lengths, sentences, n, N, offsets, weights):
    """Cell (h, d) from the scores of eight sentences; -inf where there is no arc."""
    for lane in range(WIDTH):
        offsets[lane] = sentences[min(lane, len(sentences) - 1)] * N * N
    for h in range(n + 1):
        d = 0
        while d + 8 <= n + 1:
            gather_cells(weights, h * N + d, scores, offsets, h * N + d)
            d += 8
        while d <= n:
            for lane in range(WIDTH):
                weights[(h * N + d) * WIDTH + lane] = scores[offsets[lane] + h * N + d]
            d += 1
    for lane in range(WIDTH):
        m = lengths[sentences[lane]] if lane < len(sentences) else 0
        for h in range(n + 1):
            weights[(h * N + h) * WIDTH + lane] = -np.inf
            for d in range(1 if h > m else m + 1, n + 1):
                weights[(h * N + d) * WIDTH + lane] = -np.inf


@borrowing
def _normalise(n, N, multiroot, weights, arcs, root, norms):
    """Weights from scores, of which the columns add up to 1; :returns: the log of what they are divided by.

    With one root, arcs from ROOT are not in the sums, and the greatest of them has the weight 1.
    """
    zero, one = fill(weights, 0.0), fill(weights, 1.0)
    begin = 0 if multiroot else 1
    total, greatest = zero, fill(weights, _LEAST)
    for d in range(1, n + 1):
        peak = fill(weights, _LEAST)
        for h in range(begin, n + 1):
            peak = maximum(load(weights, h * N + d), peak)
        column = zero
        for h in range(begin, n + 1):
            weight = exp(load(weights, h * N + d) - peak)
            column = column + weight
            store(weights, h * N + d, weight)
        empty = is_zero(column)
        inverse = one / (column + empty)
        for h in range(begin, n + 1):
            weight = load(weights, h * N + d) * inverse
            store(weights, h * N + d, weight)
            store(arcs, h * N + d, weight)
        norm = fma(peak, one - empty, log(column + empty))
        total = total + norm
        store(norms, d, norm)
        if not multiroot:
            greatest = maximum(load(weights, d) - norm, greatest)
    for d in range(1, n + 1):
        if multiroot:
            store(root, d, zero)
        else:
            weight = exp(load(weights, d) - load(norms, d) - greatest)
            store(weights, d, weight)
            store(root, d, weight)
            store(arcs, d, zero)
    return total if multiroot else total + greatest


@borrowing
def _add_products(x, y, first, step, count, source, source_step, shared, shared_step, times):
    """x[first + i step] += sum over t of x[source + i step + t source_step] y[shared + t shared_step], for i < count.

    Four at a time, which share what they read of y.
    """
    i = 0
    while i + 4 <= count:
        at, from_ = first + i * step, source + i * step
        a, b, c, d = load(x, at), load(x, at + step), load(x, at + 2 * step), load(x, at + 3 * step)
        for t in range(times):
            factor, place = load(y, shared + t * shared_step), from_ + t * source_step
            a, b = fma(load(x, place), factor, a), fma(load(x, place + step), factor, b)
            c, d = fma(load(x, place + 2 * step), factor, c), fma(load(x, place + 3 * step), factor, d)
        store(x, at, a)
        store(x, at + step, b)
        store(x, at + 2 * step, c)
        store(x, at + 3 * step, d)
        i += 4
    while i < count:
        total = load(x, first + i * step)
        for t in range(times):
            total = fma(load(x, source + i * step + t * source_step), load(y, shared + t * shared_step), total)
        store(x, first + i * step, total)
        i += 1


@borrowing
def _eliminate(n, N, arcs, root, inverses, are_bound, known):
    """Into ``known``: the log of the product of all s[k], the growth of errors, how many words are bound, and zeros.

    In place of its arcs, each word's column then has its shares a[h, k] / s[k]. What the words after k add to its arcs
    is added when it is eliminated itself.
    """
    zero, one, two = fill(arcs, 0.0), fill(arcs, 1.0), fill(arcs, 2.0)
    total, growth, greatest_inverse, num_bound, impossible = zero, one, one, zero, zero
    for k in range(n, 0, -1):
        after = k + 1
        _add_products(arcs, arcs, k, N, k, after, 1, after * N + k, N, n - k)  # a[h, k] += a[h, j] a[j, k]
        _add_products(arcs, arcs, k * N + 1, 1, k - 1, after * N + 1, N, k * N + after, 1, n - k)  # and a[k, d]
        _add_products(root, arcs, k, 1, 1, after, 1, after * N + k, N, n - k)
        s, greatest = zero, zero
        for h in range(k):
            s = s + load(arcs, h * N + k)
        for d in range(1, k):
            greatest = maximum(load(arcs, k * N + d), greatest)
        is_bound = is_zero(s)
        factor = fma(is_bound, load(root, k), s)
        nothing = is_zero(factor)
        factor = factor + nothing
        inverse = one / factor
        share = inverse * (one - is_bound)
        for h in range(k):
            store(arcs, h * N + k, load(arcs, h * N + k) * share)
        store(arcs, k, load(arcs, k) + is_bound)
        store(root, k, load(root, k) * share)
        store(inverses, k, inverse)
        store(are_bound, k, is_bound)
        total = total + log(factor)
        growth = growth * fma(two * greatest, inverse, one)
        greatest_inverse = maximum(inverse, greatest_inverse)
        num_bound = num_bound + is_bound
        impossible = impossible + nothing
    store(known, 0, total)
    store(known, 1, growth * greatest_inverse)
    store(known, 2, num_bound)
    store(known, 3, impossible)


@njit(nogil=True)
def _zeros_are_zeros(scores, n, multiroot, are_bound, impossible):
    """Whether what was found to have no weight has none, rather than less than a number can hold."""
    arcs = np.zeros((n + 1, n + 1), np.bool_)  # whether there is one, of order 0
    root = np.zeros(n + 1, np.bool_)  # and of order 1
    for d in range(1, n + 1):
        for h in range(n + 1):
            if h != d and scores[h, d] > -np.inf:
                if h == 0 and not multiroot:
                    root[d] = True
                else:
                    arcs[h, d] = True
    nothing = False
    for k in range(n, 0, -1):
        is_bound = not arcs[:k, k].any()
        if is_bound != (are_bound[k] > 0):
            return False
        if is_bound:
            nothing |= not root[k]
            arcs[0, k] = True
        else:
            for d in range(1, k):
                root[d] |= root[k] and arcs[k, d]
        for h in range(k):
            if arcs[h, k]:
                for d in range(1, k):
                    arcs[h, d] |= arcs[k, d]
    return nothing == (impossible > 0)


@borrowing
def _reverse(n, N, arcs, root, inverses, are_bound, adjoints, root_adjoints):
    """The derivatives of log Z by all arcs as they were at first, from what the elimination has left.

    The derivative by a share is a sum of positive numbers, too. From it the mean is subtracted, which has no terms
    that are greater than a probability times a number of words.
    """
    zero, one = fill(arcs, 0.0), fill(arcs, 1.0)
    for k in range(1, n + 1):
        for h in range(k):
            store(adjoints, h * N + k, zero)
        store(root_adjoints, k, zero)
        # By the shares: of a word its arcs, each times how much comes by way of k.
        _add_products(adjoints, arcs, k, N, k, 1, 1, k * N + 1, 1, k - 1)
        _add_products(root_adjoints, arcs, k, 1, 1, 1, 1, k * N + 1, 1, k - 1)
        # By the arcs out of k: of ROOT and of all words their arcs, each times the share of k.
        for d in range(1, k):
            store(adjoints, k * N + d, load(root, k) * load(root_adjoints, d))
        _add_products(adjoints, arcs, k * N + 1, 1, k - 1, 1, N, k, N, k)
        mean = load(root, k) * load(root_adjoints, k)
        for h in range(k):
            mean = fma(load(arcs, h * N + k), load(adjoints, h * N + k), mean)
        is_bound = load(are_bound, k)
        inverse = load(inverses, k)
        share = inverse * (one - is_bound)
        for h in range(k):
            store(adjoints, h * N + k, (one + load(adjoints, h * N + k) - mean) * share)
        store(root_adjoints, k, fma(load(root_adjoints, k), share, inverse * is_bound))


@borrowing
def _write(n, N, multiroot, weights, adjoints, root_adjoints, num_sentences, offsets, marginals):
    """Marginals, arc by arc: weight times derivative."""
    zero = fill(weights, 0.0)
    for h in range(n + 1):
        store(weights, h * N, zero)
        for d in range(1, n + 1):
            adjoint = load(adjoints, h * N + d) if h > 0 or multiroot else load(root_adjoints, d)
            store(weights, h * N + d, maximum(load(weights, h * N + d) * adjoint, zero))
        d = 0
        while d + 8 <= n + 1 and num_sentences == WIDTH:
            scatter_cells(weights, h * N + d, marginals, offsets, h * N + d)
            d += 8
        while d <= n:
            for lane in range(num_sentences):
                marginals[offsets[lane] + h * N + d] = weights[(h * N + d) * WIDTH + lane]
            d += 1
