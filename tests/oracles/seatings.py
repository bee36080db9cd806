# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""All seatings of a few observations, by the rules of the Chinese restaurant predictor and nothing else.

A table is (restaurant, dish, names of its customers), a restaurant (level, key), a seating the set of all tables.
Customers of level L-1 are observations, named by number; one further up stands for the table whose first customer, and
restaurant, are its name. So a seating is a partition of named customers at every level.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

Seating = frozenset[Any]
Observations = Sequence[tuple[Sequence[int], int]]  # keys from the coarsest on, and the value
NOBODY: Seating = frozenset()


@dataclass(frozen=True)
class Process:
    """A hierarchy of restaurants; ``alpha`` and ``epsilon`` by level, ``base`` by value."""

    alpha: Sequence[float]
    epsilon: Sequence[float]
    base: Sequence[float]

    def arrivals(self, seating: Seating, keys: Sequence[int], w: int, name: Any) -> Iterator[tuple[float, Seating]]:
        """Where a customer who will eat w may sit in the last of nested restaurants, and how likely it is."""
        if not keys:
            yield self.base[w], seating
            return
        l = len(keys) - 1
        here = (l, keys[-1])
        own = [table for table in seating if table[0] == here]
        total = self.alpha[l] + sum(len(names) for _, _, names in own)
        for table in own:
            if table[1] == w:
                joined = (here, w, (*table[2], name))
                yield (len(table[2]) - self.epsilon[l]) / total, seating - {table} | {joined}
        new = (self.alpha[l] + self.epsilon[l] * len(own)) / total if own else 1.0
        for p, above in self.arrivals(seating, keys[:-1], w, (here, name)):
            yield new * p, above | {(here, w, (name,))}

    def predictive(self, seating: Seating, keys: Sequence[int], w: int) -> float:
        """The probability that the next customer eats w."""
        return sum(p for p, _ in self.arrivals(seating, keys, w, None))

    def seatings(self, observations: Observations) -> dict[Seating, float]:
        """The probability of each seating together with the observations' values."""
        found = {NOBODY: 1.0}
        for i, (keys, w) in enumerate(observations):
            found = {new: p * q for old, p in found.items() for q, new in self.arrivals(old, keys, w, i)}
        return found

    def one_by_one(self, observations: Observations) -> dict[Seating, float]:
        """How likely each seating is when every seat is drawn given the values and seats so far."""
        found = {NOBODY: 1.0}
        for i, (keys, w) in enumerate(observations):
            found = {
                new: p * q / self.predictive(old, keys, w)
                for old, p in found.items()
                for q, new in self.arrivals(old, keys, w, i)
            }
        return found


def tables(seating: Seating) -> tuple[Any, ...]:
    """What remains of a seating without names: restaurants, dishes and numbers of customers, sorted."""
    return tuple(sorted((here, w, len(names)) for here, w, names in seating))


def by_tables(weights: dict[Seating, float]) -> dict[Any, float]:
    """Sums over seatings that differ in names alone."""
    found: dict[Any, float] = {}
    for seating, p in weights.items():
        found[tables(seating)] = found.get(tables(seating), 0.0) + p
    return found
