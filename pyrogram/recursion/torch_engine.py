# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A recursion in torch: any device, any floating dtype, any number of derivatives, and torch's transforms.

Cells are logarithms. All cells of one width of all sentences are filled at once, with all their splits at once: a sum
over k is one product of two tables (see :mod:`.torch_chart`) and one log-sum-exp. Sums of one cell that have equally
many splits are stacked. A term that fits none of this is read on a grid of all its positions and masked.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from pyrogram.charts.checks import is_traced

from .cells import lower
from .language import Recursion
from .torch_chart import Chart
from .torch_fill import Filler
from .torch_lists import in_stages, own_row
from .torch_plan import ClassPlan, plan
from .torch_semirings import Greatest, Logarithms, Numbers, Semiring
from .torch_tables import Tables


class TorchEngine:
    """A recursion in torch.

    :param recursion: the rules.
    """

    def __init__(self, recursion: Recursion) -> None:
        self.recursion = recursion
        self.cells = lower(recursion)
        self._usual = [plan(self.cells, cell, cell.heads) for cell in self.cells.classes]
        self._staged: dict[str, tuple[list[ClassPlan], dict[str, list[int]]]] = {}
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
        plans, lists = self._plans(dict(lists or {}))
        tables = Tables.of(self.cells, weights, lengths, words or {}, sizes or {}, lists)
        if isinstance(semiring, Logarithms) and self._may_be_plain(tables):
            found = self._in_numbers(plans, tables)
            if found is not None:
                return found.expand(len(lengths))
        chart = self._filled(plans, Chart(tables, semiring), None)
        return chart.get(self.cells.goal, 0)[0].expand(len(lengths))

    def _plans(self, lists: dict[str, Tensor]) -> tuple[list[ClassPlan], dict[str, Tensor]]:
        """The plans of all classes, and the lists with those of stages of rows."""
        if not any(own_row(head) for cell in self.cells.classes for head in cell.heads):
            return self._usual, lists
        rows = {name: column.tolist() for name, column in lists.items()}
        key = str(rows)
        if key not in self._staged:
            found, more = [], {}
            for cell in self.cells.classes:
                heads, new = in_stages(cell.heads, rows)
                found.append(plan(self.cells, cell, heads))
                more |= new
            self._staged[key] = found, more
        plans, more = self._staged[key]
        device = next(iter(lists.values())).device
        return plans, lists | {name: torch.tensor(column, device=device) for name, column in more.items()}

    # ------------------------------------------------------------------ a chart

    def _filled(self, plans: list[ClassPlan], chart: Chart, rate: Tensor | None, most: int | None = None) -> Chart:
        """A chart with all its cells, or with those of widths up to ``most``."""
        first, n = self.cells.first, chart.tables.n

        def fill(kind: str, widths: range) -> None:
            for plan in plans:
                own = [w for w in widths if plan.covers(w)]
                if plan.cell.kind == kind and own:
                    filler = Filler(chart, plan, own, rate)
                    for w in own:
                        filler.fill(w)

        if most is not None:
            fill("span", range(most + 1))
            fill("point", range(first, most + 1))
            return chart
        if self._spans_read_points:
            # All spans again for each point, which takes n times as long and is rare.
            items = [name for name, arity in self.cells.arity.items() if arity == 1 and name in self.cells.domains]
            known = {name: {j: chart.full(name, j) for j in range(first, n + 1)} for name in items}
            for j in range(first, n + 1):
                chart = Chart(chart.tables, chart.semiring, {name: dict(x) for name, x in known.items()})
                fill("span", range(n - first + 1))
                for name in items:
                    del chart.cells[name][j]
                fill("point", range(j, j + 1))
                for name in items:
                    known[name][j] = chart.get(name, j)
        else:
            fill("span", range(n - first + 1))
            fill("point", range(first, n + 1))
        fill("goal", range(1))
        return chart

    # ------------------------------------------------------------------ in plain numbers

    def _may_be_plain(self, tables: Tables) -> bool:
        """Whether plain numbers are worth a try: they are looked at afterwards, which transforms forbid."""
        inputs = [*tables.weights.values(), *tables.words.values(), tables.lengths]
        return tables.dtype == torch.float64 and not self._spans_read_points and not any(map(is_traced, inputs))

    def _in_numbers(self, plans: list[ClassPlan], tables: Tables) -> Tensor | None:
        """Log Z from a chart of plain numbers, or None if it cannot be trusted.

        It can if all cells of the sentences are within 2^-E .. 2^E, where products of p factors have p E <= 600: then
        no product of a rule leaves the range of numbers; the adjoint of a cell in log Z is at most one over the cell.
        """
        most = 600 // max(len(rule.factors) for rule in self.recursion.rules) * math.log(2)
        rate: Tensor | None = None
        gauged = all(t.gauge is not None for p in plans for t in p.terms)
        if gauged and tables.n > _PROBE + self.cells.first:
            with torch.no_grad():
                rate = self._rate(self._filled(plans, Chart(tables, Numbers()), None, _PROBE), most)
        chart = self._filled(plans, Chart(tables, Numbers()), rate)
        goal = chart.get(self.cells.goal, 0)[0]
        if not self._is_trusted(chart, math.exp(most)):
            return None
        return goal.log() if rate is None else goal.log() + rate * tables.lengths

    def _rate(self, chart: Chart, most: float) -> Tensor | None:
        """Log weight by word, from spans or points of a small width; None if it does not matter."""
        found = []
        for name, cells in chart.cells.items():
            if _PROBE in cells:
                found.append(cells[_PROBE].flatten(0, -2).amax(0).log() / _PROBE)
        rate = torch.stack(found).amax(0)
        rate = torch.where(rate.isfinite(), rate, 0.0)
        return rate if bool((rate.abs().amax() * chart.tables.n > most / 2)) else None

    def _is_trusted(self, chart: Chart, most: float) -> bool:
        """Whether all cells within their sentences are in range."""
        lengths = chart.tables.lengths
        good = torch.ones((), dtype=torch.bool, device=lengths.device)
        for name, cells in chart.cells.items():
            arity = self.cells.arity[name]
            flat = chart.flat(name).detach()
            inside = (flat >= 1 / most) & (flat <= most)
            if arity:
                ends = [torch.arange(w + self.cells.first, self.cells.first + chart.positions) for w in sorted(cells)]
                end = torch.cat(ends) if arity == 2 else torch.arange(min(cells), max(cells) + 1)
                beyond = end.to(lengths.device)[:, None] > lengths
                inside = inside | beyond.reshape(len(end), *(1,) * (flat.dim() - 2), len(lengths))
            good = good & inside.all()
        return bool(good)


_PROBE = 8  # the width from which the growth of cells with length is estimated
