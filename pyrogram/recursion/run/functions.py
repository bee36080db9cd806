# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The compiled functions of a recursion, from the cache or made now."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from ..code import llvm, objects
from ..code.statements import Function
from ..rules.recursions import Recursion


@functools.cache
def hash_of_sources(folder: Path = Path(__file__).parents[1]) -> str:
    """A hash of all Python files in a folder, by default of the compiler itself."""
    files = sorted(folder.rglob("*.py"))
    return hashlib.sha256(b"".join(f.read_bytes() for f in files)).hexdigest()


def compiled(
    recursion: Recursion, kind: str, make: Callable[[], Sequence[Function]], dtype: str, lanes: int
) -> objects.Compiled:
    """Functions of a recursion, from the cache or made now.

    If the environment variable ``PYROGRAM_BOUNDS`` is 1, they compare every index with the bounds of its table, and end
    the process where one is beyond them.

    :param kind: tells these functions from others of the recursion.
    :param dtype: of lanes and of weights.
    """

    def texts() -> tuple[tuple[str, str], dict[str, list[str]]]:
        functions = make()
        texts = llvm.assembly(functions, dtype, lanes, checked)
        return texts, {f.name: [p.name for p in f.parameters] for f in functions}

    checked = os.environ.get("PYROGRAM_BOUNDS") == "1"
    source = "\n".join([recursion.key(), kind, dtype, str(lanes), str(checked), hash_of_sources()])
    return objects.load(source, texts, vectors=lanes == 1)
