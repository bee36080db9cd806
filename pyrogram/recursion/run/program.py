# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A recursion that runs on any numbers: many sentences at once, one in each SIMD lane.

Nothing is compiled before it is needed.
"""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Mapping, Sized
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..emit.inputs import Inputs, whole_vectors
from ..emit.layout import Layout
from ..emit.traces import Trace
from ..rules.lowering import lower
from ..rules.recursions import Recursion
from .engine import KEPT, LanesEngine, plain_tables

Numbers = Any  # a numpy array

MOST_NATS = 80.0  # of logarithms whose exponentials are numbers, even in float32
MOST_IN_PLACE = 700.0  # the same of float64, where numbers that are not raised once are copied for each position


@dataclass(frozen=True, eq=False)
class Plan:
    """What follows from the shapes of weights, and memory for those that are exponentiated once for all sentences.

    A thread keeps the one of its last call, if it is small.

    :param shapes: see :meth:`.Inputs.shapes`.
    :param engine: the one for weights that are near one, or for all if none are exponentiated.
    :param numbers: those that are, one after the other.
    :param tables: each of them in its shape.
    """

    shapes: object
    engine: LanesEngine
    numbers: Numbers
    tables: Mapping[str, Numbers]


class Program:
    """Log Z, expected counts, the best derivations and draws.

    :param recursion: the rules; :attr:`tables` are the weights that it takes.
    """

    def __init__(self, recursion: Recursion) -> None:
        self.recursion = recursion
        self._lanes = functools.lru_cache(functools.partial(LanesEngine, recursion))
        self._of_thread = threading.local()
        layout = Layout(lower(recursion))
        self.tables = layout.weights
        self._by_position = any(w.num_positions for w in layout.weights)
        self.plain = plain_tables(recursion)
        """Weights that know neither positions nor words; see :func:`.plain_tables`."""

    def log_counts(
        self,
        inputs: Inputs,
        *,
        counts: bool = True,
        scale: Numbers | None = None,
        into: Mapping[str, Numbers] | None = None,
        by_sentence: bool = False,
        directions: Mapping[str, Numbers] | None = None,
    ) -> tuple[Numbers, dict[str, Numbers]]:
        """Log Z, shape ``(B,)``, and expected counts in the shapes of the weights, summed where sentences share them;
        none of constants.

        :param inputs: weights, all of them float64 or all float32; where some are constants, the others are shared.
        :param scale: what the counts of each sentence are multiplied by, shape ``(B,)``.
        :param into: what counts are added to, too: zeros in the same shapes, where no two sentences speak of the same
            element of a table.
        :param by_sentence: counts of shape ``(B, ...)`` also of tables that sentences share.
        :param directions: see :meth:`tangents`, in float64 and at most one; then derivatives come in the place of all.
        """
        if directions is not None and self.recursion.linked:  # what is read in place has no tangent
            nan = any(np.isnan(table).any() for table in inputs.weights.values() if len(table) == 1)
            engine, few, unknown = self._lanes("float64"), inputs.in_logarithms(), nan and len(inputs.lengths) > 1
        else:
            engine, few, unknown = self._ready(inputs)
        options: dict[str, Any] = {"counts": counts, "scale": scale, "into": into, "by_sentence": by_sentence}
        log_z, by_table = engine.log_counts(few, longest_first(inputs.lengths), directions=directions, **options)
        if unknown:
            log_z.fill(np.nan)
        return log_z, by_table

    def tangents(
        self, inputs: Inputs, directions: Mapping[str, Numbers], *, scale: Numbers | None = None
    ) -> tuple[Numbers, dict[str, Numbers]]:
        """Derivatives of log Z, shape ``(B,)``, and of expected counts, in the shapes of the weights, in one direction.

        Those of the counts are the Hessian of log Z times the direction, float64; NaN where log Z is no number.

        :param directions: of all log weights, in their shapes.
        :param scale: what the counts of each sentence are multiplied by, shape ``(B,)``.
        """
        sizes = [float(end) for x in directions.values() if x.size for end in (x.min(), x.max())]
        if not np.isfinite(sizes).all():
            directions = {n: np.where(np.isfinite(x), x, np.nan) for n, x in directions.items()}
            sizes = [float(np.nanmax(np.abs(x), initial=0.0)) for x in directions.values()]
        size = max(map(abs, sizes), default=0.0)
        unit = 2.0 ** min(np.ceil(np.log2(size)), 1023) if size > 0 else 1.0  # a derivative is linear in its direction
        u = {name: np.divide(x, unit, dtype=np.float64) for name, x in directions.items()}
        back = np.multiply(unit, np.ones(len(inputs.lengths)) if scale is None else scale)
        tangent, by_table = self.log_counts(inputs.in_doubles(), scale=back, directions=u)
        return tangent * unit, by_table

    def best(self, inputs: Inputs, k: int, trace: Trace, width: int) -> tuple[Numbers, Numbers]:
        """Scores of the k best derivations, shape ``(k, B)``, and the weights in them, ``(k, B, width)``.

        Where there are fewer, scores are -inf and rows -1.

        :param trace: numbers of the elements of tables, see :mod:`~pyrogram.recursion.emit.traces`.
        """
        engine = self._lanes("float64", shared=self.has_numbers(inputs.weights))
        return engine.best(inputs.in_doubles(), longest_first(inputs.lengths), k, trace, width)

    def most_expected(
        self, inputs: Inputs, worth: Mapping[str, Numbers], trace: Trace, width: int
    ) -> tuple[Numbers, Numbers]:
        """The derivations of positive weight with the greatest sums of posteriors of instances of rules.

        :param worth: of the weights, in their shapes: what the posterior of an instance with one of them is multiplied
            by; of several, by the sum.
        :returns: the sums, shape ``(B,)``, -inf without derivations, and the weights, ``(B, width)``; see :meth:`best`.
        """
        order = longest_first(inputs.lengths)
        return self._lanes("float64").most_expected(inputs.in_doubles(), order, worth, trace, width)

    def draw(self, inputs: Inputs, number: int, seed: int, trace: Trace, width: int) -> tuple[Numbers, Numbers]:
        """Log Z, shape ``(B,)``, and the weights in drawn derivations, ``(number, B, width)``; see :meth:`best`.

        Rows of sentences without derivations are -1.
        """
        engine, few, _ = self._ready(inputs.in_logarithms())
        return engine.draw(few, longest_first(inputs.lengths), (number, width), seed, trace)

    def has_numbers(self, weights: Mapping[str, Sized]) -> bool:
        """Whether all sentences share the weights that know neither positions nor words."""
        return bool(self.plain) and all(len(weights.get(name, ())) == 1 for name in self.plain)

    def _ready(self, inputs: Inputs) -> tuple[LanesEngine, Inputs, bool]:
        """An engine of lanes, and weights as it takes them: one table for all sentences is exponentiated once.

        And whether a weight that all sentences share is NaN, which charts may pass over.
        """
        shapes = inputs.shapes()
        plan: Plan | None = self._of_thread.__dict__.get("plan")
        if plan is None or plan.shapes != shapes:
            plan = self._plan(inputs, shapes)
            self._of_thread.plan = plan if plan.numbers.nbytes <= KEPT else None
        if not plan.tables:
            return plan.engine, inputs, False
        logs = plan.numbers
        if self.recursion.linked:  # beyond the last symbol are zeros
            logs.fill(-np.inf)
        for name, table in plan.tables.items():
            table[...] = inputs.weights[name]
        if not _is_near_one(logs, MOST_IN_PLACE if self.recursion.linked and logs.itemsize == 8 else MOST_NATS):
            engine = self._lanes(_dtype(inputs), constants=inputs.constants)
            return engine, inputs.in_logarithms(), len(inputs.lengths) > 1 and bool(np.isnan(logs).any())
        np.exp(logs, logs)
        others = {n: np.asarray(w, logs.dtype) for n, w in inputs.weights.items() if n not in plan.tables}
        rest = inputs.words, inputs.sizes, inputs.lists, inputs.constants, inputs.checked
        few = Inputs(inputs.lengths, {**plan.tables, **others}, *rest)
        few.key = plan.shapes
        return plan.engine, few, False

    def _plan(self, inputs: Inputs, shapes: object) -> Plan:
        weights, constants, dtype = inputs.weights, inputs.constants, _dtype(inputs)
        linked = bool(self.recursion.linked)
        are_numbers = self.has_numbers(weights) and not (linked and self.plain & constants)
        plain = self.plain if are_numbers else frozenset[str]()
        shared = bool(constants) or (not self._by_position and {len(table) for table in weights.values()} <= {1})
        engine = self._lanes(dtype, logs=not shared, constants=constants, shared=bool(plain))
        raised = [name for name in weights if (name not in constants if shared else name in plain)]
        shapes_of = {name: whole_vectors(weights[name].shape, linked) for name in raised}
        numbers, tables, start = np.empty(sum(map(math.prod, shapes_of.values())), dtype), {}, 0
        for name, shape in shapes_of.items():
            end = start + math.prod(shape)
            tables[name] = numbers[start:end].reshape(shape)[tuple(map(slice, weights[name].shape))]
            start = end
        return Plan(shapes, engine, numbers, tables)


def _is_near_one(logs: Numbers, most: float) -> bool:
    """Whether no logarithm is more than this from zero; some exponentials may be zero."""
    if np.abs(logs).max(initial=0.0) < most:  # which NaN is not
        return True
    return bool((logs < most).all() and ((logs > -most) | (logs == -np.inf)).all())


def longest_first(lengths: Numbers) -> Numbers:
    """The order in which sentences fill the lanes."""
    return (-lengths).argsort(kind="stable")


def _dtype(inputs: Inputs) -> str:
    return "float32" if {table.dtype.char for table in inputs.weights.values()} == {"f"} else "float64"
