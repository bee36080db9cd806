# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A recursion in torch: any device, any floating dtype, any number of derivatives, and torch's transforms.

Cells are logarithms. All cells of one width of all sentences are filled at once, with all their splits at once: a sum
over k is one product of two tables (see :mod:`.torch_chart`) and one log-sum-exp. Sums of one cell that have equally
many splits are stacked. A term that fits none of this is read on a grid of all its positions and masked.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from .cells import lower
from .language import Recursion
from .torch_chart import Chart
from .torch_fill import Run
from .torch_plan import ClassPlan
from .torch_semirings import Greatest, Logarithms, Semiring
from .torch_tables import Tables


class TorchEngine:
    """A recursion in torch.

    :param recursion: the rules.
    """

    def __init__(self, recursion: Recursion) -> None:
        self.recursion = recursion
        self.cells = lower(recursion)
        self._plans = [ClassPlan.of(self.cells, c) for c in self.cells.classes]

    def log_partition(
        self,
        weights: Mapping[str, Tensor],
        lengths: Tensor,
        words: Mapping[str, Tensor] | None = None,
        sizes: Mapping[str, int] | None = None,
        lists: Mapping[str, Tensor] | None = None,
    ) -> Tensor:
        """Log Z of sentences, shape ``(B,)``; -inf, with derivatives zero, where there is no derivation.

        :param weights: log weights by table: ``(B, *axes)``, or ``(1, *axes)`` or ``(*axes)`` for all sentences; axes of
            positions, 0 .. n for the longest sentence, come first, then those of symbols. One dtype.
        :param lengths: numbers of words, shape ``(B,)``.
        :param words: by name, shape ``(B, n)``, anything negative in the padding.
        :param sizes: numbers of symbols, by the names of sizes.
        :param lists: columns of lists of rules, shape ``(rows,)``.
        """
        return self._run(Logarithms(), weights, lengths, words, sizes, lists)

    def best(
        self,
        weights: Mapping[str, Tensor],
        lengths: Tensor,
        words: Mapping[str, Tensor] | None = None,
        sizes: Mapping[str, int] | None = None,
        lists: Mapping[str, Tensor] | None = None,
    ) -> Tensor:
        """The greatest log weight of a derivation, shape ``(B,)``; arguments as of :meth:`log_partition`.

        The gradient counts the weights in a best derivation, if there is one only.
        """
        return self._run(Greatest(), weights, lengths, words, sizes, lists)

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
            found = torch.autograd.grad(
                log_z.sum(), list(leaves.values()), create_graph=keep, allow_unused=True, materialize_grads=True
            )
        return log_z if keep else log_z.detach(), dict(zip(leaves, found, strict=True))

    def _run(
        self,
        semiring: Semiring,
        weights: Mapping[str, Tensor],
        lengths: Tensor,
        words: Mapping[str, Tensor] | None,
        sizes: Mapping[str, int] | None,
        lists: Mapping[str, Tensor] | None,
    ) -> Tensor:
        tables = Tables.of(self.cells, weights, lengths, words or {}, sizes or {}, lists or {})
        run = Run(semiring, tables, Chart(tables))
        first, n = self.cells.first, tables.n
        spans, points, goals = ([p for p in self._plans if p.cell.kind == kind] for kind in ("span", "point", "goal"))
        if any(f.is_item and len(f.positions) == 1 for p in spans for t in p.terms for f in t.term.all_factors):
            run = self._by_columns(run, spans, points)
        else:
            run.fill(spans, range(n - first + 1))
            run.fill(points, range(first, n + 1))
        run.fill(goals, range(1))
        return run.chart.get(self.cells.goal, 0)[0].expand(len(lengths))

    def _by_columns(self, run: Run, spans: list[ClassPlan], points: list[ClassPlan]) -> Run:
        """Spans that read points: all spans again for each point, which takes n times as long and is rare."""
        first, n = self.cells.first, run.tables.n
        items = [name for name, arity in self.cells.arity.items() if arity == 1 and name in self.cells.domains]
        known = {name: {j: run.chart.full(name, j) for j in range(first, n + 1)} for name in items}
        for j in range(first, n + 1):
            run = Run(run.semiring, run.tables, Chart(run.tables, {name: dict(x) for name, x in known.items()}))
            run.fill(spans, range(n - first + 1))
            run.fill(points, range(j, j + 1))
            for name in items:
                known[name][j] = run.chart.get(name, j)
        return run

