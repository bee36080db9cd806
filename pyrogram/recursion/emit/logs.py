# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""One sentence at a time, in logarithms: log Z and expected counts. The surest way, and a slow one.

Cells are float64. The log of a sum is taken in one pass: the greatest term so far, and the sum of the others in units
of it. Posteriors go down the chart as probabilities: an instance of value v that proves an item of value e and
posterior g has g exp(v - e). NaN stays NaN, and what is impossible has -inf.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from ..code.expressions import Array, Expression, Name, Number, equal, exp, log, negated, select, take, value
from ..code.statements import Code, Function
from ..rules.cells import Cells, Term
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
    loops = loops_of(cells)
    layout, code = loops.layout, loops.code

    def count(f: Ref, share: Name) -> None:
        target = layout.weight(f, f"out.{f.table}")
        code.add(target.array, target.index + Name("part", "int") * Name(f"out.{f.table}.part", "int"), share)

    with sentences(code):
        inside(loops)
        z = code.set("z", CELLS[layout.item(goal(cells))])
        code.put(LOG_Z, B, z)
        with code.when(Name("with_counts", "int") > 0), code.when(z > -INF), code.when(z < INF):
            posteriors(loops, Array("scale", "real")[B], count)
    outputs = [p for w in layout.weights for p in w.parameters("out", "element", "part", "b")]
    parameters: list[Array | Name] = [LOG_Z, Name("with_counts", "int"), Array("scale", "real"), GIVEN]
    return Function("log_counts", [*layout.parameters(), *SENTENCES, CELLS, *parameters, *outputs], code.body)


def loops_of(cells: Cells) -> Enumeration:
    """Loops for one sentence, whose items have places in one array."""
    loops = Enumeration(cells, Layout(cells), Code())
    loops.layout.place_items(loops.code)
    return loops


def inside(loops: Enumeration) -> None:
    """The log values of all items, into the chart."""
    code = loops.code
    for head in loops.heads_upwards(lambda ref: clear(loops, ref, CELLS)):
        item = loops.layout.item(head.ref)
        old = code.set("top", CELLS[item])
        code.set("total", select(old > -INF, 1.0, 0.0))
        for term in loops.instances(head):
            _log_add(code, log_weight(loops.layout, term))
        code.put(CELLS, item, _log_sum())


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
    return sum_of(CELLS[layout.item(f)] if f.is_item else layout.weight(f) for f in term.all_factors)


def sum_of(terms: Iterable[Expression]) -> Expression:
    """The sum of reals."""
    first, *others = [*terms] or [value(0.0)]
    return functools.reduce(operator.add, others, first)


def clear(loops: Enumeration, ref: Ref, array: Array, each: Expression | int = 1) -> None:
    """-inf for all symbols of an item at a cell.

    :param each: how many numbers each symbol has.
    """
    code, layout = loops.code, loops.layout
    zeros = tuple(Constant(0) for _ in ref.symbols)
    first = code.let(layout.item(Ref(ref.table, True, ref.positions, zeros)) * each)
    count = math.prod(map(layout.size, loops.cells.sizes[ref.table]), start=value(each))
    with code.loop("symbol", 0, count) as s:
        code.put(array, first + s, -INF)


def posteriors(loops: Enumeration, scale: Expression, count: Callable[[Ref, Name], None]) -> None:
    """Posteriors of all items, times a scale, given their values.

    :param count: code for a weight and the posterior of an instance that has it.
    """
    code, layout = loops.code, loops.layout
    with code.loop("x", 0, Name("cells", "int")) as x:
        code.put(GIVEN, x, 0.0)
    code.put(GIVEN, layout.item(goal(loops.cells)), scale)

    for head in loops.heads_downwards():
        g, e = code.set("g", GIVEN[layout.item(head.ref)]), code.set("e", CELLS[layout.item(head.ref)])
        with code.when(negated(equal(g, 0.0))):  # a scale may be negative
            for term in loops.instances(head):
                share = code.set("share", g * exp(log_weight(layout, term) - e))
                for f in term.all_factors:
                    if f.is_item:
                        code.add(GIVEN, layout.item(f), share)
                    else:
                        count(f, share)


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
