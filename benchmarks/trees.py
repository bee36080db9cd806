# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Projective dependency trees: log Z, marginals, draws and decoding beside the peers, and whether they agree."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from peers import ENGINES, Engine
from timing import Timing, race
from torch import Tensor

BATCH = 512
LENGTHS = (10, 20, 40)
TOLERANCES = {torch.float32: 1e-4, torch.float64: 1e-8}
COMPARED = ("log Z", "marginals", "Viterbi score", "MBR score")
DRAWS = 10
NOT_THERE = "-"


def scores_of(n: int, dtype: torch.dtype) -> Tensor:
    """Standard normal arc scores (BATCH, n+1, n+1), the same in every run."""
    generator = torch.Generator().manual_seed(n)
    return torch.randn(BATCH, n + 1, n + 1, dtype=torch.float64, generator=generator).to(dtype)


def agreement(engines: list[Engine], lengths: tuple[int, ...]) -> str:
    """A sentence on the worst differences from ours.

    :raises SystemExit: if log Z, a marginal, or the score of a best tree differs by more than the tolerance.
    """
    worst = dict.fromkeys(TOLERANCES, 0.0)
    for n in lengths:
        for dtype, tolerance in TOLERANCES.items():
            arcs = scores_of(n, dtype)
            expected: list[Tensor] = []
            for engine in engines:
                actual = _results(engine, arcs)
                expected = expected or actual
                for name, a, e in zip(
                    ("log Z", "marginals", "Viterbi score", "MBR score"), actual, expected, strict=True
                ):
                    difference = float(((a - e).abs() / e.abs().clamp_min(1)).max())
                    worst[dtype] = max(worst[dtype], difference)
                    if not difference <= tolerance:
                        where = f"n={n}, {_name(dtype)}"
                        raise SystemExit(f"{engine.name} and pyrogram differ in {name} by {difference:g} ({where})")
    differences = " and ".join(f"{difference:.1e} in {_name(dtype)}" for dtype, difference in worst.items())
    return f"Engines agree: log Z (relatively), marginals, and scores of best trees differ by at most {differences}."


def _results(engine: Engine, arcs: Tensor) -> list[Tensor]:
    scores = engine.prepare(arcs)
    log_z, gradient = engine.log_z_and_gradient(scores)
    marginals = engine.restore(gradient).detach().clone()
    marginals[:, :, 0] = 0
    marginals.diagonal(dim1=1, dim2=2).zero_()
    torch.testing.assert_close(engine.log_z(scores), log_z.detach(), rtol=1e-5, atol=0)
    best, safest = (_as_indicators(engine, trees, arcs) for trees in (engine.best(scores), engine.mbr(scores)))
    return [log_z.detach(), marginals, (best * arcs).sum((1, 2)), (safest * marginals).sum((1, 2))]


def _as_indicators(engine: Engine, trees: Tensor, arcs: Tensor) -> Tensor:
    if trees.dim() == 3:
        return engine.restore(trees).detach()
    indicators = torch.zeros_like(arcs)
    indicators[:, :, 1:].scatter_(1, trees[:, None], 1.0)
    return indicators


def charts(
    engines: list[Engine], lengths: tuple[int, ...], threads: tuple[int, ...], seconds: float
) -> list[list[str]]:
    """Rows: sentences/s of every engine and how many times faster ours is, for log Z and for log Z with marginals."""
    rows = []
    for what, method in (("log Z", "log_z"), ("log Z, marginals", "log_z_and_gradient")):
        for count in threads:
            for dtype in (torch.float64, torch.float32):
                for n in lengths:
                    works: dict[str, Callable[[], Any]] = {}
                    for engine in engines:
                        works[engine.name] = partial(getattr(engine, method), engine.prepare(scores_of(n, dtype)))
                    if method == "log_z_and_gradient":
                        works["counts"] = partial(engines[0].expected_counts, scores_of(n, dtype))  # type: ignore[attr-defined]
                    times = race(works, count, seconds)
                    counts = [_rate(times["counts"])] if "counts" in times else [NOT_THERE]
                    rows.append([what, str(count), _name(dtype), str(n), *_compared(times, engines), *counts])
                    print(" | ".join(rows[-1]), flush=True)
    return rows


CHART_HEADER = ["", "threads", "", "n", *ENGINES, "times torch-struct", "times supar", "pyrogram, `expected_counts()`"]


def decoding(engines: list[Engine], lengths: tuple[int, ...], threads: int, seconds: float) -> list[list[str]]:
    """Rows: trees/s of draws, Viterbi and MBR in float64."""
    rows = []
    for what, method, trees in ((f"{DRAWS} draws", "samples", DRAWS), ("Viterbi", "best", 1), ("MBR", "mbr", 1)):
        for n in lengths:
            works = {}
            for engine in engines:
                work = getattr(engine, method)
                arguments = (engine.prepare(scores_of(n, torch.float64)), *([DRAWS] if method == "samples" else []))
                try:
                    work(*arguments)
                except NotImplementedError:
                    continue
                works[engine.name] = partial(work, *arguments)
            rows.append([what, str(n), *_compared(race(works, threads, seconds), engines, trees)])
            print(" | ".join(rows[-1]), flush=True)
    return rows


DECODING_HEADER = ["trees/s", "n", *ENGINES, "times torch-struct", "times supar"]


def _compared(times: dict[str, Timing], engines: list[Engine], trees: int = 1) -> list[str]:
    """Rates of all engines, and the ratio of ours to every other."""
    rates = [_rate(times[e.name], trees) if e.name in times else NOT_THERE for e in engines]
    ours = times[engines[0].name]
    ratios = [f"{ours.times_faster_than(times[e.name]):.0f}" if e.name in times else NOT_THERE for e in engines[1:]]
    return rates + ratios


def _rate(timing: Timing, trees: int = 1) -> str:
    rate = BATCH * trees / timing.median
    return f"{float(f'{rate:.3g}'):,.0f}"


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
