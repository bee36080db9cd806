# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Weights that stand together become one: their product is formed once for each element, and not in every cell.

Before:

    IR[i, j] += stop[w[i], 1, 0, 0] * attach[w[i], 1, w[j]] * RO[i, i] * LC[i + 1, j]

After, where P has the two factors ``stop[w[axis0], 1, 0, 0]`` and ``attach[w[axis0], 1, w[axis1]]``:

    IR[i, j] += P[i, j] * RO[i, i] * LC[i + 1, j]

A product's posterior is that of each of its factors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from .bounds import Bounds
from .cells import names_in, renamed, symbols_in
from .domains import bounds_of
from .language import Bound, Constant, Entry, Position, Ref, Rule, Size, Variable, Word, _positions
from .recursions import Recursion, with_rules


@dataclass(frozen=True)
class Products:
    """A recursion with products for weights.

    :param factors: the weights of each product, with positions axis0, axis1, ... for its own.
    """

    recursion: Recursion
    factors: dict[str, tuple[Ref, ...]]

    def of(self, ref: Ref) -> tuple[Ref, ...]:
        """The weights that a reference stands for: itself, if it is no product."""
        names = {f"axis{x}": position for x, position in enumerate(ref.positions)}
        return tuple(renamed(f, names) for f in self.factors.get(ref.table, ())) or (ref,)


def with_products(recursion: Recursion, shared: bool = True) -> Products:
    """The recursion in which products over two positions have taken the place of weights.

    Products over one position would take more room than they save time.

    :param shared: whether weights that several rules of an item share are factors, too. Left alone they are taken out
        of its sum, and fewer weights are made: worth it where sentences have the same weights. Several of them that
        stand together become one.
    """
    factors: dict[str, tuple[Ref, ...]] = {}
    alone, rules = set() if shared else _shared(recursion), list[Rule]()
    for rule in recursion.rules:
        common = tuple(f for f in rule.weights if (rule.head.table, f) in alone)
        others = tuple(f for f in rule.weights if f not in common)
        together = common if common and not _is_product(others) else rule.weights
        rules.append(_with_product(rule, together, factors))
    return Products(with_rules(recursion, rules, dict.fromkeys(factors, ())), factors)


def _shared(recursion: Recursion) -> set[tuple[str, Ref]]:
    """Items with the weights that stand in more than one of their rules."""
    possible = [r for r in recursion.rules if Bounds([*r.positions, "n"], r.bounds).possible]
    uses = Counter((rule.head.table, f) for rule in possible for f in set(rule.weights))
    return {key for key, count in uses.items() if count > 1}


def _with_product(rule: Rule, weights: tuple[Ref, ...], factors: dict[str, tuple[Ref, ...]]) -> Rule:
    """The rule with one weight for some of its own, if these can be one, and stand side by side."""
    if not _is_product(weights):
        return rule
    start = rule.weights.index(weights[0])
    before, after = rule.weights[:start], rule.weights[start + len(weights) :]
    if rule.weights != (*before, *weights, *after):
        return rule
    by_axes = sorted(weights, key=lambda f: len(names_in(f)))
    names = list(dict.fromkeys(x.name for f in by_axes for x in _positions(f)))  # of all first, for outer loops
    axes = {x: Position(f"axis{number}") for number, x in enumerate(names)}
    renamed_weights = tuple(renamed(f, axes) for f in weights)  # in their order, in which derivations name them
    name = " * ".join(map(str, renamed_weights))
    factors[name] = renamed_weights
    product = Ref(name, False, tuple(map(Position, names)), ())
    return replace(rule, factors=(*before, product, *after, *rule.items), bounds=_bounds(rule, weights), written=None)


def _bounds(rule: Rule, weights: Sequence[Ref]) -> tuple[Bound, ...]:
    """Those of a rule that loses weights, which say where there are such."""
    return (*rule.bounds, *(b for f in weights for b in bounds_of(f, 0)))


def with_given(recursion: Recursion, given: frozenset[str]) -> Products:
    """The recursion in which weights that are given are multiplied into others at the same position and symbols.

    Before, and after, where P has the factors ``bonus[axis0, axis0]`` and ``emission[axis0, w[axis0]]``:

        F[t, x] += F[t - 1, y] * transition[y, x] * bonus[t, x] * emission[x, w[t]]
        F[t, x] += F[t - 1, y] * transition[y, x] * P[t, x]
    """
    factors: dict[str, tuple[Ref, ...]] = {}
    sizes: dict[str, tuple[Size, ...]] = {}
    rules = [_with_given(rule, given, factors, sizes) for rule in recursion.rules]
    return Products(with_rules(recursion, rules, sizes), factors)


def _with_given(
    rule: Rule, given: frozenset[str], factors: dict[str, tuple[Ref, ...]], sizes: dict[str, tuple[Size, ...]]
) -> Rule:
    """
    :param factors: of products, to which one may be added.
    :param sizes: of their symbols.
    """
    for f in (f for f in rule.weights if f.table in given and names_in(f)):
        for g in (g for g in rule.weights if g.table not in given and _indices(f) == _indices(g) is not None):
            names, symbols = sorted(names_in(f)), symbols_in([f])
            axes = {x: Position(f"axis{number}") for number, x in enumerate(names)}
            axis_of = {x: Variable(f"axis{number}", x.size) for number, x in enumerate(symbols)}
            weights = tuple(
                replace(part, symbols=tuple(axis_of[x] if isinstance(x, Variable) else x for x in part.symbols))
                for part in (renamed(f, axes), renamed(g, axes))
            )
            product = Ref(" * ".join(map(str, weights)), False, tuple(map(Position, names)), tuple(symbols))
            factors[product.table], sizes[product.table] = weights, tuple(x.size for x in symbols)
            left = tuple(x for x in rule.factors if x not in (f, g))
            return replace(rule, factors=(*left, product), bounds=_bounds(rule, (f, g)), written=None)
    return rule


def _indices(f: Ref) -> set[object] | None:
    """The positions and symbols of a weight; None if it has fixed positions, lists of rules, or a symbol twice."""
    free = [x for x in f.symbols if isinstance(x, Variable)]
    fixed = any(x.name in ("", "n") for x in _positions(f)) or any(isinstance(x, Entry) for x in f.symbols)
    if fixed or len(set(free)) < len(free):
        return None
    return {*names_in(f), *free}


def _is_product(weights: Sequence[Ref]) -> bool:
    """Whether these are several weights over two positions, of which one has both."""
    names = [names_in(f) for f in weights]
    whole = len(names) > 1 and len(set().union(*names)) == 2 == max(map(len, names))
    return whole and all(map(_is_free, weights))


def _is_free(f: Ref) -> bool:
    """Whether a weight can be a factor: at positions and symbols that follow from those of the cell."""
    symbols = all(isinstance(x, (Word, Constant)) for x in f.symbols)
    return symbols and all(x.name not in ("", "n") for x in _positions(f))
