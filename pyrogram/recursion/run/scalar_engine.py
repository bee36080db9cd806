# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The engine in logarithms: compiled functions, and the memory that they work in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..code import objects
from ..code.threads import run_workers
from ..emit import derivations, logs
from ..emit.agenda import size_of_agenda
from ..emit.inputs import PARTS, Inputs, Numbers, table_parameters
from ..emit.instances import rows_by_symbol
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
    "most_expected": derivations.most_expected,
}


class ScalarEngine:
    """One sentence at a time in logarithms, see :mod:`~pyrogram.recursion.emit.logs`.

    Weights are logarithms in float64.

    :param recursion: the rules.
    """

    def __init__(self, recursion: Recursion) -> None:
        self.recursion = recursion
        self.cells = lower(recursion)
        self.layout, self._checks = Layout(self.cells), Checks(self.cells)
        self._compiled: dict[str, objects.Compiled] = {}

    def log_counts(
        self, inputs: Inputs, *, counts: bool = True, scale: Numbers | None = None
    ) -> tuple[Numbers, dict[str, Numbers]]:
        """Log Z, shape ``(B,)``, and expected counts in the shapes of the weights: summed over sentences that share."""
        self._checks.check_names(inputs)
        B = len(inputs.lengths)
        log_z, scale = np.empty(B), np.ones(B) if scale is None else np.ascontiguousarray(scale, np.float64)
        values: dict[str, Any] = {"log_z": log_z, "with_counts": int(counts), "scale": scale, "parts": min(PARTS, B)}
        outputs: dict[str, Numbers] = {}
        for w in self.layout.weights:
            table = inputs.weights[w.name]
            shape = (1, *table.shape) if len(table) == B else (values["parts"], *table.shape)
            out = outputs[w.name] = np.zeros(shape if counts else (1,) * len(shape))
            values |= table_parameters(f"out.{w.name}", out, "part", "b")
        self._run("log_counts", inputs, values, {"chart": 1, "given": 1})
        return log_z, {name: out[0] if len(out) == 1 else out.sum(0) for name, out in outputs.items()} if counts else {}

    def best(self, inputs: Inputs, k: int, trace: Trace, width: int) -> tuple[Numbers, Numbers]:
        """Scores of the k best derivations, shape ``(k, B)``, and the weights in them, shape ``(k, B, width)``.

        :param trace: numbers of the elements of tables, see :mod:`~pyrogram.recursion.emit.traces`.
        """
        B = len(inputs.lengths)
        values = {"k": k, "scores": np.empty((k, B))}
        values |= trace_values(self.layout, trace, np.full((k, B, width), -1, np.int64))
        self._run("best", inputs, values, {"ranked": k})
        return values["scores"], values["trace"]

    def most_expected(
        self, inputs: Inputs, worth: Mapping[str, Numbers], trace: Trace, width: int
    ) -> tuple[Numbers, Numbers]:
        """The derivations with the greatest sums of posteriors: the sums, ``(B,)``, and the weights, ``(B, width)``.

        :param worth: of the weights, in their shapes: what the posterior of an instance with one of them is multiplied
            by; of several, by the sum.
        """
        B = len(inputs.lengths)
        values = {"scores": np.empty(B)} | trace_values(self.layout, trace, np.full((B, width), -1, np.int64))
        for name, table in worth.items():
            values |= table_parameters(f"worth.{name}", table, "b")
        self._run("most_expected", inputs, values, {"chart": 1, "given": 1, "ranked": 1})
        return values["scores"], values["trace"]

    def draw(self, inputs: Inputs, number: int, seed: int, trace: Trace, width: int) -> tuple[Numbers, Numbers]:
        """Log Z, shape ``(B,)``, and the weights in drawn derivations, ``(number, B, width)``; see :meth:`best`."""
        B = len(inputs.lengths)
        values = {"draws": number, "seed": seed, "log_z": np.empty(B)}
        values |= trace_values(self.layout, trace, np.full((number, B, width), -1, np.int64))
        self._run("draw", inputs, values, {"chart": 1})
        return values["log_z"], values["trace"]

    def _run(self, name: str, inputs: Inputs, extra: Mapping[str, Any], memory: Mapping[str, int]) -> None:
        """Call a function on every thread, which is compiled when it is first needed.

        :param extra: parameters that other functions have not.
        :param memory: arrays of a thread, and how many numbers they have for each cell.
        """
        self._checks.check(inputs, np.dtype(np.float64))
        if name not in self._compiled:
            make = _FUNCTIONS[name]
            self._compiled[name] = compiled(self.recursion, f"scalar {name}", lambda: [make(self.cells)], "float64", 8)
        B, call, sizes, n = len(inputs.lengths), self._compiled[name], inputs.sizes, inputs.pitch
        values = {"order": np.arange(B), "count": B, "parts": B, "batch": B, **inputs.parameters()}
        values |= {"rows_by_symbol": rows_by_symbol(self.cells, sizes, inputs.lists), **extra}
        cells = sum(n ** self.cells.arity[x] * self.cells.num_symbols(x, sizes) for x in self.cells.sizes)
        agenda = size_of_agenda(self.cells, n, sizes)

        def work(turns: Numbers) -> None:
            own = {array: np.empty(cells * each) for array, each in memory.items()}
            call(name, {**values, **own, "agenda": np.zeros(agenda, np.int64), "turns": turns})

        if B:
            run_workers(work, cost=B * 100.0 * n**3)
