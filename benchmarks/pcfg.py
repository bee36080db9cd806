# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Context-free grammars: log Z with expected rule counts and draws, beside torch-struct.

``python3 benchmarks/pcfg.py`` runs these alone, in the environment that ``run.py`` makes.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from timing import Timing, Work, race
from torch import Tensor

from pyrogram import CFG

HEADER = [
    "grammar", "n", "", "threads", "batch", "log Z", "log Z, counts", "draws", "torch-struct: log Z, counts", "times",
]  # fmt: skip
WORDS = 50
NEVER = -1e9  # how torch-struct is told that there is no such rule


@dataclass(frozen=True)
class Task:
    """A grammar over nonterminals, the first of which starts, and preterminals, with so many rules (None: all)."""

    nonterminals: int
    preterminals: int
    n: int
    batch: int
    peer_batch: int
    rules: int | None = None

    @property
    def name(self) -> str:
        kind = "dense" if self.rules is None else f"{self.rules:,} rules"
        return f"{self.nonterminals} + {self.preterminals}, {kind}"

    def binary(self) -> np.ndarray:
        """Rules (Nb, 3), the same in every run."""
        S = self.nonterminals + self.preterminals
        grid = np.meshgrid(np.arange(self.nonterminals), np.arange(S), np.arange(S), indexing="ij")
        every = np.stack([axis.ravel() for axis in grid], 1)
        if self.rules is None:
            return every
        return every[np.sort(np.random.default_rng(0).choice(len(every), self.rules, replace=False))]

    def words(self, batch: int) -> np.ndarray:
        return np.random.default_rng(1).integers(WORDS, size=(batch, self.n))

    def weights(self, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Log weights of the binary rules and (P, WORDS) of the lexical ones, normalised."""
        generator = torch.Generator().manual_seed(2)
        binary = self.binary()
        raw = torch.rand(len(binary), dtype=torch.float64, generator=generator) + 0.1
        parent = torch.from_numpy(binary[:, 0])
        totals = torch.zeros(self.nonterminals, dtype=torch.float64).index_add_(0, parent, raw)
        emissions = torch.rand(self.preterminals, WORDS, dtype=torch.float64, generator=generator) + 0.1
        emissions = emissions / emissions.sum(1, keepdim=True)
        return (raw / totals[parent]).log().to(dtype), emissions.log().to(dtype)


TASKS = (
    Task(5, 5, 10, 512, 64),
    Task(10, 10, 10, 512, 64),
    Task(10, 10, 20, 256, 32),
    Task(30, 30, 10, 512, 16, rules=1000),
    Task(30, 30, 20, 256, 4, rules=1000),
    Task(30, 30, 20, 64, 4),
)


class Pyrogram:
    """The charts, with weights as they come from a loop: one tensor of all rules."""

    def __init__(self, task: Task, dtype: torch.dtype) -> None:
        K, P, B = task.nonterminals, task.preterminals, task.batch
        symbols = [f"N{a}" for a in range(K)] + [f"T{t}" for t in range(P)]
        rules: list[tuple[str, list[str]]] = [(symbols[a], [symbols[b], symbols[c]]) for a, b, c in task.binary()]
        rules += [(symbols[K + t], [f"w{w}"]) for t in range(P) for w in range(WORDS)]
        self.grammar = CFG(rules, "N0")
        weights = torch.cat([t.flatten() for t in task.weights(dtype)])
        self.weights = {"rules": torch.empty_like(weights).index_copy_(0, self.grammar.block_order, weights)}
        self.words = torch.from_numpy(task.words(B))

    def log_z(self) -> Tensor:
        return self.grammar.log_partition(self.weights, self.words)

    def counts(self) -> tuple[Tensor, Tensor]:
        """The counts in the order of the task's rules."""
        log_z, counts = self.grammar.expected_counts(self.weights, self.words)
        return log_z, counts["rules"][self.grammar.block_order]

    def draws(self) -> Tensor:
        return self.grammar.draw(self.grammar.expanded(self.weights, self.words.shape[:1]), self.words, 1)


class TorchStruct:
    """torch-struct's chart for ``SentCFG``; weights are shared by the batch through ``expand``, and it has no draws."""

    def __init__(self, task: Task, dtype: torch.dtype) -> None:
        from torch_struct import CKY, LogSemiring

        self.chart = CKY(LogSemiring)
        K, P, B = task.nonterminals, task.preterminals, task.peer_batch
        S = K + P
        rules, self.emissions = task.weights(dtype)
        self.rules = torch.full((K, S, S), NEVER, dtype=dtype)
        self.rules[tuple(torch.from_numpy(task.binary()).T)] = rules
        self.roots = torch.full((B, K), NEVER, dtype=dtype)
        self.roots[:, 0] = 0.0
        self.words = torch.from_numpy(task.words(B))

    def counts(self) -> tuple[Tensor, Tensor, Tensor]:
        rules, emissions = self.rules.clone().requires_grad_(), self.emissions.clone().requires_grad_()
        B = len(self.words)
        terms = emissions.T[self.words]
        log_z: Any = self.chart.logpartition((terms, rules.expand(B, *rules.shape), self.roots.clone()))[0]
        log_z.sum().backward()
        assert rules.grad is not None and emissions.grad is not None
        return log_z.flatten().detach(), rules.grad, emissions.grad


def agreement() -> str:
    """A sentence on the worst differences of torch-struct's results from ours.

    :raises SystemExit: if log Z or a count differs by more than a ten-thousandth.
    """
    worst = 0.0
    for task in TASKS:
        ours, theirs = Pyrogram(task, torch.float64), TorchStruct(task, torch.float64)
        log_z, rules, emissions = theirs.counts()
        ours.words = ours.words[: task.peer_batch]
        own_z, counts = ours.counts()
        split = len(task.binary())
        pairs = (
            (own_z, log_z),
            (counts[:split], rules[tuple(torch.from_numpy(task.binary()).T)]),
            (counts[split:], emissions.flatten()),
        )
        difference = max(float(((a - b).abs() / a.abs().clamp_min(1)).max()) for a, b in pairs)
        if not difference <= 1e-4:
            raise SystemExit(f"torch-struct and pyrogram differ by {difference:g} ({task.name}, n={task.n})")
        worst = max(worst, difference)
    return f"Engines agree: log Z and expected counts differ by at most {worst:.1e}."


def charts(threads: tuple[int, ...], seconds: float, tasks: tuple[Task, ...] = TASKS) -> list[list[str]]:
    """Rows: sentences/s for log Z, for log Z with counts, and for one draw of each sentence with its inside pass."""
    rows = []
    for task in tasks:
        for dtype in (torch.float64, torch.float32):
            for count in threads:
                ours, theirs = Pyrogram(task, dtype), TorchStruct(task, dtype)
                works: dict[str, Work] = {name: getattr(ours, name) for name in ("log_z", "counts", "draws")}
                works["torch-struct"] = partial(theirs.counts)
                times = race(works, count, seconds)
                rates = [_rate(times[name], task.batch) for name in ("log_z", "counts", "draws")]
                scale = task.batch / task.peer_batch
                factor = times["counts"].times_faster_than(times["torch-struct"]) * scale
                kind = [task.name, str(task.n), str(dtype).removeprefix("torch."), str(count), str(task.batch)]
                rows.append([*kind, *rates, _rate(times["torch-struct"], task.peer_batch), f"{factor:,.0f}"])
                print(" | ".join(rows[-1]), flush=True)
    return rows


def _rate(timing: Timing, sentences: int) -> str:
    return f"{float(f'{sentences / timing.median:.3g}'):,.0f}"


if __name__ == "__main__":
    import warnings

    from run import ENVIRONMENT

    if not sys.prefix.startswith(str(ENVIRONMENT)):
        raise SystemExit(f"run it by {ENVIRONMENT}/bin/python")
    warnings.filterwarnings("ignore", category=UserWarning)
    torch.set_num_threads(1)
    print(agreement())
    print(" | ".join(HEADER))
    charts((1,), 3.0)
