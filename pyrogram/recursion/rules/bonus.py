# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A weight of its own for every item, or every use of a weight, of each sentence: evidence, and posteriors of items.

Before, for spans X of a grammar and an attachment of the DMV:

    X[i, j, a] += ...
    IR[i, j] += attach[w[i], 1, w[j]] * ...

After ``with_bonus(page, ["X", "attach"])``:

    X[i, j, a] += bonus.X[i, j, a] * ...
    IR[i, j] += bonus.attach[i, j, 1] * attach[w[i], 1, w[j]] * ...

A derivation has bonus.X[i, j, a] once for each time that it has X[i, j, a]. So a log bonus of -inf forbids, one of 0
changes nothing, and the derivative of log Z by it is how often the item is expected.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .language import InvalidRecursion, Ref, Rule, Size, Symbol, Word
from .recursions import Recursion, with_rules


def bonus_name(table: str) -> str:
    """The name of the weights that items or weights of a table get."""
    return f"bonus.{table}"


def with_bonus(recursion: Recursion, names: Sequence[str]) -> Recursion:
    """The recursion with a further weight for items and weights of these names.

    Its axes are the positions, then those of words, where ``w[i]`` stands for i, then other symbols.

    :raises InvalidRecursion: if there is no such item or weight, or a word stands in an axis in one rule, and another
        symbol in another rule.
    """
    sizes: dict[str, tuple[Size, ...]] = {}
    for name in names:
        if name not in recursion.tables or name == recursion.goal:
            known = ", ".join(x for x in recursion.tables if x != recursion.goal)
            raise InvalidRecursion(f"{recursion.name} has no item or weight {name}; it has {known}")
    rules = [_with_bonus(recursion, rule, names, sizes) for rule in recursion.rules]
    for name in names:
        if name not in sizes:
            raise InvalidRecursion(f"{name} is in no rule of {recursion.name}")
    return with_rules(recursion, rules, {bonus_name(name): sizes[name] for name in names})


def _with_bonus(recursion: Recursion, rule: Rule, names: Sequence[str], sizes: dict[str, tuple[Size, ...]]) -> Rule:
    spoken = [ref for ref in (rule.head, *rule.weights) if ref.table in names]
    added = [_bonus(recursion, rule, ref, sizes) for ref in spoken]
    return replace(rule, factors=(*added, *rule.factors), written=None) if added else rule


def _bonus(recursion: Recursion, rule: Rule, ref: Ref, sizes: dict[str, tuple[Size, ...]]) -> Ref:
    positions = (*ref.positions, *(x.position for x in ref.symbols if isinstance(x, Word)))
    kept: list[tuple[Symbol, Size]] = [
        (x, size)
        for x, size in zip(ref.symbols, recursion.tables[ref.table].sizes, strict=True)
        if not isinstance(x, Word)
    ]
    axes = tuple(size for _, size in kept)
    if sizes.setdefault(ref.table, axes) != axes:
        raise InvalidRecursion(f"{rule}: words stand in other axes of {ref.table} than in other rules")
    return Ref(bonus_name(ref.table), False, positions, tuple(x for x, _ in kept))
