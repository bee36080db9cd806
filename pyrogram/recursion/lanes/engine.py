# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A recursion in lanes that runs: compiled functions, memory, threads, and the sentences that could not be trusted."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..calling.functions import compiled
from ..calling.layout import Layout
from ..calling.sentences import PARTS, Sentences, check_given, strided
from ..machine.threads import run_workers
from ..rules.cells import lower
from ..rules.language import Recursion
from .driver import functions

Numbers = Any  # a numpy array

LINE = 64  # bytes of a cache line, and of the lanes of a cell
# Log Z in bits from which on a number that was flushed to zero cannot matter if its adjoint is at most one: the least
# positive number, times the cube of 256 words, over the rounding error.
LEAST = {"float64": -1022.0 + 24.0 + 53.0, "float32": -126.0 + 24.0 + 24.0}
# What all cells and adjoints of a sentence may come to; see docs/architecture.md.
MOST = {"float64": 2.0**900, "float32": 2.0**60}


class LanesEngine:
    """Log Z and expected counts of many sentences at once.

    :param recursion: the rules.
    :param dtype: of weights and of lanes, ``float64`` or ``float32``.
    :param logs: whether weights are logarithms.
    """

    def __init__(self, recursion: Recursion, dtype: str = "float64", logs: bool = True) -> None:
        self.dtype, self.width = np.dtype(dtype), LINE // np.dtype(dtype).itemsize
        self.cells = lower(recursion, widen=True)
        self.weights = Layout(self.cells).weights
        kind = f"lanes of {'logs' if logs else 'reals'}"
        self._compiled = compiled(
            recursion, kind, lambda: functions(lower(recursion, widen=True), logs, self.width, dtype), dtype, self.width
        )

    def log_counts(
        self,
        given: Sentences,
        order: Numbers,
        *,
        counts: bool = True,
        scale: Numbers | None = None,
        least: float | None = None,
        excess: float = 0.0,
    ) -> tuple[Numbers, dict[str, Numbers], Numbers]:
        """Log Z, shape ``(B,)``; expected counts in the shapes of the weights, summed over sentences that share them;
        and which sentences failed: their log Z is not to be trusted, and their counts are missing.

        :param order: the sentences, the longest first.
        :param scale: what the counts of each sentence are multiplied by, shape ``(B,)``.
        :param excess: the log of the greatest product of the weights of a rule, if it is greater than one.
        :param least: the least log Z that is trusted without adjoints, which are then not computed; None if they are.
        """
        B, n = len(given.lengths), int(given.lengths.max(initial=1))
        blocks = -(-len(order) // self.width)
        shared = counts and any(len(table) == 1 for table in given.weights.values())
        check_given(self.cells, self.dtype, given)
        values = given.values()
        values["pitch"] = (n + 1) | 1  # odd, so that the rows do not fall into the same cache sets
        values |= {"order": order, "count": len(order), "parts": min(PARTS, blocks) if shared else blocks}
        outputs = {}
        for w in self.weights:
            table = given.weights[w.name]
            parts = values["parts"] if shared and len(table) == 1 else 1
            shape = (parts, *table.shape) if counts else (1,) * (table.ndim + 1)
            out = outputs[w.name] = np.zeros(shape, self.dtype)
            values |= strided(f"out.{w.name}", out, ("part", "b", *range(table.ndim - 1)))
            values[f"out.{w.name}.part" if parts == 1 else f"out.{w.name}.b"] = 0
            if len(table) == 1:
                values[f"out.{w.name}.b"] = 0
        log_z, failed = np.empty(B), np.zeros(B, np.int64)
        values |= {
            "log_z": log_z,
            "failed": failed,
            "adjoints": int(least is None),
            "with_counts": int(counts),
            "plain": int(scale is None),  # nothing is multiplied, and each sentence has its own place
            "scale": np.ones(B) if scale is None else np.ascontiguousarray(scale, np.float64),
            "least": np.array([-np.inf if least is None else least]),
            "most": np.array([MOST[self.dtype.name] * math.exp(-min(excess, 700.0))]),
        }
        size = self._compiled("size", values)

        def work(turns: Numbers) -> None:
            self._compiled(
                "lanes",
                {**values, "memory": self._aligned(size), "starts": np.zeros(self.width, np.int64), "turns": turns},
            )

        if blocks:
            run_workers(work, cost=len(order) * (4.0 * n**3 + 40.0 * n**2) * self.dtype.itemsize / 8)
        summed = {name: out[0] if len(out) == 1 else out.sum(0) for name, out in outputs.items()}
        return log_z, summed if counts else {}, failed

    def _aligned(self, cells: int) -> Numbers:
        """Zeros, the first of which begins a cache line: a cell that straddles two takes twice as long to load."""
        numbers = LINE // self.dtype.itemsize
        memory = np.zeros((cells + 1) * numbers, self.dtype)
        skip = -memory.ctypes.data % LINE // memory.itemsize
        return memory[skip : skip + cells * numbers]
