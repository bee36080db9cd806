# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A recursion in torch: any device, any floating dtype, derivatives (see :class:`.Numbers`), and torch's transforms.

All cells of one width of all sentences are filled at once, with all their splits at once: a sum over k is one product
of two tables (see :mod:`.positions`) and one sum. Cells are numbers where these are in range, and else logarithms.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Mapping

import torch
from torch import Tensor

from ..emit.layout import Layout
from ..rules.lowering import lower
from ..rules.recursions import Recursion
from .chart import Chart
from .positions import Positions
from .semirings import Logarithms, Numbers, in_range
from .tables import Tables

MOST_LENGTHS = 16  # of sentences, for which positions are kept


class SumsInTorch(ABC):
    """Log Z in torch, and its gradient."""

    @abstractmethod
    def log_partition(
        self,
        weights: Mapping[str, Tensor],
        lengths: Tensor,
        words: Mapping[str, Tensor] | None = None,
        sizes: Mapping[str, int] | None = None,
        lists: Mapping[str, Tensor] | None = None,
    ) -> Tensor:
        """Log Z of sentences, shape ``(B,)``; -inf, with derivatives zero, where there is no derivation.

        :param weights: log weights by table: ``(B, *axes)``, or ``(1, *axes)`` or ``(*axes)`` for all sentences; axes
            of positions, 0 .. n for the longest sentence, come first, then those of symbols. One dtype.
        :param lengths: numbers of words, shape ``(B,)``.
        :param words: by name, shape ``(B, n)``, anything negative in the padding.
        :param sizes: numbers of symbols, by the names of sizes.
        :param lists: columns of lists of rules, shape ``(rows,)``.
        """

    def marginals(
        self,
        weights: Mapping[str, Tensor],
        lengths: Tensor,
        words: Mapping[str, Tensor] | None = None,
        sizes: Mapping[str, int] | None = None,
        lists: Mapping[str, Tensor] | None = None,
        *,
        scale: Tensor | None = None,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Log Z and expected counts, in the shapes of the weights: summed over the sentences that share a table.

        Differentiable if a weight requires a gradient.

        :param scale: what the counts of each sentence are multiplied by, shape ``(B,)``.
        """
        keep = torch.is_grad_enabled() and any(w.requires_grad for w in weights.values())
        with torch.inference_mode(False), torch.enable_grad():
            leaves = {
                name: w if keep and w.requires_grad else w.detach().clone().requires_grad_()
                for name, w in weights.items()
            }
            log_z = self.log_partition(leaves, lengths, words, sizes, lists)
            if not log_z.requires_grad:  # it depends on no weight
                return log_z, {name: torch.zeros_like(w) for name, w in weights.items()}
            total = (log_z if scale is None else log_z * scale.detach()).sum()
            gradients = torch.autograd.grad(
                total, list(leaves.values()), create_graph=keep, allow_unused=True, materialize_grads=True
            )
        return log_z if keep else log_z.detach(), dict(zip(leaves, gradients, strict=True))


def is_traced(tensor: Tensor) -> bool:
    """Whether torch compiles or transforms (vmap, grad): then values cannot be looked at."""
    functorch = torch._C._functorch
    return (
        torch.compiler.is_compiling()
        or functorch.is_functorch_wrapped_tensor(tensor)
        or functorch.is_legacy_batchedtensor(tensor)
    )


class TorchEngine(SumsInTorch):
    """A recursion in torch.

    :param recursion: the rules.
    """

    def __init__(self, recursion: Recursion) -> None:
        self.recursion = recursion
        self.cells = lower(recursion)
        self._weights = Layout(self.cells).weights
        self._positions = functools.lru_cache(MOST_LENGTHS)(functools.partial(Positions, self.cells))

    def __reduce__(self) -> tuple[type[TorchEngine], tuple[Recursion]]:
        return TorchEngine, (self.recursion,)  # positions know what they belong to by its id

    def log_partition(
        self,
        weights: Mapping[str, Tensor],
        lengths: Tensor,
        words: Mapping[str, Tensor] | None = None,
        sizes: Mapping[str, int] | None = None,
        lists: Mapping[str, Tensor] | None = None,
    ) -> Tensor:
        if len(lengths) == 0:  # operations of torch want to know the greatest number, or the shape
            return torch.stack([w.sum() for w in weights.values()]).sum() * lengths
        dtype = next((w.dtype for w in weights.values()), None)
        # Logarithms of long sentences are large, and what differs in them is not: float64, where the device has it.
        wide = {name: w if w.device.type == "mps" else w.double() for name, w in weights.items()}
        traced = any(map(is_traced, [*wide.values(), *(words or {}).values(), lengths]))
        tables = Tables(self.cells, self._weights, wide, lengths, words or {}, sizes or {}, lists or {})
        log_z = None if traced else self._by_numbers(tables)
        if log_z is None:
            log_z = Chart(tables, Logarithms(looks=not traced), self._positions(tables.n)).fill()
        return log_z.masked_fill(log_z.detach() == -torch.inf, -torch.inf).to(dtype)  # which has no gradient

    def _by_numbers(self, tables: Tables) -> Tensor | None:
        """Log Z by plain numbers; None where these leave their range."""
        factors = max(1, *(len(x.factors) for x in self.recursion.rules))
        if tables.blank.dtype != torch.float64 or not all(in_range(w, factors) for w in tables.weights.values()):
            return None
        chart = Chart(tables, Numbers(), self._positions(tables.n))
        log_z = chart.fill().log()
        return log_z if bool(log_z.isfinite().all()) and in_range(chart.logs(), factors) else None
