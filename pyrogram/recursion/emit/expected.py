# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The derivation of which the most instances of rules are expected to be right (minimum Bayes risk).

An instance counts its posterior times what its weights are worth. Two passes in logarithms find the posteriors; a third
one goes upwards again and adds them.
"""

from __future__ import annotations

from ..code.expressions import Array, Expression, Name, equal, exp, select, value
from ..code.statements import Code, Function
from ..rules.cells import Cells, Head, Term
from .agenda import WAY_DOWN
from .derivations import Descent, choose_first
from .instances import Enumeration
from .layout import Layout
from .logs import CELLS, GIVEN, INF, SENTENCES, B, clear, goal, inside, log_weight, posteriors, sentences
from .rows import place_chains
from .traces import trace_parameters, write_weight

GAINS = Array("gains", "real")  # the greatest sums of items


def most_expected(cells: Cells) -> Function:
    """The derivation of positive weight with the greatest sum: this sum, and the weights that it is made of."""
    layout, code = Layout(cells), Code()
    layout.place_items(code)
    place_chains(layout, code)
    top = layout.item(goal(cells))
    loops = Enumeration(layout.cells, layout, code)
    descent = Descent(loops, lambda f: write_weight(layout, code, f), layout.position)

    def choose(table: str) -> None:
        item = code.set("item.of", layout.item(loops.item_here(table)))
        choose_first(loops, table, lambda term: equal(_gain(layout, code, term, item), GAINS[item]), descent.push)

    with sentences(code):
        inside(layout, code)
        code.put(Array("scores", "real"), B, -INF)
        z = code.set("z", CELLS[top])
        with code.when(z > -INF), code.when(z < INF):
            posteriors(layout, code, value(1.0), lambda f, share: None)
            _fill(loops)
            code.put(Array("scores", "real"), B, GAINS[top])
            descent.run(B, choose)
    parameters: list[Array | Name] = [GIVEN, GAINS, Array("scores", "real"), *WAY_DOWN, *trace_parameters(layout)]
    worth = [p for w in layout.weights for p in w.parameters("worth", "element", "b")]
    return Function("most_expected", [*layout.parameters(), *SENTENCES, CELLS, *parameters, *worth], code.body)


def _fill(loops: Enumeration) -> None:
    layout, code = loops.layout, loops.code

    def fill(head: Head) -> None:
        item = code.set("item.of", layout.item(head.ref))

        def offer(term: Term) -> None:
            gain = code.set("gain", _gain(layout, code, term, item))
            with code.when(gain > GAINS[item]):
                code.put(GAINS, item, gain)

        loops.instances(head, offer)

    loops.fill(lambda ref: clear(layout, code, ref, GAINS), fill)


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
