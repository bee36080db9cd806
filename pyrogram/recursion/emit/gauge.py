# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A power of two for each word, so that long sentences have plain numbers near one.

Any will do: rules that bring a word into a derivation (:func:`rules_of_words`) get a weight more, the word's power, and
log Z gets the sum of all back. A good one makes the product of a word's weights one, as they are on the mean: that of
each table, to the power of how many of its weights a word more has in a derivation, and times the
number of derivations that there are more.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ..rules.bounds import Bounds
from ..rules.cells import CellClass, Cells, Head, J, Term
from ..rules.domains import ZERO, N, constraints
from ..rules.interpreter import Grounded, Reals
from ..rules.language import Entry, InvalidRecursion, Place, Position, Ref, Rule, Size, Variable, Word
from ..rules.recursions import Recursion, with_rules
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


@dataclass(frozen=True)
class Growth:
    """What a word more adds to a derivation.

    :param derivations: the logarithm of how many times as many derivations there are, were all sizes one.
    :param sizes: by name, the power of a number of symbols by which they are more.
    :param weights: by table, how many weights more a derivation has on the mean.
    """

    derivations: float
    sizes: Mapping[str, float]
    weights: Mapping[str, float]

    @staticmethod
    def of(recursion: Recursion) -> Growth:
        """From sentences of two to four words, whose weights are all one and of whose symbols there is one each.

        Numbers of derivations are about n**-a exp(b n), whose ratios are about exp(b) (1 - a / n). A rule stands for as
        many as its symbols are, and as the rows of its list that speak of the head.
        """
        counted = _counted(recursion)
        rules = {f"rule {x}": _multiplicity(recursion, rule) for x, rule in enumerate(recursion.rules)}
        names = [t.name for t in counted.tables.values() if not t.is_item]
        try:
            two, three, four = (_uses(counted, n, names) for n in (2, 3, 4))
        except InvalidRecursion:  # rows of lists by which one symbol alone is below itself
            return Growth(0.0, {}, {})
        if two is None or three is None or four is None:
            return Growth(0.0, {}, {})
        ratio = 4 * math.exp(four[0] - three[0]) - 3 * math.exp(three[0] - two[0])
        uses = {x: round(four[1][x] - three[1][x], 2) for x in names}
        sizes = dict.fromkeys((size for powers in rules.values() for size in powers), 0.0)
        for name, powers in rules.items():
            for size, power in powers.items():
                sizes[size] += power * uses[name]
        return Growth(math.log(max(ratio, 1.0)), sizes, {x: u for x, u in uses.items() if x not in rules})


def _counted(recursion: Recursion) -> Recursion:
    """The recursion with a weight more for each rule, which says how often it is used.

    Without unary rules of a list, of which one symbol alone would be below itself.
    """
    names = [f"rule {x}" for x in range(len(recursion.rules))]
    rules = [
        replace(rule, factors=(*rule.factors, Ref(name, False, (), ())))
        for name, rule in zip(names, recursion.rules, strict=True)
        if not any(f.table == rule.head.table and f.positions == rule.head.positions for f in rule.items)
    ]
    return with_rules(recursion, rules, dict.fromkeys(names, ()))


def _positional(recursion: Recursion) -> set[Size]:
    """Sizes of axes at which positions stand for symbols."""
    refs = [f for rule in recursion.rules for f in (rule.head, *rule.factors)]
    axes = [(x, size) for f in refs for x, size in zip(f.symbols, recursion.tables[f.table].sizes, strict=True)]
    return {size for x, size in axes if isinstance(x, Place)}


def _multiplicity(recursion: Recursion, rule: Rule) -> Counter[str]:
    """For how many rules it stands that make one item, as powers of sizes."""
    head = [x for x in rule.head.symbols if isinstance(x, Variable)]
    summed = Counter(v.size for v in rule.variables if v not in head)
    pairs = zip(rule.head.symbols, recursion.tables[rule.head.table].sizes, strict=True)
    summed.subtract(size for x, size in pairs if isinstance(x, Entry))
    there = _positional(recursion)
    return Counter({size: power for size, power in summed.items() if isinstance(size, str) and size not in there})


def _uses(recursion: Recursion, n: int, names: Sequence[str]) -> tuple[float, dict[str, float]] | None:
    """The log of the number of derivations of n words, and how often each weight is in one on the mean."""
    refs = [f for rule in recursion.rules for f in (rule.head, *rule.factors)]
    there = _positional(recursion)
    variables = {v.size for rule in recursion.rules for v in rule.variables}
    sizes = {size: n + 1 if size in there else 1 for size in variables if isinstance(size, str)}
    rows = {x.column: x.row.size for f in refs for x in f.symbols if isinstance(x, Entry)}
    lists = {name: (0,) * (size if isinstance(size, int) else 1) for name, size in rows.items()}
    words = {x.words: (0,) * n for f in refs for x in f.symbols if isinstance(x, Word)}
    grounded = Grounded(recursion, n, sizes=sizes, words=words, lists=lists)

    def log_z(name: str, weight: float) -> float:
        table = {x: lambda *indices, y=weight if x == name else 1.0: y for x in names}
        z = grounded.goal(Reals(), table)
        return math.log(z) if z > 0 else -math.inf

    whole = log_z("", 1.0)
    if whole == -math.inf:
        return None
    return whole, {x: (log_z(x, 1.001) - whole) / math.log(1.001) for x in names}
