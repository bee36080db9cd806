# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Where items, adjoints, sums and weights lie in the memory of lanes.

An item is kept by rows (i, j), by columns (j, i), or both, as the sums of a plan over k read it. So neighbours in k are
neighbours in memory.

The symbols of an item at (i, j) are neighbours. Weights have their positions first: ``emit[x, w[j]]`` is at (j, x) of
the table ``emit[all, *]``. Tables that differ only in constant symbols, ``arc[*, *, 0]`` and ``arc[*, *, 1]``, take
turns, as the numbers that they are filled with do. Where all sentences share one table of a weight that knows no
position, it is numbers, not lanes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

from ..code.expressions import Array, Expression, Name, value
from ..code.registers import tile_of_sums
from ..code.statements import Code
from ..rules.bounds import Bounds
from ..rules.cells import CellClass, Cells, I, Inner, J, Term
from ..rules.language import Constant, Entry, Position, Ref, Size, Symbol, Variable
from .grids import TILE, Grid
from .layout import Layout
from .numbers import LogNumbers, Numbers
from .plan import CellSum, plan_of
from .regions import axis_bounds
from .sums import Sums
from .vectors import VectorSums
from .weights import GAUGE, NUMBERS, PITCH, Index, WeightCells, axes, scratch_of, weight_cells

Side = Literal["row", "column"]
RESULTS = ("z", "z.exponent", "gauge")


@dataclass(frozen=True)
class Node:
    """The inner sum of a term, which has cells of its own: by its free symbols, and by one position of the cell."""

    number: int
    inner: Inner


@dataclass
class Tables:
    """The layout of a recursion.

    :param shared: whether all sentences share the weights that know no position, as numbers.
    :param in_logs: whether numbers are logarithms, and the greatest is the sum.
    """

    cells: Cells
    layout: Layout
    lanes: int
    shared: bool
    in_logs: bool = False
    sums: Sums = field(init=False)
    SHARED: ClassVar[Array] = NUMBERS  # has the numbers that all sentences share
    COLUMNS: ClassVar[int] = 8  # of a plan that are filled together, so that they stay in the nearest cache
    PAIRS: ClassVar[bool] = True  # whether two columns may be filled in one loop

    def __post_init__(self) -> None:
        terms = [t for _, _, t in self.cells.terms]
        weights = dict.fromkeys(weight_cells(f) for t in terms for f in t.all_factors if not f.is_item)
        self.weights: list[WeightCells] = list(weights)
        self.numbers = [w for w in self.weights if self.is_number(w)]
        self.in_lanes = [w for w in self.weights if not self.is_number(w)]
        rest = next((c for c in self.cells.of("span") if c.width is None), None)
        has_plain = any(map(self.is_plain, self.weights))
        self.plan = None if rest is None or has_plain else plan_of(self.cells, rest)
        """Of all spans, if their sums can be formed together."""
        planned = [] if rest is None or self.plan is None else [id(t) for h in rest.heads for t in h.terms]
        alone = [t for t in terms if t.inner is not None and id(t) not in planned]
        self.nodes = {id(t): Node(x, t.inner) for x, t in enumerate(alone) if t.inner is not None}
        self.sides = {table: self.sides_of(table) for table in self.cells.sizes}
        """See :meth:`sides_of`; what no plan reads is on the first side."""
        self.num_positions = {name: self._num_positions(name) for name in self.cells.sizes}
        """Of an item's cells: 1 of spans of one width, whose ends say where they begin."""
        self.families: dict[tuple[str, tuple[Index, ...]], list[WeightCells]] = {}
        """Tables in lanes, together those that take turns."""
        for w in self.in_lanes:
            key = w.indices[: self.cells.arity[w.table]] if self.turns(w)[0] > 1 else w.indices
            self.families.setdefault((w.table, key), []).append(w)

        unique = set(filter(self._is_unique, self.in_lanes))
        self.unique = {w for family in self.families.values() for w in family if unique.issuperset(family)}
        """Weights each element of which stands in one place of one cell of the plan: their posteriors are not sums, and
        take their place."""

    def _is_unique(self, w: WeightCells) -> bool:
        """See :attr:`unique`; of one table."""
        seen: list[Bounds] = []
        for cell, _, term in self.cells.terms:
            for f in (f for f in term.all_factors if not f.is_item and weight_cells(f) == w):
                is_outer = f in term.factors
                loops = () if is_outer else term.loops
                names = {*(x.name for x in cell.positions), *(x.name for x in loops)}
                planned = self.plan is not None and cell.kind == "span" and cell.width is None
                if not planned or not self.is_counted(w) or not names <= {x.name for x in axes(f)}:
                    return False
                # A factor of a sum is evaluated wherever its cells are, and be the sum empty.
                limits = cell.limits(self.cells.first) if is_outer else None
                bounds = axis_bounds(self.cells, term, f, limits).of_any_length()
                if any(bounds.meets(other) for other in seen):
                    return False
                seen.append(bounds)
        return True

    def sides_of(self, table: str) -> tuple[Side, ...]:
        """How an item is kept: by rows, by columns, or both."""
        cores = [x.core for x in self.plan.sums] if self.plan is not None else []
        read = [f.positions for core in cores for f in core if f.is_item and f.table == table]
        sides: list[Side] = ["row"] if any(low.name != "k" for low, _ in read) or not read else []
        return (*sides, "column") if any(low.name == "k" for low, _ in read) else tuple(sides)

    def _num_positions(self, table: str) -> int:
        """See :attr:`num_positions`; items without symbols have triangles."""
        domain = self.cells.domains[table]
        has_one_width = bool(self.cells.sizes[table]) and domain.least == domain.greatest
        return min(self.cells.arity[table], 1 if has_one_width else 2)

    def turns(self, w: WeightCells) -> tuple[int, int]:
        """How many tables take turns with one, and which turn it has."""
        sizes = self.cells.recursion.tables[w.table].sizes
        count, turn = 1, 0
        for x, size in zip(w.indices[len(w.indices) - len(sizes) :], sizes, strict=True):
            if not isinstance(x, int) or not isinstance(size, int):  # a table of its own
                return 1, 0
            count, turn = count * size, turn * size + x
        return count, turn

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
        kind = VectorSums if self.is_alone and not self.in_logs else Sums
        self.sums = kind(code, self.layout, LogNumbers(code) if self.in_logs else Numbers(code), self.tile())
        for size in self.layout.sizes:
            code.set(f"padded.{size}", (Name(f"size.{size}", "int") + (TILE - 1)) // TILE * TILE)
        total: Expression = value(0)
        for prefix in ("item", "adjoint"):
            total = self._place_items(code, prefix, total)
        for node in self.nodes.values():
            for prefix in ("", "d"):
                code.set(f"{prefix}node.{node.number}", total)
                total = code.set("total", total + self._cells([x.size for x in node.inner.free], 1))
        for x in self.plan.kept if self.plan is not None else ():
            code.set(f"kept.{x.number}", total)
            total = code.set("total", total + PITCH * PITCH)
        code.set("weights.begin", total)
        for family in self.families.values():
            total = self._place_weights(code, "", family, total)
        code.set("weights.end", total)
        for family in [*self.families.values(), *([w] for w in self.numbers)]:
            if family[0] in self.unique:
                for w in family:
                    code.set(f"d{w.name}", Name(w.name, "int"))
            elif any(map(self.is_counted, family)):
                total = self._place_weights(code, "d", family, total)
        scratch = [x.name for table in dict.fromkeys(w.table for w in self.weights) for x in scratch_of(table)]
        for name in ("ends", *scratch):
            code.set(name, total)
            total = code.set("total", total + PITCH)
        for name in RESULTS:
            code.set(name, total)
            total = total + 1
        total = code.set("total", total)  # up to here nothing outlives a block
        return code.set("end.of.numbers", self.place_numbers(code, total))

    def _place_items(self, code: Code, prefix: str, total: Expression) -> Expression:
        """Tables by rows have the upper triangle of a square, those by columns the lower one, a row below."""
        in_triangles = {name: self.cells.arity[name] == 2 and not sizes for name, sizes in self.cells.sizes.items()}
        names = [name for name, in_triangle in in_triangles.items() if in_triangle]
        rows, columns = ([name for name in names if side in self.sides[name]] for side in ("row", "column"))
        for x in range(max(len(rows), len(columns))):
            for name in rows[x : x + 1]:
                code.set(f"{prefix}.{name}.row", total)
            for name in columns[x : x + 1]:
                code.set(f"{prefix}.{name}.column", total + PITCH)
            total = code.set("total", total + PITCH * (PITCH + 1))
        for name in (name for name, in_triangle in in_triangles.items() if not in_triangle):
            code.set(f"{prefix}.{name}.row", total)
            total = code.set("total", total + self._cells(self.cells.sizes[name], self.num_positions[name]))
        return total

    def _place_weights(self, code: Code, prefix: str, family: Sequence[WeightCells], total: Expression) -> Expression:
        for w in family:
            code.set(f"{prefix}{w.name}", total + self.turns(w)[1])
        return code.set("total", total + self._block_of(family[0]) * self._cells((), family[0].num_axes))

    def _block_of(self, w: WeightCells) -> Expression:
        """Cells of a weight at its positions, with those of the tables that take turns with it."""
        return self.block(self.sizes(w)) * self.turns(w)[0]

    def place_numbers(self, code: Code, end: Expression) -> Expression:
        """Numbers that all sentences share lie behind the cells; returns the number of cells with them."""
        for w in self.numbers:
            code.set(w.name, end * self.lanes)
            end = code.let(end + (self.block(self.sizes(w)) + (self.lanes - 1)) // self.lanes)
        return end

    @property
    def is_alone(self) -> bool:
        """Whether a sentence is done alone, so that vectors are made of symbols."""
        return self.lanes == 1

    def tile(self) -> tuple[int, int]:
        """Rows and columns of sums that are formed at once."""
        return tile_of_sums()

    def block(self, sizes: Sequence[Size]) -> Expression:
        """The number of cells for all symbols of some axes."""
        return self._cells(sizes, 0)

    def _cells(self, sizes: Sequence[Size], positions: int) -> Expression:
        count: Expression = value(1)
        for x, size in enumerate(sizes, 1):
            count = count * self.sums.padded(size, last=x == len(sizes))
        for _ in range(positions):
            count = count * PITCH
        return count

    def _grid(
        self,
        start: Expression,
        positions: Sequence[Position],
        symbols: Sequence[Symbol],
        sizes: Sequence[Size],
        block: Expression | None = None,
        numbers: Array | None = None,
        adjoint: bool = False,
        items: int = 0,
        of: Expression | None = None,
    ) -> Grid:
        strides = [self.block(sizes[a + 1 :]) for a in range(len(sizes))]
        block, items = self.block(sizes) if block is None else block, 0 if adjoint else items
        return Grid(start, tuple(positions), tuple(symbols), tuple(strides), block, numbers, adjoint, items, of)

    def item(self, ref: Ref, adjoint: bool = False, side: Side | None = None) -> Grid:
        """An item, or the adjoints of it.

        :param side: None: where it is read, and its adjoints are added up.
        """
        sides = self.sides[ref.table]
        if side is None:
            in_row = not ref.positions or ref.positions[0] == I
            side = "column" if not in_row and "column" in sides else sides[0]
        positions = ref.positions[::-1] if side == "column" else ref.positions
        positions = positions[len(positions) - self.num_positions[ref.table] :]
        start, adjoints = (Name(f"{what}.{ref.table}.{side}", "int") for what in ("item", "adjoint"))
        sizes = self.cells.sizes[ref.table]
        if adjoint:
            return self._grid(adjoints, positions, ref.symbols, sizes, adjoint=True, of=start)
        return self._grid(start, positions, ref.symbols, sizes, items=1)

    def items(self, ref: Ref, adjoint: bool = False) -> list[Grid]:
        """All places of an item, or of its adjoints."""
        return [self.item(ref, adjoint, side) for side in self.sides[ref.table]]

    def whole(self, ref: Ref, adjoint: bool = False) -> Grid:
        """An item, or the adjoints of it, by all of its symbols."""
        symbols = tuple(Variable(f"whole{x}", size) for x, size in enumerate(self.cells.sizes[ref.table]))
        return self.item(replace(ref, symbols=symbols), adjoint)

    def weight(self, ref: Ref, posterior: bool = False) -> Grid:
        """A weight, or the sums of its posteriors."""
        w = weight_cells(ref)
        start = Name(f"d{w.name}" if posterior else w.name, "int")
        symbols = [x for x in ref.symbols if isinstance(x, (Variable, Entry))]
        numbers = self.SHARED if self.is_number(w) and not posterior else None
        return self._grid(start, axes(ref), symbols, self.sizes(w), self._block_of(w), numbers)

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
        start = Name(f"{'d' if adjoint else ''}node.{node.number}", "int")
        items = sum(f.is_item for f in node.inner.factors)
        return self._grid(start, cell.positions[:1], node.inner.free, sizes, adjoint=adjoint, items=items)

    def kept(self, x: CellSum) -> Grid:
        """Where the inside pass leaves a sum of a plan for the outside pass."""
        return self._grid(Name(f"kept.{x.number}", "int"), (I, J), (), (), items=sum(f.is_item for f in x.core))

    @contextmanager
    def elements(self, code: Code, w: WeightCells) -> Iterator[Expression]:
        """Loops over the cells of a table of weights within a sentence."""
        block, step, n = self._block_of(w), self.turns(w)[0], Name("n", "int")

        @contextmanager
        def nest(depth: int, index: Expression) -> Iterator[Expression]:
            if depth == 0:
                with code.loop("element", index * block, (index + 1) * block, step) as x:
                    yield x
                return
            with code.loop(f"axis.{depth}", 0, n + 1) as x, nest(depth - 1, index * PITCH + x) as cell:
                yield cell

        with nest(w.num_axes, value(0)) as cell:
            yield cell

    def plain(self, w: WeightCells) -> Ref:
        """A weight without positions, at variables for all of its symbols but constants."""
        sizes = self.cells.recursion.tables[w.table].sizes
        indices = enumerate(zip(w.indices, sizes, strict=True))
        symbols = [Constant(x) if isinstance(x, int) else Variable(f"axis{a}", size) for a, (x, size) in indices]
        return Ref(w.table, False, (), tuple(symbols))
