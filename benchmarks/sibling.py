# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Second-order projective trees: log Z and marginals beside supar's ``Dependency2oCRF``, and whether they agree.

torch-struct has no second order. supar takes the scores of first children from arcs alone, so they are added there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import peers
import torch
from timing import race
from torch import Tensor

BATCH = 128
LENGTHS = (10, 20, 40)
TOLERANCES = {torch.float32: 1e-4, torch.float64: 1e-8}
Scores = tuple[Tensor, Tensor]


def scores_of(n: int, dtype: torch.dtype, batch: int = BATCH) -> Scores:
    """Standard normal scores of arcs and of siblings, the same in every run; none for first children."""
    generator = torch.Generator().manual_seed(n)
    arcs = torch.randn(batch, n + 1, n + 1, dtype=torch.float64, generator=generator)
    siblings = torch.randn(batch, n + 1, n + 1, n + 1, dtype=torch.float64, generator=generator)
    siblings.diagonal(dim1=1, dim2=3).zero_()
    return arcs.to(dtype), siblings.to(dtype)


class Pyrogram:
    """Ours, through the distribution."""

    name = "pyrogram"

    def __init__(self) -> None:
        from pyrogram.distributions import SiblingDependencyTree

        self._tree = SiblingDependencyTree

    def prepare(self, scores: Scores) -> Scores:
        arcs, siblings = (x.clone().requires_grad_() for x in scores)
        return arcs, siblings

    def restore(self, gradients: Scores) -> Scores:
        return gradients

    def log_z(self, scores: Scores) -> Tensor:
        with torch.no_grad():
            return self._tree(*scores).log_partition

    def log_z_and_gradient(self, scores: Scores) -> tuple[Tensor, Scores]:
        return _by_gradient(scores, self._tree(*scores).log_partition)


class Supar:
    """supar's ``Dependency2oCRF``; scores are [dependent, head] and [dependent, head, sibling].

    In memory the batch comes last, as its charts have it: then it copies none of them, which is how it is fastest.
    """

    name = "supar"

    def __init__(self) -> None:
        peers.Supar()  # makes its charts importable
        from supar.structs.semiring import LogSemiring
        from supar.structs.tree import Dependency2oCRF

        self._crf, self._log = Dependency2oCRF, LogSemiring

    def prepare(self, scores: Scores) -> Scores:
        arcs, siblings = scores
        return (
            arcs.permute(1, 2, 0).contiguous().permute(2, 1, 0).detach().requires_grad_(),
            siblings.permute(1, 2, 3, 0).contiguous().permute(3, 1, 0, 2).detach().requires_grad_(),
        )

    def restore(self, gradients: Scores) -> Scores:
        arcs, siblings = gradients
        return arcs.transpose(1, 2), siblings.transpose(1, 2)

    def log_z(self, scores: Scores) -> Tensor:
        with torch.no_grad():
            return self._crf(scores).forward(self._log).detach()

    def log_z_and_gradient(self, scores: Scores) -> tuple[Tensor, Scores]:
        return _by_gradient(scores, self._crf(scores).forward(self._log))


def _by_gradient(scores: Scores, log_z: Tensor) -> tuple[Tensor, Scores]:
    """log Z and its gradients at leaves."""
    for x in scores:
        x.grad = None
    log_z.sum().backward()
    by_arcs, by_siblings = (x.grad for x in scores)
    assert by_arcs is not None and by_siblings is not None
    return log_z, (by_arcs, by_siblings)


def agreement(engines: list[Any], lengths: tuple[int, ...]) -> str:
    """A sentence on the worst differences from ours.

    :raises SystemExit: if log Z or a marginal differs by more than the tolerance.
    """
    worst = dict.fromkeys(TOLERANCES, 0.0)
    for n in lengths:
        for dtype, tolerance in TOLERANCES.items():
            scores = scores_of(n, dtype, batch=8)
            expected: list[Tensor] = []
            for engine in engines:
                log_z, gradients = engine.log_z_and_gradient(engine.prepare(scores))
                by_arcs, by_siblings = engine.restore(gradients)
                siblings = by_siblings.detach().clone()
                siblings.diagonal(dim1=1, dim2=3).zero_()
                actual = [log_z.detach(), by_arcs.detach(), siblings]
                expected = expected or actual
                for what, a, e in zip(("log Z", "arcs", "siblings"), actual, expected, strict=True):
                    difference = float(((a - e).abs() / e.abs().clamp_min(1)).max())
                    worst[dtype] = max(worst[dtype], difference)
                    if not difference <= tolerance:
                        where = f"n={n}, {_name(dtype)}"
                        raise SystemExit(f"{engine.name} and pyrogram differ in {what} by {difference:g} ({where})")
    differences = " and ".join(f"{difference:.1e} in {_name(dtype)}" for dtype, difference in worst.items())
    return f"Both agree: log Z (relatively) and marginals differ by at most {differences}."


def charts(engines: list[Any], lengths: tuple[int, ...], threads: tuple[int, ...], seconds: float) -> list[list[str]]:
    """Rows: sentences/s of both and how many times faster ours is, for log Z and for log Z with marginals."""
    rows = []
    for what, method in (("log Z", "log_z"), ("log Z, marginals", "log_z_and_gradient")):
        for count in threads:
            for dtype in (torch.float64, torch.float32):
                for n in lengths:
                    works: dict[str, Callable[[], Any]] = {
                        e.name: partial(getattr(e, method), e.prepare(scores_of(n, dtype))) for e in engines
                    }
                    times = race(works, count, seconds)
                    rates = [f"{float(f'{BATCH / times[e.name].median:.3g}'):,.0f}" for e in engines]
                    ratio = times[engines[0].name].times_faster_than(times[engines[1].name])
                    rows.append([what, str(count), _name(dtype), str(n), *rates, f"{ratio:.0f}"])
                    print(" | ".join(rows[-1]), flush=True)
    return rows


HEADER = ["", "threads", "", "n", "pyrogram", "supar", "times supar"]


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


if __name__ == "__main__":
    both = [Pyrogram(), Supar()]
    chosen = tuple(int(n) for n in sys.argv[1:]) or LENGTHS
    print(agreement(both, chosen))
    charts(both, chosen, (1, 2), 2.0)
