# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""What :mod:`.hmm_sweeps_chain` needs beside :mod:`.lanes`: aligned memory, transposed sums, fetching ahead."""

# mypy: disable-error-code="no-untyped-def"
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .hmm_lanes import WIDTH
from .lanes import _address


def aligned(size: int) -> Any:
    """Zeros that begin a cache line, lest every cell lie in two."""
    memory = np.zeros(size + WIDTH)
    return memory[-memory.ctypes.data % 64 // 8 :][:size]


@intrinsic
def sums_of_eight(typingctx, a, b, c, d, e, f, g, h):
    """The sums of the lanes of eight, as lanes."""

    def codegen(context, builder, signature, args):
        rows = list(args)
        while len(rows) > 1:
            half = len(rows) // 2
            # Of the first row, the lanes whose number has this bit are added to those without; of the second, likewise.
            without = [8 + lane - half if lane & half else lane for lane in range(8)]
            picks = [
                ir.Constant(ir.VectorType(ir.IntType(32), 8), lanes)
                for lanes in (without, [lane + half for lane in without])
            ]
            pairs = zip(rows[:half], rows[half:], strict=True)
            rows = [builder.fadd(*(builder.shuffle_vector(*pair, pick) for pick in picks)) for pair in pairs]
        return rows[0]

    return a(a, b, c, d, e, f, g, h), codegen


@intrinsic
def fetch(typingctx, array, i):
    """Bring cell i nearer, into the second-level cache."""

    def codegen(context, builder, signature, args):
        vector = ir.VectorType(ir.DoubleType(), 8)
        address = _address(context, builder, array, args[0], args[1], vector)
        place = builder.bitcast(address, ir.IntType(8).as_pointer())
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [place.type, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        builder.call(function, [place, *(ir.Constant(number, x) for x in (0, 2, 1))])

    return types.void(array, types.intp), codegen
