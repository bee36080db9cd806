# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Leftmost derivations of context-free grammars, as rules of any form: what is one, and ancestral draws."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numba import njit
from torch import Tensor

from pyrogram.charts.checks import too_long
from pyrogram.charts.runtime.arrays import Array
from pyrogram.charts.runtime.compiling import kernel
from pyrogram.charts.runtime.random_numbers import draw_event, seed_stream
from pyrogram.printable import plural


@dataclass(frozen=True, eq=False)
class FlatRules:
    """Rules as arrays.

    :param start: the nonterminal of a whole sentence.
    :param lhs: shape (R,), not decreasing.
    :param first: shape (K + 1,); rules of nonterminal A are ``first[A]:first[A + 1]``.
    :param offsets: shape (R + 1,); the right side of rule r is ``symbols[offsets[r]:offsets[r + 1]]``.
    :param symbols: nonterminals as they are, terminal w as -1 - w.
    """

    start: int
    lhs: Any
    first: Any
    offsets: Any
    symbols: Any

    @classmethod
    def of(cls, lhs: Any, rhs: Sequence[Sequence[int]], start: int) -> "FlatRules":
        sizes = np.array([len(r) for r in rhs], np.int64)
        symbols = np.array([s for r in rhs for s in r], np.int64)
        first = np.searchsorted(lhs, np.arange(int(max(lhs)) + 2)).astype(np.int64)
        offsets = np.concatenate([[0], sizes.cumsum()]).astype(np.int64)
        return cls(start, np.ascontiguousarray(lhs, np.int64), first, offsets, symbols)

    def __len__(self) -> int:
        return len(self.lhs)

    def same(self, other: "FlatRules") -> bool:
        """Whether these are the same rules in the same order."""
        if self is other:
            return True
        names = ("lhs", "offsets", "symbols")
        return self.start == other.start and all(np.array_equal(getattr(self, x), getattr(other, x)) for x in names)


def is_derivation(ids: Int[Tensor, "S L"], words: Int[Tensor, "S n"], rules: FlatRules) -> Bool[Tensor, "S"]:
    """Whether event ids, padded with -1 on the right, are a leftmost derivation of words, padded likewise."""
    valid = np.zeros(len(ids), np.bool_)
    _check_all(_array(ids), _array(words), rules.start, rules.lhs, rules.offsets, rules.symbols, valid)
    return torch.from_numpy(valid).to(ids.device)


def depths(ids: Int[Tensor, "S L"], rules: FlatRules) -> Int[Tensor, "S"]:
    """Nonterminals from the root to the one that is farthest from it, both counted, of leftmost derivations.

    :param ids: derivations, padded with -1 on the right.
    :raises ValueError: for numbers that are no rules.
    """
    if len(ids) and ids.shape[1] and int(ids.max()) >= len(rules):
        raise ValueError(f"derivations must have rules 0..{len(rules) - 1}, not {int(ids.max())}")
    children = np.add.reduceat((rules.symbols >= 0).astype(np.int64), rules.offsets[:-1])
    deepest = np.zeros(len(ids), np.int64)
    _depths(_array(ids), children, deepest)
    return torch.from_numpy(deepest).to(ids.device)


def ancestral(
    weights: Float[Tensor, "G R"],
    grammar: Int[Tensor, "S"],
    rules: FlatRules,
    max_length: int,
    cut: bool = False,
    tries: int = 10_000,
) -> tuple[Int[Tensor, "S n"], Int[Tensor, "S L"]]:
    """Words and derivations of sentences of at most ``max_length`` words, padded with -1, n = max_length.

    :param weights: of G grammars, normalised by left side.
    :param grammar: which one each sentence is drawn from.
    :param cut: where the rule that was drawn would make a sentence too long, take the one that ends it soonest.
    :param tries: how often a sentence is drawn again.
    :raises TooLongError: if so many in a row were too long.
    :raises ValueError: if there is none that is short enough.
    """
    cumulative = weights.detach().to("cpu", torch.float64).numpy().copy()
    sizes_left, soonest = shortest(cumulative, rules) if cut else (np.zeros((1, len(rules) + 1), np.int64),) * 2
    if cut and len(grammar) and (sizes_left[:, rules.lhs == rules.start].min(1) > max_length).any():
        raise ValueError(f"the grammar has no sentence of at most {plural(max_length, 'word')}; raise max_length")
    _accumulate(cumulative, rules.first)
    words = np.full((len(grammar), max_length), -1, np.int64)
    events: Any = np.empty(64 * max(1, len(grammar)), np.int64)
    ends = np.zeros(len(grammar) + 1, np.int64)
    done, seed = 0, int(torch.randint(2**63 - 1, ()))
    which = _array(grammar)
    tables = _Tables(cumulative, rules.first, rules.offsets, rules.symbols, rules.start, cut, sizes_left, soonest)
    while done < len(grammar):
        done, failed = _sample_all(tables, which, seed, tries, words, events, ends, done)
        if failed:
            raise too_long(tries, max_length)
        if done < len(grammar):
            events = np.concatenate([events, np.empty_like(events)])
    sizes = np.diff(ends)
    ids = np.full((len(grammar), int(sizes.max(initial=1))), -1, np.int64)
    ids[np.arange(ids.shape[1]) < sizes[:, None]] = events[: ends[-1]]
    return torch.from_numpy(words), torch.from_numpy(ids)


def _array(tensor: Tensor) -> Array:
    return np.ascontiguousarray(tensor.detach().cpu().numpy(), np.int64)


def shortest(weights: Array, rules: FlatRules) -> tuple[Array, Array]:
    """How few words each rule can come to, shape (G, R), and the rule of each nonterminal that does it, (G, K).

    A rule of weight zero comes to nothing in as many as 2^40; of rules that are equally short, the likeliest counts.
    """
    never = 2**40
    sizes = np.full(weights.shape, never)
    for g, w in enumerate(weights):
        of_symbols = np.full(len(rules.first) - 1, never)
        while True:
            terms = np.where(rules.symbols < 0, 1, of_symbols[np.maximum(rules.symbols, 0)])
            totals = np.minimum(np.add.reduceat(terms, rules.offsets[:-1]), never)
            sizes[g] = np.where(w > 0, totals, never)
            new = np.minimum.reduceat(sizes[g], rules.first[:-1])
            if np.array_equal(new, of_symbols):
                break
            of_symbols = new
    lhs = np.broadcast_to(rules.lhs, weights.shape)
    order = np.lexsort((-weights, sizes, lhs), axis=-1)  # by left side, then by size, then by weight
    return sizes, np.ascontiguousarray(order[:, rules.first[:-1]])


@kernel
def _check_all(ids: Array, words: Array, start: int, lhs: Array, offsets: Array, symbols: Array, valid: Array) -> None:
    for row in range(len(ids)):
        valid[row] = _check(ids[row], words[row], start, lhs, offsets, symbols)


@njit(nogil=True)
def _check(ids: Array, words: Array, start: int, lhs: Array, offsets: Array, symbols: Array) -> bool:
    """Rewrite from the left; ``rest`` holds what is still to come, the next on top."""
    n, L = len(words), len(ids)
    rest = np.empty(n + 1, np.int64)
    rest[0], size, word, event = start, 1, 0, 0
    while size > 0:
        size -= 1
        symbol = rest[size]
        if symbol < 0:
            if word == n or words[word] != -1 - symbol:
                return False
            word += 1
            continue
        if event == L or ids[event] < 0 or ids[event] >= len(lhs) or lhs[ids[event]] != symbol:
            return False
        a, b = offsets[ids[event]], offsets[ids[event] + 1]
        if word + size + b - a > n:  # every symbol to come takes a word at least
            return False
        for t in range(b - 1, a - 1, -1):
            rest[size] = symbols[t]
            size += 1
        event += 1
    for t in range(event, L):
        if ids[t] != -1:
            return False
    return word == n or words[word] == -1


@kernel
def _depths(ids: Array, children: Array, depths: Array) -> None:
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
def _accumulate(weights: Array, first: Array) -> None:
    for g in range(len(weights)):
        for a in range(len(first) - 1):
            for r in range(first[a] + 1, first[a + 1]):
                weights[g, r] += weights[g, r - 1]


class _Tables(NamedTuple):
    """Rules and their weights, as compiled code has them.

    :param cumulative: sums of the weights of each left side, of G grammars, (G, R).
    :param sizes: what :func:`shortest` says, and ``soonest``; one row of zeros unless sentences are ``cut``.
    """

    cumulative: Array
    first: Array
    offsets: Array
    symbols: Array
    start: int
    cut: bool
    sizes: Array
    soonest: Array


@kernel
def _sample_all(
    tables: _Tables, which: Array, seed: int, tries: int, words: Array, events: Array, ends: Array, done: int
) -> tuple[int, bool]:
    """Draw sentences from ``done`` on, until all are there or ``events`` is full; and whether one failed.

    :param which: the grammar of each sentence.
    """
    max_length = words.shape[1]
    state = np.zeros(1, np.uint64)
    rest = np.empty(max_length + 1, np.int64)
    for sample in range(done, len(words)):
        seed_stream(state, seed, sample)
        size = -1
        for _ in range(tries):
            size = _sample_one(tables, which[sample], state, words[sample], events, ends[sample], rest)
            if size != -1:
                break
        if size == -2:
            words[sample] = -1
            return sample, False
        if size == -1:
            return sample, True
        ends[sample + 1] = ends[sample] + size
    return len(words), False


@njit(nogil=True)
def _sample_one(tables: _Tables, g: int, state: Array, words: Array, events: Array, begin: int, rest: Array) -> int:
    """One sentence of grammar g: its number of events, -1 if it is too long, -2 if ``events`` is full."""
    first, offsets, symbols, cut = tables.first, tables.offsets, tables.symbols, tables.cut
    sizes, soonest = tables.sizes[g if cut else 0], tables.soonest[g if cut else 0]
    n = len(words)
    words[:] = -1
    coming = sizes[soonest[tables.start]]  # how many words there will be at least
    rest[0], size, word, event = tables.start, 1, 0, begin
    while size > 0:
        size -= 1
        symbol = rest[size]
        if symbol < 0:
            words[word] = -1 - symbol
            word += 1
            continue
        r = first[symbol] + draw_event(tables.cumulative[g, first[symbol] : first[symbol + 1]], state)
        if cut:
            now = sizes[soonest[symbol]]
            if coming - now + sizes[r] > n:
                r = soonest[symbol]
            coming += sizes[r] - now
        a, b = offsets[r], offsets[r + 1]
        if word + size + b - a > n:  # every symbol to come takes a word at least
            return -1
        if event == len(events):
            return -2
        events[event] = r
        event += 1
        for t in range(b - 1, a - 1, -1):
            rest[size] = symbols[t]
            size += 1
    return event - begin
