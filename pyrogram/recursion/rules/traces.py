# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Derivations as rows of numbers: which weights are met on the way down from the goal, the leftmost item first.

That is what compiled code writes of the derivations that it finds or draws, see
:mod:`pyrogram.recursion.emit.derivations`. Here a row is read again, and all rows are listed. It is Python, item by
item, and asks the order and the ranges of :mod:`.cells`.

A row is read as a text is by a parser that goes from the top down: ``ends(item, t)`` are the places at which the events
of an item can end that begin at place t. An instance of a rule whose weights are not the next events is no part of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from .cells import CellClass, Cells, Term
from .domains import dense_axes
from .language import Constant, Entry, Position, Ref, Size, Variable, Word

Item = tuple[str, tuple[int, ...], tuple[int, ...]]  # a table, positions, symbols
Symbols = dict[Variable, int]
Places = dict[str, int]
Ends = Callable[[Item, int], dict[int, int]]


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

    @property
    def goal(self) -> Item:
        """The item at the top."""
        return self.cells.goal, (), ()

    def rows(self, item: Item | None = None) -> list[tuple[int, ...]]:
        """The rows of all derivations of an item, by default the goal; equal rows of several derivations as often."""
        item = item or self.goal
        if item not in self._listed:
            rows = []
            for events, items, _ in self._instances(item, None, 0):
                rows_of_items = [self.rows(x) for x in items]
                rows += [sum(chosen, events) for chosen in itertools.product(*rows_of_items)]
            self._listed[item] = rows
        return self._listed[item]

    def ways(self, row: Sequence[int]) -> int:
        """How many derivations have this row: none, if it is not one of the sentence."""
        return self._reader(row)(self.goal, 0).get(len(row), 0)

    def parts(self, row: Sequence[int]) -> list[Item]:
        """The weights and the items of the first derivation that has this row; of weights, words are positions.

        :raises ValueError: if there is none.
        """
        ends, used = self._reader(row), list[Item]()
        if len(row) not in ends(self.goal, 0):
            raise ValueError(f"the row {list(row)} is no derivation of a sentence of {self.n} words")
        agenda = [(self.goal, 0, len(row))]
        while agenda:
            item, start, stop = agenda.pop()
            used.append(self._as_written(item))
            for events, items, weights in self._instances(item, row, start):
                cuts = self._cuts(ends, items, start + len(events), stop)
                if cuts is not None:
                    used += weights
                    agenda += zip(items, cuts, [*cuts, stop][1:], strict=True)
                    break
        return used

    def _as_written(self, item: Item) -> Item:
        """An item with the symbols that are constants in all rules: cells have them in its name."""
        name, at, values = item
        tables, dense = self.cells.recursion.tables, self._dense
        table = next(t for t in tables if name == t or name.startswith(f"{t}."))
        others, constants = iter(values), iter(name[len(table) + 1 :].split("."))
        axes = range(len(tables[table].sizes))
        return table, at, tuple(next(others) if (table, a) in dense else int(next(constants)) for a in axes)

    @cached_property
    def _dense(self) -> set[tuple[str, int]]:
        return dense_axes(self.cells.recursion)

    def _cuts(self, ends: Ends, items: Sequence[Item], start: int, stop: int) -> list[int] | None:
        """Where each of some items begins whose events go from ``start`` to ``stop``; None, if theirs cannot."""
        if not items:
            return [] if start == stop else None
        for t in ends(items[0], start):
            rest = self._cuts(ends, items[1:], t, stop)
            if rest is not None:
                return [start, *rest]
        return None

    def _reader(self, row: Sequence[int]) -> Ends:
        """From an item and where its events begin to where they can end, and in how many ways."""
        known: dict[tuple[Item, int], dict[int, int]] = {}

        def ends(item: Item, start: int) -> dict[int, int]:
            if (item, start) not in known:
                stops: dict[int, int] = {}
                for events, items, _ in self._instances(item, row, start):
                    sofar = {start + len(events): 1}
                    for x in items:
                        after: dict[int, int] = {}
                        for t, ways in sofar.items():
                            for u, more in ends(x, t).items():
                                after[u] = after.get(u, 0) + ways * more
                        sofar = after
                    for t, ways in sofar.items():
                        stops[t] = stops.get(t, 0) + ways
                known[item, start] = stops
            return known[item, start]

        return ends

    # ------------------------------------------------------------------ instances of rules

    def _instances(
        self, item: Item, row: Sequence[int] | None, start: int
    ) -> Iterator[tuple[tuple[int, ...], list[Item], list[Item]]]:
        """The events and the items of all instances that prove an item, and the weights with words as positions.

        :param row: only those whose events are the next ones of this row, from ``start`` on; None: all.
        """
        table, at, values = item
        for cell in self.cells.classes:
            if not _holds(cell, at):
                continue
            for head in cell.heads:
                if head.ref.table != table:
                    continue
                places = {"": 0, "n": self.n, **dict(zip(("i", "j")[2 - len(at) :], at, strict=True))}
                for symbols in self._matches(head.ref.symbols, values, places, {}):
                    for term in head.terms:
                        if all(places[b.x] <= places[b.y] + b.most for b in term.guard):
                            yield from self._of_term(term, places, symbols, row, start)

    def _of_term(
        self, term: Term, places: Places, symbols: Symbols, row: Sequence[int] | None, start: int
    ) -> Iterator[tuple[tuple[int, ...], list[Item], list[Item]]]:
        weights = [f for f in term.all_factors if not f.is_item]
        items = [f for f in term.all_factors if f.is_item]

        def down(depth: int, places: Places, symbols: Symbols, events: tuple[int, ...]) -> Iterator[Any]:
            if depth == len(weights):
                for at, chosen in self._all(term, items, places, symbols):
                    placed = [self._placed(f, at, chosen) for f in weights]
                    yield events, [self._item(f, at, chosen) for f in items], placed
                return
            f = weights[depth]
            if row is None:
                for at, chosen in self._all(term, [f], places, symbols):
                    event = self.number(f.table, self._item(f, at, chosen)[2])
                    yield from down(depth + 1, at, chosen, (*events, event))
            elif start + depth < len(row):
                name, indices = self.element(row[start + depth])
                if name == f.table:
                    for at in self._places(term, [f], places):
                        for chosen in self._matches(f.symbols, indices, at, symbols):
                            yield from down(depth + 1, at, chosen, (*events, row[start + depth]))

        return down(0, places, symbols, ())

    def _all(
        self, term: Term, refs: Sequence[Ref], places: Places, symbols: Symbols
    ) -> Iterator[tuple[Places, Symbols]]:
        """All values of what is unknown in references."""
        rows = [x.row if isinstance(x, Entry) else x for f in refs for x in f.symbols]
        free = dict.fromkeys(x for x in rows if isinstance(x, Variable) and x not in symbols)
        for at in self._places(term, refs, places):
            for values in itertools.product(*(range(self._size(x.size)) for x in free)):
                yield at, symbols | dict(zip(free, values, strict=True))

    def _places(self, term: Term, refs: Sequence[Ref], places: Places) -> Iterator[Places]:
        """All values of the summed positions that references need; limits of a loop may be those before it."""
        names = {x.name for f in refs for x in (*f.positions, *(s.position for s in f.symbols if isinstance(s, Word)))}
        loops = [x for x in term.loops if x.name not in places]
        needed = max((q + 1 for q, x in enumerate(loops) if x.name in names), default=0)

        def down(depth: int, places: Places) -> Iterator[Places]:
            if depth == needed:
                yield places
                return
            loop = loops[depth]
            low, high = max(_at(x, places) for x in loop.low), min(_at(x, places) for x in loop.high)
            for k in range(low, high + 1):
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
        at = tuple(_at(x, places) for x in ref.positions)
        return ref.table, at, tuple(self._symbol(x, places, symbols) for x in ref.symbols)

    def _placed(self, ref: Ref, places: Places, symbols: Symbols) -> Item:
        """A weight whose words are positions."""
        at = (*ref.positions, *(x.position for x in ref.symbols if isinstance(x, Word)))
        others = (self._symbol(x, places, symbols) for x in ref.symbols if not isinstance(x, Word))
        return ref.table, tuple(_at(x, places) for x in at), tuple(others)

    def _symbol(self, x: Any, places: Places, symbols: Symbols) -> int:
        if isinstance(x, Constant):
            return x.value
        if isinstance(x, Variable):
            return symbols[x]
        if isinstance(x, Entry):
            return int(self.lists[x.column][symbols[x.row]])
        return int(x.number(self.words, _at(x.position, places)))

    def _size(self, size: Size) -> int:
        return size if isinstance(size, int) else self.sizes[size]


def _at(x: Position, places: Places) -> int:
    return (places[x.name] if x.name else 0) + x.offset


def _holds(cell: CellClass, at: tuple[int, ...]) -> bool:
    """Whether an item at these positions is in a class of cells."""
    if len(at) != len(cell.positions):
        return False
    if not at:
        return True
    width = at[1] - at[0] if len(at) == 2 else at[0]
    return width == cell.width if cell.width is not None else width >= cell.least
