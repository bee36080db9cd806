# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The compiled functions of a recursion, from the cache or made now."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from ..machine import llvm, objects
from ..machine.statements import Function
from ..rules.recursions import Recursion


@functools.lru_cache(maxsize=1)
def _compiler() -> str:
    """A hash of the compiler itself."""
    files = sorted(Path(__file__).parents[1].rglob("*.py"))
    return hashlib.sha256(b"".join(f.read_bytes() for f in files)).hexdigest()


def compiled(
    recursion: Recursion, kind: str, make: Callable[[], Sequence[Function]], dtype: str, lanes: int, weights: str = ""
) -> objects.Compiled:
    """Functions of a recursion, from the cache or made now.

    If the environment variable ``PYROGRAM_BOUNDS`` is 1, they compare every index with the bounds of its table, and end
    the process where one is beyond them.

    :param kind: tells these functions from others of the recursion.
    :param dtype: of lanes, and of weights unless ``weights`` says another.
    """

    def text() -> tuple[str, dict[str, list[str]]]:
        functions = make()
        text = llvm.assembly(functions, dtype, lanes, checked, weights)
        return text, {f.name: [p.name for p in f.parameters] for f in functions}

    checked = os.environ.get("PYROGRAM_BOUNDS") == "1"
    source = "\n".join([recursion.key(), kind, dtype, weights, str(lanes), str(checked), _compiler()])
    return objects.load(source, text)
