# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Which sums of a grammar of low rank are products of matrices in rank space: those that training takes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from pyrogram.charts import rank_space
from pyrogram.charts.rank_space import RankSpace
from pyrogram.recursion.emit.sentences import Numbers
from pyrogram.recursion.rules.recursions import Recursion
from pyrogram.recursion.run.on_tensors import Given, TensorProgram, tensor_program

from .recursive_sums import Sums

Change = Callable[[Mapping[str, Tensor]], RankSpace]
# Ranks from which on products of matrices are quicker than sums in registers.
LEAST_RANKS = {torch.float32: 32, torch.float64: 64}


@dataclass(frozen=True)
class RankSpaceSums(Sums):
    """As :class:`.Sums`.

    :param change: from weights by block to those in rank space, differentiable.
    """

    change: Change

    @property
    def program(self) -> TensorProgram:
        return RankSpaceProgram(self.recursion, self.change)


class RankSpaceProgram(TensorProgram):
    """The recursion; log Z and expected counts by products of matrices, if all sentences share large tables.

    A sentence that they cannot be trusted for is left to the recursion, as everything else is.

    :param change: see :class:`RankSpaceSums`.
    """

    def __init__(self, recursion: Recursion, change: Change) -> None:
        super().__init__(recursion)
        self._change, self._page = change, tensor_program(recursion)

    @cached_property
    def program(self):  # type: ignore[no-untyped-def]
        return self._page.program

    @cached_property
    def torch_engine(self):  # type: ignore[no-untyped-def]
        return self._page.torch_engine

    def log_values(self, given: Given) -> Tensor:
        return self._in_rank_space(given, None, False)[0] if self._suits(given) else super().log_values(given)

    def log_counts(
        self,
        given: Given,
        scale: Tensor | None = None,
        *,
        by_sentence: bool = False,
        constants: Mapping[str, Numbers] | None = None,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        if by_sentence or constants or not self._suits(given):
            return super().log_counts(given, scale, by_sentence=by_sentence, constants=constants)
        return self._in_rank_space(given, scale, True)

    def _suits(self, given: Given) -> bool:
        tables = given.weights
        if len(given.lengths) == 0 or given.lengths.device.type != "cpu":
            return False
        if any(len(t) > 1 or t.dtype != given.dtype for t in tables.values()):
            return False
        return tables["left"].shape[1] >= LEAST_RANKS.get(given.dtype, math.inf)

    def _in_rank_space(self, given: Given, scale: Tensor | None, counts: bool) -> tuple[Tensor, dict[str, Tensor]]:
        (words,) = given.words.values()
        lengths, by = given.lengths.numpy(), None if scale is None else scale.detach().double().numpy()
        distinct, numbers = words.clamp_min(0).unique(return_inverse=True)
        logs = {name: t[0].detach() for name, t in given.weights.items()}
        logs["emission"] = logs["emission"].index_select(-1, distinct)
        # A derivation of n words has as many events of a block as any other, so the greatest weight may be one.
        shifts = {name: t.max().clamp(min=torch.finfo(t.dtype).min) for name, t in logs.items()}
        with torch.inference_mode(False), torch.set_grad_enabled(counts):
            weights = {name: (t - shifts[name]).exp().requires_grad_(counts) for name, t in logs.items()}
            changed = self._change(weights)
            plain = RankSpace(*(t.detach() for t in changed))
            log_z, total, failed = rank_space.log_counts(plain, numbers.numpy(), lengths, by, counts=counts)
            found: dict[str, Tensor] = {}
            if total is not None:
                gradients = torch.autograd.grad(changed, list(weights.values()), total)
                found = {n: g * t.detach() for (n, t), g in zip(weights.items(), gradients, strict=True)}
        once, each = float(shifts["root"]), float(shifts["emission"])
        both = sum(float(shift) for name, shift in shifts.items() if name not in ("root", "emission"))
        log_z = self._log_z(log_z + once + (lengths - 1) * both + lengths * each, given)
        if counts:
            whole = torch.zeros_like(given.weights["emission"][0])
            found["emission"] = whole.index_copy_(-1, distinct, found["emission"])
            found = {name: table[None] for name, table in found.items()}
        if failed.any():
            rest = torch.from_numpy(failed.nonzero()[0])
            few = replace(given, lengths=given.lengths[rest], words={n: w[rest] for n, w in given.words.items()})
            if not counts:
                log_z[rest] = super().log_values(few)
                return log_z, found
            log_z[rest], more = super().log_counts(few, None if scale is None else scale[rest])
            found = {name: table + more[name] for name, table in found.items()}
        return log_z, found
