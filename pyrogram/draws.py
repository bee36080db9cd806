# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Grammars that go from the top down, from the left: ancestral draws, and what is a derivation.

A sentence is a stack of symbols, at first the start symbol alone. The symbol on top has one multinomial, whose event
replaces it by a right side: words, which are said, and symbols. Context-free rules of any form do this, and so do
hidden Markov models and the DMV, see :mod:`pyrogram.grammars.expansions`.
"""

# mypy: disable-error-code="no-untyped-def"
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numba import njit
from torch import Tensor

from pyrogram.checks import too_long
from pyrogram.printable import plural
from pyrogram.runtime.arrays import Array
from pyrogram.runtime.compiling import kernel
from pyrogram.runtime.random_numbers import draw_event, seed_stream, uniform

__all__ = [
    "Draws",
    "FlatRules",
    "ancestral",
    "depths",
    "is_derivation",
    "other_child",
]

NEVER = 2**40  # how few words a symbol comes to that cannot end


class FlatRules(NamedTuple):
    """Rules as arrays.

    :param start: the nonterminal of a whole sentence.
    :param first: shape (K + 1,); rules of nonterminal A are ``first[A]:first[A + 1]``.
    :param right: the right side of each rule, shape (R,), int32; those of context-free rules are numbered as they are.
        The last rule of a nonterminal may have -x instead: it stands for x right sides in equal parts, those that the
        rules before it, whose right sides increase, have not.
    :param offsets: shape (Q + 1,); right side q is ``symbols[offsets[q]:offsets[q + 1]]``.
    :param symbols: nonterminals as they are, terminal w as -1 - w.
    :param widths: where classes of distances begin, in words; none: nothing depends on distances.
    :param by_distance: from this nonterminal on, there are groups of one nonterminal for each class. The first of a
        group is as it is, and begins to count words; any other stands for the one whose class is that of their number.
    """

    start: int
    first: Array
    right: Array
    offsets: Array
    symbols: Array
    widths: Array = np.empty(0, np.int64)
    by_distance: int = 0

    @classmethod
    def of(cls, lhs: Sequence[int], rhs: Sequence[Sequence[int]], start: int) -> "FlatRules":
        """Context-free rules.

        :param lhs: not decreasing.
        """
        first = np.searchsorted(lhs, np.arange(max(lhs) + 2)).astype(np.int64)
        offsets = np.cumsum([0, *map(len, rhs)])
        return cls(start, first, np.arange(len(rhs), dtype=np.int32), offsets, np.array([s for r in rhs for s in r]))

    @property
    def lhs(self) -> Array:
        """Shape (R,)."""
        return np.repeat(np.arange(len(self.first) - 1), np.diff(self.first))

    def same(self, other: "FlatRules") -> bool:
        """Whether these are the same rules in the same order."""
        pairs: Any = zip(self, other, strict=True)
        return self is other or all(np.array_equal(x, y) for x, y in pairs)


class Draws(NamedTuple):
    """Which sentences are drawn.

    :param model: the grammar of each, shape (S,).
    :param max_length: the most words that it may have.
    :param cut: where the event that was drawn would make a sentence too long, take the one that ends it soonest.
    :param tries: how often a sentence is drawn, if it was too long.
    """

    model: Int[Tensor, "S"]
    max_length: int
    cut: bool
    tries: int


def is_derivation(ids: Int[Tensor, "S L"], words: Int[Tensor, "S n"], rules: FlatRules) -> Bool[Tensor, "S"]:
    """Whether event ids, padded with -1 on the right, are a leftmost derivation of words, padded likewise."""
    valid = np.zeros(len(ids), np.bool_)
    _check_all(_array(ids), _array(words), rules, valid)
    return torch.from_numpy(valid).to(ids.device)


def depths(ids: Int[Tensor, "S L"], rules: FlatRules) -> Int[Tensor, "S"]:
    """Nonterminals from the root to the one that is farthest from it, both counted, of leftmost derivations.

    :param ids: derivations, padded with -1 on the right.
    :raises ValueError: for numbers that are no rules.
    """
    if len(ids) and ids.shape[1] and int(ids.max()) >= len(rules.right):
        raise ValueError(f"derivations must have rules 0..{len(rules.right) - 1}, not {int(ids.max())}")
    children = np.add.reduceat((rules.symbols >= 0).astype(np.int64), rules.offsets[:-1])
    deepest = np.zeros(len(ids), np.int64)
    _depths(_array(ids), children, deepest)
    return torch.from_numpy(deepest).to(ids.device)


def ancestral(
    tables: Sequence[Float[Tensor, "G *block"]],
    draws: Draws,
    rules: FlatRules,
    names: tuple[str, str] = ("sentence", "word"),
) -> tuple[Int[Tensor, "S n"], Int[Tensor, "S L"]]:
    """Words, as they are said, and events of sentences of at most n words, padded with -1; n = ``max_length``.

    :param tables: normalised weights of G grammars, whose events are numbered one table after the other.
    :param names: what errors call sentences and words.
    :raises TooLongError: if as many in a row as there are tries were too long.
    :raises ValueError: if they are cut, and there is none that is short enough.
    """
    weights = torch.cat([t.detach().to("cpu", torch.float64).flatten(1) for t in tables], -1).numpy()
    model, size = _array(draws.model), draws.max_length
    sizes, least, soonest = _shortest(rules, weights)
    if draws.cut and len(model) and (least[:, rules.start] > size).any():
        raise ValueError(f"the grammar has no {names[0]} of at most {plural(size, names[1])}; raise max_length")
    _accumulate(weights, rules.first)
    words, ends = np.full((len(model), size), -1), np.zeros(len(model) + 1, np.int64)
    numbers, seed = (weights, sizes, least, soonest), int(torch.randint(2**63 - 1, ()))
    events, failed = _draw_all(rules, numbers, model, seed, draws.cut, draws.tries, words, ends)
    if failed:
        raise too_long(draws.tries, size, *names)
    lengths = np.diff(ends)
    rows = np.full((len(model), int(lengths.max(initial=1))), -1)
    rows[np.arange(rows.shape[1]) < lengths[:, None]] = events
    return torch.from_numpy(words), torch.from_numpy(rows)


def _array(tensor: Tensor) -> Array:
    return np.ascontiguousarray(tensor.detach().cpu().numpy(), np.int64)


@kernel
def _check_all(ids, words, rules, valid):
    for row in range(len(ids)):
        valid[row] = _check(ids[row], words[row], rules)


@njit(nogil=True)
def _check(ids, words, rules):
    """Rewrite from the left; ``rest`` holds what is still to come, the next on top."""
    first, offsets, n = rules.first, rules.offsets, len(words)
    rest = np.empty(n + 1, np.int64)
    rest[0], size, word, event = rules.start, 1, 0, 0
    while size > 0:
        size -= 1
        symbol = rest[size]
        if symbol < 0:
            if word == n or words[word] != -1 - symbol:
                return False
            word += 1
            continue
        if event == len(ids) or not first[symbol] <= ids[event] < first[symbol + 1]:
            return False
        a, b = offsets[ids[event]], offsets[ids[event] + 1]
        if word + size + b - a > n:  # every symbol to come takes a word at least
            return False
        for t in range(b - 1, a - 1, -1):
            rest[size] = rules.symbols[t]
            size += 1
        event += 1
    return (ids[event:] == -1).all() and (word == n or words[word] == -1)


@kernel
def _depths(ids, children, depths):
    to_come = np.empty(ids.shape[1] + 1, np.int64)  # children of each nonterminal above the next one
    for row in range(len(ids)):
        above = 0
        for event in ids[row]:
            if event < 0:
                break
            if above > 0:
                to_come[above - 1] -= 1
            to_come[above] = children[event]
            above += 1
            depths[row] = max(depths[row], above)
            while above > 0 and to_come[above - 1] == 0:
                above -= 1


@kernel
def _shortest(rules, weights):
    """How few words right sides and symbols come to, (G, Q) and (G, K), and the event that does it, (G, K).

    Events of weight zero do nothing; of those that are equally short, the likeliest counts.
    """
    first, right, offsets, symbols = rules.first, rules.right, rules.offsets, rules.symbols
    sizes = np.zeros((len(weights), len(offsets) - 1), np.int64)
    least = np.full((len(weights), len(first) - 1), NEVER)
    soonest = np.zeros(least.shape, np.int64)
    for g in range(len(weights)):
        soonest[g], changed = first[:-1], True
        while changed:
            changed = False
            for q in range(len(offsets) - 1):
                size = 0
                for t in range(offsets[q], offsets[q + 1]):
                    size += 1 if symbols[t] < 0 else least[g, symbols[t]]
                sizes[g, q] = min(size, NEVER)
            for a in range(len(first) - 1):
                for e in range(first[a], first[a + 1]):
                    size = sizes[g, max(right[e], 0)]  # where not all are listed, all are as short
                    likelier = size == least[g, a] < NEVER and weights[g, e] > weights[g, soonest[g, a]]
                    if weights[g, e] > 0 and (size < least[g, a] or likelier):
                        least[g, a], soonest[g, a], changed = size, e, True
    return sizes, least, soonest


@kernel
def _accumulate(weights, first):
    for g in range(len(weights)):
        for a in range(len(first) - 1):
            for e in range(first[a] + 1, first[a + 1]):
                weights[g, e] += weights[g, e - 1]


@kernel
def _draw_all(rules, numbers, model, seed, cut, tries, words, ends):
    """All events, one sentence after the other, and whether one failed; of each, its words and where its events end."""
    state = np.zeros(1, np.uint64)
    stack, events = np.empty((256, 2), np.int64), np.empty(64 * len(words), np.int64)
    sample = 0
    while sample < len(words):
        seed_stream(state, seed, sample)
        end = -1
        for _ in range(tries):
            end = _draw_one(rules, numbers, model[sample], cut, state, words[sample], stack, events, ends[sample])
            if end != -1:
                break
        if end == -1:
            return events, True
        if end == -2:  # again, with more room
            stack, events = np.concatenate((stack, stack)), np.concatenate((events, events))
        else:
            sample += 1
            ends[sample] = end
    return events[: ends[-1]], False


@njit(nogil=True)
def _draw_one(rules, numbers, g, cut, state, words, stack, events, end):
    """The words of one sentence, and its events from ``end`` on: where they end.

    -1 if it is too long, -2 if ``stack`` or ``events`` have no room.
    """
    first, right, offsets, symbols = rules.first, rules.right, rules.offsets, rules.symbols
    cumulative, sizes, least, soonest = numbers
    classes = len(rules.widths) + 1
    words[:] = -1
    word, coming = 0, least[g, rules.start]  # the next, and how many there will be at least
    stack[0], size = (rules.start, 0), 1  # each symbol with the word from which its distance counts
    while size:
        size -= 1
        symbol, begin = stack[size]
        if symbol < 0:
            words[word] = -1 - symbol
            word += 1
            continue
        if classes > 1 and symbol >= rules.by_distance:
            c = (symbol - rules.by_distance) % classes
            if c == 0:
                begin = word
            symbol += np.searchsorted(rules.widths, word - begin, side="right") - c
        e = first[symbol] + draw_event(cumulative[g, first[symbol] : first[symbol + 1]], state)
        q = np.int64(right[e])
        if q < 0:
            q = other_child(right, first[symbol], e, np.int64(uniform(state) * -q))
        if coming + sizes[g, q] - least[g, symbol] > len(words):
            if not cut:
                return -1
            e = soonest[g, symbol]
            q = np.int64(right[e])
        coming += sizes[g, q] - least[g, symbol]
        if end == len(events) or size + offsets[q + 1] - offsets[q] > len(stack):
            return -2
        events[end] = e
        end += 1
        for t in range(offsets[q + 1] - 1, offsets[q] - 1, -1):
            stack[size] = symbols[t], begin
            size += 1
    return end


@njit(nogil=True)
def other_child(children, start, end, u):
    """The u-th word, from 0, that is not among the children of a row."""
    low, high = start, end
    while low < high:
        middle = (low + high) // 2
        if children[middle] - (middle - start) <= u:
            low = middle + 1
        else:
            high = middle
    return u + low - start
