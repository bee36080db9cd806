# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Memory for the cells of :mod:`.lanes`: aligned, and asked for before it is wanted."""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

LINE = 64  # bytes of a cache line, and of a cell


def aligned(size: int, dtype: Any = np.float64) -> Any:
    """So many zeros, the first of which begins a cache line.

    A cell that straddles two lines costs twice as much to load, and far more to load soon after it was stored.
    """
    memory = np.zeros(size + LINE // np.dtype(dtype).itemsize, dtype)
    skip = -memory.ctypes.data % LINE // memory.itemsize
    return memory[skip : skip + size]


@intrinsic
def prefetch(typingctx: Any, array: Any, i: Any) -> Any:
    """Ask for the cache line of element i, to be written soon: a hint that changes nothing, wherever i lies."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(array)(context, builder, args[0]).data
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        place = builder.bitcast(builder.gep(data, [args[1]]), byte)
        write, locality, is_data = (ir.Constant(number, k) for k in (1, 2, 1))  # into the second level
        builder.call(function, [place, write, locality, is_data])
        return context.get_dummy_value()

    return types.void(array, types.intp), codegen
