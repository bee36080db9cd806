# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Derivations of one sentence at a time: the k best ones, and draws.

Both go down from the goal without back-pointers: the instances of an item are gone through again, and the one that is
wanted is recognised by its value, which the same operations give to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable

from ..code.expressions import Array, Expression, Name, equal, exp, negated, value
from ..code.random_bits import seed_stream, uniform
from ..code.statements import Code, Function
from ..rules.cells import CellClass, Cells, Term
from .agenda import FURTHER, WAY_DOWN, Agenda
from .instances import Enumeration
from .layout import Layout
from .logs import (
    CELLS,
    INF,
    SENTENCES,
    B,
    first_symbol,
    goal,
    inside,
    log_weight,
    num_symbols,
    sentences,
)
from .rows import make_chains
from .traces import trace_parameters, write_weight


def best(cells: Cells) -> Function:
    """The k best derivations: their log weights, and the weights that they are made of."""
    layout, code = Layout(cells), Code()
    K = Name("k", "int")
    layout.place_items(code)
    make_chains(layout, code)
    loops = Enumeration(layout.cells, layout, code)

    def insert(term: Term) -> None:
        worst = CELLS[Name("first", "int") + (K - 1)]
        _ranked(layout, code, term, worst, lambda ranks: _insert(code, K), ties=False)

    def fill(cell: CellClass) -> None:
        cleared: set[str] = set()
        for head in cell.heads:
            if head.ref.table not in cleared:
                cleared.add(head.ref.table)
                start = code.set("first", first_symbol(layout, head.ref) * K)
                with code.loop("x", 0, num_symbols(layout, head.ref) * K) as x:
                    code.put(CELLS, start + x, -INF)
            with loops.symbols(head), loops.rows(head):
                code.set("first", layout.item(head.ref) * K)
                loops.instances(head, insert)

    with sentences(code):
        loops.upwards(fill)
        with code.loop("rank", 0, K) as rank:
            z = code.set("z", CELLS[layout.item(goal(cells)) * K + rank])
            code.put(Array("scores", "real"), rank * Name("batch", "int") + B, z)
            with code.when(z > -INF), code.when(z < INF):
                _trace(layout, code, rank * Name("batch", "int") + B, K)
    own: list[Array | Name] = [K, Name("batch", "int"), Array("scores", "real"), *WAY_DOWN, *trace_parameters(layout)]
    return Function("best", [*layout.parameters(), *SENTENCES, CELLS, *own], code.body)


def draw(cells: Cells) -> Function:
    """Independent draws of derivations, in proportion to their weights: the weights that they are made of."""
    layout, code = Layout(cells), Code()
    layout.place_items(code)
    make_chains(layout, code)
    with sentences(code):
        inside(layout, code)
        z = code.set("z", CELLS[layout.item(goal(cells))])
        code.put(Array("log_z", "real"), B, z)
        with code.when(z > -INF), code.when(z < INF), code.loop("rank", 0, Name("draws", "int")) as rank:
            row = rank * Name("batch", "int") + B
            seed_stream(code, Name("seed", "int"), row)
            _trace(layout, code, row, None)
    own: list[Array | Name] = [
        Name("draws", "int"),
        Name("batch", "int"),
        Array("log_z", "real"),
        Name("seed", "int"),
        *WAY_DOWN,
        *trace_parameters(layout),
    ]
    return Function("draw", [*layout.parameters(), *SENTENCES, CELLS, *own], code.body)


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
            own = CELLS[layout.item(items[depth]) * K + r]
            if depth < len(items) - 1:
                down(depth + 1, own if sofar is None else sofar + own, product * (r + 1))
                code.set(r.name, r + 1)
            else:
                code.set("v", own if sofar is None else sofar + own)
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


def _trace(layout: Layout, code: Code, row: Expression, K: Name | None) -> None:
    """Go down from the goal, rule by rule, the leftmost item first; write the numbers of weights that are met.

    :param row: of the output.
    :param K: the size of the lists of the k best, whose entry ``rank`` is read; None for a draw.
    """
    agenda = Agenda(layout.cells, code, layout.position, layout.symbol, 0 if K is None else 1)
    loops = Enumeration(layout.cells, layout, code)
    code.set("row", row)
    code.set("length", 0)

    def push(term: Term, ranks: list[Expression]) -> None:
        for f in term.all_factors:
            if not f.is_item:
                write_weight(layout, code, f)
        agenda.push([f for f in term.all_factors if f.is_item], [[r] for r in ranks])

    def draw(table: str) -> None:
        e = code.set("e", CELLS[layout.item(loops.item_here(table))])
        choose_in_proportion(loops, table, lambda term: exp(log_weight(layout, term) - e), lambda term: push(term, []))

    if K is None:
        agenda.run(draw)
    else:
        agenda.run(lambda table: _find_ranked(loops, table, K, push), Name("rank", "int"))


def choose_in_proportion(
    loops: Enumeration, table: str, amount: Callable[[Term], Expression], push: Callable[[Term], None]
) -> None:
    """Choose an instance of the item at hand in proportion to its amount, and push what it is made of.

    The total is formed by the same additions as the running sum, which therefore reaches it.
    """
    code, found, mass = loops.code, Name("found", "bool"), Name("mass", "real")
    code.set("found", value(False))
    code.set("mass", 0.0)
    loops.instances_here(table, lambda term: _more(code, amount(term)))
    code.set("wanted", mass * uniform(code))
    code.set("mass", 0.0)

    def visit(term: Term) -> None:
        with code.when(negated(found)):
            _more(code, amount(term))
            with code.when(mass > Name("wanted", "real")):
                code.set("found", value(True))
                push(term)

    loops.instances_here(table, visit)


def _more(code: Code, term: Expression) -> None:
    code.set("mass", Name("mass", "real") + term)


def _find_ranked(loops: Enumeration, table: str, K: Name, push: Callable[[Term, list[Expression]], None]) -> None:
    """Find the instance that the wanted entry of the item's list comes from, and push what it is made of."""
    layout, code, found = loops.layout, loops.code, Name("found", "bool")
    wanted = Name(f"{FURTHER}.0", "int")
    code.set("found", value(False))
    start = code.set("first", layout.item(loops.item_here(table)) * K)
    target = code.set("target", CELLS[start + wanted])
    # Of those with the same value, the one as far down as the rank is: equals are met in one order.
    code.set("ties", wanted)
    with code.loop("x", 0, wanted) as x, code.when(CELLS[start + x] > target):
        code.set("ties", Name("ties", "int") - 1)

    def visit(term: Term, ranks: list[Expression]) -> None:
        with code.when(negated(found)), code.when(equal(Name("v", "real"), Name("target", "real"))):
            with code.when(equal(Name("ties", "int"), 0)):
                code.set("found", value(True))
                push(term, list(ranks))
            with code.otherwise():
                code.set("ties", Name("ties", "int") - 1)

    def ranked(term: Term) -> None:
        with code.when(negated(found)):
            _ranked(layout, code, term, Name("target", "real"), lambda ranks: visit(term, ranks), ties=True)

    loops.instances_here(table, ranked)
