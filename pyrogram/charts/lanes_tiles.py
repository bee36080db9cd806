# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Small matrix products whose elements are lanes (see :mod:`.runtime.lanes`): what charts of dense grammars do most.

A cell that is loaded should take part in several products, or loads bound the time. So up to four rows and four columns
are done at once, with all sums in registers. There is machine code for every number of rows and columns up to four,
and each function here chooses among it. Rows and columns come from tables of integers, as :mod:`.cfg_tiles_plan`
makes them.
"""

# mypy: disable-error-code="no-untyped-def"
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from pyrogram.charts.runtime.bounds import check_address
from pyrogram.charts.runtime.lanes import Lanes, _llvm_function

MOST = 4  # rows and columns of a tile
_INT = ir.IntType(64)


class _Tile:
    """What code for a tile writes: loads and stores of cells, products, loops."""

    def __init__(self, context, builder, signature, args, names):
        self.builder, self._context = builder, context
        self._types = dict(zip(names, signature.args, strict=True))
        self._args = dict(zip(names, args, strict=True))
        lanes = Lanes(self._types["mem"].dtype)
        self._vector = context.get_value_type(lanes)
        self._fma = _llvm_function("fma", 3)(lanes)[1]

    def __getattr__(self, name):
        """An argument that is a number."""
        return self._args[name]

    def at(self, base, *offsets):
        """A sum of numbers."""
        for offset in offsets:
            base = self.builder.add(base, offset if isinstance(offset, ir.Value) else ir.Constant(_INT, offset))
        return base

    def times(self, a, b):
        return self.builder.mul(a, b if isinstance(b, ir.Value) else ir.Constant(_INT, b))

    def data(self, array):
        """Where the elements of an argument that is a contiguous array begin."""
        return self._context.data_model_manager[self._types[array]].get(self.builder, self._args[array], "data")

    def integer(self, table, index):
        """An element of a contiguous array of integers, by its flat index."""
        return self.load(self.builder.gep(self.data(table), [index]), table)

    def row(self, table, row, width):
        """A function from columns to the elements of a row."""
        first = self.builder.gep(self.data(table), [self.times(row, width)])
        return lambda column: self.load(self.beyond(first, column), table)

    def cell(self, *offsets, array="mem"):
        """Where a cell lies; offsets are summed."""
        cells = self.builder.bitcast(self.data(array), self._vector.as_pointer())
        return self.beyond(cells, self.at(*offsets))

    def beyond(self, place, count):
        """So many cells or elements after a place."""
        return self.builder.gep(place, [count if isinstance(count, ir.Value) else ir.Constant(_INT, count)])

    def load(self, place, array="mem"):
        check_address(self._context, self.builder, self._types[array], self._args[array], place)
        return self.builder.load(place, align=8)

    def store(self, place, value):
        check_address(self._context, self.builder, self._types["mem"], self._args["mem"], place)
        self.builder.store(value, place, align=8)

    def weights_from(self, q):
        """A function from numbers i to weight q + i: of every lane its own, (W, 8), or one for all, (W,)."""
        if self._types["weights"].ndim == 2:
            own = self.cell(q, array="weights")
            return lambda i: self.load(self.beyond(own, i), "weights")
        first = self.builder.gep(self.data("weights"), [q])
        return lambda i: self._spread(self.load(self.beyond(first, i), "weights"))

    def _spread(self, value):
        """The same number in every lane."""
        undefined = ir.Constant(self._vector, ir.Undefined)
        one = self.builder.insert_element(undefined, value, ir.Constant(ir.IntType(32), 0))
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), self._vector.count), [0] * self._vector.count)
        return self.builder.shuffle_vector(one, undefined, zeros)

    @property
    def zero(self):
        return ir.Constant(self._vector, [0.0] * self._vector.count)

    def fma(self, a, b, c):
        return self._fma(self._context, self.builder, None, (a, b, c))

    def loop(self, first, end, carried, body):
        """for i in range(first, end), with values that are carried from turn to turn; returns them."""
        builder, before = self.builder, self.builder.block
        head, turn, after = (builder.append_basic_block(name) for name in ("head", "turn", "after"))
        builder.branch(head)
        builder.position_at_end(head)
        i, *values = phis = [builder.phi(value.type) for value in (first, *carried)]
        for phi, value in zip(phis, (first, *carried), strict=True):
            phi.add_incoming(value, before)
        builder.cbranch(builder.icmp_signed("<", i, end), turn, after)
        builder.position_at_end(turn)
        new = [self.at(i, 1), *body(i, values)]
        for phi, value in zip(phis, new, strict=True):
            phi.add_incoming(value, builder.block)
        builder.branch(head)
        builder.position_at_end(after)
        return values


def _for_every_size(names, size_of):
    """Make an intrinsic of a function that writes the code of a tile, given its numbers of rows and columns."""

    def decorate(write):
        def codegen(context, builder, signature, args):
            tile = _Tile(context, builder, signature, args, names)
            # Or LLVM unrolls all loops, which takes most of the time to compile and gains nothing.
            builder.function.attributes.add("optsize")
            rows, columns = size_of(tile)
            done = builder.append_basic_block("done")
            choice = builder.switch(tile.at(tile.times(rows, MOST), columns), done)
            for r in range(1, MOST + 1):
                for c in range(1, MOST + 1):
                    block = builder.append_basic_block(f"tile{r}{c}")
                    choice.add_case(ir.Constant(_INT, r * MOST + c), block)
                    builder.position_at_end(block)
                    write(tile, range(r), range(c))
                    builder.branch(done)
            builder.position_at_end(done)
            return context.get_dummy_value()

        return codegen

    return decorate


def _signature(*given: Any) -> Any:
    """Numbers are int64, whatever they were."""
    return types.void(*(types.int64 if isinstance(t, types.Integer) else t for t in given))


_GROUP, _BLOCK = 8, 12  # columns of the tables


@intrinsic
def apply_rules(typingctx, mem, groups, g, columns, y, step, x, entries, weights):
    """Add weights times products to the cells of the parents of group g, in some spans.

    ``y`` is where the first span's cells begin, ``step`` is to the next span; the products of a pair are four cells,
    those of these spans, at ``x`` + its entry.
    """
    names = ("mem", "groups", "g", "columns", "y", "step", "x", "entries", "weights")

    def write(t, R, C):
        group = t.row("groups", t.g, _GROUP)
        steps = [t.times(t.step, c) for c in C]
        cells = [t.beyond(t.cell(t.y, group(1 + r)), step) for r in R for step in steps]
        products = t.cell(t.x)

        def add(e, carried):
            q, sums = carried[0], carried[1:]
            first, w = t.beyond(products, t.integer("entries", e)), t.weights_from(q)
            x = [t.load(t.beyond(first, c)) for c in C]
            new = []
            for r in R:
                here = w(r)
                new += [t.fma(here, x[c], sums[r * len(C) + c]) for c in C]
            return [t.at(q, len(R)), *new]

        found = t.loop(group(5), group(6), [group(7), *(t.load(cell) for cell in cells)], add)[1:]
        for cell, value in zip(cells, found, strict=True):
            t.store(cell, value)

    codegen = _for_every_size(names, lambda t: (t.row("groups", t.g, _GROUP)(0), t.columns))(write)
    return _signature(mem, groups, g, columns, y, step, x, entries, weights), codegen


@intrinsic
def open_rules(typingctx, mem, groups, g, columns, d, step, x, dx, counts, entries, weights):
    """The reverse of :func:`apply_rules`: from the adjoints ``d`` of cells to those of products, and to counts.

    Counts are without the weights.
    """
    names = ("mem", "groups", "g", "columns", "d", "step", "x", "dx", "counts", "entries", "weights")

    def write(t, R, C):
        group = t.row("groups", t.g, _GROUP)
        steps = [t.times(t.step, c) for c in C]
        rows = [t.cell(t.d, group(1 + r)) for r in R]
        d = [[t.load(t.beyond(row, step)) for step in steps] for row in rows]
        products, adjoints, first = t.cell(t.x), t.cell(t.dx), t.cell(t.counts)

        def add(e, carried):
            (q,) = carried
            entry, w, counts = t.integer("entries", e), t.weights_from(q), t.beyond(first, q)
            own, to = t.beyond(products, entry), t.beyond(adjoints, entry)
            x = [t.load(t.beyond(own, c)) for c in C]
            dx = [t.load(t.beyond(to, c)) for c in C]
            for r in R:
                here, place = w(r), t.beyond(counts, r)
                count = t.load(place)
                for c in C:
                    dx[c] = t.fma(here, d[r][c], dx[c])
                    count = t.fma(x[c], d[r][c], count)
                t.store(place, count)
            for c in C:
                t.store(t.beyond(to, c), dx[c])
            return [t.at(q, len(R))]

        t.loop(group(5), group(6), [group(7)], add)

    codegen = _for_every_size(names, lambda t: (t.row("groups", t.g, _GROUP)(0), t.columns))(write)
    return _signature(mem, groups, g, columns, d, step, x, dx, counts, entries, weights), codegen


@intrinsic
def multiply_pairs(typingctx, mem, blocks, b, left, right, left_step, right_step, count, x):
    """Sums over ``count`` splits of a span of left times right cells, for all pairs of block b, to every fourth cell.

    ``left`` and ``right`` are where the cells of the first split begin, the steps are to the next split.
    """
    names = ("mem", "blocks", "b", "left", "right", "left_step", "right_step", "count", "x")

    def write(t, R, C):
        block = t.row("blocks", t.b, _BLOCK)
        lefts, rights = [t.cell(t.left, block(2 + r)) for r in R], [t.cell(t.right, block(6 + c)) for c in C]

        def add(i, carried):
            at, back, sums = carried[0], carried[1], carried[2:]
            a = [t.load(t.beyond(left, at)) for left in lefts]
            b = [t.load(t.beyond(right, back)) for right in rights]
            new = [t.fma(a[r], b[c], sums[r * len(C) + c]) for r in R for c in C]
            return [t.at(at, t.left_step), t.at(back, t.right_step), *new]

        none = ir.Constant(_INT, 0)
        found = t.loop(none, t.count, [none, none, *([t.zero] * (len(R) * len(C)))], add)[2:]
        first = t.cell(t.x, block(10))
        for k, value in enumerate(found):
            t.store(t.beyond(first, k * MOST), value)

    codegen = _for_every_size(names, _size_of_block)(write)
    return _signature(mem, blocks, b, left, right, left_step, right_step, count, x), codegen


@intrinsic
def push_pairs(typingctx, mem, blocks, b, left, right, left_step, right_step, count, outer, dx):
    """The reverse of :func:`multiply_pairs`: from the adjoints of the products to those of left and right cells.

    ``outer`` is from a cell to its adjoint.
    """
    names = ("mem", "blocks", "b", "left", "right", "left_step", "right_step", "count", "outer", "dx")

    def write(t, R, C):
        block = t.row("blocks", t.b, _BLOCK)
        lefts, rights = [t.cell(t.left, block(2 + r)) for r in R], [t.cell(t.right, block(6 + c)) for c in C]
        first = t.cell(t.dx, block(10))
        d = [[t.load(t.beyond(first, (r * len(C) + c) * MOST)) for c in C] for r in R]

        def add(i, carried):
            at, back = carried
            some = [t.beyond(right, back) for right in rights]
            b, to_right = [t.load(right) for right in some], [t.beyond(right, t.outer) for right in some]
            of_right = [t.load(place) for place in to_right]
            for r in R:
                left = t.beyond(lefts[r], at)
                a, to_left = t.load(left), t.beyond(left, t.outer)
                of_left = t.load(to_left)
                for c in C:
                    of_left = t.fma(d[r][c], b[c], of_left)
                    of_right[c] = t.fma(d[r][c], a, of_right[c])
                t.store(to_left, of_left)
            for c in C:
                t.store(to_right[c], of_right[c])
            return [t.at(at, t.left_step), t.at(back, t.right_step)]

        none = ir.Constant(_INT, 0)
        t.loop(none, t.count, [none, none], add)

    codegen = _for_every_size(names, _size_of_block)(write)
    return _signature(mem, blocks, b, left, right, left_step, right_step, count, outer, dx), codegen


def _size_of_block(t):
    block = t.row("blocks", t.b, _BLOCK)
    return block(0), block(1)


@intrinsic
def least_positive(typingctx, a, b):
    """Per lane, a if it is between zero and b, else b."""

    def codegen(context, builder, signature, args):
        zero = ir.Constant(args[0].type, [0.0] * args[0].type.count)
        is_less = builder.and_(builder.fcmp_ordered(">", args[0], zero), builder.fcmp_ordered("<", *args))
        return builder.select(is_less, *args)

    return a(a, b), codegen
