# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The chart of one sentence: every item by name, its value, and the instances of rules that it is made of."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

from .interpreter import Grounded, Instance, Key, _element
from .recursions import Recursion

MOST_INSTANCES = 20_000  # a larger chart is for no reader
MOST_TRIED = 3_000_000  # choices of positions and symbols for the rules; all are tried


class Chart:
    """Values of all items of one sentence: inside, outside and marginal.

    Slow and plain, as :class:`.Grounded` is: it is there to be looked at, and to check faster code with. Instances with
    a weight of zero are impossible, and items that only these prove are not in the chart.

    >>> from pyrogram.recursion import recursion
    >>> @recursion
    ... def brackets(p):
    ...     i, j, k = p.positions("i j k")
    ...     X, Z = p.items("X Z")
    ...     word = p.weights("word")
    ...     X[i, i] += word[i]
    ...     X[i, j] += X[i, k] * X[k + 1, j]
    ...     Z[()] += X[1, p.n]
    >>> chart = Chart(brackets(), {"word": lambda i: 0.5}, n=3)
    >>> chart.inside()["X", (1, 3)], chart.marginals()["X", (1, 2)]  # two trees, each of 0.5 ** 3
    (0.25, 0.5)

    :param recursion: the rules.
    :param weights: non-negative numbers, by table a function of the indices or an array over them.
    :param n: length of the sentence.
    :param sizes: numbers of symbols, by the names of sizes.
    :param lists: columns of lists of rules, by name.
    :param words: the words of the sentence, 0-based in this sequence, by name.
    :param symbols: names of symbols, or of rows of a list, by the name of their size.
    :raises InvalidRecursion: if a size, a column, words or weights are missing or too short.
    :raises ValueError: if the rules have more than 20,000 instances.
    """

    def __init__(
        self,
        recursion: Recursion,
        weights: Mapping[str, Any],
        n: int,
        *,
        sizes: Mapping[str, int] | None = None,
        lists: Mapping[str, Sequence[int]] | None = None,
        words: Mapping[str, Sequence[int]] | None = None,
        symbols: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self.recursion, self.n, self.symbols = recursion, n, dict(symbols or {})
        self.weights: dict[Key, float] = {}
        self._check_size(sizes or {})
        grounded = Grounded(recursion, n, sizes=sizes, lists=lists, words=words)
        kept: dict[Key, list[Instance]] = {}
        for key in grounded.order:
            uses = [x for x in grounded.instances[key] if self._is_possible(x, weights) and kept.keys() >= {*x.items}]
            if uses:
                kept[key] = uses
        if sum(map(len, kept.values())) > MOST_INSTANCES:
            self._refuse()
        self.instances = {key: kept[key] for key in self._by_width(kept)}
        """The instances that add to each item, in an order in which a chart is filled: short spans first."""
        used = dict.fromkeys(key for instances in self.instances.values() for x in instances for key in x.weights)
        self.weights = {key: self.weights[key] for key in used}
        """The weights of these instances, by key."""

    @property
    def goal(self) -> Key:
        """The item whose inside value is Z; a sentence without a derivation has no such item in :attr:`instances`."""
        return self.recursion.goal, ()

    def inside(self) -> dict[Key, float]:
        """By item, the sum over its derivations of the products of their weights."""
        values: dict[Key, float] = {}
        for key, instances in self.instances.items():
            values[key] = sum(self._product(x, [values[item] for item in x.items]) for x in instances)
        return values

    def outside(self) -> dict[Key, float]:
        """By item, the derivative of Z: the sum over derivations with a gap where the item is."""
        inside = self.inside()
        adjoints = dict.fromkeys(self.instances, 0.0)
        if self.goal in adjoints:
            adjoints[self.goal] = 1.0
        for key in reversed(self.instances):
            for x in self.instances[key]:
                for place, item in enumerate(x.items):
                    others = [inside[other] for at, other in enumerate(x.items) if at != place]
                    adjoints[item] += self._product(x, others, adjoints[key])
        return adjoints

    def marginals(self) -> dict[Key, float]:
        """By item, inside times outside over Z: how often a derivation is expected to use it. Empty if Z = 0."""
        inside, outside = self.inside(), self.outside()
        z = inside.get(self.goal, 0.0)
        return {key: inside[key] * outside[key] / z for key in inside} if z > 0 else {}

    def text(self, key: Key) -> str:
        """An item or a weight as it is written, with names of symbols: ``X[0, 2, NP]``; a listed rule, by its name."""
        name, indices = key
        at, names = self.positions(key), self.names(key)
        sizes = self.recursion.tables[name].sizes
        if not at and len(sizes) == 1 and sizes[0] in self.symbols and not self.recursion.tables[name].is_item:
            return names[0]
        return f"{name}[{', '.join([*map(str, at), *names])}]" if indices else name

    def positions(self, key: Key) -> tuple[int, ...]:
        """The positions among the indices of an item or a weight."""
        name, indices = key
        return indices[: len(indices) - len(self.recursion.tables[name].sizes)]

    def names(self, key: Key) -> list[str]:
        """The names of the symbols of an item or a weight, numbers if they have none; not of axes of size one."""
        name, indices = key
        sizes = self.recursion.tables[name].sizes
        names = []
        for size, x in zip(sizes, indices[len(indices) - len(sizes) :], strict=True):
            known = self.symbols.get(size, ()) if isinstance(size, str) else ()
            if size != 1:
                names.append(str(known[x]) if x < len(known) else str(x))
        return names

    def _refuse(self) -> NoReturn:
        raise ValueError(
            f"the chart of {self.n} words by {self.recursion.name} has more than the {MOST_INSTANCES} instances of "
            "rules that can be looked at; take a shorter sentence, or fewer symbols"
        )

    def _check_size(self, sizes: Mapping[str, int]) -> None:
        tried = 0
        for rule in self.recursion.rules:
            symbols = (x.size if isinstance(x.size, int) else sizes.get(x.size, 1) for x in rule.variables)
            tried += math.prod([(self.n + 1) ** len(rule.positions), *symbols])
        if tried > MOST_TRIED:
            self._refuse()

    def _is_possible(self, x: Instance, weights: Mapping[str, Any]) -> bool:
        for key in x.weights:
            if key not in self.weights:
                value = _element(weights, *key)
                if not value >= 0 or value == float("inf"):
                    raise ValueError(f"weights must be non-negative and finite, but {self.text(key)} is {value:g}")
                self.weights[key] = value
        return all(self.weights[key] > 0 for key in x.weights)

    def _product(self, x: Instance, items: Sequence[float], start: float = 1.0) -> float:
        """A number times the weights of an instance and the values of items."""
        return math.prod([*(self.weights[key] for key in x.weights), *items], start=start)

    def _by_width(self, instances: Mapping[Key, list[Instance]]) -> Iterator[Key]:
        """The items, each after those that it is made of, short spans first and from left to right."""
        import networkx as nx  # seldom needed, and slow to import

        tables = list(self.recursion.tables)

        def rank(key: Key) -> tuple[int, int, int, Key]:
            at = self.positions(key)
            width = at[1] - at[0] if len(at) == 2 else at[0] - self.recursion.first if at else self.n
            return width, at[0] if at else 0, tables.index(key[0]), key

        parts = nx.DiGraph((item, key) for key, uses in instances.items() for x in uses for item in x.items)
        parts.add_nodes_from(instances)
        order: Iterator[Key] = nx.lexicographical_topological_sort(parts, rank)
        return order


__all__ = ["Chart"]
