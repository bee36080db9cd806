# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""From rules to :mod:`.cells`: domains, ranges of sums, and an order of evaluation."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from .bounds import Bounds
from .cells import KINDS, CellClass, Cells, Head, I, Inner, J, Kind, Loop, Term, names_in, renamed, renamed_bounds
from .domains import ZERO, Domain, N, bounds_of, check_arity, derive, rule_bounds, specialized
from .language import Bound, Entry, InvalidRecursion, Position, Ref, Rule, Symbol, between, symbols_in
from .recursions import Recursion
from .rewrites import alike, with_ends

MOST_KNOWN = 256  # recursions whose cells are kept


def lower(recursion: Recursion, for_blocks: bool = False) -> Cells:
    """Find domains, ranges of summed positions and an order of evaluation.

    :param for_blocks: such that the cells of several sentences are filled at once, whatever their words and lengths.
    :raises InvalidRecursion: if the recursion cannot be evaluated.
    """
    key = recursion.name, recursion.key(), for_blocks
    if key not in _known:
        if len(_known) >= MOST_KNOWN:
            _known.clear()
        _known[key] = _for_blocks(alike(recursion)) if for_blocks else _lowered(recursion, False)
    return _known[key]


_known: dict[tuple[str, str, bool], Cells] = {}  # each function that is compiled asks for the same ones


def _for_blocks(recursion: Recursion) -> Cells:
    """Cells whose terms know no n, but for those of the goal and for a weight that says where n is."""
    cells = _widened(recursion)
    rules = {id(t.rule.written) for c, _, t in cells.terms if c.kind != "goal" and _knows_length(t)}
    return _widened(with_ends(recursion, rules)) if rules else cells


def _widened(recursion: Recursion) -> Cells:
    try:
        return _lowered(recursion, True)
    except InvalidRecursion:  # with zeros for narrow spans an item would need itself
        return _lowered(recursion, False)


def _knows_length(term: Term) -> bool:
    limits = [x for loop in term.loops for x in (*loop.low, *loop.high)]
    names = {x.name for x in limits}.union(*map(names_in, term.all_factors), *({b.x, b.y} for b in term.guard))
    return "n" in names


def _lowered(recursion: Recursion, widen: bool) -> Cells:
    """
    :param widen: give items that begin at a greater width zeros below it, so that all sums of a cell have one range.
    """
    rules, sizes = specialized(recursion)
    goals = {rule.head.table for rule in recursion.rules if not rule.head.positions and not rule.head.symbols}
    if len(goals) != 1:
        goals_there = f"has {len(goals)}, {' and '.join(sorted(goals))}" if goals else "has none"
        raise InvalidRecursion(
            f"a recursion has one item without indices, its goal, and {recursion.name} {goals_there}"
        )
    check_arity(recursion.rules)
    arity = check_arity(rules)
    domains = derive(rules, recursion.first)
    rules = [
        replace(_canonical(rule, recursion.first), written=written)
        for rule, written in zip(rules, recursion.rules, strict=True)
    ]
    classes = []
    for count in (2, 1, 0):
        chosen = [rule for rule in rules if len(rule.head.positions) == count]
        classes += _classes(KINDS[count], chosen, recursion.first, domains, widen)
    for cell in classes:
        _sort(cell, recursion.first, domains)
    return Cells(recursion, classes, domains, arity, sizes)


def _canonical(rule: Rule, first: int) -> Rule:
    """The rule with (i, j) or (j) for the positions of its head, and with the bounds of what they stand for."""
    names: dict[str, Position] = {}
    of_head: list[Bound] = []
    positions = (I, J)[2 - len(rule.head.positions) :]
    for here, x in zip(positions, rule.head.positions, strict=True):
        if x.name in ("", "n") or x.name in names:  # a constant, or the same variable twice: RC[i, i]
            known = names.get(x.name, Position(x.name)) + x.offset
            of_head += between(known, here, known)
        else:
            names[x.name] = here - x.offset
            of_head += between(Position("", first), names[x.name], N)
    names |= {x: Position(x + "_") for x in rule.positions if x not in names and x in ("i", "j")}
    bounds = renamed_bounds(rule.bounds, names)
    head = replace(renamed(rule.head, names), positions=positions)
    return Rule(head, tuple(renamed(f, names) for f in rule.factors), (*bounds, *of_head), rule.is_case)


def _classes(kind: Kind, rules: list[Rule], first: int, domains: dict[str, Domain], widen: bool) -> list[CellClass]:
    if kind == "goal":
        classes = [CellClass(kind, 0, 0)]
    else:
        possible = [x for x in (rule_bounds(rule, first, domains) for rule in rules) if x is not None]
        start = I if kind == "span" else ZERO
        widths = [(bounds.least(J, start), bounds.most(J, start)) for bounds in possible]
        if not widths:
            return []
        least = min(low for low, _ in widths)
        fixed = max((low for low, high in widths if low == high), default=least - 1)
        classes = [CellClass(kind, w, w) for w in range(least, fixed + 1)]
        if any(high > fixed for _, high in widths):
            classes.append(CellClass(kind, None, fixed + 1))
        if widen:
            for name in {rule.head.table for rule in rules}:
                domains[name] = replace(domains[name], least=min(domains[name].least, fixed + 1))
    for cell in classes:
        for rule in rules:
            narrowed = replace(rule, bounds=rule.bounds + cell.widths)
            bounds = rule_bounds(narrowed, first, domains)
            if bounds is not None:
                _place(cell, narrowed, bounds, cell.limits(first), first)
        _fill_gaps(cell, rules, domains)
    return [cell for cell in classes if cell.heads]


def _fill_gaps(cell: CellClass, rules: Sequence[Rule], domains: Mapping[str, Domain]) -> None:
    """Give zero to items that are never proved in these cells and yet lie between their least and greatest width."""
    for head in (rule.head for rule in rules if cell.kind != "goal"):
        if cell.least in domains[head.table] and all(h.ref.table != head.table for h in cell.heads):
            cell.heads.append(Head(head))


def _place(cell: CellClass, rule: Rule, bounds: Bounds, here: Sequence[Bound], first: int) -> None:
    """Make the rule a term of its head: ranges of its sums, and what stands inside of them."""
    _check_order(cell, rule, bounds)
    known = [x.name for x in cell.positions] + ["n", ""]
    loops = []
    for x in rule.positions:
        if x in known:
            continue
        low, high = bounds.limits(x, known)
        link = rule.links.get(x)
        if link is None and len(low) == len(high) == 1 and bounds.equal(low[0], high[0]):
            factors = tuple(renamed(f, {x: low[0]}) for f in rule.factors)
            rule = replace(rule, factors=factors, bounds=renamed_bounds(rule.bounds, {x: low[0]}))
            continue
        loops.append(Loop(x, low, high, link))
        known.append(x)
    summed = {loop.name for loop in loops}
    symbols = [x for x in symbols_in(rule.factors) if x not in symbols_in([rule.head])]
    inside = [f for f in rule.factors if names_in(f) & summed]
    if not loops:  # a sum over symbols alone: of an HMM, say
        inside = [f for f in rule.factors if set(symbols_in([f])) & set(symbols)]
    outside = [f for f in rule.factors if f not in inside]
    only_inside = tuple(x for x in symbols if x not in symbols_in(outside))
    inner = None
    if loops or only_inside:
        free = tuple(x for x in symbols_in(inside) if x not in only_inside)
        inner = Inner(tuple(loops), only_inside, tuple(inside), free)
    else:
        outside = list(rule.factors)
    anywhere = Bounds([x.name for x in cell.positions], here)
    needed = [b for f in outside for b in bounds_of(f, first)]
    # What stands outside of a sum is read where the sum is empty, too.
    exists_anywhere = all(anywhere.most(Position(b.x), Position(b.y)) <= b.most for b in needed)
    guard = _guard(cell, bounds, here, loops if exists_anywhere else [])
    term = Term(tuple(outside), inner, tuple(x for x in symbols if x not in only_inside), rule, guard)
    head = next((h for h in cell.heads if h.ref == rule.head), None)
    if head is None:
        cell.heads.append(head := Head(rule.head))
    head.terms.append(term)


def _guard(cell: CellClass, bounds: Bounds, here: Sequence[Bound], loops: Sequence[Loop]) -> tuple[Bound, ...]:
    """What a rule demands of the cell's positions, beyond what all cells of the class and not empty sums have."""
    known = [*here]
    for loop in loops:
        x = Position(loop.name)
        known += [b for low in loop.low for b in (low <= x).bounds]
        known += [b for high in loop.high for b in (x <= high).bounds]
    names = ["", "n", *(x.name for x in cell.positions)]
    every = [*names, *(loop.name for loop in loops)]
    pairs = [(Position(a), Position(b)) for a, b in itertools.permutations(names, 2)]
    guard = [Bound(a.name, b.name, bounds.most(a, b)) for a, b in pairs]
    for bound in list(guard):  # the others may say as much
        rest = [b for b in guard if b is not bound]
        if bound.most >= Bounds(every, [*known, *rest]).most(Position(bound.x), Position(bound.y)):
            guard = rest
    return tuple(guard)


def _check_order(cell: CellClass, rule: Rule, bounds: Bounds) -> None:
    """
    :raises InvalidRecursion: if a factor may lie in a cell that is filled later.
    """
    written = rule.written or rule
    for f, as_written in zip(rule.items, written.items, strict=True):
        if not f.positions or cell.kind == "goal":
            fits = cell.kind == "goal"
        elif cell.kind == "point":
            fits = bounds.least(J, f.positions[-1]) >= 0
        elif len(f.positions) == 1:
            fits = bounds.least(J, f.positions[0]) > 0
        else:
            fits = bounds.least(J, f.positions[1]) >= 0 and bounds.least(f.positions[0], I) >= 0
        if not fits:
            raise InvalidRecursion(
                f"{written} reads {as_written}, which need not lie within {written.head}, "
                "so there is no order of filling"
            )


def _sort(cell: CellClass, first: int, domains: Mapping[str, Domain]) -> None:
    """Put heads after all that they read of their own cell.

    :raises InvalidRecursion: if there is no such order.
    """
    tables = [h.ref.table for h in cell.heads]
    needs: dict[str, dict[str, Rule]] = {table: {} for table in tables}
    for head in cell.heads:
        for term in head.terms:
            for f in term.rule.items:
                here = f.table in needs and may_be_here(cell, term.rule, f, first, domains)
                if here and not _follows_list(term.rule, f):
                    needs[head.ref.table].setdefault(f.table, term.rule.written or term.rule)
    done: dict[str, None] = {}

    def visit(table: str, path: tuple[str, ...]) -> None:
        if table in path:
            way = " and ".join(path[path.index(table) + 1 :])
            rule = needs[path[-1]][table]
            raise InvalidRecursion(
                f"{rule}: {table} at a cell needs itself at the same cell{', by way of ' + way if way else ''}"
            )
        if table not in done:
            for other in sorted(needs[table]):
                visit(other, (*path, table))
            done[table] = None

    for table in tables:
        visit(table, ())
    order = list(done)
    # Whether the rows of a list read what earlier rows have added to at the same cell.
    lists = {id(h): any(items_here(cell, term.rule, first, domains) for term in h.terms) for h in cell.heads}
    cell.heads.sort(key=lambda h: (order.index(h.ref.table), lists[id(h)]))
    last = [h.ref for h in cell.heads if lists[id(h)]]
    for a, b in itertools.combinations(last, 2):
        if a.table == b.table:
            raise InvalidRecursion(f"{a} and {b} both read {a.table} at their own cell: make one list of the two")


def may_read_own_cell(cells: Cells) -> Iterator[tuple[tuple[Symbol, ...], tuple[Symbol, ...], Rule]]:
    """The symbols of heads that a list names, those of the items that they read at their own cell, and the rules."""
    for cell, head, term in cells.terms:
        for f in items_here(cell, term.rule, cells.first, cells.domains):
            if _follows_list(term.rule, f):
                yield head.ref.symbols, f.symbols, term.rule.written or term.rule


def items_here(cell: CellClass, rule: Rule, first: int, domains: Mapping[str, Domain]) -> list[Ref]:
    """Factors of the same table as the rule's head that can be in its cell."""
    return [f for f in rule.items if f.table == rule.head.table and may_be_here(cell, rule, f, first, domains)]


def may_be_here(cell: CellClass, rule: Rule, f: Ref, first: int, domains: Mapping[str, Domain]) -> bool:
    """Whether a factor can be in the cell of the rule's head."""
    if len(f.positions) != len(cell.positions):
        return False
    equal = [b for x, y in zip(f.positions, cell.positions, strict=True) for b in between(x, y, x)]
    return rule_bounds(replace(rule, bounds=(*rule.bounds, *equal)), first, domains) is not None


def _follows_list(rule: Rule, f: Ref) -> bool:
    """Whether the rows of a list give the order: X[i, j, A[r]] += unary[r] * X[i, j, B[r]], children first."""
    if f.table != rule.head.table:
        return False
    pairs = zip(rule.head.symbols, f.symbols, strict=True)
    return any(isinstance(x, Entry) and isinstance(y, Entry) and x.row == y.row for x, y in pairs)
