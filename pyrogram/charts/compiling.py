# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Compiled code kept on disk, and thrown away when any of its sources changes.

numba's cache looks only at the file of the function that is compiled, but the kernels call into each other's
files. Here the stamp of a cached kernel is that file's *and* a hash of all sources of the charts: an upgrade never
runs yesterday's recursion.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba import njit


def _hash_of_sources() -> str:
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


_SOURCES = _hash_of_sources()


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function that runs without the interpreter lock, and keep the machine code on disk."""
    try:
        dispatcher = njit(nogil=True, cache=True)(function)
    except RuntimeError:  # nowhere to write: compile anew in every process
        return njit(nogil=True)(function)
    index = dispatcher._cache._cache_file
    index._source_stamp = (*index._source_stamp, _SOURCES)
    return dispatcher
