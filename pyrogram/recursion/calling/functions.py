# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The compiled functions of a recursion, from the cache or made now."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

from ..machine import llvm, objects
from ..machine.statements import Function
from ..rules.language import Recursion


@functools.lru_cache(maxsize=1)
def _compiler() -> str:
    """A hash of the compiler itself."""
    files = sorted(Path(__file__).parents[1].rglob("*.py"))
    return hashlib.sha256(b"".join(f.read_bytes() for f in files)).hexdigest()


def compiled(
    recursion: Recursion, kind: str, make: Callable[[], Sequence[Function]], dtype: str, lanes: int
) -> objects.Compiled:
    """Functions of a recursion, from the cache or made now.

    :param kind: tells these functions from others of the recursion.
    """

    def text() -> tuple[str, dict[str, list[str]]]:
        functions = make()
        return llvm.assembly(functions, dtype, lanes), {f.name: [p.name for p in f.parameters] for f in functions}

    source = "\n".join([recursion.key(), kind, dtype, str(lanes), _compiler()])
    return objects.load(source, text)
