# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The engine in logarithms: compiled functions, and the memory that they work in."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..code import objects
from ..code.threads import run_workers
from ..emit import derivations, expected, logs
from ..emit.agenda import room
from ..emit.inputs import PARTS, Inputs, Numbers, strided
from ..emit.layout import Layout
from ..emit.traces import Trace, trace_values
from ..rules.lowering import lower
from ..rules.recursions import Recursion
from .checks import Checks
from .functions import compiled

_FUNCTIONS = {
    "log_counts": logs.log_counts,
    "best": derivations.best,
    "draw": derivations.draw,
    "most_expected": expected.most_expected,
}


class ScalarEngine:
    """One sentence at a time in logarithms, see :mod:`~pyrogram.recursion.emit.logs`.

    :param recursion: the rules.
    :param dtype: of the weights, ``float64`` or ``float32``.
    """

    def __init__(self, recursion: Recursion, dtype: str = "float64") -> None:
        self.recursion, self.dtype = recursion, np.dtype(dtype)
        self.cells = lower(recursion)
        self.layout, self._checks = Layout(self.cells), Checks.of(self.cells)
        self._compiled: dict[str, objects.Compiled] = {}

    def log_counts(
        self, inputs: Inputs, *, counts: bool = True, scale: Numbers | None = None
    ) -> tuple[Numbers, dict[str, Numbers]]:
        """Log Z, shape ``(B,)``, and expected counts in the shapes of the weights: summed over sentences that share."""
        self._checks.check_names(inputs)
        B = len(inputs.lengths)
        values = inputs.strides() | inputs.arrays() | self._sentences(inputs)
        log_z = np.empty(B)
        outputs: dict[str, Numbers] = {}
        shared = counts and any(len(table) == 1 for table in inputs.weights.values()) and B > 1
        values["parts"] = min(PARTS, B) if shared else B
        for w in self.layout.weights:
            table = inputs.weights[w.name]
            own = len(table) == B and not (shared and len(table) == 1)
            shape = (1 if own else values["parts"], len(table) if own else 1, *table.shape[1:])
            out = outputs[w.name] = np.zeros(shape if counts else (1,) * len(shape), self.dtype)
            values |= strided(f"out.{w.name}", out, ("part", "b", *range(table.ndim - 1))) | {f"out.{w.name}": out}
            if own:
                values[f"out.{w.name}.part"] = 0
            else:
                values[f"out.{w.name}.b"] = 0
        values |= {
            "log_z": log_z,
            "with_counts": int(counts),
            "scale": np.ones(B) if scale is None else np.ascontiguousarray(scale, np.float64),
        }
        size = self._cells(inputs)
        self._run("log_counts", values, lambda: {"chart": np.empty(size), "given": np.empty(size)})
        summed = {name: out[0] if len(out) == 1 else out.sum(0) for name, out in outputs.items()}
        return log_z, summed if counts else {}

    def best(self, inputs: Inputs, k: int, trace: Trace, width: int) -> tuple[Numbers, Numbers]:
        """Scores of the k best derivations, shape ``(k, B)``, and the weights in them, shape ``(k, B, width)``.

        :param trace: numbers of the elements of tables, see :mod:`~pyrogram.recursion.emit.traces`.
        """
        B = len(inputs.lengths)
        scores = np.empty((k, B))
        values = inputs.strides() | inputs.arrays() | self._sentences(inputs) | {"k": k, "batch": B, "scores": scores}
        values |= trace_values(self.layout, trace, (k, B, width))
        size = self._cells(inputs) * k
        self._run("best", values, lambda: {"chart": np.empty(size), **room(self.cells, inputs.pitch, inputs.sizes, 1)})
        return scores, values["trace"]

    def most_expected(
        self, inputs: Inputs, worth: Mapping[str, Numbers], trace: Trace, width: int
    ) -> tuple[Numbers, Numbers]:
        """The derivations with the greatest sums of posteriors: the sums, ``(B,)``, and the weights, ``(B, width)``.

        :param worth: of the weights, in their shapes: what the posterior of an instance with one of them is multiplied
            by; of several, by the sum.
        """
        B, size = len(inputs.lengths), self._cells(inputs)
        scores = np.empty(B)
        values = inputs.strides() | inputs.arrays() | self._sentences(inputs) | {"scores": scores}
        for w in self.layout.weights:
            table = worth[w.name]
            values |= strided(f"worth.{w.name}", table, ("b", *range(table.ndim - 1))) | {f"worth.{w.name}": table}
            if len(table) == 1:
                values[f"worth.{w.name}.b"] = 0
        values |= trace_values(self.layout, trace, (B, width))
        self._run(
            "most_expected",
            values,
            lambda: {
                **{name: np.empty(size) for name in ("chart", "given", "gains")},
                **room(self.cells, inputs.pitch, inputs.sizes),
            },
        )
        return scores, values["trace"]

    def draw(self, inputs: Inputs, number: int, seed: int, trace: Trace, width: int) -> tuple[Numbers, Numbers]:
        """Log Z, shape ``(B,)``, and the weights in drawn derivations, ``(number, B, width)``; see :meth:`best`."""
        B = len(inputs.lengths)
        log_z = np.empty(B)
        values = (
            inputs.strides()
            | inputs.arrays()
            | self._sentences(inputs)
            | {"draws": number, "batch": B, "log_z": log_z, "seed": seed}
        )
        values |= trace_values(self.layout, trace, (number, B, width))
        size = self._cells(inputs)
        self._run("draw", values, lambda: {"chart": np.empty(size), **room(self.cells, inputs.pitch, inputs.sizes)})
        return log_z, values["trace"]

    def _run(self, name: str, values: dict[str, Any], own: Callable[[], dict[str, Any]]) -> None:
        """Call a function on every thread, which is compiled when it is first needed.

        :param own: memory of a thread.
        """
        if name not in self._compiled:
            make = _FUNCTIONS[name]
            self._compiled[name] = compiled(
                self.recursion, f"scalar {name}", lambda: [make(lower(self.recursion))], self.dtype.name, 8
            )
        call, count, n = self._compiled[name], values["count"], values["pitch"]

        def work(turns: Numbers) -> None:
            call(name, {**values, **own(), "turns": turns})

        if count:
            run_workers(work, cost=count * 100.0 * n**3)

    def _sentences(self, inputs: Inputs) -> dict[str, Any]:
        self._checks.check(inputs, self.dtype)
        B = len(inputs.lengths)
        return {"order": np.arange(B), "count": B, "parts": B}

    def _symbols(self, inputs: Inputs) -> dict[str, int]:
        """How many elements each item has at its positions."""
        return {
            name: math.prod(s if isinstance(s, int) else inputs.sizes[s] for s in sizes)
            for name, sizes in self.cells.sizes.items()
        }

    def _cells(self, inputs: Inputs) -> int:
        pitch = inputs.pitch
        return sum(pitch ** self.cells.arity[name] * count for name, count in self._symbols(inputs).items())
