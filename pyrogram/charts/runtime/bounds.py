# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Bounds of the loads and stores that bypass numba's indexing: checked where numba checks its own.

Numba checks indices if the environment variable ``NUMBA_BOUNDSCHECK`` is 1 when code is compiled. Compiled code that is
kept does not say how it was compiled: give checked code a cache of its own (``NUMBA_CACHE_DIR``), as ``.ci/checked``
does.
"""

from typing import Any

from llvmlite import ir
from numba.core import config


def check_elements(context: Any, builder: Any, array_type: Any, array: Any, first: Any, count: int) -> None:
    """Raise an IndexError unless a contiguous array has the elements ``first`` .. ``first + count - 1``."""
    if not config.BOUNDSCHECK:
        return
    size = context.make_array(array_type)(context, builder, array).nitems
    end = builder.add(first, ir.Constant(first.type, count))
    below = builder.icmp_signed("<", first, ir.Constant(first.type, 0))
    with builder.if_then(builder.or_(below, builder.icmp_signed(">", end, size)), likely=False):
        message = "compiled code loads or stores beyond the bounds of an array"
        context.call_conv.return_user_exc(builder, IndexError, (message,))
