# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The derivation of which the most instances of rules are expected to be right (minimum Bayes risk).

An instance counts its posterior times what its weights are worth. Two passes in logarithms find the posteriors; a third
one goes upwards again and adds them.
"""

from __future__ import annotations

from ..code.expressions import Array, Expression, Name, equal, exp, negated, select, value
from ..code.statements import Code, Function
from ..rules.cells import CellClass, Cells, Term
from ..rules.language import Ref
from .agenda import WAY_DOWN, Agenda
from .instances import Enumeration
from .layout import Layout
from .logs import CELLS, GIVEN, INF, SENTENCES, B, clear, goal, inside, log_weight, posteriors, sentences
from .rows import make_chains
from .traces import trace_parameters, write_weight

GAINS = Array("gains", "real")  # the greatest sums of items


def most_expected(cells: Cells) -> Function:
    """The derivation of positive weight with the greatest sum: this sum, and the weights that it is made of."""
    layout, code = Layout(cells), Code()
    layout.place_items(code)
    make_chains(layout, code)
    top = layout.item(goal(cells))
    with sentences(code):
        inside(layout, code)
        code.put(Array("scores", "real"), B, -INF)
        z = code.set("z", CELLS[top])
        with code.when(z > -INF), code.when(z < INF):
            posteriors(layout, code, value(1.0), lambda f, share: None)
            _fill(layout, code)
            code.put(Array("scores", "real"), B, GAINS[top])
            _trace(layout, code)
    own: list[Array | Name] = [GIVEN, GAINS, Array("scores", "real"), *WAY_DOWN, *trace_parameters(layout)]
    for w in layout.weights:
        own.append(Array(f"worth.{w.name}", "element"))
        own += [Name(f"worth.{w.name}.{x}", "int") for x in ("b", *range(w.num_axes))]
    return Function("most_expected", [*layout.parameters(), *SENTENCES, CELLS, *own], code.body)


def _fill(layout: Layout, code: Code) -> None:
    loops = Enumeration(layout.cells, layout, code)

    def fill(cell: CellClass) -> None:
        cleared: set[str] = set()
        for head in cell.heads:
            if head.ref.table not in cleared:
                cleared.add(head.ref.table)
                clear(layout, code, head.ref, GAINS)
            with loops.symbols(head), loops.rows(head):
                item = code.set("item.of", layout.item(head.ref))

                def offer(term: Term, item: Name = item) -> None:
                    gain = code.set("gain", _gain(layout, code, term, item))
                    with code.when(gain > GAINS[item]):
                        code.put(GAINS, item, gain)

                loops.instances(head, offer)

    loops.upwards(fill)


def _gain(layout: Layout, code: Code, term: Term, item: Expression) -> Expression:
    """The sum of an instance that proves an item; -inf if its weight is zero."""
    weight = code.set("log.weight", log_weight(layout, term))
    worth: Expression = value(0.0)
    below: Expression = value(0.0)
    for f in term.all_factors:
        if f.is_item:
            below = below + GAINS[layout.item(f)]
        else:
            worth = worth + layout.weight(f, f"worth.{f.table}")
    share = GIVEN[item] * exp(weight - CELLS[item])
    return select(weight > -INF, share * worth + below, -INF)


def _trace(layout: Layout, code: Code) -> None:
    """Go down from the goal, the leftmost item first; write the numbers of weights that are met."""
    agenda = Agenda(layout.cells, code, layout.position, layout.symbol)
    loops = Enumeration(layout.cells, layout, code)
    found = Name("found", "bool")
    code.set("row", B)
    code.set("length", 0)

    def step(table: str) -> None:
        code.set("found", value(False))
        item = code.set("item.of", layout.item(loops.item_here(table)))

        def visit(term: Term) -> None:
            with code.when(negated(found)), code.when(equal(_gain(layout, code, term, item), GAINS[item])):
                code.set("found", value(True))
                items: list[Ref] = []
                for f in term.all_factors:
                    if f.is_item:
                        items.append(f)
                    else:
                        write_weight(layout, code, f)
                agenda.push(items)

        loops.instances_here(table, visit)

    agenda.run(step)
