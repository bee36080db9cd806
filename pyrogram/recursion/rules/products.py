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

import copy
from collections import Counter
from dataclasses import dataclass, replace

from .bounds import Bounds
from .cells import names_in, renamed
from .language import Constant, Position, Ref, Rule, Word, _positions
from .recursions import Recursion, Table


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

    Products over one position would take more room than they save time. Weights of groups (``once``) stay alone.

    :param shared: whether weights that several rules of an item share are factors, too. Left alone they are taken out
        of its sum, and fewer weights are made: worth it where sentences have the same weights.
    """
    made = copy.copy(recursion)
    made.tables = dict(recursion.tables)
    factors: dict[str, tuple[Ref, ...]] = {}
    alone = set() if shared else _shared(recursion)
    made.rules = [
        rule if any((rule.head.table, f) in alone for f in rule.weights) else _with_product(recursion, rule, factors)
        for rule in recursion.rules
    ]
    for name in factors:
        made.tables[name] = Table(made, name, False, ())
    return Products(made, factors)


def _shared(recursion: Recursion) -> set[tuple[str, Ref]]:
    """Items with the weights that stand in more than one of their rules."""
    possible = [r for r in recursion.rules if Bounds([*r.positions, "n"], r.bounds).possible]
    found = Counter((rule.head.table, f) for rule in possible for f in set(rule.weights))
    return {key for key, count in found.items() if count > 1}


def _with_product(recursion: Recursion, rule: Rule, factors: dict[str, tuple[Ref, ...]]) -> Rule:
    by_axes = sorted(rule.weights, key=lambda f: len(names_in(f)))
    names = list(dict.fromkeys(x.name for f in by_axes for x in _positions(f)))  # of all first, for outer loops
    whole = len(names) == 2 and len(names_in(by_axes[-1])) == 2
    if len(by_axes) < 2 or not whole or not all(_is_free(recursion, f) for f in by_axes):
        return rule
    axes = {x: Position(f"axis{number}") for number, x in enumerate(names)}
    parts = tuple(renamed(f, axes) for f in rule.weights)  # in their order, in which derivations name them
    name = " * ".join(map(str, parts))
    factors[name] = parts
    return replace(rule, factors=(Ref(name, False, tuple(map(Position, names)), ()), *rule.items), written=None)


def _is_free(recursion: Recursion, f: Ref) -> bool:
    """Whether a weight can be a factor: of no group, at positions and symbols that follow from those of the cell."""
    symbols = all(isinstance(x, (Word, Constant)) for x in f.symbols)
    return recursion.tables[f.table].once is None and symbols and all(x.name not in ("", "n") for x in _positions(f))
