# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A recursion in torch: any device, any floating dtype, any number of derivatives, and torch's transforms.

Cells are logarithms. All cells of one width of all sentences are filled at once, with all their splits at once: a sum
over k is one product of two tables (see :mod:`.fill`) and one log-sum-exp.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from ..rules.lowering import lower
from ..rules.recursions import Recursion
from .chart import Chart
from .fill import Heads, fill, fill_point_by_point
from .given import is_traced
from .lists import in_stages, own_row
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
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Log Z and expected counts, in the shapes of the weights: summed over the sentences that share a table.

        Differentiable if a weight requires a gradient.
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
            found = torch.autograd.grad(
                log_z.sum(), list(leaves.values()), create_graph=keep, allow_unused=True, materialize_grads=True
            )
        return log_z if keep else log_z.detach(), dict(zip(leaves, found, strict=True))


def derivatives(
    log_z: Callable[..., Tensor],
    tables: Sequence[Tensor],
    gradients: Sequence[Tensor | None],
    scale: Tensor | None = None,
) -> tuple[Tensor, ...]:
    """The gradients by the tables, and by the scale, of log Z, or of log Z and its gradients by the tables.

    With a graph where gradients are enabled: a backward pass calls this.

    :param log_z: from the tables, shape ``(B,)``.
    :param gradients: of log Z, and of its gradients by the tables, which may be left out; None for zero.
    :param scale: what the log Z of each sentence is multiplied by in the gradients by the tables.
    """
    graph, given = torch.is_grad_enabled(), [*tables] if scale is None else [*tables, scale]

    def gradient(outputs: Sequence[Tensor], directions: Sequence[Tensor], by: int, graph: bool) -> list[Tensor]:
        pairs = [(y, g) for y, g in zip(outputs, directions, strict=True) if y.requires_grad]
        if not pairs:
            return [torch.zeros_like(t) for t in leaves[:by]]
        ys, gs = zip(*pairs, strict=True)
        found = torch.autograd.grad(ys, leaves[:by], gs, create_graph=graph, allow_unused=True, materialize_grads=True)
        return list(found)

    with torch.enable_grad():
        # Views, for a scale may depend on the tables.
        leaves = [t.view_as(t) if graph and t.requires_grad else t.detach().requires_grad_() for t in given]
        outputs = [log_z(*leaves[: len(tables)])]
        if len(gradients) > 1:
            ones = torch.ones_like(outputs[0]) if scale is None else leaves[-1]
            outputs += gradient(outputs, [ones], len(tables), True)
        directed = [(y, g) for y, g in zip(outputs, gradients, strict=False) if g is not None]
        found = gradient([y for y, _ in directed], [g for _, g in directed], len(leaves), graph)
        # A table that no sentence meets has a gradient of zero, which is to hang on the graph as the others do.
        anchor = torch.stack([0 * g.sum() for _, g in directed]).sum()
        return tuple(g if g.requires_grad or not graph else g + anchor for g in found)


class TorchEngine(SumsInTorch):
    """A recursion in torch.

    :param recursion: the rules.
    """

    def __init__(self, recursion: Recursion) -> None:
        self.recursion = recursion
        self.cells = lower(recursion)
        self._staged: dict[str, tuple[list[Heads], dict[str, list[int]]]] = {}
        self._follows_lists = any(own_row(self.cells, c, head) for c in self.cells.classes for head in c.heads)
        self._spans_read_points = any(
            f.is_item and len(f.positions) == 1
            for cell in self.cells.of("span")
            for head in cell.heads
            for term in head.terms
            for f in term.all_factors
        )

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
        weights = {name: _wide(w) for name, w in weights.items()}
        classes, lists = self._classes(dict(lists or {}))
        tables = Tables.of(self.cells, weights, lengths, words or {}, sizes or {}, lists)
        traced = any(map(is_traced, [*weights.values(), *(words or {}).values(), lengths]))
        chart = Chart(tables, Logarithms(looks=not traced))
        if self._spans_read_points:
            chart = fill_point_by_point(chart, classes)
        else:
            fill(chart, classes)
        found = chart.get(self.cells.goal, 0)[0]
        return found.masked_fill(found.detach() == -torch.inf, -torch.inf).to(dtype)  # which has no gradient

    def _classes(self, lists: dict[str, Tensor]) -> tuple[list[Heads], dict[str, Tensor]]:
        """The classes of cells with their heads, and the lists with those of stages of rows."""
        if not self._follows_lists:
            return [(cell, cell.heads) for cell in self.cells.classes], lists
        rows = {name: column.tolist() for name, column in lists.items()}
        key = str(rows)
        if key not in self._staged:
            found: list[Heads] = []
            more: dict[str, list[int]] = {}
            for cell in self.cells.classes:
                heads, new = in_stages(self.cells, cell, rows)
                found.append((cell, heads))
                more |= new
            self._staged[key] = found, more
        classes, more = self._staged[key]
        device = next(iter(lists.values())).device
        return classes, lists | {name: torch.tensor(column, device=device) for name, column in more.items()}


def _wide(weights: Tensor) -> Tensor:
    """In float64, where the device has it: logarithms of long sentences are large, and what differs in them is not."""
    return weights if weights.device.type == "mps" else weights.double()
