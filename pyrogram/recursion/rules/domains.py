# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Which elements of an item can have a proof: the least and the greatest width of spans, the range of points.

Before, in the rules of the DMV: RO[i, j] and RC[i, j] for any i and j.
After: RO and RC from width 0 on, IR and IL from width 1 on. A page says none of this.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from .bounds import UNBOUNDED, Bounds
from .language import Bound, Constant, InvalidRecursion, Position, Ref, Rule, Size, Word, between
from .recursions import Recursion

ZERO = Position("")
N = Position("n")


@dataclass(frozen=True)
class Domain:
    """The least and the greatest j - i of a span (i, j), or j of a point; :data:`.UNBOUNDED` if only n bounds it."""

    least: int
    greatest: int

    def __contains__(self, width: int) -> bool:
        return self.least <= width <= self.greatest


def specialized(recursion: Recursion) -> tuple[list[Rule], dict[str, tuple[Size, ...]]]:
    """The rules, with an item for each constant where only constants stand: RO[i, j, 1] becomes RO.1[i, j].

    So a family of items that a macro wrote out costs nothing: each member has a domain and a table of its own.

    :returns: the rules, and the sizes of the symbols that are left to each item.
    """
    dense = dense_axes(recursion)
    sizes: dict[str, tuple[Size, ...]] = {}

    def item(ref: Ref) -> Ref:
        if not ref.is_item:
            return ref
        kept = [a for a in range(len(ref.symbols)) if (ref.table, a) in dense]
        name = ".".join([ref.table, *(str(x) for a, x in enumerate(ref.symbols) if a not in kept)])
        declared = recursion.tables[ref.table].sizes
        sizes[name] = tuple(declared[a] for a in kept)
        return replace(ref, table=name, symbols=tuple(ref.symbols[a] for a in kept))

    rules = [replace(rule, head=item(rule.head), factors=tuple(map(item, rule.factors))) for rule in recursion.rules]
    return rules, sizes


def dense_axes(recursion: Recursion) -> set[tuple[str, int]]:
    """Items and axes of theirs where not only constants stand."""
    refs = [ref for rule in recursion.rules for ref in (rule.head, *rule.factors) if ref.is_item]
    return {(r.table, a) for r in refs for a, x in enumerate(r.symbols) if not isinstance(x, Constant)}


def check_arity(rules: Sequence[Rule]) -> dict[str, int]:
    """The number of positions of each table.

    :raises InvalidRecursion: if it differs from one place to another, or an item has more than two.
    """
    arity: dict[str, int] = {}
    for rule in rules:
        for ref in (rule.head, *rule.factors):
            count = len(ref.positions)
            if ref.is_item and count > 2:
                raise InvalidRecursion(f"{rule}: {ref} is over {count} positions, and an item over two at most")
            if arity.setdefault(ref.table, count) != count:
                raise InvalidRecursion(f"{rule}: positions of {ref} are {count}, and elsewhere {arity[ref.table]}")
    return arity


def constraints(rule: Rule, first: int, domains: Mapping[str, Domain]) -> list[Bound] | None:
    """All that holds for the positions of an instance of a rule; None if a factor has no proof yet."""
    bounds = [*rule.bounds, Bound("", "n", -1)]
    for x in rule.positions:
        bounds += between(Position("", first), Position(x), N)
    for ref in (rule.head, *rule.factors):
        bounds += bounds_of(ref, first)
    for link in rule.links.values():
        bounds += (link < link.at).bounds
    for ref in rule.items:
        if ref.table not in domains:
            return None
        bounds += within(ref, domains[ref.table])
    return bounds


def bounds_of(ref: Ref, first: int) -> Iterator[Bound]:
    """The constraints that a table, and the words that are its symbols, put on positions."""
    for position in ref.positions:
        yield from between(Position("", first if ref.is_item else 0), position, N)
    for symbol in ref.symbols:
        if isinstance(symbol, Word):
            yield from between(Position("", 1), symbol.position, N)


def rule_bounds(rule: Rule, first: int, domains: Mapping[str, Domain]) -> Bounds | None:
    """What follows for the positions of a rule, and for i and j; None if it does not apply, or not yet."""
    known = constraints(rule, first, domains)
    bounds = None if known is None else Bounds([*rule.positions, "i", "j"], known)
    return bounds if bounds is not None and bounds.possible else None


def last_read(rules: Sequence[Rule], first: int, domains: Mapping[str, Domain]) -> dict[str, tuple[int, ...]]:
    """Of each table of weights and each of its positions the greatest that a rule speaks of, less n; 0 at most.

    That is -1 for the i of span[i, j] with i < j: the table needs no row n.
    """
    steps: dict[str, tuple[int, ...]] = {}
    for rule in rules:
        bounds = Bounds(rule.positions, constraints(rule, first, domains) or [])
        for f in rule.weights:
            mine = [min(bounds.most(x, N), 0) for x in f.positions]
            steps[f.table] = tuple(map(max, mine, steps.get(f.table, mine)))
    return steps


def within(ref: Ref, domain: Domain) -> Iterator[Bound]:
    """The constraints that a domain puts on the positions of an item."""
    if ref.positions:
        a, b = (ZERO, *ref.positions)[-2:]
        yield from (a + domain.least <= b).bounds
        if domain.greatest < UNBOUNDED:
            yield from (b <= a + domain.greatest).bounds


def derive(rules: Sequence[Rule], first: int) -> dict[str, Domain]:
    """The domains of all items: from what has a proof without items, by rules, to a fixed point.

    :raises InvalidRecursion: if an item is never proved, or its width has no lower bound.
    """
    domains: dict[str, Domain] = {}
    changes, changed = Counter[str](), True
    while changed:
        changed = False
        for rule in rules:
            proved, name = _of_rule(rule, first, domains), rule.head.table
            if proved is None:
                continue
            old = domains.get(name)
            new = Domain(min(old.least, proved.least), max(old.greatest, proved.greatest)) if old else proved
            if new.least < 0:
                a, b = (ZERO, ZERO, *rule.head.positions)[-2:]
                raise InvalidRecursion(f"{rule}: nothing says that {a} <= {b} in {rule.head}; multiply by ({a} <= {b})")
            if new != old:
                changes[name] += 1
                if old and changes[name] > 3 and new.greatest > old.greatest:  # it grows with n
                    new = replace(new, greatest=UNBOUNDED)
                domains[name], changed = new, True
    domains = _narrowed(rules, first, domains)
    for rule in rules:
        are_proved = all(f.table in domains for f in rule.items)
        if are_proved and not rule.is_case and rule_bounds(rule, first, domains) is None:
            raise InvalidRecursion(
                f"{rule} never applies: no positions fit into all of its items, weights and comparisons"
            )
    for rule in rules:
        for ref in (*rule.items, rule.head):
            if all(ref.table != other.head.table for other in rules):
                raise InvalidRecursion(f"{rule}: no rule adds to {ref.table}")
            if ref.table not in domains:
                raise InvalidRecursion(f"{rule}: no rule without items leads to {ref.table}, so it is never proved")
    return domains


def _of_rule(rule: Rule, first: int, domains: Mapping[str, Domain]) -> Domain | None:
    """The widths of the head where a rule applies; None if it applies nowhere yet."""
    bounds = rule_bounds(rule, first, domains)
    if bounds is None:
        return None
    a, b = (ZERO, ZERO, *rule.head.positions)[-2:]
    return Domain(bounds.least(b, a), bounds.most(b, a))


def _narrowed(rules: Sequence[Rule], first: int, domains: dict[str, Domain]) -> dict[str, Domain]:
    """Without the widths that no rule leads to, though they seemed to grow with n: of an item with many rules."""
    while True:
        greatest: dict[str, int] = {}
        for rule in rules:
            proved, name = _of_rule(rule, first, domains), rule.head.table
            if proved is not None:
                greatest[name] = max(greatest.get(name, proved.greatest), proved.greatest)
        narrower = {f: replace(x, greatest=min(x.greatest, greatest.get(f, x.greatest))) for f, x in domains.items()}
        if narrower == domains:
            return narrower
        domains = narrower
