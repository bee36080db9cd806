# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A recursion that runs on any numbers: from the fastest code to the surest.

Sentences go into SIMD lanes first; those whose result cannot be trusted go into lanes of float64, and what is left is
done in logarithms. Nothing is compiled before it is needed.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..calling.layout import Layout, WeightTable
from ..calling.sentences import Sentences
from ..lanes.engine import LEAST, LanesEngine
from ..lanes.schedule import fits_lanes
from ..logs.engine import ScalarEngine
from ..rules.cells import lower
from ..rules.language import Recursion

Numbers = Any  # a numpy array

_FEW_WORDS = 24


class Program:
    """Log Z, expected counts, the best derivations and draws.

    :param recursion: the rules; :attr:`tables` are the weights that it takes.
    """

    def __init__(self, recursion: Recursion) -> None:
        self.recursion = recursion
        self.in_lanes = fits_lanes(recursion)
        self._lanes = functools.lru_cache(functools.partial(LanesEngine, recursion))
        self._scalar = functools.lru_cache(functools.partial(ScalarEngine, recursion))
        self._numbers: dict[Any, float] = {}  # logs of the numbers of derivations, by length and sizes
        layout = Layout(lower(recursion))
        self.tables, self._words = layout.weights, layout.words

    def log_counts(
        self, given: Sentences, *, counts: bool = True, scale: Numbers | None = None
    ) -> tuple[Numbers, dict[str, Numbers]]:
        """Log Z, shape ``(B,)``, and expected counts in the shapes of the weights, summed where sentences share them.

        :param given: log weights, all of them float64 or all float32.
        :param scale: what the counts of each sentence are multiplied by, shape ``(B,)``.
        """
        dtype = _dtype(given)
        log_z = np.zeros(len(given.lengths))
        total: dict[str, Numbers] = {}
        todo = np.argsort(-given.lengths, kind="stable")
        n = int(given.lengths.max(initial=1))
        attempts = [(dtype, True), ("float64", True)]
        excess = self._excess(given)
        if not counts and excess == 0:  # the bound of log Z alone is one that long sentences in float32 cannot meet
            attempts = [(dtype if n <= _FEW_WORDS else "float64", False), ("float64", False), ("float64", True)]
        for attempt in dict.fromkeys(attempts) if self.in_lanes else ():
            if len(todo):
                log_z[todo], failed = self._in_lanes(given, (*attempt, excess), todo, counts, scale, total)
                todo = todo[failed[todo] != 0]
        if len(todo):
            few = given.only(todo)
            own = None if scale is None else scale[todo]
            log_z[todo], found = self._scalar(dtype).log_counts(few, counts=counts, scale=own)
            _add(total, found, todo, given)
        elif counts and not total:
            total = {name: np.zeros_like(table) for name, table in given.weights.items()}
        return log_z, total

    def _in_lanes(
        self,
        given: Sentences,
        attempt: tuple[str, bool, float],
        todo: Numbers,
        counts: bool,
        scale: Numbers | None,
        total: dict[str, Numbers],
    ) -> tuple[Numbers, Numbers]:
        dtype, adjoints, excess = attempt
        least = None if adjoints else self._least(dtype, given)
        shared = all(len(table) == 1 for table in given.weights.values())
        weights = {name: np.asarray(table, dtype) for name, table in given.weights.items()}
        if shared:  # one table for all: it is exponentiated once
            with np.errstate(over="ignore", under="ignore", invalid="ignore"):
                weights = {name: np.exp(table) for name, table in weights.items()}
        engine = self._lanes(dtype, not shared)
        few = replace(given, weights=weights)
        log_z, found, failed = engine.log_counts(few, todo, counts=counts, scale=scale, least=least, excess=excess)
        wanted = _dtype(given)
        for name, values in found.items():
            if name in total:
                total[name] += values.astype(wanted, copy=False)
            else:  # those that failed have counted nothing
                total[name] = values.astype(wanted, copy=False)
        return log_z[todo], failed

    def _excess(self, given: Sentences) -> float:
        """The log of the greatest product of weights in a rule, if that is greater than one.

        Weights of groups (``once``) are at most one when they have been shifted.
        """
        tables = self.recursion.tables
        logs = [
            float(np.max(table, initial=-np.inf, where=np.isfinite(table)))
            for name, table in given.weights.items()
            if tables[name].once is None
        ]
        return max(0.0, *logs, 0.0) * max(len(rule.weights) for rule in self.recursion.rules)

    def _least(self, dtype: str, given: Sentences) -> float:
        """The least log Z that is trusted without adjoints: no adjoint is greater than the number of derivations."""
        n = int(given.lengths.max(initial=1))
        key = n, *sorted(given.sizes.items())
        if key not in self._numbers:
            ones = {w.name: _ones(w, n, given.sizes) for w in self.tables}
            words = {name: np.zeros((1, n), np.int64) for name in self._words}
            one = Sentences(np.array([n]), ones, words, given.sizes, given.lists)
            self._numbers[key] = float(self.log_counts(one)[0][0])
        return math.log(2.0) * LEAST[dtype] + self._numbers[key]

    def best(self, given: Sentences, k: int, trace: Mapping[str, Sequence[int]], width: int) -> tuple[Numbers, Numbers]:
        """See :meth:`.ScalarEngine.best`."""
        return self._scalar(_dtype(given)).best(given, k, trace, width)

    def draw(
        self, given: Sentences, number: int, seed: int, trace: Mapping[str, Sequence[int]], width: int
    ) -> tuple[Numbers, Numbers]:
        """See :meth:`.ScalarEngine.draw`."""
        return self._scalar(_dtype(given)).draw(given, number, seed, trace, width)


def program(recursion: Recursion) -> Program:
    """The program of a recursion; equal recursions share one."""
    key = recursion.key()
    if key not in _programs:
        _programs[key] = Program(recursion)
    return _programs[key]


_programs: dict[str, Program] = {}


def _ones(w: WeightTable, n: int, sizes_of: Mapping[str, int]) -> Numbers:
    """The logarithms of weights that are all one, in one number."""
    sizes = tuple(s if isinstance(s, int) else sizes_of[s] for s in w.sizes)
    return np.broadcast_to(0.0, (1, *(n + 1,) * w.num_positions, *sizes))


def _dtype(given: Sentences) -> str:
    return np.result_type(*given.weights.values()).name if given.weights else "float64"


def _add(total: dict[str, Numbers], found: Mapping[str, Numbers], sentences: Numbers, given: Sentences) -> None:
    """Add the counts of some sentences to those of all."""
    for name, values in found.items():
        if name not in total:
            total[name] = np.zeros_like(given.weights[name])
        if len(total[name]) == 1:
            total[name] += values
        else:
            total[name][sentences] += values
