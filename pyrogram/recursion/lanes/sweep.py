# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Inside and outside, for the sentences of a block at once.

Some columns are filled together, row by row, so that they and a row of each table stay in the nearest cache, and in
pairs, so that a row that is loaded serves two cells. The last column of each group is multiplied by a power of two
(:mod:`.scaling`). Everything that is met, cells and adjoints, is summed up: what is flushed to zero cannot have
mattered as long as the sum is below a bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from ..machine.statements import (
    Code,
    Expression,
    Name,
    any_lane,
    equal,
    exponent_of,
    fill,
    greatest,
    least,
    power_of_two,
    real,
    rounded,
    value,
)
from ..rules.bounds import Bounds
from ..rules.cells import Cells, I, J, renamed
from ..rules.domains import ZERO, N
from ..rules.language import Bound, Position, Ref
from .blocks import Block
from .scaling import carriers
from .schedule import CellSum, K, ScheduledCell, ScheduledHead
from .tables import MEMORY, Tables, WeightCells, weight_cells

SCALED_FROM = 12  # columns that may grow or shrink out of range; shorter charts need no scaling


@dataclass
class Options:
    """Which passes are applied.

    :param fuse: one loop for all sums of a cell, or one for each.
    :param pair: two columns at a time.
    :param columns: columns that are filled together, times the length; 0 for as many as fit into a cache of 32 KB with
        their adjoints.
    """

    fuse: bool = True
    pair: bool = True
    columns: int = 0


@dataclass
class Sweep:
    """Code of the inside and of the outside pass. The variable ``n`` is the length of the longest sentence."""

    tables: Tables
    code: Code
    options: Options = field(default_factory=Options)

    def __post_init__(self) -> None:
        self.cells: Cells = self.tables.cells
        self.offsets = carriers(self.cells)
        spans = [s for s in self.tables.scheduled if s.cell.kind == "span"]
        self.fixed = [s for s in spans if s.cell.width is not None]
        self.rest = next((s for s in spans if s.cell.width is None), None)
        self.points = [s for s in self.tables.scheduled if s.cell.kind == "point"]
        self.goal = [s for s in self.tables.scheduled if s.cell.kind == "goal"]
        self.first = self.cells.first
        self.n = Name("n", "int")

    # ------------------------------------------------------------------ inside

    def inside(self) -> None:
        """Fill the chart and Z."""
        code = self.code
        code.set("bound.sum", fill(0.0))
        for name in ("exponent", "grown"):
            code.put(MEMORY, Name(name, "int"), fill(0.0))
        width = code.set("width", greatest(1, value(self.options.columns or self._columns()) // greatest(self.n, 1)))
        code.set("start", self.first)
        with code.loop_while(Name("start", "int") <= self.n):
            end = code.set("end", least(Name("start", "int") + width, self.n + 1))
            with code.loop("at.j", Name("start", "int"), end) as j:
                code.put(MEMORY, Name("factors", "int") + j, fill(1.0))
                for s in self.fixed:
                    with self._fixed(s, j):
                        self._inside_cells(s, [0])
            if self.rest is not None:
                self._inside_rest(self.rest, end)
            with code.loop("at.j", Name("start", "int"), end) as j:
                for s in self.points:
                    with self._point(s, j):
                        self._inside_cells(s, [0])
            if self.offsets is not None and self.rest is not None:
                with code.when(self.n > SCALED_FROM):
                    self._scale(end - 1)
            code.set("start", Name("start", "int") + width)
        self._close()
        code.put(MEMORY, Name("bound", "int"), Name("bound.sum", "lanes"))

    def _columns(self) -> int:
        return 256 // max(1, sum("column" in sides for sides in self.tables.sides.values()))

    def _inside_rest(self, s: ScheduledCell, end: Expression) -> None:
        code, start = self.code, Name("start", "int")
        with code.loop("at.i", end - 1 - s.cell.least, self.first - 1, -1) as i:
            begin = code.set("begin", greatest(start, i + s.cell.least))
            if not self._pairs(s):
                with code.loop("at.j", begin, end):
                    self._inside_cells(s, [0])
                return
            odd = code.set("odd", (end - begin) % 2)
            with code.loop("at.j", begin, begin + odd):
                self._inside_cells(s, [0])
            with code.loop("at.j", begin + odd, end, 2):
                self._inside_cells(s, [0, 1])

    def _pairs(self, s: ScheduledCell) -> bool:
        """Whether two columns can be filled in one loop: if their ranges differ by one k at the end."""
        return self.options.pair and s.low.name != "j" and (s.high.name == "j" or not s.sums)

    def _inside_cells(self, s: ScheduledCell, columns: Sequence[int]) -> None:
        """Cells (i, j + c) for the columns c: common ranges of their sums first, then one after the other."""
        code = self.code
        for x in s.sums:
            for c in columns:
                code.set(f"S{x.number}.{c}", fill(0.0))
        for group in [s.sums] if self.options.fuse else [[x] for x in s.sums]:
            if group:
                with code.loop("at.k", self.tables.at(s.low), self.tables.at(s.high) + 1):
                    block = self._block(s)
                    for x in group:
                        for c in columns:
                            name = f"S{x.number}.{c}"
                            total = block.product([_shifted(f, c) for f in x.core], Name(name, "lanes"))
                            code.set(name, total)
        block = self._block(s)
        for c in columns:
            if c:  # the places of k that the second column has and the first one has not
                for x in s.sums:
                    factors = [renamed(_shifted(f, c), {"k": s.high + 1}) for f in x.core]
                    code.set(f"S{x.number}.{c}", block.product(factors, Name(f"S{x.number}.{c}", "lanes")))
            self._close_cell(s, block, c)
        block.close()

    def _close_cell(self, s: ScheduledCell, block: Block, c: int) -> None:
        code = self.code
        sums: dict[int, Name] = {}
        for step in s.steps:
            if isinstance(step, CellSum):
                total: Expression = Name(f"S{step.number}.{c}", "lanes")
                for factors in step.ends:
                    total = code.let(block.product([_shifted(f, c) for f in factors], total))
                sums[step.number] = code.let(total)
                if step.factored and s.cell.kind == "span":
                    code.put(MEMORY, self._sum_place(s, step, c), sums[step.number])
            else:
                result: Expression | None = None
                for t in step.terms:
                    parts: list[Ref | Name] = [_shifted(f, c) for f in t.factors]
                    parts += [sums[t.sum.number]] if t.sum else []
                    if parts:
                        result = code.let(block.product(parts, result))
                    else:
                        result = fill(1.0) if result is None else result + fill(1.0)
                assert result is not None
                head = code.let(result)
                block.store(_shifted(step.ref, c), head)
                block.met.append(head)

    def _sum_place(self, s: ScheduledCell, x: CellSum, c: int) -> Expression:
        index = Name("at.i", "int") * Name("pitch", "int") + (Name("at.j", "int") + c)
        return Name(f"sum.{self.tables.scheduled.index(s)}.{x.number}", "int") + index

    def _scale(self, column: Expression) -> None:
        """Multiply a column by the power of two that brings the mean exponent of its cells to zero."""
        code, tables = self.code, self.tables
        assert self.offsets is not None and self.rest is not None
        j = code.set("at.j", column)
        heads = [h.ref for h in self.rest.heads]
        code.set("exponents", fill(0.0))
        with code.loop("at.i", self.first, j - self.rest.cell.least + 1):
            total: Expression | None = None
            for ref in heads:
                v = MEMORY[tables.cell(ref)]
                total = v if total is None else total + v
            assert total is not None
            # Clamped, so that one cell does not decide.
            e = least(greatest(exponent_of(total), fill(-24.0)), fill(24.0))
            code.set("exponents", Name("exponents", "lanes") + e)
        mean = real(-1.0) / real(greatest(j, 1))
        code.set("alive", fill(0.0))  # sentences that have ended have no such column
        with code.loop("x", j, self.n + 1) as x:
            code.set("alive", Name("alive", "lanes") + MEMORY[Name("ends", "int") + x])
        e = code.let(rounded(Name("exponents", "lanes") * fill(mean)) * Name("alive", "lanes"))
        f = code.let(power_of_two(e))
        code.add(MEMORY, Name("exponent", "int"), e)
        code.add(MEMORY, Name("grown", "int"), greatest(e, fill(0.0)))
        code.put(MEMORY, Name("factors", "int") + j, f)
        for s in self.fixed:
            assert s.cell.width is not None
            i = code.set("at.i", j - s.cell.width)
            with code.when(i >= self.first):
                for h in s.heads:
                    if s.cell.width >= self.offsets[h.ref.table]:
                        self._scale_cell(h.ref, f)
        with code.loop("at.i", self.first, j - self.rest.cell.least + 1):
            for h in self.rest.heads:
                self._scale_cell(h.ref, f)
            for one in self.rest.sums:
                if one.factored:
                    place = code.let(self._sum_place(self.rest, one, 0))
                    code.put(MEMORY, place, MEMORY[place] * f)
        for s in self.points:
            with self._point(s, j):
                for h in s.heads:
                    self._scale_cell(h.ref, f)

    def _scale_cell(self, ref: Ref, f: Expression) -> None:
        for side in self.tables.sides[ref.table]:
            place = self.code.let(self.tables.cell(ref, side))
            self.code.put(MEMORY, place, MEMORY[place] * f)

    def _close(self) -> None:
        """Z of every lane, where its sentence ends."""
        code = self.code
        code.set("z.sum", fill(0.0))
        with code.loop("at.n", 1, self.n + 1) as m:
            ends = code.let(MEMORY[Name("ends", "int") + m])
            with code.when(any_lane(ends)):
                for s in self.goal:
                    self._goal_value(s)
                code.set("z.sum", Name("z.sum", "lanes") + ends * Name("goal.value", "lanes"))
        code.put(MEMORY, Name("z", "int"), Name("z.sum", "lanes"))

    def _goal_value(self, s: ScheduledCell) -> None:
        code = self.code
        for x in s.sums:
            code.set(f"S{x.number}.0", fill(0.0))
            for factors in x.ends:
                block = self._block(s)
                code.set(f"S{x.number}.0", block.product(factors, Name(f"S{x.number}.0", "lanes")))
            with code.loop("at.k", self.tables.at(s.low), self.tables.at(s.high) + 1):
                block = self._block(s)
                code.set(f"S{x.number}.0", block.product(x.core, Name(f"S{x.number}.0", "lanes")))
        block = self._block(s)
        (head,) = s.heads
        total: Expression | None = None
        for t in head.terms:
            parts: list[Ref | Name] = [*t.factors, *([Name(f"S{t.sum.number}.0", "lanes")] if t.sum else [])]
            total = block.product(parts, total) if parts else (fill(1.0) if total is None else total + fill(1.0))
        assert total is not None
        code.set("goal.value", total)

    # ------------------------------------------------------------------ outside

    def outside(self) -> None:
        """Posteriors of all weights, after :meth:`inside`."""
        code = self.code
        self._clear()
        code.set("bound.sum", MEMORY[Name("bound", "int")])
        z = code.let(MEMORY[Name("z", "int")])
        code.set("inverse", fill(1.0) / z)
        self._open_goal()
        width = Name("width", "int")
        code.set("start", self.first + (self.n - self.first) // width * width)
        with code.loop_while(Name("start", "int") >= self.first):
            end = code.set("end", least(Name("start", "int") + width, self.n + 1))
            with code.loop("at.j", end - 1, Name("start", "int") - 1, -1) as j:
                for s in reversed(self.points):
                    with self._point(s, j):
                        self._outside_cells(s, [0])
            if self.rest is not None:
                self._outside_rest(self.rest, end)
            with code.loop("at.j", end - 1, Name("start", "int") - 1, -1) as j:
                for s in reversed(self.fixed):
                    with self._fixed(s, j):
                        self._outside_cells(s, [0])
            code.set("start", Name("start", "int") - width)
        self._multiply()
        code.put(MEMORY, Name("bound", "int"), Name("bound.sum", "lanes"))

    def _outside_rest(self, s: ScheduledCell, end: Expression) -> None:
        code, start = self.code, Name("start", "int")
        with code.loop("at.i", self.first, end - s.cell.least) as i:
            begin = code.set("begin", greatest(start, i + s.cell.least))
            if not self._pairs(s):
                with code.loop("at.j", end - 1, begin - 1, -1):
                    self._outside_cells(s, [0])
                return
            with code.loop("at.j", end - 1, begin, -2):
                self._outside_cells(s, [0, -1])
            with code.loop("at.j", begin, begin + (end - begin) % 2):
                self._outside_cells(s, [0])

    def _outside_cells(self, s: ScheduledCell, columns: Sequence[int]) -> None:
        code = self.code
        block = self._block(s)
        adjoints: dict[tuple[int, int], Name] = {}
        for c in columns:
            self._open_cell(s, block, c, adjoints)
            if c == 0 and len(columns) == 2:  # the place of k that the next cell is: it is added to before it is read
                for x in s.sums:
                    self._push(block, s, adjoints[x.number, 0], [renamed(f, {"k": s.high}) for f in x.core])
        block.flush()
        block.close()
        high = self.tables.at(s.high) + (1 if len(columns) == 1 else 0)
        for group in [s.sums] if self.options.fuse else [[x] for x in s.sums]:
            if group:
                with code.loop("at.k", self.tables.at(s.low), high):
                    inner = self._block(s)
                    for x in group:
                        for c in columns:
                            self._push(inner, s, adjoints[x.number, c], [_shifted(f, c) for f in x.core])
                    inner.flush()

    def _open_cell(self, s: ScheduledCell, block: Block, c: int, adjoints: dict[tuple[int, int], Name]) -> None:
        """From the adjoints of a cell's heads to those of their factors, and of the cell's sums."""
        code = self.code
        found: dict[int, Expression] = {}
        for step in reversed(s.steps):
            if isinstance(step, CellSum):
                total = adjoints[step.number, c] = code.let(found[step.number])
                for factors in reversed(step.ends):
                    self._push(block, s, total, [_shifted(f, c) for f in factors])
                continue
            if self._is_constant(s, step):
                continue
            g = block.total(_shifted(step.ref, c))
            block.met.append(g)
            for t in reversed(step.terms):
                outer = [_shifted(f, c) for f in t.factors]
                inner = None
                if t.sum is not None and outer:
                    if s.cell.kind == "span":
                        key = f"S{t.sum.number}.{c}"
                        if key not in block.values:
                            block.values[key] = code.let(MEMORY[self._sum_place(s, t.sum, c)])
                        inner = block.values[key]
                    else:
                        inner = self._again(s, t.sum)
                self._push(block, s, g, outer, inner)
                if t.sum is not None:
                    part: list[Ref | Name] = [g, *outer]
                    found[t.sum.number] = code.let(block.product(part, found.get(t.sum.number)))

    def _again(self, s: ScheduledCell, x: CellSum) -> Name:
        """The value of a sum of a point or of the goal, formed once more."""
        code = self.code
        name = f"again{x.number}"
        code.set(name, fill(0.0))
        for factors in x.ends:
            code.set(name, self._block(s).product(factors, Name(name, "lanes")))
        with code.loop("at.k", self.tables.at(s.low), self.tables.at(s.high) + 1):
            code.set(name, self._block(s).product(x.core, Name(name, "lanes")))
        return Name(name, "lanes")

    def _push(self, block: Block, s: ScheduledCell, g: Name, factors: Sequence[Ref], inner: Name | None = None) -> None:
        """The adjoint g of a product, to each of its factors."""
        for x, f in enumerate(factors):
            others: list[Ref | Name] = [*factors[:x], *factors[x + 1 :], *([inner] if inner is not None else [])]
            if f.is_item:
                if not self._is_dead(s, f):
                    block.add(f, g, others)
                continue
            raw = self.code.let(block.product([g, *others]))
            block.met.append(raw)
            if weight_cells(f) in self.tables.unique:
                place = self.tables.cell(f, adjoint=True)
                product = raw * block.value(f)
                self.code.put(MEMORY, place, product)
            else:
                block.add(f, raw, [])

    def _is_constant(self, s: ScheduledCell, head: ScheduledHead) -> bool:
        return all(not t.factors and t.sum is None for t in head.terms)

    def _is_dead(self, s: ScheduledCell, f: Ref) -> bool:
        """Whether a factor is an axiom without weights, whose adjoint nobody reads."""
        a, b = (ZERO, *f.positions)[-2:]
        if len(f.positions) != 2 or a.name != b.name:
            return False
        for other in self.fixed:
            if other.cell.width == b.offset - a.offset:
                heads = [h for h in other.heads if h.ref.table == f.table]
                return all(self._is_constant(other, h) for h in heads)
        return False

    def _open_goal(self) -> None:
        code = self.code
        with code.loop("at.n", 1, self.n + 1) as m:
            ends = code.let(MEMORY[Name("ends", "int") + m])
            with code.when(any_lane(ends)):
                g = code.let(ends * Name("inverse", "lanes"))
                for s in self.goal:
                    (head,) = s.heads
                    for t in head.terms:
                        block = self._block(s)
                        inner = self._again(s, t.sum) if t.sum and t.factors else None
                        self._push(block, s, g, t.factors, inner)
                        share = code.let(block.product([g, *t.factors]))
                        block.flush()
                        block.close()
                        if t.sum is None:
                            continue
                        for ends_factors in t.sum.ends:
                            block = self._block(s)
                            self._push(block, s, share, ends_factors)
                            block.flush()
                            block.close()
                        with code.loop("at.k", self.tables.at(s.low), self.tables.at(s.high) + 1):
                            block = self._block(s)
                            self._push(block, s, share, t.sum.core)
                            block.flush()
                            block.close()

    def _clear(self) -> None:
        """Zero for all adjoints that are sums."""
        code, tables, pitch = self.code, self.tables, Name("pitch", "int")
        zero = fill(0.0)
        rows = [t for t, sides in tables.sides.items() if "row" in sides and self.cells.arity[t] == 2]
        columns = [t for t, sides in tables.sides.items() if "column" in sides]
        with code.loop("x", 0, self.n + 1) as x:
            with code.loop("y", 0, x + 1) as y:
                for t in columns:
                    code.put(MEMORY, Name(f"d{t}.column", "int") + (x * pitch + y), zero)
            with code.loop("y", x, self.n + 1) as y:
                for t in rows:
                    code.put(MEMORY, Name(f"d{t}.row", "int") + (x * pitch + y), zero)
            for t in tables.sides:
                if self.cells.arity[t] == 1:
                    code.put(MEMORY, Name(f"d{t}.row", "int") + x, zero)
        for w in tables.weights:
            if w not in tables.unique:
                with self._elements(w):
                    code.put(MEMORY, Name("element", "int") * tables.turns[w][0] + Name(f"d{w.name}", "int"), zero)

    def _multiply(self) -> None:
        """Posteriors of weights from their adjoints."""
        for w in self.tables.weights:
            if w not in self.tables.unique:
                with self._elements(w):
                    element = self.code.let(Name("element", "int") * self.tables.turns[w][0])
                    place = self.code.let(element + Name(f"d{w.name}", "int"))
                    weight = MEMORY[element + Name(w.name, "int")]
                    self.code.put(MEMORY, place, MEMORY[place] * weight)

    @contextmanager
    def _elements(self, w: WeightCells) -> Iterator[None]:
        """Loops over the elements of a table of weights within a sentence; their number is in ``element``."""
        with self._nest(w.num_axes, value(0), 0):
            yield

    @contextmanager
    def _nest(self, depth: int, index: Expression, level: int) -> Iterator[None]:
        if depth == 0:
            self.code.set("element", index)
            yield
            return
        with (
            self.code.loop(f"axis.{level}", 0, self.n + 1) as x,
            self._nest(depth - 1, index * Name("pitch", "int") + x, level + 1),
        ):
            yield

    # ------------------------------------------------------------------ blocks and cells

    def _block(self, s: ScheduledCell) -> Block:
        limits = [Bound("", "n", -1), *(Position("", self.first) <= J).bounds, *(J <= N).bounds]
        if s.cell.kind == "span":
            limits += (I + s.cell.least <= J).bounds
            if s.cell.width is not None:
                limits += (I + s.cell.width >= J).bounds
        if s.sums:
            limits += [*(s.low <= K).bounds, *(K <= s.high + 1).bounds]

        def distinct(a: tuple[Position, ...], b: tuple[Position, ...]) -> bool:
            equal = [bound for x, y in zip(a, b, strict=True) for bound in (*(x <= y).bounds, *(y <= x).bounds)]
            return not Bounds(["i", "j", "k"], [*limits, *equal]).possible

        return Block(self.tables, self.code, distinct)

    @contextmanager
    def _fixed(self, s: ScheduledCell, j: Expression) -> Iterator[None]:
        assert s.cell.width is not None
        i = self.code.set("at.i", j - s.cell.width)
        with self.code.when(i >= self.first):
            yield

    @contextmanager
    def _point(self, s: ScheduledCell, j: Expression) -> Iterator[None]:
        with self.code.when(equal(j, s.cell.least) if s.cell.width is not None else j >= s.cell.least):
            yield


def _shifted(f: Ref, c: int) -> Ref:
    """The reference for the column c steps from j."""
    return renamed(f, {"j": J + c}) if c else f
