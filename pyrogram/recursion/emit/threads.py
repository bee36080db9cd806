# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Kernels: the code of lanes for one lane, which a thread runs for one sentence after the other.

The sentences are in order of their lengths, so that the threads of a warp do the same. Thread t of T has the sentences
t, t + T, ...; so memory is that of T charts, however many sentences there are.

Where tables begin is the same for all threads: the host finds it, and the device reads it as it reads constants, which
takes no registers.

Numbers that all sentences share are not in the memory of a thread, which would be a copy for each: they are one array
of the device. The threads of a warp read the same number of it at the same time, which is one access.

Sentences whose numbers leave the range of floats are left to the complete kernel: their log Z is NaN until then.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar

import torch
from torch import Tensor

from ..code.expressions import Array, Expression, Name, equal, fill, lane, negated, select
from ..code.kernels import THREAD, THREADS, Kernel
from ..code.statements import Code, Function, Set
from ..rules.language import Ref
from ..rules.lowering import lower
from ..rules.recursions import Recursion
from .descents import BestDerivation, IndependentDraws
from .driver import LOG_Z, Blocks, LogCounts
from .elements import Elements
from .layout import Layout
from .logarithms import log_of_lanes
from .names import BEGIN, COUNT, HERE, LENGTHS, ORDER, RAGGED, SPOILT, B, N
from .numbers import MARKED
from .tables import Tables

NUMBERS = Array("numbers", "element")
_AGAIN = Name("again", "int")
PLACES = Array("places", "int")
_OWN = {"memory": "size", "mantissas": "size", "exponents": "size", "agenda": "size.agenda"}


class ThreadTables(Tables):
    """The memory of a thread."""

    SHARED: ClassVar[Array] = NUMBERS

    @property
    def is_alone(self) -> bool:
        """It is not: vectors are the threads of a warp."""
        return False

    def place_numbers(self, code: Code, end: Expression) -> Expression:
        """Numbers are elsewhere."""
        total: Expression | int = 0
        for w in self.numbers:
            total = code.set(w.name, total) + self.block(self.sizes(w))
        return end


class ByThread(Elements):
    """Code that goes through the weights of one sentence."""

    tables_type: ClassVar[type[Tables]] = ThreadTables

    def add(self, f: Ref, number: Expression) -> None:
        target, code = self.layout.weight(f, f"out.{f.table}"), self.code  # of all sentences there is one part
        with code.when(equal(Name(f"out.{f.table}.b", "int"), 0)):  # sentences share it
            code.add_atomically(target.array, target.index, number)
        with code.otherwise():
            code.add(target.array, target.index, number)


class Threads(Blocks):
    """Code for the sentences of a thread; where ``again``, for those whose log Z is no number."""

    through = [LENGTHS, ORDER, COUNT, _AGAIN, THREAD, THREADS]
    elements_type: type[Elements] = ByThread

    def __init__(self, recursion: Recursion, dtype: str, shared: bool) -> None:
        super().__init__(recursion, 1, dtype, Layout(lower(recursion)), shared)
        code = Code()
        self._cells = self.elements.tables.place(code)
        self._placing = [x for x in code.body if isinstance(x, Set)]
        self.places = [Name(name, "int") for name in dict.fromkeys(x.name for x in self._placing)]

    def size(self) -> Function:
        """``size``: the number of cells that it needs.

        It writes the values of :attr:`places` into an array; their names are its last parameters.
        """
        code = Code([*self._placing])
        for x, place in enumerate(self.places):
            code.put(PLACES, x, place)
        code.give(self._cells)
        return Function("size", [*self.elements.layout.parameters(), PLACES, *self.places], code.body, "int")

    def take_number(self, ref: Ref, place: Expression) -> None:
        """Numbers are where they are given."""

    @contextmanager
    def blocks(self) -> Iterator[None]:
        """All sentences of the thread."""
        code = self.code
        self._begin()
        begin = code.set(BEGIN.name, THREAD)
        code.set(HERE.name, 1)
        code.set(RAGGED.name, 0)
        with code.loop_while(begin < COUNT):
            b = code.set(B.name, ORDER[begin])
            code.set(N.name, LENGTHS[b])
            if self.in_logs:
                yield
            else:
                with code.when(equal(_AGAIN, 0) | negated(equal(LOG_Z[b], LOG_Z[b]))):
                    with code.attempt():
                        yield
                    with code.otherwise():
                        self._give_up()
            code.set(BEGIN.name, begin + THREADS)

    def _give_up(self) -> None:
        """Leave a sentence to the complete kernel."""
        self.code.put(LOG_Z, ORDER[BEGIN], math.nan)
        self.code.set(MARKED.name, 0)
        self.code.set(SPOILT.name, 1)
        self.restore()


class _Counts(Threads, LogCounts):
    """Log Z and posteriors."""


class _Draws(Threads, IndependentDraws):
    """Independent derivations of each sentence, in proportion to their weights; and log Z."""


class _Best(Threads, BestDerivation):
    """The derivation of greatest weight of each sentence, and its logarithm."""


KERNELS: dict[str, type[_Counts | _Draws | _Best]] = {"lanes": _Counts, "draw": _Draws, "best": _Best}


def kernel(name: str, recursion: Recursion, dtype: str, shared: bool) -> Kernel:
    """One of :data:`KERNELS`, with the sizes of all that a thread has for itself.

    Weights are logarithms, but for numbers.

    :param shared: whether all sentences share the weights that know no position, as numbers.
    """
    code = KERNELS[name](recursion, dtype, shared)
    f = code.function()
    arrays = {p.name for p in f.parameters if isinstance(p, Array)}
    memory = {name: size for name, size in _OWN.items() if name in arrays}
    sizes = [Name(size, "int") for size in dict.fromkeys(memory.values())]
    more: list[Array | Name] = [*([NUMBERS] if shared else []), *sizes, *code.places]
    return Kernel(Function(f.name, [*f.parameters, *more], f.body), memory)


def numbers_of(recursion: Recursion, weights: Mapping[str, Tensor], raised: bool) -> Tensor:
    """Log weights that all sentences share, ``(1, *axes)``, as kernels find them: tables one after the other.

    :param raised: whether they are exponentiated.
    """
    layout = ThreadTables(lower(recursion, for_blocks=True), Layout(lower(recursion)), 1, shared=True)
    chosen = [
        weights[w.table][0][tuple(x if isinstance(x, int) else slice(None) for x in w.indices)] for w in layout.numbers
    ]
    return torch.cat([(table.exp() if raised else table).flatten() for table in chosen])


def log() -> Function:
    """``log`` of a real: GPUs have none of float64 in hardware."""
    code, x = Code(), Name("x", "real")
    # In the range that log_of_lanes takes, by powers of two.
    large = code.let(select(x > 2.0**512, 1.0, 0.0))
    small = code.let(select(x < 2.0**-512, 1.0, 0.0))
    factor = select(large > 0.0, 2.0**-600, select(small > 0.0, 2.0**600, 1.0))
    logarithm = code.let(lane(log_of_lanes(code, fill(x * factor)), 0))
    logarithm = code.let(logarithm + (large - small) * (600.0 * math.log(2.0)))
    zero = select(equal(x, 0.0), -math.inf, math.nan)  # NaN of NaN and of what is negative
    code.give(select((x > 0.0) & (x < math.inf), logarithm, select(x > 0.0, x, zero)))
    return Function("log", [x], code.body, "real")
