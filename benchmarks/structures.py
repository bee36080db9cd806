# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Trees of spans, segmentations and chains beside torch-struct's and supar's, and whether they agree.

Every engine is called in its fastest public way, with scores ready in its own layout. Draws of supar fail (1.1.4 does
not unpack what it saved), and it has no segmentations.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import peers
import torch
from peers import by_gradient
from timing import race
from torch import Tensor

DRAWS = 10
LENGTHS = (10, 20, 40)
WIDEST, LABELS, STATES = 6, 5, 20
NOT_THERE = "-"
HEADER = ["structure", "", "n", "pyrogram", "torch-struct", "supar", "times torch-struct", "times supar"]


def normal(*shape: int) -> Tensor:
    """Standard normal numbers, the same in every run."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(shape[1]), dtype=torch.float64)


class Spans:
    """Binary trees; every engine scores all spans, those of words too."""

    name, batch = "trees of spans", 512

    def __init__(self, n: int) -> None:
        from pyrogram.distributions import SpanTree

        scores = normal(self.batch, n, n + 1)
        leaf = scores.clone().requires_grad_()
        self.ours = partial(SpanTree, leaf, labelled=False), leaf
        import torch_struct

        # [first word, last word, label]
        theirs = scores[:, :, 1:].unsqueeze(-1).clone().requires_grad_()
        self.torch_struct = partial(torch_struct.TreeCRF, theirs), theirs, torch_struct.CKY_CRF
        peers.Supar()
        from supar.structs.tree import ConstituencyCRF

        # In memory the batch comes last, as its charts have it: then it copies none of them.
        square = torch.nn.functional.pad(scores, (0, 0, 0, 1)).permute(1, 2, 0).contiguous().permute(2, 0, 1)
        square = square.detach().requires_grad_()
        self.supar = partial(ConstituencyCRF, square), square


class Segments:
    """Labelled segments of six words at most, and pairs of labels."""

    name, batch = f"segments of {WIDEST} words, {LABELS} labels", 32

    def __init__(self, n: int) -> None:
        from pyrogram.distributions import Segmentation

        W, L = WIDEST, LABELS
        scores, pairs = normal(self.batch, n, W, L), normal(1, L, L)[0]
        leaf = scores.clone().requires_grad_()
        self.ours = partial(Segmentation, leaf, pairs), leaf
        import torch_struct

        # [first word, number of words, label, label before]; the label before the first segment is one of its own.
        edges = torch.full((self.batch, n, W + 1, L, L), -1e9, dtype=torch.float64)
        edges[:, :, 1:] = scores[..., None] + pairs.mT
        edges[:, 0, :, :, 1:] = -1e9
        edges[:, 0, 1:, :, 0] = scores[:, 0]
        first, width = torch.meshgrid(torch.arange(n), torch.arange(W + 1), indexing="ij")
        edges[:, first + width > n] = -1e9
        edges.requires_grad_()
        self.torch_struct = partial(torch_struct.SemiMarkovCRF, edges), edges, torch_struct.SemiMarkov
        self.supar = None


class Chains:
    """Chains of order one: the order that every engine has. torch-struct wants scores of each pair of neighbours."""

    name, batch = f"chains of {STATES} states, order 1", 128

    def __init__(self, n: int) -> None:
        from pyrogram.distributions import HigherOrderChain

        K = STATES
        states, pairs = normal(self.batch, n, K), normal(1, K, K)[0]
        leaf = states.clone().requires_grad_()
        self.ours = partial(HigherOrderChain, leaf, torch.nn.functional.pad(pairs, (0, 0, 0, 1)), order=1), leaf
        import torch_struct

        edges = (states[:, 1:, None, :] + pairs).mT.clone()  # [word, state, state before]
        edges[:, 0] += states[:, 0, None, :]
        edges.requires_grad_()
        self.torch_struct = partial(torch_struct.LinearChainCRF, edges), edges, torch_struct.LinearChain
        peers.Supar()
        from supar.structs.linearchain import LinearChainCRF

        theirs = states.clone().requires_grad_()
        around = torch.nn.functional.pad(pairs, (0, 1, 0, 1))
        self.supar = partial(LinearChainCRF, theirs, around), theirs


KINDS = (Spans, Segments, Chains)


def works_of(kind: Any) -> dict[str, dict[str, Callable[[], Any]]]:
    """By task and engine the work to time."""
    make, leaf = kind.ours
    other, edges, structure = kind.torch_struct
    import torch_struct

    log, best = torch_struct.LogSemiring, torch_struct.MaxSemiring

    def without_graph(call: Callable[[], Any]) -> Any:
        with torch.no_grad():
            return call()

    tasks: dict[str, dict[str, Callable[[], Any]]] = {
        "log Z": {
            "pyrogram": lambda: without_graph(lambda: make().log_partition),
            "torch-struct": lambda: without_graph(lambda: structure(log).sum(edges)),
        },
        "log Z, marginals": {
            "pyrogram": lambda: by_gradient(leaf, make().log_partition),
            "torch-struct": lambda: by_gradient(edges, structure(log).sum(edges)),
        },
        f"{DRAWS} draws": {
            "pyrogram": lambda: make().sample((DRAWS,)),
            "torch-struct": lambda: other().sample((DRAWS,)),
        },
        "best": {
            "pyrogram": lambda: without_graph(lambda: make().argmax()),
            "torch-struct": lambda: by_gradient(edges, structure(best).sum(edges)),
        },
    }
    if kind.supar is not None:
        from supar.structs.semiring import LogSemiring, MaxSemiring

        theirs, scores = kind.supar
        tasks["log Z"]["supar"] = lambda: without_graph(lambda: theirs().forward(LogSemiring))
        tasks["log Z, marginals"]["supar"] = lambda: by_gradient(scores, theirs().forward(LogSemiring))
        tasks["best"]["supar"] = lambda: by_gradient(scores, theirs().forward(MaxSemiring))
    return tasks


def agreement(lengths: tuple[int, ...]) -> str:
    """A sentence on the worst difference of log Z from ours.

    :raises SystemExit: if it is more than 1e-8 of log Z.
    """
    worst = 0.0
    for n in lengths:
        for make in KINDS:
            kind = make(n)  # type: ignore[operator]
            works = works_of(kind)["log Z"]
            ours = works["pyrogram"]()
            for engine, work in works.items():
                worst = max(worst, float(((work() - ours) / ours).abs().max()))
                if worst > 1e-8:
                    sys.exit(f"{engine} disagrees on log Z of {kind.name}, n = {n}: {worst:.1g}")
    return f"log Z of all engines agrees to {worst:.0e}."


def rows(lengths: tuple[int, ...], seconds: float) -> list[list[str]]:
    """Structures per second, and how many times faster ours is, on one thread."""
    table = []
    for make in KINDS:
        for n in lengths:
            kind = make(n)  # type: ignore[operator]
            for task, works in works_of(kind).items():
                times = race(works, 1, seconds)
                many = kind.batch * (DRAWS if "draws" in task else 1)
                rates = {
                    name: f"{float(f'{many / times[name].median:.3g}'):,.0f}" if name in times else NOT_THERE
                    for name in ("pyrogram", "torch-struct", "supar")
                }
                ratios = [
                    f"{times['pyrogram'].times_faster_than(times[name]):.0f}" if name in times else NOT_THERE
                    for name in ("torch-struct", "supar")
                ]
                table.append([kind.name, task, str(n), *rates.values(), *ratios])
                print(" | ".join(table[-1]), flush=True)
    return table
