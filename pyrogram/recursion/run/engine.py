# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A recursion for many sentences that runs: compiled functions, memory and threads."""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..code.objects import Call, Compiled
from ..code.statements import Function
from ..code.threads import run_workers
from ..emit import descents, driver, tangents
from ..emit.agenda import size_of_agenda
from ..emit.inputs import PARTS, Inputs, strided
from ..emit.instances import rows_by_symbol
from ..emit.layout import Layout
from ..emit.tables import Tables
from ..emit.traces import Trace, trace_values
from ..rules.cells import CellClass, Cells, Term, symbols_in
from ..rules.language import InvalidRecursion, Ref, Size, Word, _positions
from ..rules.lowering import items_here, lower
from ..rules.recursions import Recursion
from .checks import Checks
from .functions import compiled

Numbers = Any  # a numpy array
Values = Mapping[str, Any]  # of parameters, by name

LINE = 64  # bytes of a cache line, and of the lanes of a cell
MOST_PREPARED = 1024  # calls of different shapes that are remembered
LONG = 128  # words from which on a sentence may be done alone
FLOAT32_BLOCKS = 64  # whose counts are added up in float32; their sums are added up in float64
WORTH = 6e5  # operations with symbols from which on a sentence may be done alone: fewer do not pay for the compiler
LARGE = 2**24  # bytes of a chart of a block, far more than the caches have
KEPT = 2**22  # bytes of memory that a thread keeps for its next call

BLOCKS: dict[str, type[driver.Blocks]] = {
    "lanes": driver.LogCounts,
    "tangents": tangents.Tangents,
    "draw": descents.IndependentDraws,
    "best": descents.BestDerivation,
}


@dataclass(frozen=True, eq=False)
class Prepared:
    """A function with the parameters that follow from shapes.

    :param size: of its memory, in cells.
    :param cost: about the number of operations for a sentence.
    """

    call: Call
    size: int
    pitch: int
    cost: float


# What every call gives anew, besides the arrays of sentences and the function's own parameters.
_LATER = ("order", "turns", "memory", "mantissas", "exponents", "starts", "agenda", "rows_by_symbol")


class LanesEngine:
    """Log Z, expected counts, draws and best derivations of many sentences at once.

    :param recursion: the rules.
    :param dtype: of lanes, ``float64`` or ``float32``.
    :param logs: whether weights are logarithms; where they are not, all sentences share them.
    :param weights: the type of weights, if it is another.
    :param given: tables that are not counted; where there are some, no weights are logarithms.
    :param shared: whether all sentences share the weights of :func:`plain_tables`. These are then no logarithms, except
        for best derivations, which take logarithms alone. None: if all weights are shared, and items have symbols.
    :param width: sentences at once; None: as many as a cache line has numbers.
    """

    def __init__(
        self,
        recursion: Recursion,
        dtype: str = "float64",
        logs: bool = True,
        weights: str = "",
        given: frozenset[str] = frozenset(),
        shared: bool | None = None,
        width: int | None = None,
    ) -> None:
        self._weights = np.dtype(weights or dtype)
        self.dtype, self._name, self.width = np.dtype(dtype), dtype, width or LINE // np.dtype(dtype).itemsize
        self.cells = lower(recursion, widen=True)
        self.layout, self._checks = Layout(self.cells, given), Checks.of(self.cells)
        self.recursion, self.logs = recursion, logs
        self.has_symbols = any(self.cells.sizes.values())
        self.shared = not logs and self.has_symbols if shared is None else shared
        self._functions: dict[str, Compiled] = {}
        self._prepared: dict[object, Prepared] = {}
        self._own = threading.local()
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
        B, alone = len(inputs.lengths), self._alone(inputs, order)
        log_z, outputs = np.empty(B), dict[str, Numbers]()
        parts = alone + -(-(len(order) - alone) // self.width)
        if into is not None:
            outputs = {name: table[None] for name, table in into.items()}
            if any(table.dtype != self.dtype for table in into.values()):
                raise ValueError(f"counts are added to tables of {self.dtype}, the type of the weights: make them such")
        elif counts:
            self._checks.check_names(inputs)
            tables = {w.name: inputs.weights[w.name] for w in self.layout.events}
            if not by_sentence and any(len(table) == 1 for table in tables.values()):
                parts = min(parts, max(PARTS, -(-parts // FLOAT32_BLOCKS)) if self.dtype == np.float32 else PARTS)
            for name, table in tables.items():
                rows = (1, B) if by_sentence or len(table) != 1 else (parts, 1)
                outputs[name] = np.zeros((*rows, *table.shape[1:]), self.dtype)
        # Nothing is multiplied without a scale, and each sentence has its own place.
        fixed: dict[str, Any] = {"parts": parts, "with_counts": int(counts), "plain": int(scale is None)}
        # No parameter, but it tells the strides of outputs.
        fixed["outputs"] = by_sentence, *[(n, x.shape, x.strides) for n, x in (into or directions or {}).items()]
        values = {"log_z": log_z, **{f"out.{name}": out for name, out in outputs.items()}}
        if scale is not None:
            values["scale"] = np.ascontiguousarray(scale, np.float64)
        if directions is None:
            self._run("lanes", inputs, order, values, fixed, alone)
        else:
            tangent = np.empty(B)
            values |= {"tangent": tangent} | {f"direction.{name}": x for name, x in directions.items()}
            self._run("tangents", inputs, order, values, fixed, 0)
            log_z = np.where(log_z < np.inf, tangent, np.nan)
        if not counts:
            return log_z, {}
        return log_z, {n: out[0] if len(out) == 1 else out.sum(0, dtype=np.float64) for n, out in outputs.items()}

    def draw(
        self, inputs: Inputs, order: Numbers, rows: tuple[int, int], seed: int, trace: Trace
    ) -> tuple[Numbers, Numbers]:
        """Log Z, and the weights in drawn derivations, shape ``(number, B, width)``.

        :param rows: number and width.
        :param trace: numbers of the elements of tables, see :mod:`~pyrogram.recursion.emit.traces`.
        """
        B, n, number = len(inputs.lengths), inputs.pitch - 1, rows[0]
        log_z = np.empty(B)
        values = {"log_z": log_z, "draws": number, "seed": seed, "batch": B}
        values |= trace_values(self.layout, trace, np.full((number, B, rows[1]), -1, np.int64))
        self._run("draw", inputs, order, values, {}, self._alone(inputs, order), 2.0 * n**3 + 1000.0 * number * n)
        return log_z, values["trace"]

    def best(self, inputs: Inputs, order: Numbers, trace: Trace, width: int) -> tuple[Numbers, Numbers]:
        """The log weight of the best derivation, shape ``(B,)``, and the weights in it, shape ``(B, width)``."""
        B, n = len(inputs.lengths), inputs.pitch - 1
        values = {"scores": np.empty(B), "batch": B} | trace_values(
            self.layout, trace, np.full((B, width), -1, np.int64)
        )
        self._run("best", inputs, order, values, {}, self._alone(inputs, order), 2.0 * n**3 + 1000.0 * n)
        return values["scores"], values["trace"]

    def _run(
        self, name: str, inputs: Inputs, order: Numbers, extra: Values, fixed: Values, alone: int, cost: float = 0.0
    ) -> None:
        """Call a function on every thread.

        :param extra: parameters that other functions have not.
        :param fixed: those that follow from shapes and from what is wanted.
        :param alone: how many of the first sentences are done alone.
        :param cost: about the number of operations for a sentence; 0: that of log Z and counts.
        """
        if len(order) == 0:
            return
        if alone:
            self._lone._run(name, inputs, order[:alone], extra, fixed, 0, cost)
            self._run(name, inputs, order[alone:], extra, fixed, 0, cost)
            return
        fixed = {"parts": -(-len(order) // self.width), **fixed, "count": len(order)}
        pitch = int(inputs.lengths[order[0]]) + 1
        key = name, pitch, len(inputs.lengths), *fixed.values(), inputs.key or inputs.shapes()
        prepared = self._prepared.get(key)
        if prepared is None:
            prepared = self._prepared[key] = self._prepare(name, inputs, extra, fixed, pitch)
        elif not inputs.checked:
            if inputs.lists:
                self._checks.check_lists(inputs.sizes, inputs.lists)
            self._checks.check_words(inputs)
        values, descends = {"order": order, **extra, **inputs.arrays()}, name in ("draw", "best")
        if descends:
            values["rows_by_symbol"] = rows_by_symbol(self.cells, inputs.sizes, inputs.lists)

        def work(turns: Numbers) -> None:
            try:
                call, later = self._with_memory(prepared, inputs.addresses), {"turns": turns}
                if descends:
                    later["agenda"] = np.zeros(size_of_agenda(self.cells, prepared.pitch, inputs.sizes), np.int64)
                call(values | later)
            except BaseException:
                self._own.__dict__.clear()  # a function that ends early leaves anything in memory
                raise

        run_workers(work, cost=len(order) * (cost or prepared.cost) * self.dtype.itemsize / 8)

    def _alone(self, inputs: Inputs, order: Numbers) -> int:
        """How many of the first sentences are quicker alone, where the chart of a block has room for others in vain.

        So it is as long as the longest of a block is longer than the others by far.
        """
        if self.width == 1:
            return 0
        for x, b in enumerate(order):
            n = int(inputs.lengths[b])
            most_alone = self._as_long_as(n, inputs.sizes)
            if not most_alone:
                return x
            block = inputs.lengths[order[x : x + self.width]]
            if ((block / n) ** self._positions).sum() > most_alone:
                return x
        return len(order)

    def _as_long_as(self, n: int, sizes: Mapping[str, int]) -> float:
        """How many sentences of n words alone take as long as a block of them; 0 if none is done alone.

        Charts of blocks that are far larger than the caches take more than twice as long as others. With symbols a
        sentence alone has vectors of them, but for best derivations.
        """
        if not self.has_symbols:
            return float(as_long_as(n))
        if self._operations(n, *sizes.items()) < WORTH:
            return 0.0
        items = self.cells.sizes.items()
        cells = sum(2 * _product(symbols, sizes) * n ** self.cells.arity[name] for name, symbols in items)
        return 6.0 if cells * LINE > LARGE else 2.5

    @functools.cached_property
    def _sums(self) -> list[tuple[tuple[Size, ...], int]]:
        """Of every sum of products its symbols, and how many positions its terms have."""
        sums = []
        for cell, _, term in self.cells.terms:
            cells, inner = max(0, len(cell.positions) - (cell.width is not None)), term.inner
            if inner is not None:
                sums.append((tuple(x.size for x in (*inner.free, *inner.symbols)), cells + len(inner.loops)))
            sums.append((tuple(x.size for x in symbols_in(term.factors)), cells))
        return sums

    def _num_operations(self, n: int, *sizes: tuple[str, int]) -> float:
        """About the number of operations for a sentence of n words, inside and outside."""
        return sum(
            6.0 * _product(symbols, dict(sizes)) * float(n) ** p / math.factorial(p) for symbols, p in self._sums
        )

    @functools.cached_property
    def _positions(self) -> int:
        """The power of n that a chart takes."""
        return max(len(rule.positions) for rule in self.recursion.rules)

    @functools.cached_property
    def _lone(self) -> LanesEngine:
        """The same, one sentence at a time."""
        options = self._name, self.logs, self._weights.name, self.layout.given, self.shared
        return LanesEngine(self.recursion, *options, width=1)

    def _prepare(self, name: str, inputs: Inputs, extra: Values, fixed: Values, pitch: int) -> Prepared:
        """A function, compiled when it is first needed, and all its parameters that follow from shapes.

        :param pitch: words of the longest sentence, and one.
        """
        self._checks.check(inputs, self._weights)
        values: dict[str, Any] = {**inputs.strides(), **fixed}
        values["pitch"] = pitch | 1  # odd: so rows do not fall into the same cache sets
        run, later = self._function(name), {*extra, *inputs.arrays(), *inputs.addresses, *_LATER}
        for w in self.layout.events if "plain" in fixed else ():
            out = extra.get(f"out.{w.name}")
            if out is None:  # of the same rank, and nothing is written into it
                out = values[f"out.{w.name}"] = np.zeros((1,) * (inputs.weights[w.name].ndim + 1), self.dtype)
            values |= strided(f"out.{w.name}", out, ("part", "b", *range(out.ndim - 2)))
        if fixed.get("plain"):
            values["scale"] = np.ones(len(inputs.lengths))
        for w in self.layout.weights if name == "tangents" else ():
            direction = extra[f"direction.{w.name}"]
            values |= strided(f"direction.{w.name}", direction, ("b", *range(direction.ndim - 1)))
        size = run("size", {**values, **inputs.arrays(), **inputs.addresses})
        if len(self._prepared) >= MOST_PREPARED:
            self._prepared.clear()
        cost = self._operations(pitch, *inputs.sizes.items()) * (3 if name == "tangents" else 1)
        return Prepared(Call(run, name, values, later), size, values["pitch"], cost)

    def _with_memory(self, prepared: Prepared, addresses: Mapping[str, int]) -> Call:
        """A function with memory of this thread, which is kept for the next such call if it is small.

        :param addresses: of weights, of which a thread keeps those of the last call.
        """
        calls = self._own.__dict__.setdefault("calls", {})
        kept = calls.get(prepared)
        if kept is not None and kept[0] is addresses:
            call: Call = kept[1]
            return call
        if kept is not None:
            memory = kept[2]
        else:  # weights that only empty sums are multiplied by stay zero, each in its own place
            memory = {name: lines_of(prepared.size, self.dtype, self.width) for name in self._memories}
            memory["starts"] = np.zeros(self.width, np.int64)
        call = prepared.call.given({**memory, **addresses})
        if memory["memory"].nbytes + sum(other["memory"].nbytes for _, _, other in calls.values()) > KEPT:
            calls.clear()
        if memory["memory"].nbytes <= KEPT:
            calls[prepared] = addresses, call, memory
        return call

    #: Arrays of cells. Pages of zeros that nobody writes into take no memory.
    _memories: Sequence[str] = ("memory", "mantissas", "exponents")

    @property
    def _kind(self) -> str:
        """Tells the functions of this engine from those of others, in the cache."""
        numbers = " with numbers" if self.shared else ""
        return f"lanes of {'logs' if self.logs else 'reals'}{numbers} given {sorted(self.layout.given)}"

    def _function(self, name: str) -> Compiled:
        def make() -> list[Function]:
            layout = Layout(lower(self.recursion), self.layout.given)
            blocks = BLOCKS[name](self.recursion, self.width, self._name, layout, self.shared, self.logs)
            return [blocks.function(), blocks.size()]

        if name not in self._functions:
            kind = f"{name} in {self._kind}"
            functions = compiled(self.recursion, kind, make, self._name, self.width, self._weights.name)
            self._functions[name] = functions
        return self._functions[name]


def as_long_as(n: Any) -> Any:
    """How many sentences of n words alone take as long as a block of them; 0 where none is done alone.

    From 256 words on charts of blocks are far larger than the caches.
    """
    return 2.0 * (n >= LONG) + 3.0 * (n >= 2 * LONG)


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


def _product(symbols: Sequence[Size], sizes: Mapping[str, int]) -> int:
    """The number of all symbols together."""
    return math.prod(s if isinstance(s, int) else sizes[s] for s in symbols)


def plain_tables(recursion: Recursion) -> frozenset[str]:
    """Weights that know neither positions nor words, in any rule; none, if another weight does in some rules only.

    Where items have no symbols there is none.
    """
    cells = lower(recursion, widen=True)
    if not any(cells.sizes.values()):
        return frozenset()
    tables = Tables(cells, Layout(cells), LINE // 8, shared=True)
    numbers, others = ({w.table for w in weights} for weights in (tables.numbers, tables.in_lanes))
    return frozenset() if numbers & others else frozenset(numbers)


def fits_lanes(recursion: Recursion) -> bool:
    """Whether a recursion can be run in lanes: rules that say the same of all sentences of a block, whatever their
    lengths; no item at a word; and rows of lists that read their own cell in no inner sum.
    """
    try:
        cells = lower(recursion, widen=True)
    except InvalidRecursion:
        return False
    return all(_fits(cells, cell, head.ref, term) for cell, head, term in cells.terms)


def _fits(cells: Cells, cell: CellClass, head: Ref, term: Term) -> bool:
    if term.inner is not None and not term.inner.factors:
        return False
    if any(isinstance(x, Word) and x.words for f in (head, *term.rule.items) for x in f.symbols):
        return False
    if cell.kind == "goal":
        return all(f.positions for f in term.rule.items)
    used = [x.name for f in term.all_factors for x in _positions(f)]
    used += [x for b in term.guard for x in (b.x, b.y)]
    used += [x.name for loop in term.loops for x in (*loop.low, *loop.high)]
    if "n" in used:
        return False
    return term.inner is None or not items_here(cell, term.rule, cells.first, cells.domains)
