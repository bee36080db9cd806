# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Recursions made of others: with weights for evidence, with symbols in the place of words, and mixtures."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from .language import InvalidRecursion, Ref, Rule, Size, Table, Variable, Word, _positions
from .recursions import Recursion, with_rules


def bonus_name(table: str) -> str:
    """The name of the weights that items or weights of a table get."""
    return f"bonus.{table}"


def with_bonus(recursion: Recursion, names: Sequence[str]) -> Recursion:
    """The recursion with a weight of its own for every item, or every use of a weight, of each sentence.

    Before, for spans X of a grammar and an attachment of the DMV:

        X[i, j, a] += ...
        IR[i, j] += attach[w[i], 1, w[j]] * ...

    After ``with_bonus(page, ["X", "attach"])``:

        X[i, j, a] += bonus.X[i, j, a] * ...
        IR[i, j] += bonus.attach[i, j, 1] * attach[w[i], 1, w[j]] * ...

    A derivation has bonus.X[i, j, a] once for each time that it has X[i, j, a]. So a log bonus of -inf forbids, one of
    0 changes nothing, and the derivative of log Z by it is how often the item is expected. The axes of a bonus are the
    positions, then those of words, where ``w[i]`` stands for i, then other symbols.

    :raises InvalidRecursion: if there is no such item or weight, or a word stands in an axis in one rule, and another
        symbol in another rule.
    """
    sizes: dict[str, tuple[Size, ...]] = {}

    def bonus(rule: Rule, ref: Ref) -> Ref:
        pairs = list(zip(ref.symbols, recursion.tables[ref.table].sizes, strict=True))
        axes = tuple(size for x, size in pairs if not isinstance(x, Word))
        if sizes.setdefault(ref.table, axes) != axes:
            raise InvalidRecursion(f"{rule}: words stand in other axes of {ref.table} than in other rules")
        symbols = tuple(x for x, _ in pairs if not isinstance(x, Word))
        return Ref(bonus_name(ref.table), False, tuple(_positions(ref)), symbols)

    for name in names:
        if name not in recursion.tables or name == recursion.goal:
            known = ", ".join(x for x in recursion.tables if x != recursion.goal)
            raise InvalidRecursion(f"{recursion.name} has no item or weight {name}; it has {known}")
    rules = []
    for rule in recursion.rules:
        added = [bonus(rule, ref) for ref in (rule.head, *rule.weights) if ref.table in names]
        rules.append(_with_factors(rule, added))
    for name in names:
        if name not in sizes:
            raise InvalidRecursion(f"{name} is in no rule of {recursion.name}")
    return with_rules(recursion, rules, {bonus_name(name): sizes[name] for name in names})


def at_symbols(recursion: Recursion) -> tuple[Recursion, Mapping[str, Size]]:
    """The recursion without words for symbols of items on left sides, and weights that say which symbol a word is.

    Before, of a phrase that is its own head h:

        X[j - 1, j, w[j]] += 1
        X[i, j, h] += X[i, k, h] * D[k, j, h]

    After:

        X[j - 1, j, h'] += word.w.T[j, h']
        X[i, j, h] += X[i, k, h] * D[k, j, h]

    So items lie side by side for sentences whose words differ. Weights at words stay as they are, and so do items at
    words on right sides.

    :returns: also the sizes of the weights' axes, by name: one where the symbol is the word, else zero.
    """
    sizes: dict[str, Size] = {}
    rules = []
    for rule in recursion.rules:
        symbols, added = list(rule.head.symbols), []
        for axis, (x, size) in enumerate(zip(symbols, recursion.tables[rule.head.table].sizes, strict=True)):
            if isinstance(x, Word):
                name, symbols[axis] = f"word.{x.words}.{size}", Variable(f"{x.words}.{axis}", size)
                sizes[name] = size
                added.append(Ref(name, False, (x.position,), (symbols[axis],)))
        rules.append(_with_factors(rule, added, replace(rule.head, symbols=tuple(symbols))))
    return with_rules(recursion, rules, {name: (size,) for name, size in sizes.items()}) if sizes else recursion, sizes


COMPONENTS = "component.count"
"""The name of the size K."""
SHARE = "component.share"
"""The name of the weights of the components."""
_COMPONENT = Variable("component.c", COMPONENTS)


def with_components(recursion: Recursion, weights: Collection[str]) -> Recursion:
    """The recursion times K: a mixture of grammars, in which every derivation is of one component.

    Before:

        IR[i, j] += arc[w[i], w[j]] * RC[i, k] * LC[k + 1, j]
        Z[()] += root[w[r]] * LC[1, r] * RC[r, n]

    After ``with_components(page, ["arc", "root"])``:

        IR[i, j, c] += arc[c, w[i], w[j]] * RC[i, k, c] * LC[k + 1, j, c]
        Z[()] += share[c] * root[c, w[r]] * LC[1, r, c] * RC[r, n, c]

    :param weights: names of the weights that each component has of its own, their first symbol, too.
    """
    items = {name for name, table in recursion.tables.items() if table.is_item and name != recursion.goal}
    by_component = items.union(weights)

    def of_component(ref: Ref) -> Ref:
        return replace(ref, symbols=(_COMPONENT, *ref.symbols)) if ref.table in by_component else ref

    mixture = copy.copy(recursion)
    mixture.tables = {SHARE: Table(mixture, SHARE, False, (COMPONENTS,))}
    for name, table in recursion.tables.items():
        sizes = (COMPONENTS, *table.sizes) if name in by_component else table.sizes
        mixture.tables[name] = Table(mixture, name, table.is_item, sizes)
    mixture.rules = []
    for rule in recursion.rules:
        share = [Ref(SHARE, False, (), (_COMPONENT,))] if rule.head.table == recursion.goal else []
        by_rule = replace(rule, factors=tuple(map(of_component, rule.factors)))
        mixture.rules.append(_with_factors(by_rule, share, of_component(rule.head)))
    return mixture


def _with_factors(rule: Rule, added: Sequence[Ref], head: Ref | None = None) -> Rule:
    return replace(rule, head=head or rule.head, factors=(*added, *rule.factors), written=None)
