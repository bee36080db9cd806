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
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from ..emit.traces import Trace
from ..rules.recursions import Recursion
from ..torch.engine import SumsInTorch, TorchEngine, is_traced
from .derivatives import derivatives, gradients_by
from .device_engine import DeviceEngine
from .launching import launcher_for
from .program import MOST_NATS, Program
from .tensor_inputs import FLOATS
from .tensor_inputs import TensorInputs as TensorInputs
from .tensor_inputs import fits_compiled as fits_compiled

Numbers = Any  # a numpy array


class SumsOnTensors(ABC):
    """Log Z, expected counts, draws and best derivations, with weights in tensors.

    :param derivation: what derivations are called in messages.
    """

    def __init__(self, derivation: str) -> None:
        self._derivation = derivation

    @property
    @abstractmethod
    def program(self) -> Any:
        """The compiled code: a :class:`Program`, or what has those of its methods that are wanted."""

    @property
    @abstractmethod
    def torch_engine(self) -> SumsInTorch:
        """The same in torch."""

    @functools.cached_property
    def _device_engines(self) -> Any:
        return functools.lru_cache(functools.partial(DeviceEngine, self.program.recursion))

    def on_device(self, inputs: TensorInputs, name: Literal["lanes", "draw", "best"] = "lanes") -> DeviceEngine | None:
        """Kernels, if the weights are on a device that has them, with memory for the charts of a few sentences.

        :param name: of the kernel that is wanted, ``lanes`` for sums.
        """
        launcher = launcher_for(inputs.lengths.device)
        if launcher is None or not len(inputs.lengths) or self.program.recursion.linked:  # which threads would scatter
            return None
        inputs = inputs.in_rows()
        tables, words, device = inputs.weights.values(), inputs.words.values(), inputs.lengths.device
        if any(t.device != device for t in (*tables, *words)) or any(w.dtype not in FLOATS for w in tables):
            return None
        shared = self.program.has_numbers(inputs.weights)
        if shared and name != "best":  # then they are exponentiated; with NaN log Z is NaN
            logs = torch.cat([inputs.weights[table].detach().flatten() for table in self.program.plain])
            shared = bool(((logs.abs() < MOST_NATS) | (logs == -torch.inf) | logs.isnan().any()).all())
        dtype = "float32" if name == "lanes" and inputs.precision == torch.float32 else "float64"
        engine: DeviceEngine = self._device_engines(dtype, launcher, shared)
        return engine if engine.fits(inputs, name) else None

    def fits(self, inputs: TensorInputs) -> bool:
        """Whether compiled code or kernels can have the weights."""
        return fits_compiled(*inputs.weights.values()) or self.on_device(inputs) is not None

    def log_partition(self, inputs: TensorInputs, *, by_torch: bool = False) -> Tensor:
        """Log Z, shape ``(B,)``, in nats; -inf without derivations. Differentiable any number of times.

        :param by_torch: whether torch does it even where compiled code could.
        """
        return self.in_torch(inputs) if by_torch or not self.fits(inputs) else self.of_fitting(inputs)

    def of_fitting(self, inputs: TensorInputs) -> Tensor:
        """The same of weights that compiled code or kernels can have."""
        if not _has_gradient(inputs):
            return self.log_counts(inputs, counts=False)[0]
        log_z_counts, tables = self.log_counts(inputs), inputs.weights.values()
        log_z: Tensor = _LogPartition.apply(self, inputs.without_weights(), log_z_counts, False, *tables)
        return log_z

    def marginals(
        self, inputs: TensorInputs, *, by_sentence: bool = False, by_torch: bool = False
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Log Z, and expected counts in the shapes of the weights: summed over the sentences that share a table.

        Differentiable.

        :param by_sentence: counts of shape ``(B, *axes)`` also of tables that sentences share.
        """
        by_torch = by_torch or not self.fits(inputs)
        if not by_torch and not _has_gradient(inputs):
            return self.log_counts(inputs, by_sentence=by_sentence)
        if by_sentence:
            inputs = inputs.expanded()
        if by_torch:
            return self.torch_engine.marginals(*inputs.for_torch())
        (log_z, counts), rest, tables = self.log_counts(inputs), inputs.without_weights(), inputs.weights.values()
        counts = _Counts.apply(self, rest, list(counts.values()), log_z.new_ones(1).expand(len(log_z)), *tables)
        by_table = dict(zip(inputs.weights, counts, strict=True))
        return _LogPartition.apply(self, rest, (log_z, by_table), True, *tables), by_table

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
        if kernels is not None:
            log_z_counts = kernels.log_counts(inputs.in_rows(), counts=counts, scale=scale, by_sentence=by_sentence)
        elif inputs.lengths.is_cpu or constants:
            sentences = inputs.arrays().with_constants(constants or {})
            log_z_counts = self.program.log_counts(
                sentences, counts=counts, scale=_factors(scale), by_sentence=by_sentence
            )
        else:
            with torch.inference_mode(False), torch.no_grad():
                arguments = (inputs.expanded() if by_sentence else inputs).for_torch()
                log_z_counts = self.torch_engine.marginals(*arguments, scale=scale)
        return _like_weights(inputs, *log_z_counts)

    def tangents(self, inputs: TensorInputs, directions: Sequence[Tensor], scale: Tensor) -> list[Tensor] | None:
        """Derivatives of log Z, shape ``(B,)``, and of the counts by compiled code, without a graph.

        :param directions: of the weights.
        :param scale: what the counts of each sentence are multiplied by, shape ``(B,)``.
        :returns: None if compiled code cannot find them, or a graph is wanted.
        """
        tensors = *inputs.weights.values(), *directions, scale
        if torch.is_grad_enabled() or any(map(is_traced, tensors)):
            return None
        if not len(inputs.lengths) or not fits_compiled(*tensors) or self.on_device(inputs) is not None:
            return None
        by = {n: u.detach().numpy() for n, u in inputs.with_weights(directions).in_rows().weights.items()}
        log_z_counts = self.program.tangents(inputs.arrays(), by, scale=_factors(scale))
        tangent, by_table = _like_weights(inputs, *log_z_counts)
        return [tangent, *by_table.values()]

    def best(self, inputs: TensorInputs, k: int, trace: Trace, width: int) -> tuple[Tensor, Tensor]:
        """See :meth:`.Program.best`; scores are float64. On a device the best one is found by kernels, k on the CPU."""
        kernels = self.on_device(inputs, "best") if k == 1 else None
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
        log_z, rows = self.drawn(inputs, number, seed, trace, width)
        check_possible(log_z, self._derivation)
        return rows

    def drawn(self, inputs: TensorInputs, number: int, seed: int, trace: Trace, width: int) -> tuple[Tensor, Tensor]:
        """Log Z, shape ``(B,)``, and the weights in drawn derivations; see :meth:`.Program.draw`."""
        kernels = self.on_device(inputs, "draw")
        if kernels is not None:
            return kernels.draw(inputs, number, seed, trace, width)
        values, rows = self.program.draw(inputs.arrays(), number, seed, trace, width)
        return torch.from_numpy(values), torch.from_numpy(rows)

    def in_torch(self, inputs: TensorInputs) -> Tensor:
        """Log Z by torch, with any number of derivatives, on any device and under torch's transforms."""
        return self.torch_engine.log_partition(*inputs.for_torch()).to(inputs.dtype)


def check_possible(log_z: Tensor, derivation: str) -> None:
    """
    :param derivation: what derivations are called in messages.
    :raises ValueError: if a sentence has no derivation, or weights that are NaN.
    """
    possible = log_z.isfinite()
    if not possible.all():
        first = int(possible.long().argmin())
        if log_z[first].isnan():
            raise ValueError(f"scores of sentence {first} must be numbers, but some are NaN")
        raise ValueError(f"sentence {first} has no {derivation} of positive weight to sample")


class TensorProgram(SumsOnTensors):
    """The sums of a recursion.

    :param recursion: the rules.
    :param derivation: what derivations are called in messages.
    """

    def __init__(self, recursion: Recursion, derivation: str = "derivation") -> None:
        super().__init__(derivation)
        self.recursion = recursion

    @functools.cached_property
    def program(self) -> Program:
        return Program(self.recursion)

    @functools.cached_property
    def torch_engine(self) -> TorchEngine:
        return TorchEngine(self.recursion)


def tensor_program(recursion: Recursion) -> TensorProgram:
    """The program of a recursion on tensors; equal recursions share one."""
    key = recursion.key()
    if key not in _programs:
        _programs[key] = TensorProgram(recursion)
    return _programs[key]


_programs: dict[str, TensorProgram] = {}


class _LogPartition(torch.autograd.Function):
    """Log Z, whose gradient are the counts that were found with it.

    The first backward pass takes those that nobody else has: they become the gradient without a copy. A second one
    finds them again.
    """

    @staticmethod
    def forward(
        ctx: Any,
        on: SumsOnTensors,
        inputs: TensorInputs,
        log_z_counts: tuple[Tensor, Mapping[str, Tensor]],
        are_shown: bool,
        *tables: Tensor,
    ) -> Tensor:
        log_z, counts = log_z_counts[0], list(log_z_counts[1].values())
        ctx.on, ctx.inputs, ctx.kept = on, inputs, None if are_shown else counts
        ctx.save_for_backward(*tables, *(counts if are_shown else ()))
        return log_z

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (gradient,), saved = gradients, ctx.saved_tensors
        tables, shown = saved[: len(ctx.inputs.weights)], saved[len(ctx.inputs.weights) :]
        kept = ctx.__dict__.pop("kept", None)  # by one thread
        if not is_traced(gradient):
            kept = list(shown) or kept
            find = _Counts.apply if torch.is_grad_enabled() else _scaled_counts
            return (None, None, None, None, *find(ctx.on, ctx.inputs, kept, gradient, *tables))

        def log_z(*tables: Tensor) -> list[Tensor]:
            return [ctx.on.in_torch(ctx.inputs.with_weights(tables))]

        return (None, None, None, None, *derivatives(log_z, tables, [gradient]))


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
        ctx.on, ctx.inputs = on, inputs
        ctx.save_for_backward(scale, *tables)
        return tuple(_scaled_counts(on, inputs, kept, scale, *tables))

    @staticmethod
    def backward(ctx: Any, *directions: Any) -> Any:
        scale, *tables = ctx.saved_tensors  # which checkpointing gives once
        inputs = ctx.inputs.with_weights(tables)
        gradients = ctx.on.tangents(inputs, directions, scale)
        if gradients is None:

            def counts(scale: Tensor, *tables: Tensor) -> Sequence[Tensor]:
                return gradients_by(tables, [ctx.on.in_torch(inputs.with_weights(tables))], [scale], graph=True)

            gradients = derivatives(counts, [scale, *tables], directions)
        return (None, None, None, *gradients)


def _scaled_counts(
    on: SumsOnTensors, inputs: TensorInputs, kept: list[Tensor] | None, scale: Tensor, *tables: Tensor
) -> list[Tensor]:
    """Counts by compiled code, those of each sentence times a factor.

    :param kept: the counts themselves, if they were found. Those that are shown require a gradient; nobody else has the
        others.
    """
    factors, B = scale.detach(), len(scale)
    of_each = inputs.batched and all(len(t) == B for t in tables)
    if not of_each and B > 1 and factors.stride(0) != 0 and not bool((factors == factors[0]).all()):
        kept = None
    if kept is None:
        return list(on.log_counts(inputs.with_weights(tables), factors)[1].values())
    if factors.is_cpu and (factors.numpy() == 1).all() and not any(c.requires_grad for c in kept):  # as those of a sum
        return kept
    return [_scaled(c, factors if of_each else factors[:1]) for c in kept]


def _scaled(counts: Tensor, factors: Tensor) -> Tensor:
    """The product, in place if nobody else has the counts.

    On the CPU by numpy: torch would wake its threads, which then spin and get in our way.
    """
    factors, values = factors.reshape(-1, *[1] * (counts.dim() - 1)).to(counts.dtype), counts.detach()
    if not counts.is_cpu:
        return values * factors
    array = values.numpy()
    return torch.from_numpy(np.multiply(array, factors.numpy(), out=None if counts.requires_grad else array))


def _has_gradient(inputs: TensorInputs) -> bool:
    return torch.is_grad_enabled() and any(w.requires_grad for w in inputs.weights.values())


def _factors(scale: Tensor | None) -> Numbers | None:
    """Factors of sentences as compiled code takes them."""
    return None if scale is None else scale.detach().cpu().double().numpy()


def _like_weights(inputs: TensorInputs, log_z: Any, by_table: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Log Z, and counts in shapes, types and places of the weights; those of one sentence are NaN where its log Z is.

    :param by_table: arrays or tensors with a first dimension; nothing, if there are no counts.
    """
    counts: dict[str, Tensor] = {}
    log_z = _as_tensor(log_z, inputs.lengths.device, inputs.dtype)
    if not by_table:
        return log_z, counts
    unknown, B = log_z.isnan(), len(log_z)
    spoilt = True in unknown.tolist()
    for name, w in inputs.weights.items():
        table = _as_tensor(by_table[name] if inputs.batched else by_table[name][0], w.device, w.dtype)
        if spoilt and (B == 1 or (inputs.batched and len(table) == B)):
            table = table.masked_fill(unknown.reshape(-1, *[1] * (table.dim() - 1)), torch.nan)
        counts[name] = table
    return log_z, counts


def _as_tensor(table: Any, device: torch.device, dtype: torch.dtype) -> Tensor:
    """An array or a tensor; for few numbers, an operation of torch takes noticeable time."""
    if isinstance(table, np.ndarray):
        table = torch.from_numpy(table.astype(np.float32, copy=False) if dtype == torch.float32 else table)
    tensor: Tensor = table
    return tensor if tensor.dtype == dtype and tensor.device == device else tensor.to(device, dtype)
