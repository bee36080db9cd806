# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Turns of compiled loops over the sentences of a batch, on as many threads as torch uses.

The kernels release the interpreter lock, so ordinary threads run them side by side, see
:mod:`pyrogram.recursion.code.threads`.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from pyrogram.recursion.code.threads import run_workers

__all__ = ["run_workers", "take"]


@intrinsic
def take(typingctx: Any, turns: Any) -> Any:
    """The next turn, from 0; no two threads get the same."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = context.make_array(turns)(context, builder, args[0]).data
        return builder.atomic_rmw("add", place, ir.Constant(ir.IntType(64), 1), "monotonic")

    return types.int64(turns), codegen
