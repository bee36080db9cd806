# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Where items with symbols, adjoints, sums and weights lie in the memory of lanes.

The symbols of an item at (i, j) are neighbours. A weight has a table for each way in which rules speak of it, as in
:mod:`~pyrogram.recursion.lanes.tables`, with its positions first: ``emit[x, w[j]]`` is at (j, x) of the table
``emit[all, *]``. Where all sentences share one table of a weight that knows no position, it is numbers, not lanes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import ClassVar

from ..calling.layout import Layout
from ..lanes.arithmetic import REALS, Arithmetic
from ..lanes.numbers import PlainNumbers
from ..lanes.tables import GAUGE, WeightCells, axes, scratch_of, weight_cells
from ..machine.expressions import Array, Expression, Name, value, within
from ..machine.registers import tile_of_sums
from ..machine.statements import Code
from ..rules.cells import CellClass, Cells, Inner, Term
from ..rules.language import Constant, Entry, Position, Ref, Size, Symbol, Variable
from .grids import NUMBERS, TILE, Grid, Sums
from .vectors import VectorSums

PITCH = Name("pitch", "int")
RESULTS = ("z", "z.exponent", "gauge")


@dataclass(frozen=True)
class Node:
    """The inner sum of a term, which has cells of its own: by its free symbols, and by one position of the cell."""

    number: int
    inner: Inner


@dataclass
class TileTables:
    """The layout of a recursion.

    :param shared: whether all sentences share the weights that know no position, as numbers.
    :param arithmetic: what a sum and a product are.
    """

    cells: Cells
    layout: Layout
    lanes: int
    shared: bool
    arithmetic: Arithmetic = REALS
    sums: Sums = field(init=False)
    SHARED: ClassVar[Array] = NUMBERS  # what numbers that all sentences share are in

    def __post_init__(self) -> None:
        terms = [t for c in self.cells.classes for h in c.heads for t in h.terms]
        self.nodes = {id(t): Node(x, t.inner) for x, t in enumerate(terms) if t.inner is not None}
        found = dict.fromkeys(weight_cells(f) for t in terms for f in t.all_factors if not f.is_item)
        self.weights: list[WeightCells] = list(found)
        self.numbers = [w for w in self.weights if self.is_number(w)]
        self.in_lanes = [w for w in self.weights if not self.is_number(w)]

    def is_plain(self, w: WeightCells) -> bool:
        """Whether no position, and no word, is an index of a weight."""
        return self.cells.arity[w.table] == 0 and None not in w.indices

    def is_counted(self, w: WeightCells) -> bool:
        """Whether posteriors of a weight are wanted."""
        return w.table != GAUGE and self.layout.is_counted(w.table)

    def is_number(self, w: WeightCells) -> bool:
        """Whether it is a table of numbers that all sentences share."""
        return self.shared and self.is_plain(w)

    def sizes(self, w: WeightCells) -> list[Size]:
        """Those of the axes that are all symbols."""
        arity, sizes = self.cells.arity[w.table], self.cells.recursion.tables[w.table].sizes
        return [size for x, size in zip(w.indices[arity:], sizes, strict=True) if x == "all"]

    # ------------------------------------------------------------------ places

    def place(self, code: Code) -> Expression:
        """Set a variable for the beginning of each table; returns the number of cells of all."""
        kind = VectorSums if self.is_alone and not self.arithmetic.in_logs else Sums
        numbers = PlainNumbers(code, self.arithmetic, not self.arithmetic.in_logs)
        self.sums = kind(code, self.layout, numbers, self.tile())
        for size in self.layout.sizes:
            code.set(f"padded.{size}", (Name(f"size.{size}", "int") + (TILE - 1)) // TILE * TILE)
        total: Expression = value(0)
        for prefix in ("item", "adjoint"):
            for name, sizes in self.cells.sizes.items():
                code.set(f"{prefix}.{name}", total)
                total = code.set("total", total + self._cells(sizes, self.cells.arity[name]))
        for node in self.nodes.values():
            for prefix in ("", "d"):
                code.set(f"{prefix}node.{node.number}", total)
                total = code.set("total", total + self._cells([x.size for x in node.inner.free], 1))
        code.set("weights.begin", total)
        for w in self.in_lanes:
            code.set(w.name, total)
            total = code.set("total", total + self._cells(self.sizes(w), w.num_axes))
        code.set("weights.end", total)
        for w in self.weights:
            code.set(f"d{w.name}", total)
            total = code.set("total", total + self._cells(self.sizes(w), w.num_axes))
        scratch = [x.name for table in dict.fromkeys(w.table for w in self.weights) for x in scratch_of(table)]
        for name in ("ends", *scratch):
            code.set(name, total)
            total = code.set("total", total + PITCH)
        for name in RESULTS:
            code.set(name, total)
            total = total + 1
        return self.place_numbers(code, code.set("total", total))  # up to here nothing outlives a block

    def place_numbers(self, code: Code, end: Expression) -> Expression:
        """Numbers that all sentences share lie behind the cells; returns the number of cells with them."""
        for w in self.numbers:
            code.set(w.name, end * self.lanes)
            end = end + (self.block(self.sizes(w)) + (self.lanes - 1)) // self.lanes
            end = code.set("end.of.numbers", end)
        return end

    @property
    def is_alone(self) -> bool:
        """Whether a sentence is done alone, so that vectors are made of symbols."""
        return self.lanes == 1

    def tile(self) -> tuple[int, int]:
        """Rows and columns of sums that are formed at once."""
        return tile_of_sums()

    def at(self, x: Position) -> Expression:
        """A position as a number."""
        return self.sums.at(x)

    def block(self, sizes: Sequence[Size]) -> Expression:
        """The number of cells for all symbols of some axes."""
        return self._cells(sizes, 0)

    def _cells(self, sizes: Sequence[Size], positions: int) -> Expression:
        count: Expression = value(1)
        for size in sizes:
            count = count * self.sums.padded(size)
        for _ in range(positions):
            count = count * PITCH
        return count

    def _grid(
        self,
        start: Expression,
        symbols: Sequence[Symbol],
        sizes: Sequence[Size],
        numbers: Array | None = None,
        adjoint: bool = False,
        items: int = 0,
    ) -> Grid:
        strides = [self.block(sizes[a + 1 :]) for a in range(len(sizes))]
        return Grid(start, tuple(symbols), tuple(strides), numbers, adjoint, 0 if adjoint else items)

    def item(self, ref: Ref, adjoint: bool = False) -> Grid:
        """An item, or the adjoints of it."""
        sizes = self.cells.sizes[ref.table]
        index: Expression = value(0)
        for x in ref.positions:
            index = index * PITCH + within(self.sums.at(x), 0, PITCH)
        start = Name(f"{'adjoint' if adjoint else 'item'}.{ref.table}", "int") + index * self.block(sizes)
        return self._grid(start, ref.symbols, sizes, adjoint=adjoint, items=1)

    def whole(self, ref: Ref, adjoint: bool = False) -> Grid:
        """An item, or the adjoints of it, by all of its symbols."""
        symbols = tuple(Variable(f"whole{x}", size) for x, size in enumerate(self.cells.sizes[ref.table]))
        return self.item(replace(ref, symbols=symbols), adjoint)

    def weight(self, ref: Ref, posterior: bool = False) -> Grid:
        """A weight, or the sums of its posteriors."""
        w = weight_cells(ref)
        sizes, index = self.sizes(w), value(0)
        for x in axes(ref):
            index = index * PITCH + within(self.sums.at(x), 0, PITCH)
        start = Name(f"d{w.name}" if posterior else w.name, "int") + index * self.block(sizes)
        symbols = [x for x in ref.symbols if isinstance(x, (Variable, Entry))]
        return self._grid(start, symbols, sizes, self.SHARED if self.is_number(w) and not posterior else None)

    def factor(self, ref: Ref) -> Grid:
        """An item or a weight."""
        return self.item(ref) if ref.is_item else self.weight(ref)

    def target(self, ref: Ref) -> Grid:
        """Where the adjoints of a factor are added up, or its posteriors."""
        return self.item(ref, adjoint=True) if ref.is_item else self.weight(ref, posterior=True)

    def node(self, cell: CellClass, term: Term, adjoint: bool = False) -> Grid:
        """The inner sum of a term at the cell at hand: one for each i of a column, or for each point j."""
        node = self.nodes[id(term)]
        sizes = [x.size for x in node.inner.free]
        index = {"span": Name("at.i", "int"), "point": Name("at.j", "int"), "goal": value(0)}[cell.kind]
        start = Name(f"{'d' if adjoint else ''}node.{node.number}", "int") + index * self.block(sizes)
        items = sum(f.is_item for f in node.inner.factors)
        return self._grid(start, node.inner.free, sizes, adjoint=adjoint, items=items)

    @contextmanager
    def elements(self, code: Code, w: WeightCells) -> Iterator[Expression]:
        """Loops over the cells of a table of weights within a sentence."""
        block, n = self.block(self.sizes(w)), Name("n", "int")

        @contextmanager
        def nest(depth: int, index: Expression) -> Iterator[Expression]:
            if depth == 0:
                with code.loop("element", index * block, (index + 1) * block) as x:
                    yield x
                return
            with code.loop(f"axis.{depth}", 0, n + 1) as x, nest(depth - 1, index * PITCH + x) as found:
                yield found

        with nest(w.num_axes, value(0)) as found:
            yield found

    def plain(self, w: WeightCells) -> Ref:
        """A weight without positions, at variables for all of its symbols but constants."""
        sizes = self.cells.recursion.tables[w.table].sizes
        given = enumerate(zip(w.indices, sizes, strict=True))
        symbols = [Constant(x) if isinstance(x, int) else Variable(f"axis{a}", size) for a, (x, size) in given]
        return Ref(w.table, False, (), tuple(symbols))
