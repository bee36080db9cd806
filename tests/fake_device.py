# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A device that is the CPU: a stand-in for NVIDIA's driver, which runs the threads of a kernel one after the other.

Modules are objects of the CPU instead of PTX. All else is as on a GPU: parameters come as ``cuLaunchKernel`` takes
them.
"""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from pyrogram.recursion.code import objects
from pyrogram.recursion.run import on_tensors
from pyrogram.recursion.run.device_engine import CPU
from pyrogram.recursion.run.launching import Launcher

_KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
CONTEXT, STREAM = "the context of torch", 7


class FakeDriver:
    """The functions of ``cuda.bindings.driver`` that are called, with the checks that the driver makes.

    :ivar launched: grid, block and name of every launch.
    """

    def __init__(self) -> None:
        self.contexts: list[str] = []
        self.launched: list[tuple[int, int, str]] = []
        self.names: dict[int, str] = {}
        self.fails_with = 0

    def cuDeviceGet(self, index: int) -> tuple[int, int]:
        return 0, index

    def cuDevicePrimaryCtxRetain(self, device: int) -> tuple[int, str]:
        return 0, CONTEXT

    def cuCtxPushCurrent(self, context: str) -> tuple[int]:
        self.contexts.append(context)
        return (0,)

    def cuCtxPopCurrent(self) -> tuple[int, str]:
        return 0, self.contexts.pop()

    def cuModuleLoadData(self, image: bytes) -> tuple[int, bytes]:
        assert self.contexts == [CONTEXT] and image[-1:] == b"\0"
        return 0, image[:-1]

    def cuModuleGetFunction(self, module: bytes, name: bytes) -> tuple[int, int]:
        (address,) = objects.link(module, [name.decode()]).values()
        self.names[address] = name.decode()
        return 0, address

    def cuOccupancyMaxActiveBlocksPerMultiprocessor(self, function: int, block: int, shared: int) -> tuple[int, int]:
        return 0, 1

    def cuLaunchKernel(self, function: int, *rest: Any) -> tuple[int]:
        grid, block, (shared, stream, parameters, extra) = rest[:3], rest[3:6], rest[6:]
        assert (
            self.contexts == [CONTEXT] and grid[1:] == block[1:] == (1, 1) and (shared, stream, extra) == (0, STREAM, 0)
        )
        if self.fails_with:
            return (self.fails_with,)
        self.launched.append((grid[0], block[0], self.names[function]))
        _KERNEL(function)(parameters, grid[0], block[0])
        return (0,)


class FakeLauncher(Launcher):
    def stream(self) -> int:
        return STREAM


def fake_launcher(memory: int = 2**30, processors: int = 1) -> Launcher:
    """A device with one warp for each processor."""
    return FakeLauncher(0, CPU, memory, processors, FakeDriver())


def kernels_on(device_type: str, monkeypatch: pytest.MonkeyPatch, memory: int = 2**30) -> Launcher:
    """Whatever is on devices of a type has kernels."""
    launcher = fake_launcher(memory)
    monkeypatch.setattr(on_tensors, "launcher_for", lambda device: launcher if device.type == device_type else None)
    return launcher


def launched(launcher: Launcher) -> list[str]:
    """The names of the kernels that have run."""
    driver = launcher._driver
    assert isinstance(driver, FakeDriver)
    return [name for _, _, name in driver.launched]
