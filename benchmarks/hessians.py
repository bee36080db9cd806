# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""A Hessian of log Z times a vector, beside the gradient of log Z: ``python benchmarks/hessians.py``.

Both are of 256 sentences of 20 words, float64, on one thread, by ``torch.autograd``; the graph of the gradient is at
hand when the Hessian's product is timed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from timing import race
from torch import Tensor

from pyrogram import CFG, DMV, HMM
from pyrogram.distributions import ProjectiveDependencyTree, SiblingDependencyTree

BATCH, LENGTH = 256, 20


def cases() -> dict[str, tuple[Callable[[], Tensor], Sequence[Tensor]]]:
    """Log Z by name, and the scores or log weights that it depends on."""
    N = LENGTH + 1

    def leaf(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=torch.float64).requires_grad_()

    arcs, first, second = leaf(BATCH, N, N), leaf(BATCH, N, N), leaf(BATCH, N, N, N)
    found: dict[str, tuple[Callable[[], Tensor], Sequence[Tensor]]] = {
        "trees": (lambda: ProjectiveDependencyTree(arcs, validate_args=False).log_partition, [arcs]),
        "trees of second order": (
            lambda: SiblingDependencyTree(first, second, validate_args=False).log_partition,
            [first, second],
        ),
    }
    grammars = {
        "DMV, 45 tags": DMV(45),
        "HMM, 10 states": HMM(10, 1000),
        "HMM, 45 states": HMM(45, 1000),
        "PCFG, 5 + 5": CFG.dense(5, 5, 50),
    }
    for name, grammar in grammars.items():
        logs = {block: leaf(*x.shape) for block, x in grammar.blocks.items()}
        words = torch.randint(grammar.num_words, (BATCH, LENGTH))
        found[name] = _log_partition(grammar, logs, words), list(logs.values())
    return found


def _log_partition(grammar: DMV | HMM | CFG, logs: Mapping[str, Tensor], words: Tensor) -> Callable[[], Tensor]:
    return lambda: grammar.log_partition(logs, words)


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    print("| | gradient, ms | Hessian times vector, ms | times |\n|---|---|---|---|")
    for name, (log_z, leaves) in cases().items():
        graph = torch.autograd.grad(log_z().sum(), leaves, create_graph=True)
        directions = [torch.randn_like(x) for x in leaves]

        def gradient(log_z: Callable[[], Tensor] = log_z, leaves: Sequence[Tensor] = leaves) -> object:
            return torch.autograd.grad(log_z().sum(), leaves)

        def product(
            graph: Sequence[Tensor] = graph, leaves: Sequence[Tensor] = leaves, u: Sequence[Tensor] = directions
        ) -> object:
            return torch.autograd.grad(graph, leaves, u, retain_graph=True)

        times = race({"gradient": gradient, "product": product}, threads=1, seconds=2.0)
        one, other = times["gradient"], times["product"]
        ratio = one.times_faster_than(other)
        print(f"| {name} | {1e3 * one.median:.2f} | {1e3 * other.median:.2f} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()
