# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Where items, adjoints, sums and weights lie in the memory of lanes.

An item at (i, j) is in row i of a square, and its symbols are neighbours. Weights have their positions first:
``emit[x, w[j]]`` is at (j, x) of the table ``emit[all, *]``. Where all sentences share one table of a weight that knows
no position, it is numbers, not lanes.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from ..code.expressions import Array, Expression, Name, value
from ..code.statements import Code
from ..rules.cells import CellClass, Cells, Inner, Term
from ..rules.language import Constant, Entry, Position, Ref, Size, Symbol, Variable
from .grids import Grid
from .layout import Layout
from .names import PITCH
from .numbers import LogNumbers, Numbers
from .sums import Sums
from .vectors import VectorSums
from .weights import EXPONENTS_OF_WORDS, NUMBERS, WeightCells, axes, weight_cells

RESULTS = ("z", "z.exponent")


@dataclass(frozen=True)
class Node:
    """An inner sum that is multiplied by others. It has cells of its own: by its free symbols, and of spans by i."""

    number: int
    inner: Inner
    num_positions: int


@dataclass
class Tables:
    """The layout of a recursion.

    :param shared: whether all sentences share the weights that know no position, as numbers.
    :param in_logs: whether numbers are logarithms, and the greatest is the sum.
    :param code: of sums.
    """

    cells: Cells
    layout: Layout
    lanes: int
    shared: bool
    in_logs: bool = False
    code: Code = field(default_factory=Code)
    SHARED: ClassVar[Array] = NUMBERS  # has the numbers that all sentences share

    def __post_init__(self) -> None:
        terms = [t for _, _, t in self.cells.terms]
        kinds = {id(t): c.kind for c, _, t in self.cells.terms}
        weights = dict.fromkeys(weight_cells(f) for t in terms for f in t.all_factors if not f.is_item)
        self.weights: list[WeightCells] = list(weights)
        self.numbers = [w for w in self.weights if self.is_number(w)]
        self.in_lanes = [w for w in self.weights if not self.is_number(w)]
        inners = [(id(t), t.inner) for t in terms if t.inner is not None and t.is_split and t.inner.free]
        self.nodes = {t: Node(x, inner, int(kinds[t] == "span")) for x, (t, inner) in enumerate(inners)}
        kind = VectorSums if self.is_alone and not self.in_logs else Sums
        numbers = LogNumbers(self.code) if self.in_logs else Numbers(self.code)
        self.sums = kind(self.code, self.layout, numbers)
        self.num_positions = {name: self._num_positions(name) for name in self.cells.sizes}
        """Of an item's cells: 1 of spans of one width, whose ends say where they begin."""

    def _num_positions(self, table: str) -> int:
        """See :attr:`num_positions`."""
        domain = self.cells.domains[table]
        return min(self.cells.arity[table], 1 if domain.least == domain.greatest else 2)

    def is_plain(self, w: WeightCells) -> bool:
        """Whether no position, and no word, is an index of a weight."""
        return self.cells.arity[w.table] == 0 and w.num_axes == 0

    def is_counted(self, w: WeightCells) -> bool:
        """Whether posteriors of a weight are wanted."""
        return not self.cells.recursion.tables[w.table].source and self.layout.is_counted(w.table)

    @property
    def counted(self) -> list[WeightCells]:
        """Weights whose posteriors have cells."""
        return [w for w in self.weights if self.is_counted(w) and not (self.in_place and self.is_number(w))]

    def is_number(self, w: WeightCells) -> bool:
        """Whether it is a table of numbers that all sentences share."""
        if not self.in_place:
            return self.shared and self.is_plain(w)
        return not self.cells.arity[w.table] and w.indices[-1:] in ((), ("all",))  # whose neighbours are symbols

    @property
    def in_place(self) -> bool:
        """Whether numbers are read where they are given, and their posteriors go where they are wanted: of a sentence
        alone, whose words say where.
        """
        return self.shared and bool(self.cells.recursion.linked)

    def sizes(self, w: WeightCells) -> list[Size]:
        """Those of the axes that are all symbols."""
        arity, sizes = self.cells.arity[w.table], self.cells.recursion.tables[w.table].sizes
        return [size for x, size in zip(w.indices[arity:], sizes, strict=True) if x == "all"]

    # ------------------------------------------------------------------ places

    def place(self, code: Code) -> Expression:
        """Set a variable for the beginning of each table; returns the number of cells of all."""
        total: Expression = value(0)
        for prefix, (name, sizes) in itertools.product(("item", "adjoint"), self.cells.sizes.items()):
            code.set(f"{prefix}.{name}", total)
            total = code.set("total", total + self._cells(sizes, self.num_positions[name]))
        for node in self.nodes.values():
            for prefix in ("", "d"):
                code.set(f"{prefix}node.{node.number}", total)
                total = code.set("total", total + self._cells([x.size for x in node.inner.free], node.num_positions))
        code.set("weights.begin", total)
        for w in self.in_lanes:
            total = self._place_weight(code, "", w, total)
        code.set("weights.end", total)
        for w in self.counted:
            total = self._place_weight(code, "d", w, total)
        for name in ("ends", EXPONENTS_OF_WORDS.name):
            code.set(name, total)
            total = code.set("total", total + PITCH)
        for name in RESULTS:
            code.set(name, total)
            total = total + 1
        total = code.set("total", total)  # up to here nothing outlives a block
        return code.set("end.of.numbers", self.place_numbers(code, total))

    def _place_weight(self, code: Code, prefix: str, w: WeightCells, total: Expression) -> Expression:
        code.set(f"{prefix}{w.name}", total)
        return code.set("total", total + self._cells(self.sizes(w), w.num_axes))

    def place_numbers(self, code: Code, end: Expression) -> Expression:
        """Numbers that all sentences share lie behind the cells; returns the number of cells with them."""
        for w in () if self.in_place else self.numbers:
            code.set(w.name, end * self.lanes)
            end = code.let(end + (self.block(self.sizes(w)) + (self.lanes - 1)) // self.lanes)
        return end

    @property
    def is_alone(self) -> bool:
        """Whether a sentence is done alone, so that vectors are made of symbols."""
        return self.lanes == 1

    def block(self, sizes: Sequence[Size]) -> Expression:
        """The number of cells for all symbols of some axes."""
        return self._cells(sizes, 0)

    def _cells(self, sizes: Sequence[Size], positions: int) -> Expression:
        count: Expression = value(1)
        for x, size in enumerate(sizes, 1):
            count = count * self.sums.extent(size, last=x == len(sizes))
        for _ in range(positions):
            count = count * PITCH
        return count

    def _grid(
        self,
        start: Expression,
        positions: Sequence[Position],
        symbols: Sequence[Symbol],
        sizes: Sequence[Size],
        numbers: Array | None = None,
        adjoint: bool = False,
        items: int = 0,
    ) -> Grid:
        strides = [self.block(sizes[a + 1 :]) for a in range(len(sizes))]
        block, items = self.block(sizes), 0 if adjoint else items
        return Grid(start, tuple(positions), tuple(symbols), tuple(strides), block, numbers, adjoint, items)

    def item(self, ref: Ref, adjoint: bool = False) -> Grid:
        """An item, or the adjoints of it."""
        positions = ref.positions[len(ref.positions) - self.num_positions[ref.table] :]
        start = Name(f"{'adjoint' if adjoint else 'item'}.{ref.table}", "int")
        return self._grid(start, positions, ref.symbols, self.cells.sizes[ref.table], adjoint=adjoint, items=1)

    def whole(self, ref: Ref, adjoint: bool = False) -> Grid:
        """An item, or the adjoints of it, by all of its symbols."""
        symbols = tuple(Variable(f"whole{x}", size) for x, size in enumerate(self.cells.sizes[ref.table]))
        return self.item(replace(ref, symbols=symbols), adjoint)

    def weight(self, ref: Ref, posterior: bool = False) -> Grid:
        """A weight, or the sums of its posteriors."""
        w = weight_cells(ref)
        start = Name(f"d{w.name}" if posterior else w.name, "int")
        symbols = [x for x in ref.symbols if isinstance(x, (Variable, Entry))]
        if self.in_place and self.is_number(w):
            return self._weight_in_place(ref, symbols, posterior)
        numbers = self.SHARED if self.is_number(w) and not posterior else None
        return self._grid(start, axes(ref), symbols, self.sizes(w), numbers)

    def _weight_in_place(self, ref: Ref, symbols: Sequence[Symbol], posterior: bool) -> Grid:
        """A weight where it is given; symbols of vectors, the last ones, are neighbours there."""
        first = replace(ref, symbols=tuple(Constant(0) if x in symbols else x for x in ref.symbols))
        place = self.layout.output(first) if posterior else self.layout.weight(first)
        strides = self.layout.strides(ref, "out" if posterior else "weight")
        if not self.in_logs:
            strides[-1] = value(1)
        chosen = [s for x, s in zip(ref.symbols, strides, strict=True) if x in symbols]
        return Grid(place.index, (), tuple(symbols), tuple(chosen), value(1), place.array)

    def factor(self, ref: Ref) -> Grid:
        """An item or a weight."""
        return self.item(ref) if ref.is_item else self.weight(ref)

    def target(self, ref: Ref) -> Grid:
        """Where the adjoints of a factor are added up, or its posteriors."""
        return self.item(ref, adjoint=True) if ref.is_item else self.weight(ref, posterior=True)

    def node(self, cell: CellClass, term: Term, adjoint: bool = False) -> Grid:
        """The inner sum of a term at the cell at hand: one for each i of a column, or one for a point."""
        node = self.nodes[id(term)]
        sizes = [x.size for x in node.inner.free]
        start = Name(f"{'d' if adjoint else ''}node.{node.number}", "int")
        items = sum(f.is_item for f in node.inner.factors)
        return self._grid(
            start, cell.positions[: node.num_positions], node.inner.free, sizes, adjoint=adjoint, items=items
        )

    def plain(self, w: WeightCells) -> Ref:
        """A weight without positions, at variables for all of its symbols but constants."""
        sizes = self.cells.recursion.tables[w.table].sizes
        indices = enumerate(zip(w.indices, sizes, strict=True))
        symbols = [Constant(x) if isinstance(x, int) else Variable(f"axis{a}", size) for a, (x, size) in indices]
        return Ref(w.table, False, (), tuple(symbols))
