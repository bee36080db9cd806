# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The k derivations of a sentence with the greatest scores: the k best ones, or the one of the most expected instances.

Every item has the k greatest scores of its derivations, in order. Derivations are found on the way down.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterator
from dataclasses import replace

from ..code.expressions import INF, Array, Expression, Name, equal, greatest, lane, negated, select, value
from ..code.statements import Function
from ..rules.cells import Term
from ..rules.language import Constant, Ref
from .agenda import RANK
from .descents import SCORES, Descents
from .driver import LOG_Z
from .names import BATCH, LANE, B, Z
from .numbers import EXPONENTS, MARKED

K = Name("k", "int")
RANKED = Array("ranked", "real")  # the k greatest scores of each item, in order
_FIRST = Name("first", "int")  # where the scores of the item at hand begin
_SCORE = Name("score", "real")  # of an instance
_ADJOINT = Name("adjoint", "real")  # of the item at hand


class Rankings(Descents):
    """Code for derivations whose scores are sums over instances."""

    k: Expression = K

    def gain(self, term: Term) -> Expression:
        """What an instance adds to the scores of its items."""
        raise NotImplementedError

    def rank(self, is_possible: Expression | bool = True) -> None:
        """The scores and the weights of the k best derivations of the sentence at hand.

        :param is_possible: whether there are any.
        """
        code, worst = self.code, RANKED[_FIRST + (self.k - 1)]
        for head in self.loops.heads(self._clear):
            self._at_item(head.ref)
            for term in self.loops.instances(head):
                for _ in self._scores(term, _SCORE > worst):
                    self._insert()
        with code.loop("rank", 0, self.k) as rank:
            row = rank * BATCH + B
            self._at_item(Ref(self.elements.cells.goal, True, (), ()))
            score = code.set("of.goal", select(value(is_possible), RANKED[_FIRST + rank], -INF))
            code.put(SCORES, row, score)
            with code.when(score > -INF), code.when(score < INF):
                self.descend(row, rank)

    def _clear(self, ref: Ref) -> None:
        """-inf for all symbols of an item at a cell."""
        code, tables = self.code, self.elements.tables
        first = replace(ref, symbols=tuple(Constant(0) for _ in ref.symbols))
        with code.loop("symbol", self._first(first), self._first(first) + tables.item(ref).block * self.k) as s:
            code.put(RANKED, s, -INF)

    def _first(self, ref: Ref) -> Expression:
        """Where the scores of an item begin: of items the cells come first."""
        return self.elements.tables.item(ref).index({}) * self.k

    def _at_item(self, ref: Ref) -> None:
        """An item is at hand."""
        self.code.set(_FIRST.name, self._first(ref))

    def _scores(self, term: Term, is_wanted: Expression) -> Iterator[list[Expression]]:
        """All combinations of ranks of an instance's items whose score is wanted.

        Those of ranks r, s, ... are not among the k best if (r + 1)(s + 1) ... > k. Scores are in order: after one that
        is not wanted, none of the following ranks of the last item is.
        """
        code, items, ranks = self.code, term.items, list[Expression]()

        def down(score: Expression, better: Expression) -> Iterator[list[Expression]]:
            depth = len(ranks)
            if depth == len(items):
                code.set(_SCORE.name, score)
                with code.when(is_wanted):
                    yield ranks
                return
            rank, end = code.set(f"rank.{depth}", 0), code.set(f"end.{depth}", self.k // better)
            with code.loop_while(rank < end):
                ranks.append(rank)
                more = RANKED[self._first(items[depth]) + rank]
                yield from down(code.let(score + more), better * (rank + 1))
                ranks.pop()
                code.set(rank.name, rank + 1)
                if depth == len(items) - 1:
                    with code.when(negated(is_wanted)):
                        code.set(end.name, 0)

        return down(code.let(self.gain(term)), value(1))

    def _insert(self) -> None:
        """Put the score of an instance among those of its item. Of equals, the first stays first."""
        code, place = self.code, self.code.set("place", self.k - 1)
        with code.loop_while((place > 0) & (RANKED[_FIRST + greatest(place - 1, 0)] < _SCORE)):
            code.put(RANKED, _FIRST + place, RANKED[_FIRST + place - 1])
            code.set("place", place - 1)
        code.put(RANKED, _FIRST + place, _SCORE)

    def choose(self, table: str) -> None:
        """Push the instance that the score of the wanted rank comes from."""
        code, left = self.code, Name("left", "int")
        self._at_item(self.loops.item_here(table))
        target = code.set("target", RANKED[_FIRST + RANK])
        # Of those with the same score, the one as far down as the rank is: equals are met in one order.
        code.set("left", RANK)
        with code.loop("x", 0, RANK) as x, code.when(RANKED[_FIRST + x] > target):
            code.set("left", left - 1)

        for term in self.loops.instances_here(table):
            with code.when(left >= 0):
                for ranks in self._scores(term, _SCORE >= target):
                    with code.when(equal(_SCORE, target)):
                        with code.when(equal(left, 0)):
                            self.descent.push(term, ranks)
                        code.set("left", left - 1)


class KBest(Rankings):
    """Code for ``ranked``: the k derivations of greatest weight. Nothing is put into lanes for them."""

    in_logs = True

    def function(self) -> Function:
        with self.blocks(), self.elements.each_lane():
            self.rank()
        return Function("ranked", [*self.parameters(), RANKED, SCORES, K], self.code.body)

    def gain(self, term: Term) -> Expression:
        return sum_of([self.elements.number(f, "weight", -math.inf) for f in term.weights])


class MostExpected(Rankings):
    """Code for ``most_expected``: the derivation of positive weight with the greatest sum of posteriors (minimum Bayes
    risk).

    An instance of a rule counts its posterior times what its weights are worth.
    """

    k = value(1)

    def function(self) -> Function:
        with self.blocks():
            self.feed_reals()
            self.inside()
            self.put_log_z()
            self.outside()
            with self.elements.each_lane():
                self.rank(self.fits(LOG_Z[B]))
            self.restore()
        worth = [p for w in self.elements.layout.weights for p in w.parameters("worth", "element", "b")]
        return Function("most_expected", [*self.parameters(), RANKED, SCORES, LOG_Z, *worth], self.code.body)

    def gain(self, term: Term) -> Expression:
        amount, layout = self.amount(term), self.elements.layout
        weights = [f for f in term.weights if not self.elements.source(f)]
        worth = sum_of([layout.weight(f, f"worth.{f.table}") for f in weights])
        return select(amount > 0.0, amount * _ADJOINT * worth, -INF)

    def _at_item(self, ref: Ref) -> None:
        """Also what the amount of an instance is multiplied by for its posterior."""
        super()._at_item(ref)
        code, pairs, tables = self.code, self.pairs, self.elements.tables
        if not ref.positions:
            code.set(_ADJOINT.name, 1.0 / self._number(Z))
            return
        cell = code.let(tables.item(ref, adjoint=True).index({}))
        code.set(_ADJOINT.name, self._number(cell))
        with code.when(MARKED > 0), code.apart(_ADJOINT.name):
            x, of_item = pairs.load(cell), EXPONENTS[tables.item(ref).index({})]
            code.set(_ADJOINT.name, lane(pairs.scaled(x.m, x.e + of_item), LANE))


def sum_of(terms: list[Expression]) -> Expression:
    """The sum of reals."""
    return functools.reduce(operator.add, terms, value(0.0))
