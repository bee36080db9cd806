# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A recursion for many sentences that runs: compiled functions, memory and threads."""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..code.expressions import VECTOR
from ..code.objects import Call, Compiled
from ..code.statements import Function
from ..code.threads import run_workers
from ..emit import descents, driver, rankings, tangents
from ..emit.agenda import size_of_agenda
from ..emit.inputs import PARTS, Inputs, table_parameters, whole_vectors
from ..emit.instances import rows_by_symbol
from ..emit.layout import Layout
from ..emit.tables import Tables
from ..emit.traces import Trace, trace_values
from ..rules.cells import symbols_in
from ..rules.lowering import lower
from ..rules.recursions import Recursion
from .checks import Checks
from .functions import compiled

Numbers = Any  # a numpy array
Values = Mapping[str, Any]  # of parameters, by name

LINE = 64  # bytes of a cache line, and of the lanes of a cell
MOST_PREPARED = 1024  # calls of different shapes that are remembered
LONG = 128  # words from which on a sentence may be done alone
FLOAT32_BLOCKS = 64  # whose counts are added up in float32; their sums are added up in float64
MOST_COUNTED = 2**25  # counts in all parts together: where there are links, large grammars have fewer parts
WORTH = 6e5  # operations with symbols from which on a sentence may be done alone: fewer do not pay for the compiler
KEPT = 2**24  # bytes of memory that a thread keeps for its next call

BLOCKS: dict[str, type[driver.Blocks]] = {
    "lanes": driver.LogCounts,
    "tangents": tangents.Tangents,
    "draw": descents.IndependentDraws,
    "best": descents.BestDerivation,
    "ranked": rankings.KBest,
    "most_expected": rankings.MostExpected,
}


class Prepared(NamedTuple):
    """A function with the parameters that follow from shapes."""

    call: Call
    size: int
    """Of its memory, in cells."""
    cost: float
    """About the number of operations for a sentence."""


COUNTS, RANKINGS = ("lanes", "tangents"), ("ranked", "most_expected")  # others go down from the goal
MEMORY = ("memory", "mantissas", "exponents")  # arrays of cells; pages of zeros that nobody writes into take no memory
# What every call gives anew, besides the arrays of sentences and the function's own parameters.
_LATER = (*MEMORY, "order", "turns", "agenda", "ranked", "rows_by_symbol")


@dataclass(eq=False)
class LanesEngine:
    """Log Z, expected counts, draws, best derivations and those of most expected instances, of many sentences at once.

    :param recursion: the rules.
    :param dtype: of lanes, ``float64`` or ``float32``.
    :param logs: whether weights are logarithms; where they are not, all sentences share them.
    :param constants: tables that are not counted; where there are some, no weights are logarithms.
    :param shared: whether all sentences share the weights of :func:`plain_tables`. These are then no logarithms, except
        for best derivations, which take logarithms alone.
    :param width: sentences at once; 0: as many as a cache line has numbers.
    """

    recursion: Recursion
    dtype: str = "float64"
    logs: bool = True
    constants: frozenset[str] = frozenset()
    shared: bool = False
    width: int = 0
    most_alone: ClassVar[float] = 2.5  # sentences alone, of one length, that take as long as a block

    def __post_init__(self) -> None:
        self._lane = np.dtype(self.dtype)
        self.width = self.width or LINE // self._lane.itemsize
        self.cells = lower(self.recursion, for_blocks=True)
        as_written = lower(self.recursion)
        self.layout, self._checks = Layout(as_written, self.constants), Checks(as_written)
        self.has_symbols = any(self.cells.sizes.values())
        self._prepared: dict[object, Prepared] = {}
        self._of_thread = threading.local()
        self._function = functools.cache(self._compile)
        self._operations = functools.lru_cache(self._num_operations)

    def log_counts(
        self,
        inputs: Inputs,
        order: Numbers,
        *,
        counts: bool = True,
        scale: Numbers | None = None,
        into: Mapping[str, Numbers] | None = None,
        by_sentence: bool = False,
        directions: Mapping[str, Numbers] | None = None,
    ) -> tuple[Numbers, dict[str, Numbers]]:
        """Log Z, shape ``(B,)``; expected counts in the shapes of the weights, summed over sentences that share them,
        of tables that are counted: none of sentences whose log Z is no number. Or the derivatives of all these.

        :param order: the sentences, the longest first.
        :param scale: what the counts of each sentence are multiplied by, shape ``(B,)``.
        :param into: what counts are added to, zeros in the shapes of the weights (of ``by_sentence``): no two sentences
            speak of the same element.
        :param by_sentence: counts of shape ``(B, ...)`` also of tables that sentences share.
        :param directions: of the log weights, in their shapes and of the type of lanes, at most one: then derivatives
            in this direction are found.
        """
        name, B = "lanes" if directions is None else "tangents", len(inputs.lengths)
        alone = self._alone(inputs, order) if name == "lanes" or self.recursion.linked else 0
        parts = alone + -(-(len(order) - alone) // self.width)
        outputs = {}
        if into is not None:
            outputs = {x: table[None] for x, table in into.items()}
            if self.recursion.linked:
                raise ValueError("counts of recursions with links are not added to tables; leave out into=")
            if any(table.dtype != self.dtype for table in into.values()):
                raise ValueError(f"counts are added to tables of {self.dtype}, the type of the weights: make them such")
        elif counts:
            self._checks.check_names(inputs)
            tables = {w.name: inputs.weights[w.name] for w in self.layout.events}
            if not by_sentence and any(len(table) == 1 for table in tables.values()):
                most = PARTS
                if self.recursion.linked:
                    total = sum(math.prod(table.shape[1:]) for table in tables.values())
                    most = max(1, min(PARTS, MOST_COUNTED // max(1, total)))
                parts = min(parts, max(most, -(-parts // FLOAT32_BLOCKS)) if self.dtype == "float32" else most)
            for x, table in tables.items():
                rows = (1, B) if by_sentence or len(table) != 1 else (parts, 1)
                shape = whole_vectors((*rows, *table.shape[1:]), bool(self.recursion.linked))
                outputs[x] = np.zeros(shape, self._lane)[..., : table.shape[-1]]
        fixed: dict[str, Any] = {"parts": parts, "with_counts": int(counts)}
        # No parameter, but it tells the strides of outputs, and whether there is a scale.
        fixed["outputs"] = by_sentence, scale is None, _layouts(into or directions or {})
        values = {"log_z": np.empty(B), **{f"out.{x}": out for x, out in outputs.items()}}
        if scale is not None:
            values["scale"] = np.ascontiguousarray(scale, np.float64)
        if directions is not None:
            values |= {"tangent": np.empty(B)} | {f"direction.{x}": u for x, u in directions.items()}
        self._run(name, inputs, order, values, fixed, alone)
        log_z = values["log_z"]
        if directions is not None:
            log_z = np.where(log_z < np.inf, values["tangent"], np.nan)
        if not counts:
            return log_z, {}
        sums = {x: out[0] if len(out) == 1 else out.sum(0, dtype=np.float64) for x, out in outputs.items()}
        return log_z, {x: table.astype(self._lane, copy=False) for x, table in sums.items()}

    def draw(
        self, inputs: Inputs, order: Numbers, rows: tuple[int, int], seed: int, trace: Trace
    ) -> tuple[Numbers, Numbers]:
        """Log Z, and the weights in drawn derivations, shape ``(number, B, width)``.

        :param rows: number and width.
        :param trace: numbers of the elements of tables, see :mod:`~pyrogram.recursion.emit.traces`.
        """
        log_z, (number, width) = np.empty(len(inputs.lengths)), rows
        extra = {"log_z": log_z, "seed": seed}
        return log_z, self._descend("draw", inputs, order, trace, (number, len(log_z), width), extra, draws=number)

    def best(self, inputs: Inputs, order: Numbers, k: int, trace: Trace, width: int) -> tuple[Numbers, Numbers]:
        """The log weights of the k best derivations, shape ``(k, B)``, and the weights in them, ``(k, B, width)``."""
        name, scores = "best" if k == 1 else "ranked", np.empty((k, len(inputs.lengths)))
        return scores, self._descend(name, inputs, order, trace, (*scores.shape, width), {"scores": scores}, k=k)

    def most_expected(
        self, inputs: Inputs, order: Numbers, worth: Mapping[str, Numbers], trace: Trace, width: int
    ) -> tuple[Numbers, Numbers]:
        """The greatest sums of posteriors of instances, ``(B,)``, and the weights in their derivations, ``(B, width)``.

        :param worth: of the weights, in their shapes: what the posterior of an instance with one of them is multiplied
            by; of several, by the sum.
        """
        log_z, scores = np.empty((2, len(inputs.lengths)))
        extra = {"log_z": log_z, "scores": scores} | {f"worth.{x}": table for x, table in worth.items()}
        shape, layouts = (len(scores), width), _layouts(worth)
        return scores, self._descend("most_expected", inputs, order, trace, shape, extra, worth=layouts)

    def _descend(
        self,
        name: str,
        inputs: Inputs,
        order: Numbers,
        trace: Trace,
        shape: tuple[int, ...],
        extra: Values,
        **fixed: object,
    ) -> Numbers:
        """Derivations as rows of numbers, in a table of some shape."""
        values = {**extra, **trace_values(self.layout, trace, np.full(shape, -1, np.int64))}
        alone = 0 if name == "ranked" else self._alone(inputs, order)
        self._run(name, inputs, order, values, fixed, alone)
        return values["trace"]

    def _run(self, name: str, inputs: Inputs, order: Numbers, extra: Values, fixed: Values, alone: int) -> None:
        """Call a function on every thread.

        :param extra: parameters that other functions have not.
        :param fixed: those that follow from shapes and from what is wanted.
        :param alone: how many of the first sentences are done alone.
        """
        if len(order) == 0:
            return
        if alone:
            self._lone._run(name, inputs, order[:alone], extra, fixed, 0)
            self._run(name, inputs, order[alone:], extra, fixed, 0)
            return
        pitch = int(inputs.lengths[order[0]]) + 1 | 1  # odd: so rows do not fall into the same cache sets
        numbers = {"batch": len(inputs.lengths), "pitch": pitch, "parts": -(-len(order) // self.width)}
        fixed = {**numbers, **fixed, "count": len(order)}
        key = name, *fixed.values(), inputs.key or inputs.shapes()
        prepared = self._prepared.get(key)
        if prepared is None:
            prepared = self._prepared[key] = self._prepare(name, inputs, extra, fixed)
        elif not inputs.checked:
            if inputs.lists:
                self._checks.check_lists(inputs.sizes, inputs.lists)
            self._checks.check_words(inputs)
        values = {"order": order, **extra, **inputs.arrays()}
        sizes = inputs.sizes
        if name not in COUNTS:
            values["rows_by_symbol"] = rows_by_symbol(self.cells, sizes, inputs.lists)

        def work(turns: Numbers) -> None:
            try:
                call, memory = self._with_memory(prepared), {"turns": turns}
                if name not in COUNTS:
                    memory["agenda"] = np.zeros(size_of_agenda(self.cells, pitch, sizes), np.int64)
                if name in RANKINGS:
                    memory["ranked"] = np.empty(prepared.size * fixed.get("k", 1))  # more than there are items
                call(values | memory)
            except BaseException:
                self._of_thread.__dict__.clear()  # a function that ends early leaves anything in memory
                raise

        run_workers(work, cost=len(order) * prepared.cost * self._lane.itemsize / 8)

    def _alone(self, inputs: Inputs, order: Numbers) -> int:
        """How many of the first sentences are quicker alone: the chart of a block would have room for others in vain.

        For it is as long as the longest of a block. What is soon done does not pay for the compiler.
        Where positions are data, they differ from lane to lane.
        """
        for x, b in enumerate(order if self.width > 1 and not self.recursion.linked else ()):
            n = int(inputs.lengths[b])
            work = self._operations(n, *inputs.sizes.items()) / WORTH if self.has_symbols else n / LONG
            block = inputs.lengths[order[x : x + self.width]]
            if work < 1 or ((block / n) ** self._positions).sum() > self.most_alone:
                return x
        return len(order)

    def _num_operations(self, n: int, *sizes: tuple[str, int]) -> float:
        """About the number of operations for a sentence of n words, inside and outside."""
        total, known = 0.0, dict(sizes)  # if one is missing, checks say so
        for cell, _, term in self.cells.terms:
            positions, inner = max(0, len(cell.positions) - (cell.width is not None)), term.inner
            sums = [(symbols_in(term.factors), positions)]
            if inner is not None:
                sums.append(((*inner.free, *inner.symbols), positions + len(inner.loops)))
            for symbols, p in sums:
                products = math.prod(x.size if isinstance(x.size, int) else known.get(x.size, 1) for x in symbols)
                total += 6.0 * products * float(n) ** p / math.factorial(p)
        return total

    @functools.cached_property
    def _positions(self) -> int:
        """The power of n that a chart takes."""
        return max(len(rule.positions) for rule in self.recursion.rules)

    @functools.cached_property
    def _lone(self) -> LanesEngine:
        """The same, one sentence at a time."""
        return replace(self, width=1)

    def _prepare(self, name: str, inputs: Inputs, extra: Values, fixed: Values) -> Prepared:
        """A function, compiled when it is first needed, and all its parameters that follow from shapes."""
        self._checks.check(inputs, self._lane)
        if self.shared and self.recursion.linked and name in ("lanes", "draw"):
            for table in (inputs.weights[x] for x in plain_tables(self.recursion)):
                *others, last = (s // table.itemsize for s in table.strides[1:])
                if last != 1 or any(s % VECTOR for s in others):
                    raise ValueError("weights that are read in place lack room for whole vectors: see whole_vectors")
        values, n = {**inputs.parameters(), **extra, **fixed}, fixed["pitch"]
        if name not in COUNTS:
            cost = 2.0 * n**3 * fixed.get("k", 1) + 1000.0 * n * fixed.get("draws", 1)
        else:
            cost = self._operations(n, *inputs.sizes.items()) * (3 if name == "tangents" else 1)
            values.setdefault("scale", np.ones(len(inputs.lengths)))
            for w in self.layout.events:  # without counts of the same rank, and nothing is written into it
                out = extra.get(f"out.{w.name}", np.zeros((1,) * (w.num_axes + 2), self.dtype))
                values |= table_parameters(f"out.{w.name}", out, "part", "b")
        for beside in (f"{x}.{w.name}" for x in ("direction", "worth") for w in self.layout.weights):
            if beside in extra:
                values |= table_parameters(beside, extra[beside], "b")
        run = self._function(name)
        call = Call(run, name, values, {*extra, *inputs.arrays(), *_LATER})
        if len(self._prepared) >= MOST_PREPARED:
            self._prepared.clear()
        return Prepared(call, run("size", values), cost)

    def _with_memory(self, prepared: Prepared) -> Call:
        """A function with memory of this thread, which is kept for the next such call if it is small."""
        calls: dict[Prepared, Call] = self._of_thread.__dict__.setdefault("calls", {})
        if kept := calls.get(prepared):
            return kept
        # Weights that only empty sums are multiplied by stay zero, each in its own place.
        memory = {name: lines_of(prepared.size, self._lane, self.width) for name in MEMORY}
        call = prepared.call.with_values(memory)
        room = KEPT // (self.width * self._lane.itemsize)
        if prepared.size + sum(other.size for other in calls) > room:
            calls.clear()
        if prepared.size <= room:
            calls[prepared] = call
        return call

    @property
    def _kind(self) -> str:
        """Tells the functions of this engine from those of others, in the cache."""
        numbers = " with numbers" if self.shared else ""
        return f"lanes of {'logs' if self.logs else 'reals'}{numbers} given {sorted(self.constants)}"

    def _compile(self, name: str) -> Compiled:
        def make() -> list[Function]:
            every = frozenset(w.name for w in self.layout.weights)  # way down: nothing is counted
            layout = Layout(lower(self.recursion), self.constants if name in COUNTS else every)
            blocks = BLOCKS[name](self.recursion, self.width, self.dtype, layout, self.shared, self.logs)
            return [blocks.function(), blocks.size()]

        return compiled(self.recursion, f"{name} in {self._kind}", make, self.dtype, self.width)


def _layouts(tables: Mapping[str, Numbers]) -> tuple[object, ...]:
    """All that the strides of tables tell."""
    return tuple((name, table.shape, table.strides) for name, table in tables.items())


def lines_of(cells: int, dtype: Numbers, lanes: int) -> Numbers:
    """Zeros for some cells of lanes. The first begins a cache line: a cell that straddles two takes twice as long."""
    try:
        memory = np.zeros(cells * lanes + LINE // dtype.itemsize, dtype)
    except MemoryError:
        raise MemoryError(
            f"the chart of a sentence takes {cells * lanes * dtype.itemsize / 2**30:.0f} GiB; leave out the longest "
            "sentences, or rules with the longest right sides, each of whose symbols has a table of its own"
        ) from None
    skip = -memory.ctypes.data % LINE // memory.itemsize
    return memory[skip : skip + cells * lanes]


def plain_tables(recursion: Recursion) -> frozenset[str]:
    """Weights that know neither positions nor words, in any rule; none, if another weight does in some rules only.

    Where items have no symbols there is none.
    """
    cells = lower(recursion, for_blocks=True)
    if not any(cells.sizes.values()):
        return frozenset()
    tables = Tables(cells, Layout(cells), LINE // 8, shared=True)
    numbers, others = ({w.table for w in weights} for weights in (tables.numbers, tables.in_lanes))
    return frozenset() if numbers & others else frozenset(numbers)
