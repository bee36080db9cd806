# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Non-projective trees: log Z, marginals, draws and best trees beside the peers, and whether they agree.

Scores are standard normal, and trees have a single root. Neither peer draws, and torch-struct has no best tree.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from peers import Pyrogram, Supar, TorchStruct, by_gradient
from timing import Timing, race
from torch import Tensor

BATCH = 128
LENGTHS = (10, 20, 40)
DRAWS = 10
# supar returns log Z in float32.
TOLERANCES = {torch.float32: 1e-4, torch.float64: 1e-6}
TASKS = {
    "log Z": "log_z",
    "log Z, marginals": "log_z_and_marginals",
    f"{DRAWS} draws": "samples",
    "best tree": "best",
}


def scores_of(n: int, dtype: torch.dtype) -> Tensor:
    """Standard normal arc scores (BATCH, n+1, n+1), the same in every run."""
    generator = torch.Generator().manual_seed(n)
    return torch.randn(BATCH, n + 1, n + 1, dtype=torch.float64, generator=generator).to(dtype)


class Spanning(Pyrogram):
    """Ours, through the distribution."""

    def __init__(self) -> None:
        from pyrogram.distributions import DependencyTree

        self._tree = DependencyTree

    def log_z_and_marginals(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        return self.log_z_and_gradient(scores)


class SpanningTorchStruct(TorchStruct):
    """torch-struct's functions of ``NonProjectiveDependencyCRF``, without the 1e-5 that it adds to all weights."""

    def __init__(self) -> None:
        from torch_struct.deptree import deptree_nonproj, deptree_part

        self._part, self._marginals = deptree_part, deptree_nonproj

    def log_z(self, scores: Tensor) -> Tensor:
        with torch.no_grad():
            return self._part(scores, False, eps=0.0)

    def log_z_and_marginals(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            return self.log_z(scores), self._marginals(scores, False, eps=0.0)

    def samples(self, scores: Tensor, count: int) -> Any:
        raise NotImplementedError("torch-struct 0.5 draws no non-projective trees")

    def best(self, scores: Tensor) -> Tensor:
        raise NotImplementedError("torch-struct 0.5 finds no best non-projective tree")


class SpanningSupar(Supar):
    """supar's ``MatrixTree``; scores are [dependent, head], marginals the gradient."""

    def __init__(self) -> None:
        super().__init__()
        from supar.structs.tree import MatrixTree

        self._tree = MatrixTree

    def prepare(self, arcs: Tensor) -> Tensor:
        return arcs.mT.contiguous().requires_grad_()

    def log_z(self, scores: Tensor) -> Tensor:
        return self._tree(scores.detach()).forward(self._log)

    def log_z_and_marginals(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        return by_gradient(scores, self._tree(scores).forward(self._log))

    def best(self, scores: Tensor) -> Tensor:
        return self._tree(scores).argmax[:, 1:]


def engines() -> list[Any]:
    return [Spanning(), SpanningTorchStruct(), SpanningSupar()]


def agreement(rivals: list[Any], lengths: tuple[int, ...]) -> str:
    """A sentence on the worst differences from ours.

    :raises SystemExit: if log Z, a marginal, or the score of a best tree differs by more than the tolerance.
    """
    worst = dict.fromkeys(TOLERANCES, 0.0)
    for n in lengths:
        for dtype, tolerance in TOLERANCES.items():
            arcs = scores_of(n, dtype)
            ours = _results(rivals[0], arcs)
            for rival in rivals[1:]:
                for name, theirs in _results(rival, arcs).items():
                    difference = float(((theirs - ours[name]).abs() / ours[name].abs().clamp_min(1)).max())
                    worst[dtype] = max(worst[dtype], difference)
                    if not difference <= tolerance:
                        raise SystemExit(
                            f"{rival.name} and pyrogram differ in {name} by {difference:g} ({n=}, {dtype})"
                        )
    differences = " and ".join(f"{difference:.1e} in {_name(dtype)}" for dtype, difference in worst.items())
    return f"Engines agree: log Z (relatively), marginals, and scores of best trees differ by at most {differences}."


def _results(engine: Any, arcs: Tensor) -> dict[str, Tensor]:
    log_z, marginals = engine.log_z_and_marginals(engine.prepare(arcs))
    marginals = engine.restore(marginals).detach().clone()
    marginals[:, :, 0] = 0
    marginals.diagonal(dim1=1, dim2=2).zero_()
    results = {"log Z": log_z.detach(), "marginals": marginals}
    try:
        heads = engine.best(engine.prepare(arcs))
    except NotImplementedError:
        return results
    return results | {"scores of best trees": arcs[:, :, 1:].gather(1, heads[:, None]).sum((1, 2))}


def rows(rivals: list[Any], lengths: tuple[int, ...], threads: tuple[int, ...], seconds: float) -> list[list[str]]:
    """Rows: sentences/s (trees/s of draws) of every engine, and how many times faster ours is."""
    table = []
    for what, method in TASKS.items():
        dtypes = (torch.float64, torch.float32) if method.startswith("log_z") else (torch.float64,)
        for count in threads:
            for dtype in dtypes:
                for n in lengths:
                    works = {}
                    for engine in rivals:
                        arguments = (engine.prepare(scores_of(n, dtype)), *([DRAWS] if method == "samples" else []))
                        try:
                            getattr(engine, method)(*arguments)
                        except NotImplementedError:
                            continue
                        works[engine.name] = partial(getattr(engine, method), *arguments)
                    times = race(works, count, seconds)
                    numbers = _compared(times, rivals, DRAWS if method == "samples" else 1)
                    table.append([what, str(count), _name(dtype), str(n), *numbers])
                    print(" | ".join(table[-1]), flush=True)
    return table


HEADER = ["", "threads", "", "n", "pyrogram", "torch-struct", "supar", "times torch-struct", "times supar"]


def _compared(times: dict[str, Timing], rivals: list[Any], trees: int) -> list[str]:
    """Rates of all engines, and the ratio of ours to every other."""
    rates = [f"{float(f'{BATCH * trees / times[e.name].median:.3g}'):,.0f}" if e.name in times else "-" for e in rivals]
    ours = times[rivals[0].name]
    ratios = [f"{ours.times_faster_than(times[e.name]):.1f}" if e.name in times else "-" for e in rivals[1:]]
    return rates + ratios


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
