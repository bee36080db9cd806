# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A recursion in torch: any device, any floating dtype, any number of derivatives, and torch's transforms.

Cells are logarithms. All cells of one width of all sentences are filled at once, with all their splits at once: a sum
over k is one product of two tables (see :mod:`.fill`) and one log-sum-exp.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

import torch
from torch import Tensor

from ..rules.lowering import lower
from ..rules.recursions import Recursion
from .fill import Filler
from .semirings import Logarithms
from .tables import Tables


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
        tables = Tables(self.cells, wide, lengths, words or {}, sizes or {}, lists or {})
        traced = any(map(is_traced, [*wide.values(), *(words or {}).values(), lengths]))
        log_z = Filler(tables, Logarithms(looks=not traced)).fill()
        return log_z.masked_fill(log_z.detach() == -torch.inf, -torch.inf).to(dtype)  # which has no gradient
