# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Kernels compiled from recursions against those written by hand, in the same run."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from timing import race

from pyrogram.charts import projective, sibling
from pyrogram.recursion import Recursion, recursion
from pyrogram.recursion.calling.sentences import Sentences
from pyrogram.recursion.running.program import Program

HEADER = ["trees", "dtype", "n", "marginals: by hand", "from the recursion", "ratio", "log Z: ratio"]
BATCH = 512


@recursion
def trees(p: Any) -> None:
    """Plain projective trees."""
    i, j, k, r = p.positions("i j k r")
    RC, LC, IR, IL, Z = p.items("RC LC IR IL Z")
    arc = p.weights("arc")
    p.once(arc=1)
    RC[i, i] += 1
    LC[i, i] += 1
    IR[i, j] += arc[i, j] * RC[i, k] * LC[k + 1, j]
    IL[i, j] += arc[j, i] * RC[i, k] * LC[k + 1, j]
    RC[i, j] += IR[i, k] * RC[k, j]
    LC[i, j] += LC[i, k] * IL[k, j]
    Z[()] += arc[0, r] * LC[1, r] * RC[r, p.n]


@recursion
def valences(p: Any) -> None:
    """Trees with valences and stops."""
    i, j, k, r = p.positions("i j k r")
    RO, LO, RC, LC, IR, IL, Z = p.items("RO LO RC LC IR IL Z")
    arc, stop = p.weights("arc", 2), p.weights("stop", 2, 2)
    p.once(arc=1)
    p.once(stop=(0, 1))
    RO[i, i] += 1
    LO[i, i] += 1
    IR[i, j] += arc[i, j, i < k] * RO[i, k] * LC[k + 1, j]
    IL[i, j] += arc[j, i, k < j] * RC[i, k - 1] * LO[k, j]
    RO[i, j] += IR[i, k] * RC[k, j]
    LO[i, j] += LC[i, k] * IL[k, j]
    RC[i, j] += stop[i, 1, i < j] * RO[i, j]
    LC[i, j] += stop[j, 0, i < j] * LO[i, j]
    Z[()] += arc[0, r, 0] * LC[1, r] * RC[r, p.n]


@recursion
def siblings(p: Any) -> None:
    """Second-order trees."""
    i, j, k, r = p.positions("i j k r")
    RC, LC, IR, IL, B, Z = p.items("RC LC IR IL B Z")
    arc, sibling = p.weights("arc sibling")
    p.once(arc=1)
    p.once(sibling=1)
    RC[i, i] += 1
    LC[i, i] += 1
    IR[i, j] += arc[i, j] * (sibling[i, j, i] * RC[i, i] * LC[i + 1, j] + sibling[i, j, k] * IR[i, k] * B[k, j])
    IL[i, j] += arc[j, i] * (sibling[j, i, j] * RC[i, j - 1] * LC[j, j] + sibling[j, i, k] * B[i, k] * IL[k, j])
    B[i, j] += RC[i, k] * LC[k + 1, j]
    RC[i, j] += IR[i, k] * RC[k, j]
    LC[i, j] += LC[i, k] * IL[k, j]
    Z[()] += arc[0, r] * sibling[0, r, 0] * LC[1, r] * RC[r, p.n]


def pairs(lengths: Sequence[int], seconds: float) -> list[list[str]]:
    """Rows: sentences/s of one thread, and how many times faster the compiled recursion is."""
    rows = []
    for page in (trees(), valences(), siblings()):
        for dtype in (torch.float64, torch.float32):
            for n in lengths:
                rows.append(_row(page, dtype, n, seconds))
                print(" | ".join(rows[-1]), flush=True)
    return rows


def _row(page: Recursion, dtype: torch.dtype, n: int, seconds: float) -> list[str]:
    program = Program(page)
    batch = BATCH if page.name != "siblings" else max(16, BATCH * 8 // n**2)
    generator = torch.Generator().manual_seed(n)
    shapes = {w.name: (batch, *(n + 1,) * w.num_positions, *w.sizes) for w in program.tables}
    scores = {name: torch.randn(shape, generator=generator, dtype=dtype) for name, shape in shapes.items()}
    given = Sentences(np.full(batch, n), {name: s.numpy() for name, s in scores.items()}, {}, {}, {})
    lengths = torch.full((batch,), n)
    if page.name == "siblings":
        args: tuple[Any, ...] = (sibling, scores["arc"], scores["sibling"], None, lengths)
    else:
        arcs = scores["arc"] if scores["arc"].dim() == 4 else scores["arc"].unsqueeze(-1)
        args = (projective, arcs, scores.get("stop"), lengths)
    chart, *inputs = args
    torch.testing.assert_close(torch.from_numpy(program.log_counts(given)[0]).to(dtype), chart.log_partition(*inputs))
    times = race(
        {
            "marginals by hand": lambda: chart.marginals(*inputs),
            "marginals": lambda: program.log_counts(given),
            "log Z by hand": lambda: chart.log_partition(*inputs),
            "log Z": lambda: program.log_counts(given, counts=False),
        },
        1,
        seconds,
    )
    speeds = [f"{batch / times[name].median:,.0f}" for name in ("marginals by hand", "marginals")]
    ratios = [times[x].times_faster_than(times[f"{x} by hand"]) for x in ("marginals", "log Z")]
    return [page.name, str(dtype).removeprefix("torch."), str(n), *speeds, *(f"{r:.2f}" for r in ratios)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="for each comparison")
    pairs((5, 10, 20, 40), parser.parse_args().seconds)
