# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Log Z from a chart of plain numbers in torch, where these can be trusted: no exponentials but of the weights.

A *rate* keeps cells in range: each rule is multiplied by exp(-rate * gauge), see :func:`.plan.gauge`, so that an
item of length l is exp(-rate * l) times what it was. It is the sentence's own, and estimated from spans (or points) of
a small width; the chart is begun again where it matters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from .chart import Chart
from .fill import fill
from .plan import ClassPlan
from .semirings import Numbers
from .tables import Tables
from .tracing import is_traced

_PROBE = 8  # the width at which the rate is estimated


def log_partition(plans: Sequence[ClassPlan], tables: Tables) -> Tensor | None:
    """Log Z, or None if it cannot be trusted: numbers are looked at, which torch's transforms forbid.

    It can be trusted if all cells within the sentences are within 2^-E .. 2^E and no weight is above 2^E, with
    p E <= 800 for rules of p factors, the rate being one. Then nothing overflows, and what underflows on its way into a
    cell errs by 2^-1074 times factors that are together less than 2^800 times the cell. The derivative of log Z by a
    cell is at most one over the cell, so the same holds for gradients. float32 has no such range.
    """
    inputs = [*tables.weights.values(), *tables.words.values(), tables.lengths]
    if tables.dtype != torch.float64 or any(map(is_traced, inputs)):
        return None
    num_factors = 1 + max(len(rule.factors) for rule in tables.cells.recursion.rules)
    greatest = min(200, 800 // num_factors) * math.log(2)
    rate: Tensor | None = None
    chart = Chart(tables, Numbers())
    kind = "span" if tables.cells.of("span") else "point"

    def watch(of: str, w: int) -> bool:
        nonlocal rate
        if of != kind or w != _PROBE or 2 * _PROBE > tables.n or any(t.gauge is None for p in plans for t in p.terms):
            return False
        rate = _rate(chart, greatest)
        return rate is not None

    fill(chart, plans, watch=watch)
    if rate is not None:
        chart = Chart(tables, Numbers())
        fill(chart, plans, rate)
    if rate is not None and float(rate.abs().amax()) * _greatest_gauge(plans) > greatest:
        return None
    if not _is_trusted(chart, greatest):
        return None
    log_z = chart.get(tables.cells.goal, 0)[0].log()
    return log_z if rate is None else log_z + rate * tables.lengths


def _greatest_gauge(plans: Sequence[ClassPlan]) -> int:
    return max(abs(t.gauge or 0) for p in plans for t in p.terms)


@torch.no_grad()
def _rate(chart: Chart, greatest: float) -> Tensor | None:
    """Log weight by unit of length, shape ``(B,)``; None if cells stay in range without.

    The slope of the greatest cell's logarithm, between the widths that the sentence has up to that of the probe.
    """
    tables = chart.tables
    rate = torch.zeros(tables.batch, dtype=tables.dtype, device=tables.device)
    for name, known in chart.cells.items():
        for low, high in ((0, 1), (1, 2), (2, 4), (4, _PROBE)):
            if low in known and high in known:
                slope = (_greatest(chart, name, high) - _greatest(chart, name, low)) / (high - low)
                rate = torch.where(slope.isfinite(), slope, rate)
    return rate if bool((rate.abs() * tables.lengths).amax() > 0.8 * greatest) else None


def _greatest(chart: Chart, item: str, w: int) -> Tensor:
    """Log of the greatest cell of a width within each sentence, shape ``(B,)``."""
    cells, lengths = chart.cells[item][w], chart.tables.lengths
    end = torch.arange(cells.shape[-2], device=lengths.device)[:, None] + w
    end = end + (chart.program.first if chart.program.arity[item] == 2 else 0)
    return torch.where(end <= lengths, cells, 0.0).flatten(0, -2).amax(0).log()


@torch.no_grad()
def _is_trusted(chart: Chart, greatest: float) -> bool:
    """Whether all weights are, and all cells within their sentences."""
    tables = chart.tables
    if tables.weights and not bool((torch.stack([w.amax() for w in tables.weights.values()]) <= greatest).all()):
        return False
    most = math.exp(greatest)
    known = [(name, w, cell) for name, each in chart.cells.items() for w, cell in each.items()]
    cells = [x for x in known if x[:2] not in chart.empty]
    flat = torch.cat([cell.reshape(-1, cell.shape[-1]) for _, _, cell in cells])
    key = "ends", tuple(sorted(tables.sizes.items()))
    if key not in tables.grids:
        ends = []
        for name, w, cell in cells:
            end = torch.arange(cell.shape[-2]) + w + (tables.cells.first if tables.cells.arity[name] == 2 else 0)
            ends.append(end.expand(cell.shape[:-1]).flatten())
        tables.grids[key] = torch.cat(ends).to(tables.device)[:, None]
    in_range = (flat >= 1 / most) & (flat <= most)
    return bool((in_range | (tables.grids[key] > tables.lengths)).all())
