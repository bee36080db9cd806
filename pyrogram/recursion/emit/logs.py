# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""One sentence at a time, in logarithms: log Z and expected counts. The surest way, and a slow one.

Cells are float64. The log of a sum is taken in one pass: the greatest term so far, and the sum of the others in units
of it. Posteriors go down the chart as probabilities: an instance of value v that proves an item of value e and
posterior g has g exp(v - e). NaN stays NaN, and what is impossible has -inf.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ..code.expressions import Array, Expression, Name, Number, equal, exp, log, negated, select, take, value
from ..code.statements import Code, Function
from ..rules.cells import CellClass, Cells, Head, Term
from ..rules.language import Constant, Ref
from .instances import Enumeration
from .layout import Layout

INF = Number(math.inf, "real")
LOG_Z = Array("log_z", "real")
CELLS = Array("chart", "real")  # values of items
GIVEN = Array("given", "real")  # posteriors of items
B = Name("b", "int")


# ---------------------------------------------------------------------- log Z and expected counts


def log_counts(cells: Cells) -> Function:
    """Log Z of sentences and, if they are wanted, expected counts of the weights, each times the sentence's scale."""
    layout, code = Layout(cells), Code()
    layout.place_items(code)
    with sentences(code):
        inside(layout, code)
        z = code.set("z", CELLS[layout.item(goal(cells))])
        code.put(LOG_Z, B, z)
        with code.when(Name("with_counts", "int") > 0), code.when(z > -INF), code.when(z < INF):
            posteriors(layout, code, Array("scale", "real")[B], lambda f, share: _count(layout, code, f, share))
    outputs = [p for w in layout.weights for p in w.parameters("out", "element", "part", "b")]
    parameters: list[Array | Name] = [LOG_Z, Name("with_counts", "int"), Array("scale", "real"), GIVEN]
    return Function("log_counts", [*layout.parameters(), *SENTENCES, CELLS, *parameters, *outputs], code.body)


def inside(layout: Layout, code: Code) -> None:
    """The log values of all items, into the chart."""
    loops = Enumeration(layout.cells, layout, code)

    def fill(head: Head) -> None:
        old = code.set("top", CELLS[layout.item(head.ref)])
        code.set("total", select(old > -INF, 1.0, 0.0))
        loops.instances(head, lambda term: _log_add(code, log_weight(layout, term)))
        code.put(CELLS, layout.item(head.ref), _log_sum())

    loops.fill(lambda ref: clear(layout, code, ref), fill)


def _log_add(code: Code, v: Expression) -> None:
    """One more term of the log of a sum."""
    v = code.set("v", v)
    top, total = Name("top", "real"), Name("total", "real")
    with code.when(v > top):
        code.set("total", total * exp(top - v) + 1.0)
        code.set("top", v)
    with code.otherwise(), code.when(negated(equal(v, -INF))):
        code.set("total", total + exp(v - top))


def _log_sum() -> Expression:
    total = Name("total", "real")
    return Name("top", "real") + select(total > 0.0, log(total), select(equal(total, 0.0), 0.0, total))


def log_weight(layout: Layout, term: Term) -> Expression:
    """The sum of the logs of all factors of an instance."""
    total: Expression | None = None
    for f in term.all_factors:
        v: Expression = CELLS[layout.item(f)] if f.is_item else layout.weight(f)
        total = v if total is None else total + v
    return value(0.0) if total is None else total


def clear(layout: Layout, code: Code, ref: Ref, array: Array = CELLS, each: Expression | int = 1) -> None:
    """-inf for all symbols of an item at a cell.

    :param each: how many numbers each symbol has.
    """
    zeros = tuple(Constant(0) for _ in ref.symbols)
    first = code.let(layout.item(Ref(ref.table, True, ref.positions, zeros)) * each)
    count = math.prod(map(layout.size, layout.cells.sizes[ref.table]), start=value(each))
    with code.loop("symbol", 0, count) as s:
        code.put(array, first + s, -INF)


def posteriors(layout: Layout, code: Code, scale: Expression, count: Callable[[Ref, Name], None]) -> None:
    """Posteriors of all items, times a scale, given their values.

    :param count: code for a weight and the posterior of an instance that has it.
    """
    loops = Enumeration(layout.cells, layout, code)
    with code.loop("x", 0, Name("cells", "int")) as x:
        code.put(GIVEN, x, 0.0)
    code.put(GIVEN, layout.item(goal(layout.cells)), scale)

    def share(term: Term) -> None:
        part = code.set("share", Name("g", "real") * exp(log_weight(layout, term) - Name("e", "real")))
        for f in term.all_factors:
            if f.is_item:
                code.add(GIVEN, layout.item(f), part)
            else:
                count(f, part)

    def give(cell: CellClass) -> None:
        for head in reversed(cell.heads):
            with loops.symbols(head), loops.rows(head, upwards=False):
                code.set("g", GIVEN[layout.item(head.ref)])
                code.set("e", CELLS[layout.item(head.ref)])
                with code.when(negated(equal(Name("g", "real"), 0.0))):  # a scale may be negative
                    loops.instances(head, share)

    loops.cells_in_order(give, upwards=False)


def _count(layout: Layout, code: Code, f: Ref, share: Name) -> None:
    target = layout.weight(f, f"out.{f.table}")
    code.add(target.array, target.index + Name("part", "int") * Name(f"out.{f.table}.part", "int"), share)


# ---------------------------------------------------------------------- sentences

SENTENCES: list[Array | Name] = [
    Array("lengths", "int"),
    Array("order", "int"),
    Name("count", "int"),
    Name("parts", "int"),
    Array("turns", "int"),
]


@contextmanager
def sentences(code: Code) -> Iterator[None]:
    """All sentences of the parts that this thread takes."""
    with blocks(code, 1) as place:
        b = code.set("b", Array("order", "int")[place])
        code.set("n", Array("lengths", "int")[b])
        yield


@contextmanager
def blocks(code: Code, lanes: int) -> Iterator[Expression]:
    """All blocks of the parts that this thread takes: part p has blocks p, p + parts, ...; where each begins."""
    parts = Name("parts", "int")
    part = code.set("part", take(Array("turns", "int")))
    with code.loop_while(part < parts):
        block = code.set("block", part)
        with code.loop_while(block * lanes < Name("count", "int")):
            yield code.set("begin.of", block * lanes)
            code.set("block", block + parts)
        code.set("part", take(Array("turns", "int")))


def goal(cells: Cells) -> Ref:
    """The goal as a reference."""
    return Ref(cells.goal, True, (), ())
