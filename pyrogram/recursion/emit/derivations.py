# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Derivations of one sentence at a time: the k best ones, the one of the most expected instances, and draws.

All go down from the goal as :mod:`.agenda` says.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ..code.expressions import Array, Expression, Name, equal, exp, greatest, negated, select, value
from ..code.random_bits import seed_stream
from ..code.statements import Function
from ..rules.cells import Cells, Term
from ..rules.language import Ref
from .agenda import RANK, WAY_DOWN, Descent
from .instances import Enumeration
from .logs import (
    CELLS,
    GIVEN,
    INF,
    LOG_Z,
    SENTENCES,
    B,
    clear,
    goal,
    inside,
    log_weight,
    loops_of,
    posteriors,
    sentences,
    sum_of,
)
from .traces import trace_parameters, write_weight

BATCH = Name("batch", "int")
K = Name("k", "int")
RANKED = Array("ranked", "real")  # the k greatest scores of each item, in order
_ITEM, _FIRST = Name("item.of", "int"), Name("first", "int")  # the item at hand, and where its scores begin
_SCORE = Name("score", "real")  # of an instance


def best(cells: Cells) -> Function:
    """The k best derivations: their log weights, and the weights that they are made of."""
    loops = loops_of(cells)
    ranking = Ranking(loops, lambda term: sum_of(map(loops.layout.weight, term.weights)))
    with sentences(loops.code):
        ranking.fill()
        ranking.descend()
    return ranking.function("best", K)


def most_expected(cells: Cells) -> Function:
    """The derivation of positive weight with the greatest sum of posteriors (minimum Bayes risk): this sum, and the
    weights that the derivation is made of.

    An instance of a rule counts its posterior times what its weights are worth. Two passes in logarithms find the
    posteriors.
    """
    loops = loops_of(cells)
    layout = loops.layout

    def gain(term: Term) -> Expression:
        weight = loops.code.set("log.weight", log_weight(layout, term))
        worth = sum_of(layout.weight(f, f"worth.{f.table}") for f in term.weights)
        return select(weight > -INF, GIVEN[_ITEM] * exp(weight - CELLS[_ITEM]) * worth, -INF)

    ranking = Ranking(loops, gain, value(1))
    with sentences(loops.code):
        inside(loops)
        posteriors(loops, value(1.0), lambda f, share: None)
        ranking.fill()
        z = loops.code.set("z", CELLS[layout.item(goal(cells))])
        ranking.descend((z > -INF) & (z < INF))
    worth = [p for w in layout.weights for p in w.parameters("worth", "element", "b")]
    return ranking.function("most_expected", CELLS, GIVEN, *worth)


def draw(cells: Cells) -> Function:
    """Independent draws of derivations, in proportion to their weights: the weights that they are made of."""
    loops = loops_of(cells)
    layout, code = loops.layout, loops.code
    descent = Descent(loops, functools.partial(write_weight, layout, code))

    def choose(table: str) -> None:
        e = code.set("e", CELLS[layout.item(loops.item_here(table))])
        descent.choose_in_proportion(table, lambda term: exp(log_weight(layout, term) - e))

    with sentences(code):
        inside(loops)
        z = code.set("z", CELLS[layout.item(goal(cells))])
        code.put(LOG_Z, B, z)
        with code.when(z > -INF), code.when(z < INF), code.loop("rank", 0, Name("draws", "int")) as rank:
            row = rank * BATCH + B
            seed_stream(code, Name("seed", "int"), row)
            descent.run(row, choose)
    parameters: list[Array | Name] = [Name("draws", "int"), BATCH, LOG_Z, Name("seed", "int")]
    trace = trace_parameters(layout)
    return Function("draw", [*layout.parameters(), *SENTENCES, CELLS, *parameters, *WAY_DOWN, *trace], code.body)


@dataclass
class Ranking:
    """Code for the k best derivations, whose scores are sums over instances.

    :param own: what an instance adds to the scores of its items.
    :param k: how many.
    """

    loops: Enumeration
    own: Callable[[Term], Expression]
    k: Expression = K

    def __post_init__(self) -> None:
        self.layout, self.code = self.loops.layout, self.loops.code
        self.descent = Descent(self.loops, functools.partial(write_weight, self.layout, self.code))

    def function(self, name: str, *own: Array | Name) -> Function:
        """The function, whose ``own`` parameters others have not."""
        parameters = [*self.layout.parameters(), *SENTENCES, BATCH, RANKED, Array("scores", "real"), *WAY_DOWN]
        return Function(name, [*parameters, *trace_parameters(self.layout), *own], self.code.body)

    def fill(self) -> None:
        """The scores of all items."""
        worst = RANKED[_FIRST + (self.k - 1)]
        for head in self.loops.heads_upwards(lambda ref: clear(self.loops, ref, RANKED, self.k)):
            self._at_item(head.ref)
            for term in self.loops.instances(head):
                for _ in self._scores(term, _SCORE > worst):
                    self._insert()

    def descend(self, is_possible: Expression | bool = True) -> None:
        """The scores and the weights of the k best derivations of the goal.

        :param is_possible: whether there are any.
        """
        code = self.code
        with code.loop("rank", 0, self.k) as rank:
            row = rank * BATCH + B
            place = self.layout.item(goal(self.loops.cells)) * self.k + rank
            score = code.set("of.goal", select(value(is_possible), RANKED[place], -INF))
            code.put(Array("scores", "real"), row, score)
            with code.when(score > -INF), code.when(score < INF):
                self.descent.run(row, self._choose, rank)

    def _at_item(self, ref: Ref) -> None:
        self.code.set(_ITEM.name, self.layout.item(ref))
        self.code.set(_FIRST.name, _ITEM * self.k)

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
                yield from down(
                    code.let(score + RANKED[self.layout.item(items[depth]) * self.k + rank]), better * (rank + 1)
                )
                ranks.pop()
                code.set(rank.name, rank + 1)
                if depth == len(items) - 1:
                    with code.when(negated(is_wanted)):
                        code.set(end.name, 0)

        return down(code.let(self.own(term)), value(1))

    def _insert(self) -> None:
        """Put the score of an instance among those of its item. Of equals, the first stays first."""
        code, place = self.code, self.code.set("place", self.k - 1)
        with code.loop_while((place > 0) & (RANKED[_FIRST + greatest(place - 1, 0)] < _SCORE)):
            code.put(RANKED, _FIRST + place, RANKED[_FIRST + place - 1])
            code.set("place", place - 1)
        code.put(RANKED, _FIRST + place, _SCORE)

    def _choose(self, table: str) -> None:
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
