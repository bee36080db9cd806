# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Compiled recursions under torch: log Z whose gradient is the expected counts."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pyrogram.charts.checks import is_traced
from pyrogram.charts.projective import choose_engine
from pyrogram.charts.trees import lengths_of
from pyrogram.grammar import Weights
from pyrogram.recursion.calling.sentences import Sentences
from pyrogram.recursion.rules.language import Recursion
from pyrogram.recursion.running.program import Program, program
from pyrogram.recursion.tensors.engine import TorchEngine

from .recursive_sizes import Fitted


@dataclass(frozen=True)
class Sums:
    """A recursion with all that it needs besides weights and words.

    Log weights are given by block, shape ``(B, *shape)``, or ``(1, *shape)`` for all sentences alike; words have shape
    ``(B, n)``, padded with -1.
    """

    recursion: Recursion
    fitted: Fitted

    @property
    def program(self) -> Program:
        """The compiled code."""
        return program(self.recursion)

    def given(self, log_weights: Mapping[str, Tensor], words: Tensor) -> Sentences:
        """What compiled code takes: float32 if all weights are, else float64."""
        rows = words.detach().cpu().numpy()
        single = all(w.dtype == torch.float32 for w in log_weights.values())
        dtype = torch.float32 if single else torch.float64
        weights = {name: w.detach().cpu().to(dtype).numpy() for name, w in log_weights.items()}
        lengths = (rows >= 0).sum(-1)
        return Sentences(lengths, weights, dict.fromkeys(self.fitted.words, rows), self.fitted.sizes, self.fitted.lists)

    def log_partition(self, log_weights: Mapping[str, Tensor], words: Tensor) -> Tensor:
        """Log Z, shape ``(B,)``, in nats; differentiable."""
        tables = list(log_weights.values())
        if all(choose_engine(t, None) == "numba" for t in tables) and not is_traced(words):
            log_z: Tensor = _LogPartition.apply(self, tuple(log_weights), words, *tables)
            return log_z
        return self.by_torch(log_weights, words)

    def log_counts(
        self, log_weights: Mapping[str, Tensor], words: Tensor, scale: Tensor | None = None
    ) -> tuple[Tensor, Weights]:
        """Log Z and expected counts in the shapes of the weights, summed where sentences share them; no graph.

        :param scale: what the counts of each sentence are multiplied by, shape ``(B,)``.
        """
        first = next(iter(log_weights.values()))
        dtype = _result_type(log_weights.values())
        if len(words) == 0:
            return first.new_zeros(0, dtype=dtype), {name: torch.zeros_like(w) for name, w in log_weights.items()}
        by = None if scale is None else scale.detach().cpu().double().numpy()
        log_z, counts = self.program.log_counts(self.given(log_weights, words), scale=by)
        found = {name: torch.from_numpy(counts[name]).to(w.device, w.dtype) for name, w in log_weights.items()}
        return torch.from_numpy(log_z).to(first.device, dtype), found

    def by_torch(self, log_weights: Mapping[str, Tensor], words: Tensor) -> Tensor:
        """Log Z by torch, with any number of derivatives, on any device and under torch's transforms."""
        dtype = _result_type(log_weights.values())
        weights = {name: w.to(dtype) for name, w in log_weights.items()}
        lists = {name: torch.from_numpy(column).to(words.device) for name, column in self.fitted.lists.items()}
        rows = dict.fromkeys(self.fitted.words, words)
        engine = _torch_engine(self.recursion)
        return engine.log_partition(weights, lengths_of(words), rows, self.fitted.sizes, lists)


def _torch_engine(recursion: Recursion) -> TorchEngine:
    """The torch engine of a recursion; equal recursions share one."""
    key = recursion.key()
    if key not in _engines:
        _engines[key] = TorchEngine(recursion)
    return _engines[key]


_engines: dict[str, TorchEngine] = {}


class _LogPartition(torch.autograd.Function):
    """log Z by compiled code; the counts come with it, so that backward is a product."""

    @staticmethod
    def forward(ctx: Any, sums: Sums, names: tuple[str, ...], words: Tensor, *tables: Tensor) -> Tensor:
        ctx.sums, ctx.names = sums, names
        given = dict(zip(names, tables, strict=True))
        if not any(ctx.needs_input_grad) or len(words) == 0:
            ctx.save_for_backward(words, *tables)
            if len(words) == 0:
                return sums.log_counts(given, words)[0]
            log_z, _ = sums.program.log_counts(sums.given(given, words), counts=False)
            return torch.from_numpy(log_z).to(_result_type(tables))
        found, counts = sums.log_counts(given, words)
        ctx.save_for_backward(words, *tables, *counts.values())
        return found

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (gradient,) = gradients
        words, *saved = ctx.saved_tensors
        tables, counts = saved[: len(ctx.names)], saved[len(ctx.names) :]
        if len(words) == 0:
            return (None, None, None, *map(torch.zeros_like, tables))
        if torch.is_grad_enabled() or is_traced(gradient):

            def log_z(*given: Tensor) -> Tensor:
                return ctx.sums.by_torch(dict(zip(ctx.names, given, strict=True)), words)  # type: ignore[no-any-return]

            # A table that no sentence meets has a gradient of zero, which is to hang on the graph as the others do.
            found = torch.func.vjp(log_z, *tables)[1](gradient)
            return (None, None, None, *(g if g.requires_grad else g + 0 * gradient.sum() for g in found))
        if bool((gradient == gradient[0]).all()):  # a plate's scale: the usual case
            return (None, None, None, *(gradient[0].to(c.dtype) * c for c in counts))
        if all(len(t) == len(words) for t in tables):
            return (None, None, None, *(gradient.to(c.dtype).reshape(-1, *[1] * (c.dim() - 1)) * c for c in counts))
        _, scaled = ctx.sums.log_counts(dict(zip(ctx.names, tables, strict=True)), words, gradient)
        return (None, None, None, *scaled.values())


def _result_type(tables: Iterable[Tensor]) -> torch.dtype:
    return functools.reduce(torch.promote_types, (t.dtype for t in tables))
