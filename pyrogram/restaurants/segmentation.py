# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Words of utterances under a hierarchy of restaurants: one pass of blocked sampling over all segmentations.

Mochihashi, Yamada and Ueda (2009), section 4.2. The words of one utterance leave the restaurants; the sums of all
segmentations whose last word has k symbols are filled from left to right,

    A[t, k] = sum_j P(y[t-k .. t] | y[t-k-j .. t-k]) A[t-k, j],

and a segmentation is drawn from right to left. P are the predictive probabilities of the other utterances, which do not
change within this one. The words are seated one after the other, with probabilities that do; the ratio of the two is
judged by Metropolis and Hastings, with the seats as part of the state (see :mod:`.trials`). So the posterior of words
and seats is invariant. With one level no word has a context, and the sum over j is one number for each position.

Context 0 of level 0 holds all words; contexts of level 1 are words, and the utterance's end, which is a word, too.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from pyrogram.restaurants.seats import DONE, probability
from pyrogram.restaurants.tables import CONTEXTS, Arrays, add_context, find_context, find_dish
from pyrogram.restaurants.trials import has_room_for, leave, put_back, seat_noting
from pyrogram.runtime.arrays import Array
from pyrogram.runtime.compiling import borrowing, kernel
from pyrogram.runtime.random_numbers import choose, uniform

PROPOSED, ACCEPTED, CHANGED = range(3)  # what a pass counts


class Text(NamedTuple):
    """All utterances, one after the other: T symbols of N utterances, words of at most L symbols."""

    spans: Any  # (T, L) int32: the word of k + 1 symbols that begins at a position; -1 where the utterance is shorter
    starts: Any  # (N + 1,) int64: where utterances begin
    ends: Any  # (T,) int8: whether a word ends after a symbol; -1 in utterances that are not seated
    end: int  # the end of an utterance, as a word


class Chart(NamedTuple):
    """Sums over segmentations of the first t symbols, t = 0 .. n, those of a position scaled by a power of two."""

    sums: Any  # (n + 1, L): the last word has k + 1 symbols
    exponents: Any  # (n + 1,) int64: of the scale
    contexts: Any  # (n + 1, L) int32: the context that the last word is, if it has been one; else -1
    others: Any  # (n + 1,): the sum over all words that are no context
    terms: Any  # (L,): scratch


class Process(NamedTuple):
    """How words are distributed."""

    concentration: Any  # (levels,)
    discount: Any  # (levels,)
    more: float  # the probability that an utterance goes on after a word, if that is no word's; else 1
    power: float  # of probabilities: one over the temperature


# ---------------------------------------------------------------------- probabilities given other utterances


@borrowing
def _context(a: Arrays, process: Process, w: int) -> int:
    """The context that a word is, if something was observed in it; else -1."""
    if len(process.concentration) == 1:
        return -1
    h = find_context(a, 1, w)
    return h if h >= 0 and a.customers[h] > 0 else -1


@borrowing
def _alone(a: Arrays, process: Process, root: int, w: int) -> float:
    """P(w) without a context."""
    return probability(a, root, w, process.concentration, process.discount)


@borrowing
def _predictive(a: Arrays, process: Process, h: int, w: int, alone: float) -> float:
    """P(w | h) to the power that is asked for; h = -1 is a context without observations.

    :param alone: P(w) without a context.
    """
    p = alone
    if h >= 0:
        alpha, epsilon = process.concentration[1], process.discount[1]
        d = find_dish(a, h, w)
        old = a.c[d] - epsilon * a.t[d] if d >= 0 else 0.0
        p = (old + (alpha + epsilon * a.tables[h]) * alone) / (alpha + a.customers[h])
    p *= process.more
    return p if process.power == 1.0 else p**process.power


@borrowing
def _log_q(a: Arrays, text: Text, process: Process, u: int, ends: Array) -> float:
    """The log probability with which a segmentation is proposed, up to a constant of the utterance.

    :param ends: (n,), whether a word ends after each symbol.
    """
    start, root = text.starts[u], find_context(a, 0, 0)
    h, begin, total = _context(a, process, text.end), 0, 0.0
    for i in range(text.starts[u + 1] - start):
        if ends[i]:
            w = text.spans[start + begin, i - begin]
            total += math.log(_predictive(a, process, h, w, _alone(a, process, root, w)))
            h, begin = _context(a, process, w), i + 1
    if len(process.concentration) > 1:
        total += math.log(_predictive(a, process, h, text.end, _alone(a, process, root, text.end)))
    return total


# ---------------------------------------------------------------------- all segmentations


@borrowing
def _fill(a: Arrays, text: Text, process: Process, u: int, chart: Chart) -> None:
    """The sums A[t, k] of an utterance."""
    start, n, L = text.starts[u], text.starts[u + 1] - text.starts[u], len(chart.terms)
    root = find_context(a, 0, 0)
    chart.sums[0, 0], chart.exponents[0], chart.contexts[0, 0] = 1.0, 0, _context(a, process, text.end)
    chart.others[0] = 1.0 if chart.contexts[0, 0] < 0 else 0.0
    for t in range(1, n + 1):
        greatest = 0.0
        for k in range(min(L, t)):
            before = t - k - 1
            w = text.spans[start + before, k]
            alone = _alone(a, process, root, w)
            total = chart.others[before] * _predictive(a, process, -1, w, alone)
            for j in range(min(L, max(before, 1))):
                h = chart.contexts[before, j]
                if h >= 0:
                    total += chart.sums[before, j] * _predictive(a, process, h, w, alone)
            chart.sums[t, k] = math.ldexp(total, chart.exponents[before] - chart.exponents[t - 1])
            greatest = max(greatest, chart.sums[t, k])
        shift = math.frexp(greatest)[1]
        chart.exponents[t], chart.others[t] = chart.exponents[t - 1] + shift, 0.0
        for k in range(min(L, t)):
            chart.sums[t, k] = math.ldexp(chart.sums[t, k], -shift)
            chart.contexts[t, k] = _context(a, process, text.spans[start + t - k - 1, k])
            if chart.contexts[t, k] < 0:
                chart.others[t] += chart.sums[t, k]


@borrowing
def _draw(a: Arrays, text: Text, process: Process, u: int, chart: Chart, state: Array, ends: Array) -> None:
    """A segmentation in proportion to its product of probabilities, into ``ends``, (n,)."""
    start, L, root = text.starts[u], len(chart.terms), find_context(a, 0, 0)
    t, w = text.starts[u + 1] - start, text.end
    ends[:t] = 0
    last = len(process.concentration) == 1  # the end of an utterance has no probability of its own then
    while t > 0:
        ends[t - 1] = 1
        alone = _alone(a, process, root, w)
        for j in range(min(L, t)):
            p = 1.0 if last else _predictive(a, process, chart.contexts[t, j], w, alone)
            chart.terms[j] = chart.sums[t, j] * p
        k = choose(chart.terms, min(L, t), state)
        t, last = t - k - 1, False
        w = text.spans[start + t, k]


# ---------------------------------------------------------------------- seats


@borrowing
def _list_words(text: Text, u: int, ends: Array, levels: int, words: Array) -> int:
    """The words of a segmentation, with two levels its end, too; returns how many."""
    start, begin, number = text.starts[u], 0, 0
    for i in range(text.starts[u + 1] - start):
        if ends[i]:
            words[number] = text.spans[start + begin, i - begin]
            number, begin = number + 1, i + 1
    if levels > 1:
        words[number] = text.end
        number += 1
    return number


@borrowing
def _place(a: Arrays, levels: int, before: int) -> int:
    """The finest context after a word, made if need be."""
    root = find_context(a, 0, 0)
    if root < 0:
        root = add_context(a, 0, 0, -1)
    if levels == 1:
        return root
    h = find_context(a, 1, before)
    return h if h >= 0 else add_context(a, 1, before, root)


@borrowing
def _seat_words(a: Arrays, process: Process, end: int, words: Array, number: int, notes: Array, state: Array) -> float:
    """Seat words one after the other; returns their log probability."""
    total = 0.0
    for i in range(number):
        h = _place(a, len(process.concentration), words[i - 1] if i else end)
        p = seat_noting(a, h, words[i], process.concentration, process.discount, state, notes[i])
        total += math.log(p * process.more)
    return total


@borrowing
def _unseat_words(
    a: Arrays, process: Process, end: int, words: Array, number: int, notes: Array, state: Array
) -> float:
    """Unseat words, the last one first, from tables drawn in proportion to their sizes; returns log probabilities."""
    total = 0.0
    for i in range(number - 1, -1, -1):
        h = _place(a, len(process.concentration), words[i - 1] if i else end)
        leave(a, h, words[i], notes[i], True, state)
        p = probability(a, h, words[i], process.concentration, process.discount)
        total += math.log(p * process.more)
    return total


@kernel
def resample(a: Arrays, text: Text, process: Process, state: Array, first: int, counts: Array) -> int:
    """Propose a segmentation of every utterance in turn, given all others, and judge it; those not seated are drawn.

    :param counts: (3,), added to: proposals, those that were accepted, and those of them that changed something.
    :returns: the utterance for which there was no room, or DONE.
    """
    levels, L = len(process.concentration), text.spans.shape[1]
    n = 0
    for u in range(first, len(text.starts) - 1):
        n = max(n, text.starts[u + 1] - text.starts[u])
    chart = Chart(
        np.zeros((n + 1, L)),
        np.zeros(n + 1, np.int64),
        np.full((n + 1, L), -1, np.int32),
        np.zeros(n + 1),
        np.zeros(L),
    )
    drawn = np.zeros(n, np.int8)
    old, new = np.zeros(n + 1, np.int32), np.zeros(n + 1, np.int32)
    old_notes, new_notes = np.zeros((n + 1, levels), np.int32), np.zeros((n + 1, levels), np.int32)
    for u in range(first, len(text.starts) - 1):
        ends = text.ends[text.starts[u] : text.starts[u + 1]]
        n = len(ends)
        if a.used[CONTEXTS] + n + 2 > len(a.keys) or not has_room_for(a, levels, 2 * (n + 1)):
            return u
        seated = ends[n - 1] == 1
        log_ratio, number = 0.0, 0
        if seated:
            number = _list_words(text, u, ends, levels, old)
            log_ratio -= process.power * _unseat_words(a, process, text.end, old, number, old_notes, state)
            log_ratio += _log_q(a, text, process, u, ends)
        _fill(a, text, process, u, chart)
        _draw(a, text, process, u, chart, state, drawn)
        log_ratio -= _log_q(a, text, process, u, drawn)
        more = _list_words(text, u, drawn, levels, new)
        log_ratio += process.power * _seat_words(a, process, text.end, new, more, new_notes, state)
        counts[PROPOSED] += seated
        if seated and math.log(1.0 - uniform(state)) >= log_ratio:
            for i in range(more - 1, -1, -1):
                leave(a, _place(a, levels, new[i - 1] if i else text.end), new[i], new_notes[i], False, state)
            for i in range(number):
                put_back(a, _place(a, levels, old[i - 1] if i else text.end), old[i], old_notes[i])
            continue
        counts[ACCEPTED] += seated
        changed = False
        for i in range(n):
            changed |= ends[i] != drawn[i]
            ends[i] = drawn[i]
        counts[CHANGED] += seated and changed
    return DONE


@kernel
def seat_all(a: Arrays, text: Text, process: Process, state: Array, first: int) -> int:
    """Seat the utterances from ``first`` on, as ``text.ends`` has their words.

    :returns: the utterance for which there was no room, or DONE.
    """
    levels, n = len(process.concentration), 0
    for u in range(first, len(text.starts) - 1):
        n = max(n, text.starts[u + 1] - text.starts[u])
    words, notes = np.zeros(n + 1, np.int32), np.zeros((n + 1, levels), np.int32)
    for u in range(first, len(text.starts) - 1):
        ends = text.ends[text.starts[u] : text.starts[u + 1]]
        if a.used[CONTEXTS] + len(ends) + 2 > len(a.keys) or not has_room_for(a, levels, len(ends) + 1):
            return u
        number = _list_words(text, u, ends, levels, words)
        _seat_words(a, process, text.end, words, number, notes, state)
    return DONE
