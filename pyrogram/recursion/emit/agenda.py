# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The way down from the goal, without back-pointers: the agenda has the items that have still to be proved.

The instances of an item are gone through again, and the one that is wanted is recognised by its value, which the same
operations give to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..code.expressions import Array, Expression, Name, equal, negated, value
from ..code.random_bits import uniform
from ..rules.cells import Cells, Term
from ..rules.language import Ref
from .instances import ROWS_BY_SYMBOL, Enumeration, here

AGENDA = Array("agenda", "int")
WAY_DOWN = AGENDA, ROWS_BY_SYMBOL  # the parameters of a function that goes down
RANK = Name("at.rank", "int")  # of the derivation that is wanted of the item at hand, where there are several
_FIRST = ["at.i", "at.j", RANK.name]  # variables of an entry, between the number of its item and its symbols


@dataclass
class Descent:
    """Code that goes down from the goal, rule by rule, the leftmost item first.

    An entry of the agenda is the number of an item, its positions i and j, a rank, and its symbols.

    :param write: code for a weight that is met.
    """

    loops: Enumeration
    write: Callable[[Ref], None]

    def __post_init__(self) -> None:
        sizes = self.loops.cells.sizes
        self._numbers = {name: x for x, name in enumerate(sizes)}
        self._variables = [*_FIRST, *(f"sym.{here(a).name}" for a in range(max(map(len, sizes.values()))))]
        self._width = 1 + len(self._variables)

    def run(self, row: Expression, choose: Callable[[str], None], rank: Expression | int = 0) -> None:
        """All of a derivation, to a row of the output.

        :param choose: code for an item of a table that chooses an instance, and pushes it; see
            :meth:`.Enumeration.instances_here`.
        :param rank: of the derivation.
        """
        code = self.loops.code
        code.set("row", row)
        code.set("trace_length", 0)
        top = code.set("depth", 1)
        code.put(AGENDA, 0, self._numbers[self.loops.cells.goal])
        code.put(AGENDA, 1 + _FIRST.index(RANK.name), rank)
        with code.loop_while(top > 0):
            code.set("depth", top - 1)
            start = code.set("entry", top * self._width)
            item = code.set("item", AGENDA[start])
            for x, name in enumerate(self._variables, 1):
                code.set(name, AGENDA[start + x])
            for table, number in self._numbers.items():
                with code.when(equal(item, number)):
                    choose(table)

    def push(self, term: Term, ranks: Sequence[Expression] = ()) -> None:
        """Write the weights of an instance, and go on with its items, the first one first.

        :param ranks: of the derivations of its items, where there are several.
        """
        loops, top = self.loops, Name("depth", "int")
        for f in term.weights:
            self.write(f)
        for x, f in reversed(list(enumerate(term.items))):
            i, j = [0, 0, *map(loops.layout.position, f.positions)][-2:]
            rank = ranks[x] if ranks else 0
            entry = loops.code.set("entry", top * self._width)
            for y, number in enumerate([self._numbers[f.table], i, j, rank, *map(loops.layout.symbol, f.symbols)]):
                loops.code.put(AGENDA, entry + y, number)
            loops.code.set("depth", top + 1)

    def choose_first(self, table: str, test: Callable[[Term], Expression]) -> None:
        """Push the first instance of the item at hand that passes a test."""
        code, is_found = self.loops.code, Name("found", "bool")
        code.set("found", value(False))
        for term in self.loops.instances_here(table):
            with code.when(negated(is_found)), code.when(test(term)):
                code.set("found", value(True))
                self.push(term)

    def choose_in_proportion(self, table: str, amount: Callable[[Term], Expression]) -> None:
        """Push an instance of the item at hand, chosen in proportion to its amount.

        The total is formed by the same additions as the running sum, which therefore reaches it.
        """
        code, mass = self.loops.code, Name("mass", "real")

        def more(term: Term) -> Expression:
            return code.set("mass", mass + amount(term)) > Name("wanted", "real")

        code.set("mass", 0.0)
        for term in self.loops.instances_here(table):
            more(term)
        code.set("wanted", mass * uniform(code))
        code.set("mass", 0.0)
        self.choose_first(table, more)


def size_of_agenda(cells: Cells, pitch: int, sizes: Mapping[str, int]) -> int:
    """How many numbers an agenda takes.

    The way down from the goal meets each item once at most: of a column for each position, or of all columns where
    points and spans read one another.

    :param sizes: numbers of symbols, by their names.
    """
    symbols = [cells.num_symbols(name, sizes) for name in cells.sizes]
    width = 1 + len(_FIRST) + max(map(len, cells.sizes.values()))
    most = max(len(rule.items) for rule in cells.recursion.rules)
    kinds = {cells.arity[name] for name in cells.sizes} - {0}
    entries: int = most * pitch ** max(len(kinds), 1) * sum(symbols) + 2
    return entries * width
