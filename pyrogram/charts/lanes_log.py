# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Logarithms of lanes (see :mod:`pyrogram.charts.runtime.lanes`); float64."""

# mypy: disable-error-code="no-untyped-def"
import math

from llvmlite import ir
from numba.extending import intrinsic

from pyrogram.charts.runtime.lanes import _llvm_function

_TINY = 2.2250738585072014e-308
# The bits of sqrt(1/2): taking them off first puts the mantissa between sqrt(1/2) and sqrt(2).
_ROOT_HALF = 0x3FE6A09E667F3BCD
# log m = 2 artanh(s), s = (m - 1) / (m + 1), |s| <= 0.1716: the first dropped term is 0.0295**11 / 23 = 6e-19.
_TERMS = 11


@intrinsic
def log(typingctx, x):
    """log(x) of finite x >= 0, to about one unit in the last place; what is below the normal range counts as tiny."""

    def codegen(context, builder, signature, args):
        vector = context.get_value_type(x)
        integers = ir.VectorType(ir.IntType(64), x.width)

        def number(value):
            return ir.Constant(vector, [value] * x.width)

        def fma(a, b, c):
            return _llvm_function("fma", 3)(x)[1](context, builder, signature, (a, b, c))

        def whole(value):
            return ir.Constant(integers, [value] * x.width)

        normal = builder.fcmp_ordered(">", args[0], number(_TINY))
        bits = builder.bitcast(builder.select(normal, args[0], number(_TINY)), integers)
        exponent = builder.ashr(builder.sub(bits, whole(_ROOT_HALF)), whole(52))
        mantissa = builder.bitcast(builder.sub(bits, builder.shl(exponent, whole(52))), vector)
        s = builder.fdiv(builder.fsub(mantissa, number(1.0)), builder.fadd(mantissa, number(1.0)))
        square = builder.fmul(s, s)
        series = number(1 / (2 * _TERMS - 1))
        for k in range(_TERMS - 2, -1, -1):
            series = fma(series, square, number(1 / (2 * k + 1)))
        return fma(builder.sitofp(exponent, vector), number(math.log(2.0)), builder.fmul(builder.fadd(s, s), series))

    return x(x), codegen
