# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A recursion on a GPU: kernels of whose results all stay on the device."""

from __future__ import annotations

import functools

import torch
from torch import Tensor

from ..emit.traces import Trace
from .device_engine import DeviceEngine
from .launching import Launcher
from .program import MOST_NATS, Program
from .tensor_inputs import TensorInputs


class DeviceProgram:
    """Log Z, expected counts, draws and best derivations, in tensors on one device.

    :param program: the same on the CPU.
    """

    def __init__(self, program: Program, launcher: Launcher) -> None:
        self._program = program
        self._engines = functools.lru_cache(functools.partial(DeviceEngine, program.recursion, launcher=launcher))

    def fits(self, inputs: TensorInputs, descends: bool) -> bool:
        """Whether the charts of a few sentences fit on the device; and, if derivations are wanted, what that takes."""
        return self._engine("float64", inputs).fits(inputs, descends)

    def _engine(self, dtype: str, inputs: TensorInputs, sums: bool = True) -> DeviceEngine:
        """The engine for such weights.

        :param sums: whether numbers that sentences share are exponentiated: then all must be in range, or one is NaN,
            as log Z is then. This is looked at on the device. Else they are logarithms in the memory of each thread.
        """
        shared = self._program.has_numbers(inputs.weights)
        if shared and sums:
            logs = torch.cat([inputs.weights[name].detach().flatten() for name in self._program.plain])
            shared = bool(((logs.abs() < MOST_NATS) | (logs == -torch.inf) | logs.isnan().any()).all())
        return self._engines(dtype, shared=shared)

    def log_counts(
        self, inputs: TensorInputs, *, counts: bool = True, scale: Tensor | None = None, by_sentence: bool = False
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Log Z, shape ``(B,)``, and expected counts in the shapes of the weights, summed where sentences share them.

        :param scale: what the counts of each sentence are multiplied by, shape ``(B,)``.
        :param by_sentence: counts of shape ``(B, ..)`` also of tables that sentences share.
        """
        engine = self._engine("float32" if inputs.precision == torch.float32 else "float64", inputs)
        log_z, by_table = engine.log_counts(inputs, counts=counts, scale=scale, by_sentence=by_sentence)
        unknown = log_z.isnan()
        for name, table in by_table.items():
            if len(table) == len(log_z):
                by_table[name] = table.masked_fill(unknown.reshape(-1, *[1] * (table.dim() - 1)), torch.nan)
        return log_z, by_table

    def best(self, inputs: TensorInputs, trace: Trace, width: int) -> tuple[Tensor, Tensor]:
        """The log weight of the best derivation, shape ``(B,)``, float64, and the weights in it, ``(B, width)``."""
        inputs = _doubled(inputs)
        return self._engine("float64", inputs, sums=False).best(inputs, trace, width)

    def draw(self, inputs: TensorInputs, number: int, seed: int, trace: Trace, width: int) -> tuple[Tensor, Tensor]:
        """Log Z, shape ``(B,)``, and the weights in drawn derivations, ``(number, B, width)``."""
        inputs = _doubled(inputs)
        return self._engine("float64", inputs).draw(inputs, number, seed, trace, width)


def _doubled(inputs: TensorInputs) -> TensorInputs:
    return inputs.with_weights([w.detach().double() for w in inputs.weights.values()])
