# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A recursion that runs on any numbers: from the fastest code to the surest.

Sentences go into SIMD lanes first; those whose result cannot be trusted go into lanes of float64, and what is left is
done in logarithms. Nothing is compiled before it is needed.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..cells import lower
from ..engine import ScalarEngine, Sentences
from ..lanes.engine import LanesEngine
from ..lanes.schedule import is_simple
from ..language import Recursion

Numbers = Any  # a numpy array


class Program:
    """Log Z, expected counts, the best derivations and draws.

    :param recursion: the rules.
    """

    def __init__(self, recursion: Recursion) -> None:
        self.recursion = recursion
        self.in_lanes = is_simple(lower(recursion, widen=True))
        self._lanes = functools.lru_cache(functools.partial(LanesEngine, recursion))
        self._scalar = functools.lru_cache(functools.partial(ScalarEngine, recursion))

    def log_counts(
        self, given: Sentences, *, counts: bool = True, scale: Numbers | None = None
    ) -> tuple[Numbers, dict[str, Numbers]]:
        """Log Z, shape ``(B,)``, and expected counts in the shapes of the weights, summed where sentences share them.

        :param given: log weights, all of them float64 or all float32.
        :param scale: what the counts of each sentence are multiplied by, shape ``(B,)``.
        """
        dtype = _dtype(given)
        log_z = np.zeros(len(given.lengths))
        total = {name: np.zeros_like(table) for name, table in given.weights.items()} if counts else {}
        todo = np.argsort(-given.lengths, kind="stable")
        attempts = dict.fromkeys([dtype, "float64"]) if self.in_lanes else {}
        for attempt in attempts:
            if len(todo):
                log_z[todo], failed = self._in_lanes(given, attempt, todo, counts, scale, total)
                todo = todo[failed[todo] != 0]
        if len(todo):
            few = given.only(todo)
            own = None if scale is None else scale[todo]
            log_z[todo], found = self._scalar(dtype).log_counts(few, counts=counts, scale=own)
            _add(total, found, todo)
        return log_z, total

    def _in_lanes(
        self,
        given: Sentences,
        dtype: str,
        todo: Numbers,
        counts: bool,
        scale: Numbers | None,
        total: dict[str, Numbers],
    ) -> tuple[Numbers, Numbers]:
        shared = all(len(table) == 1 for table in given.weights.values())
        weights = {name: np.asarray(table, dtype) for name, table in given.weights.items()}
        if shared:  # one table for all: it is exponentiated once
            with np.errstate(over="ignore", under="ignore", invalid="ignore"):
                weights = {name: np.exp(table) for name, table in weights.items()}
        engine = self._lanes(dtype, not shared)
        log_z, found, failed = engine.log_counts(replace(given, weights=weights), todo, counts=counts, scale=scale)
        for name, values in found.items():
            total[name] += values.astype(total[name].dtype, copy=False)
        return log_z[todo], failed

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


def _dtype(given: Sentences) -> str:
    return np.result_type(*given.weights.values()).name if given.weights else "float64"


def _add(total: dict[str, Numbers], found: Mapping[str, Numbers], sentences: Numbers) -> None:
    for name, values in found.items():
        if len(total[name]) == 1:
            total[name] += values
        else:
            total[name][sentences] += values
