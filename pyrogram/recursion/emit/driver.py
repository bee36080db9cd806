# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sentences into lanes, and log Z and posteriors out of them: one compiled function does block after block."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ..code.expressions import (
    INF,
    Array,
    Expression,
    Name,
    equal,
    exponent_of,
    fill,
    greatest,
    lane,
    least,
    log,
    power_of_two,
    select,
    take,
    value,
    with_lane,
)
from ..code.statements import Code, Function
from ..rules.language import Ref
from ..rules.recursions import Recursion
from .elements import Elements
from .exponentials import Exponentials
from .inside import Inside
from .layout import Layout
from .limits import GOAL, Extremes, set_limits
from .names import AT_N, BEGIN, COUNT, ENDS, HERE, LENGTHS, ORDER, RAGGED, SPOILT, Z_EXPONENT, B, N, Z
from .numbers import EXPONENTS, MANTISSAS, MARKED, SHARE, Numbers, PairNumbers, Range, any_of
from .outside import Outside
from .powers import ALIVE, MOST_EXPONENT
from .sums import Sums
from .weights import EXPONENTS_OF_WORDS, MEMORY, NUMBERS, is_gauge

LOG_Z, SCALE = Array("log_z", "real"), Array("scale", "real")
PARTS, WITH_COUNTS = Name("parts", "int"), Name("with_counts", "int")
TURNS = Array("turns", "int")  # where threads take the next part
SENTENCES: list[Array | Name] = [LENGTHS, ORDER, TURNS, COUNT, PARTS]
_WEIGHT = Extremes("weight")
OF_NUMBERS = Extremes("number")  # that all sentences share


class Blocks:
    """Code for blocks of sentences.

    :param dtype: of lanes, ``float64`` or ``float32``.
    :param layout: where weights lie.
    :param shared: whether all sentences share the weights that know no position.
    :param logs: whether weights are logarithms.
    """

    in_logs = False
    """Whether numbers are logarithms, and the greatest is the sum."""
    areas = 1
    """How often there is a place for every cell."""
    memory: Sequence[Array] = [MEMORY, MANTISSAS, EXPONENTS]
    through: Sequence[Array | Name] = SENTENCES
    elements_type: type[Elements] = Elements
    scale: Expression = value(1.0)
    """What the posteriors of the sentence at hand are multiplied by."""

    def __init__(
        self, recursion: Recursion, lanes: int, dtype: str, layout: Layout, shared: bool = False, logs: bool = True
    ) -> None:
        self.logs = logs
        self.elements = self.elements_type(recursion, lanes, layout, shared, self.in_logs)
        self.code, self.lanes, self.dtype = self.elements.code, lanes, dtype
        self.range = Range.of(dtype)  # of plain numbers
        self.plain, self.pairs = self.elements.tables.sums.numbers, PairNumbers(self.code, self.range)
        # A power is a factor more of a rule, and items may be as much less large.
        self.code.set(MOST_EXPONENT.name, fill(min(self.range.bits // 4, 127.0)))

    def function(self) -> Function:
        """The function itself."""
        raise NotImplementedError

    def size(self) -> Function:
        """``size``: the number of cells that it needs."""
        code = Code()
        code.give(self.elements.tables.place(code) * self.areas)
        return Function("size", self.elements.layout.parameters(), code.body, "int")

    def numbers_of(self, base: Numbers) -> Numbers:
        """The numbers that are computed, made of such ones; here they are these."""
        return base

    def _begin(self) -> None:
        """Before the first block: numbers that all sentences share, and the least and the greatest of them."""
        code, tables = self.code, self.elements.tables
        code.set(B.name, 0)
        OF_NUMBERS.begin(code)
        for w in () if tables.in_place and self.in_logs else tables.numbers:
            ref = tables.plain(w)
            grid = tables.weight(ref)
            with tables.sums.loops((), grid.variables):
                if not tables.in_place:
                    self.take_number(ref, grid.index({}))
                if not self.in_logs:
                    OF_NUMBERS.include(code, grid.value({}))

    def take_number(self, ref: Ref, place: Expression) -> None:
        """A number that all sentences share, to its place."""
        self.code.put(self.elements.tables.SHARED, place, self.elements.layout.weight(ref))

    def inside(self) -> None:
        """Fill the chart of a block: with plain numbers, and where these leave their range with m * 2**e."""
        if self.elements.cells.recursion.linked:  # is alone
            self.code.set(B.name, ORDER[BEGIN])
        code, weights = self.code, (Name("weights.begin", "int"), Name("weights.end", "int"))
        if self.in_logs:
            self._run(Inside, self.plain)
            return
        with code.when(equal(MARKED, 0)):
            numbers = self.numbers_of(self.plain)
            numbers.take_weights(*weights)
            self._run(Inside, numbers)
            self._set_limits()
            z = code.let(MEMORY[Z])
            of_goal = equal(ALIVE, fill(0.0)) & ((z < GOAL.low) | (z > GOAL.high))
            with code.when(any_of(self.sums_of(numbers).extremes.outside) | any_of(of_goal)):
                code.set(MARKED.name, 1)
        with code.when(MARKED > 0), code.apart():
            self.numbers_of(self.pairs).take_weights(*weights)
            self._run(Inside, self.numbers_of(self.pairs))

    def outside(self) -> None:
        """Posteriors of a block."""
        if self.elements.cells.recursion.linked:
            self.code.set(B.name, ORDER[BEGIN])
        with self.code.when(equal(MARKED, 0)):
            self._run(Outside, self.numbers_of(self.plain))
        with self.code.otherwise(), self.code.apart():
            self._run(Outside, self.numbers_of(self.pairs))

    def _run(self, kind: type[Inside] | type[Outside], numbers: Numbers) -> None:
        """A pass."""
        kind(self.elements.tables, self.code, self.sums_of(numbers)).run()

    def sums_of(self, numbers: Numbers) -> Sums:
        """Code of sums of such numbers."""
        if numbers is self.plain:
            return self.elements.tables.sums
        return Sums(self.code, self.elements.layout, numbers)

    @contextmanager
    def blocks(self) -> Iterator[None]:
        """All blocks of the parts that this thread takes: part p has blocks p, p + parts, ..."""
        code = self.code
        self.elements.tables.place(code)
        self._begin()
        part = code.set("part", take(TURNS))
        with code.loop_while(part < PARTS):
            block = code.set("block", part)
            with code.loop_while(block * self.lanes < COUNT):
                begin = code.set(BEGIN.name, block * self.lanes)
                here = code.set(HERE.name, least(self.lanes, COUNT - begin))
                n = code.set(N.name, LENGTHS[ORDER[begin]])
                last = LENGTHS[ORDER[begin + here - 1]]
                code.set(RAGGED.name, select((here < self.lanes) | (last < n), 1, 0))
                yield
                code.set("block", block + PARTS)
            code.set("part", take(TURNS))

    def feed(self, nothing: float) -> None:
        """The weights of a block into lanes; ``nothing`` for those beyond the end of a sentence."""
        code, elements = self.code, self.elements
        with code.loop("x", 0, N + 1) as x:
            code.put(MEMORY, ENDS + x, fill(0.0))
        with elements.each_lane() as x:
            code.put(NUMBERS, (ENDS + AT_N) * self.lanes + x, 1.0)
        elements.find_sentences()
        for w, region in elements.all_regions():
            elements.feed(region, elements.place(w, region), "weight", nothing)

    def feed_reals(self) -> None:
        """Weights of a block, as numbers."""
        self.feed(-math.inf if self.logs else 0.0)
        _WEIGHT.begin(self.code)
        for x in (OF_NUMBERS.least, OF_NUMBERS.greatest) if self.elements.tables.numbers else ():
            _WEIGHT.include(self.code, x)
        Exponentials(self.elements, self.dtype, self.range, _WEIGHT).run(self.logs)

    def _set_limits(self) -> None:
        """How large items may be beside the weights of a block, and the powers of its words."""
        code, elements = self.code, self.elements
        linked = self.elements.cells.recursion.linked  # whose powers have been seen
        for w in (w for w in self.elements.tables.weights if not linked and is_gauge(w.table)):
            with code.loop("x", 1, N + 1) as x:
                _WEIGHT.include(code, MEMORY[Name(w.name, "int") + x])
        bits = greatest(exponent_of(_WEIGHT.greatest) + fill(1.0), fill(0.0) - exponent_of(_WEIGHT.least))
        kinds = [(cell.kind, [f.is_item for f in term.all_factors]) for cell, _, term in elements.cells.terms]
        items, weights = (max(x.count(is_item) for _, x in kinds) for is_item in (True, False))
        of_goal = max(x.count(False) for kind, x in kinds if kind == "goal")
        set_limits(code, self.range, items, weights, of_goal, code.let(bits))

    def restore(self) -> None:
        """Forget the numbers of a block that are infinite or none, for they are not zero when empty sums meet them.

        A shorter sentence reads weights that it does not have, and multiplies them by empty sums.
        """
        code, total, stride = self.code, Name("total", "int"), Name("end.of.numbers", "int")
        left = {MEMORY: MARKED + SPOILT, MANTISSAS: MARKED, EXPONENTS: MARKED}
        for array, rests in left.items():
            with code.when(rests > 0), code.loop("x", 0, total) as x:
                for area in range(self.areas):
                    code.put(array, stride * area + x, fill(0.0))

    def put_log_z(self) -> None:
        """Log Z of every lane; where it is no number, the sentence has left some that are none, and has no share."""
        code, log_z = self.code, LOG_Z[B]
        code.set(SPOILT.name, 0)
        code.set(SHARE.name, fill(0.0))
        with self.elements.each_lane() as x:
            code.put(LOG_Z, B, self.log_z(x))
            with code.when(self.fits(log_z)):
                code.set(SHARE.name, with_lane(SHARE, x, self.scale))
            with code.otherwise():
                code.set(SPOILT.name, 1)

    def log_z(self, x: Expression) -> Expression:
        """Log Z of a lane after the inside pass: the same for any powers of two."""
        code, most = self.code, fill(self.range.bits)
        z, e = MEMORY[Z], MEMORY[Z_EXPONENT]
        of_words = MEMORY[EXPONENTS_OF_WORDS + N]
        exponent = code.let(least(greatest(exponent_of(z * fill(math.sqrt(2.0))), fill(0.0) - most), most))
        m = code.let(z * power_of_two(fill(0.0) - exponent))
        return log(lane(m, x)) + lane(exponent + e - of_words, x) * math.log(2.0)

    @staticmethod
    def fits(log_z: Expression) -> Expression:
        """Whether log Z is a number. NaN fails."""
        return (log_z < INF) & (log_z > -INF)


class LogCounts(Blocks):
    """Code for log Z and posteriors."""

    name = "lanes"
    scale: Expression = SCALE[B]

    def function(self) -> Function:
        code = self.code
        with self.blocks():
            self.feed_reals()
            self.inside()
            self.put_log_z()
            with code.when(WITH_COUNTS > 0):
                self.outside()
                self.drain()
            self.restore()
        return Function(self.name, self.parameters(), code.body)

    def parameters(self) -> list[Array | Name]:
        """Those of the function."""
        layout = self.elements.layout
        outputs = [p for w in layout.events for p in w.parameters("out", "element", "part", "b")]
        results: list[Array | Name] = [LOG_Z, WITH_COUNTS, SCALE]
        return [*layout.parameters(), *self.through, *results, *self.memory, *outputs]

    def drain(self) -> None:
        """Posteriors into the output."""
        self.elements.drain()
