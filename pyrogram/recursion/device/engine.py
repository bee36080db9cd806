# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A recursion on a device that runs: tensors in, kernels, tensors out, and the sentences that could not be trusted.

Sentences are put in order of their lengths, and tables of their own get the sentence as their last axis, so that 32
neighbours are read at once; results go back the same way. Both are indexing by torch on the device, where all stays.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from ..calling.agenda import room
from ..calling.functions import compiled, compiled_kernels
from ..calling.layout import Layout
from ..calling.traces import Trace, trace_parameters
from ..lanes import driver
from ..lanes.engine import most
from ..machine.kernels import WARP
from ..machine.objects import Compiled
from ..rules.lowering import lower
from ..rules.recursions import Recursion
from . import threads
from .launching import Launcher, Loaded

_MAKERS = {"lanes": threads.log_counts, "draw": threads.draw, "best": threads.best}
_SHARE = 4  # of a device's memory that charts may take: one part in so many
Values = dict[str, Tensor | int | float]


@dataclass
class Batch:
    """Sentences on a device, the longest first.

    :param order: numbers of the sentences.
    :param values: parameters of kernels.
    """

    order: Tensor
    values: Values
    pitch: int

    def back(self, found: Tensor) -> Tensor:
        """What is by sentence, in the order in which they were given: ``(.., B)`` to ``(B, ..)``."""
        rows = found.movedim(-1, 0)
        return torch.empty(rows.shape, dtype=rows.dtype, device=rows.device).index_copy_(0, self.order, rows)


class DeviceEngine:
    """Log Z, expected counts, draws and best derivations of many sentences at once, in tensors on a device.

    Log weights are tensors of one type, ``(B, *axes)`` or ``(1, *axes)``, positions first.

    :param recursion: the rules; items have no symbols.
    :param dtype: ``float64`` or ``float32``.
    """

    def __init__(self, recursion: Recursion, dtype: str, launcher: Launcher) -> None:
        self.recursion, self.dtype, self.launcher = recursion, dtype, launcher
        self._torch_dtype: torch.dtype = getattr(torch, dtype)
        self.cells = lower(recursion, widen=True)
        self.layout = Layout(lower(recursion))
        self.most = most(recursion, dtype)
        self._kernels: dict[str, Loaded] = {}

    def log_counts(
        self,
        weights: Mapping[str, Tensor],
        lengths: Tensor,
        words: Mapping[str, Tensor],
        *,
        counts: bool = True,
        scale: Tensor | None = None,
        least: float | None = None,
        excess: float = 0.0,
        by_sentence: bool = False,
    ) -> tuple[Tensor, dict[str, Tensor], Tensor]:
        """Log Z, shape ``(B,)``, float64; expected counts in the shapes of the weights, summed over sentences that
        share them; and which sentences failed: their log Z is not to be trusted, and their counts are missing.

        :param scale: what the counts of each sentence are multiplied by, shape ``(B,)``.
        :param least: the least log Z that is trusted without adjoints, which are then not computed; None if they are.
        :param excess: the log of the greatest product of the weights of a rule, if it is greater than one.
        :param by_sentence: counts of shape ``(B, ..)`` also of tables that sentences share.
        """
        B, device = len(lengths), lengths.device
        batch = self._batch(weights, lengths, words)
        log_z = torch.empty(B, dtype=torch.float64, device=device)
        failed = torch.zeros(B, dtype=torch.long, device=device)
        values = batch.values | self._judged(log_z, failed, least, excess)
        values |= {"adjoints": int(least is None), "with_counts": int(counts), "plain": 1}
        scales = torch.ones(B, device=device) if scale is None else scale.detach().index_select(0, batch.order)
        values["scale"] = scales.to(torch.float64)
        outputs: dict[str, Tensor] = {}
        for w in self.layout.events:
            shared = len(weights[w.name]) == 1 and not (by_sentence or B == 1)
            shape = (*weights[w.name].shape[1:], *(() if shared else (B,))) if counts else (1,) * w.num_axes
            outputs[w.name] = out = torch.zeros(shape, dtype=self._torch_dtype, device=device)
            values |= _strided(f"out.{w.name}", out, w.num_axes, shared or not counts) | {f"out.{w.name}.part": 0}
        self._launch("lanes", batch, values)
        found = {}
        for name, out in outputs.items() if counts else ():
            own = out.dim() == weights[name].dim()
            found[name] = batch.back(out) if own else out[None]
        return batch.back(log_z), found, batch.back(failed) != 0

    def draw(
        self,
        weights: Mapping[str, Tensor],
        lengths: Tensor,
        words: Mapping[str, Tensor],
        rows: tuple[int, int],
        seed: int,
        trace: Trace,
        least: float,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Log Z; the weights in drawn derivations, shape ``(number, B, width)``; and which sentences failed.

        :param rows: number and width.
        :param least: the least log Z that is trusted.
        """
        B, device, (number, width) = len(lengths), lengths.device, rows
        batch = self._batch(weights, lengths, words)
        log_z = torch.empty(B, dtype=torch.float64, device=device)
        failed = torch.zeros(B, dtype=torch.long, device=device)
        found = torch.full((number, B, width), -1, dtype=torch.long, device=device)
        values = batch.values | self._judged(log_z, failed, least, 0.0) | self._traced(trace, found)
        self._launch("draw", batch, values | {"draws": number, "seed": seed, "batch": B})
        return batch.back(log_z), batch.back(found.movedim(1, -1)).transpose(0, 1), batch.back(failed) != 0

    def best(
        self, weights: Mapping[str, Tensor], lengths: Tensor, words: Mapping[str, Tensor], trace: Trace, width: int
    ) -> tuple[Tensor, Tensor]:
        """The log weight of the best derivation, shape ``(B,)``, and the weights in it, shape ``(B, width)``."""
        B, device = len(lengths), lengths.device
        batch = self._batch(weights, lengths, words)
        scores = torch.empty(B, dtype=torch.float64, device=device)
        found = torch.full((B, width), -1, dtype=torch.long, device=device)
        self._launch("best", batch, batch.values | self._traced(trace, found) | {"scores": scores, "batch": B})
        return batch.back(scores), batch.back(found.movedim(0, -1))

    # ------------------------------------------------------------------ parameters

    def _batch(self, weights: Mapping[str, Tensor], lengths: Tensor, words: Mapping[str, Tensor]) -> Batch:
        """Sentences in the order of their lengths."""
        pitch = self.pitch(weights, lengths, words)
        order = torch.argsort(lengths, descending=True, stable=True)
        # No kernel reads beyond a table, whatever the lengths are.
        sorted_lengths = lengths.index_select(0, order).clamp(0, pitch - 1).to(torch.long)
        values: Values = {"pitch": pitch, "count": len(lengths), "lengths": sorted_lengths}
        values["order"] = torch.arange(len(lengths), device=lengths.device)
        for name, rows in words.items():
            values[f"words.{name}"] = rows.index_select(0, order).to(torch.long).contiguous()
            values[f"words.{name}.b"] = rows.shape[1]
        for w in self.layout.weights:
            table, shared = weights[w.name].detach().to(self._torch_dtype), len(weights[w.name]) == 1
            own = table[0] if shared else table.movedim(0, -1).index_select(-1, order)
            values |= _strided(f"weight.{w.name}", own, w.num_axes, shared)
        return Batch(order, values, pitch)

    def pitch(self, weights: Mapping[str, Tensor], lengths: Tensor, words: Mapping[str, Tensor]) -> int:
        """Positions of the longest sentence and one more, as far as shapes tell; else lengths are asked."""
        bounds = []
        for w in self.layout.weights:
            shape = weights[w.name].shape[1 : 1 + w.num_positions]
            bounds += [size - last for size, last in zip(shape, w.last, strict=True)]
        bounds += [rows.shape[1] + 1 for rows in words.values()]
        return min(bounds) if bounds else int(lengths.max()) + 1

    def _judged(self, log_z: Tensor, failed: Tensor, least: float | None, excess: float) -> Values:
        most = self.most * math.exp(-min(excess, 700.0))
        return {"log_z": log_z, "failed": failed, "least": -math.inf if least is None else least, "most": most}

    def _traced(self, trace: Trace, found: Tensor) -> Values:
        """Parameters of what writes derivations into rows; elements of no table but those of ``trace`` are written."""
        values: Values = {p.name: 0 for p in trace_parameters(self.layout)}
        values |= {"trace": found, "trace_width": found.shape[-1]}
        for w in self.layout.weights:
            first, *strides = trace.get(w.name, (-1,))
            values[f"trace.{w.name}"] = first
            values |= {f"trace.{w.name}.{axis}": s for axis, s in enumerate(strides)}
        return values

    # ------------------------------------------------------------------ kernels

    def _launch(self, name: str, batch: Batch, values: Values) -> None:
        kernel, size = self._kernel(name), self._size(batch)
        B, device = len(batch.order), batch.order.device
        if size * WARP >= 2**31:  # indices of 32 bits
            raise ValueError(f"a chart of {batch.pitch - 1} words has {size} cells, too many for a GPU's kernels")
        itemsize = self._torch_dtype.itemsize
        most = min(kernel.most_threads, self.launcher.device.memory // (_SHARE * size * itemsize))
        number = max(WARP, min(-(-B // WARP) * WARP, most // WARP * WARP))
        values["size"] = size
        values["memory"] = torch.empty(number * size, dtype=self._torch_dtype, device=device)
        if name != "lanes":
            agenda = len(room(self.cells, batch.pitch, {})["agenda"])
            terms = len(self.recursion.rules) * (batch.pitch + 1)
            values |= {"size.agenda": agenda, "size.terms": terms, "chains": 0}
            values["agenda"] = torch.empty(number * agenda, dtype=torch.long, device=device)
            values["terms"] = torch.empty(number * terms, dtype=torch.float64, device=device)
        self.launcher.launch(kernel, number, values)

    def _kernel(self, name: str) -> Loaded:
        if name not in self._kernels:
            module, parameters = compiled_kernels(
                self.recursion,
                name,
                lambda: ([_MAKERS[name](self.recursion, self.dtype)], [threads.log()]),
                (self.dtype, self.dtype),
                self.launcher.device.architecture,
            )
            self._kernels |= self.launcher.load(module, parameters)
        return self._kernels[name]

    def _size(self, batch: Batch) -> int:
        """Cells of a chart."""
        values = {name: 0 if isinstance(x, Tensor) else x for name, x in batch.values.items()}
        return self._sizes("size", values)

    @functools.cached_property
    def _sizes(self) -> Compiled:
        return compiled(self.recursion, "size", lambda: [driver.size(self.recursion)], self.dtype, 1)


def _strided(name: str, table: Tensor, num_axes: int, shared: bool) -> Values:
    """A table ``(*axes,)`` or ``(*axes, B)`` with its strides."""
    axes = {f"{name}.{x}": s for x, s in enumerate(table.stride()[:num_axes])}
    return {name: table, f"{name}.b": 0 if shared else table.stride(-1), **axes}
