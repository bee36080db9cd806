# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Derivations of one sentence at a time: the k best ones, and draws.

Both go down from the goal without back-pointers: the instances of an item are gone through again, and the one that is
wanted is recognised by its value, which the same operations give to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..code.expressions import Array, Expression, Name, equal, exp, negated, value
from ..code.random_bits import seed_stream, uniform
from ..code.statements import Code, Function
from ..rules.cells import Cells, Head, Term
from ..rules.language import Position, Ref
from .agenda import AGENDA, FURTHER, POSITIONS, WAY_DOWN, here
from .instances import Enumeration
from .layout import Layout
from .logs import (
    CELLS,
    INF,
    LOG_Z,
    SENTENCES,
    B,
    clear,
    goal,
    inside,
    log_weight,
    sentences,
)
from .rows import place_chains
from .traces import trace_parameters, write_weight


def best(cells: Cells) -> Function:
    """The k best derivations: their log weights, and the weights that they are made of."""
    layout, code = Layout(cells), Code()
    K = Name("k", "int")
    layout.place_items(code)
    place_chains(layout, code)
    loops = Enumeration(layout.cells, layout, code)
    descent = Descent(loops, lambda f: write_weight(layout, code, f), layout.position, 1)

    def insert(term: Term) -> None:
        worst = CELLS[Name("first", "int") + (K - 1)]
        _ranked(layout, code, term, worst, lambda ranks: _insert(code, K), ties=False)

    def fill(head: Head) -> None:
        code.set("first", layout.item(head.ref) * K)
        loops.instances(head, insert)

    with sentences(code):
        loops.fill(lambda ref: clear(layout, code, ref, each=K), fill)
        with code.loop("rank", 0, K) as rank:
            z = code.set("z", CELLS[layout.item(goal(cells)) * K + rank])
            code.put(Array("scores", "real"), rank * Name("batch", "int") + B, z)
            with code.when(z > -INF), code.when(z < INF):
                row = rank * Name("batch", "int") + B
                descent.run(row, lambda table: _find_ranked(loops, table, K, descent.push), rank)
    parameters: list[Array | Name] = [
        K,
        Name("batch", "int"),
        Array("scores", "real"),
        *WAY_DOWN,
        *trace_parameters(layout),
    ]
    return Function("best", [*layout.parameters(), *SENTENCES, CELLS, *parameters], code.body)


def draw(cells: Cells) -> Function:
    """Independent draws of derivations, in proportion to their weights: the weights that they are made of."""
    layout, code = Layout(cells), Code()
    layout.place_items(code)
    place_chains(layout, code)
    loops = Enumeration(layout.cells, layout, code)
    descent = Descent(loops, lambda f: write_weight(layout, code, f), layout.position)

    def choose(table: str) -> None:
        e = code.set("e", CELLS[layout.item(loops.item_here(table))])
        choose_in_proportion(loops, table, lambda term: exp(log_weight(layout, term) - e), descent.push)

    with sentences(code):
        inside(layout, code)
        z = code.set("z", CELLS[layout.item(goal(cells))])
        code.put(LOG_Z, B, z)
        with code.when(z > -INF), code.when(z < INF), code.loop("rank", 0, Name("draws", "int")) as rank:
            row = rank * Name("batch", "int") + B
            seed_stream(code, Name("seed", "int"), row)
            descent.run(row, choose)
    parameters: list[Array | Name] = [
        Name("draws", "int"),
        Name("batch", "int"),
        LOG_Z,
        Name("seed", "int"),
        *WAY_DOWN,
        *trace_parameters(layout),
    ]
    return Function("draw", [*layout.parameters(), *SENTENCES, CELLS, *parameters], code.body)


def _ranked(
    layout: Layout, code: Code, term: Term, worst: Expression, visit: Callable[[list[Expression]], None], ties: bool
) -> None:
    """All combinations of ranks of an instance's items that can be among the k best: v is their log weight.

    :param worst: what no v that counts is below; lists are sorted, so what follows in one need not be looked at.
    :param ties: whether a v that equals it counts.
    """
    K, v = Name("k", "int"), Name("v", "real")
    good = v >= worst if ties else v > worst
    items = [f for f in term.all_factors if f.is_item]
    fixed: Expression | None = None
    for f in term.all_factors:
        if not f.is_item:
            w = layout.weight(f)
            fixed = w if fixed is None else fixed + w
    ranks: list[Expression] = []

    def down(depth: int, sofar: Expression | None, product: Expression) -> None:
        if depth == len(items):
            code.set("v", value(0.0) if sofar is None else sofar)
            with code.when(good):
                visit(ranks)
            return
        r = code.set(f"rank.{depth}", 0)
        code.set(f"most.{depth}", K // product)
        with code.loop_while(r < Name(f"most.{depth}", "int")):
            ranks.append(r)
            score = CELLS[layout.item(items[depth]) * K + r]
            if depth < len(items) - 1:
                down(depth + 1, score if sofar is None else sofar + score, product * (r + 1))
                code.set(r.name, r + 1)
            else:
                code.set("v", score if sofar is None else sofar + score)
                with code.when(good):
                    visit(ranks)
                    code.set(r.name, r + 1)
                with code.otherwise():
                    code.set(r.name, K)
            ranks.pop()

    down(0, None if fixed is None else code.let(fixed), value(1))


def _insert(code: Code, K: Name) -> None:
    """Put v, which belongs there, into the sorted list of a cell. Of equals, the first stays first."""
    v, first = Name("v", "real"), Name("first", "int")
    q = code.set("place", K - 1)
    code.set("go", value(True))
    with code.loop_while(Name("go", "bool")):
        code.set("go", value(False))
        with code.when(q > 0), code.when(CELLS[first + q - 1] < v):
            code.put(CELLS, first + q, CELLS[first + q - 1])
            code.set("place", q - 1)
            code.set("go", value(True))
    code.put(CELLS, first + q, v)


@dataclass
class Descent:
    """Code that goes down from the goal, rule by rule, the leftmost item first.

    :param write: code for a weight that is met.
    :param at: a position as a number.
    :param extra: how many further numbers an item has on the way.
    """

    loops: Enumeration
    write: Callable[[Ref], None]
    at: Callable[[Position], Expression]
    extra: int = 0

    def __post_init__(self) -> None:
        sizes = self.loops.cells.sizes
        self._numbers = {name: x for x, name in enumerate(sizes)}
        further = [f"{FURTHER}.{x}" for x in range(self.extra)]
        symbols = [f"sym.{here(a).name}" for a in range(max(map(len, sizes.values()), default=0))]
        self._variables = ["at.i", "at.j", *further, *symbols]
        self._width = 1 + len(self._variables)

    def run(self, row: Expression, choose: Callable[[str], None], *further: Expression) -> None:
        """All of a derivation, to a row of the output.

        :param choose: code for an item of a table that chooses an instance, and pushes it. The item's positions are in
            ``at.i`` and ``at.j``, its symbols in those of :func:`.here`, its further numbers in ``further.0``, ...
        :param further: numbers of the goal.
        """
        code = self.loops.code
        code.set("row", row)
        code.set("trace_length", 0)
        top = code.set("depth", 1)
        code.put(AGENDA, 0, self._numbers[self.loops.cells.goal])
        for x, of_goal in enumerate(further):
            code.put(AGENDA, POSITIONS + x, of_goal)
        with code.loop_while(top > 0):
            code.set("depth", top - 1)
            start = code.set("entry", top * self._width)
            item = code.set("item", AGENDA[start])
            for x, name in enumerate(self._variables, 1):
                code.set(name, AGENDA[start + x])
            for table, number in self._numbers.items():
                with code.when(equal(item, number)):
                    choose(table)

    def push(self, term: Term, ranks: Sequence[Expression] = ()) -> None:
        """Write the weights of an instance, and go on with its items, the first one first.

        :param ranks: a further number of each item.
        """
        code, top = self.loops.code, Name("depth", "int")
        for f in term.all_factors:
            if not f.is_item:
                self.write(f)
        items = [f for f in term.all_factors if f.is_item]
        for x, f in reversed(list(enumerate(items))):
            entry = code.set("entry", top * self._width)
            code.put(AGENDA, entry, self._numbers[f.table])
            at = [self.at(p) for p in f.positions]
            code.put(AGENDA, entry + 1, at[0] if len(at) == 2 else 0)
            code.put(AGENDA, entry + 2, at[-1] if at else 0)
            for y, number in enumerate([*ranks[x : x + 1], *map(self.loops.layout.symbol, f.symbols)]):
                code.put(AGENDA, entry + (POSITIONS + y), number)
            code.set("depth", top + 1)


def choose_first(
    loops: Enumeration, table: str, test: Callable[[Term], Expression], push: Callable[[Term], None]
) -> None:
    """Push the first instance of the item at hand that passes a test."""
    code, is_found = loops.code, Name("found", "bool")
    code.set("found", value(False))

    def visit(term: Term) -> None:
        with code.when(negated(is_found)), code.when(test(term)):
            code.set("found", value(True))
            push(term)

    loops.instances_here(table, visit)


def choose_in_proportion(
    loops: Enumeration, table: str, amount: Callable[[Term], Expression], push: Callable[[Term], None]
) -> None:
    """Choose an instance of the item at hand in proportion to its amount, and push what it is made of.

    The total is formed by the same additions as the running sum, which therefore reaches it.
    """
    code, mass = loops.code, Name("mass", "real")

    def more(term: Term) -> Expression:
        code.set("mass", mass + amount(term))
        return mass > Name("wanted", "real")

    code.set("mass", 0.0)
    loops.instances_here(table, more)
    code.set("wanted", mass * uniform(code))
    code.set("mass", 0.0)
    choose_first(loops, table, more, push)


def _find_ranked(loops: Enumeration, table: str, K: Name, push: Callable[[Term, Sequence[Expression]], None]) -> None:
    """Find the instance that the wanted entry of the item's list comes from, and push what it is made of."""
    layout, code, is_found = loops.layout, loops.code, Name("found", "bool")
    wanted = Name(f"{FURTHER}.0", "int")
    code.set("found", value(False))
    start = code.set("first", layout.item(loops.item_here(table)) * K)
    target = code.set("target", CELLS[start + wanted])
    # Of those with the same value, the one as far down as the rank is: equals are met in one order.
    code.set("ties", wanted)
    with code.loop("x", 0, wanted) as x, code.when(CELLS[start + x] > target):
        code.set("ties", Name("ties", "int") - 1)

    def visit(term: Term, ranks: list[Expression]) -> None:
        with code.when(negated(is_found)), code.when(equal(Name("v", "real"), Name("target", "real"))):
            with code.when(equal(Name("ties", "int"), 0)):
                code.set("found", value(True))
                push(term, list(ranks))
            with code.otherwise():
                code.set("ties", Name("ties", "int") - 1)

    def ranked(term: Term) -> None:
        with code.when(negated(is_found)):
            _ranked(layout, code, term, Name("target", "real"), lambda ranks: visit(term, ranks), ties=True)

    loops.instances_here(table, ranked)
