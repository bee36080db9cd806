# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A recursion on tensors: compiled code on the CPU, kernels on a GPU, torch for all else.

The gradient of log Z are the expected counts, which compiled code and kernels find along with it. So a first derivative
costs a product. A second one is a derivative of the counts in one direction, compiled too; all beyond is torch's.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..emit.traces import Trace
from ..rules.recursions import Recursion
from ..torch.engine import SumsInTorch, TorchEngine, is_traced
from .derivatives import derivatives
from .launching import Launcher, launcher_for
from .on_device import DeviceProgram
from .program import Program
from .tensor_inputs import TensorInputs as TensorInputs
from .tensor_inputs import factors_of as factors_of
from .tensor_inputs import fits_compiled as fits_compiled

Numbers = Any  # a numpy array
_NOTHING = torch.empty(0)  # in the place of weights, which contexts save by themselves


class SumsOnTensors(ABC):
    """Log Z, expected counts, draws and best derivations, with weights in tensors.

    :param derivation: what derivations are called in messages.
    """

    def __init__(self, derivation: str) -> None:
        self._derivation = derivation

    @property
    @abstractmethod
    def program(self) -> Any:
        """The compiled code, with the methods of a :class:`Program` that are wanted."""

    @property
    @abstractmethod
    def torch_engine(self) -> SumsInTorch:
        """The same in torch."""

    def on_device(self, inputs: TensorInputs, descends: bool = False) -> DeviceProgram | None:
        """The same in kernels, if the weights are on a device that has them; here there are none.

        :param descends: whether derivations are wanted, and not sums alone.
        """
        return None

    def fits(self, inputs: TensorInputs) -> bool:
        """Whether compiled code or kernels can have the weights."""
        tables = inputs.weights.values()
        return fits_compiled(*tables) or self.on_device(inputs) is not None

    def log_partition(self, inputs: TensorInputs, *, by_torch: bool = False) -> Tensor:
        """Log Z, shape ``(B,)``, in nats; -inf without derivations. Differentiable any number of times.

        :param by_torch: whether torch does it even where compiled code could.
        """
        return self.in_torch(inputs) if by_torch or not self.fits(inputs) else self.of_fitting(inputs)

    def of_fitting(self, inputs: TensorInputs) -> Tensor:
        """The same of weights that compiled code or kernels can have."""
        tables = inputs.weights.values()
        if not torch.is_grad_enabled() or True not in {t.requires_grad for t in tables}:
            return self.log_counts(inputs, counts=False)[0]
        log_z: Tensor = _LogPartition.apply(self, inputs, *tables)
        return log_z

    def marginals(
        self, inputs: TensorInputs, *, by_sentence: bool = False, by_torch: bool = False
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Log Z, and expected counts in the shapes of the weights: summed over the sentences that share a table.

        Differentiable.

        :param by_sentence: counts of shape ``(B, *axes)`` also of tables that sentences share.
        """
        tables = list(inputs.weights.values())
        by_torch = by_torch or not self.fits(inputs)
        if not by_torch and (not torch.is_grad_enabled() or not any(t.requires_grad for t in tables)):
            return self.log_counts(inputs, by_sentence=by_sentence)
        if by_sentence:
            tables = [t.expand(len(inputs.lengths), *t.shape[1:]) for t in tables]
            inputs = inputs.with_weights(tables)
        if by_torch:
            lists = inputs.list_tensors()
            return self.torch_engine.marginals(inputs.weights, inputs.lengths, inputs.words, inputs.sizes, lists)
        log_z, *counts = _Marginals.apply(self, inputs, *tables)
        return log_z, dict(zip(inputs.weights, counts, strict=True))

    def log_counts(
        self,
        inputs: TensorInputs,
        scale: Tensor | None = None,
        *,
        counts: bool = True,
        by_sentence: bool = False,
        constants: Mapping[str, Numbers] | None = None,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """:meth:`marginals` by compiled code, without a graph; on a device by kernels or torch. NaN where log Z is.

        :param scale: what the counts of each sentence are multiplied by, shape ``(B,)``.
        :param counts: whether there are to be counts.
        :param by_sentence: see :meth:`marginals`.
        :param constants: the other tables, of the type of the weights, which all sentences then share.
        """
        kernels = None if constants else self.on_device(inputs)
        if kernels is not None or not (inputs.lengths.is_cpu or constants):
            there = self._log_counts_in_torch if kernels is None else kernels.log_counts
            log_z, by_table = there(inputs.in_rows(), counts=counts, scale=scale, by_sentence=by_sentence)
            return log_z.to(inputs.dtype), {
                n: inputs.like_weights(by_table[n]).to(w.dtype) for n, w in inputs.weights.items() if counts
            }
        by = None if scale is None else scale.detach().cpu().double().numpy()
        sentences = inputs.arrays().with_constants(constants or {})
        log_z, by_table = self.program.log_counts(sentences, counts=counts, scale=by, by_sentence=by_sentence)
        if counts and (unknown := np.isnan(log_z)).any():
            for table in (t for t in by_table.values() if len(t) == len(log_z)):
                table[unknown] = np.nan
        return _tensor(log_z, inputs.lengths.device, inputs.dtype), {
            n: _tensor(inputs.like_weights(by_table[n]), w.device, w.dtype) for n, w in inputs.weights.items() if counts
        }

    def tangents(
        self, inputs: TensorInputs, directions: Sequence[Tensor | None], scale: Tensor | None
    ) -> list[Tensor] | None:
        """Derivatives of log Z, shape ``(B,)``, and of the counts by compiled code, without a graph.

        :param directions: of the weights, None for zero.
        :param scale: what the counts of each sentence are multiplied by, shape ``(B,)``.
        :returns: None if compiled code cannot find them, or a graph is wanted; here it is none.
        """
        return None

    def best(self, inputs: TensorInputs, k: int, trace: Trace, width: int) -> tuple[Tensor, Tensor]:
        """See :meth:`.Program.best`; scores are float64. On a device the best one is found by kernels, k on the CPU."""
        if len(inputs.lengths) == 0:
            return torch.zeros(k, 0), torch.zeros(k, 0, width, dtype=torch.long)
        kernels = self.on_device(inputs, descends=True) if k == 1 else None
        if kernels is not None:
            score, row = kernels.best(inputs, trace, width)
            return score[None], row[None]
        scores, rows = self.program.best(inputs.arrays(), k, trace, width)
        return torch.from_numpy(scores), torch.from_numpy(rows)

    def draw(
        self, inputs: TensorInputs, number: int, trace: Trace, width: int, generator: torch.Generator | None = None
    ) -> Tensor:
        """The weights in drawn derivations, shape ``(number, B, width)``; see :meth:`.Program.draw`.

        On a device without kernels they are drawn on the CPU.

        :raises ValueError: if a sentence has no derivation, or weights that are NaN.
        """
        device = None if generator is None else generator.device
        seed = int(torch.randint(2**62, (), generator=generator, device=device))
        if len(inputs.lengths) == 0 or number == 0:
            return torch.zeros(number, len(inputs.lengths), width, dtype=torch.long)
        log_z, rows = self.drawn(inputs, number, seed, trace, width)
        possible = log_z.isfinite()
        if not possible.all():
            first = int(possible.long().argmin())
            if log_z[first].isnan():
                raise ValueError(f"scores of sentence {first} must be numbers, but some are NaN")
            raise ValueError(f"sentence {first} has no {self._derivation} of positive weight to sample")
        return rows

    def drawn(self, inputs: TensorInputs, number: int, seed: int, trace: Trace, width: int) -> tuple[Tensor, Tensor]:
        """Log Z, shape ``(B,)``, and the weights in drawn derivations; see :meth:`.Program.draw`."""
        kernels = self.on_device(inputs, descends=True)
        if kernels is not None:
            return kernels.draw(inputs, number, seed, trace, width)
        values, rows = self.program.draw(inputs.arrays(), number, seed, trace, width)
        return torch.from_numpy(values), torch.from_numpy(rows)

    def in_torch(self, inputs: TensorInputs) -> Tensor:
        """Log Z by torch, with any number of derivatives, on any device and under torch's transforms."""
        inputs = inputs.in_rows()
        weights = {name: w.to(inputs.precision) for name, w in inputs.weights.items()}
        rest = inputs.lengths, inputs.words, inputs.sizes, inputs.list_tensors()
        return self.torch_engine.log_partition(weights, *rest).to(inputs.dtype)

    def _log_counts_in_torch(
        self, inputs: TensorInputs, *, counts: bool = True, scale: Tensor | None = None, by_sentence: bool = False
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """:meth:`log_counts` by torch, in logarithms, wherever the tensors are."""
        B, tables = len(inputs.lengths), [w.detach().to(inputs.precision) for w in inputs.weights.values()]
        wide = [w.expand(B, *w.shape[1:]) if by_sentence else w for w in tables]
        with torch.inference_mode(False):
            few = inputs.with_copies().with_weights(wide)
            rest = few.lengths, few.words, few.sizes, few.list_tensors()
        if not counts:
            with torch.no_grad():
                return self.in_torch(few), {}
        log_z, by_table = self.torch_engine.marginals(few.weights, *rest, scale=scale)
        unknown = log_z.isnan()
        for name, table in by_table.items():
            if len(table) == B:
                by_table[name] = table.masked_fill(unknown.reshape(-1, *[1] * (table.dim() - 1)), torch.nan)
        return log_z, by_table


class TensorProgram(SumsOnTensors):
    """The sums of a recursion.

    :param recursion: the rules.
    :param derivation: what derivations are called in messages.
    """

    def __init__(self, recursion: Recursion, derivation: str = "derivation") -> None:
        super().__init__(derivation)
        self.recursion = recursion
        self._on_devices: dict[Launcher, DeviceProgram] = {}

    @functools.cached_property
    def program(self) -> Program:
        return Program(self.recursion)

    @functools.cached_property
    def torch_engine(self) -> TorchEngine:
        return TorchEngine(self.recursion)

    def tangents(
        self, inputs: TensorInputs, directions: Sequence[Tensor | None], scale: Tensor | None
    ) -> list[Tensor] | None:
        tensors = [x for x in (*inputs.weights.values(), *directions, scale) if x is not None]
        is_graph = torch.is_grad_enabled() or any(map(is_traced, tensors))
        fits = fits_compiled(*tensors) and self.on_device(inputs) is None
        if is_graph or not fits or not self.program.in_many or not len(inputs.lengths):
            return None
        tables, by = inputs.weights.items(), dict[str, Numbers]()
        for (name, w), u in zip(inputs.in_rows().weights.items(), directions, strict=True):
            by[name] = (torch.zeros_like(w) if u is None else u.reshape(w.shape)).detach().numpy()
        factors = None if scale is None else scale.detach().double().numpy()
        tangent, by_table = self.program.tangents(inputs.arrays(), by, scale=factors)
        for table in (t for t in by_table.values() if len(t) == len(tangent)):
            table[np.isnan(tangent)] = np.nan
        by_weight = (torch.from_numpy(inputs.like_weights(by_table[n])).to(w.dtype) for n, w in tables)
        return [_tensor(tangent, inputs.lengths.device, inputs.dtype), *by_weight]

    def on_device(self, inputs: TensorInputs, descends: bool = False) -> DeviceProgram | None:
        launcher = launcher_for(inputs.lengths.device)
        if launcher is None or not len(inputs.lengths) or not self.program.in_many:
            return None
        tables = [*inputs.weights.values(), *inputs.words.values()]
        if any(t.device != inputs.lengths.device for t in tables):
            return None
        if any(w.dtype not in (torch.float32, torch.float64) for w in inputs.weights.values()):
            return None
        if launcher not in self._on_devices:
            self._on_devices[launcher] = DeviceProgram(self.program, launcher)
        there = self._on_devices[launcher]
        return there if there.fits(inputs.in_rows(), descends) else None


def tensor_program(recursion: Recursion) -> TensorProgram:
    """The program of a recursion on tensors; equal recursions share one."""
    key = recursion.key()
    if key not in _programs:
        _programs[key] = TensorProgram(recursion)
    return _programs[key]


_programs: dict[str, TensorProgram] = {}


class _LogPartition(torch.autograd.Function):
    """Log Z by compiled code, with the counts kept for the first backward pass; a second one finds them again.

    So nobody else has them when they become the gradient, and they need no copy.
    """

    @staticmethod
    def forward(ctx: Any, on: SumsOnTensors, inputs: TensorInputs, *tables: Tensor) -> Tensor:
        ctx.on, ctx.inputs = on, inputs.with_weights([_NOTHING] * len(tables))
        ctx.save_for_backward(*tables)
        log_z, counts = on.log_counts(inputs)
        ctx.kept = list(counts.values())
        return log_z

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (gradient,) = gradients
        tables = ctx.saved_tensors
        kept = ctx.__dict__.pop("kept", None)  # by one thread
        if is_traced(gradient):
            return (None, None, *_derivatives(ctx.on, ctx.inputs.with_weights(tables), [gradient]))
        if torch.is_grad_enabled():
            return (None, None, *_Counts.apply(ctx.on, ctx.inputs, kept, gradient, *tables))
        return (None, None, *_scaled_counts(ctx.on, ctx.inputs.with_weights(tables), kept, gradient))


def _scaled_counts(
    on: SumsOnTensors, inputs: TensorInputs, kept: list[Tensor] | None, scale: Tensor
) -> Sequence[Tensor]:
    """Counts by compiled code, those of each sentence times a factor.

    :param kept: the counts themselves, if they were found and nobody else has them.
    """
    factors, tables = scale.detach(), inputs.weights.values()
    is_one = len(factors) < 2 or factors.stride(0) == 0 or bool((factors == factors[0]).all())
    if not is_one and not (inputs.batched and all(len(t) == len(factors) for t in tables)):
        return list(on.log_counts(inputs, factors)[1].values())
    if kept is None:
        kept = list(on.log_counts(inputs)[1].values())
    if factors.is_cpu and (factors.numpy() == 1).all():  # as those of a sum
        return kept
    return [_scaled(c, factors[:1] if is_one else factors, in_place=True) for c in kept]


class _Counts(torch.autograd.Function):
    """:func:`_scaled_counts`, once differentiable by compiled code."""

    @staticmethod
    def forward(
        ctx: Any,
        on: SumsOnTensors,
        inputs: TensorInputs,
        kept: list[Tensor] | None,
        scale: Tensor,
        *tables: Tensor,
    ) -> Any:
        ctx.on, ctx.inputs = on, inputs.with_weights([_NOTHING] * len(tables))
        ctx.save_for_backward(scale, *tables)
        return tuple(_scaled_counts(on, inputs.with_weights(tables), kept, scale))

    @staticmethod
    def backward(ctx: Any, *directions: Any) -> Any:
        scale, *tables = ctx.saved_tensors
        inputs = ctx.inputs.with_weights(tables)
        gradients = ctx.on.tangents(inputs, directions, scale)
        if gradients is None:
            *gradients, by_scale = _derivatives(ctx.on, inputs, [None, *directions], scale)
            return (None, None, None, by_scale, *gradients)
        return (None, None, None, *gradients)


class _Marginals(torch.autograd.Function):
    """Log Z and counts by compiled code, and their first derivatives."""

    @staticmethod
    def forward(ctx: Any, on: SumsOnTensors, inputs: TensorInputs, *tables: Tensor) -> Any:
        ctx.on, ctx.inputs = on, inputs.with_weights([_NOTHING] * len(tables))
        ctx.set_materialize_grads(False)
        log_z, counts = on.log_counts(inputs)
        ctx.save_for_backward(*tables, *counts.values())
        return log_z, *counts.values()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:
        size = len(ctx.inputs.weights)
        saved = ctx.saved_tensors  # which checkpointing gives once
        tables, counts = saved[:size], saved[size:]
        if all(g is None for g in gradients):
            return (None, None, *(None,) * size)
        inputs = ctx.inputs.with_weights(tables)
        by_log_z, *directions = gradients
        if torch.is_grad_enabled() or any(is_traced(g) for g in gradients if g is not None):
            return (None, None, *_derivatives(ctx.on, inputs, gradients))
        summands: list[list[Tensor]] = []
        if any(g is not None for g in directions):
            tangents = ctx.on.tangents(inputs, directions, None)
            if tangents is None:
                return (None, None, *_derivatives(ctx.on, inputs, gradients))
            summands.append(tangents[1:])
        if by_log_z is not None and all(len(t) == len(inputs.lengths) for t in tables):
            summands.append([_scaled(c, by_log_z.detach(), in_place=False) for c in counts])
        elif by_log_z is not None:
            summands.append(list(ctx.on.log_counts(inputs, by_log_z)[1].values()))
        return (None, None, *(functools.reduce(torch.add, terms) for terms in zip(*summands, strict=True)))


def _scaled(counts: Tensor, factors: Tensor, in_place: bool) -> Tensor:
    """The product; on the CPU by numpy: torch would wake its threads, which then spin and get in our way."""
    if counts.device.type != "cpu":
        return counts * factors.reshape(-1, *[1] * (counts.dim() - 1)).to(counts.dtype)
    values = counts.numpy()
    numbers = factors.numpy().reshape(-1, *[1] * (values.ndim - 1)).astype(values.dtype, copy=False)
    return torch.from_numpy(np.multiply(values, numbers, out=values if in_place else None))


def _tensor(array: Numbers, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Of an array; for few numbers, an operation of torch takes noticeable time."""
    if dtype == torch.float32:
        array = array.astype(np.float32, copy=False)
    tensor = torch.from_numpy(array)
    return tensor if tensor.dtype == dtype and device.type == "cpu" else tensor.to(device, dtype)


def _derivatives(
    on: SumsOnTensors, inputs: TensorInputs, gradients: Sequence[Tensor | None], scale: Tensor | None = None
) -> tuple[Tensor, ...]:
    """Derivatives of log Z and of the counts in the directions of ``gradients``, as torch has them."""
    # Copies, for what was made in inference mode cannot be differentiated through.
    inputs, tables = inputs.with_copies(), tuple(inputs.weights.values())
    return derivatives(lambda *tables: on.in_torch(inputs.with_weights(tables)), tables, gradients, scale)
