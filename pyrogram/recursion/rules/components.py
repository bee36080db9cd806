# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A recursion times K: a mixture of grammars, in which every derivation is of one component.

Before:

    IR[i, j] += arc[w[i], w[j]] * RC[i, k] * LC[k + 1, j]
    Z[()] += root[w[r]] * LC[1, r] * RC[r, n]

After ``with_components(page, ["arc", "root"])``:

    IR[i, j, c] += arc[c, w[i], w[j]] * RC[i, k, c] * LC[k + 1, j, c]
    Z[()] += share[c] * root[c, w[r]] * LC[1, r, c] * RC[r, n, c]
"""

from __future__ import annotations

import copy
from collections.abc import Collection
from dataclasses import replace

from .language import Ref, Rule, Variable
from .recursions import Recursion, Table

COMPONENTS = "component.count"
"""The name of the size K."""
SHARE = "component.share"
"""The name of the weights of the components."""
_COMPONENT = Variable("component.c", COMPONENTS)


def with_components(recursion: Recursion, weights: Collection[str]) -> Recursion:
    """The recursion in which all items are of a component, their first symbol.

    :param weights: names of the weights that each component has of its own, their first symbol, too.
    """
    by_component = {name for name, table in recursion.tables.items() if table.is_item and name != recursion.goal} | set(
        weights
    )
    mixture = copy.copy(recursion)
    mixture.tables = {SHARE: Table(mixture, SHARE, False, (COMPONENTS,))}
    for name, table in recursion.tables.items():
        sizes = (COMPONENTS, *table.sizes) if name in by_component else table.sizes
        mixture.tables[name] = Table(mixture, name, table.is_item, sizes)
    mixture.rules = [_with_component(recursion, rule, by_component) for rule in recursion.rules]
    return mixture


def _with_component(recursion: Recursion, rule: Rule, by_component: set[str]) -> Rule:
    head, *factors = (_of_component(ref) if ref.table in by_component else ref for ref in (rule.head, *rule.factors))
    if head.table == recursion.goal:
        factors.insert(0, Ref(SHARE, False, (), (_COMPONENT,)))
    return replace(rule, head=head, factors=tuple(factors), written=None)


def _of_component(ref: Ref) -> Ref:
    return replace(ref, symbols=(_COMPONENT, *ref.symbols))
