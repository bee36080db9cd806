# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Bounds of compiled code, checked where numba checks its own: of arrays, and of tables that share an array.

Numba checks indices if the environment variable ``NUMBA_BOUNDSCHECK`` is 1 when code is compiled. Compiled code that is
kept does not say how it was compiled: give checked code a cache of its own (``NUMBA_CACHE_DIR``), as ``.ci/checked``
does.

Loads and stores that bypass numba's indexing are checked here. The tables of a chart lie one behind the other in one
array, of whose bounds an index that leaves its table knows nothing. So where bounds are checked, a *red zone* lies
behind every table, and to read a number there, or to write one, is an IndexError.
"""

import mmap
import operator
from collections.abc import Iterable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils, config
from numba.extending import lower_builtin
from numba.np import arrayobj

ZONE = 256  # cells of a red zone, of 64 bytes: some rows of a table, for an index may be a row too far
# A red zone is full of NaNs that no arithmetic makes: they say where they lie. So what is found elsewhere, in memory
# that is not written yet, cannot pass for one. By the bits of a number: the first bits, and those of its address.
_POISON = {64: (0x7FFA_0000_0000_0000, 0xFFFF_FFFF_FFFF), 32: (0x7FE0_0000, 0x1F_FFFF)}
_ZERO = ir.Constant(ir.IntType(32), 0)


def room(cells: int) -> int:
    """The cells that a table takes up in an array of several: its own, and where bounds are checked a red zone."""
    return cells + ZONE if cells and config.BOUNDSCHECK else cells


def guarded(memory: Any, ends: Iterable[int]) -> Any:
    """The memory of several tables, zeros; where bounds are checked, with red zones before the cells ``ends``.

    :param ends: where a table and its :func:`room` end: where each of the tables begins, and where the last one ends.
    """
    if not config.BOUNDSCHECK:
        return memory
    # Pages of its own, which nobody else gets afterwards, red zones and all.
    memory = np.frombuffer(mmap.mmap(-1, memory.nbytes), memory.dtype)
    first, where = _POISON[8 * memory.itemsize]
    addresses = memory.ctypes.data + memory.itemsize * np.arange(memory.size)
    bits, cell = memory.view(f"i{memory.itemsize}"), 64 // memory.itemsize
    for end in ends:
        zone = slice(max(end - ZONE, 0) * cell, end * cell)
        bits[zone] = first | addresses[zone] & where
    return memory


def check_elements(context: Any, builder: Any, array_type: Any, array: Any, first: Any, count: int) -> None:
    """Raise an IndexError unless a contiguous array has the elements ``first`` .. ``first + count - 1``, in a table."""
    if not config.BOUNDSCHECK:
        return
    view = context.make_array(array_type)(context, builder, array)
    end = builder.add(first, ir.Constant(first.type, count))
    below = builder.icmp_signed("<", first, ir.Constant(first.type, 0))
    with builder.if_then(builder.or_(below, builder.icmp_signed(">", end, view.nitems)), likely=False):
        message = "compiled code loads or stores beyond the bounds of an array"
        context.call_conv.return_user_exc(builder, IndexError, (message,))
    if isinstance(array_type.dtype, types.Float):
        _check_numbers(context, builder, builder.gep(view.data, [first]), count)


def _check_numbers(context: Any, builder: Any, address: Any, count: int) -> None:
    """Raise an IndexError if any of so many numbers at an address lies in a red zone."""
    bits = 32 if address.type.pointee == ir.FloatType() else 64
    vector, long = (ir.VectorType(ir.IntType(b), count) for b in (bits, 64))
    loaded = builder.load(builder.bitcast(address, vector.as_pointer()), align=bits // 8)
    start = builder.insert_element(ir.Constant(long, ir.Undefined), builder.ptrtoint(address, long.element), _ZERO)
    start = builder.shuffle_vector(start, start, ir.Constant(ir.VectorType(ir.IntType(32), count), [0] * count))
    places = builder.add(start, ir.Constant(long, [k * bits // 8 for k in range(count)]))
    first, where = (ir.Constant(long, [part] * count) for part in _POISON[bits])
    poison = builder.or_(first, builder.and_(places, where))
    poisoned = builder.icmp_unsigned("==", loaded, poison if bits == 64 else builder.trunc(poison, vector))
    whole = ir.IntType(count)
    anywhere = builder.icmp_unsigned("!=", builder.bitcast(poisoned, whole), ir.Constant(whole, 0))
    with builder.if_then(anywhere, likely=False):
        message = "compiled code loads or stores beyond the bounds of a table"
        context.call_conv.return_user_exc(builder, IndexError, (message,))


def _check_item(context: Any, builder: Any, array_type: Any, array: Any, index_type: Any, index: Any) -> None:
    """The same for an element of a vector, whose index numba has checked."""
    if array_type.ndim == 1 and isinstance(array_type.dtype, types.Float):
        view = context.make_array(array_type)(context, builder, array)
        place = context.cast(builder, index, index_type, types.intp)
        address = cgutils.get_item_pointer(context, builder, array_type, view, [place], wraparound=True)
        _check_numbers(context, builder, address, 1)


if config.BOUNDSCHECK:  # numba's own indexing

    @lower_builtin(operator.getitem, types.Array, types.Integer)
    def _getitem(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        loaded = arrayobj.getitem_arraynd_intp(context, builder, signature, args)
        _check_item(context, builder, signature.args[0], args[0], signature.args[1], args[1])
        return loaded

    @lower_builtin(operator.setitem, types.Array, types.Integer, types.Any)
    def _setitem(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array, index, _ = signature.args
        if array.ndim == 1:  # numba checks the bounds of the array when it reads
            _getitem(context, builder, array.dtype(array, index), args[:2])
        return arrayobj.setitem_array(context, builder, signature, args)
