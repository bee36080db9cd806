# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The elimination of :mod:`.elimination` in plain numbers, eight sentences at once, and its reverse: arc marginals.

Every column is divided by its sum, so that it says where a random walk goes from a word: to its head. What is less
than a double can hold is lost. An error of a column grows by a factor of at most 1 + 2 max(a[k, d]) / s[k] when word k is
eliminated. So the product of these factors, and the least s[k], say of which sentences log Z and marginals can be
trusted. Of all others, log Z is NaN.
"""

# mypy: disable-error-code="no-untyped-def"
from typing import Any

import numpy as np
from numba import njit

from pyrogram.charts.lanes_log import log
from pyrogram.charts.runtime.compiling import kernel
from pyrogram.charts.runtime.lanes import exp, fill, fma, is_zero, load, maximum, store
from pyrogram.charts.runtime.lanes_memory import aligned
from pyrogram.charts.runtime.threads import run_workers, take

WIDTH = 8
_LEAST = np.finfo(np.float64).min
# Of the growth of errors divided by the least s[k]. What is lost is below 1e-307 of a column.
_GREATEST_GROWTH = 1e140


def log_counts(scores: Any, lengths: Any, multiroot: bool, counts: bool) -> tuple[Any, Any]:
    """Log Z, float64, shape ``(B,)``, NaN where it cannot be trusted; and arc marginals in the shape of the scores.

    :param scores: float64 or float32, shape ``(B, n+1, n+1)`` [head, dependent].
    :param counts: whether marginals are wanted; else they have no elements.
    """
    B, N = scores.shape[:2]
    log_z = np.empty(B)
    marginals = np.zeros(scores.shape if counts else (0, N, N), scores.dtype)
    order = np.argsort(-lengths, kind="stable")

    def work(turns: Any) -> None:
        cells = [aligned(8 * size) for size in (N * N, N * N, N * N, N, N, N, N, N)]
        _all_sums(turns, order, scores, lengths, multiroot, counts, tuple(cells), log_z, marginals)

    run_workers(work, cost=float(B * N**2 * (N + 50)))
    return log_z, marginals


@kernel
def _all_sums(turns, order, scores, lengths, multiroot, counts, cells, log_z, marginals):
    weights, arcs, adjoints, root, inverses, are_root_words, root_adjoints, norms = cells
    N = scores.shape[1]
    known = np.zeros(4 * WIDTH)
    for _ in range(len(order)):
        first = WIDTH * take(turns)
        if first >= len(order):
            break
        sentences = order[first : first + WIDTH]
        n = lengths[sentences[0]]
        _read(scores, lengths, sentences, n, weights)
        total = _normalise(n, N, multiroot, weights, arcs, root, norms)
        for lane in range(WIDTH):  # words in the padding hang on ROOT
            m = lengths[sentences[lane]] if lane < len(sentences) else 0
            for d in range(m + 1, n + 1):
                arcs[d * WIDTH + lane] = 1.0
        _eliminate(n, N, multiroot, arcs, root, inverses, are_root_words, known)
        total = total + load(known, 0)
        store(known, 0, total)
        for lane in range(len(sentences)):
            b = sentences[lane]
            value, growth = known[lane], known[WIDTH + lane]
            root_words, impossible = known[2 * WIDTH + lane], known[3 * WIDTH + lane]
            usual = 0 if multiroot else 1  # the last word to be eliminated
            trusted = growth < _GREATEST_GROWTH
            if trusted and (impossible > 0 or root_words > usual or not are_root_words[WIDTH + lane] == usual):
                trusted = _zeros_are_zeros(scores[b], lengths[b], multiroot, are_root_words[lane::WIDTH], impossible)
            if not trusted:
                log_z[b] = np.nan
            elif impossible > 0 or not (multiroot or root_words == 1):
                log_z[b] = -np.inf
            else:
                log_z[b] = value
        if counts:
            _reverse(n, N, arcs, root, inverses, are_root_words, adjoints, root_adjoints)
            _write(n, multiroot, weights, adjoints, root_adjoints, lengths, sentences, log_z, marginals)


@njit(nogil=True)
def _read(scores, lengths, sentences, n, weights):
    """Cell (h, d) from the scores of eight sentences; -inf where there is no arc."""
    N = scores.shape[1]
    for lane in range(WIDTH):
        b = sentences[min(lane, len(sentences) - 1)]
        m = lengths[b] if lane < len(sentences) else 0
        for h in range(n + 1):
            for d in range(1, n + 1):
                there = h <= m and d <= m and h != d
                weights[(h * N + d) * WIDTH + lane] = scores[b, h, d] if there else -np.inf


@njit(nogil=True)
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


@njit(nogil=True)
def _eliminate(n, N, multiroot, arcs, root, inverses, are_root_words, known):
    """Into ``known``: the log of the product of all s[k], the growth of errors, how many root words, and zeros.

    In place of its arcs, each word's column then has its shares a[h, k] / s[k].
    """
    zero, one, two = fill(arcs, 0.0), fill(arcs, 1.0), fill(arcs, 2.0)
    total, growth, greatest_inverse, root_words, impossible = zero, one, one, zero, zero
    for k in range(n, 0, -1):
        s = zero
        for h in range(k):
            s = s + load(arcs, h * N + k)
        is_root_word = is_zero(s)
        inverse = one / (s + is_root_word)
        share_of_root = load(root, k) * inverse * (one - is_root_word)
        greatest = zero
        for d in range(1, k):
            row = load(arcs, k * N + d)
            greatest = maximum(row, greatest)
            store(root, d, fma(share_of_root, row, load(root, d)))
        for h in range(k):
            share = load(arcs, h * N + k) * inverse
            if h == 0:
                share = share + is_root_word
            store(arcs, h * N + k, share)
            for d in range(1, k):
                store(arcs, h * N + d, fma(share, load(arcs, k * N + d), load(arcs, h * N + d)))
        store(inverses, k, inverse)
        store(are_root_words, k, is_root_word)
        factor = fma(is_root_word, load(root, k), s)
        nothing = is_zero(factor)
        factor = factor + nothing
        total = total + log(factor)
        growth = growth * fma(two * greatest, one / factor, one)
        greatest_inverse = maximum(one / factor, greatest_inverse)
        root_words = root_words + is_root_word
        impossible = impossible + nothing
    store(known, 0, total)
    store(known, 1, growth * greatest_inverse)
    store(known, 2, root_words)
    store(known, 3, impossible)


@njit(nogil=True)
def _zeros_are_zeros(scores, n, multiroot, are_root_words, impossible):
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
        is_root_word = not arcs[:k, k].any()
        if is_root_word != (are_root_words[k] > 0):
            return False
        if is_root_word:
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


@njit(nogil=True)
def _reverse(n, N, arcs, root, inverses, are_root_words, adjoints, root_adjoints):
    """The derivatives of log Z by all arcs as they were at first, from what the elimination has left.

    The derivative by a share is a sum of positive numbers, too. From it the mean is subtracted, which has no terms
    that are greater than a probability times a number of words.
    """
    zero, one = fill(arcs, 0.0), fill(arcs, 1.0)
    for k in range(1, n + 1):
        is_root_word = load(are_root_words, k)
        scale = load(inverses, k) * (one - is_root_word)
        share_of_root = load(root, k) * scale
        by_share_of_root = zero
        for d in range(1, k):
            adjoint = load(root_adjoints, d)
            by_share_of_root = fma(adjoint, load(arcs, k * N + d), by_share_of_root)
            store(adjoints, k * N + d, adjoint * share_of_root)
        mean = share_of_root * by_share_of_root
        for h in range(k):
            share, by_share = load(arcs, h * N + k), zero
            for d in range(1, k):
                adjoint = load(adjoints, h * N + d)
                by_share = fma(adjoint, load(arcs, k * N + d), by_share)
                store(adjoints, k * N + d, fma(adjoint, share, load(adjoints, k * N + d)))
            store(adjoints, h * N + k, by_share)
            mean = fma(share, by_share, mean)
        for h in range(k):
            store(adjoints, h * N + k, (one + load(adjoints, h * N + k) - mean) * scale)
        weight = load(root, k)
        store(root_adjoints, k, fma(by_share_of_root, scale, is_root_word / (weight + is_zero(weight))))


@njit(nogil=True)
def _write(n, multiroot, weights, adjoints, root_adjoints, lengths, sentences, log_z, marginals):
    """Marginals, arc by arc: weight times derivative."""
    N = marginals.shape[1]
    zero = fill(weights, 0.0)
    for d in range(1, n + 1):
        for h in range(n + 1):
            adjoint = load(adjoints, h * N + d) if h > 0 or multiroot else load(root_adjoints, d)
            store(weights, h * N + d, maximum(load(weights, h * N + d) * adjoint, zero))
    for lane in range(len(sentences)):
        b = sentences[lane]
        m = lengths[b]
        if log_z[b] > -np.inf:
            for h in range(m + 1):
                for d in range(1, m + 1):
                    marginals[b, h, d] = weights[(h * N + d) * WIDTH + lane]
