# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The engine in logarithms: compiled functions, and the memory that they work in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..code import objects
from ..code.threads import run_workers
from ..emit import derivations, expected, logs
from ..emit.agenda import size_of_agenda
from ..emit.inputs import PARTS, Inputs, Numbers, table_parameters
from ..emit.layout import Layout
from ..emit.rows import chains_of
from ..emit.traces import Trace, no_rows, trace_values
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
        self.layout, self._checks = Layout(self.cells), Checks(self.cells)
        self._compiled: dict[str, objects.Compiled] = {}

    def log_counts(
        self, inputs: Inputs, *, counts: bool = True, scale: Numbers | None = None
    ) -> tuple[Numbers, dict[str, Numbers]]:
        """Log Z, shape ``(B,)``, and expected counts in the shapes of the weights: summed over sentences that share."""
        self._checks.check_names(inputs)
        B = len(inputs.lengths)
        log_z = np.empty(B)
        outputs: dict[str, Numbers] = {}
        shared = counts and any(len(table) == 1 for table in inputs.weights.values()) and B > 1
        values: dict[str, Any] = {"parts": min(PARTS, B) if shared else B}
        for w in self.layout.weights:
            table = inputs.weights[w.name]
            by_sentence = len(table) == B
            shape = (1 if by_sentence else values["parts"], len(table) if by_sentence else 1, *table.shape[1:])
            out = outputs[w.name] = np.zeros(shape if counts else (1,) * len(shape), self.dtype)
            values |= table_parameters(f"out.{w.name}", out, "part", "b")
        values |= {
            "log_z": log_z,
            "with_counts": int(counts),
            "scale": np.ones(B) if scale is None else np.ascontiguousarray(scale, np.float64),
        }
        self._run("log_counts", inputs, values, ["chart", "given"])
        summed = {name: out[0] if len(out) == 1 else out.sum(0) for name, out in outputs.items()}
        return log_z, summed if counts else {}

    def best(self, inputs: Inputs, k: int, trace: Trace, width: int) -> tuple[Numbers, Numbers]:
        """Scores of the k best derivations, shape ``(k, B)``, and the weights in them, shape ``(k, B, width)``.

        :param trace: numbers of the elements of tables, see :mod:`~pyrogram.recursion.emit.traces`.
        """
        B = len(inputs.lengths)
        values = {"k": k, "scores": np.empty((k, B))} | trace_values(self.layout, trace, no_rows(k, B, width))
        self._run("best", inputs, values, ["chart"], each=k)
        return values["scores"], values["trace"]

    def most_expected(
        self, inputs: Inputs, worth: Mapping[str, Numbers], trace: Trace, width: int
    ) -> tuple[Numbers, Numbers]:
        """The derivations with the greatest sums of posteriors: the sums, ``(B,)``, and the weights, ``(B, width)``.

        :param worth: of the weights, in their shapes: what the posterior of an instance with one of them is multiplied
            by; of several, by the sum.
        """
        B = len(inputs.lengths)
        values = {"scores": np.empty(B)} | trace_values(self.layout, trace, no_rows(B, width))
        for name, table in worth.items():
            values |= table_parameters(f"worth.{name}", table, "b")
        self._run("most_expected", inputs, values, ["chart", "given", "gains"])
        return values["scores"], values["trace"]

    def draw(self, inputs: Inputs, number: int, seed: int, trace: Trace, width: int) -> tuple[Numbers, Numbers]:
        """Log Z, shape ``(B,)``, and the weights in drawn derivations, ``(number, B, width)``; see :meth:`best`."""
        B = len(inputs.lengths)
        values = {"draws": number, "seed": seed, "log_z": np.empty(B)}
        values |= trace_values(self.layout, trace, no_rows(number, B, width))
        self._run("draw", inputs, values, ["chart"])
        return values["log_z"], values["trace"]

    def _run(self, name: str, inputs: Inputs, extra: Mapping[str, Any], arrays: Sequence[str], each: int = 1) -> None:
        """Call a function on every thread, which is compiled when it is first needed.

        :param extra: parameters that other functions have not.
        :param arrays: of a thread, with some numbers for each cell.
        :param each: how many.
        """
        self._checks.check(inputs, self.dtype)
        if name not in self._compiled:
            make = _FUNCTIONS[name]
            self._compiled[name] = compiled(
                self.recursion, f"scalar {name}", lambda: [make(self.cells)], self.dtype.name, 8
            )
        B, call, sizes, n = len(inputs.lengths), self._compiled[name], inputs.sizes, inputs.pitch
        values = {"order": np.arange(B), "count": B, "parts": B, "batch": B, **inputs.parameters()}
        values |= {"chains": chains_of(self.cells, sizes, inputs.lists), **extra}
        cells = sum(n ** self.cells.arity[x] * self.cells.num_symbols(x, sizes) for x in self.cells.sizes)

        def work(turns: Numbers) -> None:
            memory = {array: np.empty(cells * each) for array in arrays}
            if name != "log_counts":
                memory["agenda"] = np.zeros(size_of_agenda(self.cells, n, sizes, int(name == "best")), np.int64)
            call(name, {**values, **memory, "turns": turns})

        if B:
            run_workers(work, cost=B * 100.0 * n**3)
