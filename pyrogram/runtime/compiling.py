# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Compiled code kept on disk, and thrown away when any of its sources changes.

numba's cache looks only at the file of the function that is compiled, but kernels call into other files. Here the
stamp of a cached kernel is that file's *and* a hash of every file of the package that it imports, directly or not: an
upgrade never runs yesterday's recursion, and a change to one grammar's chart does not compile the others anew.
"""

import hashlib
import pickle
import re
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from numba import njit

_PACKAGE = Path(__file__).parents[1]
# `from .a.b import c, d` with or without parentheses. To parse all files would take most of a second at every start; a
# line of a docstring that looks like an import is one file too many.
_IMPORT = re.compile(rb"^[ \t]*from (\.*)([\w.]*) import (?:\(([^)]*)\)|([^(\n]*))", re.MULTILINE)
_NAME = re.compile(rb"\w+")


@cache
def _imported(path: Path) -> tuple[Path, ...]:
    return tuple(imported(path, path.read_bytes()))


def imported(path: Path, text: bytes) -> Iterator[Path]:
    """The files of the package that a file with this text imports."""
    for dots, module, several, one in _IMPORT.findall(text):
        names = [name for name in module.decode().split(".") if name]
        if dots:
            folder = path.parents[len(dots) - 1].joinpath(*names)
        elif names[0] == _PACKAGE.name:
            folder = _PACKAGE.joinpath(*names[1:])
        else:
            continue
        for name in (folder, *(folder / name.decode() for name in _NAME.findall(several or one))):
            candidate = name.with_suffix(".py")
            if candidate.is_file() and candidate.is_relative_to(_PACKAGE):
                yield candidate


@cache
def sources(path: Path) -> tuple[Path, ...]:
    """A file and all files of the package that its compiled code may call, sorted."""
    files, new = set(), [path]
    while new:
        this = new.pop()
        if this not in files:
            files.add(this)
            new.extend(_imported(this))
    return tuple(sorted(files))


@cache
def _hash_of_sources(path: Path) -> str:
    return hashlib.sha256(b"".join(map(_digest, sources(path)))).hexdigest()


@cache
def _digest(path: Path) -> bytes:
    return hashlib.sha256(path.read_bytes()).digest()


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function that runs without the interpreter lock, and keep the machine code on disk."""
    try:
        dispatcher = njit(nogil=True, cache=True)(function)
    except RuntimeError:  # nowhere to write
        dispatcher = njit(nogil=True)(function)
        compile_now = dispatcher.compile

        def compile_anew(signature: Any) -> Any:
            _warn_once(str(Path(function.__code__.co_filename).parent / "__pycache__"))
            return compile_now(signature)

        dispatcher.compile = compile_anew
    else:
        index = dispatcher._cache._cache_file
        index._source_stamp = (*index._source_stamp, _hash_of_sources(Path(function.__code__.co_filename).resolve()))
        dispatcher._cache = _Cache(dispatcher._cache)
    dispatcher.compile = _interruptible(dispatcher.compile)
    return dispatcher


class _Cache:
    """numba's cache, but for a folder that can be read or written no more, which costs time and not the run."""

    def __init__(self, cache: Any) -> None:
        self._cache = cache

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)

    def load_overload(self, *args: Any) -> Any:
        """Compiled code, or None if there is none that can be read."""
        try:
            return self._cache.load_overload(*args)
        except (OSError, EOFError, pickle.UnpicklingError):
            return None
        except (AttributeError, ImportError):  # a class of the arguments has moved since: what is kept is of no use
            self._forget()
            return None

    def _forget(self) -> None:
        try:
            self._cache.flush()
        except OSError:
            _warn_once(self._cache.cache_path)

    def save_overload(self, *args: Any) -> None:
        """Keep compiled code, where that can be done."""
        try:
            self._cache.save_overload(*args)
        except OSError:
            _warn_once(self._cache.cache_path)


@cache
def _warned() -> set[str]:
    return set()


def _warn_once(folder: str) -> None:
    """Say that compiled code cannot be kept, once in a process."""
    if not _warned():
        _warned().add(folder)
        warnings.warn(
            f"compiled code cannot be kept in {folder}, so every process compiles anew, which takes seconds; "
            "make that folder writable, or set NUMBA_CACHE_DIR to one that is",
            RuntimeWarning,
            stacklevel=2,
        )


def _interruptible(compile_signature: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Compile or load, and raise KeyboardInterrupt if it came in the meantime.

    LLVM asks for compiled code by calling back into Python. An exception that is raised there ends in the C code that
    called, which prints and forgets it; so an interrupt is noted as well as raised.
    """

    def compile_or_stop(signature: Any) -> Any:
        handler = signal.getsignal(signal.SIGINT)
        if threading.current_thread() is not threading.main_thread() or handler is not signal.default_int_handler:
            return compile_signature(signature)  # only the main thread is interrupted, and others mean what they do
        noted = False

        def note(number: int, frame: Any) -> None:
            nonlocal noted
            noted = True
            raise KeyboardInterrupt

        signal.signal(signal.SIGINT, note)
        try:
            entry = compile_signature(signature)
        finally:
            signal.signal(signal.SIGINT, handler)
        if noted:
            raise KeyboardInterrupt
        return entry

    return compile_or_stop


def borrowing(function: Callable[..., Any], **options: Any) -> Any:
    """Compile a function that only compiled code calls, which creates no arrays and keeps none that it is given.

    So numba need not count references, which for a tuple of twenty arrays takes longer than a look into them, nor
    make a way in from the interpreter, which would be most of what there is to compile.
    """
    return njit(nogil=True, _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True, **options)(function)


def inlined(function: Callable[..., Any]) -> Any:
    """:func:`borrowing` for a few lines that are always inlined."""
    return borrowing(function, forceinline=True)
