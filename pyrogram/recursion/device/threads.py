# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Kernels: the code of lanes for one lane, which a thread runs for one sentence after the other.

The sentences are in order of their lengths, so that the threads of a warp do the same. Thread t of T has the sentences
t, t + T, ...; so memory is that of T charts, however many sentences there are.

Sentences whose numbers leave the range of floats are left to the complete kernel: their log Z is NaN until then.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ..calling.layout import Layout
from ..calling.rows import place_chains
from ..lanes.descents import BestDerivation, BestTree, IndependentDraws, TreeDraws
from ..lanes.driver import LOG_Z, Blocks, LogCounts
from ..lanes.elements import Elements
from ..lanes.logarithms import log_of_lanes
from ..lanes.numbers import MARKED
from ..lanes.passes import Options
from ..lanes.tables import MEMORY, WeightCells
from ..machine.expressions import Array, Expression, Name, equal, fill, lane, negated, select
from ..machine.kernels import THREAD, THREADS, Kernel
from ..machine.statements import Code, Function
from ..rules.language import Ref
from ..rules.lowering import lower
from ..rules.recursions import Recursion

# One column at a time: two take twice the registers. Columns are filled in groups of 160 / n.
OPTIONS = Options(pair=False, columns=160)
_COUNT, _AGAIN = Name("count", "int"), Name("again", "int")
_OWN = {"memory": "size", "mantissas": "size", "exponents": "size", "agenda": "size.agenda", "terms": "size.terms"}


class ByThread(Elements):
    """Code that goes through the weights of one sentence."""

    @contextmanager
    def rows(self, family: Sequence[WeightCells], inward: bool) -> Iterator[None]:
        """Nothing is turned: numbers of sentences lie side by side already."""
        yield

    def add(self, f: Ref, number: Expression, part: bool) -> None:
        if not self.layout.is_counted(f.table):
            return
        target, code = self.layout.weight(f, f"out.{f.table}"), self.code
        with code.when(equal(Name(f"out.{f.table}.b", "int"), 0)):  # sentences share it
            code.add_atomically(target.array, target.index, number)
        with code.otherwise():
            code.add(target.array, target.index, number)


class Threads(Blocks):
    """Code for the sentences of a thread; where ``again``, for those whose log Z is no number."""

    through = [Array("lengths", "int"), Array("order", "int"), _COUNT, _AGAIN, THREAD, THREADS]
    options = OPTIONS
    elements_type: type[Elements] = ByThread

    def __init__(self, recursion: Recursion, dtype: str) -> None:
        super().__init__(recursion, 1, dtype, Layout(lower(recursion)))

    @contextmanager
    def blocks(self) -> Iterator[None]:
        """All sentences of the thread."""
        code = self.code
        self.elements.tables.place(code)
        self._begin()
        begin = code.set("begin.of", THREAD)
        code.set("here", 1)
        for name in ("ragged", "whole", "full"):
            code.set(name, 0)
        with code.loop_while(begin < _COUNT):
            b = code.set("b", Array("order", "int")[begin])
            code.set("n", Array("lengths", "int")[b])
            if self.arithmetic.in_logs:
                self.clear_weights()
                yield
            else:
                with code.when(equal(_AGAIN, 0) | negated(equal(LOG_Z[b], LOG_Z[b]))):
                    self.clear_weights()
                    with code.attempt():
                        yield
                    with code.otherwise():
                        self._give_up()
            code.set("begin.of", begin + THREADS)

    def _give_up(self) -> None:
        """Leave a sentence to the complete kernel."""
        self.code.put(LOG_Z, Array("order", "int")[Name("begin.of", "int")], math.nan)
        self.code.set(MARKED.name, 0)
        self.code.set("spoilt", 1)
        self.restore()

    def chain_rows(self) -> None:
        """Chains of the rows of lists are made before, once for all threads."""
        place_chains(self.elements.layout, self.code)

    def clear_weights(self) -> None:
        """Zero for weights that only empty sums are multiplied by: all else is written before it is read."""
        code, tables = self.code, self.elements.tables
        for w in tables.weights:
            with tables.elements(code, w):
                code.put(MEMORY, Name("element", "int") * tables.turns[w][0] + Name(w.name, "int"), fill(0.0))


class _Counts(Threads, LogCounts):
    pass


class _Draws(Threads, TreeDraws):
    pass


class _Best(Threads, BestTree):
    pass


def log_counts(recursion: Recursion, dtype: str) -> Kernel:
    """``lanes``: log Z and posteriors; weights are logarithms."""
    return kernel(_Counts(recursion, dtype).function(logs=True))


def draw(recursion: Recursion, dtype: str) -> Kernel:
    """``draw``: independent derivations of each sentence, in proportion to their weights; and log Z."""
    made: IndependentDraws = _Draws(recursion, dtype)
    return kernel(made.function(logs=True))


def best(recursion: Recursion, dtype: str) -> Kernel:
    """``best``: the derivation of greatest weight of each sentence, and its logarithm."""
    made: BestDerivation = _Best(recursion, dtype)
    return kernel(made.function())


def kernel(f: Function) -> Kernel:
    """A function of threads, with the sizes of all that each has for itself."""
    arrays = {p.name for p in f.parameters if isinstance(p, Array)}
    own = {name: size for name, size in _OWN.items() if name in arrays}
    sizes = [Name(size, "int") for size in dict.fromkeys(own.values())]
    return Kernel(Function(f.name, [*f.parameters, *sizes], f.body), own)


def log() -> Function:
    """``log`` of a real: GPUs have none of float64 in hardware."""
    code, x = Code(), Name("x", "real")
    # In the range that log_of_lanes takes, by powers of two.
    large = code.let(select(x > 2.0**512, 1.0, 0.0))
    small = code.let(select(x < 2.0**-512, 1.0, 0.0))
    factor = select(large > 0.0, 2.0**-600, select(small > 0.0, 2.0**600, 1.0))
    found = code.let(lane(log_of_lanes(code, fill(x * factor)), 0))
    found = code.let(found + (large - small) * (600.0 * math.log(2.0)))
    zero = select(equal(x, 0.0), -math.inf, math.nan)  # NaN of NaN and of what is negative
    code.give(select((x > 0.0) & (x < math.inf), found, select(x > 0.0, x, zero)))
    return Function("log", [x], code.body, "real")
