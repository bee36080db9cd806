# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""The compiled functions of a recursion, from the cache or made now."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from ..code import kernels, llvm, objects, ptx
from ..code.statements import Function
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

    def texts() -> tuple[tuple[str, str], dict[str, list[str]]]:
        functions = make()
        texts = llvm.assembly(functions, dtype, lanes, checked, weights, objects.processor()[1])
        return texts, {f.name: [p.name for p in f.parameters] for f in functions}

    checked = os.environ.get("PYROGRAM_BOUNDS") == "1"
    source = "\n".join([recursion.key(), kind, dtype, weights, str(lanes), str(checked), _compiler()])
    return objects.load(source, texts, vectors=lanes == 1)


CPU = "cpu"  # the architecture of kernels that run on the processor at hand, thread by thread


def compiled_kernels(
    recursion: Recursion,
    kind: str,
    make: Callable[[], tuple[Sequence[kernels.Kernel], Sequence[Function]]],
    dtype: str,
    architecture: str,
    complete: bool,
) -> tuple[bytes, dict[str, list[str]]]:
    """A module of kernels of a recursion, and the parameters of each; from the cache or made now.

    :param make: gives kernels and helpers, see :func:`.kernels.assembly`.
    :param dtype: of lanes, and of weights.
    :param architecture: one of :data:`.ptx.ARCHITECTURES`, whose module is PTX, or ``cpu``, whose module is an object.
    :param complete: see :func:`.kernels.assembly`.
    """
    target: kernels.Target = "cpu" if architecture == CPU else "gpu"

    def module() -> tuple[bytes, dict[str, list[str]]]:
        programs, helpers = make()
        text = kernels.assembly(programs, helpers, dtype, target, complete)
        data = objects.object_of(text) if architecture == CPU else ptx.ptx_of(text, architecture)
        return data, {k.function.name: [p.name for p in k.parameters] for k in programs}

    names = [*objects.target()] if architecture == CPU else [architecture]
    source = "\0".join([recursion.key(), f"kernels: {kind}", str(complete), dtype, *names, _compiler()])
    return objects.kept(source, ".o" if architecture == CPU else ".ptx", module)
