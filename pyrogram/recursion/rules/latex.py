# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A recursion as formulas, with the ranges of its sums."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from .bounds import Bounds
from .domains import Domain, constraints, derive, specialized
from .language import Bound, Entry, Place, Position, Ref, Rule, Word
from .recursions import Recursion


def latex(recursion: Recursion) -> str:
    """The rules as an ``align*`` environment, one equation for each item: all that is added to it, with its sums."""
    specific, _ = specialized(recursion)
    domains = derive(specific, recursion.first)
    heads: dict[Ref, list[str]] = {}
    for rule, special in zip(recursion.rules, specific, strict=True):
        heads.setdefault(rule.head, []).append(_term(rule, special, recursion.first, domains))
    lines = [f"{_ref(head)} &= {' + '.join(terms)}" for head, terms in heads.items()]
    return "\\begin{align*}\n" + " \\\\\n".join(lines) + "\n\\end{align*}"


def _term(rule: Rule, special: Rule, first: int, domains: Mapping[str, Domain]) -> str:
    bounds = Bounds(rule.positions, constraints(special, first, domains) or [])
    known = ["", "n", *(x.name for x in rule.head.positions)]
    sums = ""
    for name in rule.positions:
        if name in known:
            continue
        low, high = bounds.limits(name, known)
        known.append(name)
        sums += f"\\sum_{{{_name(name)}={_limit(low, 'max')}}}^{{{_limit(high, 'min')}}} "
    symbols = [v.name for v in rule.variables if v not in _variables(rule.head)]
    if symbols:
        sums += f"\\sum_{{{', '.join(map(_name, symbols))}}} "
    left = {x.name for x in rule.head.positions}
    brackets = [b for b in rule.bounds if {b.x, b.y} <= left | {"", "n"}]
    product = " \\, ".join(map(_ref, rule.factors)) or "1"
    return sums + product + "".join(f" \\, [{_bound(b)}]" for b in brackets)


def _variables(ref: Ref) -> set[object]:
    return {getattr(x, "row", x) for x in ref.symbols}


def _limit(ends: Sequence[Position], choose: str) -> str:
    texts = [_position(x) for x in ends]
    return texts[0] if len(texts) == 1 else f"\\{choose}({', '.join(texts)})"


def _ref(ref: Ref) -> str:
    indices = [_position(x) for x in ref.positions] + [_symbol(x) for x in ref.symbols]
    return _name(ref.table) + (f"_{{{', '.join(indices)}}}" if indices else "")


def _symbol(x: object) -> str:
    if isinstance(x, Entry):
        return f"{_name(x.column)}_{{{_name(x.row.name)}}}"
    if isinstance(x, Place):
        return _position(x.position)
    if isinstance(x, Word):
        return f"{_name(x.words)}_{{{_position(x.position)}}}"
    return _name(str(x))


def _bound(bound: Bound) -> str:
    return str(bound).replace("<=", "\\le")


def _position(x: Position) -> str:
    return re.sub(r" ", "", str(x))


def _name(name: str) -> str:
    """Letters stay letters; longer names are set upright."""
    return re.sub(r"[A-Za-z_][A-Za-z_0-9]+", lambda m: f"\\mathrm{{{m[0]}}}".replace("_", "\\_"), name)
