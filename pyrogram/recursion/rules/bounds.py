# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Difference constraints ``x - y <= c`` between positions: what follows from them.

All that rules say of positions has this form (i < k is i - k <= -1; a constant is a distance from zero), so the
closest bounds are shortest paths: the algorithm of Floyd and Warshall on a handful of names.
"""

from __future__ import annotations

from collections.abc import Iterable

from .language import Bound, Position

UNBOUNDED = 10**6  # more than any sum of offsets


class Bounds:
    """The closure of constraints over names; the name of zero is empty, that of the length is ``n``."""

    def __init__(self, names: Iterable[str], constraints: Iterable[Bound]) -> None:
        self._names = list(dict.fromkeys(["", "n", *names]))
        self._most = most = {(x, y): 0 if x == y else UNBOUNDED for x in self._names for y in self._names}
        for bound in constraints:
            key = bound.x, bound.y
            most[key] = min(most[key], bound.most)
        for z in self._names:
            after = [y for y in self._names if most[z, y] < UNBOUNDED]
            for x in self._names:
                if most[x, z] < UNBOUNDED:  # few pairs are bounded at first
                    for y in after:
                        through = most[x, z] + most[z, y]
                        if through < most[x, y]:
                            most[x, y] = through

    @property
    def possible(self) -> bool:
        """Whether any positions fulfil the constraints, for a sentence that is long enough."""
        return all(self._most[x, x] >= 0 for x in self._names)

    def most(self, a: Position, b: Position) -> int:
        """The greatest a - b, or :data:`UNBOUNDED`."""
        most = self._most[a.name, b.name]
        return UNBOUNDED if most >= UNBOUNDED // 2 else most + a.offset - b.offset

    def least(self, a: Position, b: Position) -> int:
        """The least a - b, or minus :data:`UNBOUNDED`."""
        return -self.most(b, a)

    def equal(self, a: Position, b: Position) -> bool:
        return self.most(a, b) == 0 == self.least(a, b)

    def among(self, names: Iterable[str]) -> Bounds:
        """What holds for some of the names."""
        kept = list(dict.fromkeys(["", "n", *names]))
        return Bounds(kept, [Bound(x, y, self._most[x, y]) for x in kept for y in kept if x != y])

    def of_any_length(self) -> Bounds:
        """What holds for sentences of this length or a lesser one, of which is only said that it is at least one."""
        kept = [Bound(x, y, c) for (x, y), c in self._most.items() if x not in (y, "n") and (x, y) != ("", "n")]
        return Bounds(self._names, [*kept, Bound("", "n", -1)])

    def hull(self, other: Bounds) -> Bounds:
        """The closest bounds that hold wherever one of two of the same names holds."""
        most = {key: max(c, other._most[key]) for key, c in self._most.items()}
        return Bounds(self._names, [Bound(*key, c) for key, c in most.items() if key[0] != key[1]])

    def meets(self, other: Bounds) -> bool:
        """Whether two of the same names can hold at once."""
        both = [Bound(*key, c) for most in (self._most, other._most) for key, c in most.items() if key[0] != key[1]]
        return Bounds(self._names, both).possible

    def limits(self, x: str, among: Iterable[str]) -> tuple[tuple[Position, ...], tuple[Position, ...]]:
        """The greatest lower and the least upper bounds of a name in terms of others; as a rule, one of each."""
        among = list(among)
        lows = [Position(y, -self._most[y, x]) for y in among if self._most[y, x] < UNBOUNDED // 2]
        highs = [Position(y, self._most[x, y]) for y in among if self._most[x, y] < UNBOUNDED // 2]
        return self._strictest(lows, low=True), self._strictest(highs, low=False)

    def _strictest(self, positions: list[Position], low: bool) -> tuple[Position, ...]:
        """Those that no other one makes superfluous."""

        def implies(a: Position, b: Position) -> bool:
            return (self.least(a, b) if low else self.least(b, a)) >= 0

        kept: list[Position] = []
        for a in positions:
            if any(implies(b, a) for b in kept):
                continue
            kept = [b for b in kept if not implies(a, b)] + [a]
        return tuple(kept)
