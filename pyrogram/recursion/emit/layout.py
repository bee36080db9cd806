# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What a compiled function is called with, and where the numbers of a recursion lie.

All functions of a recursion take their parameters in one order. A weight of any shape is an address and a stride for
each axis, so that one table for all sentences, one for each, and a single number are the same to the compiled code:
strides of zero repeat a number. The names of parameters are

    n, b                     length and number of the sentence at hand (variables, not parameters)
    pitch                    positions of the longest sentence, plus one
    size.S                   the number of symbols S
    list.A, words.w          columns of lists of rules; words of all sentences, and the stride of words
    weight.arc, weight.arc.b, weight.arc.0, ...
                             a table of weights, its stride by sentence and by axis

Every name that a page chooses has a prefix, so that it never meets one of the compiler's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ..code.expressions import Array, Element, Elements, Expression, Name, equal, value, within
from ..code.statements import Code
from ..rules.cells import Cells
from ..rules.domains import last_read
from ..rules.language import Constant, Entry, Place, Position, Ref, Size, Variable, Word
from ..rules.rewrites import LENGTH
from .names import LENGTHS, PITCH, B


@dataclass(frozen=True)
class WeightTable:
    """A table of weights that a recursion speaks of.

    :param last: of each position the greatest that is read, less n.
    """

    name: str
    last: tuple[int, ...]
    sizes: tuple[Size, ...]

    @property
    def num_positions(self) -> int:
        return len(self.last)

    @property
    def num_axes(self) -> int:
        return self.num_positions + len(self.sizes)

    def parameters(self, prefix: str, elements: Elements, *before: str) -> list[Array | Name]:
        """A table like it, with its strides.

        :param before: axes before those of the weight.
        """
        name, axes = f"{prefix}.{self.name}", (*before, *range(self.num_axes))
        return [Array(name, elements), *(Name(f"{name}.{x}", "int") for x in axes)]


@dataclass
class Layout:
    """Names, indices and addresses in compiled code.

    :param constants: tables of weights that nobody counts: evidence, say.
    """

    cells: Cells
    constants: frozenset[str] = frozenset()

    @cached_property
    def weights(self) -> list[WeightTable]:
        cells = self.cells
        last = last_read([term.rule for _, _, term in cells.terms], cells.first, cells.domains)
        tables = []
        for name, table in cells.recursion.tables.items():
            if not (table.is_item or table.source) and name in cells.arity:
                tables.append(WeightTable(name, last.get(name, (0,) * cells.arity[name]), table.sizes))
        return tables

    @cached_property
    def events(self) -> list[WeightTable]:
        """Tables of weights that are counted."""
        return [w for w in self.weights if self.is_counted(w.name)]

    @cached_property
    def _symbols(self) -> list[object]:
        return [x for rule in self.cells.recursion.rules for f in (rule.head, *rule.factors) for x in f.symbols]

    @cached_property
    def words(self) -> list[str]:
        return sorted({x.words for x in self._symbols if isinstance(x, Word)} - {""} | self.cells.recursion.linked)

    @cached_property
    def lists(self) -> list[str]:
        return sorted({x.column for x in self._symbols if isinstance(x, Entry)})

    @cached_property
    def sizes(self) -> list[str]:
        """Names of sizes that are given with the weights."""
        tables = self.cells.recursion.tables
        rules = self.cells.recursion.rules
        names = {size for rule in rules for f in (rule.head, *rule.factors) for size in tables[f.table].sizes}
        names |= {x.size for rule in rules for x in rule.variables}
        return sorted(x for x in names if isinstance(x, str))

    # ------------------------------------------------------------------ parameters

    def parameters(self) -> list[Array | Name]:
        """Those that all functions have, before their own."""
        parameters: list[Array | Name] = [PITCH]
        parameters += [Name(f"size.{s}", "int") for s in self.sizes]
        parameters += [Array(f"list.{x}", "int") for x in self.lists]
        for name in self.words:
            parameters += [Array(f"words.{name}", "int"), Name(f"words.{name}.b", "int")]
        return [*parameters, *(p for w in self.weights for p in w.parameters("weight", "element", "b"))]

    def enter(self, code: Code, lane: Expression) -> None:
        """Set variables that depend on the sentence ``b``, which is in a lane; here there are none."""

    # ------------------------------------------------------------------ indices

    def position(self, x: Position) -> Expression:
        return Name(f"at.{x.name}", "int") + x.offset if x.name else value(x.offset)

    def size(self, size: Size) -> Expression:
        return value(size) if isinstance(size, int) else Name(f"size.{size}", "int")

    def symbol(self, x: object) -> Expression:
        if isinstance(x, Constant):
            return value(x.value)
        if isinstance(x, Variable):
            return Name(f"sym.{x.name}", "int")
        if isinstance(x, Entry):
            return Array(f"list.{x.column}", "int")[Name(f"sym.{x.row.name}", "int")]
        if isinstance(x, Place):
            return self.position(x.position)
        assert isinstance(x, Word)
        width = Name(f"words.{x.words}.b", "int")
        place = within(self.position(x.position) - 1, 0, width)
        return Array(f"words.{x.words}", "int")[B * width + place]

    def axis_values(self, ref: Ref) -> list[Expression]:
        """The indices of a weight, axis by axis."""
        return [*map(self.position, ref.positions), *map(self.symbol, ref.symbols)]

    def weight(self, ref: Ref, table: str | None = None) -> Element:
        """An element of a table of weights, or of another one with its axes."""
        name = table or f"weight.{ref.table}"
        index: Expression = self.row(ref.table) * Name(f"{name}.b", "int")
        sizes = self.cells.recursion.tables[ref.table].sizes
        values = [within(self.position(x), 0, PITCH) for x in ref.positions]
        values += [within(self.symbol(x), 0, self.size(size)) for x, size in zip(ref.symbols, sizes, strict=True)]
        for axis, x in enumerate(values):
            index = index + x * Name(f"{name}.{axis}", "int")
        return Array(name, "element")[index]

    def strides(self, ref: Ref, prefix: str) -> list[Expression]:
        """Of the axes of a table of weights, or of its posteriors."""
        return [Name(f"{prefix}.{ref.table}.{axis}", "int") for axis in range(len(ref.positions) + len(ref.symbols))]

    def output(self, ref: Ref) -> Element:
        """Where posteriors of a weight are added up, in the table of a part of the sentences."""
        target = self.weight(ref, f"out.{ref.table}")
        return target.array[target.index + Name("part", "int") * Name(f"out.{ref.table}.part", "int")]

    def says(self, ref: Ref, source: str) -> Expression:
        """Whether a position is the end of the sentence ``b``, or the symbol there its word: see :func:`.alike`."""
        (x,) = ref.positions
        if source == LENGTH:
            return equal(self.position(x), LENGTHS[B])
        return equal(self.symbol(ref.symbols[0]), self.word(Word(source, x)))

    def word(self, x: Word) -> Expression:
        """The number of a word among all."""
        return self.symbol(x)

    def has_one_place(self, ref: Ref) -> bool:
        """Whether a weight at the same positions is at the same place of every sentence's table."""
        return not any(isinstance(x, Word) for x in ref.symbols)

    def row(self, table: str) -> Expression:
        """Which row of a table the sentence ``b`` has."""
        return B

    def is_counted(self, table: str) -> bool:
        """Whether posteriors of the weights of a table are wanted."""
        return table not in self.constants
