# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A recursion as formulas, with the ranges of its sums."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from .bounds import Bounds
from .domains import Domain, constraints, derive, specialized
from .language import Position, Ref, Rule, symbols_in
from .recursions import Recursion


def latex(recursion: Recursion) -> str:
    """The rules as an ``align*`` environment, one equation for each item: all that is added to it, with its sums."""
    specific, _ = specialized(recursion)
    domains = derive(specific, recursion.first)
    heads: dict[Ref, list[str]] = {}
    for rule, special in zip(recursion.rules, specific, strict=True):
        heads.setdefault(rule.head, []).append(_term(rule, special, recursion.first, domains))
    lines = [f"{_formula(head)} &= {' + '.join(terms)}" for head, terms in heads.items()]
    return "\\begin{align*}\n" + " \\\\\n".join(lines) + "\n\\end{align*}"


def _term(rule: Rule, special: Rule, first: int, domains: Mapping[str, Domain]) -> str:
    bounds = Bounds(rule.positions, constraints(special, first, domains) or [])
    of_head = ["", "n", *(x.name for x in rule.head.positions)]
    sums, known = "", [*of_head]
    for name in (x for x in rule.positions if x not in of_head and x not in rule.links):
        low, high = bounds.limits(name, known)
        known.append(name)
        sums += f"\\sum_{{{_formula(name)}={_limit(low, 'max')}}}^{{{_limit(high, 'min')}}} "
    symbols = [v for v in rule.variables if v not in symbols_in([rule.head])]
    if symbols:
        sums += f"\\sum_{{{', '.join(map(_formula, symbols))}}} "
    factors = [*map(_formula, rule.factors)] or ["1"]
    brackets = ["[" + str(b).replace("<=", "\\le") + "]" for b in rule.bounds if {b.x, b.y} <= {*of_head}]
    return sums + " \\, ".join([*factors, *brackets])


def _limit(ends: Sequence[Position], choose: str) -> str:
    texts = [str(x).replace(" ", "") for x in ends]
    return texts[0] if len(texts) == 1 else f"\\{choose}({', '.join(texts)})"


def _formula(written: object) -> str:
    """What is written with indices in brackets, as a formula; letters stay letters, and longer names are upright."""
    upright = re.sub(r"[A-Za-z_]\w+", lambda m: f"\\mathrm{{{m[0]}}}".replace("_", "\\_"), str(written))
    return re.sub(r" ([+-]) ", r"\1", upright).replace("[()]", "").replace("[", "_{").replace("]", "}")
