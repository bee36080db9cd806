# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A power of two for each word, so that long sentences have plain numbers near one.

Any will do: rules that bring a word into a derivation (:func:`rules_of_words`) get a weight more, the word's power, and
log Z gets the sum of all back. A good one takes back by how much the word makes derivations smaller. So powers are
chosen while the chart is filled (:class:`Powers`): after the cells that end at j, let M be the sum of the items of the
longest span (i, j) that has a derivation. It tells how much a word makes derivations smaller, on the mean. The power of
the next word takes that back; and half of M, so that errors do not add up.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from ..code.expressions import (
    Array,
    Expression,
    Name,
    equal,
    exponent_of,
    fill,
    greatest,
    least,
    power_of_two,
    real,
    rounded,
    select,
    value,
    within,
)
from ..code.statements import Code
from ..rules.bounds import Bounds
from ..rules.cells import CellClass, Cells, Head, J, Term
from ..rules.domains import ZERO, N, constraints
from ..rules.language import Link, Position, Ref
from ..rules.recursions import with_rules
from .instances import the_cell
from .limits import Extremes
from .names import ENDS, B
from .names import N as _N
from .numbers import Numbers, any_of
from .tables import Tables
from .weights import EXPONENTS_OF_WORDS, GAUGE, MEMORY, is_gauge

MOST_EXPONENT = Name("most.exponent", "lanes")
ALIVE = Name("alive", "lanes")  # one until a sentence ends, then zero
_M, _BEFORE, _WORDS = (Name(name, "lanes") for name in ("m.of.span", "before.span", "words.of.span"))
_MOST = 1000.0  # of exponents of powers
_I, _J = Name("at.i", "int"), Name("at.j", "int")


@dataclass
class Powers:
    """Code that finds the powers of a block's words from its chart."""

    tables: Tables
    code: Code
    extremes: ClassVar[Extremes] = Extremes("weight")

    def __post_init__(self) -> None:
        self.cells, self.first = self.tables.cells, self.tables.cells.first
        gauges = [w for w in self.tables.weights if is_gauge(w.table)]
        #: Where powers begin, by the links of the items that they are for.
        self._by_links = {tuple(w.table[len(GAUGE) :].split()): Name(w.name, "int") for w in gauges}
        self._powers = None if self.cells.recursion.linked else self._by_links.get(())

    def begin(self, numbers: Numbers) -> None:
        """All powers are one."""
        self.code.set(ALIVE.name, fill(1.0))
        with self.code.loop("x", 0, _N + 1) as x:
            self.code.put(MEMORY, EXPONENTS_OF_WORDS + x, fill(0.0))
            for powers in self._by_links.values():
                numbers.put(powers + x, numbers.one)

    def choose(self) -> None:
        """The power of the word after j, when all cells that end at j have been filled."""
        code = self.code
        code.set(ALIVE.name, ALIVE - MEMORY[ENDS + _J])
        if self.cells.recursion.linked and self._by_links:
            with code.when(_J < _N):
                self._take_back()
        if self._powers is None:
            return
        with code.when(_J < _N):
            self._find_span()
            m, before = code.let(exponent_of(_M)), code.let(MEMORY[EXPONENTS_OF_WORDS + _J])
            e = (before - _BEFORE - m) / _WORDS - m * fill(0.5)
            e = rounded(least(greatest(e, fill(0.0) - MOST_EXPONENT), MOST_EXPONENT)) * ALIVE
            e = code.let(select(_M > fill(0.0), e, fill(0.0)))
            code.put(MEMORY, self._powers + _J + 1, power_of_two(e))
            code.put(MEMORY, EXPONENTS_OF_WORDS + _J + 1, before + e)

    def _take_back(self) -> None:
        """The powers of the position after j: they take back how small the items are that it is linked to.

        All items of a position have one exponent in all. So a rule that reads other items than those of the greatest
        product has another power, which may be far from one. Where it is too large for a float, as that of a rule
        without items may be, any weight but zero makes an item that is too large.
        """
        code, zero = self.code, fill(0.0)
        there, before, size = dict[str, Expression](), dict[str, Expression](), dict[str, Expression]()
        for links in sorted({x for names in self._by_links for x in names}):
            words, width = Array(f"words.{links}", "int"), Name(f"words.{links}.b", "int")
            child = code.set("at.child", words[B * width + within(_J, 0, width)])
            there[links], before[links] = code.set(f"there.{links}", 0), code.set(f"before.{links}", zero)
            size[links] = code.set(f"size.{links}", zero)
            with code.when((child >= self.first) & (child <= _J)):
                code.set(f"there.{links}", 1)
                exponent = code.set(f"before.{links}", MEMORY[EXPONENTS_OF_WORDS + child])
                code.set(f"size.{links}", exponent_of(self._sum_of_items(Position("child"))) - exponent)
        e = code.set("of.position", fill(math.inf))
        for names in filter(None, self._by_links):
            with code.when(functools.reduce(least, (there[x] for x in names)) > 0):
                code.set(e.name, least(e, functools.reduce(operator.sub, (size[x] for x in names), zero)))
        e = code.let(select(e < fill(math.inf), e, zero))
        code.put(MEMORY, EXPONENTS_OF_WORDS + _J + 1, e)
        for names, powers in self._by_links.items():
            p = code.let(functools.reduce(operator.sub, (before[x] for x in names), e))
            code.put(MEMORY, powers + _J + 1, power_of_two(least(greatest(p, fill(-_MOST)), fill(_MOST))))
            if names:
                with code.when(functools.reduce(least, (there[x] for x in names)) > 0):
                    self.extremes.include(code, MEMORY[powers + _J + 1])

    def _sum_of_items(self, at: Position) -> Expression:
        """The sum of the items at a point; one, if they are all zero."""
        sums = self.tables.sums
        sums.numbers.set("m.of.cell", sums.numbers.zero)
        for ref in {h.ref.table: h.ref for c in self.cells.of("point") for h in c.heads}.values():
            sums.add_up("m.of.cell", [self.tables.whole(replace(ref, positions=(at,)))])
        total = self.code.let(sums.numbers.get("m.of.cell"))
        return select(total > fill(0.0), total, fill(1.0))

    def _find_span(self) -> None:
        """M of the longest span, the exponents of all words before it, and the number of its own."""
        code = self.code
        for name, number in ((_M, 0.0), (_BEFORE, 0.0), (_WORDS, 1.0)):
            code.set(name.name, fill(number))
        for cell in (c for c in self.cells.of("span") if c.width is None):
            code.set("at.i", self.first)
            with code.loop_while((_I <= _J - cell.least) & any_of(equal(_M, fill(0.0)))):
                self._look_at(cell, _I)
                code.set("at.i", _I + 1)
        for cell in (c for c in self.cells.of("span") if c.width is not None):
            with the_cell(code, cell, self.first):
                self._look_at(cell, _I)
        for cell in self.cells.of("point"):
            with the_cell(code, cell, self.first):
                self._look_at(cell, value(self.first))

    def _look_at(self, cell: CellClass, i: Expression) -> None:
        """The sum of the items of a cell, in lanes that have found no span."""
        code, sums = self.code, self.tables.sums
        sums.numbers.set("m.of.cell", sums.numbers.zero)
        for ref in {h.ref.table: h.ref for h in cell.heads}.values():
            sums.add_up("m.of.cell", [self.tables.whole(ref)])
        new, words = code.let(equal(_M, fill(0.0))), real(greatest(_J - i + self.first, 1))
        code.set(_BEFORE.name, select(new, MEMORY[EXPONENTS_OF_WORDS + i - self.first], _BEFORE))
        code.set(_WORDS.name, select(new, fill(words), _WORDS))
        code.set(_M.name, select(new, sums.numbers.get("m.of.cell"), _M))


# ---------------------------------------------------------------------- rules of words


def with_gauge(cells: Cells) -> Cells:
    """The cells with the powers for weights; as they are, if no rule brings a word alone."""
    bringing = _by_links(cells) if cells.recursion.linked else dict.fromkeys(rules_of_words(cells) or (), GAUGE)
    if not bringing:
        return cells

    def gauged(cell: CellClass, term: Term) -> Term:
        if id(term) not in bringing:
            return term
        power = Ref(bringing[id(term)], False, (N if cell.kind == "goal" else J,), ())
        return replace(term, factors=(power, *term.factors))

    def heads(cell: CellClass) -> list[Head]:
        return [Head(h.ref, [gauged(cell, term) for term in h.terms]) for h in cell.heads]

    classes = [replace(c, heads=heads(c)) for c in cells.classes]
    names = dict.fromkeys(bringing.values())
    recursion = with_rules(cells.recursion, cells.recursion.rules, dict.fromkeys(names, ()), GAUGE)
    return replace(cells, recursion=recursion, classes=classes, arity={**cells.arity, **dict.fromkeys(names, 1)})


def _by_links(cells: Cells) -> dict[int, str]:
    """The powers of terms, by their ids: those of the links of their items; none, if points read other items as well.

    Of the goal, whose item is the last one, there are none.
    """
    names = {}
    for cell, _, term in cells.terms:
        items = term.rule.items
        if cell.kind == "goal" and [f.positions for f in items] == [(N,)]:
            continue
        links = [x.links for f in items for x in f.positions if isinstance(x, Link)]
        if cell.kind != "point" or len(links) != len(items):
            return {}
        names[id(term)] = " ".join([GAUGE, *sorted(links)])
    return names


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
