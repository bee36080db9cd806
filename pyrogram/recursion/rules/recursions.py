# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Rules and the tables that they speak of, as a page writes them: declarations, claims, ``+=``."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from .language import (
    Bound,
    Bracket,
    Column,
    Constant,
    Entry,
    InvalidRecursion,
    Link,
    Links,
    Pending,
    Place,
    Position,
    Product,
    Ref,
    Rule,
    Size,
    Table,
    Variable,
    Word,
    Words,
    _positions,
)


@dataclass
class Recursion:
    """Rules, and the tables that they speak of. Made by a function under :func:`.recursion`.

    :param name: what messages call it.
    :param first: the first position: 1 for words, 0 for fence posts.
    """

    name: str
    first: int = 1
    rules: list[Rule] = field(default_factory=list, init=False)
    tables: dict[str, Table] = field(default_factory=dict, init=False)
    formulas: Callable[[Recursion], str] | None = field(default=None, init=False)
    _names: dict[str, str] = field(default_factory=dict, init=False, repr=False)
    _pending: list[Pending] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.first not in (0, 1):
            raise InvalidRecursion(
                f"the first position of {self.name} is 1, of words, or 0, of fence posts, not {self.first!r}"
            )

    @property
    def n(self) -> Position:
        """The length of the sentence: the last position."""
        return Position("n")

    def positions(self, names: str) -> Any:
        """Position variables, by names that blanks separate."""
        return self._declare(names, "position", Position)

    def symbols(self, names: str, size: Size) -> Any:
        """Symbol variables that run over ``size`` values, a number or the name of one."""
        return self._declare(names, "symbol", lambda name: Variable(name, _size(name, size)))

    def items(self, names: str, *sizes: Size) -> Any:
        """Items over at most two positions, and over symbols of these sizes. The one without any index is the goal."""
        return self._declare(names, "item", lambda name: self._table(name, True, sizes))

    def weights(self, names: str, *sizes: Size) -> Any:
        """Weights over any positions, and over symbols of these sizes."""
        return self._declare(names, "weight", lambda name: self._table(name, False, sizes))

    def columns(self, names: str, rows: Size) -> Any:
        """Columns of a list of rules with ``rows`` rows: ``A[r]`` is the symbol that row r has in column A."""
        return self._declare(names, "column", lambda name: Column(name, _size(name, rows)))

    def words(self, name: str) -> Words:
        """The words of the sentence as symbols: ``w[i]`` is the word at position i."""
        words: Words = self._declare(name, "words", Words)
        return words

    def links(self, names: str) -> Any:
        """Positions that are data: ``l[v]`` is the position that v is linked to; it comes before v, or is none."""
        return self._declare(names, "links", Links)

    def _declare(self, names: str, kind: str, make: Callable[[str], Any]) -> Any:
        if not isinstance(names, str) or not names.split():
            raise InvalidRecursion(f"names ({kind}) are one string, separated by blanks, and not {names!r}")
        declared = []
        for name in names.split():
            if not name.isidentifier() or name == "n":
                raise InvalidRecursion(
                    f"{name!r} cannot be the name of a{'n' if kind[0] in 'aeiou' else ''} {kind}; blanks separate names"
                )
            if name in self._names:
                raise InvalidRecursion(f"{name} is declared twice, as {self._names[name]} and as {kind}")
            self._names[name] = kind
            declared.append(make(name))
        return declared[0] if len(declared) == 1 else tuple(declared)

    def _table(self, name: str, is_item: bool, sizes: tuple[Size, ...]) -> Table:
        self.tables[name] = Table(self, name, is_item, tuple(_size(name, size) for size in sizes))
        return self.tables[name]

    def _add(self, pending: Pending) -> None:
        self._pending = [x for x in self._pending if x is not pending]
        head = pending.head
        if not head.is_item:
            raise InvalidRecursion(f"{head.table} is a weight, so no rule may add to it")
        for product in pending.body.products:
            for factors, bounds, is_case in _without_brackets(head, product):
                rule = Rule(factors[0], factors[1:], bounds, is_case)
                self._check_links(rule)
                self._check_names(rule)
                self._check_positions(rule)
                self.rules.append(rule)

    def _check_names(self, rule: Rule) -> None:
        """
        :raises InvalidRecursion: if an index or a table comes from another recursion.
        """
        refs = (rule.head, *rule.factors)
        symbols = [x for f in refs for x in f.symbols]
        kinds = {x: "position" for x in rule.positions if x not in rule.links}
        kinds |= {v.name: "symbol" for v in rule.variables} | {x.links: "links" for x in rule.links.values()}
        kinds |= {x.column: "column" for x in symbols if isinstance(x, Entry)}
        kinds |= {x.words: "words" for x in symbols if isinstance(x, Word) and x.words}
        for name, kind in kinds.items():
            if self._names.get(name) != kind:
                raise InvalidRecursion(f"{rule}: {name} is not declared as {kind} of {self.name}")
        for ref in refs:
            if ref.page is not self:
                raise InvalidRecursion(f"{rule}: {ref.table} belongs to another recursion than {self.name}")

    def _check_links(self, rule: Rule) -> None:
        """
        :raises InvalidRecursion: if a link stands elsewhere than for the position of an item on the right.
        """
        for ref in (rule.head, *rule.factors):
            for x in (x for x in _positions(ref) if isinstance(x, Link)):
                if ref is rule.head or not ref.is_item or len(ref.positions) != 1 or x.offset:
                    raise InvalidRecursion(f"{rule}: a link is the position of an item on the right, and no other")
                if rule.head.positions != (x.at,):
                    raise InvalidRecursion(f"{rule}: {x.at} of {x} is not the position of {rule.head}")

    def _check_positions(self, rule: Rule) -> None:
        """
        :raises InvalidRecursion: if a constant lies before the first position, or one counted from n after the last.
        """
        for ref in (rule.head, *rule.factors):
            first = self.first if ref.is_item else 0
            for x in ref.positions:
                if not x.name and x.offset < first:
                    hint = "; fence posts, which begin with 0, are first=0" if x.offset == 0 else ""
                    raise InvalidRecursion(f"{rule}: position {x} of {ref} is before the first one, {first}{hint}")
            for x in _positions(ref):
                if x.name == "n" and x.offset > 0:
                    raise InvalidRecursion(f"{rule}: position {x} of {ref} is after the last one, n")
            for word in ref.symbols:
                if isinstance(word, Place) and (ref is rule.head or not ref.is_item):
                    raise InvalidRecursion(f"{ref}: {word} stands where the table has a symbol")
                if ref is rule.head and isinstance(word, Word):
                    if word.position.name not in {"", "n", *(x.name for x in ref.positions)}:
                        raise InvalidRecursion(f"{rule}: the position of {word} is none of the positions of {ref}")
                if isinstance(word, Word) and not word.position.name and word.position.offset < 1:
                    raise InvalidRecursion(f"{rule}: there is no word {word}, for words are numbered from 1")

    def check_finished(self) -> None:
        """
        :raises InvalidRecursion: if a += did not reach its table.
        """
        for x in self._pending:
            raise InvalidRecursion(f"{x} was added to a variable and is lost: += stands directly after the item")

    @property
    def goal(self) -> str:
        """The item without indices."""
        return next(rule.head.table for rule in self.rules if not rule.head.positions and not rule.head.symbols)

    def key(self) -> str:
        """All that decides which numbers the recursion gives: equal keys, equal recursions."""
        tables = (f"{t.name}{t.sizes}{'item' if t.is_item else 'weight'}" for t in self.tables.values())
        return "\n".join([f"from {self.first}", *tables, *map(str, self.rules)])

    @cached_property
    def linked(self) -> set[str]:
        """The names of all links."""
        return {x.links for rule in self.rules for x in rule.links.values()}

    def __str__(self) -> str:
        """The rules, one a line."""
        return "\n".join(map(str, self.rules))

    def _repr_latex_(self) -> str | None:
        return None if self.formulas is None else self.formulas(self)


def with_rules(
    recursion: Recursion, rules: Sequence[Rule], weights: Mapping[str, tuple[Size, ...]], source: str = ""
) -> Recursion:
    """The same recursion with other rules.

    :param weights: the sizes of those that are new, by name.
    :param source: of these, see :class:`.Table`.
    """
    changed = copy.copy(recursion)
    changed.rules = list(rules)
    new = {name: Table(changed, name, False, sizes, source) for name, sizes in weights.items()}
    changed.tables = {**changed.tables, **new}
    return changed


def _without_brackets(head: Ref, product: Product) -> Iterator[tuple[tuple[Ref, ...], tuple[Bound, ...], bool]]:
    """A bracket as an index, ``stop[i, i < j]``, stands for a rule where it is one and another where it is zero.

    :returns: the head and the factors, the bounds, and whether there were brackets.
    """
    refs = (head, *product.factors)
    places = [(f, a) for f, ref in enumerate(refs) for a, x in enumerate(ref.symbols) if isinstance(x, Bracket)]
    for values in itertools.product((1, 0), repeat=len(places)):
        factors, bounds = list(refs), [*product.bounds]
        for (f, a), value in zip(places, values, strict=True):
            symbols = list(factors[f].symbols)
            (bound,), symbols[a] = symbols[a].bounds, Constant(value)
            factors[f] = replace(factors[f], symbols=tuple(symbols))
            bounds.append(bound if value else bound.negated())
        yield tuple(factors), tuple(bounds), bool(places)


def _size(name: str, size: Size) -> Size:
    if isinstance(size, bool) or not isinstance(size, (int, str)) or (isinstance(size, int) and size < 1):
        raise InvalidRecursion(f"a size of {name} must be a positive number or the name of one, not {size!r}")
    return size
