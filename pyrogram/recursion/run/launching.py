# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Kernels on a device: modules are loaded once, and launched by NVIDIA's driver on torch's stream and torch's memory.

Nothing waits for the device here.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..code.kernels import WARP
from ..code.ptx import architecture_for


@dataclass(frozen=True)
class Loaded:
    """A kernel on a device.

    :param function: the driver's handle.
    :param parameters: names, in order.
    :param most_threads: how many run at once.
    """

    function: Any
    parameters: Sequence[str]
    most_threads: int


class Launcher:
    """Loads kernels on a device, and launches them.

    :param index: of the device.
    :param architecture: one of :data:`.ptx.ARCHITECTURES`.
    :param memory: bytes.
    :param processors: that run threads side by side.
    :param driver: functions of CUDA's driver, as ``cuda.bindings`` has them.
    """

    def __init__(self, index: int, architecture: str, memory: int, processors: int, driver: Any) -> None:
        self.index, self.architecture, self.memory, self.processors = index, architecture, memory, processors
        self._driver = driver
        # The context that torch has: memory and streams are the same.
        self._context = self._call("cuDevicePrimaryCtxRetain", self._call("cuDeviceGet", index))

    def stream(self) -> int:
        """The handle of torch's current stream."""
        handle: int = torch.cuda.current_stream(self.index).cuda_stream
        return handle

    def load(self, module: bytes, name: str, parameters: Sequence[str]) -> Loaded:
        """A kernel of a module."""
        self._call("cuCtxPushCurrent", self._context)
        try:
            handle = self._call("cuModuleLoadData", module + b"\0")
            function = self._call("cuModuleGetFunction", handle, name.encode())
            blocks = self._call("cuOccupancyMaxActiveBlocksPerMultiprocessor", function, WARP, 0)
            return Loaded(function, parameters, WARP * max(1, blocks) * self.processors)
        finally:
            self._call("cuCtxPopCurrent")

    def launch(self, kernel: Loaded, threads: int, values: dict[str, Tensor | int]) -> None:
        """Start a kernel on the current stream.

        :param threads: a multiple of :data:`.WARP`.
        :param values: of the parameters, by name; others are passed over.
        :raises KeyError: if one is missing.
        """
        numbers = (values[name] for name in kernel.parameters)
        slots = (ctypes.c_int64 * len(kernel.parameters))(
            *(number.data_ptr() if isinstance(number, Tensor) else number for number in numbers)
        )
        first = ctypes.addressof(slots)
        pointers = (ctypes.c_void_p * len(slots))(*(first + 8 * x for x in range(len(slots))))
        grid, block = (threads // WARP, 1, 1), (WARP, 1, 1)
        stream = self.stream()
        self._call("cuCtxPushCurrent", self._context)
        try:  # parameters are copied before the call returns
            self._call("cuLaunchKernel", kernel.function, *grid, *block, 0, stream, ctypes.addressof(pointers), 0)
        finally:
            self._call("cuCtxPopCurrent")

    def _call(self, name: str, *arguments: Any) -> Any:
        """A function of the driver; returns its result, if it has one.

        :raises RuntimeError: if it reports an error.
        """
        status, *outputs = getattr(self._driver, name)(*arguments)
        if int(status) != 0:
            raise RuntimeError(f"CUDA's driver reports {status!s} from {name} on device {self.index}")
        return outputs[0] if outputs else None


def launcher_for(device: torch.device) -> Launcher | None:
    """The launcher of a device; None if it is no device of CUDA, or too old, or cuda-python is not installed."""
    if device.type != "cuda" or torch.version.cuda is None:
        return None
    return _launcher(device.index if device.index is not None else torch.cuda.current_device())


@functools.cache
def _launcher(index: int) -> Launcher | None:
    properties = torch.cuda.get_device_properties(index)
    architecture = architecture_for(properties.major, properties.minor)
    try:
        driver = importlib.import_module("cuda.bindings.driver")  # of the package cuda-python
    except ImportError:
        return None
    if architecture is None:
        return None
    return Launcher(index, architecture, properties.total_memory, properties.multi_processor_count, driver)
