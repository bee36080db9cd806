# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Linear algebra and choices in SIMD lanes: eight small symmetric systems at a time.

Numbers lie in cells of :mod:`pyrogram.runtime.lanes`; a symmetric matrix is its lower triangle, row by row.
"""

from typing import Any

from llvmlite import ir
from numba import njit
from numba.extending import intrinsic

from pyrogram.runtime.arrays import Array, Lanes
from pyrogram.runtime.lanes import fill, fma, load, maximum, store

WIDTH = 8


@intrinsic
def choose(typingctx: Any, a: Any, b: Any, yes: Any, no: Any) -> Any:
    """``yes`` in the lanes where a < b, else ``no``; also where a or b is NaN."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.select(builder.fcmp_ordered("<", args[0], args[1]), args[2], args[3])

    return a(a, b, yes, no), codegen


@intrinsic
def greatest(typingctx: Any, a: Any) -> Any:
    """The greatest number of all lanes."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = args[0]
        while vector.type.count > 1:
            half = vector.type.count // 2
            low, high = (
                builder.shuffle_vector(
                    vector,
                    ir.Constant(vector.type, ir.Undefined),
                    ir.Constant(ir.VectorType(ir.IntType(32), half), list(range(begin, begin + half))),
                )
                for begin in (0, half)
            )
            vector = builder.select(builder.fcmp_ordered(">", low, high), low, high)
        return builder.extract_element(vector, ir.Constant(ir.IntType(32), 0))

    return a.dtype(a), codegen


@njit(nogil=True, forceinline=True)
def least(mem: Array, a: Lanes, b: Lanes) -> Lanes:
    """The smaller of two numbers, per lane; b where a is NaN."""
    return choose(a, b, a, b)


@njit(nogil=True, forceinline=True)
def zeros(mem: Array, cell: int, count: int) -> None:
    """Write zeros to so many cells."""
    zero = fill(mem, 0.0)
    for i in range(cell, cell + count):
        store(mem, i, zero)


@njit(nogil=True)
def times_symmetric(mem: Array, matrix: int, vector: int, out: int, n: int) -> None:
    """out = matrix vector."""
    for i in range(n):
        row = matrix + i * (i + 1) // 2
        factor = load(mem, vector + i)
        total = load(mem, row + i) * factor
        for j in range(i):
            entry = load(mem, row + j)
            total = fma(entry, load(mem, vector + j), total)
            store(mem, out + j, fma(entry, factor, load(mem, out + j)))
        store(mem, out + i, total)


@njit(nogil=True)
def factorise(mem: Array, matrix: int, pivot: int, n: int) -> None:
    """L D L' in place: L below the diagonal, which is one; ``pivot`` holds the least pivots to allow, then 1 / D."""
    one = fill(mem, 1.0)
    for j in range(n):
        inverse = one / maximum(load(mem, matrix + j * (j + 1) // 2 + j), load(mem, pivot + j))
        store(mem, pivot + j, inverse)
        for i in range(j + 1, n):
            row = matrix + i * (i + 1) // 2
            l = load(mem, row + j) * inverse
            for k in range(j + 1, i + 1):  # column j is still L D
                store(mem, row + k, load(mem, row + k) - l * load(mem, matrix + k * (k + 1) // 2 + j))
        for i in range(j + 1, n):
            place = matrix + i * (i + 1) // 2 + j
            store(mem, place, load(mem, place) * inverse)


@njit(nogil=True)
def forward(mem: Array, factor: int, vector: int, n: int) -> None:
    """vector = L^-1 vector."""
    for i in range(1, n):
        row = factor + i * (i + 1) // 2
        total = load(mem, vector + i)
        for j in range(i):
            total = total - load(mem, row + j) * load(mem, vector + j)
        store(mem, vector + i, total)


@njit(nogil=True)
def backward(mem: Array, factor: int, vector: int, n: int) -> None:
    """vector = L'^-1 vector."""
    for i in range(n - 1, 0, -1):
        row = factor + i * (i + 1) // 2
        value = load(mem, vector + i)
        for j in range(i):
            store(mem, vector + j, load(mem, vector + j) - load(mem, row + j) * value)
