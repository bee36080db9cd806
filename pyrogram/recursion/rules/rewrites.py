# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Recursions made of others: with weights for evidence, and alike for all sentences of a block."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from .cells import renamed, renamed_bounds
from .language import InvalidRecursion, Position, Ref, Rule, Size, Variable, Word, _positions
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
    positions, then those of words, where ``w[i]`` stands for i, then other symbols. Of an item a word is a symbol.

    :raises InvalidRecursion: if there is no such item or weight, or a word stands in an axis in one rule, and another
        symbol in another rule.
    """
    sizes: dict[str, tuple[Size, ...]] = {}

    def bonus(rule: Rule, ref: Ref) -> Ref:
        pairs = list(zip(ref.symbols, recursion.tables[ref.table].sizes, strict=True))
        if ref.is_item:
            sizes[ref.table] = recursion.tables[ref.table].sizes
            return Ref(bonus_name(ref.table), False, ref.positions, ref.symbols)
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
        rules.append(_changed(rule, rule.head, rule.factors, added))
    for name in names:
        if name not in sizes:
            raise InvalidRecursion(f"{name} is in no rule of {recursion.name}")
    return with_rules(recursion, rules, {bonus_name(name): sizes[name] for name in names})


LENGTH = "length"
"""The source of weights that say whether a position is the last one; see :class:`.Table`."""
_END, _LAST = "end of the sentence", Position("n'")


def alike(recursion: Recursion) -> Recursion:
    """The recursion whose items are at the same places in all sentences, whatever their words are.

    No item has a word for a symbol: a weight, which compiled code finds by itself, says which symbol a word is. And no
    item but the goal is without positions: others are at n.

    Before, of a phrase that is its own head h:

        X[j - 1, j, w[j]] += 1
        Y[h] += X[0, n, h]

    After:

        X[j - 1, j, h'] += word w of T[j, h']
        Y[n, h] += X[0, n, h]
    """
    sizes: dict[tuple[str, Size], str] = {}

    def item(ref: Ref, of_words: list[Ref]) -> Ref:
        if not ref.is_item or ref.table == recursion.goal:
            return ref
        symbols = list(ref.symbols)
        for axis, (x, size) in enumerate(zip(symbols, recursion.tables[ref.table].sizes, strict=True)):
            if isinstance(x, Word) and x.words:
                symbols[axis] = symbol = Variable(f"{x.words}'{len(of_words)}", size)
                name = sizes.setdefault((x.words, size), f"word {x.words} of {size}")
                of_words.append(Ref(name, False, (x.position,), (symbol,)))
        return replace(ref, positions=ref.positions or (recursion.n,), symbols=tuple(symbols))

    rules = []
    for rule in recursion.rules:
        of_words: list[Ref] = []
        head, *factors = (item(ref, of_words) for ref in (rule.head, *rule.factors))
        bounds = [b for word in of_words for b in (word.positions[0] >= 1).bounds]
        changed = _changed(rule, head, factors, of_words)
        rules.append(replace(changed, bounds=(*rule.bounds, *bounds), is_case=True))  # at n a rule may never apply
    result = with_rules(recursion, rules, {})
    for (words, size), name in sizes.items():
        result = with_rules(result, rules, {name: (size,)}, words)
    return result


def with_ends(recursion: Recursion, rules: Collection[int]) -> Recursion:
    """The recursion without n in some rules: a weight, which compiled code finds by itself, says which position is n.

    Before:

        Y[j] += stop[j] * X[j, n]

    After:

        Y[j] += end of the sentence[n'] * stop[j] * X[j, n']

    :param rules: their ids.
    """

    def at_end(rule: Rule) -> Rule:
        head, *factors = (renamed(ref, {"n": _LAST}) for ref in (rule.head, *rule.factors))
        places = [x for ref in (head, *factors) for x in _positions(ref)]
        places += [Position("", 1), *map(Position, rule.positions)]
        bounds = renamed_bounds(rule.bounds, {"n": _LAST}) + tuple(b for x in places for b in (x <= _LAST).bounds)
        return replace(_changed(rule, head, factors, [Ref(_END, False, (_LAST,), ())]), bounds=bounds)

    changed = [at_end(rule) if id(rule) in rules else rule for rule in recursion.rules]
    return with_rules(recursion, changed, {_END: ()}, LENGTH)


def _changed(rule: Rule, head: Ref, factors: Sequence[Ref], added: Sequence[Ref] = ()) -> Rule:
    return replace(rule, head=head, factors=(*added, *factors), written=None)
