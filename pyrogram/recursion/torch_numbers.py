# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Log Z from a chart of plain numbers in torch, where these can be trusted: no exponentials but of the weights.

A *rate* keeps cells in range: each rule is multiplied by exp(-rate * gauge), see :func:`.torch_plan.gauge`, so that an
item of length l is exp(-rate * l) times what it was. It is the sentence's own, and estimated from spans (or points) of
a small width; the chart is begun again where it matters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from pyrogram.charts.checks import is_traced

from .torch_chart import Chart
from .torch_fill import fill
from .torch_plan import ClassPlan
from .torch_semirings import Numbers
from .torch_tables import Tables

_PROBE = 8  # the width at which the rate is estimated


def log_partition(plans: Sequence[ClassPlan], tables: Tables) -> Tensor | None:
    """Log Z, or None if it cannot be trusted: numbers are looked at, which torch's transforms forbid.

    It can be trusted if all cells within the sentences are within 2^-E .. 2^E, and p E <= 600 for the p factors of any
    rule. Then no product of a rule leaves the range of numbers, and neither does the derivative of log Z by a cell,
    which is at most one over the cell. float32 has no such range.
    """
    inputs = [*tables.weights.values(), *tables.words.values(), tables.lengths]
    if tables.dtype != torch.float64 or any(map(is_traced, inputs)):
        return None
    greatest = 600 // max(len(rule.factors) for rule in tables.cells.recursion.rules) * math.log(2)
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
    if not _is_trusted(chart, math.exp(greatest)):
        return None
    log_z = chart.get(tables.cells.goal, 0)[0].log()
    return log_z if rate is None else log_z + rate * tables.lengths


@torch.no_grad()
def _rate(chart: Chart, greatest: float) -> Tensor | None:
    """Log weight by unit of length, shape ``(B,)``; None if cells stay in range without.

    From the greatest cell of the greatest width up to that of the probe that the sentence has.
    """
    tables, first = chart.tables, chart.program.first
    rate = torch.zeros(tables.batch, dtype=tables.dtype, device=tables.device)
    for w in (1, 2, 4, _PROBE):
        for name, known in chart.cells.items():
            if w in known:
                end = torch.arange(known[w].shape[-2], device=tables.device)[:, None] + w
                end = end + (first if chart.program.arity[name] == 2 else 0)
                cells = torch.where(end <= tables.lengths, known[w], 0.0).flatten(0, -2).amax(0)
                found = cells.log() / w
                rate = torch.where(found.isfinite(), found, rate)
    return rate if bool((rate.abs() * tables.lengths).amax() > greatest / 2) else None


@torch.no_grad()
def _is_trusted(chart: Chart, greatest: float) -> bool:
    """Whether all cells within their sentences are in range."""
    tables = chart.tables
    cells = [(name, w, cell) for name, known in chart.cells.items() for w, cell in known.items()]
    flat = torch.cat([cell.reshape(-1, cell.shape[-1]) for _, _, cell in cells])
    key = "ends", tuple(sorted(tables.sizes.items()))
    if key not in tables.grids:
        ends = []
        for name, w, cell in cells:
            end = torch.arange(cell.shape[-2]) + w + (tables.cells.first if tables.cells.arity[name] == 2 else 0)
            ends.append(end.expand(cell.shape[:-1]).flatten())
        tables.grids[key] = torch.cat(ends).to(tables.device)[:, None]
    in_range = (flat >= 1 / greatest) & (flat <= greatest)
    return bool((in_range | (tables.grids[key] > tables.lengths)).all())
