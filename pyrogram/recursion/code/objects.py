# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Machine code: made by LLVM once, kept in files that processes share, and called.

A file is named by a hash of all that its contents depend on: the source, the processor and its features, the versions
of LLVM and of llvmlite. It is written whole under another name and then renamed, so that no process reads a part of
one, and it begins with a hash of the rest, so that a damaged file is made anew. Where no file can be written, code is
compiled in every process, which costs a second.

Functions apart have an object of their own, which is made when one of them is first called. It is named by a hash of
its text, and the text is kept with the object that calls them.

With ``PYROGRAM_OPTIMIZE=0`` LLVM translates instruction by instruction: that takes a tenth of the time, and its code
gives the same numbers, more slowly. This is for programs that compile much and compute little, such as tests.
"""

from __future__ import annotations

import contextlib
import copy
import ctypes
import hashlib
import json
import os
import struct
import sys
import tempfile
import threading
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .llvm import FIND

_lock = threading.RLock()
# No other thread compiles while a process forks: nobody would unlock the child.
os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)
_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)  # the result of one that has none is not read
_BYTE: Any = ctypes.c_char
_FIND = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
_engines: list[Any] = []  # keep the code of loaded objects alive
_failed: dict[int, BaseException] = {}  # by thread: why its function has ended early


def folder() -> Path:
    """Where objects are kept: ``PYROGRAM_CACHE_DIR``, or a folder of the user's cache."""
    path = os.environ.get("PYROGRAM_CACHE_DIR")
    if path:
        return Path(path)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "pyrogram"


@dataclass(frozen=True)
class Compiled:
    """Functions in memory: their addresses, and the names of their parameters in order."""

    addresses: dict[str, int]
    parameters: dict[str, list[str]]

    def __call__(self, name: str, values: Mapping[str, Any]) -> int:
        """Call a function with integers, reals and arrays by name, without the interpreter lock; returns its integer.

        :raises KeyError: if a parameter is missing.
        """
        return Call(self, name, values)({})


class Call:
    """A call that is made again and again, with most of its parameters as they were.

    :param compiled: has the function.
    :param values: integers, reals and arrays by name.
    :param later: the names of those that every call gives anew; they may be missing.
    """

    def __init__(self, compiled: Compiled, name: str, values: Mapping[str, Any], later: Collection[str] = ()) -> None:
        names = compiled.parameters[name]
        self._places = {key: x for x, key in enumerate(names)}
        self._slots = (ctypes.c_int64 * len(names))(*(0 if key in later else slot(values[key]) for key in names))
        self._function = _FUNCTION(compiled.addresses[name])
        self._kept = {key: x for key, x in values.items() if key not in later}  # their arrays stay where they are

    def with_values(self, values: Mapping[str, Any]) -> Call:
        """The same call with more of its parameters."""
        new = copy.copy(self)
        new._slots, new._kept = self._changed(values), {**self._kept, **values}
        return new

    def __call__(self, changes: Mapping[str, Any]) -> int:
        """Call with some parameters changed; what the function has none of is passed over.

        Where functions apart cannot be compiled, the function ends early, and the error is raised here.
        """
        result: int = self._function(self._changed(changes))
        if _failed and (error := _failed.pop(threading.get_ident(), None)):
            raise error
        return result

    def _changed(self, changes: Mapping[str, Any]) -> Any:
        slots, places = type(self._slots).from_buffer_copy(self._slots), self._places
        for key, x in changes.items():
            if key in places:
                slots[places[key]] = x if type(x) is int else slot(x)
        return slots


def slot(x: Any) -> int:
    """Eight bytes of a parameter: the address of an array's elements, an integer, the bits of a real."""
    if isinstance(x, np.ndarray):
        try:
            return ctypes.addressof(_BYTE.from_buffer(x))  # three times as fast, and a call has a dozen of them
        except (BufferError, TypeError, ValueError):  # not contiguous, read-only, or empty
            address: int = x.__array_interface__["data"][0]
            return address
    if isinstance(x, float):
        return int.from_bytes(struct.pack("=d", x), sys.byteorder, signed=True)
    return int(x)


def load(
    source: str, make: Callable[[], tuple[tuple[str, str], dict[str, list[str]]]], vectors: bool = False
) -> Compiled:
    """Compiled functions, from the cache or made now.

    :param source: all that decides what ``make`` returns.
    :param make: gives LLVM's assembly language, see :func:`.llvm.assembly`, and the parameters of each function; called
        only if there is no object.
    :param vectors: see :func:`optimize`.
    """

    def make_object() -> tuple[bytes, dict[str, list[str]]]:
        (text, apart), parameters = make()
        packed = zlib.compress(apart.encode(), 1)
        return len(packed).to_bytes(8, "little") + packed + object_of(text, vectors), parameters

    data, parameters = kept("\0".join((source, *target())), ".o", make_object)
    packed, code = _parts(data)
    with _lock:
        addresses = link(code, [*parameters, FIND])
        if place := addresses.pop(FIND):
            _compile_later(place, packed, vectors)
        return Compiled(addresses, parameters)


def _compile_later(place: int, packed: bytes, vectors: bool) -> None:
    """Have functions apart compiled when one of them is first called, by whichever thread.

    :param place: of a pointer to the function that finds them. At first it is one of Python's, then one of theirs.
    :param packed: their text.
    """

    def find(number: int) -> int:
        try:
            with _lock:
                if pointer.value == first:
                    text = zlib.decompress(packed).decode()
                    code, _ = kept("\0".join((text, *target())), ".o", lambda: (object_of(text, vectors), {}))
                    pointer.value = link(code, [FIND])[FIND]
            address: int = _FIND(pointer.value)(number)
            return address
        except BaseException as error:  # none gets through machine code
            _failed[threading.get_ident()] = error
            return 0

    function, pointer = _FIND(find), ctypes.c_int64.from_address(place)
    _engines.append(function)
    first = pointer.value = ctypes.cast(function, ctypes.c_void_p).value or 0


def kept(
    source: str, suffix: str, make: Callable[[], tuple[bytes, dict[str, list[str]]]]
) -> tuple[bytes, dict[str, list[str]]]:
    """Machine code and the parameters of each of its functions, from the cache or made now.

    :param source: all that decides what ``make`` returns, besides the versions of LLVM and of llvmlite.
    :param suffix: of the file's name.
    """
    import llvmlite

    with _lock:
        texts = source, llvmlite.__version__, str(_binding().llvm_version_info)
        key = hashlib.sha256("\0".join(texts).encode()).hexdigest()[:40]
        path = folder() / f"{key}{suffix}"
        data = _read(path)
        if data is None:
            code, parameters = make()
            head = json.dumps(parameters).encode()
            data = len(head).to_bytes(8, "little") + head + code
            _write(path, data)
        head, code = _parts(data)
        return code, json.loads(head)


def _parts(data: bytes) -> tuple[bytes, bytes]:
    """What begins with its length, and the rest."""
    end = 8 + int.from_bytes(data[:8], "little")
    return data[8:end], data[end:]


def _read(path: Path) -> bytes | None:
    """What was written; None if there is nothing, or it is damaged."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    return data[32:] if hashlib.sha256(data[32:]).digest() == data[:32] else None


def _write(path: Path, data: bytes) -> None:
    """Keep it, if that is possible: at once, for other processes read it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, suffix=".part")
    except OSError:
        return
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(hashlib.sha256(data).digest() + data)
        os.replace(name, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(name)


def _binding() -> Any:
    import llvmlite.binding as llvm

    if not _engines:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        _engines.append(None)
    return llvm


def processor() -> tuple[str, str]:
    """The processor and its features.

    ``PYROGRAM_CPU`` names another one, to see what code is made for it, and ``PYROGRAM_CPU_FEATURES`` its features:
    ``+avx,+avx2``.
    """
    llvm = _binding()
    name = os.environ.get("PYROGRAM_CPU")
    if name:
        return name, os.environ.get("PYROGRAM_CPU_FEATURES", "")
    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


def optimizing() -> bool:
    """Whether code is made to run fast."""
    return os.environ.get("PYROGRAM_OPTIMIZE") != "0"


def target() -> tuple[str, ...]:
    """What machine code is made for: the processor, its features, and whether it is to run fast."""
    return (*processor(), *(() if optimizing() else ("not optimized",)))


def _machine(opt: int = 2) -> Any:
    llvm = _binding()
    cpu, features = processor()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(cpu=cpu, features=features, opt=opt, jit=True)


def object_of(text: str, vectors: bool = False) -> bytes:
    """Machine code of a module in LLVM's assembly language, for the processor at hand.

    :param vectors: see :func:`optimize`.
    """
    machine = _machine(opt=2 if optimizing() else 0)
    module = parsed(text, _binding().get_default_triple(), machine)
    if optimizing():
        optimize(module, machine, vectors)
    data: bytes = machine.emit_object(module)
    return data


def parsed(text: str, triple: str, machine: Any) -> Any:
    """A module of LLVM, for a machine."""
    module = _binding().parse_assembly(text)
    module.triple = triple
    module.data_layout = str(machine.target_data)
    return module


def optimize(module: Any, machine: Any, vectors: bool = False, whole: bool = False) -> None:
    """Have LLVM change a module such that its code runs fast.

    :param vectors: whether LLVM makes vectors of loops. Their results are the same: it does not reorder sums.
    :param whole: whether functions become part of those that call them; else each is looked at by itself.
    """
    llvm = _binding()
    # Loops over cells of lanes are written as they are to run: what a higher level finds takes longer to compile and
    # runs no faster.
    options = llvm.create_pipeline_tuning_options(speed_level=1)
    options.loop_vectorization = vectors
    options.slp_vectorization = options.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, options)
    if vectors or whole:
        builder.getModulePassManager().run(module, builder)
        return
    passes = builder.getFunctionPassManager()
    for function in module.functions:
        if not function.is_declaration:
            passes.run(function, builder)


def link(data: bytes, names: Sequence[str]) -> dict[str, int]:
    """The addresses of functions of an object, which stays in memory."""
    llvm = _binding()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(data))
    engine.finalize_object()
    _engines.append(engine)
    return {name: engine.get_function_address(name) for name in names}
