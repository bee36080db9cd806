# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Derivations as rows of numbers: which weights are met on the way down from the goal, the leftmost item first.

That is what compiled code writes of the derivations that it finds or draws, see
:mod:`pyrogram.recursion.emit.agenda`. Here a row is read again, and all rows are listed. It is Python, item by
item, and asks the order and the ranges of :mod:`.cells`.

A row is read as a text is by a parser that goes from the top down: ``readings(item, t)`` has the places at which the
events of an item can end that begin at place t. An instance of a rule whose weights are not the next events is no part
of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from .cells import Cells, Term, names_in, symbols_in
from .domains import dense_axes
from .language import Bound, Entry, Ref, Size, Variable, Word

Item = tuple[str, tuple[int, ...], tuple[int, ...]]  # a table, positions, symbols
Symbols = dict[Variable, int]
Places = dict[str, int]


class Step(NamedTuple):
    """An instance of a rule: its events, its items, and its weights with words as positions."""

    events: tuple[int, ...]
    items: list[Item]
    weights: list[Item]


@dataclass
class Traces:
    """The rows of the derivations of one sentence.

    :param cells: of the recursion.
    :param words: by name, the words of the sentence.
    :param sizes: numbers of symbols, by the names of sizes.
    :param lists: columns of lists of rules.
    :param number: of an element of a table of weights.
    :param element: the table and the indices that have a number.
    """

    cells: Cells
    words: Mapping[str, Sequence[int]]
    n: int
    sizes: Mapping[str, int]
    lists: Mapping[str, Sequence[int]]
    number: Callable[[str, tuple[int, ...]], int]
    element: Callable[[int], tuple[str, tuple[int, ...]]]
    _listed: dict[Item, list[tuple[int, ...]]] = field(default_factory=dict)

    def rows(self, item: Item | None = None) -> list[tuple[int, ...]]:
        """The rows of all derivations of an item, by default the goal; equal rows of several derivations as often."""
        item = item or self._goal
        if item not in self._listed:
            self._listed[item] = [
                sum(chosen, step.events)
                for step in self._steps(item)
                for chosen in itertools.product(*map(self.rows, step.items))
            ]
        return self._listed[item]

    def ways(self, row: Sequence[int]) -> int:
        """How many derivations have this row: none, one, or 2 for all greater numbers."""
        return len(self._readings(row))

    def parts(self, row: Sequence[int]) -> list[Item]:
        """The weights and the items of the first derivation that has this row; of weights, words are positions.

        :raises ValueError: if there is none.
        """
        for first in self._readings(row):
            return list(first)
        raise ValueError(f"the row {list(row)} is no derivation of a sentence of {self.n} words")

    @property
    def _goal(self) -> Item:
        return self.cells.goal, (), ()

    def _as_written(self, item: Item) -> Item:
        """An item with the symbols that are constants in all rules: cells have them in its name."""
        name, at, values = item
        tables = self.cells.recursion.tables
        table = next(t for t in tables if name == t or name.startswith(f"{t}."))
        others, constants = iter(values), iter(name[len(table) + 1 :].split("."))
        axes = range(len(tables[table].sizes))
        return table, at, tuple(next(others) if (table, a) in self._dense else int(next(constants)) for a in axes)

    @cached_property
    def _dense(self) -> set[tuple[str, int]]:
        return dense_axes(self.cells.recursion)

    def _readings(self, row: Sequence[int]) -> list[tuple[Item, ...]]:
        """The weights and the items of each derivation of a row, of two at most."""
        known: dict[tuple[Item, int], dict[int, list[tuple[Item, ...]]]] = {}

        def readings(item: Item, start: int) -> dict[int, list[tuple[Item, ...]]]:
            if (item, start) not in known:
                by_end: dict[int, list[tuple[Item, ...]]] = {}
                for step in self._steps(item, row, start):
                    ends = [(start + len(step.events), (self._as_written(item), *step.weights))]
                    for x in step.items:
                        ends = [
                            (stop, parts + more)
                            for t, parts in ends
                            for stop, of in readings(x, t).items()
                            for more in of
                        ]
                    for stop, parts in ends:
                        by_end[stop] = [*by_end.get(stop, []), parts][:2]
                known[item, start] = by_end
            return known[item, start]

        return readings(self._goal, 0).get(len(row), [])

    # ------------------------------------------------------------------ instances of rules

    def _steps(self, item: Item, row: Sequence[int] | None = None, start: int = 0) -> Iterator[Step]:
        """All instances that prove an item.

        :param row: only those whose events are the next ones of this row, from ``start`` on; None: all.
        """
        table, at, values = item
        places = {"": 0, "n": self.n, **dict(zip(("i", "j")[2 - len(at) :], at, strict=True))}
        for cell in self.cells.classes:
            for head in cell.heads:
                if head.ref.table != table or not _hold(cell.widths, places):
                    continue
                for symbols in self._matches(head.ref.symbols, values, places, {}):
                    for term in head.terms:
                        if _hold(term.guard, places):
                            yield from self._of_term(term, places, symbols, row, start)

    def _of_term(
        self, term: Term, places: Places, symbols: Symbols, row: Sequence[int] | None, start: int
    ) -> Iterator[Step]:
        chosen = [(places, symbols)]
        for x, f in enumerate(term.weights):
            indices = None
            if row is not None:
                table, indices = self.element(row[start + x]) if start + x < len(row) else ("", ())
                if table != f.table:
                    return
            chosen = [more for at, known in chosen for more in self._all(term, [f], at, known, indices)]
        for before, known in chosen:
            for at, values in self._all(term, term.items, before, known):
                events = tuple(self.number(f.table, self._item(f, at, values)[2]) for f in term.weights)
                placed = [self._placed(f, at, values) for f in term.weights]
                yield Step(events, [self._item(f, at, values) for f in term.items], placed)

    def _all(
        self, term: Term, refs: Sequence[Ref], places: Places, symbols: Symbols, indices: Sequence[int] | None = None
    ) -> Iterator[tuple[Places, Symbols]]:
        """All values of what is unknown in references; of a single one, of those values by which its symbols have
        these indices.
        """
        free = [x for x in symbols_in(refs) if x not in symbols]
        for at in self._places(term, refs, places):
            if indices is not None:
                yield from ((at, known) for known in self._matches(refs[0].symbols, indices, at, symbols))
                continue
            for values in itertools.product(*(range(self._size(x.size)) for x in free)):
                yield at, symbols | dict(zip(free, values, strict=True))

    def _places(self, term: Term, refs: Sequence[Ref], places: Places) -> Iterator[Places]:
        """All values of the summed positions that references need; limits of a loop may be those before it."""
        names = set().union(*map(names_in, refs))
        loops = [x for x in term.loops if x.name not in places]
        needed = max((q + 1 for q, x in enumerate(loops) if x.name in names), default=0)

        def down(depth: int, places: Places) -> Iterator[Places]:
            if depth == needed:
                yield places
                return
            loop = loops[depth]
            low, high = max(x.value(places) for x in loop.low), min(x.value(places) for x in loop.high)
            link = None if loop.link is None else loop.link.target(self.words, places)
            for k in range(low, high + 1) if link is None else {link}.intersection(range(low, high + 1)):
                yield from down(depth + 1, {**places, loop.name: k})

        return down(0, places)

    def _matches(
        self, indices: Sequence[Any], values: Sequence[int], places: Places, symbols: Symbols
    ) -> Iterator[Symbols]:
        """All values of unknown symbols by which symbols have these values."""
        if not indices:
            yield symbols
            return
        x, value = indices[0], values[0]
        options: list[Symbols] = []
        if isinstance(x, Variable) and x not in symbols:
            options = [{**symbols, x: value}] if value < self._size(x.size) else []
        elif isinstance(x, Entry) and x.row not in symbols:
            options = [{**symbols, x.row: r} for r, entry in enumerate(self.lists[x.column]) if entry == value]
        elif self._symbol(x, places, symbols) == value:
            options = [symbols]
        for chosen in options:
            yield from self._matches(indices[1:], values[1:], places, chosen)

    # ------------------------------------------------------------------ values

    def _item(self, ref: Ref, places: Places, symbols: Symbols) -> Item:
        at = tuple(x.value(places) for x in ref.positions)
        return ref.table, at, tuple(self._symbol(x, places, symbols) for x in ref.symbols)

    def _placed(self, ref: Ref, places: Places, symbols: Symbols) -> Item:
        """A weight whose words are positions."""
        at = (*ref.positions, *(x.position for x in ref.symbols if isinstance(x, Word)))
        others = (self._symbol(x, places, symbols) for x in ref.symbols if not isinstance(x, Word))
        return ref.table, tuple(x.value(places) for x in at), tuple(others)

    def _symbol(self, x: Any, places: Places, symbols: Symbols) -> int:
        return int(x.number(self.lists, self.words, places, symbols))

    def _size(self, size: Size) -> int:
        return size if isinstance(size, int) else self.sizes[size]


def _hold(bounds: Iterable[Bound], places: Places) -> bool:
    return all(places[b.x] <= places[b.y] + b.most for b in bounds)
