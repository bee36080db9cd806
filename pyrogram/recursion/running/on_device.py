# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A recursion on a GPU: kernels first, and in logarithms, by torch, the sentences with which they cannot be trusted.

All stays on the device. The host waits for it once in a call, to learn which sentences these are, and once more where
log weights may be above zero.
"""

from __future__ import annotations

import functools
import math

import torch
from torch import Tensor

from ..calling.traces import Trace
from ..device.engine import DeviceEngine
from ..device.launching import Launcher
from ..tensors.engine import TorchEngine
from ..tensors.given import Given
from .in_torch import log_counts_in_torch
from .program import FEW_WORDS, Program


class DeviceProgram:
    """Log Z, expected counts, draws and best derivations, in tensors on one device.

    :param program: the same on the CPU.
    :param in_torch: the same in torch.
    """

    def __init__(self, program: Program, in_torch: TorchEngine, launcher: Launcher) -> None:
        self._program, self._in_torch = program, in_torch
        self._engines = functools.lru_cache(functools.partial(DeviceEngine, program.recursion, launcher=launcher))

    def fits(self, given: Given, descends: bool) -> bool:
        """Whether the charts of a few sentences fit on the device; and, if derivations are wanted, what that takes."""
        return self._engine("float64", given).fits(given, descends)

    def _engine(self, dtype: str, given: Given) -> DeviceEngine:
        shares = {name: len(w) == 1 for name, w in given.weights.items()}
        return self._engines(dtype, shared=self._program.has_numbers(shares))

    def log_counts(
        self, given: Given, *, counts: bool = True, scale: Tensor | None = None, by_sentence: bool = False
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Log Z, shape ``(B,)``, and expected counts in the shapes of the weights, summed where sentences share them.

        :param scale: what the counts of each sentence are multiplied by, shape ``(B,)``.
        :param by_sentence: counts of shape ``(B, ..)`` also of tables that sentences share.
        """
        engine = self._engine(_dtype(given), given)
        if self._program.in_lanes:
            least = None if counts else -math.inf
            log_z, found, _ = engine.log_counts(given, counts=counts, scale=scale, least=least, by_sentence=by_sentence)
            unknown = log_z.isnan()
            for name, table in found.items():
                if len(table) == len(log_z):
                    found[name] = table.masked_fill(unknown.reshape(-1, *[1] * (table.dim() - 1)), torch.nan)
            return log_z, found
        excess = self._excess(engine, given)
        least = None if counts or excess else self._least(engine, given)
        if least is not None and engine.dtype == "float32" and self._words(engine, given) > FEW_WORDS:
            return self.log_counts(_doubled(given), counts=False)
        log_z, found, failed = engine.log_counts(
            given,
            counts=counts,
            scale=scale,
            least=least,
            excess=excess,
            by_sentence=by_sentence,
        )
        todo = failed.nonzero()[:, 0]
        if len(todo):
            few, own = given.only(todo), None if scale is None else scale.detach()[todo]
            few = few if not by_sentence else few.with_weights([_wide(w, len(todo)) for w in few.weights.values()])
            log_z[todo], more = self._again(few, own, engine.dtype, counts)
            for name, table in more.items():
                if len(found[name]) == len(log_z):
                    found[name][todo] = table.to(found[name].dtype)
                else:
                    found[name] += table.to(found[name].dtype)
        return log_z, found

    def _again(self, few: Given, scale: Tensor | None, dtype: str, counts: bool) -> tuple[Tensor, dict[str, Tensor]]:
        """Sentences that failed: those of float32 by kernels of float64, the others by torch."""
        few = _doubled(few)
        if dtype == "float32":
            return self.log_counts(few, counts=counts, scale=scale)
        return log_counts_in_torch(self._in_torch, few, counts=counts, scale=scale)

    def best(self, given: Given, trace: Trace, width: int) -> tuple[Tensor, Tensor]:
        """The log weight of the best derivation, shape ``(B,)``, float64, and the weights in it, ``(B, width)``."""
        given = _doubled(given)
        return self._engine("float64", given).best(given, trace, width)

    def draw(self, given: Given, number: int, seed: int, trace: Trace, width: int) -> tuple[Tensor, Tensor]:
        """Log Z, shape ``(B,)``, and the weights in drawn derivations, ``(number, B, width)``.

        Sentences that cannot be trusted are drawn on the CPU.
        """
        given = _doubled(given)
        engine = self._engine("float64", given)
        if self._program.in_lanes:
            log_z, rows, _ = engine.draw(given, (number, width), seed, trace, -math.inf)
            return log_z, rows
        excess = self._excess(engine, given)
        least = self._least(engine, given)
        spoilt = torch.zeros(len(given.lengths), dtype=torch.bool, device=given.lengths.device)
        if excess:  # adjoints say of which charts one may draw
            spoilt, least = engine.log_counts(given, counts=False, excess=excess)[2], -math.inf
        log_z, rows, failed = engine.draw(given, (number, width), seed, trace, least)
        todo = (failed | spoilt).nonzero()[:, 0]
        if len(todo):
            few = given.only(todo).arrays()
            values, found = self._program.draw(few, number, seed + 1, trace, width)
            log_z[todo] = torch.from_numpy(values).to(log_z)
            rows[:, todo] = torch.from_numpy(found).to(rows)
        return log_z, rows

    def _excess(self, engine: DeviceEngine, given: Given) -> float:
        """The log of the greatest product of weights in a rule, if that is greater than one."""
        names = [*self._program.unclaimed, *(self._program.plain if engine.shared else ())]
        tables = [given.weights[name].detach() for name in names if given.weights[name].numel()]
        if not tables:
            return 0.0
        greatest = torch.stack([torch.where(t.isfinite(), t, -torch.inf).amax().double() for t in tables]).amax()
        return max(0.0, float(greatest)) * self._program.most_weights

    def _least(self, engine: DeviceEngine, given: Given) -> float:
        return self._program.least(engine.dtype, self._words(engine, given), given.sizes, given.lists)

    @staticmethod
    def _words(engine: DeviceEngine, given: Given) -> int:
        """Of the longest sentence."""
        return engine.pitch(given) - 1


def _dtype(given: Given) -> str:
    return "float32" if given.dtype == torch.float32 else "float64"


def _doubled(given: Given) -> Given:
    return given.with_weights([w.detach().double() for w in given.weights.values()])


def _wide(table: Tensor, batch: int) -> Tensor:
    return table.expand(batch, *table.shape[1:])
