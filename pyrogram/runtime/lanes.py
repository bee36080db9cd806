# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""SIMD lanes as a numba type: a chart cell of several sentences at once.

A dynamic program over one sentence leaves a vector unit idle. With W sentences side by side, every cell is a
vector of W numbers, and the recursion reads as if it were scalar::

    cell = fma(load(left, i), load(right, j), cell)

W is 8 in float64 and 16 in float32 (512 bits); LLVM splits the vectors on narrower machines. Arrays are
one-dimensional and *indexed in cells*: cell i occupies the elements i * W .. i * W + W - 1.
"""

import math
import operator
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, overload, register_model

from pyrogram.runtime.bounds import check_elements

WIDTHS = {types.float64: 8, types.float32: 16}


class Lanes(types.Type):
    """W numbers of one dtype in a vector register."""

    def __init__(self, dtype: types.Float) -> None:
        self.dtype = dtype
        self.width = WIDTHS[dtype]
        super().__init__(name=f"Lanes({dtype})")


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Lanes) -> None:
        element = ir.DoubleType() if fe_type.dtype == types.float64 else ir.FloatType()
        super().__init__(dmm, fe_type, ir.VectorType(element, fe_type.width))


def _int_type(lanes: Lanes) -> ir.VectorType:
    return ir.VectorType(ir.IntType(lanes.dtype.bitwidth), lanes.width)


def _constant(vector: ir.VectorType, value: float) -> ir.Constant:
    return ir.Constant(vector, [value] * vector.count)


def _address(context: Any, builder: Any, array_type: Any, array: Any, index: Any, vector: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    offset = builder.mul(index, ir.Constant(index.type, vector.count))
    check_elements(context, builder, array_type, array, offset, vector.count)
    return builder.bitcast(builder.gep(data, [offset]), vector.as_pointer())


@intrinsic
def load(typingctx: Any, array: Any, i: Any) -> Any:
    """The lanes of cell i."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = context.get_value_type(signature.return_type)
        address = _address(context, builder, signature.args[0], args[0], args[1], vector)
        return builder.load(address, align=array.dtype.bitwidth // 8)

    return Lanes(array.dtype)(array, types.intp), codegen


@intrinsic
def store(typingctx: Any, array: Any, i: Any, lanes: Any) -> Any:
    """Write the lanes of cell i."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = context.get_value_type(signature.args[2])
        address = _address(context, builder, signature.args[0], args[0], args[1], vector)
        builder.store(args[2], address, align=array.dtype.bitwidth // 8)

    return types.void(array, types.intp, lanes), codegen


@intrinsic
def fill(typingctx: Any, array: Any, value: Any) -> Any:
    """The same number in every lane, in the dtype of ``array``."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = context.get_value_type(signature.return_type)
        undefined = ir.Constant(vector, ir.Undefined)
        first = builder.insert_element(undefined, args[1], ir.Constant(ir.IntType(32), 0))
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), [0] * vector.count)
        return builder.shuffle_vector(first, undefined, zeros)

    return Lanes(array.dtype)(array, array.dtype), codegen


def _llvm_function(name: str, arity: int) -> Any:
    """An intrinsic of LLVM that works lane by lane."""

    def typer(lanes: Any, *rest: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            vector = context.get_value_type(lanes)
            kind = ir.FunctionType(vector, [vector] * arity)
            full_name = f"llvm.{name}.v{vector.count}f{lanes.dtype.bitwidth}"
            return builder.call(cgutils.get_or_insert_function(builder.module, kind, full_name), args)

        return lanes(*[lanes] * arity), codegen

    return typer


@intrinsic
def fma(typingctx: Any, a: Any, b: Any, c: Any) -> Any:
    """a * b + c."""
    return _llvm_function("fma", 3)(a, b, c)


@intrinsic
def maximum(typingctx: Any, a: Any, b: Any) -> Any:
    """The greater of two numbers, per lane; b where a is NaN."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.select(builder.fcmp_ordered(">", *args), *args)

    return a(a, b), codegen


@intrinsic
def is_zero(typingctx: Any, a: Any) -> Any:
    """1 where a is zero, else 0, per lane."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = context.get_value_type(a)
        zero, one = _constant(vector, 0.0), _constant(vector, 1.0)
        return builder.select(builder.fcmp_ordered("==", args[0], zero), one, zero)

    return a(a), codegen


def _arithmetic(operation: Any, instruction: str) -> Any:
    @intrinsic
    def lanewise(typingctx: Any, a: Any, b: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return getattr(builder, instruction)(*args)

        return a(a, b), codegen

    @overload(operation, inline="always")
    def _(a, b):  # type: ignore[no-untyped-def]  # numba compares signatures, annotations too
        if isinstance(a, Lanes) and isinstance(b, Lanes):
            return lambda a, b: lanewise(a, b)


_arithmetic(operator.add, "fadd")
_arithmetic(operator.sub, "fsub")
_arithmetic(operator.mul, "fmul")
_arithmetic(operator.truediv, "fdiv")


def _exchange(builder: Any, rows: Any) -> Any:
    """Transpose 8 vectors of 8 elements, or of two times 8, in three rounds of swaps."""
    for k in (1, 2, 4):
        for r in range(8):
            if r & k:
                continue
            first, second, width = rows[r], rows[r + k], rows[r].type.count
            picks = [(width + j - k if j & k else j, width + j if j & k else j + k) for j in range(width)]
            for row, pick in ((r, [p[0] for p in picks]), (r + k, [p[1] for p in picks])):
                mask = ir.Constant(ir.VectorType(ir.IntType(32), width), pick)
                rows[row] = builder.shuffle_vector(first, second, mask)


def _eight_of(
    context: Any, builder: Any, array_type: Any, array: Any, offsets_type: Any, offsets: Any, start: Any, lane: Any
) -> Any:
    """Where the eight elements of a lane lie: from ``offsets[lane] + start`` on in a contiguous array."""
    places = context.make_array(offsets_type)(context, builder, offsets).data
    number = ir.Constant(ir.IntType(64), lane)
    check_elements(context, builder, offsets_type, offsets, number, 1)
    first = builder.add(builder.load(builder.gep(places, [number])), start)
    check_elements(context, builder, array_type, array, first, 8)
    data = context.make_array(array_type)(context, builder, array).data
    address = builder.gep(data, [first])
    return builder.bitcast(address, ir.VectorType(data.type.pointee, 8).as_pointer())


def _resized(builder: Any, value: Any, vector: Any) -> Any:
    """Eight floats as eight doubles or the reverse."""
    kind = ir.VectorType(vector.element, 8)
    if value.type == kind:
        return value
    return builder.fpext(value, kind) if vector.element == ir.DoubleType() else builder.fptrunc(value, kind)


@intrinsic
def gather_cells(typingctx: Any, array: Any, i: Any, source: Any, offsets: Any, start: Any) -> Any:
    """Cells i .. i + 7 from eight neighbours of every lane: element t of the lanes is source[offsets + start + t]."""
    width = WIDTHS[array.dtype]

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = context.get_value_type(Lanes(array.dtype))
        eights = []
        for lane in range(width):
            address = _eight_of(context, builder, source, args[2], offsets, args[3], args[4], lane)
            value = builder.load(address, align=source.dtype.bitwidth // 8)
            eights.append(_resized(builder, value, vector))
        if width == 16:
            joined = ir.Constant(ir.VectorType(ir.IntType(32), 16), list(range(16)))
            eights = [builder.shuffle_vector(eights[r], eights[r + 8], joined) for r in range(8)]
        _exchange(builder, eights)
        for t in range(8):
            cell = builder.add(args[1], ir.Constant(args[1].type, t))
            address = _address(context, builder, array, args[0], cell, vector)
            builder.store(eights[t], address, align=array.dtype.bitwidth // 8)

    return types.void(array, types.intp, source, offsets, types.intp), codegen


@intrinsic
def scatter_cells(typingctx: Any, array: Any, i: Any, target: Any, offsets: Any, start: Any) -> Any:
    """The reverse of :func:`gather_cells`: target[offsets + start + t] becomes element t of cells i .. i + 7."""
    width = WIDTHS[array.dtype]

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = context.get_value_type(Lanes(array.dtype))
        rows = []
        for t in range(8):
            cell = builder.add(args[1], ir.Constant(args[1].type, t))
            address = _address(context, builder, array, args[0], cell, vector)
            rows.append(builder.load(address, align=array.dtype.bitwidth // 8))
        _exchange(builder, rows)
        wanted = ir.VectorType(context.get_data_type(target.dtype), 8)
        for lane in range(width):
            value = rows[lane % 8]
            if width == 16:
                half = ir.Constant(ir.VectorType(ir.IntType(32), 8), list(range(lane // 8 * 8, lane // 8 * 8 + 8)))
                value = builder.shuffle_vector(value, value, half)
            address = _eight_of(context, builder, target, args[2], offsets, args[3], args[4], lane)
            builder.store(_resized(builder, value, wanted), address, align=target.dtype.bitwidth // 8)

    return types.void(array, types.intp, target, offsets, types.intp), codegen


# exp(x) = 2**k * exp(r), |r| <= log(2)/2, by a Taylor polynomial whose first dropped term is below half a
# unit in the last place: 0.3466**14 / 14! = 4e-18 in float64, 0.3466**8 / 8! = 5e-9 in float32.
_DEGREES = {types.float64: 13, types.float32: 7}
# log(2) in two parts, so that k * log(2) loses nothing.
_LOG2 = {
    types.float64: (0.693145751953125, 1.42860682030941723212e-6),
    types.float32: (0.693359375, -2.12194440e-4),
}


@intrinsic
def exp(typingctx: Any, x: Any) -> Any:
    """exp(x) for x <= 0, to about one unit in the last place; 0 below the normal range; NaN stays NaN."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector, integers = context.get_value_type(x), _int_type(x)
        mantissa_bits, bias, lowest = (52, 1023, -708.0) if x.dtype == types.float64 else (23, 127, -87.0)

        def call(name: Any, arity: Any, *operands: Any) -> Any:
            return _llvm_function(name, arity)(x)[1](context, builder, signature, operands)

        def constant(value: Any) -> Any:
            return _constant(vector, value)

        value = args[0]
        k = call("rint", 1, builder.fmul(value, constant(1 / math.log(2))))
        high, low = _LOG2[x.dtype]
        r = call("fma", 3, k, constant(-high), value)
        r = call("fma", 3, k, constant(-low), r)
        degree = _DEGREES[x.dtype]
        polynomial = constant(1 / math.factorial(degree))
        for d in range(degree - 1, -1, -1):
            polynomial = call("fma", 3, polynomial, r, constant(1 / math.factorial(d)))
        # Out of range, k is nonsense; the select below discards it.
        inside = builder.fcmp_ordered(">=", value, constant(lowest))
        k = builder.select(inside, k, constant(0.0))
        biased = builder.add(builder.fptosi(k, integers), _constant(integers, bias))
        scale = builder.bitcast(builder.shl(biased, _constant(integers, mantissa_bits)), vector)
        result = builder.select(inside, builder.fmul(polynomial, scale), constant(0.0))
        is_nan = builder.fcmp_unordered("uno", value, value)
        return builder.select(is_nan, value, result)

    return x(x), codegen


@intrinsic
def log(typingctx: Any, a: Any) -> Any:
    """log of positive normal numbers in float64, to about one unit in the last place; NaN of all others.

    a = 2**k * x with x in sqrt(1/2) .. sqrt(2), and log x = 2 artanh((x - 1) / (x + 1)) by its series, whose
    first dropped term is below 0.1716**23 / 23 = 1e-19.
    """
    if a.dtype != types.float64:
        raise TypeError("log takes lanes of float64")

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = args[0].type
        integers = ir.VectorType(ir.IntType(64), vector.count)
        kind = ir.FunctionType(vector, [vector] * 3)
        fused = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fma.v{vector.count}f64")

        def constant(value: Any) -> Any:
            return ir.Constant(vector, [value] * vector.count)

        def integer(value: Any) -> Any:
            return ir.Constant(integers, [value] * vector.count)

        # The bits of sqrt(1/2) are taken off, so that the exponent changes there and not at one.
        bits = builder.bitcast(args[0], integers)
        shifted = builder.sub(bits, integer(0x3FE6A09E667F3BCD))
        exponent = builder.ashr(shifted, integer(52))
        x = builder.bitcast(builder.sub(bits, builder.shl(exponent, integer(52))), vector)
        k = builder.sitofp(exponent, vector)
        s = builder.fdiv(builder.fsub(x, constant(1.0)), builder.fadd(x, constant(1.0)))
        square = builder.fmul(s, s)
        series = constant(1 / 21)
        for d in range(19, 1, -2):
            series = builder.call(fused, [series, square, constant(1 / d)])
        twice = builder.fadd(s, s)
        series = builder.call(fused, [builder.fmul(series, square), twice, twice])
        result = builder.call(fused, [k, constant(1.42860682030941723212e-6), series])
        result = builder.call(fused, [k, constant(0.693145751953125), result])
        good = builder.and_(
            builder.fcmp_ordered(">=", args[0], constant(2.0**-1022)),
            builder.fcmp_ordered("<", args[0], constant(math.inf)),
        )
        return builder.select(good, result, constant(math.nan))

    return a(a), codegen
