# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Derivations of the sentences in lanes: the best one, and draws.

The inside pass fills the chart of a whole block. Then each lane goes down from the goal by itself, without
back-pointers: the terms of an item are formed again, and the best of them is taken, or one in proportion to its value.

Before, for ``RC[i, j] += sum(k = i + 1 .. j: IR[i, k] * RC[k, j])``, after:

    for k in i + 1 .. j:  terms[count] = IR[i, k] * RC[k, j];  total += terms[count];  count += 1
    chosen = the first whose running sum is above uniform() * total
    if 0 <= chosen < j - i:  k = i + 1 + chosen;  push RC[k, j];  push IR[i, k]
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from ..calling.agenda import WAY_DOWN, Agenda, in_class
from ..calling.rows import make_chains
from ..calling.traces import trace_parameters, write_weight
from ..machine.expressions import Array, Expression, Name, greatest, lane, select, value
from ..machine.random_bits import seed_stream, uniform
from ..machine.statements import Function
from ..rules.cells import Term, renamed
from ..rules.language import Ref
from ..rules.recursions import Recursion
from .arithmetic import LOGS
from .driver import INF, LOG_Z, Blocks
from .elements import NUMBERS
from .numbers import EXPONENTS, MARKED, Pair
from .schedule import K
from .tables import GAUGE, MEMORY

TERMS = Array("terms", "real")
_OWN: list[Array | Name] = [Name("batch", "int"), *WAY_DOWN]


def draw(recursion: Recursion, logs: bool, lanes: int, dtype: str) -> Function:
    """``draw``: independent derivations of each sentence, in proportion to their weights; and log Z."""
    return TreeDraws(recursion, lanes, dtype).function(logs)


def best(recursion: Recursion, lanes: int, dtype: str) -> Function:
    """``best``: the derivation of greatest weight of each sentence, and its logarithm; weights are logarithms."""
    return BestTree(recursion, lanes, dtype).function()


class Descents(Blocks):
    """Code that goes down from the goal in one lane."""

    def descend(self, row: Expression) -> None:
        """From the goal of the sentence at hand, down to weights alone; their numbers make a row of the output."""
        code, layout = self.code, self.elements.layout
        self.agenda = Agenda(self.elements.cells, code, self.elements.tables.at, layout.symbol)
        code.set("n", Name("at.n", "int"))  # of this sentence; the block has been done
        code.set("row", row)
        code.set("length", 0)
        self.agenda.run(self.step)

    def chain_rows(self) -> None:
        """What is done before the first descent: chains of the rows of lists."""
        make_chains(self.elements.layout, self.code)

    def step(self, table: str) -> None:
        """Choose a term of the item at hand, and push the items that it is made of."""
        raise NotImplementedError

    def write(self, f: Ref) -> None:
        """Append a weight to the derivation at hand."""
        write_weight(self.elements.layout, self.code, f)

    def in_units_of(self, item: Expression | None, factors: Iterable[Pair]) -> Expression:
        """The product of factors in the lane at hand, in units of 2**e of an item.

        :param item: its cell; None for the goal.
        """
        product = functools.reduce(self.pairs.times, factors, self.pairs.one)
        unit = MEMORY[Name("z.exponent", "int")] if item is None else EXPONENTS[item]
        return lane(self.pairs.aligned(product, unit), Name("lane", "int"))

    def parameters(self) -> list[Array | Name]:
        """Those that all descents have."""
        layout = self.elements.layout
        return [*layout.parameters(), *self.through, *_OWN, *self.memory, *trace_parameters(layout)]


class TreeDescents(Descents):
    """The same for items without symbols: their terms are offered one after the other."""

    def step(self, table: str) -> None:
        code = self.code
        heads = [(c, h) for c in self.elements.cells.classes for h in c.heads if h.ref.table == table]
        self.begin()
        for cell, head in heads:
            with in_class(code, cell):
                for term in head.terms:
                    outer = self._product(term.factors, None)
                    outer = None if outer is None else code.let(outer)
                    with self._places(term):
                        found = self._product(self._inner(term), outer)
                        v = code.set("amount", value(self.arithmetic.one) if found is None else found)
                        if not self.arithmetic.in_logs:
                            with code.when(MARKED > 0), code.apart("amount"):
                                cells = [self.elements.tables.cell(f) for f in (*term.factors, *self._inner(term))]
                                item = self.elements.tables.cell(head.ref) if head.ref.positions else None
                                code.set("amount", self.in_units_of(item, map(self.pairs.load, cells)))
                        self.offer(v)
        self.choose()
        chosen = Name("chosen", "int")
        for cell, head in heads:
            with in_class(code, cell):
                for term in head.terms:
                    low, high = self._range(term)
                    count = code.let(greatest(high - low + 1, 0))
                    with code.when((chosen >= 0) & (chosen < count)):
                        code.set("at.k", low + chosen)
                        self._push(term)
                    code.set("chosen", select(chosen < count, -1, chosen - count))

    def begin(self) -> None:
        """Before the terms of an item."""
        raise NotImplementedError

    def offer(self, v: Expression) -> None:
        """A term of the item."""
        raise NotImplementedError

    def choose(self) -> None:
        """After them: sets ``chosen`` to the number of one."""
        raise NotImplementedError

    def _push(self, term: Term) -> None:
        factors = [*term.factors, *self._inner(term)]
        for f in factors:
            for weight in () if f.is_item or f.table == GAUGE else self.elements.products.of(f):
                self.write(weight)
        self.agenda.push([f for f in factors if f.is_item])

    def _inner(self, term: Term) -> list[Ref]:
        """The factors of a term's sum, over k."""
        if term.inner is None:
            return []
        names = {loop.name: K for loop in term.loops}
        return [renamed(f, names) for f in term.inner.factors]

    def _range(self, term: Term) -> tuple[Expression, Expression]:
        """The first k of a term and the last one; 0 and 0 for a term that is no sum."""
        if not term.loops:
            return value(0), value(0)
        (loop,) = term.loops
        return self.elements.tables.at(loop.low[0]), self.elements.tables.at(loop.high[0])

    @contextmanager
    def _places(self, term: Term) -> Iterator[None]:
        if not term.loops:
            yield
            return
        low, high = self._range(term)
        with self.code.loop("at.k", low, high + 1):
            yield

    def _number(self, cell: Expression) -> Expression:
        return NUMBERS[cell * self.lanes + Name("lane", "int")]

    def _product(self, factors: list[Ref] | tuple[Ref, ...], first: Expression | None) -> Expression | None:
        total = first
        for f in factors:
            v = self._number(self.elements.tables.cell(f))
            total = v if total is None else self.arithmetic.times(total, v)
        return total


class Draws(TreeDescents):
    """Code that chooses terms in proportion to their values."""

    def begin(self) -> None:
        self.code.set("offers", 0)
        self.code.set("mass", 0.0)

    def offer(self, v: Expression) -> None:
        v = self.code.let(v)
        self.code.put(TERMS, Name("offers", "int"), v)
        self.code.set("offers", Name("offers", "int") + 1)
        self.code.set("mass", Name("mass", "real") + v)

    def choose(self) -> None:
        code, rest, t = self.code, Name("rest", "real"), Name("t", "int")
        code.set("rest", Name("mass", "real") * uniform(code))
        code.set("chosen", -1)
        code.set("t", 0)
        with code.loop_while((t < Name("offers", "int")) & (rest >= 0.0)):
            with code.when(TERMS[t] > 0.0):  # rounding may leave some rest: then it is the last that is possible
                code.set("chosen", t)
            code.set("rest", rest - TERMS[t])
            code.set("t", t + 1)


class IndependentDraws(Descents):
    """Code for ``draw``."""

    def function(self, logs: bool) -> Function:
        """The function itself.

        :param logs: whether weights are logarithms.
        """
        code, b = self.code, Name("b", "int")
        self.chain_rows()
        with self.blocks():
            self.feed_reals(logs)
            self.inside()
            self.put_log_z()
            ranks = code.loop("rank", 0, Name("draws", "int"))
            with self.elements.each_lane(), code.when(self.fits(LOG_Z[b])), ranks as rank:
                row = code.set("row", rank * Name("batch", "int") + b)
                seed_stream(code, Name("seed", "int"), row)
                self.descend(row)
            self.restore()
        own: list[Array | Name] = [
            Name("draws", "int"),
            Name("seed", "int"),
            TERMS,
            LOG_Z,
        ]
        return Function("draw", [*self.parameters(), *own], code.body)


class BestDerivation(Descents):
    """Code for ``best``."""

    arithmetic = LOGS

    def function(self) -> Function:
        """The function itself."""
        code, b = self.code, Name("b", "int")
        self.chain_rows()
        with self.blocks():
            self.feed(LOGS.zero)
            self.inside()
            with self.elements.each_lane() as x:
                score = code.set("score", NUMBERS[Name("z", "int") * self.lanes + x])
                code.put(Array("scores", "real"), b, score)
                with code.when((score > -INF) & (score < INF)):
                    self.descend(b)
        return Function("best", [*self.parameters(), Array("scores", "real")], code.body)


class TreeDraws(Draws, IndependentDraws):
    """``draw`` for items without symbols."""


class BestTree(TreeDescents, BestDerivation):
    """``best`` for items without symbols."""

    def begin(self) -> None:
        self.code.set("offers", 0)
        self.code.set("chosen", -1)
        self.code.set("top", -INF)

    def offer(self, v: Expression) -> None:
        code, v = self.code, self.code.let(v)
        better = code.let(v > Name("top", "real"))  # of equals, the first
        code.set("chosen", select(better, Name("offers", "int"), Name("chosen", "int")))
        code.set("top", select(better, v, Name("top", "real")))
        code.set("offers", Name("offers", "int") + 1)

    def choose(self) -> None:
        """The choice was made on the way."""
