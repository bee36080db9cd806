# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Derivations of one sentence at a time: the k best ones, and draws.

Both go down from the goal without back-pointers: the instances of an item are gone through again, and the one that is
wanted is recognised by its value, which the same operations give to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ..calling.layout import Layout
from ..calling.traces import trace_parameters, write_weight
from ..machine.expressions import Array, Expression, Name, equal, exp, negated, value
from ..machine.random_bits import seed_stream, uniform
from ..machine.statements import Code, Function
from ..rules.cells import CellClass, Cells, Term
from .instances import HERE, Enumeration
from .sums import (
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

AGENDA = Array("agenda", "int")


def best(cells: Cells) -> Function:
    """The k best derivations: their log weights, and the weights that they are made of."""
    layout, code = Layout(cells), Code()
    K = Name("k", "int")
    layout.place_items(code)
    loops = Enumeration(layout, code)

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
                loops.instances(head, lambda term: _ranked(layout, code, term, lambda ranks: _insert(code, K)))

    with sentences(code):
        loops.upwards(fill)
        with code.loop("rank", 0, K) as rank:
            z = code.set("z", CELLS[layout.item(goal(cells)) * K + rank])
            code.put(Array("scores", "real"), rank * Name("batch", "int") + B, z)
            with code.when(z > -INF), code.when(z < INF):
                _trace(layout, code, rank * Name("batch", "int") + B, K)
    own: list[Array | Name] = [K, Name("batch", "int"), Array("scores", "real"), AGENDA, *trace_parameters(layout)]
    return Function("best", [*layout.parameters(), *SENTENCES, CELLS, *own], code.body)


def draw(cells: Cells) -> Function:
    """Independent draws of derivations, in proportion to their weights: the weights that they are made of."""
    layout, code = Layout(cells), Code()
    layout.place_items(code)
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
        AGENDA,
        *trace_parameters(layout),
    ]
    return Function("draw", [*layout.parameters(), *SENTENCES, CELLS, *own], code.body)


def _ranked(layout: Layout, code: Code, term: Term, visit: Callable[[list[Expression]], None]) -> None:
    """All combinations of ranks of an instance's items that can be among the k best: v is their log weight."""
    K = Name("k", "int")
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
            visit(ranks)
            return
        with code.loop(f"rank.{depth}", 0, K // product) as r:
            ranks.append(r)
            own = CELLS[layout.item(items[depth]) * K + r]
            down(depth + 1, own if sofar is None else sofar + own, product * (r + 1))
            ranks.pop()

    down(0, fixed, value(1))


def _insert(code: Code, K: Name) -> None:
    """Put v into the sorted list of a cell, if it belongs there. Of equals, the first stays first."""
    v, first = Name("v", "real"), Name("first", "int")
    with code.when(v > CELLS[first + K - 1]):
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
    cells = layout.cells
    numbers = {name: x for x, name in enumerate(cells.sizes)}
    width = 4 + max([len(s) for s in cells.sizes.values()], default=0)  # item, i, j, rank, symbols
    top = code.set("depth", 1)
    code.set("row", row)
    code.set("length", 0)
    code.put(AGENDA, 0, numbers[cells.goal])
    code.put(AGENDA, 3, Name("rank", "int") if K is not None else 0)
    with code.loop_while(top > 0):
        code.set("depth", top - 1)
        start = code.set("entry", top * width)
        item = code.set("item", AGENDA[start])
        code.set("at.i", AGENDA[start + 1])
        code.set("at.j", AGENDA[start + 2])
        code.set("wanted", AGENDA[start + 3])
        for a in range(width - 4):
            code.set(f"sym.{HERE}.{a}", AGENDA[start + 4 + a])
            code.set(f"{HERE}.{a}", AGENDA[start + 4 + a])
        code.set("found", value(False))
        for name, number in numbers.items():
            with code.when(equal(item, number)):
                _step(layout, code, name, numbers, width, K)


def _step(layout: Layout, code: Code, table: str, numbers: dict[str, int], width: int, K: Name | None) -> None:
    """Find the instance that proves the item at hand, and push what it is made of."""
    loops = Enumeration(layout, code)
    heads = [(cell, head) for cell in layout.cells.classes for head in cell.heads if head.ref.table == table]
    here = loops.item_here(heads[0][1].ref)
    found = Name("found", "bool")
    if K is None:
        # The total is formed by the same additions as the running sum, which therefore reaches it.
        e = code.set("e", CELLS[layout.item(here)])
        code.set("total", 0.0)
        for cell, head in heads:
            with _in_class(code, cell), loops.matching(head):
                loops.instances(head, lambda t: _more(code, exp(log_weight(layout, t) - e)))
        code.set("goal", Name("total", "real") * uniform(code))
        code.set("total", 0.0)
    else:
        start = code.set("first", layout.item(here) * K)
        target = code.set("target", CELLS[start + Name("wanted", "int")])
        # Of those with the same value, the one as far down as the rank is: equals are met in one order.
        code.set("ties", Name("wanted", "int"))
        with code.loop("x", 0, Name("wanted", "int")) as x, code.when(CELLS[start + x] > target):
            code.set("ties", Name("ties", "int") - 1)

    def push(term: Term, ranks: list[Expression]) -> None:
        items = [f for f in term.all_factors if f.is_item]
        for f in term.all_factors:
            if not f.is_item:
                write_weight(layout, code, f)
        for f, r in reversed(list(zip(items, ranks or [value(0)] * len(items), strict=True))):
            top = Name("depth", "int")
            entry = code.set("entry", top * width)
            code.put(AGENDA, entry, numbers[f.table])
            at = [layout.position(x) for x in f.positions]
            code.put(AGENDA, entry + 1, at[0] if len(at) == 2 else 0)
            code.put(AGENDA, entry + 2, at[-1] if at else 0)
            code.put(AGENDA, entry + 3, r)
            for a, s in enumerate(f.symbols):
                code.put(AGENDA, entry + 4 + a, layout.symbol(s))
            code.set("depth", top + 1)

    def drawn(term: Term) -> None:
        with code.when(negated(found)):
            _more(code, exp(log_weight(layout, term) - Name("e", "real")))
            with code.when(Name("total", "real") > Name("goal", "real")):
                code.set("found", value(True))
                push(term, [])

    def ranked(term: Term) -> None:
        def visit(ranks: list[Expression]) -> None:
            with code.when(negated(found)), code.when(equal(Name("v", "real"), Name("target", "real"))):
                with code.when(equal(Name("ties", "int"), 0)):
                    code.set("found", value(True))
                    push(term, list(ranks))
                with code.otherwise():
                    code.set("ties", Name("ties", "int") - 1)

        with code.when(negated(found)):
            _ranked(layout, code, term, visit)

    for cell, head in heads:
        with _in_class(code, cell), loops.matching(head):
            loops.instances(head, drawn if K is None else ranked)


def _more(code: Code, term: Expression) -> None:
    code.set("total", Name("total", "real") + term)


@contextmanager
def _in_class(code: Code, cell: CellClass) -> Iterator[None]:
    """If the item at hand is in a class of cells."""
    if cell.kind == "goal":
        yield
        return
    i, j = Name("at.i", "int"), Name("at.j", "int")
    width = j - i if cell.kind == "span" else j
    with code.when(equal(width, cell.width) if cell.width is not None else width >= cell.least):
        yield
