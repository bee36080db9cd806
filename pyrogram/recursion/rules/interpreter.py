# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The meaning of a recursion: every instance of every rule, and their value in any semiring.

Slow and plain: positions and symbols are enumerated, what has a proof is found by forward chaining, and no domain,
range or order of the compiler is asked. So it is what compiled code is tested against.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any, Generic, TypeVar

from .language import Entry, InvalidRecursion, Ref, Rule, Variable, Word, check_links, whole_numbers
from .recursions import Recursion

Value = TypeVar("Value")
Key = tuple[str, tuple[int, ...]]  # a table and the indices of an element


@dataclass(frozen=True)
class Instance:
    """A rule with numbers for all of its indices."""

    head: Key
    weights: tuple[Key, ...]
    items: tuple[Key, ...]
    rule: Rule


class Semiring(Generic[Value]):
    """How values of items are added and multiplied. Numbers by default: sums, products, and weights as they are.

    :cvar zero: the value of an empty sum.
    :cvar one: the value of an empty product.
    """

    zero: Any = 0.0
    one: Any = 1.0

    def plus(self, a: Any, b: Any) -> Any:
        """The sum of two values: of two ways to make one item."""
        return a + b

    def times(self, a: Any, b: Any) -> Any:
        """The product of two values: of two factors of one rule."""
        return a * b

    def weight(self, key: Key, value: float) -> Any:
        """The value of a weight: its name and indices, and the number that was given for it."""
        return value


class Reals(Semiring[float]):
    """Sums of products of weights."""


class Best(Semiring[float]):
    """The greatest product."""

    def plus(self, a: float, b: float) -> float:
        return max(a, b)


class Derivations(Semiring[list[tuple[float, tuple[Key, ...]]]]):
    """All derivations, as pairs of their product and their weights' keys, or the k best of them.

    :param k: how many to keep, best first; None for all.
    """

    zero: Any = ()
    one: Any = ((1.0, ()),)

    def __init__(self, k: int | None = None) -> None:
        self.k = k

    def plus(self, a: Any, b: Any) -> Any:
        return self._kept([*a, *b])

    def times(self, a: Any, b: Any) -> Any:
        return self._kept([(v * w, (*s, *t)) for v, s in a for w, t in b])

    def weight(self, key: Key, value: float) -> Any:
        return ((value, (key,)),)

    def _kept(self, pairs: list[Any]) -> Any:
        return tuple(pairs if self.k is None else sorted(pairs, key=lambda pair: -pair[0])[: self.k])


class Entropy(Semiring[tuple[float, float]]):
    """Pairs (Z, sum over derivations of w log w), so that the entropy is log Z - r / Z (Li and Eisner 2009)."""

    zero: Any = (0.0, 0.0)
    one: Any = (1.0, 0.0)

    def plus(self, a: Any, b: Any) -> Any:
        return a[0] + b[0], a[1] + b[1]

    def times(self, a: Any, b: Any) -> Any:
        return a[0] * b[0], a[0] * b[1] + a[1] * b[0]

    def weight(self, key: Key, value: float) -> Any:
        return value, value * math.log(value) if value > 0 else 0.0


class Grounded:
    """All instances of the rules for one sentence, whose items have proofs.

    :param recursion: the rules.
    :param n: length of the sentence.
    :param sizes: numbers of symbols, by the names of sizes.
    :param lists: columns of lists of rules, by name.
    :param words: the words of the sentence, 0-based in this sequence, by name.
    :raises InvalidRecursion: if a size, a column or words are missing or too short, if a column or words are not
        integers of at least 0, or if an item needs itself.
    """

    def __init__(
        self,
        recursion: Recursion,
        n: int,
        *,
        sizes: Mapping[str, int] | None = None,
        lists: Mapping[str, Sequence[int]] | None = None,
        words: Mapping[str, Sequence[int]] | None = None,
    ) -> None:
        self.recursion, self.n = recursion, n
        self.sizes, self.lists, self.words = dict(sizes or {}), dict(lists or {}), dict(words or {})
        self._check()
        instances = [x for rule in recursion.rules for x in self._instances(rule)]
        proved: set[Key] = set()
        while True:
            more = {x.head for x in instances if x.head not in proved and proved.issuperset(x.items)}
            if not more:
                break
            proved |= more
        self.instances: dict[Key, list[Instance]] = {key: [] for key in sorted(proved)}
        """What proves each item, by its key."""
        for x in instances:
            if proved.issuperset(x.items):
                self.instances[x.head].append(x)
        before = {key: {item for x in chosen for item in x.items} for key, chosen in self.instances.items()}
        try:
            self.order: list[Key] = list(TopologicalSorter(before).static_order())
        except CycleError as error:
            name, indices = error.args[1][0]
            raise InvalidRecursion(f"{name}[{', '.join(map(str, indices))}] needs itself") from None

    def values(self, semiring: Semiring[Any], weights: Mapping[str, Any]) -> dict[Key, Any]:
        """The values of all items that have a proof.

        :param weights: by table, a function of the indices, or an array or nested lists over them.
        :raises InvalidRecursion: if a table or an element of one is missing.
        """
        return self._values(semiring, weights, self.order)

    def _values(self, semiring: Semiring[Any], weights: Mapping[str, Any], order: Sequence[Key]) -> dict[Key, Any]:
        values: dict[Key, Any] = {}
        for key in order:
            total = semiring.zero
            for x in self.instances[key]:
                value = semiring.one
                for name, indices in x.weights:
                    number = _element(weights, name, indices)
                    value = semiring.times(value, semiring.weight((name, indices), number))
                for item in x.items:
                    value = semiring.times(value, values[item])
                total = semiring.plus(total, value)
            values[key] = total
        return values

    def goal(self, semiring: Semiring[Any], weights: Mapping[str, Any]) -> Any:
        """The value of the goal: log Z's Z, the best derivation, all of them, as the semiring has it."""
        goal: Key = (self.recursion.goal, ())
        if goal not in self.instances:
            return semiring.zero
        needed = {goal}
        for key in reversed(self.order):
            if key in needed:
                needed.update(item for x in self.instances[key] for item in x.items)
        return self._values(semiring, weights, [key for key in self.order if key in needed])[goal]

    def _instances(self, rule: Rule) -> Iterator[Instance]:
        names, variables, weights, items = rule.positions, rule.variables, rule.weights, rule.items
        for places in itertools.product(range(self.recursion.first, self.n + 1), repeat=len(names)):
            at: dict[str, int] = {"": 0, "n": self.n, **dict(zip(names, places, strict=True))}
            if any(at[b.x] - at[b.y] > b.most for b in rule.bounds) or not self._within(rule, at):
                continue
            if any(at[x] != link.target(self.words, at) for x, link in rule.links.items()):
                continue
            for symbols in itertools.product(*(range(self._size(v)) for v in variables)):
                rows = dict(zip(variables, symbols, strict=True))
                of_weights, of_items = (tuple(self._key(f, at, rows) for f in refs) for refs in (weights, items))
                yield Instance(self._key(rule.head, at, rows), of_weights, of_items, rule)

    def _check(self) -> None:
        """
        :raises InvalidRecursion: if something is missing or too short.
        """
        for rule in self.recursion.rules:
            for v in rule.variables:
                if isinstance(v.size, str) and v.size not in self.sizes:
                    raise InvalidRecursion(f"sizes lacks {v.size!r}, over which {v.name} runs in {rule}")
            for x in (x for ref in (rule.head, *rule.factors) for x in ref.symbols):
                if isinstance(x, Entry) and len(self.lists.get(x.column, ())) < self._size(x.row):
                    raise InvalidRecursion(f"lists[{x.column!r}] needs length {self._size(x.row)}, for {rule}")
                if isinstance(x, Word) and x.words and len(self.words.get(x.words, ())) < self.n:
                    raise InvalidRecursion(f"words[{x.words!r}] needs length {self.n}, for {rule}")
        for name in self.recursion.linked:
            check_links(name, [self.words.get(name, ())], [self.n])
        columns = {f"column {name}": column for name, column in self.lists.items()}
        sentences = {name: x[: self.n] for name, x in self.words.items() if name not in self.recursion.linked}
        read = {f"words {name}": sentence for name, sentence in sentences.items()}
        for place, values in (columns | read).items():
            if (whole_numbers(values, place) < 0).any():  # indices would count from the end
                raise InvalidRecursion(f"{place} must be 0 or more, not {list(values)}")

    def _size(self, variable: Variable) -> int:
        return variable.size if isinstance(variable.size, int) else self.sizes[variable.size]

    def _within(self, rule: Rule, at: Mapping[str, int]) -> bool:
        """Whether all elements and words are there: none lies beyond the sentence."""
        for ref in (rule.head, *rule.factors):
            first = self.recursion.first if ref.is_item else 0
            if any(not first <= x.value(at) <= self.n for x in ref.positions):
                return False
            words = (x.position for x in ref.symbols if isinstance(x, Word))
            if any(not 1 <= x.value(at) <= self.n for x in words):
                return False
        return True

    def _key(self, ref: Ref, at: Mapping[str, int], rows: Mapping[Variable, int]) -> Key:
        """The element."""
        symbols = (x.number(self.lists, self.words, at, rows) for x in ref.symbols)
        return ref.table, (*(x.value(at) for x in ref.positions), *symbols)


def _element(weights: Mapping[str, Any], name: str, indices: tuple[int, ...]) -> float:
    """A weight.

    :raises InvalidRecursion: if there is none.
    """
    if name not in weights:
        raise InvalidRecursion(f"weights lacks the table {name!r}; it has {sorted(weights)}")
    table = weights[name]
    try:
        if isinstance(table, (list, tuple)):
            element: Any = functools.reduce(operator.getitem, indices, table)
            return float(element)
        return float(table(*indices) if callable(table) else table[indices])
    except IndexError:
        written = ", ".join(map(str, indices))
        raise InvalidRecursion(f"weights[{name!r}] has no element [{written}], which a rule needs") from None


__all__ = ["Best", "Derivations", "Entropy", "Grounded", "Instance", "Key", "Reals", "Semiring"]
