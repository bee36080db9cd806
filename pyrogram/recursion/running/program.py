# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A recursion that runs on any numbers: from the fastest code to the surest.

Sentences go into SIMD lanes first; those whose result cannot be trusted go into lanes of float64, and what is left is
done in logarithms. Nothing is compiled before it is needed.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..calling.layout import Layout, WeightTable
from ..calling.sentences import Sentences
from ..calling.traces import Trace
from ..lanes.engine import LEAST, LanesEngine
from ..lanes.schedule import fits_lanes
from ..logs.engine import ScalarEngine
from ..rules.lowering import lower
from ..rules.recursions import Recursion
from ..tiles.engine import TilesEngine, fits_tiles, plain_tables

Numbers = Any  # a numpy array

_MOST_NATS = 80.0  # whose exponential is a number, even in float32
FEW_WORDS = 24  # up to which the bound of log Z alone is tried in float32
# Up to which any such bound is tried: longer sentences hardly ever meet it, and it takes as long as adjoints.
MOST_WORDS = 320
# How far log weights of derivations may be above zero for log Z alone to be tried, for then it is rarely in vain.
_GROWN = {"float64": 500.0, "float32": 30.0}


class Program:
    """Log Z, expected counts, the best derivations and draws.

    :param recursion: the rules; :attr:`tables` are the weights that it takes.
    """

    def __init__(self, recursion: Recursion) -> None:
        self.recursion = recursion
        self.in_lanes = fits_lanes(recursion)
        self.in_tiles = not self.in_lanes and fits_tiles(recursion)
        self.in_many = self.in_lanes or self.in_tiles  # whether many sentences are done at once
        kind = TilesEngine if self.in_tiles else LanesEngine
        self._lanes = functools.lru_cache(functools.partial(kind, recursion))
        self._scalar = functools.lru_cache(functools.partial(ScalarEngine, recursion))
        self._numbers: dict[Any, float] = {}  # logs of the numbers of derivations, by length and sizes
        layout = Layout(lower(recursion))
        self.tables, self._words = layout.weights, layout.words
        self.unclaimed = [w.name for w in layout.weights if recursion.tables[w.name].once is None]
        """Tables whose weights nothing shifts: they may be greater than one."""
        self._by_position = any(w.num_positions for w in layout.weights)
        self.plain = plain_tables(recursion) if self.in_tiles else frozenset[str]()
        """Weights that know neither positions nor words; see :func:`.plain_tables`."""
        self._rows = {} if self.in_lanes else _words_first(layout)
        self.most_weights = max(len(rule.weights) for rule in recursion.rules)

    def log_counts(
        self,
        given: Sentences,
        *,
        counts: bool = True,
        scale: Numbers | None = None,
        into: Mapping[str, Numbers] | None = None,
        by_sentence: bool = False,
    ) -> tuple[Numbers, dict[str, Numbers]]:
        """Log Z, shape ``(B,)``, and expected counts in the shapes of the weights, summed where sentences share them;
        none of constants.

        :param given: weights, all of them float64 or all float32; where some are constants, the others are shared.
        :param scale: what the counts of each sentence are multiplied by, shape ``(B,)``.
        :param into: what counts are added to instead, zeros in the same shapes, where no two sentences speak of the
            same element of a table.
        :param by_sentence: counts of shape ``(B, ...)`` also of tables that sentences share.
        """
        dtype, n = _dtype(given), given.pitch - 1
        if self.in_lanes:
            if len(given.lengths) == 0:
                return np.zeros(0), _zeros(given, by_sentence) if into is None else {}
            engine, few = self._ready(given, dtype)
            log_z, found, _ = engine.log_counts(
                few,
                longest_first(given.lengths),
                counts=counts,
                scale=scale,
                least=None if counts else -math.inf,
                into=into,
                by_sentence=by_sentence,
            )
            of_type = {name: table.astype(dtype, copy=False) for name, table in found.items()}
            return log_z, of_type if into is None else {}
        log_z = np.zeros(len(given.lengths))
        total: dict[str, Numbers] = {}
        todo = longest_first(given.lengths)
        attempts = [(dtype, True), ("float64", True)]
        excess, grown = self._excess(given), 0.0
        if not counts and n <= MOST_WORDS:  # the bound of log Z alone is one that long sentences in float32 cannot meet
            grown = excess / self.most_weights * self._uses(given) if excess else 0.0
            alone = [x for x in (self._first_dtype(given), "float64") if grown < _GROWN[x]]
            attempts = [*((x, False) for x in alone), *(attempts if excess else attempts[1:])]
        for of_lanes, adjoints in dict.fromkeys(attempts) if self.in_many else ():
            if len(todo) == 0:
                break
            engine, few = self._ready(given, of_lanes)
            least = None if adjoints else self.least(of_lanes, n, given.sizes, given.lists) + grown
            values, found, failed = engine.log_counts(
                few, todo, counts=counts, scale=scale, least=least, excess=excess, into=into, by_sentence=by_sentence
            )
            if len(todo) == len(log_z):
                log_z = values
            else:
                log_z[todo] = values[todo]
            for name, table in found.items() if into is None else ():  # those that failed have counted nothing
                own = table.astype(dtype, copy=False)
                total[name] = total[name] + own if name in total else own
            todo = todo[failed[todo] != 0] if failed.any() else todo[:0]
        if len(todo):
            few, own = given.only(todo).in_logarithms(), None if scale is None else scale[todo]
            if by_sentence:
                each = {name: np.broadcast_to(w, (len(todo), *w.shape[1:])) for name, w in few.weights.items()}
                few = replace(few, weights=each)
            log_z[todo], found = self._scalar(dtype).log_counts(few, counts=counts, scale=own)
            found = {name: table for name, table in found.items() if name not in given.constants}
            if counts and not total and into is None:
                total = _zeros(given, by_sentence)
            _add(total if into is None else dict(into), found, todo)
        elif counts and not total and into is None:
            total = _zeros(given, by_sentence)
        return log_z, total

    def _excess(self, given: Sentences) -> float:
        """The log of the greatest product of weights in a rule, if that is greater than one.

        Weights of groups (``once``) are at most one when they have been shifted.
        """
        are_raised = bool(given.constants) or self._is_shared(given)
        names = set(given.weights) if are_raised else {*self.unclaimed, *self.plain}
        logs = [_greatest(given.weights[name]) for name in names - set(given.constants) if name in given.weights]
        logs += [math.log(max(1.0, greatest)) for greatest in given.constants.values()]
        return max(0.0, *logs, 0.0) * self.most_weights

    def least(self, dtype: str, n: int, sizes: Mapping[str, int], lists: Mapping[str, Numbers]) -> float:
        """The least log Z that is trusted without adjoints: no adjoint is greater than the number of derivations.

        This is so where weights are at most one. The bound grows by the greatest log weight of derivations.

        :param n: words of the longest sentence.
        """
        return math.log(2.0) * LEAST[dtype] + self._log_number(n, sizes, lists, 0.0)

    def _uses(self, given: Sentences) -> float:
        """No derivation has more weights: log Z where all are large, by their logarithm."""
        large = 100.0 / given.pitch  # and yet within the range of numbers for ten weights a word
        return self._log_number(given.pitch - 1, given.sizes, given.lists, large) / large

    def _log_number(self, n: int, sizes: Mapping[str, int], lists: Mapping[str, Numbers], log_weight: float) -> float:
        """Log Z of a sentence of n words whose weights are all equal."""
        key = n, tuple(sorted(sizes.items())), tuple((x, hash(lists[x].tobytes())) for x in sorted(lists)), log_weight
        if key not in self._numbers:
            ones = {w.name: _ones(w, n, sizes, log_weight) for w in self.tables}
            words = {name: np.zeros((1, n), np.int64) for name in self._words}
            one = Sentences(np.array([n]), ones, words, sizes, lists)
            self._numbers[key] = float(self.log_counts(one)[0][0])
        return self._numbers[key]

    def best(self, given: Sentences, k: int, trace: Trace, width: int) -> tuple[Numbers, Numbers]:
        """Scores of the k best derivations, shape ``(k, B)``, and the weights in them, ``(k, B, width)``.

        Where there are fewer, scores are -inf and rows -1.

        :param trace: numbers of the elements of tables, see :mod:`~pyrogram.recursion.calling.traces`.
        """
        given = given.in_logarithms()
        if k > 1 or not self.in_many:
            return self._scalar(_dtype(given)).best(given, k, trace, width)
        if self._has_numbers(given):
            engine = self._lanes("float64", shared=True)
            given = replace(given, weights={name: np.asarray(w, np.float64) for name, w in given.weights.items()})
        else:
            engine = self._lanes("float64", weights=_dtype(given))
        scores, rows = engine.best(given, longest_first(given.lengths), trace, width)
        return scores[None], rows[None]

    def most_expected(
        self, given: Sentences, worth: Mapping[str, Numbers], trace: Trace, width: int
    ) -> tuple[Numbers, Numbers]:
        """The derivations of positive weight with the greatest sums of posteriors of instances of rules.

        :param worth: of the weights, in their shapes: what the posterior of an instance with one of them is multiplied
            by; of several, by the sum.
        :returns: the sums, shape ``(B,)``, -inf without derivations, and the weights, ``(B, width)``; see :meth:`best`.
        """
        return self._scalar(_dtype(given)).most_expected(given.in_logarithms(), worth, trace, width)

    def draw(self, given: Sentences, number: int, seed: int, trace: Trace, width: int) -> tuple[Numbers, Numbers]:
        """Log Z, shape ``(B,)``, and the weights in drawn derivations, ``(number, B, width)``; see :meth:`best`.

        Rows of sentences without derivations are -1.
        """
        given = given.in_logarithms()
        dtype, n, excess = _dtype(given), given.pitch - 1, self._excess(given)
        todo = longest_first(given.lengths)
        if not self.in_many:
            return self._scalar(dtype).draw(given, number, seed, trace, width)
        if self.in_lanes:
            engine, few = self._ready(given, dtype)
            return engine.draw(few, todo, (number, width), seed, trace, -math.inf)[:2]
        log_z, rows = np.empty(len(todo)), np.full((number, len(todo), width), -1)
        adjoints_first = bool(excess) or n > MOST_WORDS
        attempts = [(dtype, adjoints_first) for dtype in (self._first_dtype(given), "float64")]
        for of_lanes, adjoints in dict.fromkeys([*attempts, ("float64", True)]):
            engine, few = self._ready(given, of_lanes)
            if adjoints:  # they say of which charts one may draw
                failed = engine.log_counts(few, todo, counts=False, excess=excess)[2]
                ready, least = todo[failed[todo] == 0], -math.inf
            else:
                ready, least = todo, self.least(of_lanes, n, given.sizes, given.lists)
            values, found, failed = engine.draw(few, ready, (number, width), seed, trace, least)
            good = ready[failed[ready] == 0]
            if len(good) == len(log_z):
                return values, found
            log_z[good], rows[:, good] = values[good], found[:, good]
            todo = todo[~np.isin(todo, good)]
            seed += 1
        log_z[todo], rows[:, todo] = self._scalar(dtype).draw(given.only(todo), number, seed, trace, width)
        return log_z, rows

    def _first_dtype(self, given: Sentences) -> str:
        """Of lanes without adjoints: float32 holds no long sentences, and none of rare words, which are not shifted."""
        few = self.in_lanes and given.pitch - 1 <= FEW_WORDS
        return _dtype(given) if few else "float64"

    def _is_shared(self, given: Sentences) -> bool:
        """Whether all sentences have one set of weights, by symbols alone: these are not shifted."""
        return not self._by_position and all(len(table) == 1 for table in given.weights.values())

    def _are_near_one(self, given: Sentences) -> bool:
        """Whether exponentials of all log weights are numbers, where that matters."""
        logs = [np.abs(x) for name, x in given.weights.items() if name not in given.constants]
        return not self.in_lanes or all((np.where(x < np.inf, x, 0.0) < _MOST_NATS).all() for x in logs)

    def has_numbers(self, shared: Mapping[str, bool]) -> bool:
        """Whether all sentences share the weights that know neither positions nor words.

        :param shared: by table, whether all sentences share it.
        """
        return bool(self.plain) and all(shared.get(name, False) for name in self.plain)

    def _has_numbers(self, given: Sentences) -> bool:
        return self.has_numbers({name: len(w) == 1 for name, w in given.weights.items()})

    def _ready(self, given: Sentences, dtype: str) -> tuple[LanesEngine, Sentences]:
        """An engine of lanes, and weights as it takes them: one table for all sentences is exponentiated once."""
        if (given.constants or self._is_shared(given)) and not self._are_near_one(given):
            names = frozenset(given.constants)
            return self._lanes(dtype, weights=_dtype(given), given=names), given.in_logarithms()
        shared = self._is_shared(given) or bool(given.constants)
        numbers = self.plain if self._has_numbers(given) else frozenset[str]()
        if not shared and not numbers:
            return self._lanes(dtype, weights=_dtype(given)), given
        weights = {name: np.asarray(table, dtype) for name, table in given.weights.items()}
        for name, order in self._rows.items() if shared else ():
            rows = np.ascontiguousarray(weights[name].transpose(order))
            weights[name] = rows.transpose(np.argsort(order))
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            raised = set(weights) - set(given.constants) if shared else numbers
            weights |= {name: np.exp(weights[name]) for name in raised}
        if given.constants:
            options = {"shared": bool(numbers)} if self.in_tiles else {}
            engine = self._lanes(dtype, logs=False, given=frozenset(given.constants), **options)
        else:
            engine = self._lanes(dtype, logs=False) if shared else self._lanes(dtype, shared=True)
        return engine, replace(given, weights=weights)


def _words_first(layout: Layout) -> dict[str, tuple[int, ...]]:
    """The order of axes in which the symbols of a word follow one another in memory, where it is not the given one."""
    found = {}
    for w in layout.weights:
        words = {1 + w.num_positions + axis for axis in layout.word_axes(w.name)}
        order = (0, *sorted(words), *(a for a in range(1, w.num_axes + 1) if a not in words))
        if order != tuple(range(w.num_axes + 1)):
            found[w.name] = order
    return found


def _greatest(table: Numbers) -> float:
    """The greatest number that is finite."""
    found = float(np.max(table, initial=-np.inf))
    return found if found < np.inf else float(np.max(table, initial=-np.inf, where=np.isfinite(table)))


def longest_first(lengths: Numbers) -> Numbers:
    """The order in which sentences fill the lanes."""
    if len(lengths) == 0 or lengths.min() == lengths.max():
        return np.arange(len(lengths))
    return np.argsort(-lengths, kind="stable")


def _ones(w: WeightTable, n: int, sizes_of: Mapping[str, int], log_weight: float) -> Numbers:
    """The logarithms of weights that are all the same, in one number."""
    sizes = tuple(s if isinstance(s, int) else sizes_of[s] for s in w.sizes)
    return np.broadcast_to(log_weight, (1, *(n + 1,) * w.num_positions, *sizes))


def _dtype(given: Sentences) -> str:
    single = bool(given.weights) and all(table.dtype == np.float32 for table in given.weights.values())
    return "float32" if single else "float64"


def _zeros(given: Sentences, by_sentence: bool) -> dict[str, Numbers]:
    """Counts of nothing."""
    B, counted = len(given.lengths), {n: w for n, w in given.weights.items() if n not in given.constants}
    return {name: np.zeros((B if by_sentence else len(w), *w.shape[1:]), w.dtype) for name, w in counted.items()}


def _add(total: dict[str, Numbers], found: Mapping[str, Numbers], sentences: Numbers) -> None:
    """Add the counts of some sentences to those of all."""
    for name, values in found.items():
        if len(total[name]) == 1:
            total[name] += values
        else:
            total[name][sentences] += values
