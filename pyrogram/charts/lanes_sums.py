# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Sums over the lanes of :mod:`.runtime.lanes`, and eight numbers of either precision in memory as lanes of float64."""

# mypy: disable-error-code="no-untyped-def"
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from pyrogram.charts.runtime.lanes import Lanes, _address

_EIGHT = ir.VectorType(ir.DoubleType(), 8)


@intrinsic
def add_up(typingctx, x):
    """The sum of all lanes, in any order."""

    def codegen(context, builder, signature, args):
        vector = context.get_value_type(x)
        kind = ir.FunctionType(vector.element, [vector.element, vector])
        name = f"llvm.vector.reduce.fadd.v{vector.count}f{x.dtype.bitwidth}"
        function = cgutils.get_or_insert_function(builder.module, kind, name)
        return builder.call(function, [ir.Constant(vector.element, -0.0), args[0]], fastmath=("reassoc",))

    return x.dtype(x), codegen


@intrinsic
def load_eight(typingctx, array, i):
    """Elements 8 i .. 8 i + 7 of an array of float64 or float32."""

    def codegen(context, builder, signature, args):
        vector = ir.VectorType(context.get_value_type(array.dtype), 8)
        address = _address(context, builder, array, args[0], args[1], vector)
        value = builder.load(address, align=array.dtype.bitwidth // 8)
        return value if vector == _EIGHT else builder.fpext(value, _EIGHT)

    return Lanes(types.float64)(array, types.intp), codegen


@intrinsic
def store_eight(typingctx, array, i, lanes):
    """The reverse: rounded, if the array is of float32."""

    def codegen(context, builder, signature, args):
        vector = ir.VectorType(context.get_value_type(array.dtype), 8)
        address = _address(context, builder, array, args[0], args[1], vector)
        value = args[2] if vector == _EIGHT else builder.fptrunc(args[2], vector)
        builder.store(value, address, align=array.dtype.bitwidth // 8)

    return types.void(array, types.intp, Lanes(types.float64)), codegen
