# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A power of two for each word, so that long sentences have plain numbers near one.

Any will do: rules that bring a word into a derivation (:func:`rules_of_words`) get a weight more, the word's power, and
log Z gets the sum of all back. A good one takes back by how much the word makes derivations smaller (:mod:`.powers`).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

from ..rules.bounds import Bounds
from ..rules.cells import CellClass, Cells, Head, J, Term
from ..rules.domains import ZERO, N, constraints
from ..rules.language import Position, Ref
from ..rules.recursions import with_rules
from .weights import GAUGE


def with_gauge(cells: Cells) -> Cells:
    """The cells with the powers for weights; as they are, if no rule brings a word alone."""
    bringing = rules_of_words(cells)
    if bringing is None:
        return cells

    def gauged(cell: CellClass, term: Term) -> Term:
        power = Ref(GAUGE, False, (N if cell.kind == "goal" else J,), ())
        return replace(term, factors=(power, *term.factors)) if id(term) in bringing else term

    def heads(cell: CellClass) -> list[Head]:
        return [Head(h.ref, [gauged(cell, term) for term in h.terms]) for h in cell.heads]

    classes = [replace(c, heads=heads(c)) for c in cells.classes]
    recursion = with_rules(cells.recursion, cells.recursion.rules, {GAUGE: ()})
    return replace(cells, recursion=recursion, classes=classes, arity={**cells.arity, GAUGE: 1})


def rules_of_words(cells: Cells) -> frozenset[int] | None:
    """The ids of terms by whose rules words come into a derivation; None if that cannot be told.

    A span (i, j) of an item X has the words i + a .. j, where a is 0 or 1, the same for all spans of X, and a point j
    has all up to j. In a rule the words of the items must tile those of the head, or all of them but the last: then
    the rule brings that one. Axioms do, of trees of Eisner and Satta LC[j, j], where a is 1 for RC, IR and IL, 0 for
    LC; ``X[j - 1, j, A] += word[A, w[j]]`` does; rules by which chains advance, ``F[j, x] += F[j - 1, y] * ...``; and
    of a sentence of one word the goal itself, ``Z[()] += word[A, w[1]] * (n <= 1)``.
    """
    spans = sorted({h.ref.table for c in cells.of("span") for h in c.heads})
    for values in itertools.product((1, 0), repeat=len(spans)):
        bringing = _bringing(cells, dict(zip(spans, values, strict=True)))
        if bringing is not None:
            return bringing
    return None


def _bringing(cells: Cells, offsets: dict[str, int]) -> frozenset[int] | None:
    """
    :param offsets: a, by item.
    """
    terms, first = set(), Position("", 1)
    for cell, head, term in cells.terms:
        bounds_of_rule = constraints(term.rule, cells.first, cells.domains)
        assert bounds_of_rule is not None
        bounds = Bounds([*term.rule.positions, "i", "j"], bounds_of_rule)
        if cell.kind == "span":
            start, end = Position("i", offsets[head.ref.table]), Position("j")
        else:
            start, end = first, Position("n" if cell.kind == "goal" else "j")
        spans = [_words_of(f, first, offsets) for f in term.rule.items]
        spans = [(low, high) for low, high in spans if not bounds.equal(high + 1, low)]
        if _follow(bounds, start, end, spans):
            continue
        if not _follow(bounds, start, end - 1, spans):
            return None
        terms.add(id(term))
    return frozenset(terms)


def _words_of(ref: Ref, first: Position, offsets: dict[str, int]) -> tuple[Position, Position]:
    """The first and the last word of an item."""
    if len(ref.positions) == 2:
        return ref.positions[0] + offsets[ref.table], ref.positions[1]
    return first, ref.positions[0] if ref.positions else ZERO


def _follow(bounds: Bounds, start: Position, end: Position, spans: Sequence[tuple[Position, Position]]) -> bool:
    """Whether intervals, in some order, follow one another from start to end."""
    if not spans:
        return bounds.equal(start, end + 1)
    for x, (low, high) in enumerate(spans):
        if bounds.equal(low, start):
            return _follow(bounds, high + 1, end, [*spans[:x], *spans[x + 1 :]])
    return False
