# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Compiled code kept on disk, and thrown away when any of its sources changes.

numba's cache looks only at the file of the function that is compiled, but kernels call into other files. Here the
stamp of a cached kernel is that file's *and* a hash of every file of the package that it imports, directly or not: an
upgrade never runs yesterday's recursion, and a change to one grammar's chart does not compile the others anew.
"""

import ast
import hashlib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from numba import njit

_PACKAGE = Path(__file__).parents[2]


def _imported(path: Path) -> Iterator[Path]:
    """The files of the package that a file imports."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if not isinstance(node, ast.ImportFrom):
            continue
        module = (node.module or "").split(".") if node.module else []
        if node.level:
            folder = path.parents[node.level - 1].joinpath(*module)
        elif module[0] == _PACKAGE.name:
            folder = _PACKAGE.joinpath(*module[1:])
        else:
            continue
        for candidate in (folder.with_suffix(".py"), *(folder / f"{name.name}.py" for name in node.names)):
            if candidate.is_file() and candidate.is_relative_to(_PACKAGE):
                yield candidate


@cache
def sources(path: Path) -> tuple[Path, ...]:
    """A file and all files of the package that its compiled code may call, sorted."""
    found, new = set(), [path]
    while new:
        this = new.pop()
        if this not in found:
            found.add(this)
            new.extend(_imported(this))
    return tuple(sorted(found))


@cache
def _hash_of_sources(path: Path) -> str:
    digest = hashlib.sha256()
    for source in sources(path):
        digest.update(source.read_bytes())
    return digest.hexdigest()


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function that runs without the interpreter lock, and keep the machine code on disk."""
    try:
        dispatcher = njit(nogil=True, cache=True)(function)
    except RuntimeError:  # nowhere to write: compile anew in every process
        return njit(nogil=True)(function)
    index = dispatcher._cache._cache_file
    index._source_stamp = (*index._source_stamp, _hash_of_sources(Path(function.__code__.co_filename).resolve()))
    return dispatcher


def borrowing(function: Callable[..., Any], **options: Any) -> Any:
    """Compile a function that only compiled code calls, which creates no arrays and keeps none that it is given.

    So numba need not count references, which for a tuple of twenty arrays takes longer than a look into them, nor
    make a way in from the interpreter, which would be most of what there is to compile.
    """
    return njit(nogil=True, _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True, **options)(function)


def inlined(function: Callable[..., Any]) -> Any:
    """:func:`borrowing` for a few lines that are always inlined."""
    return borrowing(function, forceinline=True)


def joined(function: Callable[..., Any]) -> Any:
    """Make a function a part of each that calls it, for what is long and called in one place.

    Others are compiled anew at every level of calls above them.
    """
    return njit(nogil=True, inline="always")(function)
