# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Logarithms in lanes to weights, which are at most one.

Where the recursion says that every derivation has one weight of a group (``once``), the best of the group becomes one;
the sum of all that was taken off is kept, with the part of it that rounding lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from ..lanes.elements import Elements
from ..lanes.exponentials import exp_of_lanes
from ..lanes.regions import Region, within
from ..lanes.tables import MEMORY, WeightCells
from ..machine.expressions import Expression, Name, fill, greatest, select

LEAST = -1e30  # lower shifts would turn -inf into NaN


@dataclass
class Shifts:
    """Code that exponentiates the weights of a block.

    :param elements: of the weights.
    :param dtype: of lanes, ``float64`` or ``float32``.
    """

    elements: Elements
    dtype: str

    def run(self) -> None:
        """All weights of the block."""
        code = self.elements.code
        done: set[WeightCells] = set()
        for group in self._groups():
            done |= {w for w, _ in group}
            self._shift_group(group)
        for w, regions in self.elements.regions.items():
            if w not in done:
                for region in regions:
                    with self.elements.loops(region, Name("n", "int")):
                        place = code.let(self.elements.place(w, region))
                        code.put(MEMORY, place, exp_of_lanes(code, code.let(MEMORY[place]), self.dtype))

    def _groups(self) -> Iterator[list[tuple[WeightCells, str | None]]]:
        """Tables of lanes that are shifted together, each with its axis that says to which group a weight belongs."""
        found: dict[object, list[tuple[WeightCells, str | None]]] = {}
        for w in self.elements.regions:
            once = self.elements.cells.recursion.tables[w.table].once
            if once is not None:
                claim, own = once
                constants = tuple(w.indices[a] for a in own)
                axis = next((f"axis{w.indices[:a].count(None)}" for a in own if w.indices[a] is None), None)
                found.setdefault((claim, constants), []).append((w, axis))
        yield from found.values()

    def _shift_group(self, group: list[tuple[WeightCells, str | None]]) -> None:
        code, n = self.elements.code, Name("n", "int")
        with ExitStack() as stack:
            owner = None
            if group[0][1] is not None:
                owner = stack.enter_context(code.loop("owner", self.elements.cells.first, n + 1))
            code.set("top", fill(LEAST))
            top = Name("top", "lanes")
            for w, axis in group:
                for region in self.elements.regions[w]:
                    with self._of_owner(region, axis, owner):
                        code.set("top", greatest(top, MEMORY[self.elements.place(w, region)]))
            self._count_shift(code.let(select(top > fill(LEAST), top, fill(0.0))))
            for w, axis in group:
                for region in self.elements.regions[w]:
                    with self._of_owner(region, axis, owner):
                        place = code.let(self.elements.place(w, region))
                        code.put(MEMORY, place, exp_of_lanes(code, code.let(MEMORY[place] - top), self.dtype))

    def _count_shift(self, term: Name) -> None:
        """Add to what was taken off, and keep the part of the sum that rounding loses (Knuth's two-sum)."""
        code, shift = self.elements.code, Name("shift", "int")
        old = code.let(MEMORY[shift])
        new = code.let(old + term)
        part = code.let(new - old)
        code.put(MEMORY, shift, new)
        code.add(MEMORY, Name("shift.rest", "int"), (old - (new - part)) + (term - part))

    @contextmanager
    def _of_owner(self, region: Region, axis: str | None, owner: Expression | None) -> Iterator[None]:
        """The elements of a region that belong to a group."""
        code, n = self.elements.code, Name("n", "int")
        if axis is None or owner is None:
            with self.elements.loops(region, n):
                yield
            return
        code.set("at.n", n)
        at = code.set(f"at.{axis}", owner)
        (own,) = Region.of(region.ref, region.bounds, [axis]).loops
        with ExitStack() as stack:
            for low in own.low:
                stack.enter_context(code.when(at >= self.elements.tables.at(low)))
            for high in own.high:
                stack.enter_context(code.when(at <= self.elements.tables.at(high)))
            stack.enter_context(self.elements.loops(within(region, [axis]), n))
            yield
