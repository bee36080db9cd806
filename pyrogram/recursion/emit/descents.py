# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Derivations of the sentences in lanes: the best one, and draws.

The inside pass fills the chart of a whole block. Then each lane goes down from the goal by itself, without
back-pointers. The instances of an item are gone through twice: for the total of their values, or the greatest, and then
up to the one that is wanted.

Before, for ``RC[i, j] += sum(k = i + 1 .. j: IR[i, k] * RC[k, j])``, after:

    for k in i + 1 .. j:  total += IR[i, k] * RC[k, j]
    rest = uniform() * total
    for k in i + 1 .. j:  rest -= IR[i, k] * RC[k, j];  where it falls below zero: push RC[k, j];  push IR[i, k];  stop
"""

from __future__ import annotations

import functools
import math

from ..code.expressions import INF, Array, Expression, Name, equal, lane, select, value
from ..code.random_bits import seed_stream
from ..code.statements import Function
from ..rules.cells import Term
from ..rules.language import Ref
from .agenda import WAY_DOWN, Descent
from .driver import LOG_Z, Blocks
from .instances import Enumeration
from .names import BATCH, LANE, SEED, Z_EXPONENT, B, Z
from .numbers import EXPONENTS, MARKED
from .traces import trace_parameters, write_weight
from .weights import MEMORY, NUMBERS

DRAWS, SCORES = Name("draws", "int"), Array("scores", "real")


class Descents(Blocks):
    """Code that goes down from the goal in one lane."""

    @functools.cached_property
    def loops(self) -> Enumeration:
        """Over the instances of rules."""
        return Enumeration(self.elements.cells, self.elements.layout, self.code)

    @functools.cached_property
    def descent(self) -> Descent:
        """The way down, which writes weights."""
        return Descent(self.loops, self._write_factors)

    def descend(self, row: Expression, rank: Expression | int = 0) -> None:
        """From the goal of the sentence at hand, down to weights alone; their numbers make a row of the output.

        :param rank: of the derivation, where there are several.
        """
        self.descent.run(row, self.choose, rank)

    def choose(self, table: str) -> None:
        """Choose an instance of the item at hand, and push the items that it is made of."""
        raise NotImplementedError

    def _write_factors(self, f: Ref) -> None:
        if not self.elements.source(f):
            self.write(f)

    def write(self, f: Ref) -> None:
        """Append a weight to the derivation at hand."""
        write_weight(self.elements.layout, self.code, f)

    def parameters(self) -> list[Array | Name]:
        """Those that all descents have."""
        layout = self.elements.layout
        return [*layout.parameters(), *self.through, BATCH, *WAY_DOWN, *self.memory, *trace_parameters(layout)]

    def amount(self, term: Term) -> Expression:
        """The value of an instance: in units of 2**e of its head, where that has an exponent."""
        code, tables, pairs = self.code, self.elements.tables, self.pairs
        grids = [tables.factor(f) for f in term.all_factors]
        numbers = [self._number(x.index({})) if x.numbers is None else x.numbers[x.index({})] for x in grids]
        plain = functools.reduce(self.plain.times, numbers) if numbers else value(0.0 if self.in_logs else 1.0)
        if self.in_logs:
            return plain
        amount, sums = code.set("amount", plain), self.sums_of(pairs)
        with code.when(MARKED > 0), code.apart(amount.name):
            head = next(h.ref for _, h, t in self.elements.cells.terms if t is term)
            unit = EXPONENTS[tables.item(head).index({})] if head.positions else MEMORY[Z_EXPONENT]
            product = functools.reduce(pairs.times, (sums.value(x, {}) for x in grids), pairs.one)
            code.set(amount.name, lane(pairs.scaled(product.m, product.e - unit), LANE))
        return code.let(amount)

    def _number(self, cell: Expression) -> Expression:
        return NUMBERS[cell * self.lanes + LANE]


class Draws(Descents):
    """Code that chooses instances in proportion to their values."""

    def choose(self, table: str) -> None:
        self.descent.choose_in_proportion(table, self.amount)


class IndependentDraws(Draws):
    """Code for ``draw``."""

    def function(self) -> Function:
        code = self.code
        with self.blocks():
            self.feed_reals()
            self.inside()
            self.put_log_z()
            ranks = code.loop("rank", 0, DRAWS)
            with self.elements.each_lane(), code.when(self.fits(LOG_Z[B])), ranks as rank:
                row = code.set("row", rank * BATCH + B)
                seed_stream(code, SEED, row)
                self.descend(row)
            self.restore()
        return Function("draw", [*self.parameters(), DRAWS, SEED, LOG_Z], code.body)


class BestDerivation(Descents):
    """Code for ``best``."""

    in_logs = True

    def function(self) -> Function:
        code = self.code
        with self.blocks():
            self.feed(-math.inf)
            self.inside()
            with self.elements.each_lane() as x:
                score = code.set("score", NUMBERS[Z * self.lanes + x])
                code.put(SCORES, B, score)
                with code.when((score > -INF) & (score < INF)):
                    self.descend(B)
        return Function("best", [*self.parameters(), SCORES], code.body)

    def choose(self, table: str) -> None:
        code, top = self.code, Name("top", "real")
        code.set("top", -INF)
        for term in self.loops.instances_here(table):
            v = code.let(self.amount(term))
            code.set("top", select(v > top, v, top))
        self.descent.choose_first(table, lambda term: equal(self.amount(term), top))
