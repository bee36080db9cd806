# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A recursion on a device that runs: tensors in, kernels, tensors out.

Sentences are put in order of their lengths, and tables of their own get the sentence as their last axis, so that 32
neighbours are read at once; results go back the same way. Both are indexing by torch on the device, where all stays.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from ..code import kernels, objects, ptx
from ..code.kernels import WARP
from ..code.objects import Compiled
from ..code.statements import Function
from ..emit import threads
from ..emit.agenda import size_of_agenda
from ..emit.instances import rows_by_symbol
from ..emit.layout import Layout
from ..emit.traces import Trace, trace_values
from ..rules.lowering import lower
from ..rules.recursions import Recursion
from .functions import compiled, hash_of_sources
from .launching import Launcher, Loaded
from .tensor_inputs import TensorInputs

CPU = "cpu"  # the architecture of kernels that run on the processor at hand, thread by thread
_SHARE = 4  # of a device's memory that charts may take: one part in so many
Values = dict[str, Tensor | int]


class DeviceEngine:
    """Log Z, expected counts, draws and best derivations of many sentences at once, in tensors on a device.

    Log weights are tensors of one type.

    :param recursion: the rules.
    :param dtype: ``float64`` or ``float32``.
    :param shared: whether all sentences share the weights of :func:`.plain_tables`, where items have symbols.
    """

    def __init__(self, recursion: Recursion, dtype: str, launcher: Launcher, shared: bool = False) -> None:
        self.recursion, self.dtype, self.launcher, self.shared = recursion, dtype, launcher, shared
        self._torch_dtype: torch.dtype = getattr(torch, dtype)
        self.cells = lower(recursion, for_blocks=True)
        self.layout = Layout(lower(recursion))
        self._kernel = functools.cache(self._load)
        self._sizes = functools.cache(self._load_sizes)

    def log_counts(
        self,
        inputs: TensorInputs,
        *,
        counts: bool = True,
        scale: Tensor | None = None,
        by_sentence: bool = False,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Log Z, shape ``(B,)``, float64, and expected counts in the shapes of the weights, summed over sentences that
        share them: none of sentences whose log Z is no number.

        :param scale: what the counts of each sentence are multiplied by, shape ``(B,)``.
        :param by_sentence: counts of shape ``(B, ..)`` also of tables that sentences share.
        """
        weights, B, device = inputs.weights, len(inputs.lengths), inputs.lengths.device
        order, values = self._batch(inputs)
        log_z = torch.empty(B, dtype=torch.float64, device=device)
        values |= {"log_z": log_z, "with_counts": int(counts)}
        scales = torch.ones(B, device=device) if scale is None else scale.detach().index_select(0, order)
        values["scale"] = scales.to(torch.float64)
        outputs: dict[str, Tensor] = {}
        for w in self.layout.events:
            shared = len(weights[w.name]) == 1 and not (by_sentence or B == 1)
            shape = (*weights[w.name].shape[1:], *(() if shared else (B,))) if counts else (1,) * w.num_axes
            outputs[w.name] = out = torch.zeros(shape, dtype=self._torch_dtype, device=device)
            values |= _strided(f"out.{w.name}", out, w.num_axes, shared or not counts) | {f"out.{w.name}.part": 0}
        self._launch("lanes", inputs, values)
        tables = {}
        for name, out in outputs.items() if counts else ():
            of_sentences = out.dim() == weights[name].dim()
            tables[name] = _back(out, order) if of_sentences else out[None]
        return _back(log_z, order), tables

    def draw(self, inputs: TensorInputs, number: int, seed: int, trace: Trace, width: int) -> tuple[Tensor, Tensor]:
        """Log Z, and the weights in drawn derivations, shape ``(number, B, width)``."""
        log_z, rows = self._descend("draw", inputs, trace, (number, width), "log_z", {"draws": number, "seed": seed})
        return log_z, rows.transpose(0, 1)

    def best(self, inputs: TensorInputs, trace: Trace, width: int) -> tuple[Tensor, Tensor]:
        """The log weight of the best derivation, shape ``(B,)``, and the weights in it, shape ``(B, width)``."""
        return self._descend("best", inputs, trace, (width,), "scores", {})

    def _descend(
        self, name: str, inputs: TensorInputs, trace: Trace, shape: Sequence[int], result: str, extra: Values
    ) -> tuple[Tensor, Tensor]:
        """A result by sentence, and derivations as rows of numbers, shape ``(B, *shape)``."""
        B, device = len(inputs.lengths), inputs.lengths.device
        order, values = self._batch(inputs, raised=name != "best")
        of_each = torch.empty(B, dtype=torch.float64, device=device)
        rows = torch.full((*shape[:-1], B, shape[-1]), -1, dtype=torch.long, device=device)
        values |= {**extra, result: of_each, "batch": B, **trace_values(self.layout, trace, rows)}
        self._launch(name, inputs, values)
        return _back(of_each, order), _back(rows.movedim(-2, -1), order)

    # ------------------------------------------------------------------ parameters

    def _batch(self, inputs: TensorInputs, raised: bool = True) -> tuple[Tensor, Values]:
        """The order of sentences by their lengths, the longest first, and parameters of kernels.

        :param raised: whether numbers that all sentences share are exponentiated.
        """
        pitch, lengths = self._pitch(inputs), inputs.lengths
        weights = {name: w.detach().to(self._torch_dtype) for name, w in inputs.weights.items()}
        order = torch.argsort(lengths, descending=True, stable=True)
        # No kernel reads beyond a table, whatever the lengths are.
        sorted_lengths = lengths.index_select(0, order).clamp(0, pitch - 1).to(torch.long)
        values: Values = {"pitch": pitch, "count": len(lengths), "lengths": sorted_lengths}
        values["order"] = torch.arange(len(lengths), device=lengths.device)
        values |= {f"size.{name}": inputs.sizes[name] for name in self.layout.sizes}
        for name in self.layout.lists:
            values[f"list.{name}"] = torch.from_numpy(inputs.lists[name]).to(lengths.device, torch.long).contiguous()
        for name, rows in inputs.words.items():
            values[f"words.{name}"] = rows.index_select(0, order).to(torch.long).contiguous()
            values[f"words.{name}.b"] = rows.shape[1]
        for w in self.layout.weights:
            table, shared = weights[w.name], len(weights[w.name]) == 1
            rows = table[0] if shared else table.movedim(0, -1).index_select(-1, order)
            values |= _strided(f"weight.{w.name}", rows, w.num_axes, shared)
        if self.shared:
            values["numbers"] = threads.numbers_of(self.recursion, weights, raised)
        return order, values

    def _pitch(self, inputs: TensorInputs) -> int:
        """Positions of the longest sentence and one more, as far as shapes tell; else lengths are asked."""
        bounds = []
        for w in self.layout.weights:
            shape = inputs.weights[w.name].shape[1 : 1 + w.num_positions]
            bounds += [size - last for size, last in zip(shape, w.last, strict=True)]
        bounds += [rows.shape[1] + 1 for rows in inputs.words.values()]
        return min(bounds) if bounds else int(inputs.lengths.max()) + 1

    # ------------------------------------------------------------------ kernels

    def _launch(self, name: str, inputs: TensorInputs, values: Values) -> None:
        """Start a kernel, and the complete one if it leaves sentences to that."""
        self._start(name, False, inputs, values)
        log_z = values.get("log_z")
        if isinstance(log_z, Tensor) and log_z.isnan().any():
            self._start(name, True, inputs, values)

    def _start(self, name: str, complete: bool, inputs: TensorInputs, values: Values) -> None:
        kernel, B, device = self._kernel(name, complete), len(inputs.lengths), inputs.lengths.device
        cells, agenda, each, places = self._room(name, inputs)
        if agenda:
            rows = rows_by_symbol(self.cells, inputs.sizes, inputs.lists)
            values["rows_by_symbol"] = torch.from_numpy(rows).to(device)
        most = min(kernel.most_threads, self.launcher.memory // (_SHARE * each))
        number = max(WARP, min(-(-B // WARP) * WARP, most // WARP * WARP))
        values |= places | {"size": cells, "size.agenda": agenda, "again": int(complete)}
        for array in ("memory", "mantissas", "exponents"):
            values[array] = torch.zeros(number * cells, dtype=self._torch_dtype, device=device)
        values["agenda"] = torch.empty(number * agenda, dtype=torch.long, device=device)
        self.launcher.launch(kernel, number, values)

    def fits(self, inputs: TensorInputs, name: str) -> bool:
        """Whether the device has memory for a warp of a kernel, and what a warp has fits into indices of 32 bits."""
        cells, agenda, each, _ = self._room(name, inputs)
        return WARP * max(cells, agenda) < 2**31 and WARP * each <= self.launcher.memory // _SHARE

    def _room(self, name: str, inputs: TensorInputs) -> tuple[int, int, int, dict[str, int]]:
        """Cells of a thread's chart, numbers of its agenda, bytes of both; and where tables begin in its memory."""
        sizes, pitch = self._sizes(name), self._pitch(inputs)
        parameters = sizes.parameters["size"]
        names = parameters[parameters.index(threads.PLACES.name) + 1 :]
        places = np.zeros(len(names), np.int64)
        symbols = {f"size.{size}": inputs.sizes[size] for size in self.layout.sizes}
        known = {**symbols, "pitch": pitch, threads.PLACES.name: places}
        cells = sizes("size", {**dict.fromkeys(parameters, 0), **known})
        agenda = 0 if name == "lanes" else size_of_agenda(self.cells, pitch, inputs.sizes)
        each = 3 * cells * self._torch_dtype.itemsize + 8 * agenda
        return cells, agenda, each, dict(zip(names, places.tolist(), strict=True))

    def _load(self, name: str, complete: bool) -> Loaded:
        """A kernel, from the cache or made now; see :func:`.kernels.assembly`."""
        architecture = self.launcher.architecture
        on_cpu, kind = architecture == CPU, f"kernels: {name}{' with numbers' if self.shared else ''}"

        def module() -> tuple[bytes, dict[str, list[str]]]:
            kernel = threads.kernel(name, self.recursion, self.dtype, self.shared)
            text = kernels.assembly(kernel, [threads.log()], self.dtype, "cpu" if on_cpu else "gpu", complete)
            data = objects.object_of(text) if on_cpu else ptx.ptx_of(text, architecture)
            return data, {name: [p.name for p in kernel.parameters]}

        target = objects.target() if on_cpu else [architecture]
        source = "\0".join([self.recursion.key(), kind, str(complete), self.dtype, *target, hash_of_sources()])
        data, parameters = objects.kept(source, ".o" if on_cpu else ".ptx", module)
        return self.launcher.load(data, name, parameters[name])

    def _load_sizes(self, name: str) -> Compiled:
        """What a kernel needs."""
        kind = "size with numbers" if self.shared else "size"

        def functions() -> list[Function]:
            return [threads.KERNELS[name](self.recursion, self.dtype, self.shared).size()]

        return compiled(self.recursion, f"{kind} of a thread: {name}", functions, self.dtype, 1)


def _strided(name: str, table: Tensor, num_axes: int, shared: bool) -> Values:
    """A table ``(*axes,)`` or ``(*axes, B)`` with its strides."""
    axes = {f"{name}.{x}": s for x, s in enumerate(table.stride()[:num_axes])}
    return {name: table, f"{name}.b": 0 if shared else table.stride(-1), **axes}


def _back(by_sentence: Tensor, order: Tensor) -> Tensor:
    """What is by sentence, in the order in which they were given: ``(.., B)`` to ``(B, ..)``."""
    rows = by_sentence.movedim(-1, 0)
    return torch.empty(rows.shape, dtype=rows.dtype, device=rows.device).index_copy_(0, order, rows)
